from __future__ import annotations

import asyncio
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.engine.limits_tools import calls, make
from tests.engine.virtual_time import now, run
from tests.examples import up_to


def test_cancelling_a_call_in_flight_gives_its_slot_to_the_next() -> None:
    async def scenario() -> tuple[list[float], int]:
        limits = make(1)
        holder = asyncio.ensure_future(calls(limits, 1, seconds=1000))
        await asyncio.sleep(1)
        waiting = asyncio.ensure_future(calls(limits, 1))
        await asyncio.sleep(1)
        holder.cancel()
        return await waiting, limits.in_flight

    assert run(scenario()) == ([2.0], 0)


def test_cancelling_the_first_in_the_queue_lets_the_second_go_at_once() -> None:
    async def scenario() -> list[float]:
        limits = make(64, tokens_per_minute=600, burst_s=30)
        await calls(limits, 1, tokens=300)
        first = asyncio.ensure_future(calls(limits, 1, tokens=300))
        await asyncio.sleep(1)
        second = asyncio.ensure_future(calls(limits, 1, tokens=10))
        await asyncio.sleep(4)
        first.cancel()
        return await second

    assert run(scenario()) == [pytest.approx(5.1)]


def test_cancelling_in_the_turn_of_the_loop_that_admits_the_caller_leaves_no_slot_taken() -> None:
    async def scenario() -> tuple[bool, int]:
        limits = make(1)
        async with limits.slot():
            waiting = asyncio.ensure_future(calls(limits, 1))
            await asyncio.sleep(0.1)
        waiting.cancel()  # Admitted by the end of the block, and not yet awake.
        await asyncio.wait([waiting])
        return waiting.cancelled(), limits.in_flight

    assert run(scenario()) == (True, 0)


@settings(max_examples=up_to(100), deadline=None)
@given(
    seed=st.integers(0, 10_000),
    cancelled=st.lists(st.tuples(st.integers(0, 29), st.floats(0, 3)), max_size=25),
    per_minute=st.sampled_from([None, 300]),
)
def test_whoever_is_cancelled_and_when_no_slot_stays_taken_and_all_others_finish(
    seed: int, cancelled: list[tuple[int, float]], per_minute: int | None
) -> None:
    async def scenario() -> tuple[int, int, int]:
        rng, limits = random.Random(seed), make(4, requests_per_minute=per_minute)

        async def call() -> None:
            async with limits.slot() as slot:
                await asyncio.sleep(rng.random())
                if rng.random() < 0.2:
                    limits.on_rate_limited(rng.random(), slot=slot)
                else:
                    limits.on_success()

        tasks = [asyncio.ensure_future(call()) for _ in range(30)]
        for index, at in sorted(cancelled, key=lambda pair: pair[1]):
            await asyncio.sleep(at - now() if at > now() else 0)
            tasks[index].cancel()
        await asyncio.wait(tasks)
        return limits.in_flight, sum(not task.cancelled() for task in tasks), len(await calls(limits, 10))

    in_flight, finished, later = run(scenario())
    assert in_flight == 0
    assert finished >= 30 - len({index for index, _ in cancelled})
    assert later == 10


def test_limits_serve_a_second_event_loop_after_the_first_was_cancelled_in_a_pause() -> None:
    limits = make(2)

    async def first() -> None:
        async with limits.slot() as slot:
            limits.on_rate_limited(5.0, slot=slot)
        waiting = asyncio.ensure_future(calls(limits, 4))
        await asyncio.sleep(1)
        waiting.cancel()
        await asyncio.wait([waiting])
        await asyncio.sleep(0)

    run(first())
    assert 5.0 <= run(calls(limits, 4))[0] <= 5.5
