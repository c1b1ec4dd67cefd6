"""A transcript: the messages of one conversation or agent run, and where they come from."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from jrh_mlflow.errors import RecipeError
from jrh_mlflow.schema.presentation import Message, part_text
from jrh_mlflow.stimuli.columns import clean

_BYTES_PER_TOKEN = 4
"""On average, as the engine counts before it sends."""
_PER_MESSAGE = 40
"""Bytes of the markers around a message or a tool call."""


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


def cleaned(value: Any) -> tuple[Any, int]:
    """Replace what no file can carry (NUL, lone surrogates) in every text inside, and count it.

    Example:
        >>> cleaned({"a": ["x" + chr(0)]}) == ({"a": ["x" + chr(0xFFFD)]}, 1)
        True
    """
    if isinstance(value, str):
        text = clean(value)
        return text, 0 if text == value else sum(one != other for one, other in zip(text, value, strict=True))
    if isinstance(value, Mapping):
        pairs = [(cleaned(key), cleaned(inner)) for key, inner in value.items()]
        return {key: inner for (key, _), (inner, _) in pairs}, sum(n + m for (_, n), (_, m) in pairs)
    if isinstance(value, Sequence) and not isinstance(value, bytes):
        items = [cleaned(inner) for inner in value]
        return [inner for inner, _ in items], sum(count for _, count in items)
    return value, 0


def _bytes(message: Message) -> int:
    calls = [json.dumps(dict(call), ensure_ascii=False, default=str) for call in message.tool_calls]
    parts = [part_text(part) for part in message.parts]
    texts = [message.content, message.reasoning or "", message.error or "", *calls, *parts]
    return sum(len(text.encode("utf-8", "replace")) for text in texts) + _PER_MESSAGE * (1 + len(calls))
