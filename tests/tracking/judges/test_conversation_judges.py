"""Judges of whole conversations, shown a transcript as MLflow keeps one: a trace for each turn."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Literal

import pytest

from jrh_mlflow.errors import RecipeError
from jrh_mlflow.schema.items import Call
from jrh_mlflow.schema.presentation import Message
from jrh_mlflow.tracking.judges.scorers import MlflowJudge, from_mlflow, in_memory_session
from tests.tracking.judges.mlflow_chat import (
    MODEL,
    ChatServer,
    ask,
    chatting,
    compare,
    graded_call,
    transcript_call,
    verdict,
)

WHOLE = "Is this {{ conversation }} kind?"


@pytest.fixture
def chat(monkeypatch: pytest.MonkeyPatch) -> Iterator[ChatServer]:
    with chatting(monkeypatch) as server:
        server.reply = lambda _: verdict("yes")
        yield server


def talk(*messages: tuple[str, str]) -> Call:
    call = transcript_call()
    spoken = tuple(Message(role=role, content=content) for role, content in messages)
    return replace(call, presentation=replace(call.presentation, transcript=spoken))


def seen_by(call: Call) -> list[tuple[Any, Any]]:
    """Return inputs and outputs of each trace, as MLflow would put them into a conversation."""
    session = in_memory_session(call.presentation)
    roots = [one.data.spans[0] for one in sorted(session, key=lambda one: one.info.timestamp_ms)]
    return [((root.inputs or {}).get("messages"), root.outputs) for root in roots]


def test_instructions_with_a_conversation_see_every_turn_in_its_order(chat: ChatServer) -> None:
    judge = from_mlflow(compare(instructions=WHOLE, feedback_value_type=Literal["yes", "no"]))
    call = talk(("user", "first?"), ("assistant", "one."), ("user", "second?"), ("assistant", "two."))
    record = ask(judge, call)
    assert (record.outcome, record.answer, record.input_tokens) == ("verdict", "yes", 11)
    sent = chat.users_text()
    places = [sent.index(text) for text in ("first?", "one.", "second?", "two.")]
    assert places == sorted(places)
    roles = [line for line in ("user", "assistant") if line in sent]
    assert roles == ["user", "assistant"]


def test_a_turn_holds_all_that_was_asked_and_all_that_was_answered() -> None:
    call = talk(
        ("system", "You are a clerk."),
        ("user", "When?"),
        ("user", "Well?"),
        ("assistant", "Wait."),
        ("assistant", "At nine."),
        ("user", "Thanks."),
    )
    (opening, answer), (thanks, nothing) = seen_by(call)
    assert [one["content"] for one in opening] == ["You are a clerk.", "When?", "Well?"]
    assert answer == "Wait.\n\nAt nine."
    assert (thanks, nothing) == ([{"role": "user", "content": "Thanks."}], None)
    assert seen_by(talk(("assistant", "Hello."), ("user", "Hi."))) == [
        (None, "Hello."),
        ([{"role": "user", "content": "Hi."}], None),
    ]


def test_no_word_of_any_conversation_is_lost_or_moved() -> None:
    for seed in range(40):
        draw = random.Random(seed)
        roles = [draw.choice(["user", "assistant", "system"]) for _ in range(draw.randint(1, 9))]
        call = talk(*((role, f"text {place}.") for place, role in enumerate(roles)))
        told = [text for asked, answered in seen_by(call) for text in (json.dumps(asked), answered) if text]
        places = [" ".join(told).index(f"text {place}.") for place in range(len(roles))]
        assert places == sorted(places), roles


def test_the_turns_are_one_session_with_ids_of_their_own_and_their_tool_calls() -> None:
    from mlflow.genai.scorers import scorer

    kept: list[Any] = []

    @scorer
    def keeps(session):
        kept.extend(session)
        return True

    call = transcript_call()
    twice = replace(call.presentation, transcript=(call.presentation.transcript or ()) * 2)
    record = ask(from_mlflow(keeps), replace(call, presentation=twice))
    assert (record.outcome, record.answer) == ("verdict", "yes")
    assert len({one.info.trace_id for one in kept}) == len(kept) == 2
    assert len({one.info.trace_metadata["mlflow.trace.session"] for one in kept}) == 1
    assert [span.span_type for span in kept[0].data.spans] == ["AGENT", "TOOL"]
    tool = kept[1].data.spans[1]
    assert (tool.name, tool.inputs, tool.outputs) == ("search", {"query": "opening hours"}, "nine o'clock")


def test_other_transcripts_are_other_sessions() -> None:
    one, other = (in_memory_session(talk(("user", text), ("assistant", "Yes.")).presentation) for text in ("a?", "b?"))
    assert one[0].info.trace_metadata != other[0].info.trace_metadata


def test_a_built_in_judge_of_tool_use_is_shown_the_tool_calls(chat: ChatServer) -> None:
    from mlflow.genai.scorers import ConversationalToolCallEfficiency

    record = ask(from_mlflow(ConversationalToolCallEfficiency(model=MODEL)), transcript_call())
    assert (record.outcome, record.answer) == ("verdict", "yes")
    sent = str(chat.bodies[-1]["messages"])
    assert all(text in sent for text in ("search", "opening hours", "nine o", "We open at nine."))


def test_a_single_response_is_a_conversation_of_one_turn(chat: ChatServer) -> None:
    judge = from_mlflow(compare(instructions=WHOLE, feedback_value_type=bool))
    chat.reply = lambda _: verdict(False)
    record = ask(judge, graded_call("pass", "fail", response="Go away."))
    assert (record.outcome, record.answer) == ("verdict", "fail")
    assert all(text in chat.users_text() for text in ("Write.", "Go away."))


def test_a_failed_tool_call_shows_why() -> None:
    messages = (
        Message(role="user", content="When?"),
        Message(role="assistant", content="", tool_calls=({"id": "c", "name": "look", "arguments": {}},)),
        Message(role="tool", content="", tool_call_id="c", error="no such page"),
    )
    shown = replace(transcript_call().presentation, transcript=messages)
    (trace,) = in_memory_session(shown)
    assert trace.data.spans[1].outputs == "no such page"


@pytest.mark.since_mlflow("3.16")
def test_an_ensemble_of_judges_of_conversations_votes(chat: ChatServer) -> None:
    from mlflow.genai.scorers import make_scorer_ensemble

    members = [compare(name=f"m{n}", instructions=WHOLE, feedback_value_type=Literal["yes", "no"]) for n in range(3)]
    jury = make_scorer_ensemble(name="jury", scorers=members, ensemble_fn="majority_vote")
    assert ask(from_mlflow(jury), transcript_call()).answer == "yes"
    assert len(chat.bodies) == 3


def test_a_list_of_judges_of_conversations_votes(chat: ChatServer) -> None:
    chat.reply = lambda _: verdict("no" if len(chat.bodies) == 1 else "yes")
    members = [compare(name=f"m{n}", instructions=WHOLE, feedback_value_type=Literal["yes", "no"]) for n in range(3)]
    assert ask(from_mlflow(members), transcript_call()).answer == "yes"
    assert len(chat.bodies) == 3


def test_a_conversation_beside_expectations_needs_somebody_to_make_them(chat: ChatServer) -> None:
    judge = compare(instructions=f"{WHOLE} Expected: {{{{ expectations }}}}", feedback_value_type=Literal["yes", "no"])
    with pytest.raises(RecipeError, match="needs expectations"):
        from_mlflow(judge)
    record = ask(from_mlflow(judge, expectations=lambda shown: {"mood": "calm and clear"}), transcript_call())
    assert record.outcome == "verdict"
    assert "calm and clear" in str(chat.bodies[0]["messages"])


def test_a_judge_that_is_shown_times_is_another_judge_and_no_suite_has_times() -> None:
    timed, plain = (
        MlflowJudge.unchecked(compare(instructions=WHOLE, **more))
        for more in ({"include_timing_in_conversation": True}, {})
    )
    assert timed.fingerprint() not in (None, plain.fingerprint())
    with pytest.raises(RecipeError, match=r"how long each turn took .* Measure it without"):
        from_mlflow(timed.panel.scorers[0])
