"""The runner: workers ask every call of a plan; budget, rule, error or Ctrl-C may end it early."""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Iterator
from contextlib import AbstractAsyncContextManager
from contextvars import copy_context
from dataclasses import dataclass, fields
from functools import cache
from typing import Any, Generic, Protocol, TypeVar, cast, runtime_checkable

import pandas as pd

from jrh_mlflow.engine.budget import OutOfBudget, Paid
from jrh_mlflow.engine.client import ClientSettings
from jrh_mlflow.engine.interrupts import Interrupts, NotAsked, Stop, ended_by, hearing_interrupts, say
from jrh_mlflow.engine.journal import Journal
from jrh_mlflow.engine.record_log import DiskText, RecordLog, in_memory
from jrh_mlflow.engine.sessions import session_for
from jrh_mlflow.errors import is_posix
from jrh_mlflow.judges import Judge
from jrh_mlflow.schema.items import OPTIONAL_COLUMNS, Call, CallRecord

INTERRUPTED = "interrupted"
"""`WorkerPool.stopped` after Ctrl-C, SIGTERM or a hang-up."""

_TURN = 256
"""Work items after which the event loop gets a turn, even if none of them had to wait."""
_LISTEN_S = 0.2
"""Seconds until a thread that waits for a loop in another one looks whether a signal came."""

W = TypeVar("W")
R = TypeVar("R")
OnRecord = Callable[[CallRecord], None]
StopRule = Callable[[CallRecord], "str | None"]
"""Told about every record; returns why no further call should be made, or None."""


@runtime_checkable
class PlannedStop(Protocol):
    """A stop rule that decides in the order of the plan, and knows which calls it still needs."""

    def __call__(self, record: CallRecord) -> str | None:
        """Take a record in; return why no further call should be made, or None."""

    def put_off(self, record: CallRecord) -> str | None:
        """Take in how a call failed that is asked once more at the end: the order need not wait for it."""

    def needs(self, call: Call) -> bool:
        """Whether a call should still be asked."""


class WorkerPool(Generic[W, R]):
    """Workers that draw from one iterator, so work is made as it is needed and never piles up.

    Args:
        work: Drawn one by one, in order.
        workers: How many work items are under way at most.
        on_result: Told about every result as it comes; what it returns, if anything, is why no further work is begun.
        may_pass: Says of a result that the same work may end better later: it is done once more when all else is done,
            and `on_result` is told how that ended.
        on_put_off: Told about such a result at once; it may end the work like `on_result`.
        on_stop: Called once when the pool is stopped, for those who work elsewhere.
        keep: Takes every result with the number of its work, a second one of that number in the place of the first;
            `results` is then empty.
    """

    def __init__(
        self,
        work: Iterable[W],
        *,
        workers: int,
        on_result: Callable[[R], str | None] | None = None,
        may_pass: Callable[[R], bool] | None = None,
        on_put_off: Callable[[R], str | None] | None = None,
        on_stop: Callable[[], object] | None = None,
        keep: Callable[[int, R], None] | None = None,
    ) -> None:
        self.stopped: str | None = None
        """Why the pool ended before the last work item, or None."""
        self.out_of_budget: OutOfBudget | None = None
        """What the money was, where that ended it."""
        self.failure: BaseException | None = None
        """What ended it, where that must be raised once the results are safe."""
        self._numbered = enumerate(work)
        self._workers, self._on_result, self._may_pass, self._on_stop = workers, on_result, may_pass, on_stop
        self._on_put_off = on_put_off
        self._results: dict[int, R] = {}
        self._keep_result, self._n_results = keep or self._results.__setitem__, 0
        self._later: dict[int, tuple[W, R]] = {}
        """Work that is done once more, by its number, and how it ended."""
        self._stop = Stop()

    @property
    def results(self) -> list[R]:
        """What came of the work so far, in its order."""
        return [self._results[index] for index in sorted(self._results)]

    async def run(self, do: Callable[[W], R | Awaitable[R]]) -> list[R]:
        """Do all the work, or as much as there is until something stops it; return results in the order of the work.

        Raises:
            Exception: the first that `do` or `on_result` raised, once what was under way has ended. `OutOfBudget` only
                stops the pool.
            KeyboardInterrupt: after the first Ctrl-C, likewise; `SystemExit` after another signal.
        """
        await self.settle(do)
        if self.failure is not None:
            raise self.failure
        return self.results

    async def settle(self, do: Callable[[W], R | Awaitable[R]]) -> None:
        """Do the same, but leave what would be raised in `failure`.

        A result that is there already, without an await, costs no turn of the event loop.
        """
        loop = asyncio.get_running_loop()
        with (
            hearing_interrupts() as interrupts,
            interrupts.calling(lambda: loop.call_soon_threadsafe(self._interrupted, interrupts)),
            self._stop.heeded(),
        ):
            await self._do_all(do, self._numbered)
            # Where everything failed, nothing says that it would be otherwise now.
            if self._later and len(self._later) < self._n_results:
                await self._do_all(do, iter([(index, item) for index, (item, _) in self._later.items()]))
        # What was put off and could not be done again counts as it ended the first time.
        for _, done in self._later.values():
            self._tell(done, self._on_result)

    async def _do_all(self, do: Callable[[W], R | Awaitable[R]], numbered: Iterator[tuple[int, W]]) -> None:
        await asyncio.gather(*(self._work(do, numbered) for _ in range(self._workers)))

    async def _work(self, do: Callable[[W], R | Awaitable[R]], numbered: Iterator[tuple[int, W]]) -> None:
        while self.stopped is None:
            try:
                # The workers share one iterator and one thread, so no item is drawn twice.
                index, item = next(numbered)
                result = do(item)
                # Not by the abstract class: that look takes ten times as long.
                done: R = await cast("Awaitable[R]", result) if hasattr(result, "__await__") else result
            except (StopIteration, NotAsked):
                return
            except OutOfBudget as money:
                self.out_of_budget = self.out_of_budget or money
                self._end(str(money))
                return
            except (asyncio.CancelledError, GeneratorExit):
                raise
            except BaseException as error:
                # Nothing new is begun, but what is in flight is paid already and must be settled.
                self._fail(error)
                return
            self._keep(index, item, done)
            if index % _TURN == 0:
                await asyncio.sleep(0)  # so that Ctrl-C is heard in a long row of results that are there already

    def _keep(self, index: int, item: W, done: R) -> None:
        self._keep_result(index, done)
        is_second = self._later.pop(index, None) is not None
        self._n_results += not is_second
        if not is_second and self._may_pass and self._may_pass(done):
            self._later[index] = item, done
            self._tell(done, self._on_put_off)
        else:
            self._tell(done, self._on_result)

    def _tell(self, done: R, on_result: Callable[[R], str | None] | None) -> None:
        if on_result is None:
            return
        try:
            reason = on_result(done)
        except BaseException as error:
            # A rule or a progress bar that broke once is not told again, while what is in flight is still kept.
            self._on_result = self._on_put_off = None
            self._fail(error)
        else:
            self._end(reason)

    def _interrupted(self, interrupts: Interrupts) -> None:
        assert interrupts.first is not None
        self._fail(ended_by(interrupts.first))
        say("\nStopping: calls in flight are settled first; Ctrl-C again aborts.")

    def _fail(self, error: BaseException) -> None:
        self.failure = self.failure or error
        self._end(type(error).__name__ if isinstance(error, Exception) else INTERRUPTED)

    def _end(self, reason: str | None) -> None:
        """Begin nothing more, and let go of what only waits."""
        if reason is None or self.stopped is not None:
            return
        self.stopped = reason
        self._stop.stop()
        if self._on_stop:
            self._on_stop()


