"""Exported scorers: rows and traces in, feedback out, the specification that they carry, and many callers at once."""

from __future__ import annotations

import asyncio
import json
import linecache
import math
import os
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pandas as pd
import pytest
from mlflow.entities import Feedback
from mlflow.genai.scorers import scorer

import jrh_mlflow as jrh
from jrh_mlflow.engine import sessions
from jrh_mlflow.engine.calls import plan_calls
from jrh_mlflow.engine.runner import ask_calls
from jrh_mlflow.engine.sessions import NoJournal
from jrh_mlflow.errors import JrhWarning, RecipeError
from jrh_mlflow.exporting import exported_scorers as exported
from jrh_mlflow.judges import Judge
from jrh_mlflow.measuring.resolve import resolve_judge
from jrh_mlflow.models.families import kinship_note
from jrh_mlflow.schema.items import Item
from jrh_mlflow.schema.presentation import Message
from jrh_mlflow.suites.suite import Suite
from jrh_mlflow.tracking.judges.scorer_facts import exported_scorer, specification
from jrh_mlflow.tracking.judges.scorers import from_mlflow, in_memory_trace, scorer_fields
from jrh_mlflow.tracking.runs import keys
from tests.cases import few
from tests.loopback import Faults, LoopbackServer, Reply, error_reply, verdict
from tests.mlflow_features import before
from tests.tracking.judges.mlflow_chat import chatting, compare
from tests.tracking.judges.mlflow_chat import verdict as said

PAIR = {"inputs": {"instruction": "Name a prime."}, "outputs": {"A": "7 is prime", "B": "9 is prime"}}
KEY = "sk-planted-0123456789"
HOSTILE = "'''\"\"\"\\ {x} {{y}} %s \r\n\t\u2028\u2029\u0085\x00\ud800 </script> \N{PILE OF POO} '); raise SystemExit('"


