"""Whole runs against simulated providers: nothing dropped, few rejections, little time lost."""

from __future__ import annotations

import asyncio
import random

import pytest

from jrh_mlflow.engine.limits import Limits
from jrh_mlflow.engine.retries import RetryPolicy, send_with_retries
from jrh_mlflow.models.transports import TransportError
from tests.engine.virtual_time import now, run


class Provider:
    """Answers after about 100 ms and rejects within 10; subclasses say what is too much."""

    latency = 0.1

    def __init__(self, *, says_when: bool = True) -> None:
        self.rng = random.Random(5)
        self.says_when = says_when
        self.in_flight = self.answered = self.rejected = 0

    def wait_for(self, at: float) -> float | None:
        """Return seconds to wait when the call is rejected."""
        raise NotImplementedError

    async def __call__(self) -> str:
        wait = self.wait_for(now())
        if wait is not None:
            self.rejected += 1
            await asyncio.sleep(0.01)
            raise TransportError("rate_limited", "slow down", retry_after=wait if self.says_when else None)
        self.in_flight += 1
        await asyncio.sleep(self.latency * self.rng.uniform(0.8, 1.2))
        self.in_flight -= 1
        self.answered += 1
        return "answer"


class PerMinute(Provider):
    """500 calls in each minute of the clock; rejected ones count too."""

    minute, calls = -1, 0

    def wait_for(self, at: float) -> float | None:
        minute = int(at // 60)
        self.minute, self.calls = minute, 1 if minute != self.minute else self.calls + 1
        return 60 * (minute + 1) - at if self.calls > 500 else None


class Refilled(Provider):
    """A bucket of 100 calls that is refilled with 50 a second and names fractions of a second."""

    level, updated = 100.0, 0.0

    def wait_for(self, at: float) -> float | None:
        self.level, self.updated = min(100.0, self.level + 50 * (at - self.updated)), at
        if self.level < 1:
            return (1 - self.level) / 50
        self.level -= 1
        return None


class AtOnce(Provider):
    """Twenty calls at a time."""

    def wait_for(self, at: float) -> float | None:
        return 0.05 if self.in_flight >= 20 else None


class Noisy(Provider):
    """Rejects every tenth call, whatever the caller does."""

    def wait_for(self, at: float) -> float | None:
        return 0.05 if self.rng.random() < 0.1 else None


async def whole_run(provider: Provider, n: int, *, workers: int = 64) -> float:
    limits, numbers = Limits(workers, rng=random.Random(1)), iter(range(n))

    async def worker() -> None:
        for number in numbers:
            await send_with_retries(provider, limits=limits, policy=RetryPolicy(), rng=random.Random(number))

    await asyncio.gather(*(worker() for _ in range(workers)))
    assert limits.in_flight == 0
    return now()


@pytest.mark.parametrize(
    ("kind", "says_when", "n", "at_best", "longest", "most_rejected"),
    [
        (PerMinute, True, 1500, 120.0, 125.0, 40),
        (PerMinute, False, 1500, 120.0, 160.0, 250),
        (Refilled, True, 1500, 28.0, 30.0, 500),
        (Refilled, False, 1500, 28.0, 40.0, 500),
        (AtOnce, True, 2000, 10.0, 14.0, 300),
        (AtOnce, False, 2000, 10.0, 16.0, 300),
        (Noisy, True, 2000, 3.2, 25.0, 300),
        (Noisy, False, 2000, 3.2, 25.0, 300),
    ],
)
def test_a_run_against_a_limited_provider_drops_nothing_is_rejected_little_and_loses_little_time(
    kind: type[Provider], says_when: bool, n: int, at_best: float, longest: float, most_rejected: int
) -> None:
    provider = kind(says_when=says_when)
    seconds = run(whole_run(provider, n))
    assert provider.answered == n
    assert at_best * 0.95 <= seconds <= longest
    assert provider.rejected <= most_rejected
