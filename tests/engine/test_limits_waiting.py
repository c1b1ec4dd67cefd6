from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.engine.limits_tools import calls, make, take
from tests.engine.virtual_time import now, run
from tests.examples import up_to

# The shared pause


@pytest.mark.parametrize("retry_after", [0.25, 1.5, 20.0])
def test_every_caller_waits_for_retry_after_even_a_fraction_and_at_most_a_tenth_longer(retry_after: float) -> None:
    async def scenario() -> list[float]:
        limits = make(8)
        async with limits.slot() as slot:
            limits.on_rate_limited(retry_after, slot=slot)
        return await calls(limits, 4)

    assert all(retry_after <= began <= 1.1 * retry_after for began in run(scenario()))


def test_a_caller_that_already_waits_is_held_back_by_a_pause_too() -> None:
    async def scenario() -> list[float]:
        limits = make(1)
        async with limits.slot() as slot:
            waiting = asyncio.ensure_future(calls(limits, 1))
            await asyncio.sleep(0.5)
            limits.on_rate_limited(3.0, slot=slot)
        return await waiting

    assert 3.5 <= run(scenario())[0] <= 3.8


def test_a_longer_pause_replaces_a_shorter_one_and_not_the_other_way_round() -> None:
    async def scenario() -> list[float]:
        limits = make(8)
        async with AsyncExitStack() as stack:
            for slot, wait in zip(await take(stack, limits, 3), (1.0, 10.0, 2.0), strict=True):
                limits.on_rate_limited(wait, slot=slot)
        return await calls(limits, 1)

    assert 10.0 <= run(scenario())[0] <= 11.0


@pytest.mark.parametrize("nonsense", [0.0, -5.0, float("inf"), float("nan")])
def test_a_retry_after_that_is_no_length_of_time_is_ignored(nonsense: float) -> None:
    async def scenario() -> list[float]:
        limits = make(8)
        async with AsyncExitStack() as stack:
            for slot in await take(stack, limits, 2):
                limits.on_rate_limited(nonsense, slot=slot)
                limits.on_success()
        return await calls(limits, 1)

    assert run(scenario()) == [0.0]


def test_without_retry_after_the_pause_doubles_while_nothing_is_answered_up_to_30_s() -> None:
    async def scenario() -> list[float]:
        limits, pauses = make(1), []
        for _ in range(10):
            async with limits.slot() as slot:
                limits.on_rate_limited(slot=slot)
            pauses.append(limits.pause_left)
        return pauses

    pauses = run(scenario())
    for n, pause in enumerate(pauses, start=1):
        longest = min(30.0, 0.5 * 2**n)
        assert longest / 2 <= pause <= longest


def test_an_answer_makes_the_next_pause_short_again() -> None:
    async def scenario() -> float:
        limits = make(1)
        for answered in (False, False, False, False, True, False):
            async with limits.slot() as slot:
                limits.on_success() if answered else limits.on_rate_limited(slot=slot)
        return limits.pause_left

    assert 0.5 <= run(scenario()) <= 1.0


def test_limits_say_for_how_long_nothing_but_rejections_came() -> None:
    async def scenario() -> list[float]:
        limits = make(8)
        seen = [limits.rejected_for]
        async with limits.slot() as slot:
            limits.on_rate_limited(5.0, slot=slot)
        await asyncio.sleep(7.0)
        seen.append(limits.rejected_for)
        await calls(limits, 1)
        return [*seen, limits.rejected_for]

    assert run(scenario()) == [0.0, 7.0, 0.0]


# Requests and tokens per minute


def test_requests_per_minute_let_one_second_s_worth_go_at_once_and_then_keep_the_rate() -> None:
    async def scenario() -> list[float]:
        return await calls(make(64, requests_per_minute=120), 6)

    assert run(scenario()) == pytest.approx([0, 0, 0.5, 1.0, 1.5, 2.0])


def test_a_request_larger_than_the_limit_of_a_minute_is_delayed_and_not_starved_by_small_ones() -> None:
    async def scenario() -> list[tuple[float, float]]:
        limits, began = make(64, tokens_per_minute=600), []

        async def call(tokens: float) -> None:
            async with limits.slot(tokens):
                began.append((now(), tokens))

        await asyncio.gather(*(call(tokens) for tokens in (10, 10, 1200, 10, 10)))
        return began

    expected = [(0, 10), (1, 10), (2, 1200), (122, 10), (123, 10)]
    assert run(scenario()) == [pytest.approx(pair) for pair in expected]


def test_a_large_request_is_not_overtaken_by_small_ones_that_keep_coming() -> None:
    async def scenario() -> list[tuple[float, float]]:
        limits, began = make(64, tokens_per_minute=600, burst_s=30), []

        async def call(tokens: float) -> None:
            async with limits.slot(tokens):
                began.append((now(), tokens))

        tasks = [asyncio.ensure_future(call(tokens)) for tokens in (300, 250)]
        for _ in range(50):
            await asyncio.sleep(1)
            tasks.append(asyncio.ensure_future(call(5)))
        await asyncio.gather(*tasks)
        return began

    began = run(scenario())
    assert began[:2] == [(0, 300), (pytest.approx(25), 250)]
    assert len(began) == 52


@pytest.mark.parametrize(("used", "next_at"), [(30, 3.0), (60, 6.0), (120, 12.0)])
def test_the_estimate_of_tokens_is_corrected_by_what_was_used(used: float, next_at: float) -> None:
    async def scenario() -> list[float]:
        limits = make(64, tokens_per_minute=600)
        async with limits.slot(60) as slot:
            waiting = asyncio.ensure_future(calls(limits, 1, tokens=10))
            await asyncio.sleep(0)
            slot.settle(used)
        return await waiting

    assert run(scenario()) == [pytest.approx(next_at)]


requests = st.lists(st.tuples(st.floats(0, 30), st.integers(0, 400)), min_size=1, max_size=60)


@settings(max_examples=up_to(150), deadline=None)
@given(requests=requests, per_minute=st.integers(1, 2000), burst_s=st.floats(0.1, 30), by=st.sampled_from(["r", "t"]))
def test_no_minute_holds_more_than_the_limit_and_one_burst_and_nothing_waits_longer_than_it_must(
    requests: list[tuple[float, int]], per_minute: int, burst_s: float, by: str
) -> None:
    async def scenario() -> tuple[list[tuple[float, float]], float]:
        option = {"requests_per_minute": per_minute} if by == "r" else {"tokens_per_minute": per_minute}
        limits, taken = make(1000, burst_s=burst_s, **option), []

        async def call(tokens: int) -> None:
            async with limits.slot(tokens):
                taken.append((now(), 1.0 if by == "r" else float(tokens)))

        tasks = []
        for gap, tokens in requests:
            await asyncio.sleep(gap)
            tasks.append(asyncio.ensure_future(call(tokens)))
        last_arrival = now()
        await asyncio.gather(*tasks)
        return taken, last_arrival

    taken, last_arrival = run(scenario())
    assert len(taken) == len(requests)
    burst = max(1.0, per_minute * burst_s / 60, *(units for _, units in taken))
    for start, _ in taken:
        inside = sum(units for at, units in taken if start <= at < start + 60)
        assert inside <= (per_minute + burst) * (1 + 1e-9) + 1e-6
    assert taken[-1][0] <= last_arrival + sum(units for _, units in taken) * 60 / per_minute + 1e-6
