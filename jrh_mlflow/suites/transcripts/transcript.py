"""A transcript: its messages and where they come from; OpenAI-style message lists read as transcripts.

A file (JSON or JSON lines) holds one list of messages, a list of such lists, objects with `messages` (and an `id`, a
`target`, `scores`, `metadata`), or one message a line. What a message holds beyond text, tool calls and reasoning is
kept as a part. Messages as LangChain and Anthropic write them are brought into OpenAI's form first.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jrh_mlflow.errors import RecipeError
from jrh_mlflow.schema.presentation import Message
from jrh_mlflow.suites.dataset import read_json_lines
from jrh_mlflow.text import clean_data

TRACE = "mlflow_trace"
"""The `format` of transcripts that were traces."""
JUDGE_SCORES = "judge_scores"
"""Key of the metadata under which verdicts of judges stand: they are data, and never labels."""
RESULTS = ("tool", "function")
"""Roles of messages that hold what a tool returned."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Transcript:
    """What an assistant did, as a log holds it. Nothing in it is cut."""

    id: str
    """The same for the same run on every machine; epochs of one sample have different ones."""
    messages: tuple[Message, ...]
    input: str = ""
    """The task as it was given; by default the text of the first user message."""
    target: tuple[str, ...] = ()
    """What the log says a right answer is."""
    scores: Mapping[str, Any] = field(default_factory=dict)
    """By scorer, as logged: letters, numbers, booleans, lists, mappings or None."""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    source: Mapping[str, Any] = field(default_factory=dict)
    """`format`, and what is known of `file`, `sample_id`, `epoch`, `status`, `held` (16 of 176), `error`, …"""
    people: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Field (`scores.harm`) to what each person said there; the field itself holds what most of them say."""


def first_user_text(messages: Iterable[Message]) -> str:
    """Return what the user said first, or an empty text."""
    return next((message.content for message in messages if message.role == "user" and message.content), "")


def unique_ids(transcripts: Iterable[Transcript]) -> Iterable[Transcript]:
    """Pass transcripts on and refuse an id that comes twice."""
    seen: dict[str, object] = {}
    for transcript in transcripts:
        file = transcript.source.get("file", "the list")
        # Ids name items and decisions, and one of the two transcripts would be lost without a word.
        if transcript.id in seen:
            raise RecipeError(
                f"Transcript {transcript.id!r} comes twice: from {seen[transcript.id]} and from {file}. "
                "Leave one of them out."
            )
        seen[transcript.id] = file
        yield transcript


def asking_messages(messages: Sequence[Message]) -> dict[int, int]:
    """Return for each tool result the message that asked for it: the last one before it with its call.

    A result that names no call answers the last message with calls; one whose call the transcript never held has none.
    """
    asking: dict[int, int] = {}
    callers: dict[object, int] = {}
    for i, message in enumerate(messages):
        if message.role in RESULTS and message.tool_call_id in callers:
            asking[i] = callers[message.tool_call_id]
        # Ids may come again in a later turn: the last call before a result is the one it answers.
        for call in message.tool_calls:
            callers[call.get("id")] = callers[None] = i
    return asking


_TEXTS = ("text", "input_text", "output_text")
_LEGACY = "function_call"
_CALLS = ("tool_calls", "tool_call_id", _LEGACY)
_KNOWN = frozenset(("role", "content", *_CALLS, "id", "name", "error", "refusal", "reasoning", "reasoning_content"))
_OWN_KEYS = ("messages", "id", "input", "target", "scores", "metadata")
_LINES = (".jsonl", ".ndjson")

LANGCHAIN_ROLES = {"human": "user", "ai": "assistant", "system": "system", "tool": "tool"}
_LANGCHAIN_FIELDS = ("content", "name", "id", "tool_call_id", "tool_calls")
_ANTHROPIC = ("tool_use", "tool_result", "thinking")

NOT_AN_OBJECT = "the arguments are not one JSON object"


def read_openai(source: str | Path | Sequence[Any]) -> Iterator[Transcript]:
    """Read message lists from a file (`.json`, `.jsonl`) or from Python lists.

    Raises:
        RecipeError: naming the file, the transcript and the message that cannot be read.
    """
    if isinstance(source, str | Path):
        path = Path(source)
        yield from _transcripts(_load(path), name=path.stem, file=str(path))
    else:
        yield from _transcripts(list(source), name=None, file=None)


def from_openai(messages: Sequence[Any], *, where: str = "The message list") -> tuple[Message, ...]:
    """Read a list of OpenAI-style messages."""
    read: list[Message] = []
    for number, data in enumerate(messages, 1):
        if not isinstance(data, Mapping) or not isinstance(data.get("role"), str):
            raise RecipeError(f"{where}: message {number} must be an object with a `role`, but is {_short(data)}.")
        try:
            read.append(_message(data, read))
        except ValueError as error:
            raise RecipeError(f"{where}: message {number}: {error}.") from error
    return tuple(read)


def _load(path: Path) -> list[Any]:
    """Return the entries of a file: messages, lists of messages or objects with `messages`."""
    try:
        text = path.read_bytes().decode("utf-8-sig")
        if path.suffix.lower() in _LINES:
            return read_json_lines(text)
        data = json.loads(text)
    except UnicodeDecodeError as error:
        raise RecipeError(f"{path.name} is not UTF-8 at byte {error.start}.") from error
    except OSError as error:
        raise RecipeError(f"{path} cannot be read: {error.strerror}.") from error
    except (ValueError, RecursionError) as error:
        raise RecipeError(f"{path.name} is not valid JSON: {error}.") from error
    return data if isinstance(data, list) else [data]


def _transcripts(entries: list[Any], *, name: str | None, file: str | None) -> Iterator[Transcript]:
    shown = file or "The list"
    if not entries:
        raise RecipeError(f"{shown} has no messages.")
    if all(isinstance(entry, Mapping) and "role" in entry for entry in entries):
        yield _transcript({"messages": entries}, name, 0, file=file, only=True)
        return
    for number, entry in enumerate(entries, 1):
        data = {"messages": entry} if isinstance(entry, list | tuple) else entry
        if not isinstance(data, Mapping) or not isinstance(data.get("messages"), list | tuple):
            raise RecipeError(
                f"{shown}: entry {number} must be a list of messages or an object with `messages`, "
                f"but is {_short(entry)}."
            )
        yield _transcript(data, name, number, file=file, only=len(entries) == 1)


def _transcript(raw: Mapping[str, Any], name: str | None, number: int, *, file: str | None, only: bool) -> Transcript:
    data, replaced = clean_data(raw)
    place = name if only else f"{name or 'transcript'}/{number}"
    shown = str(data["id"]) if data.get("id") is not None else place or _digest(data["messages"])
    messages = from_openai(data["messages"], where=f"{file or 'The list'}, transcript {shown!r}")
    if not messages:
        raise RecipeError(f"{file or 'The list'}, transcript {shown!r} has no messages.")
    target = data.get("target") or ()
    more = {key: value for key, value in data.items() if key not in _OWN_KEYS}
    known = {"file": file, "replaced_characters": replaced}
    return Transcript(
        id=shown,
        messages=messages,
        input=str(data.get("input") or first_user_text(messages)),
        target=(target,) if isinstance(target, str) else tuple(map(str, target)),
        scores=data.get("scores") or {},
        metadata={**more, **(data.get("metadata") or {})},
        source={"format": "openai"} | {name: value for name, value in known.items() if value},
    )


def _message(data: Mapping[str, Any], before: Sequence[Message]) -> Message:
    content, parts = _content(data.get("content"))
    refusal = data.get("refusal")
    if refusal:
        content = f"{content}\n{refusal}" if content else str(refusal)
        parts.append({"type": "refusal", "refusal": str(refusal)})
    calls = [_call(call) for call in data.get("tool_calls") or ()]
    if data.get(_LEGACY):
        # The older form has no ids; its place in the talk makes one.
        calls.append({**_call(data[_LEGACY]), "id": f"function_{len(before)}"})
    # Fields that we do not know are kept, so that writing back loses nothing.
    parts += [
        {"type": "field", "name": key, "value": value}
        for key, value in data.items()
        if key not in _KNOWN and value not in (None, [], {})
    ]
    return Message(
        role=str(data["role"]),
        content=content,
        tool_calls=tuple(calls),
        tool_call_id=_answered(data, before),
        id=_text(data, "id"),
        name=_text(data, "name"),
        reasoning=_text(data, "reasoning_content") or _text(data, "reasoning"),
        error=_text(data, "error"),
        parts=tuple(parts),
    )


def _content(content: Any) -> tuple[str, list[Mapping[str, Any]]]:
    """Split a content into its text and its other parts."""
    if content is None or isinstance(content, str):
        return content or "", []
    if isinstance(content, Mapping):
        content = [content]
    if not isinstance(content, list | tuple):
        raise ValueError(f"`content` must be text or a list of parts, but is {_short(content)}")
    texts: list[str] = []
    parts: list[Mapping[str, Any]] = []
    for part in content:
        if isinstance(part, str):
            texts.append(part)
        elif not isinstance(part, Mapping) or not isinstance(part.get("type"), str):
            raise ValueError(f"a part of `content` must be an object with a `type`, but is {_short(part)}")
        elif part["type"] in _TEXTS and isinstance(part.get("text"), str):
            texts.append(part["text"])
        else:
            parts.append(dict(part))
            texts += [str(part["refusal"])] if part["type"] == "refusal" and part.get("refusal") else []
    return "\n".join(texts), parts


def _call(data: Any) -> dict[str, Any]:
    if not isinstance(data, Mapping):
        raise ValueError(f"a tool call must be an object, but is {_short(data)}")
    function = data.get("function", data)
    if not isinstance(function, Mapping):
        raise ValueError(f"`function` of a tool call must be an object, but is {_short(function)}")
    arguments = function.get("arguments", function.get("args"))
    call = {"id": data.get("id"), "name": function.get("name")}
    if isinstance(arguments, str):
        return {**call, **read_arguments(arguments)}
    return {**call, "arguments": {} if arguments is None else arguments}


def read_arguments(text: str) -> dict[str, Any]:
    """Read arguments that are JSON in a text; what is no single object stays the text it is, with a note."""
    try:
        value = json.loads(text, object_pairs_hook=_strict_object, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        value = None
    return {"arguments": value} if isinstance(value, dict) else {"arguments": text, "parse_error": NOT_AN_OBJECT}


def _strict_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) < len(pairs):
        raise ValueError("a key comes twice, and one value would be lost")
    return dict(pairs)


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


def _answered(data: Mapping[str, Any], before: Sequence[Message]) -> str | None:
    if data["role"] != "function" or data.get("tool_call_id"):
        return _text(data, "tool_call_id")
    # The older form has no ids: a result answers the last call of its function.
    calls = [call for message in before for call in message.tool_calls if call.get("name") == data.get("name")]
    return str(calls[-1]["id"]) if calls else None


def _text(data: Mapping[str, Any], key: str) -> str | None:
    value = data.get(key)
    return value if value is None or isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _short(value: object) -> str:
    shown = repr(value)
    return f"{shown[:60]}…" if len(shown) > 60 else shown


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()[:12]


def split_refusal(message: Message) -> tuple[str, str | None]:
    """Take the refusal out of the content it ends; one whose text was edited away is none any more."""
    refusal = next((str(part.get("refusal") or "") for part in message.parts if part.get("type") == "refusal"), "")
    if not refusal or not message.content.endswith(refusal):
        return message.content, None
    return message.content[: -len(refusal)].removesuffix("\n"), refusal


def plain_messages(message: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return a message of any of the three forms as one or more of OpenAI's.

    Example:
        >>> plain_messages({"type": "human", "content": "Hi"})
        [{'content': 'Hi', 'role': 'user'}]
    """
    if "role" not in message:
        kept = {key: message[key] for key in _LANGCHAIN_FIELDS if message.get(key)}
        return [{"content": "", **kept, "role": LANGCHAIN_ROLES.get(str(message.get("type")), message.get("type"))}]
    plain = dict(message)
    if plain.get("type") == "message":
        # An answer of Anthropic's: what stands beside the content (usage, stop reason) is about the call.
        plain = {"role": message["role"], "content": message.get("content")}
    content = plain.get("content")
    blocks = content if isinstance(content, list) else []
    return _from_blocks(plain, blocks) if any(map(_is_anthropic, blocks)) else [plain]


