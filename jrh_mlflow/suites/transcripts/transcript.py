"""A transcript: its messages, and where they come from."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from jrh_mlflow.errors import RecipeError
from jrh_mlflow.schema.presentation import Message, part_text

_BYTES_PER_TOKEN = 4
"""On average, as the engine counts before it sends."""
_PER_MESSAGE = 40
"""Bytes of the markers around a message or a tool call."""
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


def asking(messages: Sequence[Message]) -> dict[int, int]:
    """Return for each tool result the message that asked for it: the last one before it with its call.

    A result that names no call answers the last message with calls; one whose call the transcript never held has none.
    """
    found: dict[int, int] = {}
    callers: dict[object, int] = {}
    for i, message in enumerate(messages):
        if message.role in RESULTS and message.tool_call_id in callers:
            found[i] = callers[message.tool_call_id]
        # Ids may come again in a later turn: the last call before a result is the one it answers.
        for call in message.tool_calls:
            callers[call.get("id")] = callers[None] = i
    return found