def run_coroutine(coroutine: Coroutine[Any, Any, R], *, quick: bool = False) -> R:
    """Run a coroutine from sync code, whether or not this thread already runs a loop.

    With `quick` by uvloop, where it is installed: a tenth less of the processor per call. Only for what awaits no code
    of the user's: some libraries patch the loop that they run in, and cannot patch that one.
    """
    run: Callable[[Coroutine[Any, Any, R]], R] = _quick_run() if quick else asyncio.run
    with hearing_interrupts():
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return run(coroutine)
        return _run_in_thread(coroutine, run)


@cache
def _quick_run() -> Callable[[Coroutine[Any, Any, Any]], Any]:
    try:
        import uvloop
    except ImportError:  # there is none for Windows
        return asyncio.run
    return cast("Callable[[Coroutine[Any, Any, Any]], Any]", uvloop.run)


def _run_in_thread(coroutine: Coroutine[Any, Any, R], run: Callable[[Coroutine[Any, Any, R]], R]) -> R:
    """Run a coroutine in a loop of its own, and end it when the waiting for it is ended."""
    running: list[tuple[asyncio.AbstractEventLoop, asyncio.Task[Any] | None]] = []

    async def watched() -> R:
        running.append((asyncio.get_running_loop(), asyncio.current_task()))
        return await coroutine

    with concurrent.futures.ThreadPoolExecutor(1, thread_name_prefix="jrh-loop") as pool:
        # With the context of the caller, in which its signals are heard.
        done = pool.submit(copy_context().run, run, watched())
        try:
            # In steps: a signal that comes just before the waiting begins does not end it, and would not be heard.
            while not concurrent.futures.wait([done], timeout=_LISTEN_S).done:
                pass
            return done.result()
        except BaseException:
            for loop, task in running:
                if task is not None and not loop.is_closed():
                    loop.call_soon_threadsafe(task.cancel)
            raise


