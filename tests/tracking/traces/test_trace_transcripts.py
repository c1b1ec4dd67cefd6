"""MLflow traces as transcripts: real traces, logged by MLflow's own interface to a real store."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import mlflow
import pytest
from mlflow.entities import SpanType

from jrh_mlflow.errors import RecipeError, TrackingError
from jrh_mlflow.suites.transcripts.items import field
from jrh_mlflow.tracking.traces.traces_in import transcripts_from_traces
from tests.tracking.traces.trace_tools import answered, expect, judged, logging_traces, say

ASK = {"role": "user", "content": "A table for two."}
CALL = {"id": "c1", "type": "function", "function": {"name": "search", "arguments": '{"people": 2}'}}
ASKS = {"role": "assistant", "content": None, "tool_calls": [CALL], "refusal": None, "annotations": []}
RESULT = {"role": "tool", "tool_call_id": "c1", "content": "Bistro"}
ANSWER = {"role": "assistant", "content": "Bistro has a table."}


@pytest.fixture
def experiment(store_uri: str, request: pytest.FixtureRequest) -> Iterator[str]:
    with logging_traces(store_uri, f"traces {request.node.name}") as name:
        yield name


def completion(message: dict[str, Any]) -> dict[str, Any]:
    return {"id": "x", "choices": [{"index": 0, "message": message, "finish_reason": "stop"}], "usage": {}}


def chat(messages: list[dict[str, Any]], outputs: object) -> None:
    with mlflow.start_span(name="chat", span_type=SpanType.CHAT_MODEL) as span:
        span.set_inputs({"model": "m", "messages": messages})
        span.set_outputs(outputs)


def agent(*, chats: list[tuple[list[dict[str, Any]], object]], tags: dict[str, str] | None = None) -> str:
    with mlflow.start_span(name="agent", span_type=SpanType.AGENT) as root:
        root.set_inputs({"question": "A table for two."})
        for messages, outputs in chats:
            chat(messages, outputs)
        if tags:
            mlflow.update_current_trace(tags=tags)
    return str(root.trace_id)


def test_the_conversation_of_an_agent_is_read_from_its_last_chat_span(experiment, store_uri):
    chats = [([ASK], completion(ASKS)), ([ASK, ASKS, RESULT], completion(ANSWER))]
    trace_id = agent(chats=chats, tags={"category": "easy"})
    say(trace_id, True, "ann", name="polite")
    (one,) = transcripts_from_traces(f"traces:/{experiment}", tracking_uri=store_uri)
    assert [(m.role, m.content, m.tool_call_id) for m in one.messages] == [
        ("user", "A table for two.", None),
        ("assistant", "", None),
        ("tool", "Bistro", "c1"),
        ("assistant", "Bistro has a table.", None),
    ]
    assert one.messages[1].tool_calls == ({"id": "c1", "name": "search", "arguments": {"people": 2}},)
    assert one.messages[1].parts == ()
    assert (one.id, one.input, one.scores, one.metadata) == (
        trace_id,
        "A table for two.",
        {"polite": True},
        {"category": "easy"},
    )
    assert one.source == {"format": "mlflow_trace", "trace_id": trace_id, "state": "OK", "span": "chat"}


def test_labels_are_what_people_said_whoever_spoke_last(experiment, store_uri):
    first, second = answered(), answered()
    say(first, "violation", "ann")
    judged(first, "no violation")
    judged(second, "no violation")
    say(second, "violation", "ann")
    say(second, "no violation", "rule.py", kind="CODE")
    for one in transcripts_from_traces(experiment, tracking_uri=store_uri):
        assert one.scores == {"harm": "violation"}
        assert one.people == {"scores.harm": {"ann": "violation"}}
        assert field(one, "metadata.judge_scores.harm.openai:/small") == "no violation"
    assert one.id == first


def test_what_only_models_and_code_said_is_data_and_no_label(experiment, store_uri):
    trace = answered()
    judged(trace, "yes")
    say(trace, "no", "rule.py", kind="CODE")
    (one,) = transcripts_from_traces([trace], tracking_uri=store_uri)
    assert (one.scores, one.people) == ({}, {})
    assert one.metadata == {"judge_scores": {"harm": {"openai:/small": "yes", "rule.py": "no"}}}


def test_several_people_are_kept_apart_and_the_label_is_what_most_of_them_say(experiment, store_uri):
    trace, even = answered(), answered()
    for who, value in (("ann", "Yes"), ("bob", "no"), ("cleo", "yes"), ("bob", "no")):
        say(trace, value, who)
    say(even, "yes", "ann")
    expect(even, "no", "bob")
    one, other = transcripts_from_traces([trace, even], tracking_uri=store_uri)
    assert one.people == {"scores.harm": {"ann": "Yes", "bob": "no", "cleo": "yes"}}
    assert one.scores == {"harm": "Yes"}
    assert other.scores == {}
    assert other.people["scores.harm"] == {"ann": "yes", "bob": "no"}


def test_one_persons_newest_valid_value_counts_and_errors_are_none(experiment, store_uri):
    trace = answered()
    first = say(trace, "yes", "ann")
    mlflow.override_feedback(trace_id=trace, assessment_id=first.assessment_id, value="no", source=first.source)
    say(trace, None, "bob", error=ValueError("the page closed"))
    (one,) = transcripts_from_traces([trace], tracking_uri=store_uri)
    assert one.people == {"scores.harm": {"ann": "no"}}
    say(trace, "yes", "ann")
    (again,) = transcripts_from_traces([trace], tracking_uri=store_uri)
    assert again.scores == {"harm": "yes"}


def test_expectations_are_labels_unless_a_model_wrote_them(experiment, store_uri):
    trace = answered()
    expect(trace, "met", "ann", name="label")
    expect(trace, "met", name="label", kind="CODE")
    expect(trace, ["a", "b"], "ann", name="facts")
    expect(trace, "broken", "openai:/small", name="label", kind="LLM_JUDGE")
    expect(trace, "broken", "openai:/small", name="made up", kind="LLM_JUDGE")
    with pytest.warns(UserWarning, match="2 expectations were written by models and are no labels"):
        (one,) = transcripts_from_traces([trace], tracking_uri=store_uri)
    assert one.metadata["expectations"] == {"label": "met", "facts": ["a", "b"]}
    assert one.people["metadata.expectations.label"] == {"ann": "met", "expectation": "met"}
    assert one.scores == {"label": "met"}


@pytest.mark.parametrize(
    ("inputs", "outputs", "shown"),
    [
        ("What is due?", "Nothing.", ("What is due?", "Nothing.")),
        ({"question": "What is due?"}, {"answer": "Nothing."}, ("What is due?", "Nothing.")),
        ({"query": "Due?", "user": 7}, {"response": "No.", "sources": [1]}, ("Due?", "No.")),
        ({"inputs": {"question": "Due?"}}, {"outputs": {"text": "No."}}, ("Due?", "No.")),
        ({"a": 2, "b": [3]}, {"sum": 5, "unit": "€"}, ('{"a": 2, "b": [3]}', '{"sum": 5, "unit": "€"}')),
        ([1, 2], 3, ("[1, 2]", "3")),
        (["Due?"], [{"answer": "No."}], ("Due?", "No.")),
        ({"topic": "tea"}, True, ("tea", "true")),
        ({"question": "Due?"}, completion(ANSWER), ("Due?", "Bistro has a table.")),
    ],
)
def test_a_trace_without_chat_messages_is_what_was_asked_and_what_was_answered(
    experiment, store_uri, inputs, outputs, shown
):
    trace = answered(inputs, outputs, topic="money")
    (one,) = transcripts_from_traces([trace], tracking_uri=store_uri)
    assert [(message.role, message.content) for message in one.messages] == [
        ("user", shown[0]),
        ("assistant", shown[1]),
    ]
    assert (one.input, one.metadata) == (shown[0], {"topic": "money"})
    assert one.source == {
        "format": "mlflow_trace",
        "trace_id": trace,
        "state": "OK",
        "span": "app",
        "single_turn": True,
    }


@pytest.mark.parametrize(
    "outputs", [completion(ANSWER), ANSWER, [ANSWER], {"messages": [ANSWER]}, ANSWER["content"], {"message": ANSWER}]
)
def test_answers_come_in_many_forms(experiment, store_uri, outputs):
    trace_id = agent(chats=[([ASK], outputs)])
    (one,) = transcripts_from_traces([trace_id], tracking_uri=store_uri)
    assert [m.content for m in one.messages] == ["A table for two.", "Bistro has a table."]


@pytest.mark.parametrize(
    ("inputs", "outputs"),
    [
        ({"input": [ASK], "model": "m"}, {"output": [{"type": "message", **ANSWER}]}),
        ({"inputs": {"messages": [ASK]}}, {"output": ANSWER["content"]}),
        ({"request": {"input": [ASK]}}, {"response": ANSWER}),
    ],
)
def test_messages_that_lie_deeper_are_a_chat(experiment, store_uri, inputs, outputs):
    (one,) = transcripts_from_traces([answered(inputs, outputs)], tracking_uri=store_uri)
    assert [m.content for m in one.messages] == ["A table for two.", "Bistro has a table."]
    assert "single_turn" not in one.source


def test_messages_of_anthropic_and_langchain_are_understood(experiment, store_uri):
    use = {"type": "tool_use", "id": "c1", "name": "search", "input": {"people": 2}}
    result = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "Bistro"}]}
    final = {"type": "message", "role": "assistant", "content": [{"type": "text", "text": "There."}], "usage": {"x": 1}}
    with mlflow.start_span(name="claude") as span:
        span.set_inputs({"system": "Be brief.", "messages": [ASK, {"role": "assistant", "content": [use]}, result]})
        span.set_outputs(final)
    with mlflow.start_span(name="langchain") as other:
        other.set_inputs([[{"type": "human", "content": "Hi", "example": False}]])
        other.set_outputs({"generations": [[{"text": "Hello", "message": {"type": "ai", "content": "Hello"}}]]})
    first, second = transcripts_from_traces([span.trace_id, other.trace_id], tracking_uri=store_uri)
    assert [m.role for m in first.messages] == ["system", "user", "assistant", "tool", "assistant"]
    assert first.messages[2].tool_calls[0]["arguments"] == {"people": 2}
    assert (first.messages[3].tool_call_id, first.messages[4].parts) == ("c1", ())
    assert [(m.role, m.content) for m in second.messages] == [("user", "Hi"), ("assistant", "Hello")]


def test_other_conversations_in_a_trace_are_counted_and_said(experiment, store_uri):
    side = {"role": "user", "content": "Summarise."}
    trace_id = agent(chats=[([ASK, ASKS, RESULT], completion(ANSWER)), ([side], completion(ANSWER))])
    with pytest.warns(UserWarning, match="has 1 more conversations"):
        (one,) = transcripts_from_traces([trace_id], tracking_uri=store_uri)
    assert one.source["other_chat_spans"] == 1
    assert len(one.messages) == 4


def test_traces_that_cannot_be_read_are_counted_with_the_reason(experiment, store_uri):
    ids = [agent(chats=[]), answered({"question": ""}, "No."), answered("Is it?", ""), agent(chats=[([ASK], ANSWER)])]
    with pytest.warns(UserWarning, match="3 traces were left out: 2 have no output .*, 1 has no input") as said:
        (one,) = transcripts_from_traces(experiment, tracking_uri=store_uri)
    assert one.id == ids[3]
    assert all(name in str(said[0].message) for name in ids[:3])
    with pytest.raises(RecipeError, match=f"None of 2 traces can be read: 1 has no output .{ids[0]}., 1 has no input"):
        list(transcripts_from_traces(ids[:2], tracking_uri=store_uri))


def test_the_newest_traces_are_taken(experiment, store_uri):
    ids = [agent(chats=[([ASK], ANSWER)]) for _ in range(3)]
    found = [one.id for one in transcripts_from_traces(experiment, tracking_uri=store_uri, max_traces=2)]
    assert found == ids[:0:-1]


def test_unknown_experiments_and_traces_are_refused(store_uri):
    with pytest.raises(RecipeError, match="There is no experiment 'none'"):
        list(transcripts_from_traces("traces:/none", tracking_uri=store_uri))
    with pytest.raises((RecipeError, TrackingError), match="tr-none"):
        list(transcripts_from_traces(["tr-none"], tracking_uri=store_uri))
