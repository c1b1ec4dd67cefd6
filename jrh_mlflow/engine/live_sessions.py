"""Asking a judge a few calls at a time, from any thread, for as long as the process lives: for scorers in use.

One event loop per process, in a thread of its own, serves all judges; each has one session that its callers share, so
that retries and limits know of all of them. Nothing is kept and nothing is served from before: an answer of yesterday
would hide that the model has changed.
"""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures
import math
import os
import threading
import time
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from contextvars import Context
from functools import cached_property
from typing import Any, TypeVar

from jrh_mlflow.engine.budget import judge_price
from jrh_mlflow.engine.client import ClientSettings
from jrh_mlflow.engine.journal import Journal, Reservation
from jrh_mlflow.engine.retries import RetryPolicy
from jrh_mlflow.engine.sessions import JudgeSession, session_for
from jrh_mlflow.errors import JudgeError
from jrh_mlflow.judges import Judge
from jrh_mlflow.models.prices import Price
from jrh_mlflow.schema.items import Call, CallRecord

LONGEST_S = 290.0
"""A row that has no answer by then is an error. MLflow gives up on a scorer after 300 s, without a word of ours."""
_CONCURRENCY = 64
"""MLflow scores 40 rows at once, and each may ask both orders."""
_POLICY = RetryPolicy(longest_wait_s=120.0, longest_outage_s=120.0, deadline_s=LONGEST_S / 2)
_CALLS_PER_SESSION = 10_000
"""A session numbers every request that it was asked, so one that lived for ever would grow for ever."""
R = TypeVar("R")


class NoJournal(Journal):
    """Grants every call and forgets every answer."""

    def __init__(self) -> None:
        super().__init__("nowhere")

    @staticmethod
    def shown(address: str) -> str:
        """Return an address as it may be printed."""
        return address

    def settle_dead(self) -> None:
        """There is nothing that others could have left."""

    def _errors(self) -> AbstractContextManager[None]:
        return nullcontext()

    def peek(self, keys: Sequence[str], *, newer_than: float | None = None) -> dict[str, str]:
        """Return nothing."""
        return {}

    async def reserve(self, key: str, **_: Any) -> Reservation:
        """Grant it."""
        return Reservation.GRANTED

    async def release(self, key: str) -> None:
        """Nothing was set aside."""

    async def answered(self, key: str, **_: Any) -> bool:
        """Forget it."""
        return True

    async def failed(self, key: str, **_: Any) -> None:
        """Forget it."""

    def close(self) -> None:
        """Nothing is open."""


class LiveJudge:
    """A judge that is asked from many threads, a few calls at a time."""

    def __init__(self, judge: Judge, *, longest_s: float = LONGEST_S) -> None:
        """Describe it; its session is opened by the first call.

        Args:
            judge: The judge.
            longest_s: Most seconds for the calls of one `ask`.
        """
        self.judge, self._longest_s = judge, longest_s
        self._session: _SharedSession | None = None

    def ask(self, calls: Sequence[Call]) -> list[CallRecord]:
        """Ask calls at once and wait for them; may be called from any thread, one with a running event loop too.

        Raises:
            JudgeError: when there is no answer in time, or the service fails for good.
        """
        return self.asking(calls)()

    def asking(self, calls: Sequence[Call]) -> Callable[[], list[CallRecord]]:
        """Begin to ask calls, and return what waits for their answers: so several judges are asked at the same time."""
        price = self._price  # looked up here: it may load a library, and the loop is everybody's
        waiting, until = _loop().submit(self._ask_all(calls, price)), time.monotonic() + self._longest_s

        def answers() -> list[CallRecord]:
            try:
                return waiting.result(max(0.0, until - time.monotonic()))
            except concurrent.futures.TimeoutError:
                waiting.cancel()
                raise JudgeError(f"{self.judge.name} gave no answer within {self._longest_s:g} s.") from None

        return answers

    @cached_property
    def _price(self) -> Price | None:
        return judge_price(self.judge, None)

    async def _ask_all(self, calls: Sequence[Call], price: Price | None) -> list[CallRecord]:
        session = self._current(price)
        try:
            return list(await asyncio.gather(*(session.ask(call) for call in calls)))
        except JudgeError:
            # One row's service failing for good says nothing about the rows of tomorrow: they get a session anew.
            session.retired = True
            raise
        finally:
            await session.leave()

    def _current(self, price: Price | None) -> _SharedSession:
        session = self._session
        if session is None or session.retired or session.process != os.getpid():
            session = self._session = _SharedSession(self.judge, price)
        session.users += 1
        return session


class _SharedSession:
    """A judge's open session, closed when it has retired and its last user leaves; lives in the loop's thread."""

    def __init__(self, judge: Judge, price: Price | None) -> None:
        self.process, self.users, self.retired = os.getpid(), 0, False
        settings = ClientSettings(concurrency=_CONCURRENCY, price=price, policy=_POLICY)
        self._session: JudgeSession = session_for(judge, NoJournal() if judge.model_judge else None, settings)
        self._opening: asyncio.Task[Any] | None = None
        self._calls_left = _CALLS_PER_SESSION if judge.model_judge else math.inf
        _loop().sessions.add(self)

    async def ask(self, call: Call) -> CallRecord:
        if self._opening is None:
            self._opening = asyncio.ensure_future(self._session.__aenter__())
        await asyncio.shield(self._opening)
        self._calls_left -= 1
        self.retired = self.retired or self._calls_left <= 0
        (work,) = self._session.prepare([call])
        answer = self._session.ask(work)
        return answer if isinstance(answer, CallRecord) else await answer

    async def leave(self) -> None:
        self.users -= 1
        if self.retired and not self.users:
            await self.close()

    async def close(self) -> None:
        _loop().sessions.discard(self)
        if self._opening is not None:
            opening, self._opening = self._opening, None
            await opening
            await self._session.__aexit__(None, None, None)


class _Loop:
    """The event loop of this process, in a thread that ends with it."""

    def __init__(self) -> None:
        self.process = os.getpid()
        self.sessions: set[_SharedSession] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="jrh-live", daemon=True)
        self._thread.start()
        atexit.register(self.close)

    def submit(self, work: Coroutine[Any, Any, R]) -> concurrent.futures.Future[R]:
        # An empty context: the stop of a run that this thread may be part of is not the stop of the shared session.
        return Context().run(asyncio.run_coroutine_threadsafe, work, self._loop)

    def close(self) -> None:
        """Close what is open; the child of a fork has neither the thread nor the right to."""
        if self.process != os.getpid() or self._loop.is_closed():
            return
        with suppress(concurrent.futures.TimeoutError):
            # Nothing is lost by a thread of a judge that hangs: nobody waits for its answer any more.
            self.submit(self._end()).result(10.0)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10.0)
        self._loop.close()

    async def _end(self) -> None:
        mine = asyncio.current_task()
        others = [task for task in asyncio.all_tasks() if task is not mine]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        for session in list(self.sessions):
            await session.close()


_LOCK = threading.Lock()
_LOOPS: list[_Loop] = []
"""The newest last: a fork leaves that of its parent behind."""


def _loop() -> _Loop:
    with _LOCK:
        if not _LOOPS or _LOOPS[-1].process != os.getpid():
            _LOOPS.append(_Loop())
        return _LOOPS[-1]
