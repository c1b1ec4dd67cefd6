"""Transcripts edited for tests of judges that watch agents: planned, edited, summarised, verified."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Generic, TypeVar

from jrh_mlflow.generation import editor
from jrh_mlflow.generation.pipeline import MAY_DIFFER, JobResult, Pipeline, compared_texts, how_made
from jrh_mlflow.generation.plan import AgentPlan, Job
from jrh_mlflow.generation.writers import Session, Writer
from jrh_mlflow.perturb import AgentTest
from jrh_mlflow.perturb.agents import Edited, assistant_places, messages_text, read_messages
from jrh_mlflow.perturb.checks import about_the_editing
from jrh_mlflow.schema.items import Item
from jrh_mlflow.schema.presentation import Message

T = TypeVar("T")

NO_ANSWER = "no usable answer"
NOT_SHOWN = "An earlier plan was carried out, and a judge still gave {answer}. Plan more than: {plan}"
NOT_DONE = "An earlier plan could not be carried out ({problem}). Plan other changes than: {plan}"
_PER_TRANSCRIPT, _PER_PLAN = 1_000_000, 1_000
"""Room among the replicate numbers of a request for the plans of a transcript, and for the attempts of a plan."""
_MAX_SUMMARY = 4000
_FOLLOW_UP = "coherence: the call it answers was edited"


class Exhausted(Exception):  # noqa: N818 - a reason, not a failure
    """No attempt gave an answer that could be taken."""

    def __init__(self, n_attempts: int, last: str, problem: str) -> None:
        super().__init__(f"none of {n_attempts} answers could be taken; the last: {last}")
        self.problem = problem
        """The last problem, the same in every run: how a call failed is left out."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Taken(Generic[T]):
    """An answer that passed."""

    value: T
    attempts: int
    temperature: float | None
    rejected: tuple[str, ...]
    """What was wrong with earlier answers."""
    prompt_sha256: str | None


class AgentPipeline(Pipeline):
    """Makes the items of an `AgentPlan`; a transcript's steps follow one another, transcripts run side by side."""

    _plan: AgentPlan

    def _rounds(self, job: Job) -> int:
        return self._plan.plans

    async def _attempt(self, result: JobResult, session: Session) -> bool:
        """Go through with one plan; True when an item came of it, or no plan can be had."""
        test, target = result.job.test, result.job.target
        writer = self._writer
        assert isinstance(test, AgentTest)
        assert isinstance(writer, editor.StagedWriter)
        # Raises for a transcript without the assistant, before a planner is paid for it.
        assistant_places(read_messages(target.seed.response))
        editing = Editing(
            session=session,
            writers=writer.by_stage,
            scene=editor.Scene.of(test, target, writer.prompts),
            messages=list(self._plan.start(result.job).transcript or ()),
            max_steps=self._plan.max_steps,
            first=self._plan.twins[target.id] * _PER_TRANSCRIPT + len(result.tried) * _PER_PLAN,
        )
        try:
            planned = await editing.plan(_about_plan(result.tried[-1]) if result.tried else "")
        except Exhausted as exhausted:
            # Another plan would be asked of the same planner with the same brief, so the job ends here.
            result.reason = f"planner gave no valid plan: {exhausted}"
            result.add(None, result.reason, verdict=None)
            return True
        try:
            edited = await editing.carry_out(planned.value)
        except Exhausted as exhausted:
            result.tried.append(_tried(planned, problem=exhausted.problem))
            return result.add(planned.temperature, str(exhausted), verdict=None)
        if await self._verified(result, session, edited, planned=planned):
            return True
        result.tried.append(_tried(planned, answer=result.attempts[-1].verdict))
        return False

    async def _verified(
        self, result: JobResult, session: Session, edited: Edited, *, planned: Taken[tuple[editor.Step, ...]]
    ) -> bool:
        """Have the verifier answer the judge's question about an edited transcript, and emit what passes."""
        writer = self._writer
        assert isinstance(writer, editor.StagedWriter)
        start = self._plan.start(result.job)
        item = edited_item(result, start, edited, how_made(writer.name, result.attempts), planned=planned)
        questions = [*edited_texts(start, item), item]
        passed = await self._confirm(result, session, planned.temperature, questions)
        if not (passed or self._keeps_all):
            return result.reason is not None
        text = messages_text(edited.messages)
        facts = how_made(
            writer.name,
            result.attempts,
            prompt_sha256=planned.prompt_sha256,
            similarity=self._similarity.between(result.job.target.original, text),
            label_source=self._label_source(result),
        )
        if writer.own:
            facts["stages"] = dict(writer.own)
        item = edited_item(result, start, edited, facts, planned=planned)
        return result.end(text, [item], passed=passed) or result.reason is not None