@pytest.fixture(autouse=True)
def _workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a judge sets for the process is set already, so that it does not outlive the test."""
    monkeypatch.setenv("MLFLOW_GENAI_EVAL_MAX_WORKERS", "7")


@pytest.fixture
def server() -> Iterator[LoopbackServer]:
    with LoopbackServer(record=True) as running:
        yield running


def spec_of(judge: Judge, **given: Any) -> dict[str, Any]:
    whole = {
        "format": 1,
        "kind": "judge",
        "name": judge.name,
        "judge": judge.definition(),
        "fingerprint": judge.fingerprint(),
        "simulated": judge.simulated,
        "answers": None,
        "ordinal": None,
        "levels": False,
        "rubric": None,
        "orders": "one",
        "stale": "warn",
        "status": "measured",
        "differs": [],
        "datasheet": {
            "run_id": "run7",
            "suite_name": "mine",
            "suite_sha256": "abc",
            "profile": "vacuum-clean",
            "kinds": ["pair"],
            "answered_by": [],
        },
    }
    return {**whole, **given}


def judging(server: LoopbackServer, **given: Any) -> jrh.PromptedJudge:
    return jrh.PromptedJudge("openai/m", **{"api_base": server.url, **given})


def export(judge: Judge, **given: Any) -> Any:
    return exported_scorer(spec_of(judge, **given), name="judge")


@pytest.mark.parametrize("where", ["name", "judge", "answers", "rubric"])
def test_hostile_texts_survive_being_written_down(where: str) -> None:
    spec = {**spec_of(jrh.scripted.AlwaysFirst()), where: [HOSTILE, "other"] if where == "answers" else HOSTILE}
    made = exported_scorer(spec, name=f"n {HOSTILE!r}", description=HOSTILE)
    assert specification(made) == spec
    source = made.model_dump()["call_source"]
    assert source.isascii()
    assert source.count("\n") == 2, "no text of the specification begins a line of code"


def test_nothing_is_lost_when_the_cache_of_source_lines_is_cleared() -> None:
    made = export(jrh.scripted.AlwaysFirst())
    linecache.clearcache()
    assert specification(made) == spec_of(jrh.scripted.AlwaysFirst())


def test_other_scorers_carry_no_specification_and_their_code_is_not_run() -> None:
    @scorer
    def plain(outputs: str) -> bool:
        raise AssertionError("jrh_mlflow.exporting.exported_scorers import score_row")

    assert specification(plain) is None
    assert specification(object()) is None


def test_another_format_is_refused_with_the_way_out_and_a_row_of_it_is_an_error() -> None:
    spec = {**spec_of(jrh.scripted.AlwaysFirst()), "format": 2}
    with pytest.raises(RecipeError, match="Install the jrh-mlflow that wrote it"):
        specification(exported_scorer(spec, name="new"))
    feedback = exported.score_row(json.dumps(spec), **PAIR)
    assert (feedback.value, feedback.error.error_code) == (None, "JUDGE_ERROR")
    assert "schema version 2" in feedback.error.error_message


def test_an_unknown_kind_is_an_error_and_no_verdict() -> None:
    feedback = exported.score_row(
        json.dumps({**spec_of(jrh.scripted.AlwaysFirst()), "kind": "oracle of Delphi"}), **PAIR
    )
    assert feedback.error.error_code == "JUDGE_ERROR"
    assert "oracle of Delphi" in feedback.error.error_message


@pytest.mark.parametrize(
    ("reply", "code", "part"),
    [
        ("I think the first one is better.", "UNPARSED", "no JSON"),
        ('{"reason": "x", "verdict": "A', "UNPARSED", ""),
        ('{"reason": "x", "verdict": "C"}', "UNPARSED", "C"),
        ("", "JUDGE_ERROR", "empty"),
        (Reply(text=None, refusal="I cannot judge that."), "UNPARSED", "refusal"),
        (Reply(choices=False), "JUDGE_ERROR", "empty_choices"),
        (Reply(text='{"reason": "', finish_reason="length"), "UNPARSED", "truncated"),
        (Reply(text="x", finish_reason="content_filter"), "JUDGE_ERROR", "content_filter"),
        (error_reply(400, "bad"), "JUDGE_ERROR", "bad"),
        (error_reply(401, f"Incorrect key {KEY}"), "JUDGE_ERROR", "key"),
        (error_reply(404, "no such model"), "JUDGE_ERROR", "no such model"),
    ],
)
def test_what_is_no_answer_is_an_error_of_the_feedback_and_never_a_value(
    reply: str | Reply, code: str, part: str, server: LoopbackServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    server.reply = lambda _: reply
    for _ in range(2):
        feedback = export(judging(server)).run(**PAIR)
        assert (feedback.value, feedback.error.error_code) == (None, code)
        assert part.lower() in feedback.error.error_message.lower()
        assert feedback.metadata[keys.FEEDBACK_RUN] == "run7"
        assert feedback.metadata[keys.FEEDBACK_OUTCOME] == ("unparsed" if code == "UNPARSED" else "error")
        assert KEY not in str(feedback.to_dictionary())
    server.reply = verdict("A")
    assert export(judging(server)).run(**PAIR).value == "A", "one failure says nothing about the rows after it"


def test_every_row_is_asked_anew_and_carries_datasheet_tokens_and_who_answered(server: LoopbackServer) -> None:
    made = export(judging(server))
    one, two = made.run(**PAIR), made.run(**PAIR)
    assert server.counts["requests"] == 2
    assert one.value == two.value == "A"
    assert one.name == "judge"
    assert (one.source.source_type, one.source.source_id) == ("LLM_JUDGE", "openai/m")
    assert one.rationale == "loopback"
    body = {key: value for key, value in one.metadata.items() if not key.startswith("mlflow.")}
    assert body == {
        "jrh.datasheet_run_id": "run7",
        "jrh.suite_name": "mine",
        "jrh.suite_sha256": "abc",
        "jrh.profile": "vacuum-clean",
        "jrh.status": "measured",
        "jrh.judge_fingerprint": judging(server).fingerprint(),
        "jrh.outcome": "verdict",
        "jrh.orders": "one",
        "jrh.answered_by": "m",
    }
    assert one.metadata[keys.JUDGE_INPUT_TOKENS] == server.counts["input_tokens"] / 2
    assert one.metadata[keys.JUDGE_OUTPUT_TOKENS] == server.counts["output_tokens"] / 2


@pytest.mark.parametrize("status", few(["measured", "stale"]))
def test_the_text_that_a_trace_shows_of_feedback_ends_with_the_link_to_the_datasheet(
    status: str, server: LoopbackServer
) -> None:
    link, judge = "#/experiments/1/runs/run7", judging(server)
    made = export(judge, datasheet={**spec_of(judge)["datasheet"], "link": link}, status=status)
    feedback = made.run(**PAIR)
    assert feedback.rationale == f"loopback\n\n{status.capitalize()}: [datasheet]({link})."
    server.reply = "prose"
    failed = made.run(**PAIR)
    assert failed.rationale == f"{status.capitalize()}: [datasheet]({link})."
    assert feedback.metadata[keys.FEEDBACK_LINK] == failed.metadata[keys.FEEDBACK_LINK] == link


def test_a_trace_says_of_a_simulated_judge_that_it_is_one() -> None:
    judge = jrh.scripted.AlwaysFirst()
    made = export(judge, datasheet={**spec_of(judge)["datasheet"], "link": "#/x"})
    assert made.run(**PAIR).rationale.endswith("Simulated judge. Measured: [datasheet](#/x).")


def test_a_price_that_is_known_is_told_under_mlflows_own_key(server: LoopbackServer) -> None:
    feedback = export(jrh.PromptedJudge("openai/gpt-4o-mini", api_base=server.url)).run(**PAIR)
    tokens_in, tokens_out = (feedback.metadata[key] for key in (keys.JUDGE_INPUT_TOKENS, keys.JUDGE_OUTPUT_TOKENS))
    assert feedback.metadata[keys.JUDGE_COST] == pytest.approx(tokens_in * 0.15e-6 + tokens_out * 0.6e-6, abs=1e-6)


def test_a_simulated_judge_says_so_and_is_code() -> None:
    feedback = export(jrh.scripted.AlwaysFirst()).run(**PAIR)
    assert feedback.value == "A"
    assert feedback.metadata[keys.FEEDBACK_SIMULATED] == "true"
    assert feedback.source.source_type == "CODE"


@pytest.mark.parametrize(
    ("inputs", "instruction"),
    [
        ({"instruction": "Do it."}, "Do it."),
        ({"question": "What?"}, "What?"),
        ("Just text", "Just text"),
        ({"question": "What?", "context": "here"}, '{"question": "What?", "context": "here"}'),
        ({"messages": [{"role": "user", "content": "Grüße"}]}, '{"messages": [{"role": "user", "content": "Grüße"}]}'),
        ({}, "{}"),
    ],
)
def test_inputs_are_the_instruction_the_one_text_or_json(inputs: Any, instruction: str, server: LoopbackServer) -> None:
    export(judging(server)).run(inputs=inputs, outputs=PAIR["outputs"])
    assert f"\n{instruction}\n" in server.requests[0]["body"]["messages"][-1]["content"]


def test_outputs_that_are_no_text_are_shown_as_json_and_scales_are_numbers(server: LoopbackServer) -> None:
    server.reply = verdict("4")
    made = export(judging(server), answers=["1", "2", "3", "4", "5"])
    assert made.run(inputs="Rate", outputs={"answer": 7}).value == 4
    assert '\n{"answer": 7}\n' in server.requests[0]["body"]["messages"][-1]["content"]
    half = export(judging(server), answers=["0", "0.5", "1"])
    server.reply = verdict("0.5")
    assert half.run(inputs="Rate", outputs="x").value == 0.5
    server.reply = verdict("1")
    binary = export(judging(server), answers=["0", "1"]).run(inputs="Rate", outputs="x")
    assert (binary.value, type(binary.value)) == ("1", str), "two numbers are labels"
    scale = export(judging(server), answers=["0", "1"], ordinal=True).run(inputs="Rate", outputs="x")
    assert (scale.value, type(scale.value)) == (1, int)
    words = export(judging(server), answers=["poor", "good"], ordinal=True)
    server.reply = verdict("good")
    assert words.run(inputs="Rate", outputs="x").value == "good"


def test_a_kind_of_row_that_was_not_measured_is_judged_and_says_so(server: LoopbackServer) -> None:
    server.reply = verdict("yes")
    feedback = export(judging(server), answers=["no", "yes"]).run(inputs="Rate", outputs="x")
    assert feedback.value == "yes"
    assert "not measured" in feedback.metadata[keys.FEEDBACK_NOTE]
    assert keys.FEEDBACK_ORDERS not in feedback.metadata


def test_feedback_notes_that_the_application_of_its_trace_is_of_the_judges_family(server: LoopbackServer) -> None:
    made = exported_scorer(spec_of(jrh.PromptedJudge("openai/gpt-4o", api_base=server.url)), name="judge")
    inputs = {"model": "gpt-4o-mini", **PAIR["inputs"]}
    related = made.run(**PAIR, trace=in_memory_trace(inputs, PAIR["outputs"]))
    assert related.metadata[keys.FEEDBACK_NOTE] == kinship_note(["gpt-4o"], ["gpt-4o-mini"])
    other = made.run(**PAIR, trace=in_memory_trace({**inputs, "model": "claude-sonnet-4-5"}, PAIR["outputs"]))
    assert keys.FEEDBACK_NOTE not in other.metadata


@pytest.mark.parametrize(
    ("row", "part"),
    [
        ({"inputs": "Rate", "outputs": "x"}, "exported for pairs only"),
        ({"inputs": "Rate", "outputs": None}, "no outputs"),
        ({"inputs": None, "outputs": {"A": "x", "B": "y"}}, "no inputs"),
        ({"inputs": "Rate", "outputs": {"A": "x", "B": None}}, "pair without its B"),
        ({"inputs": "Rate", "outputs": {"B": "x", "A": math.nan}}, "pair without its A"),
        ({"inputs": "Rate", "outputs": math.nan}, "no outputs"),
        ({"inputs": "Rate", "outputs": pd.NA}, "no outputs"),
        ({"inputs": "Rate", "outputs": {"response": math.nan}}, "no outputs"),
        ({"inputs": {"question": None}, "outputs": {"A": "x", "B": "y"}}, "no inputs"),
        ({"inputs": "Rate", "outputs": {"transcript": []}}, "no messages"),
        ({"inputs": "Rate", "outputs": {"transcript": [{"content": "no role"}]}}, "role"),
    ],
)
def test_a_row_that_cannot_be_judged_is_an_error_and_nothing_is_sent(
    row: dict[str, Any], part: str, server: LoopbackServer
) -> None:
    feedback = export(judging(server), answers=None if "pairs only" in part else ["no", "yes"]).run(**row)
    assert (feedback.value, feedback.error.error_code) == (None, "ROW_ERROR")
    assert part in feedback.error.error_message
    assert feedback.metadata[keys.FEEDBACK_RUN] == "run7"
    assert server.counts["requests"] == 0


def test_what_a_row_lacks_is_taken_from_its_trace(server: LoopbackServer) -> None:
    made = export(judging(server))
    trace = in_memory_trace(PAIR["inputs"], PAIR["outputs"])
    assert made.run(trace=trace).value == "A"
    assert made.run(**PAIR).value == "A"
    assert server.requests[0]["text"] == server.requests[1]["text"]
    assert made.run(trace=trace, inputs=PAIR["inputs"], outputs=math.nan).value == "A", "pandas' way to have none"
    stored = in_memory_trace(PAIR["inputs"], math.nan)
    assert made.run(trace=stored, inputs=PAIR["inputs"], outputs=math.nan).error.error_code == "ROW_ERROR"


def test_an_empty_text_is_judged_and_a_missing_rubric_is_that_of_the_suite(server: LoopbackServer) -> None:
    server.reply = verdict("yes")
    made = export(judging(server), answers=["no", "yes"], rubric="Be brief.")
    assert made.run(inputs={"instruction": "Rate", "rubric": math.nan, "context": math.nan}, outputs="").value == "yes"
    shown = server.requests[0]["body"]["messages"][-1]["content"]
    assert "Be brief." in shown
    assert "NaN" not in shown


def suite_of(*items: Item) -> Suite:
    return Suite(name="mine", items=items)


TRANSCRIPT = (
    Message(role="user", content="Look it up.\u2028Now"),
    Message(role="assistant", content="", tool_calls=({"id": "1", "name": "search", "arguments": {"q": "x"}},)),
    Message(role="tool", content="two hits", tool_call_id="1", name="search", error="slow"),
    Message(role="assistant", content="Two.", reasoning="I counted."),
)


@pytest.mark.parametrize(
    "item",
    [
        Item(id="p", task="t", condition="natural", better="u", instruction="Say", u="x", v="y", rubric="Be\n\nstrict"),
        Item(id="p", task="t", condition="natural", better="u", instruction="Say", u="", v="  "),
        Item(id="r", task="t", condition="baseline", kind="response", instruction="Say", response="x",
             answers=("no", "yes"), rubric="R"),
        Item(id="o", task="t", condition="baseline", kind="response", instruction="Say", response="x",
             answers=("1", "2", "3"), context=("We open at nine.", "By rail.")),
        Item(id="t", task="t", condition="baseline", kind="transcript", instruction="Say", transcript=TRANSCRIPT,
             answers=("no", "yes")),
    ],
    ids=["pair", "vacuum", "response", "scale", "transcript"],
)  # fmt: skip
@pytest.mark.parametrize("tie_criterion", ["allowed", "forced"])
def test_rows_as_from_mlflow_lays_them_out_give_the_bytes_of_the_measured_call(
    item: Item, tie_criterion: str, server: LoopbackServer
) -> None:
    judge = judging(server, tie_criterion=tie_criterion, rubric="Mine first")
    made = export(judge, answers=item.answers, ordinal=item.ordinal)
    for call in plan_calls(suite_of(item), judge, replicates=1):
        laid = scorer_fields(made, call.presentation, {})
        made.run(inputs=laid["inputs"], outputs=laid["outputs"])
        sent = server.requests[-1]["body"]["messages"]
        assert sent == [dict(message) for message in judge.request(call).messages]


def test_a_row_without_a_rubric_gets_the_one_of_the_measured_suite_and_its_own_comes_first(
    server: LoopbackServer,
) -> None:
    made = export(judging(server), rubric="That of the suite.")
    made.run(**PAIR)
    made.run(inputs={**PAIR["inputs"], "rubric": "That of the row."}, outputs=PAIR["outputs"])
    first, second = (one["body"]["messages"][-1]["content"] for one in server.requests)
    assert "That of the suite.\n\nDecide which" in first
    assert "That of the row.\n\nDecide which" in second
    assert "That of the suite." not in second


def answering(*, a_first: str, b_first: str) -> Callable[[Any], str]:
    """Answer by the order in which the two contents stand."""

    def reply(body: Any) -> str:
        text = body["messages"][-1]["content"]
        return verdict(a_first if text.index("7 is prime") < text.index("9 is prime") else b_first)(body)

    return reply


@pytest.mark.parametrize(
    ("a_first", "b_first", "criterion", "value", "outcome"),
    [
        ("A", "B", "allowed", "A", "verdict"),
        ("B", "A", "allowed", "B", "verdict"),
        ("tie", "tie", "allowed", "tie", "tie"),
        ("A", "A", "allowed", "tie", "positional"),
        ("B", "B", "allowed", "tie", "positional"),
        ("A", "A", "forced", "abstain", "positional"),
        ("tie", "A", "allowed", "tie", "one_sided"),
        ("B", "tie", "allowed", "tie", "one_sided"),
    ],
)
def test_in_both_orders_only_a_verdict_that_both_give_stands(
    a_first: str, b_first: str, criterion: str, value: str, outcome: str, server: LoopbackServer
) -> None:
    server.reply = answering(a_first=a_first, b_first=b_first)
    feedback = export(judging(server, tie_criterion=criterion), orders="both").run(**PAIR)
    assert (feedback.value, feedback.metadata[keys.FEEDBACK_OUTCOME]) == (value, outcome)
    assert feedback.metadata[keys.FEEDBACK_ORDERS] == "both"
    assert server.counts["requests"] == 2
    assert feedback.metadata[keys.JUDGE_INPUT_TOKENS] == server.counts["input_tokens"]
    assert feedback.rationale == "A shown first: loopback\n\nB shown first: loopback"


@pytest.mark.parametrize("broken", ["a_first", "b_first"])
def test_an_order_that_fails_leaves_no_verdict(broken: str, server: LoopbackServer) -> None:
    reply = answering(a_first="A", b_first="B")

    def failing(body: Any) -> str:
        text = body["messages"][-1]["content"]
        is_a_first = text.index("7 is prime") < text.index("9 is prime")
        return "prose" if is_a_first == (broken == "a_first") else reply(body)

    server.reply = failing
    feedback = export(judging(server), orders="both").run(**PAIR)
    assert (feedback.value, feedback.error.error_code) == (None, "UNPARSED")


def test_a_response_is_asked_once_whatever_the_orders(server: LoopbackServer) -> None:
    server.reply = verdict("yes")
    assert export(judging(server), orders="both", answers=["no", "yes"]).run(inputs="Rate", outputs="x").value == "yes"
    assert server.counts["requests"] == 1


def test_another_answering_model_is_said_once_and_stands_in_the_metadata() -> None:
    with LoopbackServer(model_name="m-2027") as server:
        judge = judging(server)
        sheet = {**spec_of(judge)["datasheet"], "answered_by": ["m-2026"]}
        made = export(judge, datasheet=sheet)
        with pytest.warns(JrhWarning, match="answering model .measured m-2026, running m-2027"):
            feedback = made.run(**PAIR)
        assert feedback.value == "A"
        assert feedback.metadata[keys.FEEDBACK_STATUS] == "stale"
        assert "m-2027" in feedback.metadata[keys.FEEDBACK_DIFFERS]
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert made.run(**PAIR).metadata[keys.FEEDBACK_STATUS] == "stale"
        refusing = export(judge, datasheet=sheet, stale="refuse").run(**PAIR)
        assert (refusing.value, refusing.error.error_code) == (None, "STALE")
        assert "m-2027" in refusing.error.error_message


def test_reading_feedback_back_gives_the_answers_of_the_judge(server: LoopbackServer) -> None:
    """The way of `from_mlflow` out and in: slots, ties and labels come back as they were."""
    for word, answer in (("A", "1"), ("B", "2"), ("tie", "tie")):
        server.reply = verdict(word)
        item = Item(id="p", task="t", condition="natural", better="u", instruction="Say", u="x", v="y")
        judge = judging(server)
        outer = from_mlflow(export(judge))
        (call, _) = plan_calls(suite_of(item), judge, replicates=1)
        (record,) = ask_calls(outer, [call], journal=NoJournal()).records
        assert (record.answer or record.outcome) == answer


def test_a_judge_of_one_response_put_to_pairs_is_asked_about_both_contents(server: LoopbackServer) -> None:
    def reply(body: Any) -> str:
        return verdict("5" if "7 is prime" in body["messages"][-1]["content"] else "2")(body)

    server.reply = reply
    judge = jrh.pointwise(judging(server))
    assert export(judge).run(**PAIR).value == "A"
    assert export(judge).run(inputs=PAIR["inputs"], outputs={"A": "9 is prime", "B": "7 is prime"}).value == "B"
    assert server.counts["requests"] == 4


def test_a_judge_of_mlflows_answers_as_it_does_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    with chatting(monkeypatch) as chat:
        inner = compare()
        made = export(from_mlflow(inner))
        feedback = made.run(**PAIR)
        rubric = from_mlflow(inner).tie_criterion.text
        inner.run(inputs={**PAIR["inputs"], "rubric": rubric}, outputs=PAIR["outputs"])
        assert chat.bodies[0] == chat.bodies[1]
        assert (feedback.value, feedback.rationale) == ("A", "It is better.")
        assert feedback.metadata[keys.JUDGE_INPUT_TOKENS] == 11
        chat.reply = lambda _: "prose"
        assert made.run(**PAIR).error.error_code == "UNPARSED"


def test_a_judge_of_mlflows_is_stale_while_the_environment_names_another_endpoint(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with chatting(monkeypatch) as chat:
        measured = os.environ["OPENAI_API_BASE"]
        refusing, warning = (export(from_mlflow(compare()), stale=stale) for stale in ("refuse", "warn"))
        assert refusing.run(**PAIR).value == "A"
        monkeypatch.setenv("OPENAI_API_BASE", f"{measured}/other")
        asked = len(chat.bodies)
        refused = refusing.run(**PAIR)
        assert (refused.value, refused.error.error_code) == (None, "STALE")
        assert f"{measured}/other" in refused.error.error_message
        assert refused.metadata[keys.FEEDBACK_STATUS] == "stale"
        assert len(chat.bodies) == asked, "nothing is sent to an endpoint that is refused"
        with pytest.warns(JrhWarning, match="endpoint"):
            assert warning.run(**PAIR).metadata[keys.FEEDBACK_STATUS] == "stale"
        monkeypatch.setenv("OPENAI_API_BASE", measured)
        for made in (refusing, warning):
            assert made.run(**PAIR).metadata[keys.FEEDBACK_STATUS] == "measured"


@pytest.mark.parametrize(("levels", "expected"), [(True, (0.7, None)), (False, (None, "UNPARSED"))])
def test_grades_of_any_form_are_read_where_the_measured_suite_read_them(
    levels: bool, expected: tuple[Any, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    with chatting(monkeypatch) as chat:
        chat.reply = lambda _: said(0.7)
        made = export(from_mlflow(compare(feedback_value_type=float)), answers=["no", "yes"], levels=levels)
        feedback = made.run(inputs="Rate", outputs="x")
    assert (feedback.value, feedback.error and feedback.error.error_code) == expected


def test_a_timeout_of_mlflows_ends_the_row_and_a_key_that_a_model_repeats_is_blanked(
    server: LoopbackServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    server.reply = verdict("B", reason=f"Your key is {KEY}.")
    made = export(judging(server))
    feedback = made.run(**PAIR)
    assert (feedback.value, feedback.rationale) == ("B", "Your key is [key].")
    released = asyncio.Event()
    server.hold = released.wait
    if before("3.17"):
        assert not hasattr(made, "timeout")
        return
    made.timeout = 0.05
    with pytest.raises(Exception, match=r"timed out after 0\.05 seconds"):
        made.run(**PAIR)
    server._loop.call_soon_threadsafe(released.set)


@pytest.mark.slow
def test_forty_threads_share_one_session_and_each_gets_its_own_answer(server: LoopbackServer) -> None:
    def reply(body: Any) -> str:
        text = body["messages"][-1]["content"]
        number = int(text.split("row number ")[1].split()[0])
        return verdict("AB"[number % 2])(body)

    server.reply = reply
    made = export(judging(server))
    rows = [{"inputs": f"row number {number} here", "outputs": PAIR["outputs"]} for number in range(200)]
    with ThreadPoolExecutor(40) as pool:
        values = list(pool.map(lambda row: made.run(**row).value, rows))
    assert values == ["AB"[number % 2] for number in range(200)]
    assert server.counts["requests"] == 200


def test_sessions_are_renewed_and_rejections_for_rate_lose_no_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "_CALLS_PER_SESSION", 7)
    with LoopbackServer(faults=Faults(rate_limited=0.2, retry_after="0.01")) as busy:
        made = export(judging(busy))
        with ThreadPoolExecutor(10) as pool:
            values = list(pool.map(lambda _: made.run(**PAIR).value, range(30)))
        assert values == ["A"] * 30
        assert busy.counts["rate_limited"]


def test_a_caller_with_a_running_event_loop_is_answered(server: LoopbackServer) -> None:
    async def notebook() -> Feedback:
        return export(judging(server))(**PAIR)

    assert asyncio.run(notebook()).value == "A"


def test_a_key_that_is_set_later_is_used(server: LoopbackServer, monkeypatch: pytest.MonkeyPatch) -> None:
    server.key = KEY
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    made = export(judging(server))
    assert made.run(**PAIR).error.error_code == "JUDGE_ERROR"
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    assert made.run(**PAIR).value == "A"
    assert KEY not in json.dumps(made.model_dump())


def test_the_child_of_a_fork_asks_by_itself(server: LoopbackServer) -> None:
    made = export(judging(server))
    assert made.run(**PAIR).value == "A"
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:  # pragma: no cover - in the child
        os.write(writing, str(made(**PAIR).value).encode())
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(reading, 10) == b"A"
    os.close(reading)
    os.close(writing)


def test_a_row_without_an_answer_in_time_is_an_error(server: LoopbackServer, monkeypatch: pytest.MonkeyPatch) -> None:
    async def never() -> None:
        await asyncio.sleep(30)

    server.hold = never
    monkeypatch.setattr(exported.LiveJudge.__init__, "__kwdefaults__", {"longest_s": 0.05})
    feedback = export(judging(server, name="slow one")).run(**PAIR)
    assert (feedback.value, feedback.error.error_code) == (None, "JUDGE_ERROR")
    assert "no answer within 0.05 s" in feedback.error.error_message


def positional(name: str) -> Any:
    """A simulated judge that always prefers what is shown first, exported so that it asks both orders."""
    return exported_scorer(spec_of(jrh.scripted.AlwaysFirst(), orders="both", simulated=True), name=name)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_exported_judges_in_a_list_are_measured_as_they_are_alone(n: int):
    judge = resolve_judge([positional(f"m{number}") for number in range(n)])
    items = [Item(id="i", task="t", condition="natural", instruction="?", u="x", v="y", better="u")]
    records = ask_calls(judge, plan_calls(Suite(name="one", items=items), judge, replicates=1)).records
    assert (judge.simulated, [one.answer for one in records]) == (True, ["1", "1"])


def test_a_list_with_a_simulated_judge_in_it_is_simulated():
    assert from_mlflow(positional("alone")).simulated
    assert resolve_judge([positional("one"), compare()]).simulated
    assert not resolve_judge([compare(), compare(name="other")]).simulated


def test_judges_exported_for_pairs_are_refused_on_single_responses_before_any_call():
    graded = jrh.load_suite("pointwise-datasheet")
    with pytest.raises(RecipeError, match="says A, B, tie, and suite"):
        resolve_judge([positional("one"), positional("two")]).begin(graded)


def given(value: Any, *, outcome: str = "verdict", orders: str | None = None, name: str = "judge") -> Feedback:
    more = {} if orders is None else {keys.FEEDBACK_ORDERS: orders}
    return Feedback(name=name, value=value, metadata={keys.FEEDBACK_OUTCOME: outcome, **more})


def test_an_evaluation_by_labels_has_a_mean_and_other_labels_their_shares() -> None:
    graded = [given("pass"), given("pass"), given("Fail"), given("abstain", outcome="abstain")]
    assert exported.feedback_metrics(graded) == {"judge/mean": 2 / 3}
    named = [given("good", name="tone"), given("fair", name="tone"), given("good", name="tone"), given(3, name="grade")]
    assert exported.feedback_metrics(named) == {"tone/share/good": 2 / 3, "tone/share/fair": 1 / 3}
    assert exported.feedback_metrics([Feedback(name="theirs", value="pass")]) == {}


def test_an_evaluation_of_pairs_has_win_rate_tie_share_and_flips() -> None:
    rows = [given("A", orders="both"), given("B", orders="both"), given("tie", outcome="tie", orders="both")]
    rows += [given("tie", outcome="positional", orders="both")]
    rates = {"judge/win_rate": 1 / 4, "judge/tie_share": 2 / 4}
    assert exported.feedback_metrics(rows) == {**rates, "judge/flips": 1 / 4}
    once = [given("A", orders="one"), given("B", orders="one")]
    assert exported.feedback_metrics(once) == {"judge/win_rate": 1 / 2, "judge/tie_share": 0}
