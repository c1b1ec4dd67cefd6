"""Who confirms finished items, asked with the judge's own question.

A validator filters; it never decides a label.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext

from jrh_mlflow.engine.calls import present
from jrh_mlflow.engine.client import ModelClient
from jrh_mlflow.engine.sessions import NOT_SERVED, ask_one
from jrh_mlflow.generation.outcomes import Reply
from jrh_mlflow.generation.session import ModelQuestion, OwnQuestion, Question, ReadResponse
from jrh_mlflow.judges import AnsweringJudge, Judge, ModelJudge
from jrh_mlflow.schema.items import Call, Item
from jrh_mlflow.schema.requests import Response

_MAX_PROBLEM = 200


class Validator(ABC):
    """Answers the judge's question about an item; the text of its reply is the answer."""

    @abstractmethod
    def opened(self) -> AbstractAsyncContextManager[object]:
        """Be ready to answer inside the block."""

    @abstractmethod
    def question(self, item: Item) -> Question:
        """Return the judge's question about an item."""


def call_about(item: Item, judge: Judge) -> Call:
    """Lay an item out exactly as a judge will see it in an evaluation."""
    return Call(item=item, order="", replicate=0, presentation=present(item, "", judge.tie_criterion))


class ModelValidator(Validator):
    """A prompted judge behind journal, limits and budget. The same question is asked once, however many ask it."""

    def __init__(self, judge: ModelJudge, client: ModelClient, *, shared: bool = False) -> None:
        """Set it up; a `shared` client is opened and closed by the writer."""
        self._judge, self._client, self._shared = judge, client, shared
        self._locks: dict[str, asyncio.Lock] = {}

    def opened(self) -> AbstractAsyncContextManager[object]:
        """Open the client, unless the writer does."""
        return nullcontext() if self._shared else self._client

    def question(self, item: Item) -> ModelQuestion:
        """Return the question; two attempts with the same text must not both be paid."""
        call = call_about(item, self._judge)

        def read(response: Response) -> ReadResponse:
            reading = self._judge.read(response, call)
            return ReadResponse(
                text=reading.answer or (None if reading.problem else reading.outcome),
                problem=reading.error[:_MAX_PROBLEM] if reading.error else None,
                unusable=reading.problem if reading.problem in NOT_SERVED else None,
            )

        request = self._judge.request(call)
        lock = self._locks.setdefault(request.key(0), asyncio.Lock())
        return ModelQuestion(client=self._client, request=request, replicate=0, read=read, lock=lock)


class JudgeValidator(Validator):
    """Any other judge: a callable, an MLflow judge, a scripted one."""

    def __init__(self, judge: AnsweringJudge, *, concurrency: int) -> None:
        self._judge, self._concurrency = judge, concurrency

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        """Give the judge its threads."""
        self._slots = asyncio.Semaphore(self._concurrency)
        with self._judge.running(self._concurrency):
            yield

    def question(self, item: Item) -> Question:
        """Return the question; whatever the judge raises, or returns outside the answers, is a problem."""

        async def send() -> Reply:
            async with self._slots:
                record = await ask_one(self._judge, call_about(item, self._judge))
            return Reply(
                text=record.answer or (None if record.error else record.outcome),
                problem=record.error[:_MAX_PROBLEM] if record.error else None,
                input_tokens=record.input_tokens,
                output_tokens=record.output_tokens,
                cost_usd=record.cost_usd,
                called=self._judge.kind != "scripted",
            )

        return OwnQuestion(send)
