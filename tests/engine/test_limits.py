from __future__ import annotations

import asyncio
import itertools
import random
from contextlib import AsyncExitStack

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jrh_mlflow.engine.limits import Limits
from tests.engine.limits_tools import calls, make, take
from tests.engine.virtual_time import now, run
from tests.examples import up_to


async def grown(concurrency: int) -> Limits:
    """Return limits that have reached their cap."""
    limits = make(concurrency)
    await calls(limits, 4 * concurrency)
    assert limits.limit == concurrency
    return limits


# Calls in flight


def test_two_thousand_calls_of_100_ms_at_64_in_flight_lose_less_than_one_window() -> None:
    async def scenario() -> float:
        await calls(make(64), 2000)
        return now()

    assert run(scenario()) <= 3.2 + 0.1


@pytest.mark.parametrize(("cap", "start"), [(1, 1), (32, 32), (64, 64), (100, 64), (200, 100)])
def test_the_limit_starts_at_the_cap_up_to_64_and_else_at_half_of_it_but_not_under_64(cap: int, start: int) -> None:
    assert make(cap).limit == start


def test_the_limit_doubles_in_one_window_of_successes_and_stops_at_the_cap() -> None:
    async def scenario() -> list[int]:
        limits = make(200)
        seen = [limits.limit]
        for n in (100, 200):
            await calls(limits, n)
            seen.append(limits.limit)
        return seen

    assert run(scenario()) == [100, 200, 200]


@settings(max_examples=up_to(50), deadline=None)
@given(cap=st.integers(1, 20), durations=st.lists(st.floats(0, 2), min_size=1, max_size=60))
def test_never_more_calls_are_in_flight_than_the_cap(cap: int, durations: list[float]) -> None:
    async def scenario() -> tuple[int, int]:
        limits, busy, most = make(cap), 0, 0

        async def call(seconds: float) -> None:
            nonlocal busy, most
            async with limits.slot():
                busy += 1
                most = max(most, busy)
                await asyncio.sleep(seconds)
                busy -= 1
                limits.on_success()

        await asyncio.gather(*map(call, durations))
        return most, limits.in_flight

    most, left = run(scenario())
    assert most <= cap
    assert left == 0


def test_callers_are_admitted_in_the_order_they_came() -> None:
    async def scenario() -> list[int]:
        limits, order = make(2), []

        async def call(name: int) -> None:
            async with limits.slot():
                order.append(name)
                await asyncio.sleep(random.Random(name).random())

        await asyncio.gather(*(call(name) for name in range(40)))
        return order

    assert run(scenario()) == list(range(40))


# Rejections


def test_an_episode_halves_the_limit_once_however_many_of_its_calls_are_rejected() -> None:
    async def scenario() -> list[int]:
        limits = await grown(64)
        seen = []
        async with AsyncExitStack() as stack:
            for slot in await take(stack, limits, 64):
                limits.on_rate_limited(slot=slot)
                seen.append(limits.limit)
        return seen

    assert run(scenario()) == [32] * 64


def test_a_rejected_call_that_began_after_the_episode_halves_again() -> None:
    async def scenario() -> list[int]:
        limits, seen = await grown(64), []
        for n in (64, 32, 16):
            async with AsyncExitStack() as stack:
                for slot in await take(stack, limits, n):
                    limits.on_rate_limited(0.5, slot=slot)
            seen.append(limits.limit)
            await asyncio.sleep(limits.pause_left)
        return seen

    assert run(scenario()) == [32, 16, 8]


def test_a_late_rejection_of_a_slow_call_belongs_to_the_old_episode() -> None:
    async def scenario() -> tuple[int, int]:
        limits = await grown(16)
        async with AsyncExitStack() as stack:
            slow = await stack.enter_async_context(limits.slot())
            async with AsyncExitStack() as others:
                for slot in await take(others, limits, 15):
                    limits.on_rate_limited(slot=slot)
            limits.on_server_error()  # The sixteenth outcome: the episode is over.
            before = limits.limit
            limits.on_rate_limited(slot=slow)
            return before, limits.limit

    before, after = run(scenario())
    assert before == after == 8


def test_without_a_slot_a_rejection_during_the_pause_belongs_to_the_episode() -> None:
    async def scenario() -> list[int]:
        limits, seen = await grown(32), []
        for wait in (1.0, 1.0, 1.0):
            limits.on_rate_limited(wait)
            seen.append(limits.limit)
        await asyncio.sleep(limits.pause_left)
        limits.on_rate_limited(1.0)
        return [*seen, limits.limit]

    assert run(scenario()) == [16, 16, 16, 8]


def test_the_limit_comes_back_after_an_episode_when_rejections_are_rare() -> None:
    async def scenario() -> list[int]:
        limits = await grown(64)
        async with AsyncExitStack() as stack:
            slots = await take(stack, limits, 64)
            limits.on_rate_limited(slot=slots[0])
            halved = limits.limit
            for _ in slots[1:]:
                limits.on_success()
        return [halved, limits.limit]

    assert run(scenario()) == [32, 64]


def test_after_a_real_episode_the_limit_grows_by_one_in_the_first_window_and_faster_later() -> None:
    async def scenario() -> list[int]:
        limits = await grown(64)
        async with AsyncExitStack() as stack:
            for slot in await take(stack, limits, 64):
                limits.on_rate_limited(slot=slot)
        await asyncio.sleep(limits.pause_left)
        seen = [limits.limit]
        for _ in range(4):
            await calls(limits, limits.limit)
            seen.append(limits.limit)
        return seen

    seen = run(scenario())
    steps = [after - before for before, after in itertools.pairwise(seen)]
    assert seen[0] == 32
    assert steps[0] in (1, 2)
    assert steps == sorted(steps)
    assert steps[-1] > steps[0]


def test_a_server_error_lowers_nothing_and_pauses_growth_for_one_window() -> None:
    async def scenario() -> list[int]:
        limits, seen = make(128), []
        async with AsyncExitStack() as stack:
            await take(stack, limits, 64)
            limits.on_server_error()
            seen.append(limits.limit)
            for _ in range(64):
                limits.on_success()
            seen.append(limits.limit)
            limits.on_success()
            seen.append(limits.limit)
        return seen

    assert run(scenario()) == [64, 64, 65]


# Bad settings


@pytest.mark.parametrize("bad", [0, -1])
def test_a_concurrency_under_one_is_refused(bad: int) -> None:
    with pytest.raises(ValueError, match="concurrency >= 1"):
        Limits(bad)


@pytest.mark.parametrize("bad", [0, -1, float("nan"), float("inf")])
@pytest.mark.parametrize("name", ["requests_per_minute", "tokens_per_minute"])
def test_a_limit_per_minute_that_is_no_positive_number_is_refused(name: str, bad: float) -> None:
    with pytest.raises(ValueError, match=name):
        Limits(8, **{name: bad})  # type: ignore[arg-type]


@pytest.mark.parametrize("bad", [-1, float("nan")])
def test_a_negative_number_of_tokens_is_refused(bad: float) -> None:
    with pytest.raises(ValueError, match="tokens >= 0"):
        make().slot(bad)
