"""One transcript under edit: plan, then one step at a time, with a running summary."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from jrh_mlflow.generation.agentic.answers import Rejected
from jrh_mlflow.generation.agentic.briefs import Scene
from jrh_mlflow.generation.agentic.desk import Desk, Exhausted, Taken
from jrh_mlflow.generation.agentic.editor import changed_calls, read_edit, results_of
from jrh_mlflow.generation.agentic.planner import Step, read_plan
from jrh_mlflow.perturb._agent_rules import Edited
from jrh_mlflow.perturb.checks import about_the_editing
from jrh_mlflow.schema.presentation import Message

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
