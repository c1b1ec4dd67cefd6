"""Asking a model: journal first, then money, limits and lane; every answer is durable before it is used."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections import Counter
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING, Any

from jrh_mlflow.engine.circuit import Circuit
from jrh_mlflow.engine.journal import Journal
from jrh_mlflow.engine.lanes import Lane, LaneError, make_lane, pick_lane
from jrh_mlflow.engine.lanes._base import known_secrets
from jrh_mlflow.engine.limits import Limits
from jrh_mlflow.engine.prices import Price, context_window, cost_micro, prompt_size, worst_case_micro
from jrh_mlflow.engine.retries import RetryPolicy, send_with_retries
from jrh_mlflow.judges.parsing import Reading
from jrh_mlflow.judges.prompted import PromptedJudge
from jrh_mlflow.schema.calls import CallRecord
from jrh_mlflow.schema.items import Call
from jrh_mlflow.schema.presentation import Presentation
from jrh_mlflow.schema.requests import Request, Response
from jrh_mlflow.schema.secrets import blank_secrets

if TYPE_CHECKING:
    from typing_extensions import Self

logger = logging.getLogger("jrh_mlflow")

PERHAPS_BILLED = frozenset({"timeout", "connection", "malformed"})
"""The provider may have worked on these attempts, and bill them: they settle at their worst case."""
NOT_SERVED = frozenset({"refusal", "empty_choices", "empty_content", "content_filter"})
"""Responses without an answer in them: recorded, but asked again when the run is repeated."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RemoteSettings:
    """How a model is asked; nothing in it can change an answer."""

    concurrency: int = 32
    timeout_s: float = 120.0
    requests_per_minute: float | None = None
    tokens_per_minute: float | None = None
    budget: str | None = None
    """Name of a budget opened in the journal; None for no cap."""
    price: Price | None = None
    policy: RetryPolicy = field(default_factory=RetryPolicy)
    lane: str | None = None
    """`direct` or `litellm`; chosen from the model and its address when None."""


class OutOfBudget(Exception):  # noqa: N818 - a signal, not a failure
    """The cap does not cover the worst case of one more call."""


class Numbering:
    """Renders calls and names them for the journal, in the order of the plan.

    The n-th identical request of a run has the replicate number n, whether it comes from a replicate or from the
    other order of a pair of equal texts: each is a call of its own, and the journal never serves one for two.
    """

    def __init__(self, judge: PromptedJudge) -> None:
        self._judge = judge
        self._asked: Counter[str] = Counter()
        self._latest: dict[str, tuple[Presentation, Request]] = {}

    def prepare(self, call: Call) -> tuple[Request, str]:
        """Return a call's request and its key."""
        shown, request = self._latest.get(call.order, (None, None))
        if shown is not call.presentation or request is None:
            # Replicates of a presentation follow one another: it is rendered and hashed once.
            request = self._judge.request(call)
            self._latest[call.order] = (call.presentation, request)
        first = request.key(0)
        number = self._asked[first]
        self._asked[first] += 1
        return request, request.key(number) if number else first


