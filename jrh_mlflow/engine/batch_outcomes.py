"""What became of a request in a batch, and how it enters the journal: as it would from a live run."""

from __future__ import annotations

import asyncio
import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from jrh_mlflow.engine.channel import PERHAPS_BILLED
from jrh_mlflow.engine.journal import Journal
from jrh_mlflow.engine.lanes._base import Kind, LaneError
from jrh_mlflow.engine.lanes._dialect import read_completion
from jrh_mlflow.engine.lanes._failures import is_error, read_error
from jrh_mlflow.engine.lanes._json import encode
from jrh_mlflow.engine.prices import Price, cost_micro, prompt_size, worst_case_micro
from jrh_mlflow.engine.remote import NOT_SERVED
from jrh_mlflow.judges.parsing import read
from jrh_mlflow.schema.requests import Request, Response

_TOGETHER = 512
"""Answers on their way to the journal at a time: they share a commit."""
_RAN_OUT_OF_TIME = "request_timeout"
"""OpenAI's code for a request that the model had begun; an expired or cancelled one was never run."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Failure:
    """A request that got no response."""

    reason: str
    perhaps_billed: bool
    """The provider may have worked on it, and bill it."""


Outcome: TypeAlias = Response | Failure


def read_result(line: Mapping[str, Any]) -> Outcome:
    """Read one line of a result file.

    Understands the output and error files of OpenAI and its followers and those of `vllm run-batch`, where an error has
    no body, and lines whose response is the completion itself.

    Example:
        >>> expired = {"code": "batch_expired", "message": "Not executed in time."}
        >>> read_result({"custom_id": "a", "response": None, "error": expired}).reason
        'server: batch_expired: Not executed in time.'
    """
    try:
        return _response(line.get("response"), line.get("error"))
    except LaneError as failure:
        return Failure(reason=str(failure), perhaps_billed=failure.kind in PERHAPS_BILLED)
    except RecursionError:
        return Failure(reason="malformed: The result is nested too deeply.", perhaps_billed=True)


def _response(given: object, error: object) -> Response:
    status = given.get("status_code", 200) if isinstance(given, Mapping) else None
    # OpenAI has sent status 0 for requests of which nothing came back.
    if not isinstance(given, Mapping) or not isinstance(status, int) or not 200 <= status < 600:
        raise _never_answered(error)
    body = given if "choices" in given else given.get("body")
    if status >= 300:
        said = next((part for part in (body, error) if part is not None), given)
        return read_error(status, {}, encode(said if isinstance(said, Mapping) else {"message": str(said)}))
    if body is None and is_error(error):
        raise _never_answered(error)
    return read_completion(body, status)


def _never_answered(error: object) -> LaneError:
    parts = error if isinstance(error, Mapping) else {"message": error}
    code, message = str(parts.get("code") or "failed"), parts.get("message") or "no reason given"
    kind: Kind = "timeout" if code == _RAN_OUT_OF_TIME else "server"
    return LaneError(kind, f"{code}: {message}")


class Importer:
    """Writes outcomes to a journal, and counts them."""

    def __init__(self, journal: Journal, price: Price | None) -> None:
        self.counts: Counter[str] = Counter()
        """`answered`, `already`, `refused`, `failed`; `micro` dollars booked, and `unpriced` outcomes."""
        self._journal, self._price = journal, price

    async def keep_all(self, exported: Iterable[tuple[str, Request]], outcomes: dict[str, list[Outcome]]) -> None:
        """Keep the outcomes of exported requests, by key; empties `outcomes`."""
        waiting: list[tuple[str, Request, list[Outcome]]] = []
        for key, request in exported:
            if key in outcomes:
                waiting.append((key, request, outcomes.pop(key)))
            if len(waiting) == _TOGETHER:
                await asyncio.gather(*(self._keep(*one) for one in waiting))
                waiting.clear()
        await asyncio.gather(*(self._keep(*one) for one in waiting))

    async def _keep(self, key: str, request: Request, outcomes: list[Outcome]) -> None:
        if self._journal.get(key) is not None:
            self.counts["already"] += 1
            return
        for outcome in outcomes:
            if isinstance(outcome, Failure):
                cost = self._worst(request) if outcome.perhaps_billed else 0
                await self._fail(key, request, outcome.reason, cost=cost)
            # Whether there is an answer at all does not depend on what the prompt calls the answers.
            elif (problem := read(outcome, {}).problem) in NOT_SERVED:
                await self._fail(key, request, str(problem), cost=self._cost(outcome), response=outcome)
            elif self._journal.get(key) is None:
                await self._answer(key, request, outcome)

    async def _answer(self, key: str, request: Request, response: Response) -> None:
        cost = self._cost(response)
        await self._journal.answered(
            key, request_json=request.canonical(), response_json=response.to_json(), cost_micro=cost, budget=None
        )
        self._count("answered", cost)

    async def _fail(
        self, key: str, request: Request, reason: str, *, cost: int | None, response: Response | None = None
    ) -> None:
        kept = response.to_json() if response else None
        budget = None
        if cost:
            # A budget with room for exactly this: when it is imported again it is spent, and nothing is booked.
            budget = f"batch-{hashlib.sha256(f'{key} {kept or reason}'.encode()).hexdigest()}"
            self._journal.open_budget(budget, cost)
            if not await self._journal.reserve(key, budget=budget, worst_micro=cost):
                self.counts["already"] += 1
                return
        await self._journal.failed(
            key,
            request_json=request.canonical(),
            reason=reason,
            response_json=kept,
            cost_micro=cost or 0,
            budget=budget,
        )
        self._count("refused" if response else "failed", cost)

    def _count(self, name: str, cost: int | None) -> None:
        self.counts[name] += 1
        self.counts["unpriced"] += cost is None
        self.counts["micro"] += cost or 0

    def _cost(self, response: Response) -> int | None:
        if self._price is None or response.input_tokens is None or response.output_tokens is None:
            return None
        return cost_micro(self._price, response.input_tokens, response.output_tokens)

    def _worst(self, request: Request) -> int | None:
        if self._price is None:
            return None
        return worst_case_micro(self._price, prompt_size(request), request.max_tokens or 0)
