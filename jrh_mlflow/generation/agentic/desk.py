"""Where the models are asked: on their ramp until an answer can be taken, and after a restart only what is not known.

What comes next depends on every answer before it, and a call without a usable text (a refusal, a failed request) is in
no journal. So a run first rehearses each transcript from the journal alone, as if every answer that is missing there
had been none. Up to the last answer it finds, an earlier run went the same way: what is missing before was asked, had
no usable text, and is not asked again. From there on models are asked. So an item that was made costs nothing and
comes out the same, and so does what an interrupted run had done of one; an item that was set aside because all
attempts of a call were refused is taken up again there: the refused calls are asked again, the answered ones are not.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from jrh_mlflow.generation.agentic.answers import Rejected
from jrh_mlflow.generation.attempts import Opinion, Usage, Written
from jrh_mlflow.generation.validators import Validator
from jrh_mlflow.generation.writers import PASSED_OVER, Writer
from jrh_mlflow.schema.items import Item

T = TypeVar("T")

NO_ANSWER = "no usable answer"
_NO_OPINION = Opinion(problem="no usable answer in an earlier run", called=False)


class Exhausted(Exception):  # noqa: N818 - a reason, not a failure
    """No attempt gave an answer that could be taken."""

    def __init__(self, n_attempts: int, last: str, told: str) -> None:
        super().__init__(f"none of {n_attempts} answers could be taken; the last: {last}")
        self.told = told
        """The last problem, the same in every run: how a call failed is left out."""


class Stopped(Exception):  # noqa: N818 - a signal, not a failure
    """Generation was stopped, or a rehearsal knows no more; nothing more is asked."""


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
    """Asks generator and verifier about one transcript."""

    def __init__(
        self,
        writer: Writer,
        validator: Validator | None,
        usage: Usage,
        stopped: Callable[[], bool],
        *,
        known: int = 0,
    ) -> None:
        """Set it up; `known` is how many calls a rehearsal made up to the last one with an answer."""
        self._writer, self._validator, self._usage, self._stopped = writer, validator, usage, stopped
        self._known, self._calls = known, 0

    async def ask(self, brief: Callable[[str], str], read: Callable[[str], T], *, first: int) -> Taken[T]:
        """Ask the generator until `read` takes the answer.

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
            self._begin()
            # A call without a text adds nothing to the brief, so that a restart finds the attempt after it.
            written = await self._write(brief(rejected[-1] if rejected else ""), attempt, first)
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

    async def verify(self, item: Item) -> Opinion | None:
        """Have the verifier answer the judge's question about an item; None when there is nobody to ask.

        Raises:
            Stopped: when generation was stopped.
        """
        if self._validator is None:
            return None
        self._begin()
        opinion = await self._verdict(self._validator, item)
        self._usage.add(opinion)
        return opinion

    def _begin(self) -> None:
        if self._stopped():
            raise Stopped
        self._calls += 1

    async def _write(self, brief: str, attempt: int, first: int) -> Written:
        if self._calls < self._known:
            return self._writer.kept(brief, attempt=attempt, first=first) or PASSED_OVER
        return await self._writer.ask(brief, attempt=attempt, first=first)

    async def _verdict(self, validator: Validator, item: Item) -> Opinion:
        if self._calls < self._known:
            return validator.kept(item) or _NO_OPINION
        return await validator.ask(item)


class Rehearsal(Desk):
    """Answers from the journal alone, and remembers where the last answer came."""

    def __init__(self, writer: Writer, validator: Validator | None) -> None:
        super().__init__(writer, validator, Usage(), lambda: False)
        self.known = 0
        """Calls up to the last one with an answer."""

    async def _write(self, brief: str, attempt: int, first: int) -> Written:
        kept = self._writer.kept(brief, attempt=attempt, first=first)
        self.known = self.known if kept is None else self._calls
        return kept or PASSED_OVER

    async def _verdict(self, validator: Validator, item: Item) -> Opinion:
        if not validator.remembers:
            raise Stopped
        kept = validator.kept(item)
        self.known = self.known if kept is None else self._calls
        return kept or _NO_OPINION
