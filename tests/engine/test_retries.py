from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import Awaitable, Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jrh_mlflow.engine.limits import Limits
from jrh_mlflow.engine.retries import RetryPolicy, send_with_retries
from jrh_mlflow.models.transports import RETRYABLE, FailureKind, TransportError
from tests.engine.virtual_time import now, run
from tests.examples import up_to

HOPELESS: tuple[FailureKind, ...] = ("auth", "bad_request", "not_found", "too_long")


def error(kind: FailureKind = "server", retry_after: float | None = None) -> TransportError:
    return TransportError(kind, "made up for a test", retry_after=retry_after)


class Script:
    """A provider that fails as told and then answers; remembers when it was asked."""

    def __init__(self, *failures: Exception, seconds: float = 0.1) -> None:
        self.failures = list(failures)
        self.seconds = seconds
        self.asked: list[float] = []

    async def __call__(self) -> str:
        self.asked.append(now())
        await asyncio.sleep(self.seconds)
        if self.failures:
            raise self.failures.pop(0)
        return "answer"


async def ask(
    send: Callable[[], Awaitable[str]],
    *,
    limits: Limits | None = None,
    policy: RetryPolicy | None = None,
    on_attempt_failed: Callable[[TransportError, int], Awaitable[None] | None] | None = None,
    seed: int = 1,
) -> str:
    return await send_with_retries(
        send,
        limits=limits or Limits(8, rng=random.Random(seed)),
        policy=policy or RetryPolicy(),
        rng=random.Random(seed),
        on_attempt_failed=on_attempt_failed,
    )


async def outcome(send: Script, **options: object) -> str:
    try:
        return await ask(send, **options)  # type: ignore[arg-type]
    except TransportError as raised:
        return raised.kind


# How often


@pytest.mark.parametrize("kind", sorted(RETRYABLE - {"malformed"}))
def test_a_failure_that_may_pass_is_tried_again_until_there_is_an_answer(kind: FailureKind) -> None:
    script = Script(error(kind), error(kind))
    assert run(outcome(script)) == "answer"
    assert len(script.asked) == 3


def test_an_answer_that_is_not_usable_is_asked_for_once_more() -> None:
    assert run(outcome(once := Script(error("malformed")))) == "answer"
    assert run(outcome(twice := Script(error("malformed"), error("server"), error("malformed")))) == "malformed"
    assert (len(once.asked), len(twice.asked)) == (2, 3)


@pytest.mark.parametrize("kind", HOPELESS)
def test_a_failure_that_cannot_pass_is_sent_once(kind: FailureKind) -> None:
    script = Script(error(kind, retry_after=1.0))
    assert run(outcome(script)) == kind
    assert len(script.asked) == 1


def test_other_failures_than_rate_end_the_call_after_six_attempts() -> None:
    script = Script(*[error("server")] * 50)
    assert run(outcome(script)) == "server"
    assert len(script.asked) == 6


def test_rejections_for_rate_do_not_use_up_the_attempts() -> None:
    script = Script(*[error("rate_limited", 2.0)] * 90, *[error("timeout")] * 5)
    assert run(outcome(script)) == "answer"
    assert len(script.asked) == 96


def test_the_last_failure_itself_is_raised() -> None:
    last = error("connection")
    script = Script(error("server"), last)
    with pytest.raises(TransportError) as raised:
        run(ask(script, policy=RetryPolicy(max_attempts=2)))
    assert raised.value is last


def test_an_exception_that_is_no_transport_error_passes_through_at_once_and_frees_the_slot() -> None:
    limits, script = Limits(1), Script(RuntimeError("a bug"))
    with pytest.raises(RuntimeError, match="a bug"):
        run(ask(script, limits=limits))
    assert (len(script.asked), limits.in_flight) == (1, 0)


# How long


@pytest.mark.parametrize("kind", ["rate_limited", "server"])
@pytest.mark.parametrize("retry_after", [0.3, 1.5, 20.0, 599.5])
def test_retry_after_is_the_shortest_wait_and_half_a_second_with_a_tenth_the_most_on_top(
    kind: FailureKind, retry_after: float
) -> None:
    script = Script(error(kind, retry_after))
    assert run(outcome(script)) == "answer"
    waited = script.asked[1] - script.asked[0] - script.seconds
    assert retry_after <= waited <= retry_after + max(0.5, min(1.0, retry_after / 10))


@settings(max_examples=up_to(60), deadline=None)
@given(seed=st.integers(0, 10**6))
def test_the_back_off_is_drawn_from_zero_up_to_a_bound_that_doubles(seed: int) -> None:
    script = Script(*[error("server")] * 9, seconds=0.0)
    policy = RetryPolicy(max_attempts=10)
    assert run(outcome(script, policy=policy, seed=seed)) == "answer"
    waits = [after - before for before, after in itertools.pairwise(script.asked)]
    for n, wait in enumerate(waits):
        assert 0 <= wait <= min(10.0, 0.5 * 2**n) + 1e-9


def test_the_jitter_is_full() -> None:
    def wait(seed: int) -> float:
        script = Script(error("server"), seconds=0.0)
        run(outcome(script, seed=seed))
        return script.asked[1]

    waits = [wait(seed) for seed in range(200)]
    assert min(waits) < 0.05
    assert max(waits) > 0.45
    assert 0.2 < sum(waits) / len(waits) < 0.3


