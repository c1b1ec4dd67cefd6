"""OpenAI-style messages, in and out."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jrh_mlflow.errors import RecipeError
from jrh_mlflow.schema.presentation import Message
from jrh_mlflow.suites.transcripts import Transcript, read_transcripts
from jrh_mlflow.suites.transcripts.transcript import NOT_AN_OBJECT, from_openai, plain_messages, split_refusal
from tests.examples import up_to

TALK = [
    {"role": "developer", "content": "Be brief."},
    {"role": "user", "content": [{"type": "text", "text": "Look."}, {"type": "image_url", "image_url": {"url": "u"}}]},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a": [1, 2]}'}}],
    },
    {"role": "tool", "tool_call_id": "c1", "content": "three"},
    {"role": "assistant", "content": None, "refusal": "I cannot say."},
]


def to_openai(messages: Iterable[Message]) -> list[dict[str, Any]]:
    """Write messages in OpenAI's form.

    What the form has no place for stands in fields of its own: `id`, `error` of a tool result, `reasoning_content`.
    """
    return [_write_message(message) for message in messages]


def _write_message(message: Message) -> dict[str, Any]:
    content, refusal = split_refusal(message)
    # Fields of the message, and parts of its content.
    fields = {part["name"]: part["value"] for part in message.parts if part.get("type") == "field"}
    parts = [dict(part) for part in message.parts if part.get("type") not in ("field", "refusal")]
    written: dict[str, Any] = {"role": message.role, "content": content}
    if parts:
        written["content"] = [*([{"type": "text", "text": content}] if content else []), *parts]
    elif not content and (message.tool_calls or refusal):
        written["content"] = None
    more = {
        "refusal": refusal,
        "tool_calls": [_write_call(call) for call in message.tool_calls] or None,
        "tool_call_id": message.tool_call_id,
        "id": message.id,
        "name": message.name,
        "error": message.error,
        "reasoning_content": message.reasoning,
    }
    return {**written, **{name: value for name, value in more.items() if value is not None}, **fields}


def _write_call(call: Mapping[str, Any]) -> dict[str, Any]:
    arguments = call.get("arguments")
    text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    return {"id": call.get("id"), "type": "function", "function": {"name": call.get("name"), "arguments": text}}


def test_a_plain_message_is_written_plainly():
    assert to_openai([Message(role="user", content="Hi")]) == [{"role": "user", "content": "Hi"}]


def test_every_field_of_a_conversation_is_read():
    developer, user, asks, result, refuses = from_openai(TALK)
    assert (developer.role, developer.content) == ("developer", "Be brief.")
    assert (user.content, user.parts) == ("Look.", ({"type": "image_url", "image_url": {"url": "u"}},))
    assert asks.tool_calls == ({"id": "c1", "name": "f", "arguments": {"a": [1, 2]}},)
    assert (result.tool_call_id, result.content) == ("c1", "three")
    assert (refuses.content, refuses.parts[0]["type"]) == ("I cannot say.", "refusal")


def test_what_was_read_is_written_as_it_was():
    assert to_openai(from_openai(TALK)) == TALK


@pytest.mark.parametrize("arguments", ['{"a": ', "[1]", '{"a": NaN}', '{"a": 1, "a": 2}', "", "[" * 100_000])
def test_arguments_that_are_no_json_object_stay_the_text_they_are_with_a_note(arguments):
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": arguments}}
    (message,) = from_openai([{"role": "assistant", "content": "", "tool_calls": [call]}])
    assert message.tool_calls == ({"id": "c", "name": "f", "arguments": arguments, "parse_error": NOT_AN_OBJECT},)
    assert to_openai([message])[0]["tool_calls"] == [call]


def test_the_older_form_of_function_calls_keeps_call_and_result_together():
    asks, result = from_openai(
        [
            {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}},
            {"role": "function", "name": "f", "content": "x"},
        ]
    )
    assert asks.tool_calls[0]["id"] == result.tool_call_id == "function_0"


def test_fields_that_are_not_known_are_kept_and_written_back():
    data = {"role": "assistant", "content": "Hi", "annotations": [{"url": "u"}], "audio": None}
    (message,) = from_openai([data])
    assert message.parts == ({"type": "field", "name": "annotations", "value": [{"url": "u"}]},)
    assert to_openai([message]) == [{"role": "assistant", "content": "Hi", "annotations": [{"url": "u"}]}]


@pytest.mark.parametrize(
    ("name", "content", "ids"),
    [
        ("one.json", json.dumps(TALK), ["one"]),
        ("one.jsonl", "\n".join(map(json.dumps, TALK)) + "\n", ["one"]),
        ("two.json", json.dumps([TALK, TALK[:2]]), ["two/1", "two/2"]),
        ("own.json", json.dumps({"id": 7, "messages": TALK}), ["7"]),
        ("own.jsonl", "".join(json.dumps({"id": n, "messages": TALK}) + "\n" for n in ("a", "b")), ["a", "b"]),
        ("bom.json", "\ufeff" + json.dumps(TALK), ["bom"]),
    ],
)
def test_each_shape_of_file_is_read(tmp_path, name, content, ids):
    (tmp_path / name).write_text(content, encoding="utf-8")
    found = list(read_transcripts(tmp_path / name))
    assert [one.id for one in found] == ids
    assert found[0].messages == from_openai(TALK)
    assert found[0].input == "Look."


def test_what_stands_beside_the_messages_is_kept():
    entry = {"id": "a", "messages": TALK, "target": "x", "scores": {"s": 1}, "metadata": {"m": 2}, "extra": 3}
    (one,) = read_transcripts([entry])
    assert (one.target, one.scores, one.metadata) == (("x",), {"s": 1}, {"extra": 3, "m": 2})


def test_lists_are_read_as_messages_as_transcripts_or_as_they_are():
    messages = from_openai(TALK)
    assert next(read_transcripts(TALK)).messages == messages
    assert [one.messages for one in read_transcripts([TALK, TALK[:1]])] == [messages, messages[:1]]
    assert next(read_transcripts(messages)).messages == messages
    own = Transcript(id="a", messages=messages)
    assert list(read_transcripts(iter([own]))) == [own]


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ([], "There are no transcripts"),
        ([3], "A transcript cannot be a int"),
        ([{"content": "Hi"}], "entry 1 .*`messages`"),
        ([{"role": 3, "content": "Hi"}], "message 1 must be an object with a `role`"),
        ([{"role": "user", "content": 3}], "message 1: `content` must be .*3"),
        ([{"role": "user", "content": [{"text": "x"}]}], "must be an object with a `type`"),
        ([{"role": "assistant", "tool_calls": ["f"]}], "a tool call must be an object, but is 'f'"),
        ([{"id": "a", "messages": []}], "transcript 'a' has no messages"),
        ([{"id": "a", "messages": TALK}, {"id": "a", "messages": TALK}], "Transcript 'a' comes twice"),
        ([Transcript(id="a", messages=()), 3], "Among transcripts there is a int"),
        ("traces:/agents", "means traces of MLflow"),
    ],
)
def test_what_is_no_transcript_is_refused_with_its_place(source, message):
    with pytest.raises(RecipeError, match=message):
        list(read_transcripts(source))


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"[{", "is not valid JSON"), (b'["\xff"]', "is not UTF-8 at byte 2"), (b"[]", "no messages")],
)
def test_broken_files_are_named(tmp_path, content, message):
    (tmp_path / "talk.json").write_bytes(content)
    with pytest.raises(RecipeError, match=f"talk.json {message}|talk.json has {message}"):
        list(read_transcripts(tmp_path / "talk.json"))


def test_characters_that_no_file_can_carry_are_replaced_and_counted():
    (one,) = read_transcripts([{"role": "user", "content": "a\ud800b\x00"}])
    assert one.messages[0].content == "a\ufffdb\ufffd"
    assert one.source["replaced_characters"] == 2


def test_anthropic_and_langchain_messages_come_in_the_same_form():
    blocks = [
        {"type": "thinking", "thinking": "Hm."},
        {"type": "text", "text": "I look."},
        {"type": "tool_use", "id": "t1", "name": "f", "input": {"a": 1}},
    ]
    answer = {"type": "message", "role": "assistant", "content": blocks, "usage": {"input_tokens": 1}}
    failed = {"type": "tool_result", "tool_use_id": "t1", "content": "gone", "is_error": True}
    result = {"role": "user", "content": [failed, {"type": "text", "text": "Go on."}]}
    langchain = {"type": "ai", "content": "", "tool_calls": [{"name": "f", "args": {"a": 1}, "id": "t2"}], "x": 1}
    read = from_openai([one for data in (answer, result, langchain) for one in plain_messages(data)])
    call = {"id": "t1", "name": "f", "arguments": {"a": 1}}
    assert read == (
        Message(role="assistant", content="I look.", reasoning="Hm.", tool_calls=(call,)),
        Message(role="tool", content="gone", tool_call_id="t1", error="gone"),
        Message(role="user", content="Go on."),
        Message(role="assistant", content="", tool_calls=({**call, "id": "t2"},)),
    )


texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=12)
names = st.none() | texts.filter(bool)
calls = st.builds(
    lambda id, name, arguments: {"id": id, "name": name, "arguments": arguments},
    texts,
    texts,
    st.dictionaries(texts, texts | st.integers() | st.lists(st.booleans(), max_size=2), max_size=2),
)
parts = st.sampled_from(
    [{"type": "image_url", "image_url": {"url": "u"}}, {"type": "input_audio", "input_audio": {"data": "x"}}]
)
messages = st.builds(
    Message,
    role=st.sampled_from(["system", "developer", "user", "assistant", "tool"]),
    content=texts,
    tool_calls=st.lists(calls, max_size=2).map(tuple),
    tool_call_id=names,
    id=names,
    name=names,
    reasoning=names,
    error=names,
    parts=st.lists(parts, max_size=2).map(tuple),
)


@settings(deadline=None, max_examples=up_to(100))
@given(st.lists(messages, min_size=1, max_size=4).map(tuple))
def test_messages_survive_the_way_out_and_in(talk):
    assert from_openai(json.loads(json.dumps(to_openai(talk)))) == talk


def test_a_written_file_is_read_back_equal(tmp_path):
    one = Transcript(id="a", messages=from_openai(TALK), input="Look.", target=("x",), metadata={"m": 1})
    more = {name: getattr(one, name) for name in ("id", "input", "target", "metadata")}
    file = tmp_path / "out.jsonl"
    file.write_text(json.dumps({"messages": to_openai(one.messages), **more}) + "\n", encoding="utf-8")
    (back,) = read_transcripts(file)
    assert (back.messages, back.target, back.metadata, back.id) == (one.messages, one.target, one.metadata, one.id)
