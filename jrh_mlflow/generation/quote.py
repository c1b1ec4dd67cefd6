"""What a generation would send and cost, before anything is sent."""

from __future__ import annotations

from dataclasses import dataclass

from jrh_mlflow.generation.plan import Job, Plan, finished
from jrh_mlflow.generation.validators import question
from jrh_mlflow.generation.writers import Generator
from jrh_mlflow.judges import Judge
from jrh_mlflow.judges.prompted import PromptedJudge
from jrh_mlflow.models.prices import (
    BYTES_PER_TOKEN,
    TYPICAL_OUTPUT_TOKENS,
    Price,
    cost_micro,
    prompt_size,
    worst_case_micro,
)
from jrh_mlflow.perturb import NotApplicable, Rewrite

_LONGER = 1.5
"""A rewrite is taken to have this many times the tokens of its original."""


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
    """Micro-dollars, or None once a price is missing."""

    likely: int | None = 0
    worst: int | None = 0

    def add(self, price: Price | None, *, tokens: tuple[int, int], bytes_in: int, max_out: int, times: int) -> None:
        if price is None or self.likely is None or self.worst is None:
            self.likely = self.worst = None
            return
        self.likely += cost_micro(price, *tokens)
        self.worst += times * worst_case_micro(price, bytes_in, max_out)


def quoted(
    plan: Plan,
    generator: Generator | None,
    validator: Judge | None,
    *,
    prices: tuple[Price | None, Price | None],
    attempts: int,
) -> GenerationQuote:
    """Add up what every rewrite would send, rendering all of them.

    Args:
        plan: What is to be made.
        generator: None when rules or a user's function write: such calls have no price of ours.
        validator: Who confirms; None when nobody is asked.
        prices: Of the generator's and of the validator's model.
        attempts: Most attempts per text.
    """
    bill, written, confirmed = _Bill(), 0, 0
    for job in (job for unit in plan.rewrites() for job in unit):
        assert isinstance(job.test, Rewrite)
        if generator is not None:
            written += _add_text(bill, job, generator, prices[0])
        if validator is not None and job.test.confirm:
            confirmed += 1
            if isinstance(validator, PromptedJudge):
                _add_question(bill, job, validator, prices[1], generator, attempts)
    return GenerationQuote(
        seeds=len(plan.seeds),
        items=len(plan.seeds) + plan.n_items,
        generator_calls=written,
        max_generator_calls=written * attempts,
        validator_calls=confirmed,
        max_validator_calls=confirmed * attempts,
        usd=None if bill.likely is None else bill.likely / 1_000_000,
        worst_usd=None if bill.worst is None else bill.worst / 1_000_000,
    )


def _add_text(bill: _Bill, job: Job, generator: Generator, price: Price | None) -> int:
    """Add one rewrite and return how many calls it needs at least."""
    assert isinstance(job.test, Rewrite)
    try:
        request = generator.request(job.test.brief(job.target), temperature=generator.temperature)
    except NotApplicable:
        return 0
    size = prompt_size(request)
    made = min(generator.max_tokens, int(_LONGER * _size(job.target.original)) // BYTES_PER_TOKEN + 1)
    tokens = (size // BYTES_PER_TOKEN, made)
    bill.add(price, tokens=tokens, bytes_in=size, max_out=generator.max_tokens, times=generator.attempts)
    return 1


def _add_question(
    bill: _Bill, job: Job, judge: PromptedJudge, price: Price | None, generator: Generator | None, attempts: int
) -> None:
    item = finished(job, job.target.original, generator="")[0]
    request = judge.request(question(item, judge))
    size = prompt_size(request)
    longest = size + (BYTES_PER_TOKEN * generator.max_tokens if generator else 0)
    limit = judge.max_tokens or TYPICAL_OUTPUT_TOKENS
    tokens = (size // BYTES_PER_TOKEN, min(TYPICAL_OUTPUT_TOKENS, limit))
    bill.add(price, tokens=tokens, bytes_in=longest, max_out=limit, times=attempts)


def _size(text: str) -> int:
    return len(text.encode("utf-8", "replace"))
