"""Every judge that MLflow brings along is measured on some suite, or refused before any call with the reason."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest
from mlflow.genai import scorers

from jrh_mlflow.engine import ask_calls, plan_calls
from jrh_mlflow.errors import RecipeError
from jrh_mlflow.judges import Judge
from jrh_mlflow.measuring.resolve import pointwise, prepare
from jrh_mlflow.schema.items import CallRecord, Item
from jrh_mlflow.schema.presentation import Message
from jrh_mlflow.suites.suite import Suite
from jrh_mlflow.tracking.judges.scorers import from_mlflow
from tests.tracking.judges.mlflow_chat import MODEL, ChatServer, chatting, verdict

SEARCH = {"id": "c1", "name": "search", "arguments": {"query": "opening hours"}}
TALK = (
    Message(role="system", content="You are a clerk."),
    Message(role="user", content="When do you open?"),
    Message(role="assistant", content="I look it up.", tool_calls=(SEARCH,)),
    Message(role="tool", content="nine o'clock", tool_call_id="c1"),
    Message(role="assistant", content="We open at nine."),
    Message(role="user", content="And on Sundays?"),
    Message(role="assistant", content="We are closed."),
)
PLAIN = Item(
    id="plain", task="t", condition="baseline", kind="response", instruction="When?", response="At nine.",
    answers=("no", "yes"), expected="yes",
)  # fmt: skip
ITEMS = {
    "response": PLAIN,
    "rubric": replace(PLAIN, id="rubric", rubric="Name the hour."),
    "context": replace(PLAIN, id="context", context="Doors open at nine."),
    "texts": replace(PLAIN, id="texts", context=("Doors open at nine.", "Closed on Sundays.")),
    "shares": replace(PLAIN, id="shares", context=("One.", "Two."), answers=("0", "0.5", "1"), expected="1"),
    "talk": replace(PLAIN, id="talk", kind="transcript", response=None, transcript=TALK),
    "words": replace(PLAIN, id="words", kind="transcript", response=None, transcript=TALK[:2] + TALK[4:]),
    "moods": replace(
        PLAIN, id="moods", kind="transcript", response=None, transcript=TALK,
        answers=("none", "resolved", "unresolved"), expected="none",
    ),
    "pair": Item(id="pair", task="t", condition="natural", instruction="When?", u="Nine.", v="Ten.", better="u"),
}  # fmt: skip
MEASURED: dict[str, tuple[str, ...]] = {
    "Completeness": ("response", "talk"),
    "ConversationalGuidelines": ("talk", "response"),
    "ConversationalRoleAdherence": ("talk", "response"),
    "ConversationalSafety": ("talk", "response"),
    "ConversationalToolCallEfficiency": ("talk", "response"),
    "ConversationCompleteness": ("talk", "response"),
    "ExpectationsGuidelines": ("rubric",),
    "Fluency": ("response", "talk"),
    "Guidelines": ("response", "talk"),
    "KnowledgeRetention": ("talk", "response"),
    "PIIDetection": ("response",),
    "RegexMatch": ("response",),
    "RelevanceToQuery": ("response", "talk"),
    "ResponseLength": ("response",),
    "RetrievalGroundedness": ("context", "texts"),
    "RetrievalRelevance": ("context", "shares"),
    "Safety": ("response", "talk"),
    "Summarization": ("response",),
    "ToolCallCorrectness": ("talk",),
    "ToolCallEfficiency": ("talk",),
    "UserFrustration": ("moods",),
}
REFUSED: dict[str, tuple[tuple[str, str], ...]] = {
    "Correctness": (("response", "needs expectations .expected_response or expected_facts.*expectations="),),
    "Equivalence": (("response", "needs expectations .expected_response.*expectations="),),
    "RetrievalSufficiency": (("context", "needs expectations .expected_response or expected_facts"),),
    "ExpectationsGuidelines": (("response", "'plain' has none. Make the suite with a rubric"),),
    "RetrievalGroundedness": (("response", "retrieved texts.*'plain' has none.*column `context`"), ("talk", "context")),
    "RetrievalRelevance": (("response", "retrieved texts"), ("texts", "'texts' has several. Give each item one text")),
    "ToolCallCorrectness": (("response", "judges tool calls, and no item"), ("words", "judges tool calls")),
    "ToolCallEfficiency": (("response", "judges tool calls"),),
    "UserFrustration": (("talk", "says none, resolved, unresolved"),),
    "Safety": (("pair", "grades one response.*jrh.pointwise"),),
    "ConversationalSafety": (("pair", "grades one response"),),
}
MORE: dict[str, dict[str, Any]] = {
    "ConversationalGuidelines": {"guidelines": "Be kind."},
    "Guidelines": {"guidelines": "Be kind."},
    "RegexMatch": {"pattern": "nine"},
    "ResponseLength": {"min_length": 1, "max_length": 9},
}
CODE = ("PIIDetection", "RegexMatch", "ResponseLength")
OFFERED = [
    name for name in scorers.__all__ if "required_columns" in getattr(getattr(scorers, name), "model_fields", ())
]
"""By the installed version of MLflow."""


@pytest.fixture
def chat(monkeypatch: pytest.MonkeyPatch) -> Iterator[ChatServer]:
    with chatting(monkeypatch) as server:
        server.reply = lambda _: verdict("yes")
        yield server


def built_in(name: str, **more: Any) -> Any:
    model = {} if name in CODE else {"model": MODEL}
    return getattr(scorers, name)(**model, **MORE.get(name, {}), **more)


def suite_of(*names: str) -> Suite:
    return Suite(name="made here", items=[ITEMS[name] for name in names])


def measured(judge: Judge, *names: str) -> Sequence[CallRecord]:
    prepared = prepare(judge, suite_of(*names))
    return ask_calls(judge, plan_calls(prepared.suite, judge, replicates=1), concurrency=1).records


def test_every_judge_that_mlflow_brings_along_is_known_here() -> None:
    assert set(OFFERED) <= {*MEASURED, *REFUSED}


@pytest.mark.parametrize("name", OFFERED)
def test_on_any_item_it_answers_or_is_refused_before_any_call(chat: ChatServer, name: str) -> None:
    for item in ITEMS:
        chat.bodies.clear()
        try:
            records = measured(from_mlflow(built_in(name)), item)
        except RecipeError:
            assert chat.bodies == []
        else:
            assert {record.outcome for record in records} <= {"verdict", "unparsed"}, item


@pytest.mark.parametrize(("name", "item"), [(name, item) for name in OFFERED for item in MEASURED.get(name, ())])
def test_it_answers_and_asks_its_own_model_only(chat: ChatServer, name: str, item: str) -> None:
    if item == "moods":
        chat.reply = lambda _: verdict("none")
    (record,) = measured(from_mlflow(built_in(name)), item)
    assert (record.outcome, record.error) == ("verdict", None)
    assert record.answer == ITEMS[item].expected
    asked = {"KnowledgeRetention": 2 if item == "talk" else 1, "RetrievalRelevance": 2 if item == "shares" else 1}
    assert len(chat.bodies) == (0 if name in CODE else asked.get(name, 1))
    assert {body["model"] for body in chat.bodies} <= {MODEL.removeprefix("openai:/")}


@pytest.mark.parametrize(
    ("name", "item", "said"), [(name, *case) for name in OFFERED for case in REFUSED.get(name, ())]
)
def test_it_is_refused_before_any_call_with_the_reason(chat: ChatServer, name: str, item: str, said: str) -> None:
    with pytest.raises(RecipeError, match=f"(?s){said}"):
        prepare(built_in(name), suite_of(item))
    assert chat.bodies == []


def test_prompt_settings_and_definition_of_each_can_be_told() -> None:
    for name in MEASURED.keys() & set(OFFERED):
        judge = from_mlflow(built_in(name))
        assert judge.prompt()
        assert judge.settings()["scorer"] in ("builtin", "guidelines")
        judge.fingerprint()
        judge.definition()


def test_groundedness_is_asked_about_the_texts_of_the_item_and_relevance_about_each(chat: ChatServer) -> None:
    measured(from_mlflow(built_in("RetrievalGroundedness")), "texts")
    (body,) = chat.bodies
    sent = str(body["messages"])
    assert all(text in sent for text in ("Doors open at nine.", "Closed on Sundays.", "At nine.", "When?"))
    chat.bodies.clear()
    chat.reply = lambda body: verdict("yes" if "One." in str(body["messages"]) else "no")
    (record,) = measured(from_mlflow(built_in("RetrievalRelevance")), "shares")
    assert (record.answer, record.input_tokens, len(chat.bodies)) == ("0.5", 22, 2)


def test_two_responses_are_graded_apart_by_the_context_they_share(chat: ChatServer) -> None:
    judge = pointwise(built_in("RetrievalGroundedness"))
    with pytest.raises(RecipeError, match="retrieved texts"):
        prepare(judge, suite_of("pair"))
    suite = Suite(name="grounded", items=[replace(ITEMS["pair"], context="Doors open at nine.")])
    chat.reply = lambda body: verdict("yes" if "Nine." in str(body["messages"]) else "no")
    prepare(judge, suite)
    records = ask_calls(judge, plan_calls(suite, judge, replicates=1), concurrency=1).records
    assert [(one.order, one.answer) for one in records] == [("uv", "1"), ("vu", "2")]
    assert all("Doors open at nine." in str(body["messages"]) for body in chat.bodies)


def test_a_judge_of_tool_calls_is_told_which_tools_there_were_and_skips_what_has_none(chat: ChatServer) -> None:
    spoken, silent = measured(from_mlflow(built_in("ToolCallCorrectness")), "talk", "words")
    assert (spoken.outcome, silent.outcome) == ("verdict", "error")
    assert "this transcript has none" in (silent.error or "")
    (body,) = chat.bodies
    assert "opening hours" in str(body["messages"])
    assert "search" in str(body["messages"])


def test_the_rubric_is_what_row_by_row_guidelines_are(chat: ChatServer) -> None:
    measured(from_mlflow(built_in("ExpectationsGuidelines")), "rubric")
    assert "Name the hour." in str(chat.bodies[0]["messages"])


def test_functions_of_ones_own_stand_in_for_what_a_suite_lacks(chat: ChatServer) -> None:
    from jrh_mlflow.tracking.judges.scorers import in_memory_trace

    def expected(shown: Any) -> dict[str, str]:
        return {"expected_response": "nine"}

    measured(from_mlflow(built_in("Correctness"), expectations=expected), "response")
    assert "nine" in str(chat.bodies[0]["messages"])
    chat.bodies.clear()
    own = ["Own text."]
    traced = {"trace": lambda shown: in_memory_trace("q", shown.response, context=own)}
    measured(from_mlflow(built_in("RetrievalGroundedness"), **traced), "response")
    assert "Own text." in str(chat.bodies[0]["messages"])
    chat.bodies.clear()
    both = from_mlflow(built_in("RetrievalSufficiency"), expectations=expected)
    measured(both, "context")
    assert "Doors open at nine." in str(chat.bodies[0]["messages"])
