"""`jrh.to_mlflow`: a run becomes a scorer that sends what the measured judge sent and answers what it answered."""

from __future__ import annotations

import hashlib
import json
import re
import sys
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import mlflow
import pandas as pd
import pytest

import jrh_mlflow as jrh
from jrh_mlflow.engine.calls import plan_calls
from jrh_mlflow.errors import JrhWarning, RecipeError
from jrh_mlflow.exporting import exported_scorers as exported
from jrh_mlflow.exporting.to_mlflow import column_name, datasheet_link, fit_name, order_matters
from jrh_mlflow.measuring.evaluation import Evaluation
from jrh_mlflow.schema.estimates import Estimate, NotEstimable
from jrh_mlflow.schema.items import Item
from jrh_mlflow.schema.presentation import Message
from jrh_mlflow.suites.suite import Suite
from jrh_mlflow.tracking.judges.identity import JudgeDifference
from jrh_mlflow.tracking.judges.judge_registry import active_store
from jrh_mlflow.tracking.judges.scorer_facts import specification
from jrh_mlflow.tracking.judges.scorers import scorer_fields
from jrh_mlflow.tracking.runs import keys
from tests.cases import few
from tests.loopback import LoopbackServer, Reply, error_reply, verdict
from tests.mlflow_features import before
from tests.servers import free_port, running_server

KEY = "sk-planted-0123456789"
CUSTOM = "MLFLOW_SERVER_ENABLE_CUSTOM_SCORERS"
to_mlflow_module = sys.modules["jrh_mlflow.exporting.to_mlflow"]


def mixed(body: Any) -> str | Reply:
    """Answer each prompt always the same way: mostly verdicts, sometimes prose, broken JSON, a refusal, an error."""
    number = hashlib.sha256(json.dumps(body["messages"]).encode()).digest()[0] % 10
    broken: list[str | Reply] = [
        "Both are fine.",
        '{"reason": "x", "verdict": ',
        Reply(refusal="No."),
        error_reply(400, "odd"),
    ]
    return broken[number] if number < len(broken) else verdict(("A", "B", "tie")[number % 3])(body)


@pytest.fixture(scope="module")
def server() -> Iterator[LoopbackServer]:
    with LoopbackServer(record=True, reply=mixed) as running, pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPENAI_API_KEY", KEY)
        patch.setenv("MLFLOW_GENAI_EVAL_MAX_WORKERS", "7")
        yield running


@pytest.fixture(scope="module")
def pairs() -> Suite:
    rows = [{"instruction": f"Task {n}", "first": f"good {n}", "second": f"bad {n}", "better": "1"} for n in range(24)]
    return jrh.natural_suite(pd.DataFrame(rows), name="two dozen")


@pytest.fixture(scope="module")
def measured(server: LoopbackServer, pairs: Suite, store_uri: str) -> Evaluation:
    judge = jrh.PromptedJudge("openai/m", api_base=server.url, rubric='He said "no" \\ {x}\u2028', seed=7)
    return evaluated(judge, pairs, store_uri)


def evaluated(judge: Any, suite: Suite, store_uri: str) -> Evaluation:
    return jrh.evaluate(judge, suite, experiment="exports", tracking_uri=store_uri, traces="none", progress=False)


def answers_of(calls: pd.DataFrame, *, pairs: bool) -> list[str]:
    """What feedback says of calls in the order of the suite; `error …` where there is none."""
    slots = {"1": "A", "2": "B"} if pairs else {}
    others = {"tie": "tie", "abstain": "abstain", "unparsed": "error UNPARSED", "error": "error JUDGE_ERROR"}
    return [others.get(call.outcome) or slots.get(call.answer, call.answer) for call in calls.itertuples()]


def scored(made: Any, judge: Any, suite: Suite, *, callers: int = 8) -> list[str]:
    """Put every presentation of a suite to a scorer, as rows."""

    def ask(call: Any) -> str:
        laid = scorer_fields(made, call.presentation, {})
        feedback = made.run(inputs=laid["inputs"], outputs=laid["outputs"])
        return str(feedback.value) if feedback.error is None else f"error {feedback.error.error_code}"

    with ThreadPoolExecutor(callers) as pool:
        return list(pool.map(ask, plan_calls(suite, judge, replicates=1)))


def sent_by(server: LoopbackServer, since: int) -> Counter[str]:
    return Counter(one["text"] for one in server.requests[since:])


