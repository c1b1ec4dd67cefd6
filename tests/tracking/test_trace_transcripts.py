"""MLflow traces as transcripts: real traces, logged by MLflow's own interface to a real store."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import mlflow
import pytest
from mlflow.entities import SpanType

from jrh_mlflow.errors import RecipeError, TrackingError
from jrh_mlflow.tracking.traces_in import transcripts_from_traces

with warnings.catch_warnings():
    # MLflow loads this with the first span, and takes a warning of its libraries there for a reason to trace nothing.
    warnings.simplefilter("ignore")
    import mlflow.pyfunc

ASK = {"role": "user", "content": "A table for two."}
CALL = {"id": "c1", "type": "function", "function": {"name": "search", "arguments": '{"people": 2}'}}
ASKS = {"role": "assistant", "content": None, "tool_calls": [CALL], "refusal": None, "annotations": []}
RESULT = {"role": "tool", "tool_call_id": "c1", "content": "Bistro"}
ANSWER = {"role": "assistant", "content": "Bistro has a table."}


@pytest.fixture
def experiment(store_uri: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("MLFLOW_ENABLE_ASYNC_TRACE_LOGGING", "false")
    mlflow.set_tracking_uri(store_uri)
    name = f"traces {request.node.name}"
    mlflow.set_experiment(name)
    yield name
    mlflow.set_tracking_uri(None)


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
    mlflow.log_feedback(trace_id=trace_id, name="polite", value=True)
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


def test_of_several_assessments_the_newest_valid_one_counts_and_expectations_are_found(experiment, store_uri):
    from jrh_mlflow.suites.transcripts.items import field

    trace_id = agent(chats=[([ASK], completion(ANSWER))])
    first = mlflow.log_feedback(trace_id=trace_id, name="polite", value="yes")
    mlflow.override_feedback(trace_id=trace_id, assessment_id=first.assessment_id, value="no")
    mlflow.log_expectation(trace_id=trace_id, name="label", value="met")
    (one,) = transcripts_from_traces([trace_id], tracking_uri=store_uri)
    assert one.scores == {"polite": "no"}
    assert field(one, "metadata.expectations.label") == "met"
    mlflow.log_feedback(trace_id=trace_id, name="polite", value="yes")
    with pytest.warns(UserWarning, match="several values of feedback 'polite'; the newest counts"):
        (again,) = transcripts_from_traces([trace_id], tracking_uri=store_uri)
    assert again.scores == {"polite": "yes"}


@pytest.mark.parametrize(
    "outputs", [completion(ANSWER), ANSWER, [ANSWER], {"messages": [ANSWER]}, ANSWER["content"], {"message": ANSWER}]
)
def test_answers_come_in_many_forms(experiment, store_uri, outputs):
    trace_id = agent(chats=[([ASK], outputs)])
    (one,) = transcripts_from_traces([trace_id], tracking_uri=store_uri)
    assert [m.content for m in one.messages] == ["A table for two.", "Bistro has a table."]


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


def test_traces_without_a_chat_are_said_and_left_out(experiment, store_uri):
    ids = [agent(chats=[]), agent(chats=[([ASK], ANSWER)])]
    with pytest.warns(UserWarning, match=f"1 traces hold no chat and were left out: {ids[0]}"):
        (one,) = transcripts_from_traces(experiment, tracking_uri=store_uri)
    assert one.id == ids[1]
    with pytest.raises(RecipeError, match="None of 1 traces has a span with `messages`"):
        list(transcripts_from_traces(ids[:1], tracking_uri=store_uri))


def test_the_newest_traces_are_taken(experiment, store_uri):
    ids = [agent(chats=[([ASK], ANSWER)]) for _ in range(3)]
    found = [one.id for one in transcripts_from_traces(experiment, tracking_uri=store_uri, max_traces=2)]
    assert found == ids[:0:-1]


def test_unknown_experiments_and_traces_are_refused(store_uri):
    with pytest.raises(RecipeError, match="There is no experiment 'none'"):
        list(transcripts_from_traces("traces:/none", tracking_uri=store_uri))
    with pytest.raises((RecipeError, TrackingError), match="tr-none"):
        list(transcripts_from_traces(["tr-none"], tracking_uri=store_uri))
