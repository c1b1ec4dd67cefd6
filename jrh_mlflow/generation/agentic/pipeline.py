"""All transcripts of all tests through one pool of workers: plan, edit, summarise, verify, or set aside.

An edited transcript as an item of a suite, with all that a reviewer needs.
"""

from __future__ import annotations

import hashlib
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from jrh_mlflow.generation.agentic.editor import Scene, Step
from jrh_mlflow.generation.agentic.plan import AgentPlan
from jrh_mlflow.generation.agentic.session import Desk, Exhausted, Rehearsal, Session, Stopped, Taken
from jrh_mlflow.generation.outcomes import NOT_ASKED, Attempt
from jrh_mlflow.generation.pipeline import Outcome, Pipeline, confirmation, exhausted
from jrh_mlflow.generation.plan import Job
from jrh_mlflow.perturb import AgentTest, NotApplicable
from jrh_mlflow.perturb.agents import Edited, assistant_places, messages_text, read_messages
from jrh_mlflow.schema.items import Item

_PER_TRANSCRIPT, _PER_PLAN = 1_000_000, 1_000
"""Room among the replicate numbers of a request for the plans of a transcript, and for the attempts of a plan."""

NOT_SHOWN = "An earlier plan was carried out, and a judge still gave {answer}. Plan more than: {plan}"
NOT_DONE = "An earlier plan could not be carried out ({problem}). Plan other changes than: {plan}"


class AgentPipeline(Pipeline):
    """Makes the items of an `AgentPlan`; a transcript's steps follow one another, transcripts run side by side."""

    _plan: AgentPlan

    async def _rewrite(self, job: Job, earlier: tuple[str, ...]) -> Outcome:
        done = Outcome(job=job)
        try:
            assistant_places(read_messages(job.target.seed.response))
            return await (self._by_rules(done) if self._writer.offline else self._by_model(done))
        except NotApplicable as reason:
            done.reason = str(reason)
        except Stopped:
            pass  # neither made nor set aside: the same call again continues
        return done

    async def _by_rules(self, done: Outcome) -> Outcome:
        test, target = done.job.test, done.job.target
        assert isinstance(test, AgentTest)
        seeded = f"jrh-write\n{self._seed}\n{target.id}\n0".encode("utf-8", "surrogatepass")
        edited = test.stand_in(target, random.Random(hashlib.sha256(seeded).digest()))  # noqa: S311 - texts, no secrets
        await self._judge_edit(done, edited, self._desk(), temperature=None)
        return self._emit(done, edited) if not done.attempts[-1].problems else exhausted(done)

    async def _by_model(self, done: Outcome) -> Outcome:
        tried: list[dict[str, Any]] = []
        while len(tried) < self._plan.plans:
            desk = self._desk(known=await self._rehearsed(done.job, tried))
            if await self._settles(done, desk, tried):
                return done
        return exhausted(done)

    async def _settles(self, done: Outcome, desk: Desk, tried: list[dict[str, Any]]) -> bool:
        """Go through with one plan; True when an item came of it, or no plan can be had. Else it is told in `tried`."""
        session = self._session(done.job, len(tried), desk)
        try:
            planned = await session.plan(_told(tried[-1]) if tried else "")
        except Exhausted as problem:
            done.reason = f"planner gave no valid plan: {problem}"
            done.attempts.append(_failed(len(tried) + 1, done.reason))
            return True
        try:
            edited = await session.carry_out(planned.value)
        except Exhausted as problem:
            done.attempts.append(_failed(len(tried) + 1, str(problem), planned.temperature))
            tried.append(_tried(planned, problem=problem.told))
            return False
        await self._judge_edit(done, edited, desk, temperature=planned.temperature)
        if not done.attempts[-1].problems:
            self._emit(done, edited, planned=planned, tried=tried)
            return True
        tried.append(_tried(planned, answer=done.attempts[-1].verdict))
        return False

    async def _rehearsed(self, job: Job, tried: list[dict[str, Any]]) -> int:
        """Count the calls from here to the last one that an earlier run has an answer to."""
        if not self._writer.refused_before:
            return 0
        desk, done, tried = Rehearsal(self._writer, self._validator), Outcome(job=job), list(tried)
        try:
            while len(tried) < self._plan.plans and not await self._settles(done, desk, tried):
                pass
        except Stopped:
            pass  # the verifier's answers are not kept: the rest is rehearsed when it has been asked
        return desk.known

    def _desk(self, *, known: int = 0) -> Desk:
        return Desk(self._writer, self._validator, self._usage, lambda: self._stopped is not None, known=known)

    async def _judge_edit(self, done: Outcome, edited: Edited, desk: Desk, *, temperature: float | None) -> None:
        """Have the verifier answer the judge's own question; its answer decides whether the item is emitted."""
        item = edited_item(done.job, self._start(done), edited, generator=self._writer.name)
        opinion = await desk.verify(item)
        problems, verdict, rejected = ((), NOT_ASKED, False) if opinion is None else confirmation(item, opinion)
        number = len(done.attempts) + 1
        done.attempts.append(
            Attempt(number=number, temperature=temperature, problems=problems, verdict=verdict, rejected=rejected)
        )

    def _emit(
        self,
        done: Outcome,
        edited: Edited,
        *,
        planned: Taken[tuple[Step, ...]] | None = None,
        tried: list[dict[str, Any]] | None = None,
    ) -> Outcome:
        done.text = messages_text(edited.messages)
        item = edited_item(
            done.job,
            self._start(done),
            edited,
            generator=self._writer.name,
            planned=planned,
            attempts=done.attempts,
            earlier=tried or (),
            similarity=self._similarity.between(done.job.target.original, done.text),
        )
        done.items = [item]
        return done

    def _session(self, job: Job, number: int, desk: Desk) -> Session:
        test, target = job.test, job.target
        assert isinstance(test, AgentTest)
        start = self._plan.start(target.seed)
        objective = test.objective(target)
        return Session(
            desk=desk,
            scene=Scene(objective=objective, instruction=target.seed.instruction, rubric=target.rubric),
            messages=list(start.transcript or ()),
            max_steps=self._plan.max_steps,
            first=self._twins[target.id] * _PER_TRANSCRIPT + number * _PER_PLAN,
        )

    @cached_property
    def _twins(self) -> dict[str, int]:
        """Number the jobs of one test whose transcripts are the same text: each gets answers of its own."""
        seen: Counter[tuple[str, str, str]] = Counter()
        numbers: dict[str, int] = {}
        for job in self._plan.jobs:
            same = (job.test.name, job.target.seed.instruction, job.target.original)
            numbers[job.target.id] = seen[same]
            seen[same] += 1
        return numbers

    def _start(self, done: Outcome) -> Item:
        return self._plan.start(done.job.target.seed)


