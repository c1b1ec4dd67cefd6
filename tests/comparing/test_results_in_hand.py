"""Evaluations in hand go where run ids do: `jrh.compare` and `jrh.jury` take either, from any store."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import jrh_mlflow as jrh
from jrh_mlflow.errors import RecipeError

SUITE = jrh.datasheet_suite(n_tasks=4, depth=1)


def prefers_longer(shown: jrh.Presentation) -> str:
    return "1" if len(shown.first or "") > len(shown.second or "") else "2"


@pytest.fixture(scope="module")
def other_uri(store_uri: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A second store: a copy of the first before anything is in it but its tables."""
    copy = tmp_path_factory.mktemp("other") / "mlflow.db"
    shutil.copy(store_uri.removeprefix("sqlite:///"), copy)
    return f"sqlite:///{copy}"


@pytest.fixture(scope="module")
def done(store_uri: str, other_uri: str) -> Iterator[dict[str, jrh.Evaluation]]:
    """None of them is in the active store, which is one of the test's working directory."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JRH_HOME", str(Path.cwd() / ".jrh"))
        judges = {
            "longer": (prefers_longer, store_uri),
            "first": (jrh.scripted.AlwaysFirst(), store_uri),
            "elsewhere": (jrh.scripted.Oracle(), other_uri),
        }
        yield {
            name: jrh.evaluate(judge, SUITE, experiment="in-hand", tracking_uri=uri, traces="none", progress=False)
            for name, (judge, uri) in judges.items()
        }


def test_evaluations_are_compared_in_the_store_that_has_them(done, store_uri):
    compared = jrh.compare([done["longer"], done["first"]])
    assert [run.run_id for run in compared.runs] == [done["longer"].run_id, done["first"].run_id]
    assert store_uri in compared.link


def test_evaluations_and_run_ids_mix(done, store_uri):
    ids = [done["longer"].run_id, done["first"].run_id]
    mixed = jrh.compare([done["longer"], f"runs:/{ids[1]}"], log=False)
    assert mixed.contrasts == jrh.compare(ids, tracking_uri=store_uri, log=False).contrasts


def test_a_jury_takes_evaluations(done, store_uri):
    jury = jrh.jury([done["longer"], done["first"]])
    assert [run.run_id for run in jury.runs] == [done["longer"].run_id, done["first"].run_id]
    assert store_uri in jury.link


def test_evaluations_of_two_stores_are_compared_and_the_user_says_where_the_result_goes(done, other_uri):
    runs = [done["longer"], done["elsewhere"]]
    assert len(jrh.compare(runs, log=False).runs) == 2
    assert other_uri in jrh.compare(runs, tracking_uri=other_uri).link
    with pytest.raises(RecipeError, match=r"in several stores .*Say with `tracking_uri` which one gets the result"):
        jrh.compare(runs)


def test_an_id_that_the_store_of_the_others_does_not_have_is_named_with_the_store(done, store_uri):
    with pytest.raises(RecipeError, match=f"no run {done['elsewhere'].run_id} in the store at {store_uri}"):
        jrh.jury([done["longer"], done["elsewhere"].run_id])


@pytest.mark.parametrize("wrong", ["done", "sheet", "number"])
def test_what_is_no_list_of_runs_is_refused_in_one_line(done, wrong):
    runs = {"done": done["longer"], "sheet": [done["longer"], done["longer"].sheet], "number": [1, 2]}[wrong]
    for verb in (jrh.compare, jrh.jury):
        with pytest.raises(RecipeError, match=r"at least two runs|A run is an `Evaluation`"):
            verb(runs)


def test_the_calls_in_hand_are_measured_again(done):
    assert jrh.measure(done["longer"].calls) == done["longer"].datasheet
