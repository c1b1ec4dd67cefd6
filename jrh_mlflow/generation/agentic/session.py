"""Where the models are asked: on their ramp until an answer can be taken, and after a restart only what is not known.

What comes next depends on every answer before it, and a call without a usable text (a refusal, a failed request) is in
no journal. So a run first rehearses each transcript from the journal alone, as if every answer that is missing there
had been none. Up to the last answer it finds, an earlier run went the same way: what is missing before was asked, had
no usable text, and is not asked again. From there on models are asked. So an item that was made costs nothing and
comes out the same, and so does what an interrupted run had done of one; an item that was set aside because all
attempts of a call were refused is taken up again there: the refused calls are asked again, the answered ones are not.

One transcript under edit: plan, then one step at a time, with a running summary.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from jrh_mlflow.generation.agentic.editor import Rejected, Scene, Step, changed_calls, read_edit, read_plan, results_of
from jrh_mlflow.generation.outcomes import Opinion, Usage, Written
from jrh_mlflow.generation.validators import Validator
from jrh_mlflow.generation.writers import PASSED_OVER, Writer
from jrh_mlflow.perturb.agents import Edited
from jrh_mlflow.perturb.checks import about_the_editing
from jrh_mlflow.schema.items import Item
from jrh_mlflow.schema.presentation import Message

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


_MAX_SUMMARY = 4000
_FOLLOW_UP = "coherence: the call it answers was edited"


@dataclass(kw_only=True)
class Session:
    """The work on one plan."""

    desk: Desk
    scene: Scene
    messages: list[Message]
    """As they are now."""
    max_steps: int
    first: int
    """Replicate number of every first attempt: another plan, or another transcript with the same text, has its own."""
    summary: str = ""
    steps: list[Mapping[str, Any]] = field(default_factory=list)
    summaries: list[str] = field(default_factory=list)
    _done: set[int] = field(default_factory=set)

    async def plan(self, told: str) -> Taken[tuple[Step, ...]]:
        """Have the planner say what to edit; `told` is what came of an earlier plan.

        Raises:
            Exhausted: when no attempt gave a valid plan.
        """
        before = tuple(self.messages)
        return await self.desk.ask(
            lambda problem: self.scene.planner(before, max_steps=self.max_steps, told=told, rejected=problem),
            lambda text: read_plan(text, before, max_steps=self.max_steps),
            first=self.first,
        )

    async def carry_out(self, steps: tuple[Step, ...]) -> Edited:
        """Edit step by step.

        Raises:
            Exhausted: when a step could not be carried out; the text names it.
        """
        for step in steps:
            before = self.messages[step.message]
            try:
                await self._edit(step)
                for follow_up in self._follow_ups(step, before):
                    await self._edit(follow_up, by="pipeline")
            except Exhausted as problem:
                problem.args = (f"editor could not carry out a step: message {step.message}, {problem}",)
                raise
            await self._summarise(step, before)
        return Edited(
            messages=tuple(self.messages),
            places=tuple(sorted(self._done)),
            steps=tuple(self.steps),
            summaries=tuple(self.summaries),
        )

    async def _edit(self, step: Step, *, by: str = "planner") -> None:
        before = tuple(self.messages)
        message, follows = before[step.message], by == "pipeline"
        taken = await self.desk.ask(
            lambda problem: self.scene.editor(before, step, summary=self.summary, rejected=problem),
            lambda text: read_edit(text, message, may_stay=follows),
            first=self.first,
        )
        self.messages[step.message] = taken.value
        self._done |= {step.message} if taken.value != message else set()
        facts = {"asked_by": by, "attempts": taken.attempts, "rejected": list(taken.rejected)}
        self.steps.append({**step.to_dict(), **facts, "changed": taken.value != message})

    def _follow_ups(self, step: Step, before: Message) -> list[Step]:
        """Return an edit for the result of every call whose arguments were changed."""
        after = self.messages[step.message]
        return [
            Step(message=place, change=_coherent(old, new), why=_FOLLOW_UP)
            for old, new in changed_calls(before, after)
            for place in results_of(self.messages, step.message, new)
        ]

    async def _summarise(self, step: Step, before: Message) -> None:
        after = self.messages[step.message]
        try:
            taken = await self.desk.ask(
                lambda problem: self.scene.summariser(before, after, step, summary=self.summary, rejected=problem),
                _read_summary,
                first=self.first,
            )
            self.summary = taken.value
        except Exhausted:
            # A summary only helps the next edit; the step itself says the same in other words.
            self.summary = "\n".join(filter(None, (self.summary, f"Message {step.message}: {step.change}")))
        self.summaries.append(self.summary)


def _coherent(old: Mapping[str, Any], new: Mapping[str, Any]) -> str:
    before, after = (json.dumps(call.get("arguments"), ensure_ascii=False) for call in (old, new))
    return (
        f"This is the result of the call {new.get('name')!r}, whose arguments were edited from {before} to {after}. "
        "Make it what the tool would return for the new arguments. If it would return the same, leave it as it is."
    )


def _read_summary(text: str) -> str:
    problem = about_the_editing("", text)
    if problem is not None:
        raise Rejected(problem)
    if not any(map(str.isalnum, text)):
        raise Rejected("the summary is empty")
    if len(text) > _MAX_SUMMARY:
        raise Rejected(f"the summary has {len(text)} characters, at most {_MAX_SUMMARY} are allowed")
    return text
