"""Who confirms: asked with the judge's own question about the finished item. It filters; it never decides a label."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from types import TracebackType
from typing import TYPE_CHECKING, Any

from jrh_mlflow.engine.client import PERHAPS_BILLED, ModelClient
from jrh_mlflow.engine.plan import present
from jrh_mlflow.engine.sessions import NOT_SERVED, ask_one
from jrh_mlflow.generation.outcomes import Opinion
from jrh_mlflow.judges import AnsweringJudge, Judge, ModelJudge
from jrh_mlflow.judges.parsing import ParsedAnswer
from jrh_mlflow.models.transports import TransportError
from jrh_mlflow.schema.items import Call, Item
from jrh_mlflow.schema.requests import Request, Response

if TYPE_CHECKING:
    from typing_extensions import Self

_MAX_PROBLEM = 200


class Validator(ABC):
    """Answers the judge's question about an item. Opened with `async with`."""

    judge: Judge
    remembers = False
    """True where answers are kept in the journal."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    def kept(self, item: Item) -> Opinion | None:
        """Return the answer that an earlier call was given, where answers are kept; nothing is sent."""
        return None

    @abstractmethod
    async def ask(self, item: Item) -> Opinion:
        """Ask about one item.

        Raises:
            OutOfBudget: when the cap does not cover the call.
            JudgeError: when the service fails for good.
        """


def question(item: Item, judge: Judge) -> Call:
    """Lay an item out exactly as a judge will see it in an evaluation."""
    return Call(item=item, order="", replicate=0, presentation=present(item, "", judge.tie_criterion))


class ModelValidator(Validator):
    """A prompted judge behind journal, limits and budget. The same question is asked once, however many ask it."""

    remembers = True

    def __init__(self, judge: ModelJudge, channel: ModelClient, *, shared: bool = False) -> None:
        """Set it up; a `shared` channel is opened and closed by the writer."""
        self.judge: ModelJudge = judge
        self._channel, self._shared = channel, shared
        self._asking: dict[str, asyncio.Lock] = {}

    async def __aenter__(self) -> Self:
        if not self._shared:
            await self._channel.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._shared:
            await self._channel.__aexit__(kind, error, trace)

    def kept(self, item: Item) -> Opinion | None:
        """Return the journalled answer."""
        call = question(item, self.judge)
        response = self._channel.kept(self.judge.request(call).key(0))
        return None if response is None else self._opinion(response, self.judge.read(response, call), cached=True)

    async def ask(self, item: Item) -> Opinion:
        """Serve the journalled answer, or ask for one."""
        call = question(item, self.judge)
        request = self.judge.request(call)
        key = request.key(0)
        # Two attempts with the same text must not both be paid: the second waits and reads the journal.
        async with self._asking.setdefault(key, asyncio.Lock()):
            kept = self._channel.kept(key)
            if kept is not None:
                return self._opinion(kept, self.judge.read(kept, call), cached=True)
            return await self._send(call, request, key)

    async def _send(self, call: Call, request: Request, key: str) -> Opinion:
        readings: list[ParsedAnswer] = []

        def unusable(response: Response) -> str | None:
            readings.append(self.judge.read(response, call))
            problem = readings[-1].problem
            return problem if problem in NOT_SERVED else None

        try:
            response = await self._channel.send(request, key, unusable=unusable)
        except TransportError as error:
            unknown = {"input_tokens": None, "output_tokens": None, "cost_usd": None}
            billed: dict[str, Any] = unknown if error.kind in PERHAPS_BILLED else {}
            return Opinion(problem=f"call failed: {error}", **billed)
        return self._opinion(response, readings[-1], cached=False)

    def _opinion(self, response: Response, reading: ParsedAnswer, *, cached: bool) -> Opinion:
        cost = self._channel.cost_micro(response)
        return Opinion(
            answer=reading.answer or (None if reading.problem else reading.outcome),
            problem=reading.error[:_MAX_PROBLEM] if reading.error else None,
            input_tokens=response.input_tokens,
            output_tokens=response.output_tokens,
            cost_usd=None if cost is None else cost / 1_000_000,
            cached=cached,
        )


class JudgeValidator(Validator):
    """Any other judge: a callable, an MLflow judge, a scripted one."""

    def __init__(self, judge: AnsweringJudge, *, concurrency: int) -> None:
        self.judge: AnsweringJudge = judge
        self._concurrency = concurrency

    async def __aenter__(self) -> Self:
        self._slots = asyncio.Semaphore(self._concurrency)
        self._threads = self.judge.running(self._concurrency)
        self._threads.__enter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._threads.__exit__(None, None, None)

    async def ask(self, item: Item) -> Opinion:
        """Ask; whatever it raises, or returns outside the answers, is a problem."""
        async with self._slots:
            record = await ask_one(self.judge, question(item, self.judge))
        return Opinion(
            answer=record.answer or (None if record.error else record.outcome),
            problem=record.error[:_MAX_PROBLEM] if record.error else None,
            input_tokens=record.input_tokens,
            output_tokens=record.output_tokens,
            cost_usd=record.cost_usd,
            called=self.judge.kind != "scripted",
        )
