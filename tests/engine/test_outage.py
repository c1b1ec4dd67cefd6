"""Outages of a service in the middle of a run, in virtual time: they delay, and lose nothing."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random

import pytest

from jrh_mlflow.engine.limits import FEW_CALLS_S, LONGEST_PROBE_S, Limits
from jrh_mlflow.engine.retries import RetryPolicy, send_with_retries
from jrh_mlflow.models.transports import FailureKind, TransportError
from tests.engine.virtual_time import now, run


class Service:
    """Answers in 0.1 s, but fails between two moments; remembers when it was asked in vain."""

    def __init__(self, kind: FailureKind, *, down: tuple[float, float], seconds: float = 0.02) -> None:
        self.kind, self.down, self.seconds = kind, down, seconds
        self.failed: list[float] = []
        self.answered = 0

    async def __call__(self) -> str:
        if self.down[0] <= now() < self.down[1]:
            self.failed.append(now())
            await asyncio.sleep(self.seconds)
            raise TransportError(self.kind, "made up for a test")
        await asyncio.sleep(0.1)
        self.answered += 1
        return "answer"


async def whole_run(service: Service, n: int, *, concurrency: int, policy: RetryPolicy | None = None) -> list[str]:
    """Make `n` calls with two workers per call in flight, and return how each ended."""
    limits, numbers, ended = Limits(concurrency, rng=random.Random(1)), iter(range(n)), []

    async def worker() -> None:
        for number in numbers:
            try:
                given = policy or RetryPolicy()
                ended.append(await send_with_retries(service, limits=limits, policy=given, rng=random.Random(number)))
            except TransportError as error:
                ended.append(error.kind)

    await asyncio.gather(*(worker() for _ in range(2 * concurrency)))
    assert limits.in_flight == 0
    return ended


@pytest.mark.parametrize(
    ("kind", "concurrency", "minutes"),
    [
        ("server", 3, 1),
        ("server", 3, 9),
        ("server", 8, 9),
        ("server", 64, 9),
        ("unreachable", 3, 9),
        ("unreachable", 8, 1),
        ("connection", 8, 9),
        ("connection", 64, 1),
    ],
)
def test_an_outage_in_the_middle_delays_every_call_and_loses_none(
    kind: FailureKind, concurrency: int, minutes: int
) -> None:
    service = Service(kind, down=(2.0, 2.0 + 60 * minutes))

    async def scenario() -> tuple[list[str], float]:
        return await whole_run(service, 40 * concurrency, concurrency=concurrency), now()

    ended, seconds = run(scenario())
    assert ended == ["answer"] * 40 * concurrency
    # Noticed within one pause, and reopened for all at once.
    assert seconds <= 2 + 60 * minutes + LONGEST_PROBE_S + 1 + 2 * 40 * 0.1


@pytest.mark.parametrize("n", [1, 2, 4])
def test_an_outage_at_the_very_end_loses_none_of_the_few_calls_that_are_left(n: int) -> None:
    service = Service("unreachable", down=(1.0, 61.0))

    async def scenario() -> list[str]:
        limits = Limits(8, rng=random.Random(1))
        policy = RetryPolicy()
        await send_with_retries(service, limits=limits, policy=policy, rng=random.Random(0))
        await asyncio.sleep(1)
        last = (send_with_retries(service, limits=limits, policy=policy, rng=random.Random(i)) for i in range(n))
        return await asyncio.gather(*last)

    assert run(scenario()) == ["answer"] * n


def test_a_few_calls_that_always_find_a_service_down_do_not_hold_a_run_for_ten_minutes() -> None:
    service = Service("unreachable", down=(1.0, 1e9))

    async def scenario() -> float:
        limits = Limits(8, rng=random.Random(1))
        await send_with_retries(service, limits=limits, policy=RetryPolicy(), rng=random.Random(0))
        await asyncio.sleep(1)
        with contextlib.suppress(TransportError):
            await send_with_retries(service, limits=limits, policy=RetryPolicy(), rng=random.Random(0))
        return now()

    assert 60 < run(scenario()) < FEW_CALLS_S + 20


def test_during_an_outage_one_call_at_a_time_tries_and_less_and_less_often() -> None:
    service = Service("server", down=(2.0, 62.0))
    run(whole_run(service, 2000, concurrency=64))
    probes = [at for at in service.failed if at > 3.0]
    gaps = [later - before for before, later in itertools.pairwise(probes)]
    assert len(probes) < 30
    assert all(gap >= 0.02 for gap in gaps)
    assert all(LONGEST_PROBE_S / 2 <= gap <= LONGEST_PROBE_S + 1.5 for gap in gaps[5:])


def test_an_outage_that_lasts_too_long_fails_the_calls_that_waited_all_together() -> None:
    service = Service("unreachable", down=(2.0, float("inf")))

    async def scenario() -> tuple[list[str], float]:
        return await whole_run(service, 300, concurrency=8, policy=RetryPolicy(longest_outage_s=120.0)), now()

    ended, seconds = run(scenario())
    assert set(ended[-100:]) == {"unreachable"}
    assert len(ended) == 300
    assert 120 <= seconds <= 145


def test_before_the_first_answer_a_dead_service_is_known_in_seconds() -> None:
    service = Service("unreachable", down=(0.0, float("inf")))

    async def scenario() -> tuple[list[str], float]:
        return await whole_run(service, 20, concurrency=32), now()

    ended, seconds = run(scenario())
    assert ended == ["unreachable"] * 20
    assert seconds < 16
    assert len(service.failed) == 6 * 20


def test_timeouts_are_no_reason_to_wait_for_minutes_they_may_be_billed_each_time() -> None:
    service = Service("timeout", down=(2.0, float("inf")), seconds=30.0)
    ended = run(whole_run(service, 200, concurrency=8))
    lost = ended.count("timeout")
    assert lost == 200 - service.answered
    assert len(service.failed) <= 6 * lost


def test_items_that_always_fail_are_no_outage_while_others_are_answered() -> None:
    async def scenario() -> tuple[list[str], float]:
        limits, numbers, ended = Limits(8, rng=random.Random(1)), iter(range(400)), []

        async def call(number: int) -> str:
            async def send() -> str:
                await asyncio.sleep(0.1)
                if number % 50 == 7:
                    raise TransportError("server", "this text only")
                return "answer"

            return await send_with_retries(send, limits=limits, policy=RetryPolicy(), rng=random.Random(number))

        async def worker() -> None:
            for number in numbers:
                try:
                    ended.append(await call(number))
                except TransportError as error:
                    ended.append(error.kind)

        await asyncio.gather(*(worker() for _ in range(16)))
        return ended, now()

    ended, seconds = run(scenario())
    assert ended.count("server") == 8
    assert seconds < 60


@pytest.mark.parametrize("kind", ["rate_limited", "bad_request", "auth"])
def test_a_service_that_speaks_again_if_only_to_refuse_ends_the_outage(kind: FailureKind) -> None:
    async def scenario() -> tuple[bool, bool]:
        limits, policy = Limits(8, rng=random.Random(1)), RetryPolicy(max_attempts=1, max_rejections=1)

        async def call(error: TransportError | None) -> None:
            async def send() -> str:
                await asyncio.sleep(0.1)
                if error is not None:
                    raise error
                return "answer"

            with contextlib.suppress(TransportError):
                await send_with_retries(send, limits=limits, policy=policy, rng=random.Random(1))

        await call(None)
        # The calls themselves go on waiting: the last one ends them.
        waiting = [asyncio.ensure_future(call(TransportError("server", "down"))) for _ in range(5)]
        await asyncio.sleep(0.2)
        was_down = limits.is_down
        for task in waiting:
            task.cancel()
        await call(TransportError(kind, "no", retry_after=0.1))
        return was_down, limits.is_down

    assert run(scenario()) == (True, False)
