"""A prompted judge, asked: calls become requests and keys, responses become records."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Awaitable, Iterable, Iterator, Mapping
from itertools import islice
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple

from jrh_mlflow.engine.budget import Budget
from jrh_mlflow.engine.client import ClientSettings, ModelClient
from jrh_mlflow.engine.journal import Journal
from jrh_mlflow.judges.parsing import ParsedAnswer
from jrh_mlflow.judges.prompted import PromptedJudge
from jrh_mlflow.models.transports import TransportError
from jrh_mlflow.schema.calls import CallRecord
from jrh_mlflow.schema.items import Call
from jrh_mlflow.schema.presentation import Presentation
from jrh_mlflow.schema.requests import Request, Response

if TYPE_CHECKING:
    from typing_extensions import Self

NOT_SERVED = frozenset({"refusal", "empty_choices", "empty_content", "content_filter"})
"""Responses without an answer in them: recorded, but asked again when the run is repeated."""
_AHEAD = 256
"""Calls looked up in the journal at once: a warm run is then bound by reading, not by asking one by one."""


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


def looked_up(judge: PromptedJudge, calls: Iterable[Call], journal: Journal) -> Iterator[tuple[Request, str, bool]]:
    """Yield each call's request, its key, and whether the journal answers it; nothing is asked or served."""
    numbering, rest = Numbering(judge), iter(calls)
    while chunk := [numbering.prepare(call) for call in islice(rest, _AHEAD)]:
        answered = journal.holds([key for _, key in chunk])
        yield from ((request, key, key in answered) for request, key in chunk)


class KeyedCall(NamedTuple):
    """A call that is ready to be asked."""

    call: Call
    request: Request
    key: str
    kept: str | None
    """Its answer in the journal, where there is one."""


class JudgeClient:
    """Asks one prompted judge. Opened with `async with`; `ask` may be awaited many times at once."""

    def __init__(
        self, judge: PromptedJudge, journal: Journal, settings: ClientSettings, *, budget: Budget | None = None
    ) -> None:
        self.judge, self._journal = judge, journal
        self._client = ModelClient(judge.model, judge.api_base, journal, settings, budget=budget)
        self._numbering = Numbering(judge)

    async def __aenter__(self) -> Self:
        await self._client.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._client.__aexit__(kind, error, trace)

    def prepare(self, calls: Iterable[Call]) -> Iterator[KeyedCall]:
        """Prepare calls in the order of the plan, looking some of them up in the journal at once."""
        rest = iter(calls)
        while chunk := list(islice(rest, _AHEAD)):
            prepared = [(call, *self._numbering.prepare(call)) for call in chunk]
            kept = self._journal.get_many([key for _, _, key in prepared])
            for call, request, key in prepared:
                yield KeyedCall(call, request, key, kept.get(key))

    def ask(self, keyed: KeyedCall) -> CallRecord | Awaitable[CallRecord]:
        """Serve a call's journalled answer at once, or ask for it.

        Raises (awaited):
            OutOfBudget: The cap does not cover this call; nothing was sent.
            JudgeError: The circuit has tripped: the service fails for good.
        """
        if keyed.kept is not None:
            return self._record(keyed, Response.from_json(keyed.kept), cached=True)
        return self._ask(keyed)

    async def _ask(self, keyed: KeyedCall) -> CallRecord:
        # Once more: another process may have answered since the calls were prepared.
        kept = self._client.kept(keyed.key)
        if kept is not None:
            return self._record(keyed, kept, cached=True)
        readings: list[ParsedAnswer] = []

        def unusable(response: Response) -> str | None:
            readings.append(self.judge.read(response, keyed.call))
            problem = readings[-1].problem
            return problem if problem in NOT_SERVED else None

        started = time.perf_counter()
        try:
            response = await self._client.send(keyed.request, keyed.key, unusable=unusable)
        except TransportError as error:
            return self._failure(keyed, str(error), latency_s=time.perf_counter() - started)
        return self._record(keyed, response, reading=readings[-1], latency_s=time.perf_counter() - started)

    def _record(
        self,
        keyed: KeyedCall,
        response: Response,
        *,
        reading: ParsedAnswer | None = None,
        cached: bool = False,
        latency_s: float | None = None,
    ) -> CallRecord:
        reading = reading or self.judge.read(response, keyed.call)
        cost = self._client.cost_micro(response)
        return CallRecord(
            **identity(keyed.call),
            outcome=reading.outcome,
            answer=reading.answer or "",
            rationale=reading.rationale,
            input_tokens=response.input_tokens,
            output_tokens=response.output_tokens,
            cost_usd=None if cost is None else cost / 1_000_000,
            latency_s=latency_s,
            cached=cached,
            model=response.model or self.judge.model,
            prompt_sha256=keyed.key,
            error=reading.error,
            confidence=reading.confidence,
            probabilities=_as_json(reading.probabilities),
        )

    def _failure(self, keyed: KeyedCall, error: str, *, latency_s: float | None) -> CallRecord:
        return CallRecord(
            **identity(keyed.call),
            outcome="error",
            answer="",
            latency_s=latency_s,
            model=self.judge.model,
            prompt_sha256=keyed.key,
            error=error,
        )


def _as_json(probabilities: Mapping[str, float] | None) -> str | None:
    if probabilities is None:
        return None
    short = {answer: float(f"{probability:.6g}") for answer, probability in sorted(probabilities.items())}
    return json.dumps(short, ensure_ascii=False)


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
