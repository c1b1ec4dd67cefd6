"""Pages of how to on decisions: comparisons, gates, `passed`, `until` and plans, as printed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

import mlflow
import pandas as pd
import pytest

import jrh_mlflow as jrh
from jrh_mlflow.stats import power
from jrh_mlflow.tracking.mlflow_server import folder_uri
from tests.docs.blocks import ROOT
from tests.docs.printed import Printed
from tests.docs.world import World, prepared
from tests.people.test_passed_mlflow import SAID, TRUE, polite, ratings
from tests.tracking.traces.trace_tools import logging_traces

# Of MLflow's own imports, and of judges that are not measured.
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Whole suites, since the pages show numbers; the same plan is computed once."""
    folder = tmp_path_factory.mktemp("decisions")
    with prepared(folder_uri(folder), folder, small=False) as world, pytest.MonkeyPatch.context() as patch:
        for name in ("expected_interval", "simulated_power"):
            patch.setattr(power, name, cache(getattr(power, name)))
        yield world


@pytest.fixture(scope="module")
def runs(world: World) -> list[str]:
    """The two judges of which the pages show outputs."""
    judges = [jrh.scripted.profile(name) for name in ("Qwen14B", "Qwen32B")]
    return [jrh.evaluate(judge, progress=False, traces="none").run_id for judge in judges]


@pytest.fixture
def here(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    here = replace(world, folder=tmp_path)
    here.enter(monkeypatch)
    return here


def test_a_comparison(here: World, runs: list[str]) -> None:
    a, b = runs
    words = {"RUN_A": a, "RUN_B": b}
    page = Printed("docs/howto/compare.md", here, names={"a": a, "b": b}, words=words, shown=True).run()
    assert not page.names["found"].differences["told_apart"].any()


def test_a_gate(here: World, runs: list[str]) -> None:
    run, main = runs

    def gated(policy: Path) -> None:
        text = policy.read_text(encoding="utf-8")
        policy.write_text(text.replace("3f2a9c01b71d4e22", main), encoding="utf-8")
        assert len(jrh.gate(run, policy=policy, log=False).checks) == 2

    words = {"RUN": run, "MAIN_RUN": main}
    readers = [("gate.yaml", gated)]
    Printed("docs/howto/gate.md", here, names={"run": run}, words=words, readers=readers, shown=True).run()
    assert Path("gate.xml").is_file()


def test_plans_and_stopping_early(here: World, runs: list[str]) -> None:
    page = Printed("docs/howto/plan.md", here, words={"RUN": runs[0]}, shown=True).run()
    assert page.names["done"].stopped.passed


def answer(question: str) -> str:
    return "please" if int(question) % 3 == 0 else "no"


def test_whether_an_application_passed(here: World) -> None:
    ratings().to_csv("ratings.csv", index=False)
    rows = [{"inputs": {"question": str(place)}} for place in range(20)]
    names = {"rows": rows, "answer": mlflow.trace(answer), "polite": polite}
    names |= {"verdicts": [True] * 100, "labelled": pd.DataFrame({"judge": SAID, "human": TRUE})}
    page = Printed("docs/howto/passed.md", here, names=names).run()
    assert page.names["gate"].passed
    with logging_traces(here.uri, "answers"):
        # What is compiled here is not rewritten by pytest: the message it would show is made below.
        with pytest.raises(AssertionError):
            page.names["test_answers_are_polite"]()
        (run,) = here.client.search_runs([here.client.get_experiment_by_name("answers").experiment_id])
        gate = jrh.passed(run.info.run_id, page.names["agreement"].run_id, max_failure=0.2, sampling="stratified")
    assert f"AssertionError: assert {gate!r}" in (ROOT / page.page).read_text(encoding="utf-8")
