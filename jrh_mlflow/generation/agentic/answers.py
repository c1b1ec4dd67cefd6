"""Answers of the generator in JSON, read strictly; what is wrong with one is told to it with the next attempt."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from jrh_mlflow.generation.attempts import Usage
from jrh_mlflow.generation.writers import Writer
from jrh_mlflow.judges.json_objects import UnreadableError, decode, spans
from jrh_mlflow.judges.parsing import PROBLEMS
from jrh_mlflow.transcripts.model import cleaned

T = TypeVar("T")

NO_ANSWER = "no usable answer"


class Rejected(Exception):  # noqa: N818 - a reason, not a failure
    """An answer cannot be taken; the text says why and is told to the generator."""


class Exhausted(Exception):  # noqa: N818 - a reason, not a failure
    """No attempt gave an answer that could be taken."""

    def __init__(self, n_attempts: int, last: str, told: str) -> None:
        super().__init__(f"none of {n_attempts} answers could be taken; the last: {last}")
        self.told = told
        """The last problem, the same in every run: how a call failed is left out."""


class Stopped(Exception):  # noqa: N818 - a signal, not a failure
    """Generation was stopped; nothing more is asked."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Taken(Generic[T]):
    """An answer that passed."""

    value: T
    attempts: int
    temperature: float | None
    rejected: tuple[str, ...]
    """What was wrong with earlier answers."""
    prompt_sha256: str | None


class Desk:
    """Asks the generator on its ramp until an answer can be taken."""

    def __init__(self, writer: Writer, usage: Usage, stopped: Callable[[], bool]) -> None:
        self._writer, self._usage, self._stopped = writer, usage, stopped

    async def ask(self, brief: Callable[[str], str], read: Callable[[str], T], *, first: int) -> Taken[T]:
        """Ask until `read` takes the answer.

        Args:
            brief: From what was wrong with the answer before (empty at first) to what the generator is told.
            read: Reads an answer or raises `Rejected`.
            first: Replicate number of the first attempt.

        Raises:
            Exhausted: when every attempt is used up.
            Stopped: when generation was stopped in between.
        """
        rejected: list[str] = []
        last = NO_ANSWER
        for attempt, temperature in enumerate(self._writer.temperatures):
            if self._stopped():
                raise Stopped
            # A call without a text adds nothing to the brief, so that a restart finds the attempt after it.
            written = await self._writer.ask(brief(rejected[-1] if rejected else ""), attempt=attempt, first=first)
            self._usage.add(written)
            if written.text is None:
                last = written.problem or NO_ANSWER
                continue
            try:
                value = read(written.text)
            except Rejected as problem:
                last = str(problem)
                rejected.append(last)
                continue
            return Taken(
                value=value,
                attempts=attempt + 1,
                temperature=temperature,
                rejected=tuple(rejected),
                prompt_sha256=written.prompt_sha256,
            )
        raise Exhausted(len(self._writer.temperatures), last, rejected[-1] if rejected else NO_ANSWER)


def one_object(text: str) -> dict[str, Any]:
    """Return the fields of the one JSON object a text holds; prose or a code fence around it is forgiven.

    Raises:
        Rejected: when there is none, several, or a broken one.

    Example:
        >>> one_object('Here: {"steps": []}')
        {'steps': []}
    """
    found = list(spans(text))
    if not found:
        raise Rejected("the answer holds no JSON object")
    if len(found) > 1:
        raise Rejected(f"the answer holds {len(found)} JSON objects instead of one")
    if found[0].problem is not None:
        raise Rejected(PROBLEMS[found[0].problem])
    try:
        fields: dict[str, Any] = cleaned(decode(text[found[0].start : found[0].end]))[0]
    except UnreadableError as error:
        raise Rejected(PROBLEMS[error.code]) from error
    return fields


def check_keys(fields: object, needed: Sequence[str], what: str, *, allowed: Sequence[str] = ()) -> dict[str, Any]:
    """Return `fields` when it is an object with the needed keys and no unknown ones."""
    if not isinstance(fields, dict):
        raise Rejected(f"{what} must be a JSON object")
    for key in needed:
        if key not in fields:
            raise Rejected(f"{what} has no field {key!r}")
    for key in fields:
        if key not in (*needed, *allowed):
            raise Rejected(f"{what} has the unknown field {str(key)[:40]!r}")
    return fields