def _is_anthropic(block: Any) -> bool:
    return isinstance(block, Mapping) and block.get("type") in _ANTHROPIC


def _from_blocks(message: dict[str, Any], blocks: list[Any]) -> list[dict[str, Any]]:
    """Take tool uses, tool results and thinking out of the content: results become messages of their own."""
    special = [block for block in blocks if _is_anthropic(block)]
    rest = [block for block in blocks if not _is_anthropic(block)]
    results = [_result(block) for block in special if block["type"] == "tool_result"]
    calls = [_tool_use(block) for block in special if block["type"] == "tool_use"]
    thoughts = [str(block.get("thinking") or "") for block in special if block["type"] == "thinking"]
    spoken = {**message, "content": rest}
    if calls:
        spoken["tool_calls"] = calls
    if any(thoughts):
        spoken["reasoning_content"] = "\n".join(filter(None, thoughts))
    return [*results, *([spoken] if rest or calls or any(thoughts) else [])]


def _result(block: Mapping[str, Any]) -> dict[str, Any]:
    content = block.get("content")
    result = {"role": "tool", "tool_call_id": block.get("tool_use_id"), "content": content or ""}
    if block.get("is_error"):
        result["error"] = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
    return result


def _tool_use(block: Mapping[str, Any]) -> dict[str, Any]:
    return {"id": block.get("id"), "function": {"name": block.get("name"), "arguments": block.get("input")}}
