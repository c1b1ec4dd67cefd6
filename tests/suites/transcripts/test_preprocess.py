"""Preprocessors: what is dropped, what is recorded, and that calls and results stay together."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jrh_mlflow.errors import RecipeError
from jrh_mlflow.schema.presentation import Message
from jrh_mlflow.suites.transcripts import Transcript, preprocess
from jrh_mlflow.suites.transcripts.preprocessing import apply_steps, check_steps
from tests.examples import up_to


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


@settings(deadline=None, max_examples=up_to(150))
@given(st.lists(spoken | results, max_size=9).map(tuple), steps)
def test_no_pipeline_separates_a_call_from_its_result(messages, pipeline):
    messages = (Message(role="user", content="Go."), *messages, Message(role="user", content="End."))
    left, records = preprocess(messages, pipeline)
    before, after = unanswered(messages), unanswered(left)
    assert after[0] <= before[0]
    assert after[1] <= before[1]
    assert sum(record["messages"] for record in records) == len(messages) - len(left)
    assert [record["step"] for record in records] == pipeline


def test_outputs_of_tools_go_and_their_calls_stay():
    told = Message(
        role="assistant",
        content="",
        tool_calls=({"id": "1", "name": "f", "arguments": {"a": 1}, "outputs": ["secret"]},),
        parts=({"type": "tool_use", "name": "web", "arguments": "q", "result": "secret"}, {"type": "image"}),
    )
    left, records = preprocess((TALK[1], told, TALK[3], TALK[5]), ["strip_tool_call_outputs"])
    assert [message.role for message in left] == ["user", "assistant", "assistant"]
    assert left[1].tool_calls == ({"id": "1", "name": "f", "arguments": {"a": 1}},)
    assert left[1].parts == ({"type": "tool_use", "name": "web", "arguments": "q"}, {"type": "image"})
    assert records == ({"step": "strip_tool_call_outputs", "messages": 1, "with_outputs": 1},)


def test_of_code_the_comment_lines_are_kept_whether_arguments_are_an_object_or_text():
    code = "# load\nimport os\n  // also\nos.remove('x')  # gone"
    calls = tuple(
        {"id": str(n), "name": "python", "arguments": given}
        for n, given in enumerate(
            ({"code": code, "cell": 1}, json.dumps({"code": code}), {"cmd": code}, "no JSON {", {"code": 3})
        )
    )
    talk = (
        Message(role="user", content=code, tool_calls=calls[:1]),
        Message(role="assistant", content=code, tool_calls=calls),
    )
    left, records = preprocess(talk, ["keep_assistant_comment_lines"])
    assert left[0] == talk[0]
    assert left[1].content == code
    assert [call["arguments"] for call in left[1].tool_calls] == [
        {"code": "# load\n  // also", "cell": 1},
        json.dumps({"code": "# load\n  // also"}),
        *(call["arguments"] for call in calls[2:]),
    ]
    assert records == ({"step": "keep_assistant_comment_lines", "messages": 0, "code_lines": 4},)


def test_reasoning_traces_are_the_reasoning():
    left, records = preprocess(TALK, ["drop_reasoning_traces"])
    assert left == preprocess(TALK, ["drop_reasoning"])[0]
    assert records[0]["step"] == "drop_reasoning_traces"


def quiet(transcript):
    return replace(transcript, messages=tuple(replace(one, content=one.content.lower()) for one in transcript.messages))


def plain_messages(transcript):
    return [{"role": one.role, "content": one.content} for one in transcript.messages if one.role != "tool"]


OWN_FILE = """
from dataclasses import replace

def shout(transcript):
    return replace(transcript, messages=[replace(one, content=one.content.upper()) for one in transcript.messages])

def fails(transcript):
    raise KeyError("no such thing")

number = 3
"""


def test_own_preprocessors_are_functions_or_their_places_and_are_applied_in_order(tmp_path, monkeypatch):
    (tmp_path / "own_steps.py").write_text(OWN_FILE)
    monkeypatch.chdir(tmp_path)
    for place, name in ((f"{tmp_path}/own_steps.py", "own_steps.py"), ("own_steps", "own_steps")):
        left, records = preprocess(TALK, [quiet, f"{place}:shout", "keep_last:1"])
        assert [message.content for message in left] == ["BE BRIEF.", "DONE."]
        # The folder of this machine is no part of a suite.
        assert [record["step"] for record in records] == ["quiet", f"{name}:shout", "keep_last:1"]
    left, records = preprocess(TALK, [plain_messages])
    assert [(message.role, message.content) for message in left] == [
        (m.role, m.content) for m in TALK if m.role != "tool"
    ]
    assert records == ({"step": "plain_messages", "messages": 2},)


def test_results_that_an_own_preprocessor_parts_from_their_calls_are_on_record():
    def forget_calls(transcript):
        return [replace(message, tool_calls=()) for message in transcript.messages]

    assert preprocess(TALK, [forget_calls])[1] == ({"step": "forget_calls", "messages": 0, "results_without_call": 2},)


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (None, "it must return a Transcript or messages, but returned a NoneType"),
        ("Hello", "but returned a str"),
        ([], "leaves nothing to judge of 6 messages"),
        ([{"text": "x"}], "message 1 must be an object"),
        ([Message(role="user", content=3)], "message 1 has the `content` 3, which is no text"),
        ([Message(role="assistant", content="", tool_calls=[{}])], "message 1 has `tool_calls` that are no tuple"),
        ([Message(role="user", content="", parts=({"type": object()},))], "message 1 cannot be written as JSON"),
        (Transcript(id="other", messages=TALK), "the transcript must keep its id, but came back as 'other'"),
        (Transcript(id="talk", messages="Hello"), "a list, but are a str"),
    ],
)
def test_what_an_own_preprocessor_returns_is_checked(returned, message):
    with pytest.raises(RecipeError, match=re.escape(message)):
        apply_steps(Transcript(id="talk", messages=TALK), check_steps([lambda transcript: returned]))


def test_what_an_own_preprocessor_raises_names_it_and_the_transcript(tmp_path):
    (file := tmp_path / "steps.py").write_text(OWN_FILE)
    with pytest.raises(RecipeError, match=r"'steps\.py:fails', transcript 'run/7': KeyError: 'no such thing'"):
        apply_steps(Transcript(id="run/7", messages=TALK), check_steps([f"{file}:fails"]))


@pytest.mark.parametrize(
    ("step", "message"),
    [
        ("{}:shoot", r"has no 'shoot'\. Did you mean 'shout'\?"),
        ("{}:number", "is no function, but a int"),
        ("{}/none.py:shout", "There is no Python file"),
        ("no_module:f", "Module 'no_module' cannot be imported"),
        ("broken.py:f", r"broken\.py cannot be imported: SyntaxError"),
        ("keep_lsat:10", r"Unknown preprocessor 'keep_lsat:10'\. Did you mean 'keep_last:10'\?"),
    ],
)
def test_own_preprocessors_that_cannot_be_found_are_refused(step, message, tmp_path, monkeypatch):
    (file := tmp_path / "steps.py").write_text(OWN_FILE)
    (tmp_path / "broken.py").write_text("def f(:")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(RecipeError, match=message):
        check_steps([step.format(file)])
