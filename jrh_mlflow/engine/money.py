"""Money before it is spent: caps that make sense, and a quote for an evaluation."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from jrh_mlflow.engine.journal import Journal
from jrh_mlflow.engine.prices import Overrides, Price, cost_micro, price_of, prompt_size, worst_case_micro
from jrh_mlflow.errors import RecipeError
from jrh_mlflow.judges import Judge
from jrh_mlflow.judges.prompted import PromptedJudge
from jrh_mlflow.schema.items import Call

TYPICAL_OUTPUT_TOKENS = 150
"""Assumed length of a reason with its verdict, for the estimate; the worst case uses `max_tokens`."""
BYTES_PER_TOKEN = 4


@dataclass(frozen=True, kw_only=True, slots=True)
class Quote:
    """What an evaluation would send and cost."""

    calls: int
    journalled: int
    """Answered already: served from the journal, not paid again."""
    input_tokens: int
    """Of the calls still to be paid, at four bytes a token."""
    output_tokens: int
    """At 150 a call."""
    usd: float | None
    """Estimate; None when the price is unknown."""
    worst_usd: float | None
    """What a cap would have to cover at most."""


def checked_cap(max_usd: float | None, judge: Judge, price: Price | None) -> int | None:
    """Return a cap in micro-dollars.

    Raises:
        RecipeError: for a cap that is no positive amount, or on a judge whose calls cannot be priced beforehand.
    """
    if max_usd is None:
        return None
    if not (math.isfinite(max_usd) and max_usd > 0):
        raise RecipeError(f"`max_usd` must be a positive amount, but got {max_usd!r}.")
    if not isinstance(judge, PromptedJudge):
        raise RecipeError(f"A cap needs calls that are priced beforehand, and {judge.name!r} is a {judge.kind} judge.")
    if price is None:
        raise RecipeError(
            f"A cap needs a price, and {judge.model!r} has none in litellm's table. Give it: "
            f"prices={{{judge.model!r}: (usd_per_million_input, usd_per_million_output)}}, or --price IN,OUT."
        )
    if judge.max_tokens is None:
        raise RecipeError("A cap needs a longest answer: set the judge's `max_tokens`.")
    return int(max_usd * 1_000_000)


def judge_price(judge: Judge, prices: Overrides | None) -> Price | None:
    """Return a judge's price, or None when it is unknown or not a matter of tokens."""
    return price_of(judge.model, prices) if isinstance(judge, PromptedJudge) else None


def quote(judge: PromptedJudge, calls: Iterable[Call], journal: Journal, price: Price | None) -> Quote:
    """Say what the calls would send and cost, rendering every one of them but sending none."""
    from jrh_mlflow.engine.remote import looked_up

    n_calls = journalled = n_input = n_output = estimate = worst = 0
    for request, _, answered in looked_up(judge, calls, journal):
        n_calls += 1
        if answered:
            journalled += 1
            continue
        size = prompt_size(request)
        tokens, answer = size // BYTES_PER_TOKEN, min(TYPICAL_OUTPUT_TOKENS, request.max_tokens or 10**9)
        n_input, n_output = n_input + tokens, n_output + answer
        if price is not None:
            estimate += cost_micro(price, tokens, answer)
            worst += worst_case_micro(price, size, request.max_tokens or answer)
    return Quote(
        calls=n_calls,
        journalled=journalled,
        input_tokens=n_input,
        output_tokens=n_output,
        usd=None if price is None else estimate / 1_000_000,
        worst_usd=None if price is None else worst / 1_000_000,
    )