def round_trip(server: LoopbackServer, judge: Any, suite: Suite, uri: str, *, callers: int = 8) -> list[str]:
    """Measure, export, register and load again: every way must send the same bytes and get the same answers."""
    start = len(server.requests)
    done = evaluated(judge, suite, uri)
    sent, answers = sent_by(server, start), answers_of(done.calls, pairs=suite.items[0].kind == "pair")
    made = jrh.to_mlflow(done.run_id, orders="one", tracking_uri=uri)
    for one in [made] if before("3.17") else [made, registered(made, done, uri)]:
        start = len(server.requests)
        assert scored(one, judge, suite, callers=callers) == answers
        assert sent_by(server, start) == sent
        assert KEY not in json.dumps(one.model_dump())
        assert specification(one) == specification(made)
    return answers


def registered(made: Any, done: Evaluation, uri: str) -> Any:
    """Register a scorer that is code, and load it again."""
    from mlflow.genai.scorers import get_scorer

    with active_store(uri), pytest.MonkeyPatch.context() as patch:
        patch.setenv(CUSTOM, "true")
        made.register(experiment_id=experiment_of(done, uri))
        return get_scorer(name=made.name, experiment_id=experiment_of(done, uri))


def experiment_of(done: Evaluation, uri: str) -> str:
    from mlflow import MlflowClient

    return str(MlflowClient(tracking_uri=uri).get_run(done.run_id).info.experiment_id)


def test_exported_and_reloaded_scorers_send_the_same_bytes_and_give_the_same_answers(
    server: LoopbackServer, pairs: Suite, store_uri: str
) -> None:
    judge = jrh.PromptedJudge(
        "openai/m", api_base=server.url, tie_criterion="strict", temperature=0.5, seed=3, name="trip"
    )
    answers = round_trip(server, judge, pairs, store_uri)
    assert {"A", "B", "tie", "error UNPARSED", "error JUDGE_ERROR"} <= set(answers)


HOSTILE = "'''\"\"\"\\ {{x}} %s \r\n\t\u2028\u2029\u0085\x0b\ud800 </script> \N{PILE OF POO} '); raise SystemExit('"


