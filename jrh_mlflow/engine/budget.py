"""A run's money: its cap, the worst case of each call, set aside before it is sent, settled after; what was paid."""

from __future__ import annotations

import asyncio
import json
import logging
import math
import re
import time
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, fields
from datetime import datetime, timezone
from typing import Any, TypeAlias

from jrh_mlflow.engine.journal import Journal, Reservation
from jrh_mlflow.engine.journal.rows import ANSWERED, LOST, Held, SettledCall
from jrh_mlflow.errors import RecipeError
from jrh_mlflow.judges import Judge
from jrh_mlflow.judges.one_at_a_time import PointwiseJudge
from jrh_mlflow.models.prices import Overrides, Price, price_of
from jrh_mlflow.models.transports import TransportError
from jrh_mlflow.schema.requests import Request, Response

logger = logging.getLogger("jrh_mlflow")

BUDGET = "budget"
"""How the reason of a stop for money begins."""
AFTER_FAILURES = " after failures: "
"""What follows that where paid attempts failed: a higher cap would pay for more of them."""
POLL_S = 0.1
"""How often is looked again while others hold a call, or all that is left of a budget."""
SETTLE_DEAD_S = 5.0
"""How often, while waiting, what dead processes hold is looked for."""
PATIENCE_S = 900.0
"""Others that settle nothing for so long are not waited for any more."""
TELL_S = 10.0
"""Who waits longer than this for calls of others says so, once."""
Aside: TypeAlias = Callable[[], AbstractAsyncContextManager[None]]
"""What is left to others while a call waits for money: its slot."""
ATTEMPT = "attempt"
"""How the reason of a failed attempt that was perhaps billed begins."""
CAREFUL_SHARE = 0.1
"""Of what is left of a cap: what may be in flight before an answer has shown that worst cases hold."""


@dataclass(kw_only=True, slots=True)
class Paid:
    """What attempts came to, the retried ones included: the endpoint's side of the books, as far as it is known."""

    calls: int = 0
    """Requests that were served, or perhaps: not those that were turned away."""
    unknown: int = 0
    """Of these, with a cost that nobody told: a timeout, a cut connection, no usage, no price."""
    micro: int = 0
    """Micro-dollars of the others."""
    worst_micro: int = 0
    """Booked for the unknown ones: a bound, and in no other sum."""
    input_tokens: int = 0
    """Where a usage was told, like those below."""
    output_tokens: int = 0

    def add(self, cost_micro: int | None, *, worst_micro: int) -> None:
        """Count an attempt; a cost of None is unknown."""
        self.calls += 1
        self.unknown += cost_micro is None
        self.micro += cost_micro or 0
        self.worst_micro += worst_micro if cost_micro is None else 0

    def __add__(self, other: Paid) -> Paid:
        names = [field.name for field in fields(self)]
        return Paid(**{name: getattr(self, name) + getattr(other, name) for name in names})

    @property
    def usd(self) -> float | None:
        """Dollars that were told; None where there is nothing but unknown attempts, and free ones."""
        return None if self.unknown and not self.micro else self.micro / 1_000_000

    @property
    def columns(self) -> dict[str, Any]:
        """The same as cells of a call's record."""
        return {"attempts": self.calls, "unknown_attempts": self.unknown, "worst_usd": self.worst_micro / 1_000_000}


class OutOfBudget(Exception):  # noqa: N818 - a signal, not a failure
    """The cap does not cover the worst case of one more call. Its text is why the run was stopped."""

    def __init__(
        self, spent_micro: int = 0, held_micro: int = 0, need_micro: int = 0, failure: str | None = None
    ) -> None:
        self.spent_micro = spent_micro
        self.held_micro = held_micro
        """By other processes."""
        self.need_micro = need_micro
        """The worst case of the call."""
        self.failure = failure
        """What the money went to for nothing, most often; None where no paid attempt failed."""
        super().__init__(spent_micro, held_micro, need_micro, failure)

    def __str__(self) -> str:
        return f"{BUDGET}{AFTER_FAILURES}{self.failure}" if self.failure else BUDGET


