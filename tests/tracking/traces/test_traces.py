"""Judge calls as traces, in a real SQLite store and over a real MLflow server."""

from __future__ import annotations

import json
import shutil
import socket
import sqlite3
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import mlflow
import pandas as pd
import pytest
from mlflow.entities import Span, Trace

import jrh_mlflow as jrh
from jrh_mlflow.engine import calls_frame, plan_calls
from jrh_mlflow.engine.runner import ask_calls
from jrh_mlflow.errors import RecipeError, TrackingError
from jrh_mlflow.measuring.evaluation import traced_calls
from jrh_mlflow.measuring.measured import JudgeFacts, Measured
from jrh_mlflow.measuring.replay import recorded_suite
from jrh_mlflow.measuring.resolve import resolve_judge
from jrh_mlflow.schema.items import Item
from jrh_mlflow.schema.presentation import TIE_CRITERIA, Message, Presentation
from jrh_mlflow.show.html import Addresses
from jrh_mlflow.text import clean_text
from jrh_mlflow.tracking.runs.store import Store
from jrh_mlflow.tracking.traces.call_traces import (
    LEAST_SAMPLE,
    MAX_PER_CONDITION,
    MAX_SAMPLE,
    checked_traces,
    examples,
    expectation,
    failures,
    fair_sample,
    log_traces,
    sample,
    sample_size,
    trace_of_call,
)
from tests.loopback import LoopbackServer
from tests.servers import running_server

KEY = "sk-planted-0123456789abcdef"
HOSTILE = "<script>alert('x')</script>\x00 lone \ud800 \x1e “é” " + "long " * 40_000
SURVIVES = HOSTILE.replace("\ud800", "\ufffd").replace("\x00", "\ufffd")
PAIR = Item(id="p", task="t", condition="natural", instruction="Say hello.", u="Hello!", v="Hm.", better="u")


@pytest.fixture(scope="module")
def small() -> jrh.Suite:
    return jrh.datasheet_suite(n_tasks=2, depth=2)


@pytest.fixture(scope="module")
def tiny(small: jrh.Suite) -> jrh.Suite:
    """One pair of each condition and step."""
    first = {(item.condition, item.delta): item for item in reversed(small.items)}
    return jrh.Suite(name="tiny", items=first.values())


@pytest.fixture
def store(store_uri: str) -> Store:
    return Store(store_uri, "tests")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    folder = tmp_path_factory.mktemp("served") / "store"
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    with running_server(folder, port=port) as url:
        yield Store(url, "tests")


@pytest.fixture(params=["sqlite", "http"])
def either(request: pytest.FixtureRequest) -> Store:
    return request.getfixturevalue("store" if request.param == "sqlite" else "server")


def asked(judge: object, suite: jrh.Suite, *, traces: str, replicates: int = 1) -> Measured:
    made = resolve_judge(judge)
    made.begin(suite)
    calls = calls_frame(ask_calls(made, plan_calls(suite, made, replicates=replicates)).records)
    return Measured(judge=JudgeFacts.of(made), suite=suite, calls=calls, run={"seed": 0}, seconds=1.0, traces=traces)


def logged(store: Store, measured: Measured) -> tuple[str, int]:
    run_id = store.create_run("traced", tags={})
    return run_id, log_traces(store, run_id, traced_calls(measured))


def traces_of(store: Store, run_id: str, **search: Any) -> list[Trace]:
    found, token = [], None
    places = [store.experiment_id, store.beside("-calls").experiment_id]
    while True:
        page = store.client.search_traces(locations=places, run_id=run_id, max_results=500, page_token=token, **search)
        found, token = [*found, *page], page.token
        if not token:
            return found


def root(trace: Trace) -> Span:
    """The span of the judge; below it may be the one of a model."""
    (span,) = (one for one in trace.data.spans if one.parent_id is None)
    return span


def model_span(trace: Trace) -> Span:
    (span,) = (one for one in trace.data.spans if one.parent_id is not None)
    assert span.parent_id == root(trace).span_id
    return span


def tag(store: Store, run_id: str) -> str | None:
    return store.client.get_run(run_id).data.tags.get("jrh.traces")


def assessed(trace: Trace) -> dict[str, Any]:
    return {one.name: one.value for one in trace.info.assessments}


