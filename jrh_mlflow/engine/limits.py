"""How many calls may be in flight, and when: limits delay, they never drop.

Four things hold a call back, and one queue keeps the callers in their order, so that nobody is overtaken for ever:

- the number in flight (`Window`): doubles per window of calls up to the cap, halves once per episode of rejections;
- a pause that all callers share, for as long as the provider asked;
- an outage: when call after call fails and none is answered, one at a time tries, with pauses between, until one is;
- requests and tokens per minute (`Bucket`), where the user set them.

Nothing here polls and nothing runs in the background: a free slot is taken in a few comparisons, a full house is
woken by the call that leaves it, and what must wait for the clock is woken by one timer. `Window` and `Bucket` are
arithmetic without clock and event loop.
"""

from __future__ import annotations

import asyncio
import math
import random
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from jrh_mlflow.engine.interrupts import check_stopped, idle

Clock = Callable[[], float]

TOLERANCE_S = 1e-9
"""Timers fire this much early; without it a waiter would be sent back to sleep for a nanosecond."""
TOLERATED_REJECTIONS = 0.2
"""Share of rejected calls that is noise (a shared quota, other users of the key): fewer in flight would not cure it."""
MEMORY = 100
"""Calls over which the share of rejections is remembered."""
OUTAGE_CALLS = 5
"""So many different calls that fail in a row, none answered between them, are an outage and no accident."""
FEW_CALLS_S = 120.0
"""How long the end of an outage is waited for that fewer calls tell of, being the last ones: they may be at fault."""
FIRST_PROBE_S = 0.5
LONGEST_PROBE_S = 5.0
"""Between two tries during an outage: an outage that ends is noticed within this long."""


class Bucket:
    """A token bucket that lets `per_minute` units through, with bursts of at most `burst` units.

    In any window of 60 s it admits at most `per_minute` plus one burst, where a single request larger than the burst
    is a burst of its own: it waits until the bucket is full and leaves a debt that later requests wait out.
    """

    def __init__(self, per_minute: float, *, burst: float) -> None:
        self.rate = per_minute / 60.0
        self.burst = burst
        self._full_at = -math.inf
        """When the bucket is full again if nothing is taken: the whole state in one number."""

    def ready_at(self, units: float) -> float:
        """Return the moment from which `units` may be taken."""
        # A bucket that is full at T holds u units already at T - (burst - u) / rate.
        return self._full_at - (self.burst - min(units, self.burst)) / self.rate

    def take(self, units: float, now: float) -> None:
        """Take `units`, more than there are if need be."""
        self._full_at = max(self._full_at, now) + units / self.rate

    def give_back(self, units: float) -> None:
        """Return `units` taken too many; a negative number takes the rest that was not foreseen."""
        self._full_at -= units / self.rate


_AT_ONCE = 64.0
"""Calls that are sent before the first answer, where so many are allowed; of more, half. To begin with fewer costs a
part of a window, and an endpoint that takes fewer says so at once: the limit is then halved."""


class Window:
    """The number of calls that may be in flight, learned from how calls end.

    An episode begins with a rejection and lasts for as many outcomes as calls were in flight then. It halves the limit
    once. When it is over, at least half of it was answered and rejections are rare over the last calls, they were
    noise and the limit comes back.
    """

    def __init__(self, cap: int) -> None:
        self._cap = float(cap)
        self.limit = min(self._cap, max(_AT_ONCE, cap / 2))
        self._slow_from = math.inf
        """From here the limit grows by 1, 2, 3, … per window instead of doubling."""
        self._clean = 0.0
        """Windows since the last rejection."""
        self._before = (self.limit, self._slow_from)
        self.last_of_episode = 0
        """Number of the last slot that was in flight when the episode began."""
        self._size = 0
        """Outcomes that make up the episode."""
        self._left = 0
        """Outcomes until it is over; 0 outside one."""
        self._answered = 0
        """Answers among them."""
        self._barren = 0
        """Episodes in a row without one success."""
        self.hold = 0
        """Successes that will not make the limit grow."""
        self._share = 0.0
        self._outcomes = 0

    def succeeded(self) -> None:
        """Count an answer, and grow outside an episode."""
        self._count(0.0)
        self._barren = 0
        if self._left:
            self._answered += 1
            return
        if self.hold:
            self.hold -= 1
        elif self.limit < self._cap:
            self._grow()

    def rejected(self, *, late: bool, in_flight: int, admitted: int) -> None:
        """Count a rejection; begin an episode unless one is on or the call belongs to the last one (`late`)."""
        self._count(1.0)
        self._clean = 0.0
        # All calls in flight are rejected together when a quota runs out: they are one sign of it, not many.
        if self._left or late:
            return
        self._before = (self.limit, self._slow_from)
        self.limit = self._slow_from = max(1.0, self.limit / 2)
        self._size = self._left = max(1, in_flight)
        self._answered = 0
        self.last_of_episode = admitted

    def ended(self) -> int:
        """Count an outcome of the episode, if one is on; return how many were barren in a row when this one was."""
        if not self._left:
            return 0
        self._left -= 1
        if self._left:
            return 0
        # A shared quota rejects a few per cent whatever we do: halving for each would end at one call at a time.
        if self._share <= TOLERATED_REJECTIONS and 2 * self._answered >= self._size:
            self.limit, self._slow_from = self._before
        if not self._answered:
            self._barren += 1
        return self._barren

    def _grow(self) -> None:
        # Every answer adds one, which doubles the limit per window, up to where it failed before; from there it feels
        # its way by 1, 2, 3, … per window, so that a wall is met gently and a quota that grew is still used.
        if self.limit < self._slow_from:
            step = 1.0
        else:
            self._clean += 1.0 / self.limit
            step = (1.0 + self._clean) / self.limit
        self.limit = min(self._cap, self.limit + step)

    def _count(self, rejected: float) -> None:
        self._outcomes = min(MEMORY, self._outcomes + 1)
        # A running mean at first, and from MEMORY outcomes on an exponential one: no list has to be kept.
        self._share += (rejected - self._share) / self._outcomes


