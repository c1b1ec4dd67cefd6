"""How many calls may be in flight, and when: limits delay, they never drop.

Three things hold a call back, and one queue keeps the callers in their order, so that nobody is overtaken for ever:

- the number in flight: doubles per window of calls up to the cap, halves once per episode of rejections;
- a pause that all callers share, for as long as the provider asked;
- requests and tokens per minute, where the user set them.

Nothing here polls and nothing runs in the background: a free slot is taken in a few comparisons, a full house is
woken by the call that leaves it, and what must wait for the clock is woken by one timer.
"""

from __future__ import annotations

import asyncio
import math
import random
from collections import deque
from collections.abc import Callable

from jrh_mlflow.engine.pacing import Bucket, Window

Clock = Callable[[], float]

TOLERANCE_S = 1e-9
"""Timers fire this much early; without it a waiter would be sent back to sleep for a nanosecond."""


class Slot:
    """The right to have one call in flight, as an async context manager."""

    __slots__ = ("_limits", "number", "tokens")

    def __init__(self, limits: Limits, tokens: float) -> None:
        self._limits = limits
        self.tokens = tokens
        """Tokens charged: the estimate, and after `settle` what was used."""
        self.number = 0
        """Position in the order of admission, from 1."""

    async def __aenter__(self) -> Slot:
        limits = self._limits
        if limits._waiting or not limits._admit(self):
            await limits._wait(self)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._limits._release()

    def settle(self, tokens: float) -> None:
        """Correct the estimate once the provider said how many tokens were used."""
        self._limits._settle(self, tokens)


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
        self.now: Clock = clock or _loop_time
        self._in_flight = 0
        self._admitted = 0
        self._waiting: deque[tuple[asyncio.Future[None], Slot]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._pause_until = -math.inf
        self._rejected_since: float | None = None
        self._timed = bool(self._requests or self._tokens)
        """Whether the clock has a say at all: False on the usual path, which then never reads it."""
        self._window = Window(concurrency)

    @property
    def limit(self) -> int:
        """Calls that may be in flight at present."""
        return int(self._window.limit)

    @property
    def in_flight(self) -> int:
        """Calls that hold a slot."""
        return self._in_flight

    @property
    def pause_left(self) -> float:
        """Seconds until the shared pause is over; 0 when there is none."""
        return max(0.0, self._pause_until - self.now())

    @property
    def rejected_for(self) -> float:
        """Seconds since the first rejection that no answer has followed; 0 when the last call was answered."""
        return 0.0 if self._rejected_since is None else self.now() - self._rejected_since

    def slot(self, tokens: float = 0) -> Slot:
        """Return a slot to enter with `async with`; `tokens` is the estimate for tokens per minute."""
        if not tokens >= 0:
            raise ValueError(f"`tokens >= 0` must hold, but got {tokens=}.")
        return Slot(self, tokens)

    def on_success(self) -> None:
        """Say that a call was answered, while its slot is held. Lets the limit grow."""
        self._rejected_since = None
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
        self._window.rejected(late=late, in_flight=self._in_flight, admitted=self._admitted)
        if retry_after is not None and 0 < retry_after < math.inf:
            self._pause(retry_after + self._rng.uniform(0, min(1.0, retry_after / 10)))
        self._after(self._window.ended())

    def on_server_error(self) -> None:
        """Say that the service failed (5xx, timeout, lost connection). Pauses growth for one window, no more."""
        self._window.hold = max(self._window.hold, self._in_flight)
        self._after(self._window.ended())

    def _after(self, barren: int) -> None:
        """Wait longer and longer while whole episodes pass without one answer and the provider names no time."""
        if barren and self.pause_left == 0:
            self._pause(min(30.0, 0.5 * 2 ** min(barren, 6)) * self._rng.uniform(0.5, 1))
        if self._waiting:
            self._wake()

    def _pause(self, seconds: float) -> None:
        self._pause_until = max(self._pause_until, self.now() + seconds)
        self._timed = True

    def _settle(self, slot: Slot, tokens: float) -> None:
        if self._tokens:
            self._tokens.give_back(slot.tokens - tokens)
            slot.tokens = tokens
            self._wake()

    def _admit(self, slot: Slot) -> bool:
        if self._in_flight + 1 > self._window.limit:
            return False
        if self._timed:
            now = self.now()
            if self._ready_at(slot) > now + TOLERANCE_S:
                return False
            self._charge(slot, now)
        self._in_flight += 1
        self._admitted += 1
        slot.number = self._admitted
        return True

    def _ready_at(self, slot: Slot) -> float:
        ready = self._pause_until
        if self._requests:
            ready = max(ready, self._requests.ready_at(1))
        if self._tokens:
            ready = max(ready, self._tokens.ready_at(slot.tokens))
        return ready

    def _charge(self, slot: Slot, now: float) -> None:
        self._pause_until = -math.inf
        self._timed = bool(self._requests or self._tokens)
        if self._requests:
            self._requests.take(1, now)
        if self._tokens:
            self._tokens.take(slot.tokens, now)

    def _release(self) -> None:
        self._in_flight -= 1
        if self._waiting:
            self._wake()

    async def _wait(self, slot: Slot) -> None:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((future, slot))
        self._wake()
        try:
            await future
        except asyncio.CancelledError:
            if future.cancelled():
                self._wake()  # Drops the entry, and the timer when it was the last.
            else:
                self._release()  # Admitted and cancelled in the same turn of the loop.
            raise

    def _wake(self) -> None:
        """Admit waiting callers in their order; set the timer when only the clock holds back the first."""
        while self._waiting:
            future, slot = self._waiting[0]
            if not future.cancelled() and not self._admit(slot):
                break
            self._waiting.popleft()
            if not future.cancelled():
                future.set_result(None)
        if self._timer:
            self._timer.cancel()
            self._timer = None
        if self._waiting and self._in_flight + 1 <= self._window.limit:
            delay = self._ready_at(self._waiting[0][1]) - self.now()
            self._timer = asyncio.get_running_loop().call_later(max(0.0, delay), self._wake)


def _bucket(name: str, per_minute: float | None, burst_s: float) -> Bucket | None:
    if per_minute is None:
        return None
    if not 0 < per_minute < math.inf:
        raise ValueError(f"`{name}` must be a positive number, but got {per_minute!r}.")
    return Bucket(per_minute, burst=max(1.0, per_minute * burst_s / 60))


def _loop_time() -> float:
    return asyncio.get_running_loop().time()