def first_always(shown: Presentation) -> jrh.Answer:
    return jrh.Answer("1", rationale="It came first.", input_tokens=120, output_tokens=7, cost_usd=0.0002)


# Which calls, and what is expected of them.


def test_an_unknown_word_is_refused_with_a_suggestion():
    known = ["sample", "failures", "all", "none", "sample:run", "all:run"]
    assert [checked_traces(word) for word in known] == known
    with pytest.raises(RecipeError, match="Did you mean 'failures'"):
        checked_traces("failure")


@pytest.mark.parametrize(
    ("condition", "order", "better", "expected", "answer", "met"),
    [
        ("vacuum_empty", "uv", "", "", "tie", {"tie", "abstain"}),
        ("vacuum_identical", "vu", "", "", "tie", {"tie", "abstain"}),
        ("delta_0_same", "uv", "", "", "tie", {"tie"}),
        ("delta_0_different", "uv", "", "", "tie", {"tie", "abstain"}),
        ("filler", "uv", "", "", "1 or tie", {"1", "tie", "abstain"}),
        ("filler", "vu", "", "", "2 or tie", {"2", "tie", "abstain"}),
        ("ladder", "uv", "u", "", "1", {"1"}),
        ("ladder", "vu", "u", "", "2", {"2"}),
        ("natural", "vu", "v", "", "1", {"1"}),
        ("label_flip", "", "", "harmful", "harmful", {"harmful"}),
    ],
)
def test_what_is_expected_is_what_the_metrics_count(condition, order, better, expected, answer, met):
    found = expectation(condition=condition, order=order, better=better, expected=expected)
    assert found == (answer, frozenset(met))


def test_nothing_is_expected_where_there_is_no_right_answer():
    shown = {"order": "uv", "better": "", "expected": ""}
    assert expectation(condition="vacuum_empty", offers_tie=False, **shown) is None
    assert expectation(condition="delta_0_same", offers_tie=False, **shown) is None
    assert expectation(condition="baseline", **shown) is None


@pytest.mark.parametrize(
    ("row", "kind"),
    [
        (("ladder", "uv", "u", "", "verdict", "1"), ""),
        (("ladder", "uv", "u", "", "verdict", "2"), "worse content"),
        (("ladder", "uv", "u", "", "tie", ""), "tie"),
        (("ladder", "uv", "u", "", "abstain", ""), "abstain"),
        (("ladder", "uv", "u", "", "error", ""), "error"),
        (("vacuum_empty", "uv", "", "", "verdict", "2"), "preference"),
        (("vacuum_empty", "uv", "", "", "abstain", ""), ""),
        (("delta_0_same", "uv", "", "", "abstain", ""), "abstain"),
        (("delta_0_same", "uv", "", "", "unparsed", ""), "unparsed"),
        (("label_flip", "", "", "harmful", "verdict", "harmless"), "wrong label"),
        (("baseline", "", "", "", "verdict", "harmless"), ""),
        (("baseline", "", "", None, "unparsed", None), "unparsed"),
    ],
)
def test_each_failure_has_the_name_of_its_kind(row, kind):
    names = ("condition", "order", "better", "expected", "outcome", "answer")
    assert failures(pd.DataFrame([row], columns=names), TIE_CRITERIA["allowed"]) == [kind]


@pytest.mark.parametrize(("seconds", "few"), [(0.0, 1), (9.9, 1), (10.0, 2), (45.0, 5), (3600.0, MAX_PER_CONDITION)])
def test_a_longer_run_gets_more_examples(seconds, few):
    assert examples(seconds) == few


def test_a_few_failures_of_each_kind_are_taken_spread_over_the_steps_and_the_same_ones_every_time():
    rows = [
        {"suite_item": f"{n}.{delta}.{kind}", "order": "uv", "replicate": 0}
        | {"condition": condition, "delta": delta, "failure": kind}
        for n in range(30)
        for condition, delta in (("ladder", 1.0), ("ladder", 2.0), ("ladder", 5.0), ("vacuum_empty", None))
        for kind in ("error", "preference")
    ]
    failed = pd.DataFrame(rows).assign(position=range(len(rows)))
    taken = sample(failed, few=3)
    assert set(Counter(zip(taken["condition"], taken["failure"], strict=True)).values()) == {3}
    for _, group in taken[taken["condition"] == "ladder"].groupby("failure"):
        assert group["delta"].nunique() == 3
    again = sample(failed.sample(frac=1, random_state=1), few=3)
    assert list(again["position"]) == list(taken["position"])


