from __future__ import annotations

import asyncio
import itertools
import random
from contextlib import AsyncExitStack

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jrh_mlflow.engine.limits import Limits, Slot
from tests.engine.virtual_time import now, run


def make(concurrency: int = 8, **options: float | None) -> Limits:
    return Limits(concurrency, rng=random.Random(1), **options)  # type: ignore[arg-type]


async def calls(limits: Limits, n: int, *, seconds: float = 0.1, tokens: float = 0) -> list[float]:
    """Make `n` successful calls at once and return when each began."""
    began: list[float] = []

    async def call() -> None:
        async with limits.slot(tokens):
            began.append(now())
            await asyncio.sleep(seconds)
            limits.on_success()

    await asyncio.gather(*(call() for _ in range(n)))
    return began


async def take(stack: AsyncExitStack, limits: Limits, n: int) -> list[Slot]:
    return [await stack.enter_async_context(limits.slot()) for _ in range(n)]


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


@pytest.mark.parametrize(("cap", "start"), [(1, 1), (5, 5), (8, 8), (12, 8), (32, 16), (64, 32)])
def test_the_limit_starts_at_half_of_the_cap_but_not_under_eight(cap: int, start: int) -> None:
    assert make(cap).limit == start


def test_the_limit_doubles_in_one_window_of_successes_and_stops_at_the_cap() -> None:
    async def scenario() -> list[int]:
        limits = make(100)
        seen = [limits.limit]
        for n in (50, 100):
            await calls(limits, n)
            seen.append(limits.limit)
        return seen

    assert run(scenario()) == [50, 100, 100]


@settings(max_examples=50, deadline=None)
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
        limits, seen = make(64), []
        async with AsyncExitStack() as stack:
            await take(stack, limits, 32)
            limits.on_server_error()
            seen.append(limits.limit)
            for _ in range(32):
                limits.on_success()
            seen.append(limits.limit)
            limits.on_success()
            seen.append(limits.limit)
        return seen

    assert run(scenario()) == [32, 32, 33]


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


@settings(max_examples=150, deadline=None)
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


# Cancelling


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


def test_cancelling_in_the_turn_of_the_loop_that_admits_the_caller_leaves_no_slot_taken() -> None:
    async def scenario() -> tuple[bool, int]:
        limits = make(1)
        async with limits.slot():
            waiting = asyncio.ensure_future(calls(limits, 1))
            await asyncio.sleep(0)
        waiting.cancel()  # Admitted by the line above, and not yet awake.
        await asyncio.wait([waiting])
        return waiting.cancelled(), limits.in_flight

    assert run(scenario()) == (True, 0)


@settings(max_examples=100, deadline=None)
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
