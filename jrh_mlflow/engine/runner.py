"""The runner: workers ask every call of a plan; budget, rule, error or Ctrl-C may end it early."""

from __future__ import annotations

import asyncio
import concurrent.futures
import gc
import os
import signal
import sys
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import dataclass, fields
from typing import Any, Generic, TypeVar

import pandas as pd

from jrh_mlflow.engine.budget import OutOfBudget
from jrh_mlflow.engine.client import ClientSettings
from jrh_mlflow.engine.journal import Journal
from jrh_mlflow.engine.sessions import session_for
from jrh_mlflow.errors import JrhError, is_posix
from jrh_mlflow.judges import Judge
from jrh_mlflow.schema.items import Call, CallRecord

_TURN = 256
"""Work items after which the event loop gets a turn, even if none of them had to wait."""

W = TypeVar("W")
R = TypeVar("R")
OnRecord = Callable[[CallRecord], None]
StopRule = Callable[[CallRecord], "str | None"]
"""Told about every record; returns why no further call should be made, or None."""


class WorkerPool(Generic[W, R]):
    """Workers that draw from one iterator, so work is made as it is needed and never piles up.

    Args:
        work: Drawn one by one, in order.
        workers: How many work items are under way at most.
        on_result: Told about every result as it comes; what it returns, if anything, is why no further work is begun.
    """

    def __init__(self, work: Iterable[W], *, workers: int, on_result: Callable[[R], str | None] | None = None) -> None:
        self.stopped: str | None = None
        """Why the pool ended before the last work item, or None."""
        self.out_of_budget: OutOfBudget | None = None
        """What the money was, where that ended it."""
        self._numbered = enumerate(work)
        self._workers, self._on_result = workers, on_result
        self._results: dict[int, R] = {}
        self._failure: BaseException | None = None

    async def run(self, do: Callable[[W], R | Awaitable[R]]) -> list[R]:
        """Do all the work, or as much as there is until something stops it; return results in the order of the work.

        A result that is there already, without an await, costs no turn of the event loop.

        Raises:
            JrhError: the first that `do` raised, once what was under way has ended. `OutOfBudget` only stops the pool.
            KeyboardInterrupt: after the first Ctrl-C, likewise.
        """
        with _hearing_interrupts(self._interrupted):
            await asyncio.gather(*(self._work(do) for _ in range(self._workers)))
        if self._failure is not None:
            raise self._failure
        return [self._results[index] for index in sorted(self._results)]

    async def _work(self, do: Callable[[W], R | Awaitable[R]]) -> None:
        while self.stopped is None:
            try:
                index, item = next(self._numbered)
            except StopIteration:
                return
            try:
                result = do(item)
                done: R = await result if isinstance(result, Awaitable) else result
            except OutOfBudget as money:
                self.stopped, self.out_of_budget = self.stopped or str(money), self.out_of_budget or money
                return
            except JrhError as error:
                # Nothing new is begun, but what is in flight is paid already and must be settled.
                self.stopped, self._failure = self.stopped or "failure", self._failure or error
                return
            self._results[index] = done
            if self._on_result and (reason := self._on_result(done)):
                self.stopped = self.stopped or reason
            if index % _TURN == 0:
                await asyncio.sleep(0)  # so that Ctrl-C is heard in a long row of results that are there already

    def _interrupted(self) -> None:
        self.stopped, self._failure = self.stopped or "interrupted", KeyboardInterrupt()


@contextmanager
def _hearing_interrupts(stop: Callable[[], None]) -> Iterator[None]:
    """Turn the first Ctrl-C into a clean end, by calling `stop`; the second is Python's own again."""
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "SIGINT"):
        yield
        return
    loop = asyncio.get_running_loop()

    def interrupted() -> None:
        loop.remove_signal_handler(signal.SIGINT)
        stop()
        print("\nStopping: calls in flight are settled first; Ctrl-C again aborts.", file=sys.stderr)

    loop.add_signal_handler(signal.SIGINT, interrupted)
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGINT)


def run_coroutine(coroutine: Coroutine[Any, Any, R]) -> R:
    """Run a coroutine from sync code, whether or not this thread already runs a loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(coroutine)
    with concurrent.futures.ThreadPoolExecutor(1, thread_name_prefix="jrh-loop") as pool:
        return pool.submit(asyncio.run, coroutine).result()


@contextmanager
def calm_collector() -> Iterator[None]:
    """Keep the garbage collector from walking every imported module again with each few hundred answers."""
    if gc.get_freeze_count():
        yield
        return
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


@dataclass(kw_only=True, slots=True)
class Asked:
    """What came of asking."""

    records: list[CallRecord]
    """In the order of the calls; fewer than planned when it was stopped."""
    stopped: str | None = None
    """Why it ended before the last call, or None."""
    out_of_budget: OutOfBudget | None = None
    """What the money was, where that ended it."""


def ask_calls(
    judge: Judge,
    calls: Iterable[Call],
    *,
    concurrency: int = 32,
    on_record: OnRecord | None = None,
    stop: StopRule | None = None,
    journal: Journal | None = None,
    settings: ClientSettings | None = None,
) -> Asked:
    """Ask every call, with at most `concurrency` in flight.

    Works inside a running event loop too (a notebook): the calls then run in a thread with a loop of its own.
    On the first Ctrl-C no new call is made and those in flight are settled; a second one aborts.
    """
    if concurrency < 1:
        raise ValueError(f"`concurrency >= 1` must hold, but got {concurrency=}.")
    session = session_for(judge, journal, settings or ClientSettings(concurrency=concurrency))
    work = session.prepare(calls)
    return run_pool(
        work, session.watching(session.ask), within=session, workers=session.workers, on_record=on_record, stop=stop
    )


def run_pool(
    work: Iterable[W],
    ask: Callable[[W], CallRecord | Awaitable[CallRecord]],
    *,
    within: AbstractAsyncContextManager[Any],
    workers: int,
    on_record: OnRecord | None,
    stop: StopRule | None,
) -> Asked:
    """Ask for every piece of work by a pool of workers, inside the block of `within`."""

    def on_result(record: CallRecord) -> str | None:
        if on_record:
            on_record(record)
        return stop(record) if stop else None

    async def run() -> Asked:
        pool = WorkerPool(work, workers=workers, on_result=on_result)
        async with within:
            records = await pool.run(ask)
        return Asked(records=records, stopped=pool.stopped, out_of_budget=pool.out_of_budget)

    return run_coroutine(run())


def calls_frame(records: list[CallRecord]) -> pd.DataFrame:
    """Return records as the table of `calls/calls.parquet`, columns typed even where all cells are empty."""
    frame = pd.DataFrame({each.name: [getattr(record, each.name) for record in records] for each in fields(CallRecord)})
    types = {"delta": "float64", "input_tokens": "Int64", "output_tokens": "Int64"}
    types |= dict.fromkeys(("cost_usd", "latency_s", "confidence"), "float64")
    typed: pd.DataFrame = frame.astype(types)
    return typed


def is_running(pid: int) -> bool:
    """Whether a process of this machine has that number; always true where that cannot be asked."""
    if not is_posix():  # on Windows the signal 0 ends the process
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # of another user
        pass
    return True