class Slot:
    """The right to have one call in flight, as an async context manager."""

    __slots__ = ("_limits", "number", "tokens")

    def __init__(self, limits: Limits, tokens: float) -> None:
        self._limits = limits
        self.tokens = tokens
        """Tokens charged: the estimate, and after `settle` what was used."""
        self.number = 0
        """Position in the order of admission, from 1; 0 while it is not held."""

    async def __aenter__(self) -> Slot:
        limits = self._limits
        check_stopped()
        # Behind those who wait already, even when there is room: a small call must not starve a large one.
        if limits._waiting or not limits._admit(self):
            await limits._wait(self)
        return self

    async def __aexit__(self, *_: object) -> None:
        if self.number:
            self._limits._release(self)

    def settle(self, tokens: float) -> None:
        """Correct the estimate once the provider said how many tokens were used."""
        limits = self._limits
        if limits._tokens:
            limits._tokens.give_back(self.tokens - tokens)
            self.tokens = tokens
            limits._wake()


class Place:
    """The right to wait for a slot with everything at hand that the call needs, as an async context manager.

    A slot that waited for a disk would be empty meanwhile. There are a quarter more places than slots, at least one, so
    that few calls hold what others may want. One call at a time has none beside it: a rule may end the run after each.
    """

    __slots__ = ("_is_held", "_limits")

    def __init__(self, limits: Limits) -> None:
        self._limits, self._is_held = limits, False

    async def __aenter__(self) -> Place:
        limits = self._limits
        check_stopped()
        if limits._outside or not limits._has_place():
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            limits._outside.append(future)
            limits._let_in()  # those before it may all have gone
            with idle():
                try:
                    await future
                except asyncio.CancelledError:
                    if not future.cancelled():  # let in and cancelled in the same turn of the loop
                        limits._leave_place()
                    raise
        else:
            limits._places += 1
        self._is_held = True
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._is_held:
            self._is_held = False
            self._limits._leave_place()

    @asynccontextmanager
    async def aside(self) -> AsyncIterator[None]:
        """Leave the place to others while the call waits for something else; it queues for one again after that."""
        await self.__aexit__()
        yield
        await self.__aenter__()