def edited_texts(start: Item, item: Item) -> list[Item]:
    """Return the question whether the edited messages hold their texts and nothing else.

    None where only arguments of tools were edited: they are data, and read strictly.
    """
    places = item.meta["edited"]
    before, after = (
        "\n\n".join(f"Message {place}:\n{messages[place].content}" for place in places)
        for messages in (start.transcript or (), item.transcript or ())
    )
    if before == after:
        return []
    return [compared_texts(item, before, after, must_keep=MAY_DIFFER, rubric=item.rubric or "")]


def _tried(planned: Taken[tuple[editor.Step, ...]], **result: str | None) -> dict[str, Any]:
    return {"steps": [asdict(step) for step in planned.value], **result}


def _about_plan(tried: Mapping[str, Any]) -> str:
    plan = "; ".join(f"message {step['message']}: {step['change']}" for step in tried["steps"])
    if "answer" in tried:
        answer = "no answer" if tried["answer"] is None else f"the answer {tried['answer']!r}"
        return NOT_SHOWN.format(answer=answer, plan=plan)
    return NOT_DONE.format(problem=tried["problem"], plan=plan)


@dataclass(kw_only=True)
class Editing:
    """One transcript under edit: a plan, then one step at a time, with a running summary."""

    session: Session
    writers: Mapping[str, Writer]
    """By stage: planner, editor, summary."""
    scene: editor.Scene
    messages: list[Message]
    """As they are now."""
    max_steps: int
    first: int
    """Replicate number of every first attempt: another plan, or another transcript with the same text, has its own."""
    summary: str = ""
    steps: list[Mapping[str, Any]] = field(default_factory=list)
    summaries: list[str] = field(default_factory=list)
    _changed: set[int] = field(default_factory=set)

    async def plan(self, earlier: str) -> Taken[tuple[editor.Step, ...]]:
        """Have the planner say what to edit; `earlier` is what came of an earlier plan.

        Raises:
            Exhausted: when no attempt gave a valid plan.
        """
        before = tuple(self.messages)
        return await self._ask(
            "planner",
            lambda problem: self.scene.planner(before, max_steps=self.max_steps, earlier=earlier, rejected=problem),
            lambda text: editor.read_plan(text, before, max_steps=self.max_steps),
        )

    async def carry_out(self, steps: tuple[editor.Step, ...]) -> Edited:
        """Edit step by step.

        Raises:
            Exhausted: when a step could not be carried out; the text names it.
        """
        for step in steps:
            before = self.messages[step.message]
            try:
                await self._edit(step)
                # A result that answers other arguments than those shown would give the edit away.
                for follow_up in self._follow_ups(step, before):
                    await self._edit(follow_up, by="pipeline")
            except Exhausted as exhausted:
                exhausted.args = (f"editor could not carry out a step: message {step.message}, {exhausted}",)
                raise
            await self._summarise(step, before)
        return Edited(
            messages=tuple(self.messages),
            places=tuple(sorted(self._changed)),
            steps=tuple(self.steps),
            summaries=tuple(self.summaries),
        )

    async def _ask(self, stage: str, brief: Callable[[str], str], read: Callable[[str], T]) -> Taken[T]:
        """Ask on the ramp until an answer can be taken.

        Args:
            stage: Who is asked.
            brief: From what was wrong with the answer before (empty at first) to what the writer is told.
            read: Reads an answer or raises `Rejected`.

        Raises:
            Exhausted: when every attempt is used up.
        """
        rejected: list[str] = []
        last, writer = NO_ANSWER, self.writers[stage]
        for attempt, temperature in enumerate(writer.temperatures):
            # A call without a text adds nothing to the brief, so that a restart finds the attempt after it.
            text = brief(rejected[-1] if rejected else "")
            question = writer.question(text, attempt=attempt, first=self.first, own_form=True)
            reply = await self.session.ask(question)
            if reply.text is None:
                last = reply.problem or NO_ANSWER
                continue
            try:
                value = read(reply.text)
            except editor.Rejected as problem:
                last = str(problem)
                rejected.append(last)
                continue
            return Taken(
                value=value,
                attempts=attempt + 1,
                temperature=temperature,
                rejected=tuple(rejected),
                prompt_sha256=reply.prompt_sha256,
            )
        raise Exhausted(len(writer.temperatures), last, rejected[-1] if rejected else NO_ANSWER)

    async def _edit(self, step: editor.Step, *, by: str = "planner") -> None:
        before = tuple(self.messages)
        message, follows = before[step.message], by == "pipeline"
        taken = await self._ask(
            "editor",
            lambda problem: self.scene.editor(before, step, summary=self.summary, rejected=problem),
            lambda text: editor.read_edit(text, message, may_stay=follows),
        )
        self.messages[step.message] = taken.value
        # A follow-up may rightly leave a result as it is.
        self._changed |= {step.message} if taken.value != message else set()
        facts = {"asked_by": by, "attempts": taken.attempts, "rejected": list(taken.rejected)}
        self.steps.append({**asdict(step), **facts, "changed": taken.value != message})

    def _follow_ups(self, step: editor.Step, before: Message) -> list[editor.Step]:
        """Return an edit for the result of every call whose arguments were changed."""
        after = self.messages[step.message]
        return [
            editor.Step(message=place, change=_coherent(old, new), why=_FOLLOW_UP)
            for old, new in editor.changed_calls(before, after)
            for place in editor.results_of(self.messages, step.message, new)
        ]

    async def _summarise(self, step: editor.Step, before: Message) -> None:
        after = self.messages[step.message]
        try:
            taken = await self._ask(
                "summary",
                lambda problem: self.scene.summariser(before, after, step, summary=self.summary, rejected=problem),
                _read_summary,
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
        raise editor.Rejected(problem)
    if not any(map(str.isalnum, text)):
        raise editor.Rejected("the summary is empty")
    if len(text) > _MAX_SUMMARY:
        raise editor.Rejected(f"the summary has {len(text)} characters, at most {_MAX_SUMMARY} are allowed")
    return text


def edited_item(
    result: JobResult,
    start: Item,
    edited: Edited,
    facts: Mapping[str, Any],
    *,
    planned: Taken[tuple[editor.Step, ...]],
) -> Item:
    """Return the item that an edited transcript becomes, with all that a reviewer needs.

    Args:
        result: The job and its attempts: one per plan, the last one the plan that was carried out. The label comes
            from the objective; a verifier has confirmed it, none was asked, or its source says otherwise.
        start: The baseline.
        edited: The transcript with its steps and summaries.
        facts: What `how_made` says of it; and model and prompt of each stage, where they are not all the generator's
            with the package's prompts.
        planned: The planner's answer.
    """
    more: dict[str, Any] = {
        "test": result.job.test.name,
        "original": start.id,
        "verdicts": [attempt.verdict for attempt in result.attempts],
        "edited": list(edited.places),
        "rejected_plans": list(planned.rejected),
        "steps": [dict(step) for step in edited.steps],
        "summaries": list(edited.summaries),
        "earlier_plans": [dict(plan) for plan in result.tried],
    }
    target = result.job.target
    return replace(
        start,
        id=target.id,
        condition=target.condition,
        transcript=edited.messages,
        expected=target.expected,
        meta={**start.meta, **facts, **more},
    )