@pytest.mark.parametrize("kind", ["rate_limited", "server"])
def test_a_provider_that_asks_for_more_than_the_longest_wait_fails_the_call_and_pauses_nobody(
    kind: FailureKind,
) -> None:
    async def scenario() -> tuple[str, float]:
        limits = Limits(8)
        return await outcome(Script(error(kind, 86_400.0)), limits=limits), limits.pause_left

    assert run(scenario()) == (kind, 0.0)


def test_rejections_of_every_call_for_longer_than_the_longest_wait_end_the_call() -> None:
    async def scenario() -> tuple[list[str], float]:
        limits = Limits(16, rng=random.Random(1))
        scripts = [Script(*[error("rate_limited")] * 10_000) for _ in range(16)]
        return await asyncio.gather(*(outcome(script, limits=limits) for script in scripts)), now()

    outcomes, seconds = run(scenario())
    assert outcomes == ["rate_limited"] * 16
    assert 600 <= seconds <= 1200


def test_no_attempt_is_made_that_would_start_after_the_deadline() -> None:
    async def scenario(retry_after: float) -> tuple[str, float]:
        return await outcome(Script(error("server", retry_after)), policy=RetryPolicy(deadline_s=10.0)), now()

    assert run(scenario(5.0))[0] == "answer"
    assert run(scenario(20.0)) == ("server", 0.1)


@pytest.mark.parametrize("bad", [{"max_attempts": 0}, {"max_rejections": 0}, {"base_s": -1}, {"longest_wait_s": -1}])
def test_a_policy_that_allows_no_attempt_or_a_negative_wait_is_refused(bad: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="must"):
        RetryPolicy(**bad)  # type: ignore[arg-type]


# What it tells


def test_every_failed_attempt_is_told_with_its_number_the_last_one_too() -> None:
    told: list[tuple[str, int]] = []
    script = Script(error("rate_limited", 1.0), error("server"), error("auth"))
    assert run(outcome(script, on_attempt_failed=lambda e, n: told.append((e.kind, n)))) == "auth"
    assert told == [("rate_limited", 1), ("server", 2), ("auth", 3)]


def test_no_slot_is_held_while_a_failure_is_being_told_or_slept_off() -> None:
    limits = Limits(1, rng=random.Random(1))
    held: list[int] = []

    async def told(_: TransportError, __: int) -> None:
        held.append(limits.in_flight)
        await asyncio.sleep(3.0)
        held.append(limits.in_flight)

    async def scenario() -> list[float]:
        first = asyncio.ensure_future(ask(Script(error("server", 50.0)), limits=limits, on_attempt_failed=told))
        await asyncio.sleep(5.0)
        held.append(limits.in_flight)
        second = Script()
        await outcome(second, limits=limits)
        await first
        return second.asked

    assert run(scenario()) == [5.0]
    assert held == [0, 0, 0]


def test_what_the_listener_raises_ends_the_call() -> None:
    def refuse(_: TransportError, __: int) -> None:
        raise KeyError("no money left")

    script = Script(error("server"))
    with pytest.raises(KeyError, match="no money left"):
        run(ask(script, on_attempt_failed=refuse))
    assert len(script.asked) == 1


def test_a_rejection_pauses_the_other_callers_and_a_server_error_does_not() -> None:
    async def scenario(kind: FailureKind) -> float:
        limits = Limits(8, rng=random.Random(1))
        first = asyncio.ensure_future(ask(Script(error(kind, 30.0)), limits=limits))
        await asyncio.sleep(1.0)
        second = Script()
        await outcome(second, limits=limits)
        await first
        return second.asked[0]

    assert 30.1 <= run(scenario("rate_limited")) <= 31.1
    assert run(scenario("server")) == 1.0


def test_the_tokens_of_an_answer_correct_the_estimate() -> None:
    async def scenario() -> list[float]:
        limits, script = Limits(8, tokens_per_minute=600), Script(seconds=0.0)
        for _ in range(3):
            await send_with_retries(
                script,
                limits=limits,
                policy=RetryPolicy(),
                rng=random.Random(1),
                tokens=100,
                tokens_used=lambda _: 20,
            )
        return script.asked

    assert run(scenario()) == pytest.approx([0.0, 2.0, 4.0])


# Cancelling


@settings(max_examples=up_to(100), deadline=None)
@given(at=st.floats(0, 12), seed=st.integers(0, 100))
def test_whenever_a_call_is_cancelled_it_ends_at_once_and_holds_no_slot(at: float, seed: int) -> None:
    async def scenario() -> tuple[bool, float, int]:
        limits = Limits(1, rng=random.Random(seed))
        failures = [error("server"), error("rate_limited", 2.0), error("timeout"), error("connection")] * 3
        script = Script(*failures, seconds=1.0)
        task = asyncio.ensure_future(ask(script, limits=limits, seed=seed))
        await asyncio.sleep(at)
        task.cancel()
        await asyncio.wait([task])
        return task.cancelled(), now(), limits.in_flight

    cancelled, ended, in_flight = run(scenario())
    assert cancelled
    assert ended == pytest.approx(at, abs=1e-9)  # timers fire early by the resolution of the clock
    assert in_flight == 0
