"""The model calls of one job, in order: served from the journal, passed over, or sent.

How a restart works. Everything between two calls is deterministic, and every usable answer is in the journal under a
key of its own, so a second run simply runs again and is served. What the journal cannot serve is a call without a
usable answer (a refusal, a failed request): was it never made, or did the earlier run get nothing and go on? When the
first answer is missing, the job is therefore rehearsed from the journal alone, as if every missing answer had been
none. Up to the last answer that the rehearsal finds, the earlier run went the same way: what is missing before it was
asked, had no usable answer, and is not asked again. From there on models are asked.

So an item that was made costs nothing and comes out the same, and so does what a killed run had done of one. An item
that was set aside because the last answers were refused is taken up there: the refused calls are made again.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from jrh_mlflow.engine.budget import AnsweredElsewhere
from jrh_mlflow.engine.client import ModelClient
from jrh_mlflow.generation.outcomes import Reply, Usage
from jrh_mlflow.models.transports import TransportError
from jrh_mlflow.schema.requests import Request, Response

PASSED_OVER = Reply(problem="no usable answer in an earlier run", called=False)
"""Instead of a call that an earlier run made, that gave nothing, and after which it went on."""

UNKNOWN_COST: Mapping[str, Any] = {"input_tokens": None, "output_tokens": None, "cost_usd": None}


class Question(ABC):
    """One call that is to be made."""

    remembers = False
    """True where usable answers are kept in the journal."""

    def kept(self) -> Reply | None:
        """Return the answer that an earlier call was given, where answers are kept; nothing is sent."""
        return None

    @abstractmethod
    async def send(self) -> Reply:
        """Make the call.

        Raises:
            OutOfBudget: when the cap does not cover it.
            JudgeError: when the service fails for good.
        """


class OwnQuestion(Question):
    """A call to a function or a judge of the user's, whose answers are not kept."""

    def __init__(self, answer: Callable[[], Awaitable[Reply]]) -> None:
        self._answer = answer

    async def send(self) -> Reply:
        """Call it."""
        return await self._answer()


@dataclass(frozen=True, kw_only=True, slots=True)
class ReadResponse:
    """What a response says, before it is counted what it used."""

    text: str | None
    problem: str | None
    unusable: str | None
    """Why the journal shall not keep it (a refusal, no text), or None."""


@dataclass(frozen=True, kw_only=True)
class ModelQuestion(Question):
    """A call to a model behind journal, limits and budget."""

    client: ModelClient
    request: Request
    replicate: int
    """The same request with another number gets an answer of its own."""
    read: Callable[[Response], ReadResponse]
    prompt_sha256: str | None = None
    lock: asyncio.Lock | None = None
    """Shared by all who may ask the same at once: the first one pays, the others read the journal."""
    remembers = True

    @property
    def key(self) -> str:
        """The journal's."""
        return self.request.key(self.replicate)

    def kept(self) -> Reply | None:
        """Return the journalled answer."""
        response = self.client.kept(self.key)
        return None if response is None else self._reply(response, self.read(response), cached=True)

    async def send(self) -> Reply:
        """Send the request, and keep what comes back."""
        if self.lock is None:
            return await self._send()
        async with self.lock:
            return self.kept() or await self._send()

    async def _send(self) -> Reply:
        found: list[ReadResponse] = []

        def unusable(response: Response) -> str | None:
            found.append(self.read(response))
            return found[-1].unusable

        try:
            response = await self.client.send(self.request, self.key, unusable=unusable)
        except AnsweredElsewhere as answered:
            return self._reply(answered.response, self.read(answered.response), cached=True)
        except TransportError as error:
            micro = error.cost_micro
            billed: Mapping[str, Any] = UNKNOWN_COST if micro is None else {"cost_usd": micro / 1_000_000}
            return Reply(problem=f"call failed: {error}", prompt_sha256=self.prompt_sha256, **billed)
        return self._reply(response, found[-1], cached=False)

    def _reply(self, response: Response, found: ReadResponse, *, cached: bool) -> Reply:
        cost = self.client.cost_micro(response)
        return Reply(
            text=found.text,
            problem=found.problem,
            input_tokens=response.input_tokens,
            output_tokens=response.output_tokens,
            cost_usd=None if cost is None else cost / 1_000_000,
            cached=cached,
            key=self.key,
            prompt_sha256=self.prompt_sha256,
        )


class Stopped(Exception):  # noqa: N818 - a signal, not a failure
    """Generation was stopped, or a rehearsal knows no more; nothing more is asked."""


class Session:
    """Asks about one job, one call after the other."""

    def __init__(
        self, usage: Usage, *, stopped: Callable[[], bool], rehearse: Callable[[], Awaitable[int]] | None
    ) -> None:
        """Set it up.

        Args:
            usage: Where every call is counted.
            stopped: Tells whether generation was stopped meanwhile.
            rehearse: Counts the calls from here to the last one that an earlier run has an answer to; None when no
                earlier run can have passed over a call.
        """
        self._usage, self._stopped, self._rehearse = usage, stopped, rehearse
        self._calls, self._known = 0, 0

    async def ask(self, question: Question) -> Reply:
        """Serve what the journal holds, pass over what an earlier run got no answer to, and send the rest.

        Raises:
            Stopped: when generation was stopped.
        """
        if self._stopped():
            raise Stopped
        self._calls += 1
        reply = question.kept() or await self._missing(question)
        self._usage.add(reply)
        return reply

    async def _missing(self, question: Question) -> Reply:
        if self._rehearse is not None:
            self._known, self._rehearse = await self._rehearse(), None
        return PASSED_OVER if self._calls < self._known else await question.send()


class Rehearsal(Session):
    """Answers from the journal alone, and remembers where the last answer came."""

    def __init__(self) -> None:
        super().__init__(Usage(), stopped=lambda: False, rehearse=None)
        self.known = 0
        """Calls up to the last one with an answer."""

    async def ask(self, question: Question) -> Reply:
        """Return the journalled answer, or that there was none.

        Raises:
            Stopped: where answers are not kept: what follows is rehearsed when it has been asked.
        """
        if not question.remembers:
            raise Stopped
        self._calls += 1
        reply = question.kept()
        self.known = self.known if reply is None else self._calls
        return reply or PASSED_OVER
