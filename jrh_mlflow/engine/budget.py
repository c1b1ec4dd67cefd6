"""A run's money: its cap, and the worst case of each call, set aside before it is sent, settled after."""

from __future__ import annotations

import asyncio
import math
import time

from jrh_mlflow.engine.journal import Journal, Reservation
from jrh_mlflow.errors import RecipeError
from jrh_mlflow.judges import Judge
from jrh_mlflow.models.prices import Price
from jrh_mlflow.schema.requests import Request, Response

POLL_S = 0.1
"""How often is looked again while others hold a call, or all that is left of a budget."""
SETTLE_DEAD_S = 5.0
"""How often, while waiting, what dead processes hold is looked for."""
PATIENCE_S = 900.0
"""Others that settle nothing for so long are not waited for any more."""


class OutOfBudget(Exception):  # noqa: N818 - a signal, not a failure
    """The cap does not cover the worst case of one more call."""


class AnsweredElsewhere(Exception):  # noqa: N818 - a signal, not a failure
    """Somebody else has answered the call: this is the one answer that stands in the journal."""

    def __init__(self, response: Response) -> None:
        super().__init__("answered elsewhere")
        self.response = response


class Budget:
    """One budget of a journal, shared by everything that a run asks and by every process that opens it."""

    def __init__(self, journal: Journal, name: str | None) -> None:
        self._journal, self._name = journal, name
        self._held = 0
        """Reservations of this run that are not settled yet."""
        self._settled = asyncio.Event()
        """Set, and replaced, whenever one is."""
        self._latest: tuple[int, int] | None = None
        """Spent and reserved, when that changed the last time while others were waited for."""
        self._changed_at = self._looked_at = time.monotonic()

    async def reserve(self, key: str, worst_micro: int, *, replaces_before: float | None = None) -> None:
        """Set the worst case aside. While it does not fit, calls in flight anywhere may still give most of theirs back.

        A call that another caller or process has in flight is waited for. When it ends without an answer, or not for a
        long time, it is asked here.

        Raises:
            AnsweredElsewhere: Somebody has answered it; nothing was set aside.
            OutOfBudget: It does not fit, and nothing is in flight that may give room.
        """
        seen: tuple[int, int] | None = None
        give_up = math.inf
        while not (
            result := await self._journal.reserve(
                key,
                budget=self._name,
                worst_micro=worst_micro,
                replaces_before=replaces_before,
                even_if_taken=time.monotonic() > give_up,
            )
        ):
            if result is Reservation.NO_ROOM:
                seen = await self._wait_for_room(seen)
                continue
            if result is Reservation.IS_ANSWERED and (kept := self.kept(key)):
                raise AnsweredElsewhere(kept)
            give_up = min(give_up, time.monotonic() + PATIENCE_S)
            await self._give_a_moment()
        self._held += 1

    def kept(self, key: str) -> Response | None:
        """Return the journalled answer of a call."""
        found = self._journal.get(key)
        return None if found is None else Response.from_json(found)

    async def answered(self, request: Request, key: str, response: Response, *, cost_micro: int | None) -> bool:
        """Keep an answer, durably; a cost of None is unknown and settles at the worst case.

        Returns:
            False when another one stands in the journal, because its process had answered first.
        """
        stands = await self._journal.answered(
            key,
            request_json=request.canonical(),
            response_json=response.to_json(),
            cost_micro=cost_micro,
            budget=self._name,
        )
        self._give_back()
        return stands

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

    async def _wait_for_room(self, seen: tuple[int, int] | None) -> tuple[int, int] | None:
        """Wait until something is settled, here or by another process."""
        assert self._name is not None  # without a cap there is always room
        if not self._held:
            return await self._wait_for_others(self._name, seen)
        settled = self._settled
        await settled.wait()
        return seen

    async def _wait_for_others(self, budget: str, seen: tuple[int, int] | None) -> tuple[int, int]:
        """Give other processes a moment, but none that is dead or stuck; return what is spent and reserved.

        The caller hands that in the next time.

        Raises:
            OutOfBudget: None of them holds anything, or none has settled anything for a long time.
        """
        now = self._journal.spent_micro(budget), self._journal.reserved_micro(budget)
        # Others may have settled between the refusal and this look: only a second refusal is final.
        if now == seen and (not now[1] or self._is_stuck(now)):
            raise OutOfBudget
        if now[1]:
            await self._give_a_moment()
        return now

    async def _give_a_moment(self) -> None:
        """Wait until the next beat, which all who wait have in common, so that they ask in one transaction."""
        await asyncio.sleep(POLL_S - time.monotonic() % POLL_S)
        if time.monotonic() - self._looked_at > SETTLE_DEAD_S:
            self._looked_at = time.monotonic()
            await asyncio.to_thread(self._journal.settle_dead)

    def _is_stuck(self, now: tuple[int, int]) -> bool:
        if now != self._latest:
            self._latest, self._changed_at = now, time.monotonic()
        return time.monotonic() - self._changed_at > PATIENCE_S


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