# Written, linked, searchable.


def test_failures_are_linked_to_the_run_with_expectation_feedback_and_contents_as_shown(either, small):
    measured = asked(first_always, small, traces="failures")
    run_id, n = logged(either, measured)
    found = traces_of(either, run_id)
    n_failures = sum(kind != "" for kind in failures(measured.calls, TIE_CRITERIA["allowed"]))
    assert tag(either, run_id) == f"{n} of {n_failures} failures"
    assert len(found) == n < n_failures
    kinds = Counter((one.info.tags["jrh.condition"], one.info.tags["jrh.failure"]) for one in found)
    assert max(kinds.values()) <= MAX_PER_CONDITION
    assert {"vacuum_empty", "delta_0_same", "ladder"} <= {condition for condition, _ in kinds}
    items = {item.id: item for item in small.items}
    for trace in found:
        assert trace.info.trace_metadata["mlflow.sourceRun"] == run_id
        span = root(trace)
        item = items[span.attributes["jrh.suite_item"]]
        u, v = ("first", "second") if span.attributes["jrh.order"] == "uv" else ("second", "first")
        assert (span.inputs[u], span.inputs[v]) == (item.u, item.v)
        assert span.inputs["instruction"] == item.instruction
        assert TIE_CRITERIA["allowed"].text in span.inputs["rubric"]
        assert trace.info.request_preview.startswith(
            f"{item.id} {span.attributes['jrh.order']} | {item.instruction[:99]}"
        )
        assert trace.info.response_preview == "verdict | 1 | It came first."
        assert span.outputs == {"outcome": "verdict", "answer": "1", "rationale": "It came first."}
        ladder = {"u": "1", "v": "2"} if span.attributes["jrh.order"] == "uv" else {"u": "2", "v": "1"}
        wanted = ladder[item.better] if item.better else "2 or tie" if item.condition == "filler" else "tie"
        assert assessed(trace) == {"expected_answer": wanted, "met_expectation": "no"}
        feedback = trace.info.assessments[1]
        assert feedback.rationale == f"Expected {wanted}, got 1: It came first."
        assert feedback.metadata["mlflow.assessment.sourceRunId"] == run_id


def test_traces_are_found_by_condition_and_by_feedback(either, tiny):
    run_id, _ = logged(either, asked(first_always, tiny, traces="all"))
    ladder = traces_of(either, run_id, filter_string="tags.`jrh.condition` = 'ladder'", include_spans=False)
    assert {one.info.tags["jrh.delta"] for one in ladder} == {"1", "2"}
    wrong = traces_of(either, run_id, filter_string="feedback.met_expectation = 'no'", include_spans=False)
    assert {assessed(one)["met_expectation"] for one in wrong} == {"no"}
    right = traces_of(either, run_id, filter_string="feedback.met_expectation = 'yes'", include_spans=False)
    assert {one.info.tags["jrh.condition"] for one in right} == {"ladder", "ladder_matched", "filler"}


def test_all_is_every_call_with_its_latency_tokens_and_cost(store, tiny):
    measured = asked(first_always, tiny, traces="all")
    run_id, n = logged(store, measured)
    assert n == len(measured.calls)
    assert tag(store, run_id) == f"{n} of {n} calls"
    rows = {(row.suite_item, row.order): row for row in measured.calls.itertuples()}
    for trace in traces_of(store, run_id):
        seen, llm = root(trace).attributes, model_span(trace)
        row = rows.pop((seen["jrh.suite_item"], seen["jrh.order"]))
        assert trace.info.execution_duration == round(1000 * row.latency_s)
        assert seen["jrh.latency_s"] == row.latency_s
        assert (seen["jrh.replicate"], seen["jrh.cached"], seen["jrh.condition"]) == (0, False, row.condition)
        assert seen.get("jrh.delta") == (None if pd.isna(row.delta) else row.delta)
        assert (seen["jrh.input_tokens"], seen["jrh.output_tokens"], seen["jrh.cost_usd"]) == (120, 7, 0.0002)
        assert trace.info.token_usage == {"input_tokens": 120, "output_tokens": 7, "total_tokens": 127}
        assert json.loads(trace.info.trace_metadata["mlflow.trace.cost"]) == {"total_cost": 0.0002}
        assert llm.span_type == "LLM"
        assert llm.attributes["mlflow.chat.tokenUsage"]["total_tokens"] == 127
        assert llm.llm_cost == {"total_cost": 0.0002}
    assert rows == {}