@pytest.mark.since_mlflow("3.17")
def test_hostile_texts_of_a_judge_survive_registering_and_loading(
    measured: Evaluation, server: LoopbackServer, store_uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mlflow.genai.scorers import get_scorer

    judge = jrh.PromptedJudge(
        "openai/m",
        api_base=server.url,
        name=f"hostile {HOSTILE}",
        rubric=HOSTILE,
        prompt=f"[system]\n{HOSTILE}\n\n[user]\n{HOSTILE} {{candidates}}",
        tie_criterion=f"Answer tie {HOSTILE}",
    )
    with pytest.warns(JrhWarning, match="Never measured|Stale"):
        made = jrh.to_mlflow(judge, answers=[HOSTILE, "no"], tracking_uri=store_uri)
    monkeypatch.setenv(CUSTOM, "true")
    with active_store(store_uri):
        made.register(experiment_id=experiment_of(measured, store_uri))
        loaded = get_scorer(name=made.name, experiment_id=experiment_of(measured, store_uri))
    assert specification(loaded)["judge"] == json.loads(json.dumps(judge.definition()))
    start = len(server.requests)
    for one in (made, loaded):
        one.run(inputs={"instruction": HOSTILE}, outputs={"A": HOSTILE, "B": "y"})
    assert len(server.requests) == start + 4
    assert sent_by(server, start).most_common()[0][1] == 2


@pytest.mark.slow
@pytest.mark.parametrize("structured", [False, True])
def test_all_presentations_of_the_published_design_make_the_round_trip(
    structured: bool, server: LoopbackServer, store_uri: str
) -> None:
    suite = jrh.load_suite("datasheet-paper")
    judge = jrh.PromptedJudge("openai/m", api_base=server.url, structured=structured, name=f"paper {structured}")
    answers = round_trip(server, judge, suite, store_uri, callers=40)
    assert len(answers) == 680
    assert {"A", "B", "tie", "error UNPARSED", "error JUDGE_ERROR"} <= set(answers)


@pytest.mark.slow
def test_a_scorer_registered_at_a_server_over_http_makes_the_round_trip(
    server: LoopbackServer, pairs: Suite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(CUSTOM, "true")
    judge = jrh.PromptedJudge("openai/m", api_base=server.url, rubric="'\u2028\\ {x}", name="over http")
    with running_server(tmp_path / "store", port=free_port()) as uri:
        round_trip(server, judge, pairs, uri)


LABELS = ("poor", "fair", "good")
TRANSCRIPT = (
    Message(role="user", content="Look."),
    Message(role="assistant", content="", tool_calls=({"id": "1", "name": "look", "arguments": {"at": "x"}},)),
    Message(role="tool", content="seen", tool_call_id="1"),
)


@pytest.mark.parametrize(
    ("items", "words"),
    few([
        ([{"kind": "response", "response": f"text {n}", "answers": ("1", "2", "3", "4", "5"), "expected": "3"}
          for n in range(6)], ("2", "4")),
        ([{"kind": "response", "response": f"text {n}", "answers": LABELS, "ordinal": True, "expected": "fair"}
          for n in range(6)], ("poor", "good")),
        ([{"kind": "transcript", "transcript": (*TRANSCRIPT, Message(role="assistant", content=f"It is {n}."))} |
          {"answers": ("no", "yes"), "expected": "no"} for n in range(6)], ("no", "yes")),
    ]),
    ids=["scale of numbers", "scale of words", "transcripts"],
)  # fmt: skip
def test_responses_and_transcripts_make_the_round_trip(
    items: Sequence[dict[str, Any]], words: tuple[str, str], server: LoopbackServer, store_uri: str
) -> None:
    suite = Suite(
        name="singles",
        items=[
            Item(id=f"{n}", task=f"{n}", condition="baseline", instruction=f"Task {n}", rubric="Shared.", **item)
            for n, item in enumerate(items)
        ],
    )
    judge = jrh.PromptedJudge("openai/m", api_base=server.url, name=f"single {words[0]}")
    server.reply = lambda body: verdict(words[hashlib.sha256(str(body["messages"]).encode()).digest()[0] % 2])(body)
    try:
        answers = round_trip(server, judge, suite, store_uri)
    finally:
        server.reply = mixed
    assert set(answers) <= set(words)
    feedback = jrh.to_mlflow(judge, tracking_uri=store_uri).run(
        inputs=items_inputs(suite), outputs=scorer_outputs(suite)
    )
    assert feedback.metadata[keys.FEEDBACK_SUITE_SHA256] == suite.sha256


def items_inputs(suite: Suite) -> dict[str, Any]:
    return {"instruction": suite.items[0].instruction}


def scorer_outputs(suite: Suite) -> Any:
    item = suite.items[0]
    if item.transcript is None:
        return item.response
    return {"transcript": [{"role": one.role, "content": one.content} for one in item.transcript]}


@pytest.mark.parametrize("way", ["run id", "runs:/", "prefix", "evaluation", "judge"])
def test_every_way_to_name_what_was_measured_gives_the_same_scorer(
    way: str, measured: Evaluation, server: LoopbackServer, store_uri: str
) -> None:
    judge = jrh.PromptedJudge("openai/m", api_base=server.url, rubric='He said "no" \\ {x}\u2028', seed=7)
    what = {
        "run id": measured.run_id,
        "runs:/": f"runs:/{measured.run_id}",
        "prefix": measured.run_id[:10],
        "evaluation": measured,
        "judge": judge,
    }[way]
    spec = specification(jrh.to_mlflow(what, stale="refuse", tracking_uri=store_uri))
    assert spec == specification(jrh.to_mlflow(measured.run_id, stale="refuse", tracking_uri=store_uri))
    assert spec["status"] == "measured"
    assert spec["datasheet"]["run_id"] == measured.run_id
    assert spec["fingerprint"] == judge.fingerprint()


def test_feedback_names_run_suite_and_profile_of_the_datasheet(
    measured: Evaluation, pairs: Suite, store_uri: str
) -> None:
    made = jrh.to_mlflow(measured, tracking_uri=store_uri)
    feedbacks = [made.run(inputs=f"Task {n}", outputs={"A": "good", "B": "bad"}) for n in range(12)]
    assert {feedback.error is None for feedback in feedbacks} == {True, False}
    for feedback in feedbacks:
        assert feedback.metadata[keys.FEEDBACK_RUN] == measured.run_id
        assert feedback.metadata[keys.FEEDBACK_SUITE_SHA256] == pairs.sha256
        assert feedback.metadata[keys.FEEDBACK_PROFILE] == measured.datasheet.profile
        assert feedback.metadata[keys.FEEDBACK_STATUS] == "measured"


def test_feedback_links_the_datasheet_where_a_page_of_mlflow_can_show_it(
    measured: Evaluation, store_uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def link() -> str | None:
        spec = specification(jrh.to_mlflow(measured, tracking_uri=store_uri)) or {}
        given: str | None = spec["datasheet"]["link"]
        return given

    monkeypatch.setattr(to_mlflow_module, "active_uri", lambda: store_uri)
    page = link()
    assert page is not None
    assert re.fullmatch(rf"#/experiments/\d+/runs/{measured.run_id}\?workflowType=machine_learning", page)
    monkeypatch.setattr(to_mlflow_module, "active_uri", lambda: "sqlite:///elsewhere.db")
    assert link() is None, "the pages of another store have no such run"
    monkeypatch.setattr(to_mlflow_module, "page_of_run", lambda run_id, uri: "#/p")
    assert datasheet_link("run7", uri="http://user:secret@mlflow:5000/") == "http://mlflow:5000/#/p"
    assert datasheet_link(None, uri=store_uri) is None, "a jury that was not logged"


def test_a_judge_that_goes_by_the_slot_is_asked_in_both_orders_and_its_verdicts_are_ties(
    pairs: Suite, store_uri: str
) -> None:
    with LoopbackServer(reply=verdict("A")) as always_first:
        judge = jrh.PromptedJudge("openai/m", api_base=always_first.url, name="slot one")
        done = evaluated(judge, pairs, store_uri)
        asked = always_first.counts["requests"]
        feedback = jrh.to_mlflow(done, tracking_uri=store_uri).run(inputs="Task", outputs={"A": "x", "B": "y"})
        assert always_first.counts["requests"] == asked + 2
        assert (feedback.value, feedback.metadata[keys.FEEDBACK_OUTCOME]) == ("tie", "positional")
        once = jrh.to_mlflow(done, orders="one", tracking_uri=store_uri).run(
            inputs="Task", outputs={"A": "x", "B": "y"}
        )
        assert (once.value, once.metadata[keys.FEEDBACK_ORDERS]) == ("A", "one")


def estimate(value: float, high: float | None) -> Estimate:
    return Estimate(
        value=value,
        n=60,
        excluded=0,
        ci_low=0.0,
        ci_high=high,
        cluster_low=0.0,
        cluster_high=high,
        n_clusters=10,
        method="",
    )


def test_both_orders_are_asked_unless_the_datasheet_shows_that_they_hardly_matter() -> None:
    assert not order_matters(estimate(0.05, 0.2))
    assert order_matters(estimate(0.05, 0.21))
    assert order_matters(estimate(0.0, 0.31)), "three pairs without a positional choice show nothing"
    assert order_matters(NotEstimable(reason="withheld"))
    assert order_matters(None)
    assert order_matters(estimate(0.0, None))


@pytest.mark.parametrize("name", ["datasheet", "datasheet-paper", "datasheet-short"])
def test_a_judge_without_a_positional_choice_on_a_built_in_suite_is_asked_once(name: str) -> None:
    from jrh_mlflow.engine.runner import ask_calls, calls_frame

    suite, judge = jrh.load_suite(name), jrh.scripted.Oracle()
    judge.begin(suite)
    part = Suite(name=name, items=[item for item in suite.items if item.condition == "delta_0_same"])
    calls = calls_frame(ask_calls(judge, plan_calls(part, judge, replicates=1)).records)
    assert not order_matters(jrh.measure(calls).estimates["positional_false_preference"])


def test_a_judge_that_nobody_measured_is_warned_of_or_refused(server: LoopbackServer, store_uri: str) -> None:
    judge = jrh.PromptedJudge("openai/never", api_base=server.url)
    with pytest.raises(RecipeError, match="Never measured"):
        jrh.to_mlflow(judge, stale="refuse", tracking_uri=store_uri)
    with pytest.warns(JrhWarning, match="Never measured"):
        made = jrh.to_mlflow(judge, tracking_uri=store_uri)
    spec = specification(made)
    assert (spec["status"], spec["datasheet"], spec["orders"]) == ("never measured", None, "both")
    assert made.run(inputs="Task", outputs={"A": "x", "B": "y"}).metadata[keys.FEEDBACK_STATUS] == "never measured"


def test_a_changed_prompt_reads_stale_names_what_differs_and_is_refused(
    measured: Evaluation, server: LoopbackServer, store_uri: str
) -> None:
    before = jrh.to_mlflow(measured, tracking_uri=store_uri)
    changed = jrh.PromptedJudge("openai/m", api_base=server.url, rubric="Another one.", seed=7, name=name_of(before))
    with pytest.raises(RecipeError, match=r"prompt differs .*Measure it"):
        jrh.to_mlflow(changed, stale="refuse", tracking_uri=store_uri)
    with pytest.warns(JrhWarning, match="rubric Another one"):
        made = jrh.to_mlflow(changed, tracking_uri=store_uri)
    spec = specification(made)
    assert (spec["status"], spec["datasheet"]["run_id"]) == ("stale", measured.run_id)
    assert [one["what"] for one in spec["differs"]] == ["prompt"]
    assert spec["orders"] == "both", "how much the order decides was measured of another prompt"
    feedback = made.run(inputs="Task 1", outputs={"A": "x", "B": "y"})
    assert feedback.metadata[keys.FEEDBACK_STATUS] == "stale"
    assert "prompt" in feedback.metadata[keys.FEEDBACK_DIFFERS]
    assert f"differs from the judge that run {measured.run_id} measured" in made.description
    assert "rubric Another one." in made.description
    assert before.description.startswith(f"Measured by run {measured.run_id}")
    assert jrh.status(before, tracking_uri=store_uri).state == "measured"
    assert jrh.status(made, tracking_uri=store_uri).state == "stale"


def test_a_run_whose_sources_moved_is_exported_as_measured_with_a_warning_of_its_own(
    measured: Evaluation, store_uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    moved = JudgeDifference(what="model", measured="endpoint one", running="endpoint two")
    monkeypatch.setattr("jrh_mlflow.exporting.to_mlflow.changes_since", lambda definition, **_: (moved,))
    with pytest.warns(JrhWarning, match=r"sources give another one today\. model: endpoint one → endpoint two"):
        made = jrh.to_mlflow(measured, stale="refuse", tracking_uri=store_uri)
    assert (specification(made)["status"], specification(made)["differs"]) == ("measured", [])


def test_the_endpoint_of_the_environment_neither_refuses_nor_moves_the_export_of_a_run(
    server: LoopbackServer, pairs: Suite, store_uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_BASE", server.url)
    done = evaluated(jrh.PromptedJudge("openai/m", name="of the environment"), pairs, store_uri)
    monkeypatch.setenv("OPENAI_API_BASE", "http://127.0.0.1:9/v1")
    with pytest.warns(JrhWarning, match="sources give another one today"):
        made = jrh.to_mlflow(done, orders="one", stale="refuse", tracking_uri=store_uri)
    asked = len(server.requests)
    assert made.run(inputs="Task", outputs={"A": "x", "B": "y"}).metadata[keys.FEEDBACK_STATUS] == "measured"
    assert len(server.requests) == asked + 1


def test_a_model_is_taken_with_its_provider(store_uri: str) -> None:
    assert jrh.status("openai/nobody-measured-it", tracking_uri=store_uri).state == "never measured"
    with pytest.warns(JrhWarning, match="Never measured"):
        made = jrh.to_mlflow("openai/nobody-measured-it", tracking_uri=store_uri)
    assert specification(made)["judge"]["model"] == "openai/nobody-measured-it"


def name_of(made: Any) -> str:
    return str(specification(made)["name"])


def test_what_is_code_and_what_knows_its_suite_cannot_be_exported(store_uri: str) -> None:
    with pytest.raises(RecipeError, match="code of yours"):
        jrh.to_mlflow(lambda shown: "1", tracking_uri=store_uri)
    with pytest.raises(RecipeError, match="what a suite knows of its items"):
        jrh.to_mlflow(jrh.scripted.Oracle(), tracking_uri=store_uri)


@pytest.mark.parametrize(
    ("given", "part"),
    [
        ({"stale": "ignore"}, "Unknown stale 'ignore'"),
        ({"orders": "bothh"}, "Did you mean 'both'"),
        ({"form": "judge"}, "Unknown form"),
        ({"answers": ["yes"]}, "two or more"),
        ({"answers": "yes"}, "two or more"),
        ({"answers": ["yes", "Yes "]}, "two or more"),
        ({"answers": 5}, "two or more texts, but got int"),
        ({"name": "///"}, "give name="),
        ({"name": 5}, "name= is a text, but got int"),
    ],
)
def test_what_cannot_be_asked_for_is_refused(given: Any, part: str, measured: Evaluation, store_uri: str) -> None:
    with pytest.raises(RecipeError, match=part):
        jrh.to_mlflow(measured.run_id, tracking_uri=store_uri, **given)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("openai/gpt-4o-mini", "openai_gpt-4o-mini"),
        ("größe\u2028=\n'x'", "gr_e_x"),
        ("a" * 300, "a" * 200),
        ("plain name: 1.5", "plain name: 1.5"),
    ],
)
def test_names_are_made_fit_for_mlflow(name: str, expected: str) -> None:
    assert fit_name(name) == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("gpt-4o-mini @127.0.0.1:5410", "gpt-4o-mini"),
        ("anthropic/claude strict @gpu-own-12345678", "claude strict"),
        ("Qwen/Qwen3 of mine", "Qwen/Qwen3 of mine"),
        ("gpt-4o-mini forced prompt=own-01234567 rubric=own-01234567", "gpt-4o-mini forced prompt=own-01234567"),
        ("w" * 60, "w" * 60),
        ("@all", "@all"),
    ],
)
def test_a_name_that_nobody_gave_is_short(name: str, expected: str) -> None:
    assert column_name(name) == expected


def test_notes_come_beforehand_and_once_and_users_settings_stay(
    measured: Evaluation, store_uri: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    exported.say_once.cache_clear()
    monkeypatch.delenv(CUSTOM, raising=False)
    # `setenv` first, so that what `to_mlflow` sets is undone after the test.
    monkeypatch.setenv("MLFLOW_GENAI_EVAL_MAX_WORKERS", "3")
    jrh.to_mlflow(measured, tracking_uri=store_uri)
    needed = "pip install 'mlflow>=3.17'" if before("3.17") else f"set {CUSTOM}=true"
    assert f"to register this scorer and load it again, {needed}" in (first := capsys.readouterr().err)
    assert "MAX_WORKERS" not in first
    monkeypatch.delenv("MLFLOW_GENAI_EVAL_MAX_WORKERS")
    jrh.to_mlflow(measured, tracking_uri=store_uri)
    assert "MLFLOW_GENAI_EVAL_MAX_WORKERS=7 is set for this process from here on" in (second := capsys.readouterr().err)
    assert "register" not in second
    jrh.to_mlflow(measured, tracking_uri=store_uri)
    assert capsys.readouterr().err == ""


def test_an_mlflow_that_registers_no_code_is_told_whatever_is_set(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    exported.say_once.cache_clear()
    monkeypatch.setenv(CUSTOM, "true")
    # An MLflow that is too old has nothing to take away.
    monkeypatch.delattr(mlflow.environment_variables, CUSTOM, raising=False)
    exported.note_registering("sqlite:///x.db")
    exported.note_registering("https://mlflow.example")
    said = capsys.readouterr().err.splitlines()
    assert [line.partition(", for MLflow")[0].partition("again, ")[2] for line in said] == [
        "pip install 'mlflow>=3.17'",
        "pip install 'mlflow>=3.17' on the server and where it is loaded",
    ]
    assert all('form="make_judge"' in line for line in said)
    exported.note_registering("databricks://profile")
    assert capsys.readouterr().err == ""


def test_mlflow_evaluates_and_keeps_every_verdict_with_its_datasheet(
    measured: Evaluation, store_uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = jrh.to_mlflow(measured, name="judged", tracking_uri=store_uri)
    rows = [{"inputs": {"question": f"Task {n}"}, "outputs": {"A": "good", "B": "bad"}} for n in range(4)]
    monkeypatch.setenv("MLFLOW_GENAI_EVAL_PREDICT_RATE_LIMIT", "0")
    monkeypatch.setenv("MLFLOW_GENAI_EVAL_SKIP_TRACE_VALIDATION", "true")
    with active_store(store_uri):
        mlflow.set_experiment("exports")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of MLflow's own imports
            result = mlflow.genai.evaluate(data=rows, scorers=[made])
        traces = mlflow.search_traces(run_id=result.run_id, return_type="list")
        logged = mlflow.get_run(result.run_id).data.metrics
    kept = [one for trace in traces for one in trace.info.assessments if one.name == "judged"]
    assert len(kept) == 4
    said = [one.value for one in kept if one.value is not None]
    assert said
    assert result.metrics["judged/win_rate"] == said.count("A") / len(said)
    assert result.metrics["judged/tie_share"] == said.count("tie") / len(said)
    assert logged == result.metrics
    assert {one.metadata[keys.FEEDBACK_RUN] for one in kept} == {measured.run_id}
    assert all((one.value is None) == (one.error is not None) for one in kept)
    assert KEY not in str([one.to_dictionary() for one in kept])
