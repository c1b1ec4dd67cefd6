"""The way to one model: journal, budget, limits, transport; every answer is durable before it is used."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from jrh_mlflow.engine.budget import ATTEMPT, AnsweredElsewhere, Budget, OutOfBudget, Paid
from jrh_mlflow.engine.endings import ending_of, failure_micro
from jrh_mlflow.engine.interrupts import NotAsked, check_stopped, idle
from jrh_mlflow.engine.journal import Journal
from jrh_mlflow.engine.journal.rows import Held
from jrh_mlflow.engine.limits import Limits, Place
from jrh_mlflow.engine.retries import Circuit, RetryPolicy, send_with_retries
from jrh_mlflow.models.catalog import context_window, endpoint_of
from jrh_mlflow.models.prices import (
    BYTES_PER_TOKEN,
    Price,
    believed,
    cost_micro,
    prompt_size,
    response_micro,
    worst_case_micro,
)
from jrh_mlflow.models.transports import TransportError, known_secrets, make_transport, pick_transport
from jrh_mlflow.schema.requests import Request, Response
from jrh_mlflow.text import SHORTEST_SECRET, blank_secrets

if TYPE_CHECKING:
    from typing_extensions import Self

logger = logging.getLogger("jrh_mlflow")

OnFailed = Callable[[TransportError, int], None]
"""Told about every failed attempt and its number."""
WhyUnusable = Callable[[Response], "str | None"]
"""Says why a response holds nothing to keep (a refusal, no text), or None: it is recorded, but asked again."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ClientSettings:
    """How a model is asked; nothing in it is part of a request."""

    concurrency: int = 32
    timeout_s: float = 120.0
    requests_per_minute: float | None = None
    tokens_per_minute: float | None = None
    budget: str | None = None
    """Name of a budget opened in the journal; None for no cap."""
    price: Price | None = None
    policy: RetryPolicy = field(default_factory=RetryPolicy)
    fresh_after: float | None = None
    """Answers in the journal of before this moment (seconds since 1970) are asked again."""
    keep_unreadable: bool = False
    """Whether answers are served that ended a run because none of its first ones could be read."""
    transport: str | None = None
    """`direct`, `litellm` or a plugin; chosen from the model and its address when None."""


@dataclass(kw_only=True, slots=True)
class Booking:
    """The money of one call: what is set aside for its next attempt, and what those that failed have cost."""

    budget: Budget
    request: Request
    key: str
    price: Price | None
    worst_micro: int
    replaces_before: float | None
    """An answer of before this moment makes way."""
    paid: tuple[Paid, ...]
    """Where attempts are counted: of this call, and of all."""
    on_failed: Sequence[OnFailed]
    is_held: bool = False
    is_sent: bool = False
    """Whether what is held is for an attempt that was begun."""
    unknown: list[tuple[Held, str]] = field(default_factory=list)
    """Failed attempts that are booked at the worst case, with the reason."""

    async def reserve(self, place: Place) -> None:
        """Set the worst case of an attempt aside; a call that waits for money leaves its place to others."""
        with idle():
            model, before, aside = self.request.model, self.replaces_before, place.aside
            await self.budget.reserve(self.key, self.worst_micro, replaces_before=before, model=model, aside=aside)
        self.is_held, self.is_sent = True, False

    async def settle(self, error: TransportError, attempt: int) -> None:
        """Book a failed attempt; of one that cost nothing what was set aside is taken back before the next."""
        micro, is_known = failure_micro(error, self.price, self.worst_micro)
        if error.usage is not None or ending_of(error).booked != "nothing":
            self.count(micro if is_known else None)
        for tell in self.on_failed:
            tell(error, attempt)
        if is_known and not micro:
            self.is_sent = False
            return
        self.is_held = False
        held = await self.budget.attempt_failed(self.request, self.key, error, attempt=attempt, cost_micro=micro)
        if not is_known:
            self.unknown.append((held, f"{ATTEMPT} {attempt}: {error}"))

    def count(self, cost_micro: int | None) -> None:
        """Count an attempt that was billed, or perhaps; a cost of None is unknown."""
        for paid in self.paid:
            paid.add(cost_micro, worst_micro=self.worst_micro)

    async def bound(self, response: Response) -> None:
        """Book no more for attempts of unknown cost than the prompt that this one tells, and the longest answer."""
        if self.price is None or response.input_tokens is None:
            return
        micro = cost_micro(self.price, response.input_tokens, self.request.max_tokens or 0)
        for held, reason in self.unknown if micro < self.worst_micro else ():
            if held.id:
                await self.budget.bound(self.request, self.key, reason, held, cost_micro=micro)
            for paid in self.paid:
                paid.worst_micro -= self.worst_micro - micro
        self.unknown.clear()

    async def release(self) -> None:
        """Take back what is set aside for an attempt that is not made."""
        if self.is_held:
            self.is_held = False
            await self.budget.release(self.key)

    async def end(self, reason: str) -> None:
        """Record how a call ended whose last attempt cost nothing."""
        if self.is_held:
            self.is_held = False
            await self.budget.failed(self.request, self.key, reason, cost_micro=0)


