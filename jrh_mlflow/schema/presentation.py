"""What a judge is shown, and what it answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

PAIR_ANSWERS = ("1", "2", "tie")
FORCED_ANSWERS = ("1", "2")


@dataclass(frozen=True, kw_only=True, slots=True)
class Message:
    """One message of a transcript."""

    role: str
    content: str
    tool_calls: tuple[Mapping[str, Any], ...] = ()
    """Each with `id`, `name` and its full `arguments`."""
    tool_call_id: str | None = None
    """For a tool result: the call it answers."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Presentation:
    """One call as the judge sees it: no label, level, pair id or condition in it."""

    kind: str
    """`pair`, `response` or `transcript`."""
    instruction: str
    """The task the responses answer; for ladder tasks it lists the requirements."""
    rubric: str | None = None
    """What to judge by; for pairs the tie criterion stands here too."""
    first: str | None = None
    """Kind `pair`: the content in slot 1."""
    second: str | None = None
    """Kind `pair`: the content in slot 2."""
    response: str | None = None
    transcript: tuple[Message, ...] | None = None
    answers: tuple[str, ...] = PAIR_ANSWERS
    """What may be answered: slots and `tie`, the labels, or the scale's levels as text."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A judge's answer with what it cost; a bare value is short for `Answer(value)`."""

    value: object
    rationale: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: float | None = None
    confidence: float | None = None
