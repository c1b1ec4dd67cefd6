"""The runner: a bounded number of calls in flight, every one of them ending as a record."""

from __future__ import annotations

import asyncio
import concurrent.futures
import gc
import signal
import sys
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from typing import Any, TypeVar

import pandas as pd

from jrh_mlflow.engine.budget import OutOfBudget
from jrh_mlflow.engine.client import ClientSettings
from jrh_mlflow.engine.journal import Journal
from jrh_mlflow.engine.sessions import JudgeSession, session_for
from jrh_mlflow.errors import JrhError
from jrh_mlflow.judges import Judge
from jrh_mlflow.schema.calls import CallRecord
from jrh_mlflow.schema.items import Call

BUDGET = "budget"
"""`Asked.stopped` when the cap was reached."""

_TURN = 256

T = TypeVar("T")
OnRecord = Callable[[CallRecord], None]
Ask = Callable[[Any], "CallRecord | Awaitable[CallRecord]"]
"""A record that is there already needs no turn of the event loop."""
StopRule = Callable[[CallRecord], "str | None"]
"""Told about every record; returns why no further call should be made, or None."""


@dataclass(kw_only=True, slots=True)
class Asked:
    """What came of asking."""

    records: list[CallRecord]
    """In the order of the calls; fewer than planned when it was stopped."""
    stopped: str | None = None
    """Why it ended before the last call, or None."""


def run_calls(
    judge: Judge, calls: Iterable[Call], *, concurrency: int = 32, on_record: OnRecord | None = None
) -> list[CallRecord]:
    """Ask a judge that needs no journal (scripted or callable) and return the records in the order of the calls."""
    return ask_calls(judge, calls, concurrency=concurrency, on_record=on_record).records


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
    pool = WorkerPool(session.prepare(calls), concurrency=session.workers, on_record=on_record, stop=stop)
    return run_coroutine(_run(session, pool))


async def _run(session: JudgeSession, pool: WorkerPool) -> Asked:
    async with session:
        return await pool.run(session.ask)


class WorkerPool:
    """Workers that draw from one iterator, so calls are made as they are needed and never pile up."""

    def __init__(
        self, work: Iterable[Any], *, concurrency: int, on_record: OnRecord | None, stop: StopRule | None
    ) -> None:
        self._numbered = enumerate(work)
        self._concurrency, self._on_record, self._stop = concurrency, on_record, stop
        self._records: dict[int, CallRecord] = {}
        self._stopped: str | None = None
        self._failure: BaseException | None = None

    async def run(self, ask: Ask) -> Asked:
        """Ask until the work is done or something stops it; what is in flight is settled in any case."""
        with hearing_interrupts(self._interrupted):
            await asyncio.gather(*(self._work(ask) for _ in range(self._concurrency)))
        if self._failure is not None:
            raise self._failure
        return Asked(records=[self._records[index] for index in sorted(self._records)], stopped=self._stopped)

    async def _work(self, ask: Ask) -> None:
        while self._stopped is None:
            try:
                index, piece = next(self._numbered)
            except StopIteration:
                return
            try:
                asked = ask(piece)
                done = asked if isinstance(asked, CallRecord) else await asked
            except OutOfBudget:
                self._stopped = self._stopped or BUDGET
                return
            except JrhError as error:
                # Nothing new is sent, but what is in flight is paid already and must be settled.
                self._stopped, self._failure = self._stopped or "failure", self._failure or error
                return
            self._records[index] = done
            if self._on_record:
                self._on_record(done)
            if self._stop and (reason := self._stop(done)):
                self._stopped = self._stopped or reason
            if index % _TURN == 0:
                await asyncio.sleep(0)  # so that Ctrl-C is heard in a long row of answers that are there already

    def _interrupted(self) -> None:
        self._stopped, self._failure = self._stopped or "interrupted", KeyboardInterrupt()


@contextmanager
def hearing_interrupts(stop: Callable[[], None]) -> Iterator[None]:
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


def calls_frame(records: list[CallRecord]) -> pd.DataFrame:
    """Return records as the table of `calls/calls.parquet`, columns typed even where all cells are empty."""
    frame = pd.DataFrame({each.name: [getattr(record, each.name) for record in records] for each in fields(CallRecord)})
    types = {"delta": "float64", "input_tokens": "Int64", "output_tokens": "Int64"}
    types |= dict.fromkeys(("cost_usd", "latency_s", "confidence"), "float64")
    typed: pd.DataFrame = frame.astype(types)
    return typed


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


def run_coroutine(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine from sync code, whether or not this thread already runs a loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(coroutine)
    with concurrent.futures.ThreadPoolExecutor(1, thread_name_prefix="jrh-loop") as pool:
        return pool.submit(asyncio.run, coroutine).result()
