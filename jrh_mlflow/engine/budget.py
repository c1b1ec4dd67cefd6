"""A run's money: the worst case of a call is set aside in the journal before it is sent, and settled after.

Money before it is spent: caps that make sense, and a quote for an evaluation.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Iterable
from dataclasses import dataclass

from jrh_mlflow.engine.journal import Journal
from jrh_mlflow.errors import RecipeError
from jrh_mlflow.judges import Judge, ModelJudge
from jrh_mlflow.models.prices import Price, cost_micro, prompt_size, worst_case_micro
from jrh_mlflow.schema.items import Call
from jrh_mlflow.schema.requests import Request, Response

POLL_S = 0.1
"""How often a budget is looked at while other processes hold all that is left of it."""
SETTLE_DEAD_S = 5.0
"""How often, while waiting, what dead processes hold is looked for."""
PATIENCE_S = 900.0
"""Others that settle nothing for so long are not waited for any more."""


class OutOfBudget(Exception):  # noqa: N818 - a signal, not a failure
    """The cap does not cover the worst case of one more call."""


class Budget:
    """One budget of a journal, shared by everything that a run asks and by every process that opens it."""

    def __init__(self, journal: Journal, name: str | None) -> None:
        self._journal, self._name = journal, name
        self._held = 0
        """Reservations of this run that are not settled yet."""
        self._settled = asyncio.Event()
        """Set, and replaced, whenever one is."""
        self._others = _Others(journal)

    async def reserve(self, key: str, worst_micro: int) -> None:
        """Set the worst case aside. While it does not fit, calls in flight anywhere may still give most of theirs back.

        Raises:
            OutOfBudget: It does not fit, and nothing is in flight that may give room.
        """
        seen: tuple[int, int] | None = None
        while not await self._journal.reserve(key, budget=self._name, worst_micro=worst_micro):
            assert self._name is not None  # without a cap there is always room
            if self._held:
                settled = self._settled
                await settled.wait()
                continue
            seen = await self._others.wait(self._name, seen)
        self._held += 1

    async def answered(self, request: Request, key: str, response: Response, *, cost_micro: int | None) -> None:
        """Keep an answer, durably; a cost of None is unknown and settles at the worst case."""
        await self._journal.answered(
            key,
            request_json=request.canonical(),
            response_json=response.to_json(),
            cost_micro=cost_micro,
            budget=self._name,
        )
        self._give_back()

    async def failed(
        self, request: Request, key: str, reason: str, *, cost_micro: int, response: Response | None = None
    ) -> None:
        """Record a call that gave no usable answer."""
        await self._journal.failed(
            key,
            request_json=request.canonical(),
            reason=reason,
            response_json=response.to_json() if response else None,
            cost_micro=cost_micro,
            budget=self._name,
        )
        self._give_back()

    def _give_back(self) -> None:
        self._held -= 1
        self._settled.set()
        self._settled = asyncio.Event()


class _Others:
    """Waits for the other processes that spend from a budget, and for none that is dead or stuck."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._latest: tuple[int, int] | None = None
        self._changed_at = self._looked_at = time.monotonic()

    async def wait(self, budget: str, seen: tuple[int, int] | None) -> tuple[int, int]:
        """Give them a moment; return what is spent and reserved, which the caller hands in the next time.

        Raises:
            OutOfBudget: None of them holds anything, or none has settled anything for a long time.
        """
        now = self._journal.spent_micro(budget), self._journal.reserved_micro(budget)
        # Others may have settled between the refusal and this look: only a second refusal is final.
        if now == seen and (not now[1] or self._is_stuck(now)):
            raise OutOfBudget
        if now[1]:
            await asyncio.sleep(POLL_S)
            await self._look_for_the_dead()
        return now

    def _is_stuck(self, now: tuple[int, int]) -> bool:
        if now != self._latest:
            self._latest, self._changed_at = now, time.monotonic()
        return time.monotonic() - self._changed_at > PATIENCE_S

    async def _look_for_the_dead(self) -> None:
        if time.monotonic() - self._looked_at > SETTLE_DEAD_S:
            self._looked_at = time.monotonic()
            await asyncio.to_thread(self._journal.settle_dead)


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
    judge.check_cap(price)
    return int(max_usd * 1_000_000)


def quote(judge: ModelJudge, calls: Iterable[Call], journal: Journal, price: Price | None) -> Quote:
    """Say what the calls would send and cost, rendering every one of them but sending none."""
    from jrh_mlflow.engine.sessions import looked_up

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