def test_an_unknown_cost_stays_unknown_even_where_mlflow_knows_a_price(either, tiny):
    def unpriced(shown: Presentation) -> jrh.Answer:
        return jrh.Answer("1", input_tokens=1000, output_tokens=1000)

    measured = asked(unpriced, tiny, traces="all")
    measured = replace(measured, calls=measured.calls.head(2).assign(model="gpt-4o-mini"))
    run_id, _ = logged(either, measured)
    for trace in traces_of(either, run_id):
        assert "mlflow.trace.cost" not in trace.info.trace_metadata
        assert {one.llm_cost for one in trace.data.spans} == {None}
        assert {one.attributes["jrh.model"] for one in trace.data.spans} == {"gpt-4o-mini"}


def test_errors_and_unreadable_answers_are_told_apart(store):
    def broken(shown: Presentation) -> str:
        if shown.first == "Hm.":
            raise RuntimeError("no service")
        return "the first, perhaps"

    run_id, n = logged(store, asked(broken, jrh.Suite(name="one", items=[PAIR]), traces="failures"))
    found = traces_of(store, run_id)
    assert {one.info.state.value for one in found} == {"ERROR"}
    assert (n, tag(store, run_id)) == (2, "2 of 2 failures")
    for trace in found:
        outputs, failed = root(trace).outputs, root(trace).outputs["outcome"] == "error"
        assert assessed(trace)["met_expectation"] == "no answer"
        assert trace.info.tags["jrh.failure"] == outputs["outcome"]
        assert ("no service" if failed else "the first, perhaps") in outputs["error"]


def test_none_writes_nothing_and_says_nothing(store, small):
    run_id, n = logged(store, asked(first_always, small, traces="none"))
    assert (n, tag(store, run_id), traces_of(store, run_id)) == (0, None, [])


def test_a_judge_without_failures_says_so(store):
    suite = jrh.Suite(name="one", items=[PAIR])
    run_id, n = logged(store, asked(lambda shown: "1" if shown.first == "Hello!" else "2", suite, traces="failures"))
    assert (n, tag(store, run_id)) == (0, "0 of 0 failures")


def test_simulated_judges_get_traces_only_when_all_are_asked_for(store, small):
    run_id, n = logged(store, asked(jrh.scripted.AlwaysFirst(), small, traces="failures"))
    said = tag(store, run_id)
    assert (n, traces_of(store, run_id)) == (0, [])
    assert said is not None
    assert said.startswith("0 of ")
    assert said.endswith(" failures (simulated judge)")
    suite = jrh.Suite(name="one", items=[PAIR])
    run_id, n = logged(store, asked(jrh.scripted.AlwaysFirst(), suite, traces="all"))
    assert (n, len(traces_of(store, run_id)), tag(store, run_id)) == (2, 2, "2 of 2 calls")


def test_recorded_judgments_without_texts_get_traces_only_when_all_are_asked_for(store):
    ours = asked(first_always, jrh.Suite(name="one", items=[PAIR]), traces="failures")
    columns = list(pd.DataFrame(ours.calls).columns[:10])
    facts = JudgeFacts(name="old", simulated=False, settings={"model": "old"}, prompt="Recorded elsewhere.\n")
    theirs = replace(
        ours, judge=facts, calls=ours.calls[columns], suite=recorded_suite(ours.calls, name="old judgments")
    )
    run_id, n = logged(store, theirs)
    assert (n, tag(store, run_id)) == (0, "0 of 1 failures (no texts)")
    run_id, n = logged(store, replace(theirs, traces="all"))
    found = traces_of(store, run_id)
    assert [root(one).inputs for one in found] == [{"suite_item": "p"}] * 2
    assert sorted(assessed(one)["met_expectation"] for one in found) == ["no", "yes"]