class Remote:
    """Asks one prompted judge through one lane. Opened with `async with`; `ask` may be awaited many times at once."""

    def __init__(self, judge: PromptedJudge, journal: Journal, settings: RemoteSettings) -> None:
        self.judge, self.journal, self.settings = judge, journal, settings
        self._limits = Limits(
            settings.concurrency,
            requests_per_minute=settings.requests_per_minute,
            tokens_per_minute=settings.tokens_per_minute,
        )
        self._circuit = Circuit(concurrency=settings.concurrency)
        name = settings.lane or pick_lane(judge.model, judge.api_base)
        self._lane: Lane = make_lane("direct" if name == "direct" else "litellm", concurrency=settings.concurrency)
        self._secrets = known_secrets()
        self._told = False
        self._held = 0
        """Reservations of this run that are not settled yet."""
        self._settled = asyncio.Event()
        """Set, and replaced, whenever one is."""
        self._rng = random.Random()  # noqa: S311 - jitter, not a secret
        self.prepare = Numbering(judge).prepare
        self._window = context_window(judge.model)

    async def __aenter__(self) -> Self:
        await self._lane.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._lane.__aexit__(kind, error, trace)

    async def ask(self, call: Call, request: Request, key: str) -> CallRecord:
        """Ask one call, or serve its journalled answer.

        Raises:
            OutOfBudget: The cap does not cover this call; nothing was sent.
            JudgeError: The circuit has tripped: the service fails for good.
        """
        kept = self.journal.get(key)
        if kept is not None:
            return self._record(call, key, Response.from_json(kept), cached=True)
        size = prompt_size(request)
        if self._window is not None and size > 4 * self._window:
            # Four bytes a token on average: a text this long cannot fit, and is never cut to make it fit.
            return self._failure(call, key, f"too_long: about {size // 4} tokens, the model takes {self._window}")
        self._circuit.check()
        started = time.perf_counter()
        try:
            response = await self._send(request, key, size)
        except LaneError as error:
            self._circuit.on_failure(error)
            return self._failure(call, key, str(error), latency_s=time.perf_counter() - started)
        self._circuit.on_success()
        return await self._keep(call, request, key, response, latency_s=time.perf_counter() - started)

    async def _send(self, request: Request, key: str, size: int) -> Response:
        worst = self._worst(request, size)
        await self._reserve(key, worst)

        async def settle_attempt(error: LaneError, attempt: int) -> None:
            if error.kind in PERHAPS_BILLED:
                await self._failed(request, key, f"attempt {attempt}: {error}", cost=worst)
                await self._reserve(key, worst)

        try:
            return await send_with_retries(
                lambda: self._lane_send(request),
                limits=self._limits,
                policy=self.settings.policy,
                rng=self._rng,
                on_attempt_failed=settle_attempt,
                tokens=size / 4 + (request.max_tokens or 0),
                tokens_used=_tokens_used,
            )
        except LaneError as error:
            await self._failed(request, key, str(error), cost=0)
            raise

    async def _lane_send(self, request: Request) -> Response:
        response = await self._lane.send(request, timeout_s=self.settings.timeout_s)
        # A service may echo the key it was sent, in any field; from here on they go into files.
        told = response.to_json()
        safe = blank_secrets(told, self._secrets)
        if safe != told:
            response = Response.from_json(safe)
        self._note_model(response.model)
        return response

    def _note_model(self, answered: str | None) -> None:
        """Say once when another model than the one asked for answers; the calls record its name."""
        asked = self.judge.model.rpartition("/")[2]
        if answered and asked not in answered and not self._told:
            self._told = True
            logger.warning("Asked %r, but %r answers: every call records who did.", self.judge.model, answered[:80])

    async def _reserve(self, key: str, worst: int) -> None:
        """Set the worst case aside. When it does not fit, calls in flight may still give most of theirs back."""
        while not await self.journal.reserve(key, budget=self.settings.budget, worst_micro=worst):
            if not self._held:
                raise OutOfBudget
            settled = self._settled
            await settled.wait()
        self._held += 1

    def _give_back(self) -> None:
        self._held -= 1
        self._settled.set()
        self._settled = asyncio.Event()

    def _worst(self, request: Request, size: int) -> int:
        if self.settings.price is None:
            return 0
        return worst_case_micro(self.settings.price, size, request.max_tokens or 0)

    async def _failed(
        self, request: Request, key: str, reason: str, *, cost: int, response: Response | None = None
    ) -> None:
        await self.journal.failed(
            key,
            request_json=request.canonical(),
            reason=reason,
            response_json=response.to_json() if response else None,
            cost_micro=cost,
            budget=self.settings.budget,
        )
        self._give_back()

    async def _keep(
        self, call: Call, request: Request, key: str, response: Response, *, latency_s: float
    ) -> CallRecord:
        cost = self._cost(response)
        reading = self.judge.read(response, call)
        if reading.problem in NOT_SERVED:
            await self._failed(request, key, reading.problem or "", cost=cost or 0, response=response)
        else:
            await self.journal.answered(
                key,
                request_json=request.canonical(),
                response_json=response.to_json(),
                cost_micro=cost,
                budget=self.settings.budget,
            )
            self._give_back()
        return self._record(call, key, response, reading=reading, latency_s=latency_s)

    def _cost(self, response: Response) -> int | None:
        price = self.settings.price
        if price is None or response.input_tokens is None or response.output_tokens is None:
            return None
        return cost_micro(price, response.input_tokens, response.output_tokens)

    def _record(
        self,
        call: Call,
        key: str,
        response: Response,
        *,
        reading: Reading | None = None,
        cached: bool = False,
        latency_s: float | None = None,
    ) -> CallRecord:
        reading = reading or self.judge.read(response, call)
        cost = self._cost(response)
        return CallRecord(
            **identity(call),
            outcome=reading.outcome,
            answer=reading.answer or "",
            rationale=reading.rationale,
            input_tokens=response.input_tokens,
            output_tokens=response.output_tokens,
            cost_usd=None if cost is None else cost / 1_000_000,
            latency_s=latency_s,
            cached=cached,
            model=response.model or self.judge.model,
            prompt_sha256=key,
            error=reading.error,
            confidence=reading.confidence,
        )

    def _failure(self, call: Call, key: str, error: str, *, latency_s: float | None = None) -> CallRecord:
        return CallRecord(
            **identity(call),
            outcome="error",
            answer="",
            latency_s=latency_s,
            model=self.judge.model,
            prompt_sha256=key,
            error=error,
        )


def identity(call: Call) -> dict[str, Any]:
    """Return the columns that say which call a record is of."""
    item = call.item
    return {
        "suite_item": item.id,
        "task": item.task,
        "condition": item.condition,
        "delta": item.delta,
        "order": call.order,
        "better": item.better or "",
        "replicate": call.replicate,
        "expected": item.expected or "",
    }


def _tokens_used(response: Response) -> float | None:
    if response.input_tokens is None or response.output_tokens is None:
        return None
    return response.input_tokens + response.output_tokens
