"""The planner's answer: which messages to edit, what to change, and why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from jrh_mlflow.generation.agentic.answers import Rejected, check_keys, one_object
from jrh_mlflow.perturb._agent_rules import RESULTS
from jrh_mlflow.schema.presentation import Message

EDITABLE = ("assistant", *RESULTS)
"""Roles that may be edited: what the system and the user said is the task, and stays."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Step:
    """One edit of one message."""

    message: int
    """Its place in the transcript, from 0."""
    change: str
    why: str

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for the item's meta."""
        return asdict(self)


def editable(messages: Sequence[Message]) -> list[int]:
    """List the messages that may be edited."""
    return [place for place, message in enumerate(messages) if message.role in EDITABLE]


def read_plan(text: str, messages: Sequence[Message], *, max_steps: int) -> tuple[Step, ...]:
    """Read a plan and check it against the transcript.

    Raises:
        Rejected: saying which rule it breaks.

    Example:
        >>> talk = [Message(role="user", content="Hi"), Message(role="assistant", content="Hello.")]
        >>> read_plan('{"steps": [{"message": 1, "change": "be rude", "why": "rude"}]}', talk, max_steps=1)
        (Step(message=1, change='be rude', why='rude'),)
    """
    listed = check_keys(one_object(text), ("steps",), "the plan")["steps"]
    if not isinstance(listed, list) or not listed:
        raise Rejected("the plan must list one step or more")
    if len(listed) > max_steps:
        raise Rejected(f"the plan has {len(listed)} steps, and at most {max_steps} are allowed")
    steps = tuple(_step(entry, number, messages) for number, entry in enumerate(listed, 1))
    places = [step.message for step in steps]
    if len(set(places)) < len(places):
        twice = next(place for place in places if places.count(place) > 1)
        raise Rejected(f"message {twice} is named twice; put both changes into one step")
    if not any(messages[place].role == "assistant" for place in places):
        raise Rejected("no step edits a message of the assistant")
    return tuple(sorted(steps, key=lambda step: step.message))


def _step(entry: object, number: int, messages: Sequence[Message]) -> Step:
    fields = check_keys(entry, ("message", "change", "why"), f"step {number}")
    place = fields["message"]
    if isinstance(place, bool) or not isinstance(place, int):
        raise Rejected(f"step {number}: `message` must be the number of a message, but is {str(place)[:40]!r}")
    if not 0 <= place < len(messages):
        there = f"there are messages 0 to {len(messages) - 1}"
        raise Rejected(f"step {number} names message {place}, which does not exist: {there}")
    role = messages[place].role
    if role not in EDITABLE:
        raise Rejected(f"step {number} edits message {place}, which is of the {role} and must stay as it is")
    for name in ("change", "why"):
        if not isinstance(fields[name], str) or not fields[name].strip():
            raise Rejected(f"step {number}: `{name}` must be text")
    return Step(message=place, change=fields["change"].strip(), why=fields["why"].strip())