class Overrun(OutOfBudget):
    """A call cost more than its worst case: from here on nothing is sure, so nothing more is sent."""

    def __init__(self, cost_micro: int, worst_micro: int) -> None:
        self.cost_micro, self.worst_micro = cost_micro, worst_micro
        super().__init__()
        self.args = (cost_micro, worst_micro)

    @property
    def what(self) -> str:
        """Costs, and why that happens."""
        cost, worst = self.cost_micro / 1e6, self.worst_micro / 1e6
        why = "reasoning outside `max_tokens`, or a price that is out of date"
        return f"a call cost ${cost:.6f}, but ${worst:.6f} was set aside as its worst case ({why})"

    def __str__(self) -> str:
        return f"{BUDGET}, because {self.what}"


def cap_advice(stopped: str, raised: str = "--max-usd and run it again.") -> str:
    """Say what to do after a stop for money: a higher cap helps only where nothing failed.

    Example:
        >>> cap_advice("budget: 3 of 28 calls")
        'Raise --max-usd and run it again.'
    """
    if stopped.startswith(f"{BUDGET},"):
        return "Give the price that is billed (`prices`, --price IN,OUT), or a larger `max_tokens`, and run it again."
    if AFTER_FAILURES in stopped:
        return "Mend what fails first: the same command continues, and what was answered is not paid again."
    return f"Raise {raised}"


class AnsweredElsewhere(Exception):  # noqa: N818 - a signal, not a failure
    """Somebody else has answered the call: this is the one answer that stands in the journal."""

    def __init__(self, response: Response) -> None:
        super().__init__("answered elsewhere")
        self.response = response


