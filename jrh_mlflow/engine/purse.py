"""A run's money: the worst case of a call is set aside in the journal before it is sent, and settled after."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from jrh_mlflow.engine.journal import Journal
from jrh_mlflow.schema.requests import Request, Response

POLL_S = 0.1
"""How often a budget is looked at while others hold all that is left of it."""
SETTLE_DEAD_S = 5.0
"""How often, while waiting, what dead processes hold is looked for."""


class OutOfBudget(Exception):  # noqa: N818 - a signal, not a failure
    """The cap does not cover the worst case of one more call."""


class Purse:
    """One budget of a journal, shared by everything that a run asks."""

    def __init__(self, journal: Journal, budget: str | None) -> None:
        self._journal, self._budget = journal, budget
        self._held = 0
        """Reservations of this run that are not settled yet."""
        self._settled = asyncio.Event()
        """Set, and replaced, whenever one is."""

    async def reserve(self, key: str, worst_micro: int) -> None:
        """Set the worst case aside. When it does not fit, calls in flight may still give most of theirs back.

        Raises:
            OutOfBudget: It does not fit, and nothing is in flight.
        """
        while not await self._journal.reserve(key, budget=self._budget, worst_micro=worst_micro):
            if not self._held:
                raise OutOfBudget
            settled = self._settled
            await settled.wait()
        self._held += 1

    async def answered(self, request: Request, key: str, response: Response, *, cost_micro: int | None) -> None:
        """Keep an answer, durably; a cost of None is unknown and settles at the worst case."""
        await self._journal.answered(
            key,
            request_json=request.canonical(),
            response_json=response.to_json(),
            cost_micro=cost_micro,
            budget=self._budget,
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
            budget=self._budget,
        )
        self._give_back()

    def _give_back(self) -> None:
        self._held -= 1
        self._settled.set()
        self._settled = asyncio.Event()


class SharedPurse(Purse):
    """A budget that other processes spend from at the same time: what they hold in flight may come back, too."""

    def __init__(self, journal: Journal, budget: str | None, *, settle_dead: Callable[[], None]) -> None:
        """Open the purse.

        Args:
            journal: Holds the budget.
            budget: Its name.
            settle_dead: Settles what dead processes left reserved, which would otherwise be waited for in vain.
        """
        super().__init__(journal, budget)
        self._settle_dead = settle_dead
        self._looked_at = time.monotonic()

    async def reserve(self, key: str, worst_micro: int) -> None:
        """Set the worst case aside, waiting for as long as anybody holds a reservation that may give room.

        Raises:
            OutOfBudget: It does not fit, and nothing is in flight anywhere.
        """
        spent_when_idle: int | None = None
        while not await self._journal.reserve(key, budget=self._budget, worst_micro=worst_micro):
            assert self._budget is not None  # without a cap there is always room
            if self._held:
                await self._settled.wait()
            elif self._journal.reserved_micro(self._budget):
                await self._wait_for_others()
            elif spent_when_idle == (spent := self._journal.spent_micro(self._budget)):
                raise OutOfBudget
            else:
                # Others may have settled between the refusal and this look: only a second refusal is final.
                spent_when_idle = spent
        self._held += 1

    async def _wait_for_others(self) -> None:
        await asyncio.sleep(POLL_S)
        if time.monotonic() - self._looked_at > SETTLE_DEAD_S:
            self._looked_at = time.monotonic()
            await asyncio.to_thread(self._settle_dead)