class ModelClient:
    """Asks one model through one transport. Opened with `async with`; `ask` may be awaited many times at once."""

    def __init__(
        self,
        model: str,
        api_base: str | None,
        journal: Journal,
        settings: ClientSettings,
        *,
        budget: Budget | None = None,
    ) -> None:
        """Describe the way; nothing is opened yet.

        Args:
            model: A litellm model name.
            api_base: Of an endpoint of one's own.
            journal: Where answers are kept.
            settings: Limits, prices and the budget.
            budget: Shared with the other clients of a run that spend from the same budget.
        """
        self.model, self.journal, self.settings = model, journal, settings
        self._budget = budget or Budget(journal, settings.budget)
        self._limits = Limits(
            settings.concurrency,
            requests_per_minute=settings.requests_per_minute,
            tokens_per_minute=settings.tokens_per_minute,
        )
        self._circuit = Circuit(concurrency=settings.concurrency, service=f"The service of {model}")
        name = settings.transport or pick_transport(model, api_base)
        self._transport = make_transport(name, concurrency=settings.concurrency)
        self._secrets = [secret for secret in known_secrets() if len(secret) >= SHORTEST_SECRET]
        self._warned = self._stopped = False
        self.paid = Paid()
        """All attempts, whatever became of their calls."""
        self._rng = random.Random()  # noqa: S311 - jitter, not a secret
        self._window = context_window(model)

    async def __aenter__(self) -> Self:
        await self._transport.__aenter__()
        return self

    async def __aexit__(self, *details: Any) -> None:
        await self._transport.__aexit__(*details)

    def kept(self, key: str) -> Response | None:
        """Return the journalled answer of a call, where it is fresh enough."""
        return self._budget.kept(key, newer_than=self.settings.fresh_after)

    async def send(
        self,
        request: Request,
        key: str,
        *,
        unusable: WhyUnusable,
        replaces_before: float | None = None,
        attempts: Paid | None = None,
        on_failed: OnFailed | None = None,
    ) -> Response:
        """Send a request whose answer is not in the journal, and keep what comes back.

        Args:
            request: What to send.
            key: Of the call.
            unusable: Says of a response why there is nothing in it to keep.
            replaces_before: An answer of before this moment makes way; `fresh_after` when None.
            attempts: Filled with what the attempts came to, whether or not one of them is answered.
            on_failed: Told about every attempt that fails, on receipt.

        Raises:
            AnsweredElsewhere: Another process, or another caller, has answered it in the meantime.
            OutOfBudget: The cap does not cover this call; nothing was sent.
            NotAsked: The run was stopped while this call had nothing in flight.
            JudgeError: The circuit has tripped: the service fails for good.
            TransportError: This call failed for good.
        """
        size = prompt_size(request)
        if self._window is not None and size > BYTES_PER_TOKEN * self._window:
            # A text this long cannot fit, and is never cut to make it fit.
            raise TransportError("too_long", f"about {size // BYTES_PER_TOKEN} tokens, the model takes {self._window}")
        self._circuit.check()
        try:
            _check_endpoint(request)
            booking = Booking(
                budget=self._budget,
                request=request,
                key=key,
                price=self.settings.price,
                worst_micro=self.worst_micro(request, size),
                replaces_before=replaces_before or self.settings.fresh_after,
                paid=(attempts or Paid(), self.paid),
                on_failed=(self._circuit.on_attempt_failed, *filter(None, [on_failed])),
            )
            response = await self._send(booking, size)
        except TransportError as error:
            self._circuit.on_failure(error)
            if error.retryable:
                # At once: the others that failed in the same way need not be tried to the end.
                self._circuit.check()
            raise
        self._circuit.on_success()
        # Read before it is kept: a refusal that was kept as an answer would be served for ever.
        cost, problem = self.cost_micro(response), unusable(response)
        booking.count(cost)
        await booking.bound(response)
        if problem is None:
            stands = await self._budget.answered(request, key, response, cost_micro=cost)
            if not stands and (kept := self.kept(key)):
                raise AnsweredElsewhere(kept)
        else:
            await self._budget.failed(request, key, problem, cost_micro=cost, response=response)
        return response

    async def _send(self, booking: Booking, size: int) -> Response:
        request = booking.request
        try:
            return await send_with_retries(
                lambda: self._send_once(request, booking),
                limits=self._limits,
                policy=self.settings.policy,
                rng=self._rng,
                on_attempt_failed=booking.settle,
                before_send=booking.reserve,
                before_wait=booking.release,
                tokens=size / BYTES_PER_TOKEN + (request.max_tokens or 0),
                tokens_used=_tokens_used,
            )
        except TransportError as error:
            await booking.end(str(error))
            raise
        except (OutOfBudget, NotAsked, asyncio.CancelledError):
            # One that is cancelled in flight may be billed.
            if not booking.is_sent:
                await booking.release()
            raise

    def stop_sending(self) -> None:
        """Send nothing more: calls that only wait end as `NotAsked`."""
        self._stopped = True

    async def _send_once(self, request: Request, booking: Booking) -> Response:
        self._budget.check()
        # With slot and money in hand: while a call waited for them, the run may have been stopped.
        check_stopped()
        if self._stopped:
            raise NotAsked
        self.journal.mark_sent(booking.key)
        booking.is_sent = True
        response = await self._transport.send(request, timeout_s=self.settings.timeout_s)
        # A service may echo the key it was sent, in any field; from here on they go into files.
        text = response.to_json()
        if any(secret in text for secret in self._secrets):
            response = Response.from_json(blank_secrets(text, self._secrets))
        self._note_model(response.model)
        return believed(self.settings.price, response)

    def _note_model(self, answered: str | None) -> None:
        """Say once when another model than the one asked for answers; the calls record its name."""
        name = self.model.rpartition("/")[2]
        if answered and name not in answered and not self._warned:
            self._warned = True
            logger.warning("Asked %r, but %r answers: every call records who did.", self.model, answered[:80])

    def worst_micro(self, request: Request, size: int | None = None) -> int:
        """Return what an attempt may cost at most; 0 where no price is known."""
        price, limit = self.settings.price, request.max_tokens or 0
        return 0 if price is None else worst_case_micro(price, prompt_size(request) if size is None else size, limit)

    def cost_micro(self, response: Response) -> int | None:
        """Return what a response cost, or None when its price or its usage is unknown."""
        return response_micro(self.settings.price, response)


def _check_endpoint(request: Request) -> None:
    """Refuse to ask another endpoint than the one whose answers stand under the request's key."""
    here = None if request.api_base else endpoint_of(request.model)
    if here != request.endpoint:
        place = f"{request.model} was to be asked at {request.endpoint or 'its usual address'}"
        way = "Set the same address in the environment of every process, or give api_base."
        raise TransportError("bad_request", f"{place}, but here the environment says {here or 'nothing'}. {way}")


def _tokens_used(response: Response) -> float | None:
    if response.input_tokens is None or response.output_tokens is None:
        return None
    return response.input_tokens + response.output_tokens