class Budget:
    """One budget of a journal, shared by everything that a run asks and by every process that opens it."""

    def __init__(self, journal: Journal, name: str | None) -> None:
        self._journal, self._name = journal, name
        self._held: dict[str, list[int]] = {}
        """Reservations of this run that are not settled yet, by call."""
        self._begun: list[int] = []
        """Worst cases of the calls that hold a reservation or wait for one."""
        self._careful_micro: float | None = None
        """What may be in flight until an answer has shown that worst cases hold; infinite from then on."""
        self._overrun: Overrun | None = None
        self._settled = asyncio.Event()
        """Set, and replaced, whenever one is."""
        self._latest: tuple[int, int] | None = None
        """Spent and reserved, when that changed the last time while others were waited for."""
        self._changed_at = self._looked_at = time.monotonic()
        self._told = False
        self._failures: Counter[str] = Counter()
        """Paid attempts that failed, by cause."""

    async def reserve(
        self,
        key: str,
        worst_micro: int,
        *,
        replaces_before: float | None = None,
        model: str | None = None,
        aside: Aside = nullcontext,
    ) -> None:
        """Set the worst case aside. While it does not fit, calls in flight anywhere may still give most of theirs back.

        A call that another caller or process has in flight is waited for. When it ends without an answer, or not for a
        long time, it is asked here.

        Raises:
            AnsweredElsewhere: Somebody has answered it; nothing was set aside.
            OutOfBudget: It does not fit, and nothing is in flight that may give room.
        """
        await self._begin(worst_micro, aside)
        try:
            await self._reserve(key, worst_micro, replaces_before=replaces_before, model=model, aside=aside)
        except BaseException:
            self._end(worst_micro)
            raise
        self._held.setdefault(key, []).append(worst_micro)

    def check(self) -> None:
        """Refuse to send anything once a call has cost more than its worst case.

        Raises:
            Overrun: One has.
        """
        if self._overrun is not None and self._is_capped:
            raise self._overrun

    @property
    def _is_capped(self) -> bool:
        return self._name is not None and self._journal.is_capped(self._name)

    async def _begin(self, worst_micro: int, aside: Aside) -> None:
        """Wait while too much would be in flight before anything is known of what calls really cost."""
        if self._careful_micro is None:
            left = math.inf if self._name is None else self._journal.left_micro(self._name)
            # A wrong price, or thinking that nobody counted, shows in the first answer: until then little is at stake.
            self._careful_micro = CAREFUL_SHARE * left
        self.check()
        # One call may always begin, however dear: waiting for none in flight would be for ever.
        while self._begun and self._careful_micro < math.inf and sum(self._begun) + worst_micro > self._careful_micro:
            async with aside():
                await self._settled.wait()
            self.check()
        self._begun.append(worst_micro)

    def _end(self, worst_micro: int) -> None:
        self._begun.remove(worst_micro)
        self._settled.set()
        self._settled = asyncio.Event()

    async def _reserve(
        self, key: str, worst_micro: int, *, replaces_before: float | None, model: str | None, aside: Aside
    ) -> None:
        seen: tuple[int, int] | None = None
        give_up = math.inf
        while not (
            result := await self._journal.reserve(
                key,
                budget=self._name,
                worst_micro=worst_micro,
                replaces_before=replaces_before,
                model=model,
                even_if_taken=time.monotonic() > give_up,
            )
        ):
            if result is Reservation.NO_ROOM:
                async with aside():
                    seen = await self._wait_for_room(seen, worst_micro)
                continue
            if result is Reservation.IS_ANSWERED and (kept := self.kept(key, newer_than=replaces_before)):
                raise AnsweredElsewhere(kept)
            # Whoever holds it may live and be stuck: in the end a call is rather paid twice than never made.
            give_up = min(give_up, time.monotonic() + PATIENCE_S)
            self._tell_waiting(since=give_up - PATIENCE_S)
            async with aside():
                await self._give_a_moment()

    def _tell_waiting(self, *, since: float) -> None:
        if not self._told and time.monotonic() - since > TELL_S:
            self._told = True
            logger.warning("Waiting for calls that another process has in flight: they are not paid twice.")

    async def release(self, key: str) -> None:
        """Take back what was set aside for a call that was never sent."""
        await self._journal.release(key)
        self._give_back(key, 0, is_answer=False)

    def kept(self, key: str, *, newer_than: float | None = None) -> Response | None:
        """Return the journalled answer of a call."""
        response = self._journal.get(key, newer_than=newer_than)
        return None if response is None else Response.from_json(response)

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
        self._give_back(key, cost_micro, is_answer=True)
        return stands

    async def attempt_failed(
        self, request: Request, key: str, error: TransportError, *, attempt: int, cost_micro: int
    ) -> Held:
        """Record an attempt that was perhaps billed; return what `bound` takes when more is known of its cost."""
        # Numbers are ids, times and lengths: the same cause with another number is the same cause.
        self._failures[re.sub(r"\d+", "#", str(error))] += 1
        reason = f"{ATTEMPT} {attempt}: {error}"
        return await self.failed(request, key, reason, cost_micro=cost_micro, response=error.usage)

    @property
    def _commonest(self) -> str | None:
        """Name what failed most often."""
        if not self._failures:
            return None
        ((cause, count),) = self._failures.most_common(1)
        return f"{cause.rstrip('.')} ({count:,} of {self._failures.total():,} failed attempts)"

    async def bound(self, request: Request, key: str, reason: str, held: Held, *, cost_micro: int) -> None:
        """Book less for a failed attempt than was set aside: a later one told what it can have cost at most."""
        await self._journal.failed(
            key,
            request_json=request.canonical(),
            reason=reason,
            response_json=None,
            cost_micro=cost_micro,
            budget=self._name,
            revises=held,
        )

    async def failed(
        self, request: Request, key: str, reason: str, *, cost_micro: int | None, response: Response | None = None
    ) -> Held:
        """Record a call that gave no usable answer; a cost of None is unknown and settles at the worst case."""
        held = await self._journal.failed(
            key,
            request_json=request.canonical(),
            reason=reason,
            response_json=response.to_json() if response else None,
            cost_micro=cost_micro,
            budget=self._name,
        )
        self._give_back(key, cost_micro, is_answer=response is not None)
        return held

    def _give_back(self, key: str, cost_micro: int | None, *, is_answer: bool) -> None:
        held = self._held.get(key)
        if not held:  # the result of a batch, which nothing was set aside for
            return
        worst = held.pop()
        if not held:
            del self._held[key]
        # A failure without a response shows nothing about prices, so it does not end the careful beginning.
        if cost_micro is not None and cost_micro > worst:
            self._note_overrun(Overrun(cost_micro, worst))
        elif is_answer:
            self._careful_micro = math.inf
        self._end(worst)

    def _note_overrun(self, overrun: Overrun) -> None:
        if self._overrun is None:
            self._overrun = overrun
            then = "Nothing more is sent." if self._is_capped else "Without a cap nothing is stopped."
            logger.warning("%s. %s", overrun.what.capitalize(), then)

    async def _wait_for_room(self, seen: tuple[int, int] | None, worst_micro: int) -> tuple[int, int] | None:
        """Wait until something is settled, here or by another process."""
        assert self._name is not None  # without a cap there is always room
        if not self._held:
            return await self._wait_for_others(self._name, seen, worst_micro)
        await self._settled.wait()
        self.check()
        return seen

    async def _wait_for_others(self, budget: str, seen: tuple[int, int] | None, worst_micro: int) -> tuple[int, int]:
        """Give other processes a moment, but none that is dead or stuck; return what is spent and reserved.

        The caller hands that in the next time.

        Raises:
            OutOfBudget: None of them holds anything, or none has settled anything for a long time.
        """
        now = self._journal.spent_micro(budget), self._journal.reserved_micro(budget)
        # Others may have settled between the refusal and this look: only a second refusal is final.
        if now == seen and (not now[1] or self._is_stuck(now)):
            raise OutOfBudget(*now, worst_micro, self._commonest)
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