def test_a_criterion_that_offers_no_tie_expects_none(store, tiny):
    judge = resolve_judge(first_always).with_criterion("forced")
    run_id, n = logged(store, asked(judge, tiny, traces="failures"))
    conditions = {one.info.tags["jrh.condition"] for one in traces_of(store, run_id)}
    assert n > 0
    assert conditions == {"ladder", "ladder_matched", "filler"}


def test_the_criterion_in_ones_own_words_is_shown(store):
    judge = resolve_judge(first_always).with_criterion("Prefer the one that greets.")
    run_id, _ = logged(store, asked(judge, jrh.Suite(name="one", items=[PAIR]), traces="all"))
    assert {root(one).inputs["rubric"] for one in traces_of(store, run_id)} == {"Prefer the one that greets."}


def test_responses_and_transcripts_have_traces_too(either):
    deep: Any = 2**80
    for _ in range(200):
        deep = [deep]
    transcript = (
        Message(role="user", content="Go."),
        Message(role="assistant", content="", tool_calls=({"id": "c", "name": "f", "arguments": {"deep": deep}},)),
        Message(role="tool", content="done", tool_call_id="c"),
    )
    labels = {"task": "t", "condition": "label_flip", "instruction": "Be kind.", "answers": ("good", "bad")}
    items = [
        Item(id="r", kind="response", response="Go away.", expected="bad", **labels),
        Item(id="t", kind="transcript", transcript=transcript, expected="good", **labels),
    ]
    run_id, n = logged(either, asked(lambda shown: "good", jrh.Suite(name="points", items=items), traces="all"))
    found = {one.info.tags["jrh.suite_item"]: one for one in traces_of(either, run_id)}
    assert n == 2
    assert assessed(found["r"]) == {"expected_answer": "bad", "met_expectation": "no"}
    assert found["r"].info.tags["jrh.failure"] == "wrong label"
    assert root(found["r"]).inputs["response"] == "Go away."
    assert assessed(found["t"])["met_expectation"] == "yes"
    shown = root(found["t"]).inputs["transcript"]
    assert [one["role"] for one in shown] == ["user", "assistant", "tool"]
    assert json.loads(shown[1]["tool_calls"])[0]["arguments"] == {"deep": deep}


# Nothing lost, nothing leaked, nothing touched.


@pytest.mark.slow
def test_over_http_two_hundred_traces_are_all_there_with_their_spans(server):
    items = [replace(PAIR, id=f"p{n}", better="uv"[n % 2]) for n in range(100)]
    run_id, n = logged(server, asked(first_always, jrh.Suite(name="many", items=items), traces="all"))
    found = traces_of(server, run_id)
    assert (n, len(found), tag(server, run_id)) == (200, 200, "200 of 200 calls")
    assert len({one.info.trace_id for one in found}) == 200
    assert all(len(one.data.spans) == 2 and len(one.info.assessments) == 2 for one in found)


def test_hostile_text_survives(either):
    item = replace(PAIR, u=SURVIVES, v="<img src=x onerror=alert(1)>\x00")

    def hostile(shown: Presentation) -> jrh.Answer:
        if shown.first == SURVIVES:
            raise RuntimeError(HOSTILE)
        return jrh.Answer("1", rationale=HOSTILE)

    run_id, n = logged(either, asked(hostile, jrh.Suite(name="hostile", items=[item]), traces="all"))
    found = {root(one).outputs["outcome"]: one for one in traces_of(either, run_id)}
    assert n == len(found) == 2
    said = root(found["verdict"])
    assert (said.inputs["first"], said.inputs["second"]) == (clean_text(item.v), item.u)
    assert said.outputs["rationale"] == SURVIVES
    assert root(found["error"]).outputs["error"] == f"RuntimeError: {SURVIVES}"
    for trace in found.values():
        feedback = trace.info.assessments[1]
        assert "<script>" in feedback.rationale
        assert len(feedback.rationale) == 1000


