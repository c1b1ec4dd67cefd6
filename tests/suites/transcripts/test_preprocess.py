"""Preprocessors: what is dropped, what is recorded, and that calls and results stay together."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jrh_mlflow.errors import RecipeError
from jrh_mlflow.schema.presentation import Message
from jrh_mlflow.suites.transcripts import approximate_tokens, preprocess


def call(id: str) -> dict[str, object]:
    return {"id": id, "name": "f", "arguments": {}}


TALK = (
    Message(role="system", content="Be brief."),
    Message(role="user", content="Go."),
    Message(role="assistant", content="", reasoning="Hm.", tool_calls=(call("1"), call("2"))),
    Message(role="tool", content="a", tool_call_id="1"),
    Message(role="tool", content="b", tool_call_id="2"),
    Message(role="assistant", content="Done.", parts=({"type": "reasoning", "redacted": True}, {"type": "image"})),
)


def test_no_steps_change_nothing():
    assert preprocess(TALK, ()) == (TALK, ())


def test_tool_messages_are_dropped_with_their_calls():
    left, records = preprocess(TALK, ["drop_tool_messages"])
    assert [(one.role, one.content, one.reasoning, one.tool_calls) for one in left] == [
        ("system", "Be brief.", None, ()),
        ("user", "Go.", None, ()),
        ("assistant", "", "Hm.", ()),
        ("assistant", "Done.", None, ()),
    ]
    assert records == ({"step": "drop_tool_messages", "messages": 2, "tool_calls": 2},)


def test_a_message_of_which_nothing_is_left_goes_and_one_that_was_empty_stays():
    empty = Message(role="assistant", content="")
    left, records = preprocess((*TALK, empty), ["drop_reasoning", "drop_tool_messages"])
    assert [one.content for one in left] == ["Be brief.", "Go.", "Done.", ""]
    assert records == (
        {"step": "drop_reasoning", "messages": 0, "reasoning": 2},
        {"step": "drop_tool_messages", "messages": 3, "tool_calls": 2},
    )


def test_reasoning_is_dropped_readable_or_redacted_and_other_parts_stay():
    left, records = preprocess(TALK, ["drop_reasoning"])
    assert [one.reasoning for one in left] == [None] * 6
    assert left[5].parts == ({"type": "image"},)
    assert left[2].tool_calls == TALK[2].tool_calls
    assert records == ({"step": "drop_reasoning", "messages": 0, "reasoning": 2},)


@pytest.mark.parametrize(
    ("n", "kept", "orphans"),
    [(1, [0, 5], None), (2, [0, 5], 1), (3, [0, 5], 2), (4, [0, 2, 3, 4, 5], None), (9, range(6), None)],
)
def test_the_last_messages_are_kept_with_the_system_prompt_and_no_result_without_its_call(n, kept, orphans):
    left, (record,) = preprocess(TALK, [f"keep_last:{n}"])
    assert left == tuple(TALK[i] for i in kept)
    assert record["messages"] == 6 - len(left)
    assert record.get("results_without_call") == orphans


def test_a_reused_call_id_belongs_to_the_last_message_that_asked():
    asks = Message(role="assistant", content="", tool_calls=(call("1"),))
    result = Message(role="tool", content="x", tool_call_id="1")
    left, _ = preprocess((asks, result, asks, result), ["keep_last:2"])
    assert left == (asks, result)


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        (["drop_reasonings"], "Unknown preprocessor 'drop_reasonings'. Did you mean 'drop_reasoning'?"),
        (["keep_last"], "`keep_last` needs how many messages"),
        (["keep_last:0"], "`keep_last` needs how many messages"),
        (["keep_last:-3"], "`keep_last` needs how many messages"),
        (["drop_reasoning:2"], "takes no argument"),
        (["drop_reasoning", "drop_reasoning"], "applied once"),
        ("drop_reasoning", "Preprocessors are a list"),
    ],
)
def test_wrong_steps_are_refused(steps, message):
    with pytest.raises(RecipeError, match=message.replace("?", r"\?")):
        preprocess(TALK, steps)


def test_steps_that_leave_nothing_to_judge_are_refused():
    with pytest.raises(RecipeError, match="'keep_last:1' leaves nothing to judge of 4 messages"):
        preprocess((*TALK[:1], *TALK[2:5]), ["keep_last:1"])


ids = st.sampled_from(["1", "2", "3"])
spoken = st.builds(
    Message,
    role=st.sampled_from(["user", "assistant"]),
    content=st.sampled_from(["", "x"]),
    reasoning=st.sampled_from([None, "hm"]),
    tool_calls=st.lists(ids.map(call), max_size=2, unique_by=lambda one: one["id"]).map(tuple),
)
results = st.builds(Message, role=st.just("tool"), content=st.just("r"), tool_call_id=ids)
steps = st.lists(
    st.sampled_from(["drop_tool_messages", "drop_reasoning", "keep_last:1", "keep_last:3", "keep_last:5"]), unique=True
)


def unanswered(messages) -> tuple[int, int]:
    """Count results without a call before them, and calls without a result after them."""
    orphans = sum(
        one.role == "tool" and not any(c["id"] == one.tool_call_id for m in messages[:i] for c in m.tool_calls)
        for i, one in enumerate(messages)
    )
    open_calls = sum(
        not any(m.tool_call_id == c["id"] for m in messages[i + 1 :])
        for i, one in enumerate(messages)
        for c in one.tool_calls
    )
    return orphans, open_calls


@settings(deadline=None, max_examples=150)
@given(st.lists(spoken | results, max_size=9).map(tuple), steps)
def test_no_pipeline_separates_a_call_from_its_result(messages, pipeline):
    messages = (Message(role="user", content="Go."), *messages, Message(role="user", content="End."))
    left, records = preprocess(messages, pipeline)
    before, after = unanswered(messages), unanswered(left)
    assert after[0] <= before[0]
    assert after[1] <= before[1]
    assert sum(record["messages"] for record in records) == len(messages) - len(left)
    assert [record["step"] for record in records] == pipeline


def test_tokens_count_everything_a_judge_is_shown():
    base = approximate_tokens([Message(role="user", content="x" * 400)])
    assert base == 110
    richer = Message(
        role="user", content="x" * 400, reasoning="y" * 400, error="z" * 400, tool_calls=({"arguments": "a" * 400},)
    )
    assert approximate_tokens([richer]) > base + 300
    image = Message(role="user", content="", parts=({"type": "image", "image": "b" * 100_000},))
    assert approximate_tokens([image]) < 50
