"""A transcript, its messages and where they come from, and preprocessors that shorten it on record.

Preprocessors leave out what a judge is not to be shown:

    drop_tool_messages   tool results and the calls they answer
    drop_reasoning       what the model thought; text such as <think>…</think> inside a message is text, and stays
    keep_last:10         the last ten messages, and the system messages the transcript begins with

A message of which nothing is left is dropped, and so is a tool result whose call was dropped.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from jrh_mlflow.errors import RecipeError, suggest
from jrh_mlflow.schema.presentation import Message, part_text

_BYTES_PER_TOKEN = 4
"""On average, as the engine counts before it sends."""
_PER_MESSAGE = 40
"""Bytes of the markers around a message or a tool call."""
_SYSTEM = ("system", "developer")
_RESULTS = ("tool", "function")
_THOUGHTS = ("reasoning", "thinking", "redacted_thinking")

Messages = tuple[Message, ...]
StepRecord = Mapping[str, Any]
"""What a step did: its spec as `step`, then counts of what it dropped."""
Step = Callable[[Messages], tuple[Messages, Mapping[str, int]]]
"""What is left of messages, and counts of what was dropped."""


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


def first_user_text(messages: Iterable[Message]) -> str:
    """Return what the user said first, or an empty text."""
    return next((message.content for message in messages if message.role == "user" and message.content), "")


def approximate_tokens(messages: Iterable[Message]) -> int:
    """Estimate how many tokens messages are for a judge: four bytes each, markers and arguments included.

    Example:
        >>> approximate_tokens([Message(role="user", content="x" * 360)])
        100
    """
    return sum(_bytes(message) for message in messages) // _BYTES_PER_TOKEN


def unique_ids(transcripts: Iterable[Transcript]) -> Iterable[Transcript]:
    """Pass transcripts on and refuse an id that comes twice."""
    seen: dict[str, object] = {}
    for transcript in transcripts:
        file = transcript.source.get("file", "the list")
        if transcript.id in seen:
            raise RecipeError(
                f"Transcript {transcript.id!r} comes twice: from {seen[transcript.id]} and from {file}. "
                "Leave one of them out."
            )
        seen[transcript.id] = file
        yield transcript


def _bytes(message: Message) -> int:
    calls = [json.dumps(dict(call), ensure_ascii=False, default=str) for call in message.tool_calls]
    parts = [part_text(part) for part in message.parts]
    texts = [message.content, message.reasoning or "", message.error or "", *calls, *parts]
    return sum(len(text.encode("utf-8", "replace")) for text in texts) + _PER_MESSAGE * (1 + len(calls))


def preprocess(messages: Sequence[Message], steps: Sequence[str]) -> tuple[Messages, tuple[StepRecord, ...]]:
    """Apply steps in order, and return what is left with a record of what each step dropped.

    Raises:
        RecipeError: for an unknown step or a wrong argument, or when nothing is left.

    Example:
        >>> talk = [Message(role="user", content="Hi"), Message(role="assistant", content="Hello.", reasoning="Greet.")]
        >>> preprocess(talk, ["drop_reasoning", "keep_last:1"])[1]
        ({'step': 'drop_reasoning', 'messages': 0, 'reasoning': 1}, {'step': 'keep_last:1', 'messages': 1})
    """
    left, records = tuple(messages), []
    for spec, step in check_steps(steps).items():
        kept, dropped = step(left)
        if _spoken(left) and not _spoken(kept):
            raise RecipeError(
                f"Preprocessor {spec!r} leaves nothing to judge of {len(left)} messages. Leave it out, or keep more."
            )
        left = kept
        records.append({"step": spec, **dropped})
    return left, tuple(records)


def check_steps(steps: Sequence[str]) -> dict[str, Step]:
    """Resolve steps by name, before anything is read."""
    if isinstance(steps, str):
        raise RecipeError(f"Preprocessors are a list, but got the text {steps!r}. Give [{steps!r}].")
    resolved = {str(spec): _step(str(spec)) for spec in steps}
    if len(resolved) < len(steps):
        raise RecipeError(f"Each preprocessor is applied once, but one repeats in {list(steps)}.")
    return resolved


def drop_tool_messages(messages: Messages) -> tuple[Messages, dict[str, int]]:
    """Drop tool results, tool calls, and messages that held nothing else."""
    spoken = [message for message in messages if message.role not in _RESULTS]
    left = _without_emptied(spoken, [replace(message, tool_calls=()) for message in spoken])
    n_calls = sum(len(message.tool_calls) for message in messages)
    return left, {"messages": len(messages) - len(left), "tool_calls": n_calls}


def drop_reasoning(messages: Messages) -> tuple[Messages, dict[str, int]]:
    """Drop reasoning, readable or redacted."""
    parts = [tuple(part for part in message.parts if part.get("type") not in _THOUGHTS) for message in messages]
    kept = [replace(message, reasoning=None, parts=rest) for message, rest in zip(messages, parts, strict=True)]
    n_thoughts = sum(one != other for one, other in zip(messages, kept, strict=True))
    left = _without_emptied(messages, kept)
    return left, {"messages": len(messages) - len(left), "reasoning": n_thoughts}


def keep_last(messages: Messages, n: int) -> tuple[Messages, dict[str, int]]:
    """Keep the last `n` messages and the system messages at the beginning; no tool result without its call."""
    head = next((i for i, message in enumerate(messages) if message.role not in _SYSTEM), len(messages))
    first = max(head, len(messages) - n)
    asked = asking(messages)
    orphans = {i for i in range(first, len(messages)) if (call := asked.get(i)) is not None and call < first}
    left = [message for i, message in enumerate(messages) if (i < head or i >= first) and i not in orphans]
    counts = {"messages": len(messages) - len(left)}
    return tuple(left), {**counts, "results_without_call": len(orphans)} if orphans else counts


def asking(messages: Sequence[Message]) -> dict[int, int]:
    """Return for each tool result the message that asked for it: the last one before it with its call.

    A result that names no call answers the last message with calls; one whose call the transcript never held has none.
    """
    found: dict[int, int] = {}
    callers: dict[object, int] = {}
    for i, message in enumerate(messages):
        if message.role in _RESULTS and message.tool_call_id in callers:
            found[i] = callers[message.tool_call_id]
        # Ids may come again in a later turn: the last call before a result is the one it answers.
        for call in message.tool_calls:
            callers[call.get("id")] = callers[None] = i
    return found


def _spoken(messages: Sequence[Message]) -> bool:
    return any(message.role not in _SYSTEM for message in messages)


def _without_emptied(before: Sequence[Message], after: Sequence[Message]) -> Messages:
    """Leave out what a step emptied; what was empty before stays."""
    return tuple(new for old, new in zip(before, after, strict=True) if old == new or not _empty(new))


def _empty(message: Message) -> bool:
    return not (message.content.strip() or message.tool_calls or message.reasoning or message.error or message.parts)


def _step(spec: str) -> Step:
    name, colon, argument = spec.partition(":")
    if name == "keep_last":
        if not (argument.isascii() and argument.isdigit() and int(argument) >= 1):
            raise RecipeError(f"`keep_last` needs how many messages to keep, as in 'keep_last:10', but got {spec!r}.")
        return lambda messages: keep_last(messages, int(argument))
    if name not in _PLAIN:
        known = (*_PLAIN, "keep_last:10")
        raise RecipeError(f"Unknown preprocessor {spec!r}.{suggest(name, known)} Known: {', '.join(known)}.")
    if colon:
        raise RecipeError(f"Preprocessor {name!r} takes no argument, but got {spec!r}.")
    return _PLAIN[name]


_PLAIN: Mapping[str, Step] = {
    "drop_tool_messages": drop_tool_messages,
    "drop_reasoning": drop_reasoning,
}