@dataclass(kw_only=True, slots=True)
class Asked:
    """What came of asking."""

    records: Collection[CallRecord]
    """In the order of the calls, of many calls on disk (`RecordLog`); fewer than planned when it was stopped."""
    stopped: str | None = None
    """Why it ended before the last call, or None."""
    out_of_budget: OutOfBudget | None = None
    """What the money was, where that ended it."""
    paid: Paid | None = None
    """What all attempts came to, those of calls without a record included; None where nobody counts them."""
    failure: BaseException | None = None
    """What ended it, where the caller asked not to have it raised before the records are safe."""


def ask_calls(
    judge: Judge,
    calls: Iterable[Call],
    *,
    concurrency: int = 32,
    on_record: OnRecord | None = None,
    stop: StopRule | None = None,
    journal: Journal | None = None,
    settings: ClientSettings | None = None,
    raising: bool = True,
) -> Asked:
    """Ask every call, with at most `concurrency` in flight.

    Works inside a running event loop too (a notebook): the calls then run in a thread with a loop of its own.
    On the first Ctrl-C (or SIGTERM, or hang-up) no new call and no new attempt is made, and those in flight are
    settled; a second one aborts. Calls that failed in a way that may pass are asked once more at the end.

    Args:
        judge: The judge.
        calls: In the order of the plan.
        concurrency: Most calls in flight.
        on_record: Told about every record.
        stop: Told about every record; returns why no further call should be made.
        journal: For a prompted judge.
        settings: Limits, prices and the budget.
        raising: False returns an interrupt, or what `stop` or `on_record` raised, as `failure`, beside the records.
    """
    if concurrency < 1:
        raise ValueError(f"`concurrency >= 1` must hold, but got {concurrency=}.")
    session = session_for(judge, journal, settings or ClientSettings(concurrency=concurrency))
    work = session.prepare(calls)
    return run_pool(
        work,
        session.watching(session.ask),
        within=session,
        workers=session.workers,
        on_record=on_record,
        stop=stop,
        may_pass=session.may_pass,
        paid=lambda: session.paid,
        raising=raising,
        quick=judge.model_judge is not None,
    )


def run_pool(
    work: Iterable[W],
    ask: Callable[[W], CallRecord | Awaitable[CallRecord]],
    *,
    within: AbstractAsyncContextManager[Any],
    workers: int,
    on_record: OnRecord | None,
    stop: StopRule | None,
    may_pass: Callable[[CallRecord], bool],
    paid: Callable[[], Paid | None],
    on_stop: Callable[[], object] | None = None,
    raising: bool = True,
    quick: bool = False,
) -> Asked:
    """Ask for every piece of work by a pool of workers, inside the block of `within`; `quick` as for `run_coroutine`.

    A stop rule that knows which calls it needs leaves out the others as they are drawn: what was prepared ahead of
    time keeps its number, whatever is decided meanwhile.
    """
    planned = stop if isinstance(stop, PlannedStop) else None
    if planned is not None:
        # Work is a call, or holds one. The rule is asked in the moment it is drawn, not before.
        prepared: Iterable[Any] = work
        work = (item for item in prepared if planned.needs(getattr(item, "call", item)))

    def on_result(record: CallRecord) -> str | None:
        if on_record:
            on_record(record)
        return stop(record) if stop else None

    log = RecordLog(may_change=may_pass)

    async def run() -> Asked:
        pool = WorkerPool(
            work,
            workers=workers,
            on_result=on_result,
            may_pass=may_pass,
            on_put_off=planned.put_off if planned else None,
            on_stop=on_stop,
            keep=log.add,
        )
        async with within:
            await pool.settle(ask)
        return Asked(
            records=log if log.on_disk else log.latest,
            stopped=pool.stopped,
            failure=pool.failure,
            out_of_budget=pool.out_of_budget,
            paid=paid(),
        )

    answers = run_coroutine(run(), quick=quick)
    if raising and answers.failure is not None:
        raise answers.failure
    return answers


def calls_frame(records: Collection[CallRecord], *, on_disk: bool = False) -> pd.DataFrame:
    """Return records as the table of `calls/calls.parquet`, columns typed even where all cells are empty.

    With `on_disk` texts of many calls stay there, until somebody looks at them (`DiskTexts`).
    """
    names = [column.name for column in fields(CallRecord)]
    frame = (
        records.frame()
        if isinstance(records, RecordLog)
        else pd.DataFrame({name: [getattr(record, name) for record in records] for name in names})
    )
    empty = [name for name in OPTIONAL_COLUMNS if not (frame[name] != "").any()]
    unset = ("raw", "asked_at", "attempts", "unknown_attempts", "worst_usd")
    # A column on disk has a value: to look for one would read all its texts.
    empty += [name for name in unset if not isinstance(frame[name].dtype, DiskText) and frame[name].isna().all()]
    frame = frame.drop(columns=empty)
    types = {"delta": "float64", "input_tokens": "Int64", "output_tokens": "Int64"}
    types |= dict.fromkeys(("cost_usd", "latency_s", "confidence"), "float64")
    typed: pd.DataFrame = frame.astype(types)
    return typed if on_disk else in_memory(typed)


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
