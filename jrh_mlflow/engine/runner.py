"""The runner: a bounded number of calls in flight, every one of them ending as a record."""

from __future__ import annotations

import asyncio
import concurrent.futures
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any, TypeVar

import pandas as pd

from jrh_mlflow.engine.plan import presentation_sha256
from jrh_mlflow.judges import Judge
from jrh_mlflow.judges.answers import clean_text, read_answer
from jrh_mlflow.judges.callables import CallableJudge
from jrh_mlflow.schema.calls import CallRecord
from jrh_mlflow.schema.items import Call
from jrh_mlflow.schema.presentation import Answer

T = TypeVar("T")
OnRecord = Callable[[CallRecord], None]


def run_calls(
    judge: Judge, calls: Iterable[Call], *, concurrency: int = 32, on_record: OnRecord | None = None
) -> list[CallRecord]:
    """Ask every call and return the records in the order of the calls.

    Works inside a running event loop too (a notebook): the calls then run in a thread with a loop of its own.
    """
    if concurrency < 1:
        raise ValueError(f"`concurrency >= 1` must hold, but got {concurrency=}.")
    with _threads(judge, concurrency):
        return run_coroutine(_run(judge, calls, concurrency=concurrency, on_record=on_record))


async def _run(
    judge: Judge, calls: Iterable[Call], *, concurrency: int, on_record: OnRecord | None
) -> list[CallRecord]:
    numbered = enumerate(calls)
    records: dict[int, CallRecord] = {}

    async def worker() -> None:
        # All workers draw from one iterator, so calls are made as they are needed and never pile up.
        for index, call in numbered:
            records[index] = await ask_one(judge, call)
            if on_record:
                on_record(records[index])

    if judge.inline:
        await worker()
    else:
        workers = [asyncio.ensure_future(worker()) for _ in range(concurrency)]
        try:
            await asyncio.gather(*workers)
        finally:
            for task in workers:
                task.cancel()
    return [records[index] for index in sorted(records)]


async def ask_one(judge: Judge, call: Call) -> CallRecord:
    """Ask one call. Whatever the judge raises is the outcome `error`, never a verdict and never a crash."""
    started = time.perf_counter()
    returned: object = None
    failure: str | None = None
    try:
        returned = await judge.ask(call)
    except Exception as error:
        failure = f"{type(error).__name__}: {error}"
    return record(judge, call, returned, failure=failure, latency_s=time.perf_counter() - started)


def record(judge: Judge, call: Call, returned: object, *, failure: str | None, latency_s: float) -> CallRecord:
    """Turn what a judge returned, or how it failed, into a record."""
    if failure is not None:
        outcome, answer, problem = "error", "", clean_text(failure)
    else:
        outcome, answer, reason = read_answer(returned, call.presentation.answers)
        problem = clean_text(reason) if reason else ""
    extras = returned if isinstance(returned, Answer) else Answer(None)
    item = call.item
    return CallRecord(
        suite_item=item.id,
        task=item.task,
        condition=item.condition,
        delta=item.delta,
        order=call.order,
        better=item.better or "",
        replicate=call.replicate,
        outcome=outcome,
        answer=answer,
        expected=item.expected or "",
        rationale=clean_text(str(extras.rationale)) if extras.rationale is not None else None,
        input_tokens=extras.input_tokens,
        output_tokens=extras.output_tokens,
        cost_usd=extras.cost_usd,
        latency_s=latency_s,
        model=judge.name,
        prompt_sha256=presentation_sha256(call.presentation),
        error=problem or None,
        confidence=extras.confidence,
    )


def calls_frame(records: list[CallRecord]) -> pd.DataFrame:
    """Return records as the table of `calls/calls.parquet`, columns typed even where all cells are empty."""
    frame = pd.DataFrame([asdict(record) for record in records])
    types = {"delta": "float64", "input_tokens": "Int64", "output_tokens": "Int64"}
    types |= dict.fromkeys(("cost_usd", "latency_s", "confidence"), "float64")
    typed: pd.DataFrame = frame.astype(types)
    return typed


def run_coroutine(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine from sync code, whether or not this thread already runs a loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(coroutine)
    with concurrent.futures.ThreadPoolExecutor(1, thread_name_prefix="jrh-loop") as pool:
        return pool.submit(asyncio.run, coroutine).result()


@contextmanager
def _threads(judge: Judge, concurrency: int) -> Iterator[None]:
    """Give a sync callable its bounded thread pool for the time of a run."""
    if not isinstance(judge, CallableJudge) or judge.is_async:
        yield
        return
    with concurrent.futures.ThreadPoolExecutor(concurrency, thread_name_prefix="jrh-judge") as pool:
        judge.executor = pool
        try:
            yield
        finally:
            judge.executor = None
