"""The runner: every call of a plan is asked and ends as one record."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, fields
from typing import Any, TypeVar

import pandas as pd

from jrh_mlflow.engine.client import ClientSettings
from jrh_mlflow.engine.journal import Journal
from jrh_mlflow.engine.sessions import session_for
from jrh_mlflow.engine.workers import WorkerPool, run_coroutine
from jrh_mlflow.judges import Judge
from jrh_mlflow.schema.items import Call, CallRecord

W = TypeVar("W")
OnRecord = Callable[[CallRecord], None]
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
    work = session.prepare(calls)
    return run_pool(work, session.ask, within=session, workers=session.workers, on_record=on_record, stop=stop)


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
        return Asked(records=records, stopped=pool.stopped)

    return run_coroutine(run())


def calls_frame(records: list[CallRecord]) -> pd.DataFrame:
    """Return records as the table of `calls/calls.parquet`, columns typed even where all cells are empty."""
    frame = pd.DataFrame({each.name: [getattr(record, each.name) for record in records] for each in fields(CallRecord)})
    types = {"delta": "float64", "input_tokens": "Int64", "output_tokens": "Int64"}
    types |= dict.fromkeys(("cost_usd", "latency_s", "confidence"), "float64")
    typed: pd.DataFrame = frame.astype(types)
    return typed