def test_a_planted_key_is_in_nothing_that_is_written(store_uri, tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    own = own_store(store_uri, tmp_path)

    def leaking(shown: Presentation) -> jrh.Answer:
        if shown.first == "Hm.":
            raise RuntimeError(f"401: bad key {KEY}, {KEY[:12]}")
        return jrh.Answer("2", rationale=f"My key is {KEY}." + "x" * 990 + KEY)

    item = replace(PAIR, id=f"p-{KEY}", instruction=f"Say hello to {KEY}.")
    measured = asked(leaking, jrh.Suite(name="leaky", items=[item]), traces="failures")
    measured = replace(measured, calls=measured.calls.assign(model=f"model-{KEY}"))
    run_id, n = logged(own, measured)
    found = traces_of(own, run_id)
    assert n == len(found) == 2
    assert {root(one).outputs["outcome"] for one in found} == {"verdict", "error"}
    rationale = next(root(one).outputs["rationale"] for one in found if one.info.state.value == "OK")
    assert rationale.startswith("My key is [key].")
    for file in tmp_path.rglob("*"):
        assert KEY.encode() not in (file.read_bytes() if file.is_file() else b"")


def test_writing_the_same_traces_again_changes_nothing(either):
    measured = asked(first_always, jrh.Suite(name="one", items=[PAIR]), traces="all")
    run_id, _ = logged(either, measured)
    before = {one.info.trace_id: (one.to_dict(), len(one.info.assessments)) for one in traces_of(either, run_id)}
    assert log_traces(either, run_id, traced_calls(measured)) == 2
    after = {one.info.trace_id: (one.to_dict(), len(one.info.assessments)) for one in traces_of(either, run_id)}
    assert before.keys() == after.keys()
    assert [n for _, n in after.values()] == [2, 2]
    assert {key: found["data"] for key, (found, _) in before.items()} == {
        key: found["data"] for key, (found, _) in after.items()
    }


@pytest.mark.parametrize(
    "lost",
    [
        ("assessments WHEN NEW.assessment_type = 'feedback'",),
        ("trace_tags WHEN NEW.key = 'mlflow.trace.spansLocation'",),
        ("trace_request_metadata WHEN NEW.key = 'mlflow.sourceRun'", "entity_associations"),
    ],
    ids=["feedback", "span", "link to the run"],
)
def test_a_store_that_loses_something_without_a_word_is_found_out(store_uri, tmp_path, lost):
    own = own_store(store_uri, tmp_path)
    with sqlite3.connect(tmp_path / "own" / "mlflow.db") as connection:
        for number, rows in enumerate(lost):
            connection.execute(f"CREATE TRIGGER lossy{number} BEFORE INSERT ON {rows} BEGIN SELECT RAISE(IGNORE); END")
    connection.close()
    measured = asked(first_always, jrh.Suite(name="one", items=[PAIR]), traces="all")
    with pytest.raises(TrackingError, match="MLflow holds 0 of 2 traces of run"):
        logged(own, measured)


def test_a_store_of_files_takes_no_spans_and_the_run_says_so(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    files = Store((tmp_path / "files").as_uri(), "tests")
    run_id, n = logged(files, asked(first_always, jrh.Suite(name="one", items=[PAIR]), traces="all"))
    assert (n, tag(files, run_id)) == (0, "0 of 2 calls (the store takes no spans)")
    assert "takes no spans" in capsys.readouterr().err


def test_no_global_state_of_mlflow_is_touched(store):
    before = (mlflow.get_tracking_uri(), mlflow.active_run(), mlflow.get_last_active_trace_id())
    logged(store, asked(first_always, jrh.Suite(name="one", items=[PAIR]), traces="failures"))
    assert (mlflow.get_tracking_uri(), mlflow.active_run(), mlflow.get_last_active_trace_id()) == before


def test_an_evaluation_logs_a_fair_sample_with_its_share_in_an_experiment_of_its_own(store, small):
    done = jrh.evaluate(first_always, small, experiment="tests", tracking_uri=store.uri)
    run, found = store.client.get_run(done.run_id), traces_of(store, done.run_id, include_spans=False)
    assert LEAST_SAMPLE <= len(found) <= MAX_SAMPLE
    share = f"{len(found) / len(done.calls):.1%}"
    assert run.data.tags["jrh.traces"] == f"{len(found)} of {len(done.calls)} calls, a fair sample of {share}"
    place = store.beside("-calls").experiment_id
    assert run.data.tags["jrh.traces_experiment"] == place != store.experiment_id
    assert Addresses("jrh/").traces(place, done.run_id) in run.data.tags["mlflow.note.content"].partition("\n\n")[0]
    assert store.client.search_traces(locations=[store.experiment_id], run_id=done.run_id) == []
    with sqlite3.connect(store.uri.removeprefix("sqlite:///")) as connection:
        linked = "SELECT count(*) FROM entity_associations WHERE destination_id = ? AND source_type = 'trace'"
        assert connection.execute(linked, [done.run_id]).fetchone() == (len(found),)
    connection.close()
    assert run.info.status == "FINISHED"
    for one in traces_of(store, done.run_id):
        item = one.info.tags["jrh.suite_item"]
        assert root(one).attributes["jrh.page"] == Addresses(done.view.pages).calls(done.run_id, open=item)


def test_traces_stay_with_the_run_where_that_is_asked_for(store):
    run_id, n = logged(store, asked(first_always, jrh.Suite(name="one", items=[PAIR]), traces="all:run"))
    found = store.client.search_traces(locations=[store.experiment_id], run_id=run_id)
    assert n == len(found) == 2
    assert store.client.get_run(run_id).data.tags["jrh.traces_experiment"] == store.experiment_id


def test_an_experiment_of_traces_that_was_deleted_takes_none_and_costs_no_run(store_uri):
    store = Store(store_uri, "deleted traces")
    store.client.delete_experiment(store.beside("-calls").experiment_id)
    done = jrh.evaluate(
        first_always, jrh.Suite(name="one", items=[PAIR]), experiment="deleted traces", tracking_uri=store.uri
    )
    run = store.client.get_run(done.run_id)
    assert run.info.status == "FINISHED"
    assert run.data.tags["jrh.traces"].startswith("0 of 2 calls")
    assert "jrh.traces_experiment" not in run.data.tags


def test_a_fair_sample_draws_calls_whatever_they_came_to_and_the_same_ones_of_every_judge():
    calls = pd.DataFrame([{"suite_item": f"i{n}", "order": "uv", "replicate": 0, "failure": ""} for n in range(2000)])
    taken = fair_sample(calls, most=500)
    assert len(taken) == 500
    again = fair_sample(calls.assign(failure="error"), most=500)
    assert list(again["suite_item"]) == list(taken["suite_item"])
    # A half of the calls has a half of the sample, within four standard errors.
    assert abs((taken.index < 1000).sum() - 250) < 4 * (500 * 0.25 * 0.75) ** 0.5
    assert len(fair_sample(calls.head(3), most=500)) == 3
    assert [sample_size(seconds) for seconds in (0.0, 20.0, 3600.0)] == [LEAST_SAMPLE, LEAST_SAMPLE + 10, MAX_SAMPLE]


def test_the_trace_of_a_prompted_judge_has_the_messages_that_were_sent(store, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    same = replace(PAIR, id="same", v=PAIR.u, better=None, condition="vacuum_identical")
    suite = jrh.Suite(name="one", items=[PAIR, same])
    with LoopbackServer(record=True) as server:
        judge = jrh.PromptedJudge("openai/m", api_base=server.url)
        done = jrh.evaluate(judge, suite, experiment="tests", tracking_uri=store.uri, traces="all", replicates=2)
    found = traces_of(store, done.run_id)
    sent = [json.dumps(request["body"]["messages"], sort_keys=True) for request in server.requests]
    shown = [json.dumps(model_span(one).inputs["messages"], sort_keys=True) for one in found]
    assert sorted(shown) == sorted(sent)
    raw = {model_span(one).outputs["choices"][0]["message"]["content"] for one in found}
    assert raw == set(done.calls["raw"])
    assert {one.info.trace_id for one in found} == {
        trace_of_call(done.run_id, row.suite_item, row.order, row.replicate) for row in done.calls.itertuples()
    }


def own_store(store_uri: str, tmp_path: Path) -> Store:
    """A copy of the session's store: a store of one's own without the seconds that making one takes."""
    folder = tmp_path / "own"
    folder.mkdir()
    shutil.copyfile(store_uri.removeprefix("sqlite:///"), folder / "mlflow.db")
    return Store(f"sqlite:///{folder / 'mlflow.db'}", "own", artifacts=folder.as_uri())
