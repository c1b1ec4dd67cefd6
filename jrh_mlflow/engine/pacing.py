"""The arithmetic behind `Limits`: a bucket per minute, and a window of calls in flight. No clock, no event loop."""

from __future__ import annotations

import math

TOLERATED_REJECTIONS = 0.2
"""Share of rejected calls that is noise (a shared quota, other users of the key): fewer in flight would not cure it."""
MEMORY = 100
"""Calls over which the share of rejections is remembered."""


class Bucket:
    """A token bucket that lets `per_minute` units through, with bursts of at most `burst` units.

    In any window of 60 s it admits at most `per_minute` plus one burst, where a single request larger than the burst
    is a burst of its own: it waits until the bucket is full and leaves a debt that later requests wait out.
    """

    __slots__ = ("_full_at", "burst", "rate")

    def __init__(self, per_minute: float, *, burst: float) -> None:
        self.rate = per_minute / 60.0
        self.burst = burst
        self._full_at = -math.inf
        """When the bucket is full again if nothing is taken: the whole state in one number."""

    def ready_at(self, units: float) -> float:
        """Return the moment from which `units` may be taken."""
        return self._full_at - (self.burst - min(units, self.burst)) / self.rate

    def take(self, units: float, now: float) -> None:
        """Take `units`, more than there are if need be."""
        self._full_at = max(self._full_at, now) + units / self.rate

    def give_back(self, units: float) -> None:
        """Return `units` taken too many; a negative number takes the rest that was not foreseen."""
        self._full_at -= units / self.rate


class Window:
    """The number of calls that may be in flight, learned from how calls end.

    An episode begins with a rejection and lasts for as many outcomes as calls were in flight then. It halves the limit
    once. When it is over, at least half of it was answered and rejections are rare over the last calls, they were
    noise and the limit comes back.
    """

    __slots__ = (
        "_answered",
        "_barren",
        "_before",
        "_cap",
        "_clean",
        "_left",
        "_outcomes",
        "_share",
        "_size",
        "_slow_from",
        "hold",
        "last_of_episode",
        "limit",
    )

    def __init__(self, cap: int) -> None:
        self._cap = float(cap)
        # Half of what the user allows loses half a window; from 8 it would be two, a fifth of a run of 720 calls.
        self.limit = min(self._cap, max(8.0, cap / 2))
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
        if self._share <= TOLERATED_REJECTIONS and 2 * self._answered >= self._size:
            self.limit, self._slow_from = self._before
        if not self._answered:
            self._barren += 1
        return self._barren

    def _grow(self) -> None:
        if self.limit < self._slow_from:
            step = 1.0
        else:
            self._clean += 1.0 / self.limit
            step = (1.0 + self._clean) / self.limit
        self.limit = min(self._cap, self.limit + step)

    def _count(self, rejected: float) -> None:
        self._outcomes = min(MEMORY, self._outcomes + 1)
        self._share += (rejected - self._share) / self._outcomes
