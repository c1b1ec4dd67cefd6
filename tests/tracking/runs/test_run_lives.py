"""Runs under the user's own, runs that were deleted, and names that tell runs apart."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import mlflow
import pytest
from mlflow import MlflowClient

import jrh_mlflow as jrh
from jrh_mlflow.errors import RecipeError, TrackingError
from jrh_mlflow.tracking.runs.read import logged_evaluation, run_family, run_summary
from tests.finished import FinishedRuns

SUITE = jrh.Suite(name="lives", items=jrh.datasheet_suite(n_tasks=2, depth=1).items[:4])
OTHER = jrh.Suite(name="other lives", items=SUITE.items[:3])
FIRST = jrh.scripted.AlwaysFirst()


@pytest.fixture
def active(store_uri: str) -> Iterator[MlflowClient]:
    mlflow.set_tracking_uri(store_uri)
    mlflow.set_experiment("lives")
    yield MlflowClient(store_uri)
    mlflow.set_tracking_uri(None)


def _parent(client: MlflowClient, run_id: str) -> str | None:
    return client.get_run(run_id).data.tags.get("mlflow.parentRunId")


def test_an_evaluation_is_nested_under_the_open_run_of_its_experiment(active: MlflowClient) -> None:
    with mlflow.start_run() as outer:
        inside = jrh.evaluate(FIRST, SUITE, traces="none")
        elsewhere = jrh.evaluate(FIRST, SUITE, traces="none", experiment="not of the open run")
    after = jrh.evaluate(FIRST, SUITE, traces="none")
    parents = [_parent(active, done.run_id) for done in (inside, elsewhere, after)]
    assert parents == [outer.info.run_id, None, None]


def test_a_run_that_is_deleted_while_it_is_asked_does_not_go_on_running(active: MlflowClient) -> None:
    def judge(_: object) -> str:
        (run,) = active.search_runs(_experiment(active), "attributes.status = 'RUNNING'") or [None]
        with contextlib.suppress(TypeError):
            active.delete_run(run.info.run_id)
            deleted.append(run.info.run_id)
        return "tie"

    deleted: list[str] = []
    with pytest.raises(TrackingError, match="deleted"):
        jrh.evaluate(judge, SUITE, traces="none", concurrency=1)
    info = active.get_run(deleted[0]).info
    assert (info.status, info.lifecycle_stage) == ("FAILED", "deleted")


def _experiment(client: MlflowClient) -> list[str]:
    return [client.get_experiment_by_name("lives").experiment_id]


def test_a_deleted_run_is_used_by_nothing_and_named_as_deleted(finished_copy: FinishedRuns) -> None:
    uri, client = finished_copy.uri, MlflowClient(finished_copy.uri)
    first, second = finished_copy["first"], finished_copy["longer"]
    measured = jrh.evaluate(jrh.scripted.LongerWins(), SUITE, tracking_uri=uri, traces="none", experiment="lives")
    exported = jrh.to_mlflow(measured, tracking_uri=uri)
    for run_id in (second, measured.run_id):
        client.delete_run(run_id)
    uses = [
        lambda: jrh.status(second, tracking_uri=uri),
        lambda: jrh.status(second[:10], tracking_uri=uri),
        lambda: jrh.compare([first, second], tracking_uri=uri),
        lambda: jrh.gate(second, ["dark_current <= 1"], tracking_uri=uri),
        lambda: jrh.to_mlflow(second, tracking_uri=uri),
        lambda: logged_evaluation(uri, second),
    ]
    for use in uses:
        with pytest.raises(RecipeError, match="was deleted"):
            use()
    found = jrh.status(exported, tracking_uri=uri)
    assert (found.state, found.run_id) == ("never measured", None)
    assert "was deleted" in found.reason
    shown = run_summary(uri, second)
    assert shown is not None
    assert (shown.status, shown.name.endswith("(deleted)")) == ("DELETED", True)
    jury = run_summary(uri, finished_copy["jury"])
    assert jury is not None
    sources = {source.run_id: source.status for source in run_family(uri, jury).sources}
    assert (sources[first], sources[second]) == ("FINISHED", "DELETED")


@pytest.mark.slow
def test_runs_of_one_judge_that_may_read_differently_have_different_names(active: MlflowClient) -> None:
    where = {"traces": "none", "experiment": "names"}
    named = jrh.scripted.Noisy(dark_current=0.2), jrh.scripted.Noisy(dark_current=0.9)
    runs = [
        jrh.evaluate(named[0], SUITE, **where),
        jrh.evaluate(named[0], OTHER, **where),
        jrh.evaluate(named[0], SUITE, replicates=2, **where),
        jrh.evaluate(named[1], SUITE, **where),
        jrh.evaluate(named[0], jrh.Suite(name="lives", items=SUITE.items[:2]), **where),
    ]
    again = jrh.evaluate(named[0], SUITE, **where)
    names = [active.get_run(done.run_id).info.run_name for done in (*runs, again)]
    assert len(set(names[:-1])) == len(runs)
    assert names[-1] == names[0] == runs[0].judge.label
    assert names[1] == f"{names[0]} on other lives"
    with_name = jrh.evaluate(named[1], SUITE, run_name="as I say", **where)
    assert active.get_run(with_name.run_id).info.run_name == "as I say"
    # A run of the user's own has no setup: what is called as it is would not be told from it.
    experiment = active.get_run(again.run_id).info.experiment_id
    active.create_run(experiment, run_name=names[0])
    assert active.get_run(jrh.evaluate(named[0], SUITE, **where).run_id).info.run_name.startswith(f"{names[0]} on ")


def test_the_words_of_an_own_tie_criterion_are_a_param_cut_at_500_characters(active: MlflowClient) -> None:
    client, words = active, "Say tie when both are right. "
    for text in (words.strip(), (words * 40).strip()):
        done = jrh.evaluate(FIRST.with_criterion(text), SUITE, traces="none")
        logged = client.get_run(done.run_id).data.params["judge.tie_criterion_text"]
        assert len(logged) == min(len(text), 500)
        assert text.startswith(logged.removesuffix("…"))
        assert text in mlflow.artifacts.load_text(f"runs:/{done.run_id}/judge/prompt.txt")
    usual = jrh.evaluate(FIRST, SUITE, traces="none")
    assert "judge.tie_criterion_text" not in client.get_run(usual.run_id).data.params
    hidden = jrh.evaluate(FIRST.with_criterion(words.strip()), SUITE, traces="none", texts=False)
    assert words.strip() not in str(client.get_run(hidden.run_id).data.params) or hidden.judge.simulated