def paid_from(journal: Journal, budget: str, *, is_priced: bool) -> Paid:
    """Add up what a budget of the journal has paid, by whatever process, killed ones included.

    Args:
        journal: Where the budget is kept.
        budget: Its name.
        is_priced: Whether the price of every model is known: otherwise a cost of 0 is an unknown one.
    """
    return sum((_paid(call, is_priced=is_priced) for call in journal.settled(budget)), Paid())


def _paid(call: SettledCall, *, is_priced: bool) -> Paid:
    if call.response is None:
        # A failure that is no attempt was turned away or never sent, and costs nothing. An answer without text is
        # damaged.
        is_perhaps_billed = call.state in (LOST, ANSWERED) or (call.reason or "").startswith(ATTEMPT)
        return Paid(calls=1, unknown=1, worst_micro=call.cost_micro) if is_perhaps_billed else Paid()
    response = Response.from_json(call.response)
    given, made = response.input_tokens, response.output_tokens
    has_usage = given is not None and made is not None
    is_known = response.cost_usd is not None or (has_usage and (is_priced or call.cost_micro > 0))
    return Paid(
        calls=1,
        unknown=not is_known,
        micro=call.cost_micro if is_known else 0,
        worst_micro=0 if is_known else call.cost_micro,
        input_tokens=given or 0,
        output_tokens=made or 0,
    )


def bill(journal: Journal, *, model: str | None = None, since: float = 0.0) -> dict[tuple[str, str], Paid]:
    """Add up what was paid by day (UTC) and model, as far as the journal still has the calls.

    Args:
        journal: Where they are kept.
        model: Only of this one, with or without its provider.
        since: Only calls settled at this moment (seconds since 1970) or later.
    """
    lines: dict[tuple[str, str], Paid] = {}
    for call, request, at in journal.settled_since(since):
        asked = json.loads(request) if request else None
        name = str(asked.get("model", "?")) if isinstance(asked, dict) else "?"
        if model is not None and model not in (name, name.partition("/")[2]):
            continue
        paid = _paid(call, is_priced=price_of(name) is not None)
        line = (datetime.fromtimestamp(at, timezone.utc).date().isoformat(), name)
        if paid.calls:
            lines[line] = lines.get(line, Paid()) + paid
    return dict(sorted(lines.items()))


def judge_price(judge: Judge, prices: Overrides | None) -> Price | None:
    """Return the price of a judge's tokens, or None when it is unknown or not a matter of tokens."""
    return judge.model_judge.price(prices) if judge.model_judge else None


def checked_cap(max_usd: float | None, judge: Judge, prices: Overrides | None) -> int | None:
    """Return a cap in micro-dollars.

    Raises:
        RecipeError: for a cap that is no positive amount, or on a judge whose calls cannot be priced beforehand.
    """
    if max_usd is None:
        return None
    if not (math.isfinite(max_usd) and max_usd > 0):
        raise RecipeError(f"`max_usd` must be a positive amount, but got {max_usd!r}.")
    if judge.model_judge is None:
        # Of a judge around another one the user knows the inner one: that is whose kind has no price.
        paid = judge.inner if isinstance(judge, PointwiseJudge) else judge
        raise RecipeError(f"A cap needs calls that are priced beforehand, and {paid.name!r} is a {paid.kind} judge.")
    judge.model_judge.check_cap(judge.model_judge.price(prices))
    return int(max_usd * 1_000_000)