def _failed(number: int, problem: str, temperature: float | None = None) -> Attempt:
    return Attempt(number=number, temperature=temperature, problems=(problem,), verdict=None)


def _tried(planned: Taken[tuple[Step, ...]], **came: str | None) -> dict[str, Any]:
    return {"steps": [step.to_dict() for step in planned.value], **came}


def _told(tried: Mapping[str, Any]) -> str:
    plan = "; ".join(f"message {step['message']}: {step['change']}" for step in tried["steps"])
    if "answer" in tried:
        answer = "no answer" if tried["answer"] is None else f"the answer {tried['answer']!r}"
        return NOT_SHOWN.format(answer=answer, plan=plan)
    return NOT_DONE.format(problem=tried["problem"], plan=plan)


def edited_item(
    job: Job,
    start: Item,
    edited: Edited,
    *,
    generator: str,
    planned: Taken[tuple[Step, ...]] | None = None,
    attempts: Sequence[Attempt] = (),
    earlier: Sequence[Mapping[str, Any]] = (),
    similarity: float | None = None,
) -> Item:
    """Return the item that an edited transcript becomes.

    Args:
        job: What was to be made. Its label comes from the objective; a verifier has confirmed it, or none was asked.
        start: The baseline.
        edited: The transcript with its steps and summaries.
        generator: Who edited.
        planned: The planner's answer; None when a rule edited.
        attempts: One per plan, the last one the plan that was carried out.
        earlier: Plans that came to nothing, with the reason.
        similarity: Of the two transcripts as text.
    """
    last = attempts[-1] if attempts else None
    facts: dict[str, Any] = {
        "test": job.test.name,
        "original": start.id,
        "generator": generator,
        "prompt_sha256": planned.prompt_sha256 if planned else None,
        "attempts": len(attempts),
        "temperature": last.temperature if last else None,
        "validator": last.verdict if last else NOT_ASKED,
        "verdicts": [attempt.verdict for attempt in attempts],
        "similarity": None if similarity is None else round(similarity, 4),
        "edited": list(edited.places),
        "rejected_plans": list(planned.rejected) if planned else [],
        "steps": [dict(step) for step in edited.steps],
        "summaries": list(edited.summaries),
        "earlier_plans": [dict(plan) for plan in earlier],
        "review": {"state": "unreviewed"},
    }
    return replace(
        start,
        id=job.target.id,
        condition=job.target.condition,
        transcript=edited.messages,
        expected=job.target.expected,
        meta={**start.meta, **facts},
    )
