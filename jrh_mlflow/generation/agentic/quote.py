"""What editing transcripts would send and cost, before anything is sent."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from jrh_mlflow.generation.agentic.editor import Scene, Step, editable
from jrh_mlflow.generation.agentic.plan import AgentPlan
from jrh_mlflow.generation.plan import Job
from jrh_mlflow.generation.quote import GenerationQuote
from jrh_mlflow.generation.validators import question
from jrh_mlflow.generation.writers import Generator
from jrh_mlflow.judges import Judge
from jrh_mlflow.judges.prompted import PromptedJudge
from jrh_mlflow.judges.rendering import message_texts
from jrh_mlflow.models.prices import (
    BYTES_PER_TOKEN,
    TYPICAL_OUTPUT_TOKENS,
    Price,
    cost_micro,
    prompt_size,
    worst_case_micro,
)
from jrh_mlflow.perturb import AgentTest
from jrh_mlflow.schema.presentation import Message

_USUAL_STEPS = 2
"""Steps a plan is taken to have."""


@dataclass(slots=True)
class _Sum:
    """Micro-dollars, or None once a price is missing."""

    likely: int | None = 0
    worst: int | None = 0

    def add(
        self, price: Price | None, *, size: int, out: int, max_out: int, calls: int, most: int, grown: int | None = None
    ) -> None:
        if price is None or self.likely is None or self.worst is None:
            self.likely = self.worst = None
            return
        self.likely += calls * cost_micro(price, size // BYTES_PER_TOKEN, out)
        # Every answer may make the next prompt longer by as much as it holds.
        longest = size + (BYTES_PER_TOKEN * max_out if grown is None else grown)
        self.worst += most * worst_case_micro(price, longest, max_out)


def agent_quoted(
    plan: AgentPlan,
    generator: Generator | None,
    validator: Judge | None,
    *,
    prices: tuple[Price | None, Price | None],
) -> GenerationQuote:
    """Estimate every transcript as if each call were as long as the longest: an upper estimate."""
    bill, calls, most = _Sum(), 0, 0
    for job in plan.jobs:
        if generator is not None:
            usual, upper = _add_edits(bill, plan, job, generator, prices[0])
            calls, most = calls + usual, most + upper
        if isinstance(validator, PromptedJudge):
            _add_question(bill, plan, job, validator, generator, prices[1])
    confirmed = len(plan.jobs) if validator is not None else 0
    return GenerationQuote(
        seeds=len(plan.seeds),
        items=len(plan.seeds) + plan.n_items,
        generator_calls=calls,
        max_generator_calls=most,
        validator_calls=confirmed,
        max_validator_calls=confirmed * (plan.plans if generator else 1),
        usd=None if bill.likely is None else bill.likely / 1_000_000,
        worst_usd=None if bill.worst is None else bill.worst / 1_000_000,
    )


def _add_edits(bill: _Sum, plan: AgentPlan, job: Job, generator: Generator, price: Price | None) -> tuple[int, int]:
    """Add the calls on one transcript, and return how many there usually are and how many there can be."""
    target, messages = job.target, plan.start(job.target.seed).transcript or ()
    assert isinstance(job.test, AgentTest)
    scene = Scene(objective=job.test.objective(target), instruction=target.seed.instruction, rubric=target.rubric)
    size = max(
        prompt_size(generator.request(brief, temperature=generator.temperature))
        for brief in _briefs(scene, messages, plan.max_steps)
    )
    usual = 1 + 2 * _USUAL_STEPS
    follow_ups = sum(len(message.tool_calls) for message in messages)
    upper = plan.plans * generator.attempts * (1 + 2 * plan.max_steps + follow_ups)
    out = min(TYPICAL_OUTPUT_TOKENS, generator.max_tokens)
    bill.add(price, size=size, out=out, max_out=generator.max_tokens, calls=usual, most=upper)
    return usual, upper


def _briefs(scene: Scene, messages: Sequence[Message], max_steps: int) -> Iterator[str]:
    """Yield the longest briefs there can be at first: the planner sees all, the others one message twice."""
    yield scene.planner(messages, max_steps=max_steps, told="", rejected="")
    if places := editable(messages):
        longest = max(places, key=lambda place: sum(map(len, message_texts(messages[place]))))
        step = Step(message=longest, change="", why="")
        yield scene.editor(messages, step, summary="", rejected="")
        yield scene.summariser(messages[longest], messages[longest], step, summary="", rejected="")


def _add_question(
    bill: _Sum, plan: AgentPlan, job: Job, judge: PromptedJudge, generator: Generator | None, price: Price | None
) -> None:
    size = prompt_size(judge.request(question(plan.start(job.target.seed), judge)))
    limit = judge.max_tokens or TYPICAL_OUTPUT_TOKENS
    grown = BYTES_PER_TOKEN * plan.max_steps * (generator.max_tokens if generator else 0)
    out = min(TYPICAL_OUTPUT_TOKENS, limit)
    bill.add(price, size=size, out=out, max_out=limit, calls=1, most=plan.plans, grown=grown)
