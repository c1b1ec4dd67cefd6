"""Alignment on a real MLflow store, with a judge of `make_judge` whose model is on loopback."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import Any

import mlflow
import pandas as pd
import pytest
from mlflow import MlflowClient
from mlflow.genai import make_judge

import jrh_mlflow as jrh
from jrh_mlflow.errors import JrhWarning, JudgeError, TrackingError
from jrh_mlflow.people.alignment import optimizer as module
from jrh_mlflow.schema.estimates import Estimate
from tests.people.alignment.align_tools import Returns, does_nothing
from tests.people.loopback_judge import GUIDELINE, MODEL, AddsGuideline, judging, lenient_judge
from tests.people.rated_store import NAME, RatedStore, rate_traces
from tests.tracking.judges.mlflow_chat import KEY, ChatServer

pytestmark = pytest.mark.filterwarnings("ignore:.*held-out traces cannot show:jrh_mlflow.errors.JrhWarning")


@pytest.fixture(scope="module")
def rated(store_uri: str) -> RatedStore:
    """60 traces: many wrong answers, on which the lenient judge is wrong too."""
    return rate_traces(store_uri, "to align", n=60, pass_rate=0.4, values=(False, True))


@pytest.fixture
def server(rated: RatedStore, monkeypatch: pytest.MonkeyPatch) -> Iterator[ChatServer]:
    with judging(rated, monkeypatch) as server:
        yield server


def traces_of(rated: RatedStore) -> list[Any]:
    return list(MlflowClient(rated.uri).search_traces(locations=[rated.experiment_id], max_results=200))


def read(rated: RatedStore, run_id: str, name: str) -> str:
    path = mlflow.artifacts.download_artifacts(run_id=run_id, artifact_path=name, tracking_uri=rated.uri)
    return Path(path).read_text(encoding="utf-8")


def test_mlflows_align_with_a_checked_optimiser_logs_a_run_with_all_there_is_to_know(rated, server):
    inner, judge = AddsGuideline(), lenient_judge()
    optimizer = jrh.CheckedOptimizer(inner, tracking_uri=rated.uri, tags={"team": "support"})
    aligned = judge.align(traces_of(rated), optimizer=optimizer)
    done = optimizer.result
    assert done is not None
    assert (done.decision, aligned) == ("better", done.judge)
    assert GUIDELINE in aligned.instructions

    # HUMAN labels only, and what the optimiser saw is not what it is measured on.
    majority = {item: str(label).lower() for item, label in rated.majority.items()}
    assert {one.trace: one.label for one in done.report.traces}.items() <= majority.items()
    assert set(inner.seen).isdisjoint(one.trace for one in done.report.traces)
    asked = json.dumps(server.bodies)
    assert "ann@example.com" not in asked
    assert "HUMAN" not in asked

    cost = done.cost["after"]
    assert cost.calls == 2 * len(done.report.traces)
    assert (cost.input_tokens, cost.output_tokens) == (11 * cost.calls, 7 * cost.calls)

    run = MlflowClient(rated.uri).get_run(done.run_id)
    assert (run.info.status, run.info.experiment_id) == ("FINISHED", rated.experiment_id)
    assert (run.data.tags["jrh.kind"], run.data.tags["jrh.decision"], run.data.tags["team"]) == (
        "align",
        "better",
        "support",
    )
    assert run.data.params["align.optimizer"] == "AddsGuideline"
    assert run.data.params["judge.model"] == "openai:/gpt-4o-mini"
    assert run.data.params["judge.instructions_sha256"] != run.data.params["aligned.instructions_sha256"]
    assert isinstance(done.difference, Estimate)
    assert run.data.metrics["align/difference/value"] == pytest.approx(done.difference.value)
    assert run.data.metrics["align/difference/ci_low"] > 0
    assert run.data.metrics["align/after/consistency/rate"] == 1
    assert run.data.metrics == pytest.approx(done.metrics)
    assert "it is better" in run.data.tags["mlflow.note.content"]

    assert json.loads(read(rated, done.run_id, "alignment.json"))["decision"] == "better"
    assert "it is better" in read(rated, done.run_id, "alignment.md")
    assert GUIDELINE in read(rated, done.run_id, "judge/after.txt")
    assert GUIDELINE not in read(rated, done.run_id, "judge/before.txt")
    figures = MlflowClient(rated.uri).list_artifacts(done.run_id, "figures")
    assert [one.path for one in figures] == ["figures/difference.svg"]
    table = pd.read_csv(StringIO(read(rated, done.run_id, "tables/held_out.csv")))
    assert set(table["trace"]) == {one.trace for one in done.report.traces}
    assert table["link"].str.contains(f"/experiments/{rated.experiment_id}/traces\\?.*selectedEvaluationId=tr-").all()
    assert table["after_right"].mean() == pytest.approx(run.data.metrics["align/after/accuracy/rate"])
    assert KEY not in json.dumps([done.to_dict(), run.data.tags, run.data.params])


@pytest.mark.slow
def test_a_judge_that_is_sent_back_is_in_the_run_all_the_same(rated, server):
    def spoil(judge: Any, _: Any) -> Any:
        server.reply = lambda _: json.dumps({"result": True, "rationale": "Yes."})
        return judge

    judge = lenient_judge()
    optimizer = jrh.CheckedOptimizer(Returns(spoil), tracking_uri=rated.uri, suite=None, experiment="sent elsewhere")
    with pytest.warns(JrhWarning, match="Sent back, "):
        assert judge.align(traces_of(rated), optimizer=optimizer) is judge
    done = optimizer.result
    assert done is not None
    run = MlflowClient(rated.uri).get_run(done.run_id)
    assert run.data.tags["jrh.decision"] == "sent back"
    assert run.data.tags["jrh.verdict"].startswith("The judge stays as it was.")
    assert run.info.experiment_id != rated.experiment_id
    assert "align/after/consistency/rate" not in run.data.metrics


def test_a_run_whose_optimiser_fails_is_marked_as_failed(rated, server):
    def fail(*_: Any) -> Any:
        raise RuntimeError("no more credit")

    optimizer = jrh.CheckedOptimizer(Returns(fail), tracking_uri=rated.uri, run_name="it fails", suite=None)
    with pytest.raises(RuntimeError, match="no more credit"):
        lenient_judge().align(traces_of(rated), optimizer=optimizer)
    assert optimizer.result is None
    (run,) = MlflowClient(rated.uri).search_runs([rated.experiment_id], "attributes.run_name = 'it fails'")
    assert run.info.status == "FAILED"
    assert "RuntimeError: no more credit" in run.data.tags["mlflow.note.content"]
    assert (run.data.params["judge.name"], run.data.params["align.optimizer"]) == (NAME, "Returns")
    assert "no more credit" in read(rated, run.info.run_id, "failure.txt")
    # What the judge said before was paid for.
    table = pd.read_csv(StringIO(read(rated, run.info.run_id, "tables/held_out.csv")))
    assert len(table) == len(server.bodies)
    assert set(table["before_outcome"]) == {"verdict"}
    assert "after_outcome" not in table


@pytest.mark.slow
def test_a_judge_that_hardly_answers_is_one_line_in_the_error_and_in_the_run(rated, server):
    server.reply = lambda _: 400
    optimizer = jrh.CheckedOptimizer(does_nothing(), tracking_uri=rated.uri, run_name="silent", suite=None)
    with pytest.raises(JudgeError) as found:
        lenient_judge().align(traces_of(rated), optimizer=optimizer)
    assert "\n" not in str(found.value)
    (run,) = MlflowClient(rated.uri).search_runs([rated.experiment_id], "attributes.run_name = 'silent'")
    assert str(found.value) in run.data.tags["mlflow.note.content"]
    table = pd.read_csv(StringIO(read(rated, run.info.run_id, "tables/held_out.csv")))
    assert set(table["before_outcome"]) == {"error"}


def test_an_alignment_that_was_paid_for_is_not_lost_with_the_store(rated, server, monkeypatch):
    def gone(*_: Any, **__: Any) -> None:
        raise TrackingError("The MLflow store cannot be reached.")

    monkeypatch.setattr(module, "publish", gone)
    optimizer = jrh.CheckedOptimizer(AddsGuideline(), tracking_uri=rated.uri, suite=None)
    with pytest.warns(JrhWarning, match="cannot be reached"):
        aligned = lenient_judge().align(traces_of(rated), optimizer=optimizer)
    assert GUIDELINE in aligned.instructions
    assert optimizer.result is not None
    assert optimizer.result.decision == "better"


def test_answers_that_the_model_refuses_to_give_in_form_are_no_verdicts(rated, server):
    """Prose in place of JSON is unparsed, a status of 400 an error: neither counts against the judge."""
    whole, inner = server.reply, does_nothing()

    def now_and_then(body: dict[str, Any]) -> Any:
        number = len(server.bodies)
        return "I would rather not say." if number == 40 else 400 if number == 45 else whole(body)

    server.reply = now_and_then
    optimizer = jrh.CheckedOptimizer(inner, log=False, suite=None, concurrency=1, holdout=0.6)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", JrhWarning)
        lenient_judge().align(traces_of(rated), optimizer=optimizer)
    assert optimizer.result is not None
    outcomes = [one.after.outcome for one in optimizer.result.report.traces]
    assert sorted(set(outcomes)) == ["error", "unparsed", "verdict"]
    assert optimizer.result.decision == "sent back"
    assert KEY not in json.dumps(optimizer.result.to_dict())


@pytest.mark.slow
def test_a_judge_with_tools_that_looks_the_trace_up_finds_nothing_that_was_said_about_it(rated, server):
    """A judge of {{ trace }} reads the trace through tools, one of which tells all that MLflow knows of it."""
    whole = server.reply

    def looks_first(body: dict[str, Any]) -> Any:
        if any(message["role"] == "tool" for message in body["messages"]):
            looked.append(json.dumps([message for message in body["messages"] if message["role"] == "tool"]))
            return whole(body)
        calls = [
            {"id": f"c-{name}", "type": "function", "function": {"name": name, "arguments": "{}"}}
            for name in ("get_trace_info", "get_root_span")
        ]
        return {"role": "assistant", "content": None, "tool_calls": calls}

    looked: list[str] = []
    server.reply = looks_first
    judge = make_judge(name=NAME, instructions="Is {{ trace }} right?", model=MODEL, feedback_value_type=bool)
    optimizer = jrh.CheckedOptimizer(does_nothing(), log=False, holdout=0.2)
    with pytest.warns(JrhWarning, match="Sent back"):
        judge.align(traces_of(rated), optimizer=optimizer)
    assert optimizer.result is not None
    held_out = optimizer.result.report.traces
    assert len(looked) == 4 * len(held_out), "before and after, as they are and laid out otherwise"
    assert all(any(one.trace in text for text in looked) for one in held_out)
    assert not any("@example.com" in text or "HUMAN" in text or "LLM_JUDGE" in text for text in looked)