class Limits:
    """The limits of one endpoint, shared by all its callers on one event loop.

    Args:
        concurrency: Most calls in flight.
        requests_per_minute: Calls started per minute; None is no limit.
        tokens_per_minute: Tokens, estimated beforehand and corrected afterwards; None is no limit.
        burst_s: Seconds' worth of the two limits that may go out at once.
        rng: Source of jitter.
        clock: Seconds that only grow; the running event loop's own clock when not given.
    """

    def __init__(
        self,
        concurrency: int,
        *,
        requests_per_minute: float | None = None,
        tokens_per_minute: float | None = None,
        burst_s: float = 1.0,
        rng: random.Random | None = None,
        clock: Clock | None = None,
    ) -> None:
        if concurrency < 1:
            raise ValueError(f"`concurrency >= 1` must hold, but got {concurrency=}.")
        self._requests = _bucket("requests_per_minute", requests_per_minute, burst_s)
        self._tokens = _bucket("tokens_per_minute", tokens_per_minute, burst_s)
        self._rng = rng or random.Random()  # noqa: S311 - jitter, not a secret
        self.now: Clock = clock or (lambda: asyncio.get_running_loop().time())
        self.in_flight = 0
        """Calls that hold a slot."""
        self.trying = 0
        """Calls that are not over yet: in flight, waiting, or between two attempts."""
        self._admitted = 0
        self._waiting: deque[tuple[asyncio.Future[None], Slot]] = deque()
        self._places = 0
        """Calls that hold a slot, or prepare for one."""
        self._outside: deque[asyncio.Future[None]] = deque()
        """Those that wait for a place."""
        self._timer: asyncio.TimerHandle | None = None
        self._pause_until = -math.inf
        self._rejected_since: float | None = None
        self._answered = False
        self._failing: set[int] = set()
        """Calls that failed since the last answer."""
        self._down_since: float | None = None
        """When the outage began; None while there is none."""
        self._last_before_outage = 0
        """Number of the last slot that was in flight when it began."""
        self._probe: Slot | None = None
        """The one call that tries whether it is over."""
        self._probes = 0
        self._few = False
        """Whether fewer calls than usual tell of the outage."""
        self._hopeless = False
        """Whether the outage lasts too long to be waited for."""
        self._timed = bool(self._requests or self._tokens)
        """Whether the clock has a say at all: False on the usual path, which then never reads it."""
        self._window = Window(concurrency)

    @property
    def limit(self) -> int:
        """Calls that may be in flight at present."""
        return int(self._window.limit)

    @property
    def pause_left(self) -> float:
        """Seconds until the shared pause is over; 0 when there is none."""
        return max(0.0, self._pause_until - self.now())

    @property
    def rejected_for(self) -> float:
        """Seconds since the first rejection that no answer has followed; 0 when the last call was answered."""
        return 0.0 if self._rejected_since is None else self.now() - self._rejected_since

    @property
    def is_down(self) -> bool:
        """Whether there is an outage."""
        return self._down_since is not None

    @property
    def down_for(self) -> float:
        """Seconds since the outage began; 0 when there is none."""
        return 0.0 if self._down_since is None else self.now() - self._down_since

    def is_too_long(self, longest_outage_s: float) -> bool:
        """Whether the outage has lasted too long to be waited for."""
        return self.down_for > (min(longest_outage_s, FEW_CALLS_S) if self._few else longest_outage_s)

    def slot(self, tokens: float = 0) -> Slot:
        """Return a slot to enter with `async with`; `tokens` is the estimate for tokens per minute."""
        if not tokens >= 0:
            raise ValueError(f"`tokens >= 0` must hold, but got {tokens=}.")
        return Slot(self, tokens)

    def place(self) -> Place:
        """Return a place to enter with `async with`, in which a call prepares before it enters a slot."""
        return Place(self)

    def _has_place(self) -> bool:
        limit = self.limit
        # During a pause nobody gets a slot: then no more than half as many as usual have prepared for nothing.
        return self._places < limit + max(limit > 1, limit // 4) and self._places - self.in_flight <= limit // 2

    def _leave_place(self) -> None:
        self._places -= 1
        self._let_in()

    def _let_in(self) -> None:
        while self._outside and self._has_place():
            future = self._outside.popleft()
            if not future.cancelled():
                self._places += 1
                future.set_result(None)

    def on_success(self, slot: Slot | None = None) -> None:
        """Say that a call was answered, while its slot is held. Lets the limit grow, and ends an outage."""
        self._rejected_since = None
        self._answered = True
        if self._failing or self._down_since is not None:
            self.on_reached(slot)
        self._window.succeeded()
        self._after(self._window.ended())

    def on_rate_limited(self, retry_after: float | None = None, *, slot: Slot | None = None) -> None:
        """Say that a call was rejected with 429, while its slot is held.

        Halves the limit once per episode and makes every caller wait `retry_after` seconds plus some jitter. `slot`
        tells whether the call was already in flight when the episode began; without it, a rejection that arrives
        during a pause is taken for one of those, since nothing starts in a pause.
        """
        now = self.now()
        late = self._pause_until > now if slot is None else slot.number <= self._window.last_of_episode
        if self._rejected_since is None:
            self._rejected_since = now
        self._window.rejected(late=late, in_flight=self.in_flight, admitted=self._admitted)
        # With jitter, or all callers of all processes would come back in the same instant.
        if retry_after is not None and 0 < retry_after < math.inf:
            self._pause(retry_after + self._rng.uniform(0, min(1.0, retry_after / 10)))
        self._after(self._window.ended())

    def on_reached(self, slot: Slot | None = None) -> None:
        """Say that the service answered, if only with a refusal: an outage is over, unless the call is an old one."""
        self._failing.clear()
        if self._down_since is not None and (slot is None or slot.number > self._last_before_outage):
            self._down_since = self._probe = None

    def on_server_error(
        self,
        *,
        call: int | None = None,
        slot: Slot | None = None,
        longest_outage_s: float = math.inf,
        is_plain: bool = False,
    ) -> None:
        """Say that the service failed (5xx, timeout, lost connection), while the call's slot is held.

        Pauses growth for one window. Once the service has answered at all, an outage begins when `OUTAGE_CALLS`
        different calls (`call` tells them apart; None does not count) failed since the last answer, or all that are
        left, where the failure is `is_plain`: nobody there, or a service that says so. One that lasts longer than
        `longest_outage_s` is not waited for any more: then every call may find out by itself.
        """
        # Calls that were admitted before the failure still succeed; they say nothing about room for more.
        self._window.hold = max(self._window.hold, self.in_flight)
        if call is not None and self._answered:
            self._failing.add(call)
        needed = min(OUTAGE_CALLS, max(1, self.trying)) if is_plain else OUTAGE_CALLS
        if self._down_since is None and len(self._failing) >= needed:
            self._down_since, self._last_before_outage, self._probes = self.now(), self._admitted, 0
            self._few, self._hopeless = len(self._failing) < OUTAGE_CALLS, False
            self._pause_for_probe()
        elif slot is not None and slot is self._probe:
            self._probes += 1
            # From here calls are let through again, so that each finds its own end instead of waiting behind the probe.
            self._hopeless = self.is_too_long(longest_outage_s)
            if not self._hopeless:
                self._pause_for_probe()
        self._after(self._window.ended())

    def _pause_for_probe(self) -> None:
        self._pause(min(LONGEST_PROBE_S, FIRST_PROBE_S * 2**self._probes) * self._rng.uniform(0.5, 1))

    def _after(self, barren: int) -> None:
        """Wait longer and longer while whole episodes pass without one answer and the provider names no time."""
        if barren and self.pause_left == 0:
            self._pause(min(30.0, 0.5 * 2 ** min(barren, 6)) * self._rng.uniform(0.5, 1))
        if self._waiting:
            self._wake()
        # Of a larger window.
        self._let_in()

    def _pause(self, seconds: float) -> None:
        self._pause_until = max(self._pause_until, self.now() + seconds)
        self._timed = True

    def _admit(self, slot: Slot) -> bool:
        if self.in_flight + 1 > self._window.limit or self._probe is not None:
            return False
        if self._timed:
            now = self.now()
            if self._ready_at(slot) > now + TOLERANCE_S:
                return False
            self._charge(slot, now)
        self.in_flight += 1
        self._let_in()
        self._admitted += 1
        slot.number = self._admitted
        if self._down_since is not None and not self._hopeless:
            self._probe = slot
        return True

    def _ready_at(self, slot: Slot) -> float:
        ready = self._pause_until
        if self._requests:
            ready = max(ready, self._requests.ready_at(1))
        if self._tokens:
            ready = max(ready, self._tokens.ready_at(slot.tokens))
        return ready

    def _charge(self, slot: Slot, now: float) -> None:
        # Whoever is admitted has waited the pause out: it is over for all, and the clock need not be read for it.
        self._pause_until = -math.inf
        self._timed = bool(self._requests or self._tokens)
        if self._requests:
            self._requests.take(1, now)
        if self._tokens:
            self._tokens.take(slot.tokens, now)

    def _release(self, slot: Slot) -> None:
        self.in_flight -= 1
        slot.number = 0
        if slot is self._probe:
            self._probe = None
        if self._waiting:
            self._wake()

    async def _wait(self, slot: Slot) -> None:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((future, slot))
        self._wake()  # the house may have a free slot and only the clock against it: then a timer is needed
        with idle():
            try:
                await future
            except asyncio.CancelledError:
                if future.cancelled():
                    self._wake()  # Drops the entry, and the timer when it was the last.
                else:
                    self._release(slot)  # Admitted and cancelled in the same turn of the loop.
                raise

    def _wake(self) -> None:
        """Admit waiting callers in their order; set the timer when only the clock holds back the first."""
        while self._waiting:
            future, slot = self._waiting[0]
            # The first who does not fit keeps the others behind it: else a large call would wait for ever.
            if not future.cancelled() and not self._admit(slot):
                break
            self._waiting.popleft()
            if not future.cancelled():
                future.set_result(None)
        if self._timer:
            self._timer.cancel()
            self._timer = None
        if self._waiting and self.in_flight + 1 <= self._window.limit and self._probe is None:
            delay = self._ready_at(self._waiting[0][1]) - self.now()
            self._timer = asyncio.get_running_loop().call_later(max(0.0, delay), self._wake)


def _bucket(name: str, per_minute: float | None, burst_s: float) -> Bucket | None:
    if per_minute is None:
        return None
    if not 0 < per_minute < math.inf:
        raise ValueError(f"`{name}` must be a positive number, but got {per_minute!r}.")
    return Bucket(per_minute, burst=max(1.0, per_minute * burst_s / 60))
