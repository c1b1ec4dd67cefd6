"""What a generation would send and cost, before anything is sent."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from jrh_mlflow.generation.editor import Scene, Step, editable
from jrh_mlflow.generation.plan import AgentPlan, GenerationPlan, Job, finished
from jrh_mlflow.generation.prepared import PreparedGeneration
from jrh_mlflow.generation.validators import call_about
from jrh_mlflow.generation.writers import Generator
from jrh_mlflow.judges import ModelJudge
from jrh_mlflow.judges.rendering import message_texts
from jrh_mlflow.models.prices import (
    BYTES_PER_TOKEN,
    TYPICAL_OUTPUT_TOKENS,
    Price,
    cost_micro,
    prompt_size,
    worst_case_micro,
)
from jrh_mlflow.perturb import AgentTest, NotApplicable, Rewrite
from jrh_mlflow.schema.presentation import Message

_LONGER = 1.5
"""A rewrite is taken to have this many times the tokens of its original."""
_USUAL_STEPS = 2
"""Steps a plan of edits is taken to have."""


@dataclass(frozen=True, kw_only=True, slots=True)
class GenerationQuote:
    """What a generation would send and cost. What the journal holds already is not taken off."""

    seeds: int
    items: int
    """Baselines included, if everything can be made."""
    generator_calls: int
    """If every first attempt passes."""
    max_generator_calls: int
    """If every attempt is needed."""
    validator_calls: int
    max_validator_calls: int
    usd: float | None
    """If every first attempt passes; None when a price is unknown, 0 when nothing is sent."""
    worst_usd: float | None
    """If every attempt is needed and every text is as long as `max_tokens` allows."""


@dataclass(slots=True)
class _Bill:
    """Calls to one model and what they cost in micro-dollars, or None once a price is missing."""

    price: Price | None
    calls: int = 0
    """If every first attempt passes."""
    most: int = 0
    """If every attempt is needed."""
    likely: int | None = 0
    worst: int | None = 0

    def count(self, calls: int, most: int) -> None:
        self.calls, self.most = self.calls + calls, self.most + most

    def pay(self, *, size: int, out: int, max_out: int, calls: int = 1, most: int, grown: int = 0) -> None:
        """Add calls with a prompt of `size` bytes, which earlier answers may have made longer by `grown`."""
        if self.price is None or self.likely is None or self.worst is None:
            self.likely = self.worst = None
            return
        self.likely += calls * cost_micro(self.price, size // BYTES_PER_TOKEN, out)
        self.worst += most * worst_case_micro(self.price, size + grown, max_out)


def quoted(prepared: PreparedGeneration) -> GenerationQuote:
    """Add up what every rewrite would send, rendering all of them; of edits, as if each call were the longest."""
    plan, model, judge = prepared.plan, prepared.model, prepared.validator
    writing, checking = _Bill(prepared.generator_price), _Bill(prepared.validator_price)
    for job in plan.rewrites:
        if model is not None:
            _add_writing(writing, plan, job, model)
        if judge is not None and job.confirm:
            checking.count(1, _rounds(plan, model) if model else 1)
            if isinstance(judge, ModelJudge):
                _add_question(checking, plan, job, judge, model)
    return GenerationQuote(
        seeds=len(plan.seeds),
        items=len(plan.seeds) + plan.n_items,
        generator_calls=writing.calls,
        max_generator_calls=writing.most,
        validator_calls=checking.calls,
        max_validator_calls=checking.most,
        usd=_dollars(writing.likely, checking.likely),
        worst_usd=_dollars(writing.worst, checking.worst),
    )


def _rounds(plan: GenerationPlan, model: Generator | None) -> int:
    """Return how often an item is put to the validator at most: once for each plan of edits, or for each text."""
    if isinstance(plan, AgentPlan):
        return plan.plans
    return model.attempts if model else 1


def _dollars(*parts: int | None) -> float | None:
    known = [part for part in parts if part is not None]
    return sum(known) / 1_000_000 if len(known) == len(parts) else None


def _add_writing(bill: _Bill, plan: GenerationPlan, job: Job, model: Generator) -> None:
    if isinstance(plan, AgentPlan):
        _add_edits(bill, plan, job, model)
    else:
        _add_text(bill, job, model)


def _add_text(bill: _Bill, job: Job, model: Generator) -> None:
    """Add one rewrite, on each of its attempts."""
    assert isinstance(job.test, Rewrite)
    try:
        request = model.request(job.test.brief(job.target), temperature=model.temperature)
    except NotApplicable:
        return
    longer = int(_LONGER * len(job.target.original.encode("utf-8", "replace")))
    out = min(model.max_tokens, longer // BYTES_PER_TOKEN + 1)
    bill.count(1, model.attempts)
    bill.pay(size=prompt_size(request), out=out, max_out=model.max_tokens, most=model.attempts)


def _add_edits(bill: _Bill, plan: AgentPlan, job: Job, model: Generator) -> None:
    """Add the calls on one transcript, each as long as the longest."""
    assert isinstance(job.test, AgentTest)
    messages, target = plan.start(job).transcript or (), job.target
    scene = Scene(objective=job.test.objective(target), instruction=target.seed.instruction, rubric=target.rubric)
    requests = (
        model.request(brief, temperature=model.temperature) for brief in _briefs(scene, messages, plan.max_steps)
    )
    calls = 1 + 2 * _USUAL_STEPS
    follow_ups = sum(len(message.tool_calls) for message in messages)
    most = plan.plans * model.attempts * (1 + 2 * plan.max_steps + follow_ups)
    bill.count(calls, most)
    bill.pay(
        size=max(map(prompt_size, requests)),
        out=min(TYPICAL_OUTPUT_TOKENS, model.max_tokens),
        max_out=model.max_tokens,
        calls=calls,
        most=most,
        # Every answer may make the next prompt longer by as much as it holds.
        grown=BYTES_PER_TOKEN * model.max_tokens,
    )


def _briefs(scene: Scene, messages: Sequence[Message], max_steps: int) -> Iterator[str]:
    """Yield the longest briefs there can be at first: the planner sees all, the others one message twice."""
    yield scene.planner(messages, max_steps=max_steps, told="", rejected="")
    if places := editable(messages):
        longest = max(places, key=lambda place: sum(map(len, message_texts(messages[place]))))
        step = Step(message=longest, change="", why="")
        yield scene.editor(messages, step, summary="", rejected="")
        yield scene.summariser(messages[longest], messages[longest], step, summary="", rejected="")


def _add_question(bill: _Bill, plan: GenerationPlan, job: Job, judge: ModelJudge, model: Generator | None) -> None:
    """Add the judge's question about one finished item, which may be longer than its source."""
    if isinstance(plan, AgentPlan):
        item, texts = plan.start(job), plan.max_steps
    else:
        item, texts = finished(job, job.target.original, generator="")[0], 1
    limit = judge.max_tokens or TYPICAL_OUTPUT_TOKENS
    bill.pay(
        size=prompt_size(judge.request(call_about(item, judge))),
        out=min(TYPICAL_OUTPUT_TOKENS, limit),
        max_out=limit,
        most=_rounds(plan, model),
        grown=BYTES_PER_TOKEN * texts * (model.max_tokens if model else 0),
    )
