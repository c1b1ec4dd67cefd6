"""Sending one call until it is answered or cannot be, and stopping a run whose every call fails.

Back-off has full jitter and stays inside the limits. A rejection for rate (429) is a delay and not a failure: it has an
allowance of its own, so that a busy provider costs time and never an item. So is an outage in the middle of a run: all
calls wait for its end together, for minutes. What cannot succeed (a wrong key, an unknown
model, a text too long) is sent once. The circuit breaker ends a run that would only burn time and money.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from jrh_mlflow.engine.endings import ending_of
from jrh_mlflow.engine.interrupts import idle
from jrh_mlflow.engine.limits import Limits, Place, Slot
from jrh_mlflow.errors import JudgeError
from jrh_mlflow.models.transports import TransportError

T = TypeVar("T")
OnAttemptFailed = Callable[[TransportError, int], Awaitable[None] | None]

RATE_LIMITED = "rate_limited"
SERVICE_KINDS = frozenset({"server", "timeout", "unreachable", "connection"})
"""Failures of the service as a whole: the number of calls in flight must not grow into them."""
WAITED_FOR = SERVICE_KINDS - {"timeout"}
"""During an outage none of these uses up an attempt. A timeout does: it may be billed, and takes its time."""
PLAIN = frozenset({502, 503, 529})
"""Statuses by which a service, or what stands before it, says that it is down for everybody."""
SUSPECT_AFTER = 3
"""A call that failed so often while others were answered may be at fault itself: it is no sign of an outage."""

AT_ONCE = frozenset({"auth", "not_found"})
"""Before the first answer these say that the configuration is wrong; every further call would end the same way."""
OF_THE_ITEM = frozenset({"too_long"})
"""These are about one item and say nothing about the service."""

LONGEST_EXAMPLE = 200
LATER = "Start again later: calls that were answered are kept and not paid again."
ADVICE = {
    "auth": "Check the API key of this provider, and whether it may use this model.",
    "not_found": "Check the model name and `api_base`: does the address end in /v1?",
    "bad_request": "The provider refuses the request itself: check the model's settings and what is in `extra`. "
    "Most models that reason take no temperature: `temperature=None`, --temperature none.",
    "rate_limited": f"Lower `concurrency`, or wait for new quota. {LATER}",
    "malformed": "Check that `api_base` points to an endpoint that speaks this provider's dialect.",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class RetryPolicy:
    """How often and how long one call is tried."""

    max_attempts: int = 6
    """Attempts that may fail for another reason than rate."""
    max_rejections: int = 100
    """Rejections for rate (429) of one call before it counts as failed."""
    base_s: float = 0.5
    """The first back-off is uniform on [0, base_s]; each further one may be twice as long."""
    max_backoff_s: float = 10.0
    longest_wait_s: float = 600.0
    """A provider that asks for more, or that rejected every call for so long, has no quota left: the call fails."""
    longest_outage_s: float = 600.0
    """A service that has answered before and then fails every call is waited for this long."""
    deadline_s: float | None = None
    """A call is not tried again when that would start later than this after it was first asked for."""

    def __post_init__(self) -> None:
        if self.max_attempts < 1 or self.max_rejections < 1:
            raise ValueError(f"At least one attempt must be allowed, but got {self!r}.")
        if not min(self.base_s, self.max_backoff_s, self.longest_wait_s, self.longest_outage_s) >= 0:
            raise ValueError(f"Waiting times must not be negative, but got {self!r}.")

    def retries(self, error: TransportError) -> bool:
        """Whether trying again can help at all."""
        return error.retryable and _wait_asked(error) <= self.longest_wait_s


async def send_with_retries(
    send: Callable[[], Awaitable[T]],
    *,
    limits: Limits,
    policy: RetryPolicy,
    rng: random.Random,
    on_attempt_failed: OnAttemptFailed | None = None,
    before_send: Callable[[Place], Awaitable[None]] | None = None,
    before_wait: Callable[[], Awaitable[None]] | None = None,
    tokens: float = 0,
    tokens_used: Callable[[T], float | None] | None = None,
) -> T:
    """Send until there is an answer, and return it.

    Each attempt holds a slot only while it is sent: never during a back-off, and never while `on_attempt_failed` runs.
    Cancelling gives the slot back. Where the run is stopped, no further attempt is made.

    Args:
        send: Makes one attempt; raises `TransportError` when it fails. Any other exception passes through untouched.
        limits: Shared by all calls to one endpoint; told how each attempt ended.
        policy: How often and how long.
        rng: Source of jitter.
        on_attempt_failed: Told about every failed attempt, the last one included, with its number from 1. What it
            raises ends the call.
        before_send: Awaited before every attempt, before it gets its slot; what it raises ends the call.
        before_wait: Awaited before every back-off.
        tokens: Estimated tokens of one attempt, for tokens per minute.
        tokens_used: Reads the true number from an answer; None when the provider did not say.

    Raises:
        TransportError: The last failure, when it cannot or may not be tried again.
        NotAsked: The run was stopped while nothing was in flight.
    """
    tries = _Tries(policy=policy, rng=rng, started=limits.now())
    # Counted from here to the end, pauses included: an outage begins when all that are left fail.
    limits.trying += 1
    try:
        while True:
            try:
                async with limits.place() as place:
                    if before_send is not None:
                        await before_send(place)
                    async with limits.slot(tokens) as slot:
                        return await _attempt(send, slot, tries=tries, limits=limits, tokens_used=tokens_used)
            except TransportError as error:
                tries.count(error, limits)
                # Before the decision: an attempt that was perhaps billed must be booked even when it was the last.
                await _tell(on_attempt_failed, error, tries.attempts)
                delay = tries.delay(error, limits)
                if delay is None:
                    raise
            if before_wait is not None:
                await before_wait()
            with idle():
                await asyncio.sleep(delay)
    finally:
        limits.trying -= 1


async def _attempt(
    send: Callable[[], Awaitable[T]],
    slot: Slot,
    *,
    tries: _Tries,
    limits: Limits,
    tokens_used: Callable[[T], float | None] | None,
) -> T:
    """Send once, inside a slot, and tell the limits how it ended."""
    try:
        answer = await send()
    except TransportError as error:
        # Inside the slot: the window must know how many were in flight when this one ended.
        tries.tell(error, limits, slot)
        raise
    limits.on_success(slot)
    used = tokens_used(answer) if tokens_used else None
    if used is not None:
        slot.settle(used)
    return answer


@dataclass(kw_only=True, slots=True)
class _Tries:
    """What one call has been through."""

    policy: RetryPolicy
    rng: random.Random
    started: float
    rejections: int = 0
    waits: int = 0
    """Attempts that failed during an outage."""
    failures: int = 0
    unusable: int = 0
    """Of these, answers that were none: each is billed, and the next one is most likely no better."""

    @property
    def attempts(self) -> int:
        return self.rejections + self.waits + self.failures

    def tell(self, error: TransportError, limits: Limits, slot: Slot) -> None:
        """Tell the limits how an attempt ended."""
        if error.kind in SERVICE_KINDS:
            call = id(self) if self.failures < SUSPECT_AFTER else None
            limits.on_server_error(
                call=call,
                slot=slot,
                longest_outage_s=self.policy.longest_outage_s,
                is_plain=error.kind == "unreachable" or error.status in PLAIN,
            )
            return
        # Even a refusal proves that somebody is there.
        limits.on_reached(slot)
        if error.kind == RATE_LIMITED and self.policy.retries(error):
            limits.on_rate_limited(_wait_asked(error), slot=slot)

    def count(self, error: TransportError, limits: Limits) -> None:
        if error.kind == RATE_LIMITED:
            self.rejections += 1
        elif _is_outage(error, limits):
            self.waits += 1
        else:
            self.failures += 1
            self.unusable += ending_of(error).again == "once"

    def delay(self, error: TransportError, limits: Limits) -> float | None:
        """Return the seconds until the next attempt, or None when there is none."""
        if not self.policy.retries(error) or self._used_up(error, limits):
            return None
        seconds = self._backoff(error)
        # The shared pause holds a retry back too, so it counts towards the deadline.
        start = limits.now() + max(seconds, limits.pause_left)
        deadline = self.policy.deadline_s
        return None if deadline is not None and start > self.started + deadline else seconds

    def _used_up(self, error: TransportError, limits: Limits) -> bool:
        policy = self.policy
        if _is_outage(error, limits):
            return limits.is_too_long(policy.longest_outage_s)
        if error.kind != RATE_LIMITED:
            return self.failures >= policy.max_attempts or self.unusable > 1
        return self.rejections >= policy.max_rejections or limits.rejected_for > policy.longest_wait_s

    def _backoff(self, error: TransportError) -> float:
        """Draw from [0, base · 2^(n-1)], on top of what the provider asked for."""
        wait = _wait_asked(error)
        if wait and error.kind == RATE_LIMITED:
            # The shared pause already keeps everybody back: growing on top of it would only starve the unlucky.
            return wait + self.rng.uniform(0, self.policy.base_s)
        n = self.rejections if error.kind == RATE_LIMITED else self.failures
        # From zero, not from half: calls that failed together must not come back together.
        longest = min(self.policy.max_backoff_s, self.policy.base_s * 2.0 ** min(max(n, 1) - 1, 60))
        return wait + self.rng.uniform(0, longest)


def _is_outage(error: TransportError, limits: Limits) -> bool:
    return error.kind in WAITED_FOR and limits.is_down


def _wait_asked(error: TransportError) -> float:
    """Return the seconds of Retry-After; 0 when there is none, or when it is no length of time."""
    seconds = error.retry_after
    return seconds if seconds is not None and seconds > 0 else 0.0


async def _tell(on_attempt_failed: OnAttemptFailed | None, error: TransportError, attempt: int) -> None:
    if on_attempt_failed is None:
        return
    waiting = on_attempt_failed(error, attempt)
    if waiting is not None:
        await waiting


class Circuit:
    """Counts how calls ended and trips when the run is hopeless; once tripped it stays so.

    It trips

    - at once on a wrong key or an unknown model, when no call was answered yet;
    - after `consecutive` answers that are not usable, retried ones included, before the first one that is;
    - after `consecutive` failures in a row; once an answer was seen, after at least two rounds of the calls in flight,
      because one short outage fails all of them together;
    - when `share` of the last `window` calls failed.

    A failure is a call that failed for good, after its retries. An answer that cannot be parsed is an answer:
    it counts as success here.

    Args:
        concurrency: Most calls in flight.
        consecutive: Failures in a row.
        window: Calls over which the share is taken; fewer never trip on the share.
        share: Share of failed calls.
        service: Whose failures are counted, as the message names it.
    """

    def __init__(
        self,
        *,
        concurrency: int = 1,
        consecutive: int = 20,
        window: int = 200,
        share: float = 0.5,
        service: str = "The judge's service",
    ) -> None:
        if min(concurrency, consecutive, window) < 1 or not 0 < share <= 1:
            rule = "`concurrency, consecutive, window >= 1` and `0 < share <= 1` must hold"
            raise ValueError(f"{rule}, but got {concurrency=}, {consecutive=}, {window=}, {share=}.")
        self._consecutive = consecutive
        # An outage of a second fails all calls in flight at once; two such rounds are no accident any more.
        self._consecutive_later = max(consecutive, 2 * concurrency)
        self._share = share
        self._service = service
        self._last: deque[bool] = deque(maxlen=window)
        self._failed_of_last = 0
        self._in_a_row = self._unusable = 0
        self._answered = False
        self._reason: str | None = None

    def check(self) -> None:
        """Raise when the circuit has tripped; to be called before every call.

        Raises:
            JudgeError: In one line what failed, how often, an example and what to do.
        """
        if self._reason is not None:
            raise JudgeError(self._reason)

    def on_success(self) -> None:
        """Count a call that was answered, whatever the answer."""
        self._answered = True
        self._in_a_row = 0
        self._remember(failed=False)

    def on_attempt_failed(self, error: TransportError, _: int = 1) -> None:
        """Count an attempt that was answered, and paid, for nothing; its number is of no interest."""
        self._unusable += ending_of(error).again == "once"
        if not self._answered and self._unusable >= self._consecutive and self._reason is None:
            self._reason = f"{self._service} {_explain(error, f'{self._unusable} times before any usable answer')}"

    def on_failure(self, error: TransportError) -> None:
        """Count a call that failed for good."""
        # A suite with many long texts must not look like a service that is down.
        if error.kind in OF_THE_ITEM:
            return
        self._in_a_row += 1
        self._remember(failed=True)
        if self._reason is None:
            how_often = self._how_often(error)
            self._reason = how_often and f"{self._service} {_explain(error, how_often)}"

    def _how_often(self, error: TransportError) -> str | None:
        """Say what makes the run hopeless, or None while it is not."""
        if error.kind in AT_ONCE and not self._answered:
            return "before any call was answered"
        if self._in_a_row >= (self._consecutive_later if self._answered else self._consecutive):
            return f"{self._in_a_row} times in a row"
        window = self._last.maxlen
        if len(self._last) == window and self._failed_of_last >= self._share * window:
            return f"in {self._failed_of_last} of the last {window} calls"
        return None

    def _remember(self, *, failed: bool) -> None:
        if len(self._last) == self._last.maxlen:
            self._failed_of_last -= self._last[0]
        self._last.append(failed)
        self._failed_of_last += failed


def _explain(error: TransportError, how_often: str) -> str:
    status = f" (HTTP {error.status})" if error.status is not None else ""
    advice = ADVICE.get(error.kind, f"The service is down or cannot be reached. {LATER}")
    # The error's text is one printable line without keys already: `TransportError` sees to it.
    example = str(error)
    if len(example) > LONGEST_EXAMPLE:
        example = f"{example[: LONGEST_EXAMPLE - 1]}…"
    return f"failed {how_often}{status}, e.g. {example!r}. {advice}"
