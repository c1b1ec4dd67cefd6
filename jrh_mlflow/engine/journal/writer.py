"""The one thread of a journal that writes: whatever waits goes into one transaction (group commit)."""

from __future__ import annotations

import asyncio
import queue
import threading
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum

from jrh_mlflow.engine.journal.rows import CallRow, Held, totals
from jrh_mlflow.engine.journal.spool import Spool
from jrh_mlflow.errors import JournalError

_BATCH = 1024


class ChangeKind(IntEnum):
    """What a job does. Within a batch settling comes first: what it frees may be set aside again."""

    SETTLE = 0
    RELEASE = 1
    RESERVE = 2
    WITHDRAW = 3


@dataclass(slots=True)
class Change:
    """One change that waits to be written."""

    kind: ChangeKind
    row: CallRow | None = None
    held: Held | None = None
    """The reservation; for RESERVE the result, None where the cap left no room."""
    number: int = 0
    """Of its entry in the spool; 0 when it has none."""
    future: asyncio.Future[None] | None = None
    withdrawn: Change | None = None
    """The RESERVE job whose caller has gone, so that nobody else can release it."""


class Database(ABC):
    """What a writer needs of a database: one connection that nobody else uses."""

    @abstractmethod
    def transact(self, jobs: Sequence[Change], *, owner: str, number: int) -> None:
        """Make the changes of a batch durable, all or none, with `apply`.

        Args:
            jobs: In the order they were given.
            owner: Whose spool the answers are in.
            number: How far that spool is in the database after this batch; 0 for no further than before.
        """

    @abstractmethod
    def settle_together(self, settled: Sequence[tuple[CallRow, Held]]) -> None:
        """Settle many calls with few statements, or raise what makes `transact` settle them one by one."""

    @abstractmethod
    def settle(self, row: CallRow, held: Held) -> None:
        """Put an answered or failed call in the place of its reservation, and book its cost."""

    @abstractmethod
    def release_all(self, reservations: Iterable[Held]) -> None:
        """Take back reservations."""

    @abstractmethod
    def set_aside(self, budget: str, worst_micro: int) -> bool:
        """Reserve an amount in one statement; False, and nothing changes, when the cap leaves no room."""

    @abstractmethod
    def insert(self, rows: Sequence[CallRow]) -> list[int]:
        """Insert rows and return their ids, in the same order."""

    def reserve(self, rows: Sequence[CallRow]) -> list[Held | None]:
        """Set worst cases aside; return for each the reservation, or None where the cap leaves no room."""
        # All rows of a budget at once, and one by one where they do not all fit.
        sums = totals((row.budget, row.cost_micro) for row in rows)
        whole = {budget: self.set_aside(budget, worst) for budget, worst in sums.items()}
        fits = [whole[row.budget] or self.set_aside(row.budget, row.cost_micro) for row in rows]
        granted = [row for row, room in zip(rows, fits, strict=True) if room]
        numbers = iter(self.insert(granted))
        return [
            Held(next(numbers), row.cost_micro, row.budget) if room else None
            for row, room in zip(rows, fits, strict=True)
        ]

    def apply(self, jobs: Sequence[Change], *, together: bool) -> None:
        """Make the changes of a batch, inside a transaction of `transact`.

        With few statements rather than few per job: after each the thread has to wait for the interpreter again,
        which a busy event loop lets go of only every few milliseconds.
        """
        settled = [(job.row, job.held) for job in jobs if job.kind == ChangeKind.SETTLE and job.row and job.held]
        if together:
            self.settle_together(settled)
        else:
            for row, held in settled:
                self.settle(row, held)
        self.release_all([job.held for job in jobs if job.kind == ChangeKind.RELEASE and job.held])
        reserving = [job for job in jobs if job.kind == ChangeKind.RESERVE]
        granted = self.reserve([job.row for job in reserving if job.row])
        for job, held_now in zip(reserving, granted, strict=True):
            job.held = held_now
        self.release_all([job.withdrawn.held for job in jobs if job.withdrawn and job.withdrawn.held])


class JournalWriter:
    """Runs jobs in the order they were given and wakes their event loops after the COMMIT.

    The first error ends all writing: a later commit must not claim that the spool is in the database when an earlier
    part of it is not. What was spooled is replayed when the journal is opened again.
    """

    def __init__(self, database: Database, spool: Spool) -> None:
        self.problem: str | None = None
        self._database = database
        self._spool = spool
        self._jobs: queue.SimpleQueue[Change | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="jrh-journal", daemon=True)
        self._thread.start()

    def submit(self, job: Change) -> None:
        """Queue a job; its future is done once the change is durable."""
        self._jobs.put(job)

    def stop(self) -> None:
        """Write what waits, then end the thread. The database is left to the caller."""
        self._jobs.put(None)
        self._thread.join()

    def _run(self) -> None:
        more = True
        while more:
            batch = [self._jobs.get()]
            while len(batch) < _BATCH and not self._jobs.empty():
                batch.append(self._jobs.get())
            jobs = [job for job in batch if job is not None]
            more = len(jobs) == len(batch)
            if jobs:
                self._commit(jobs)
                _wake(jobs, self.problem)

    def _commit(self, jobs: list[Change]) -> None:
        if self.problem:
            return
        number = max(job.number for job in jobs)
        try:
            self._database.transact(jobs, owner=self._spool.owner, number=number)
        except Exception as error:
            kept = f"{self._spool.path.name} keeps what was paid."
            self.problem = f"The journal cannot be written ({error}). {kept} Mend the cause and start again."
        else:
            self._spool.committed = max(number, self._spool.committed)


def _wake(jobs: list[Change], problem: str | None) -> None:
    by_loop = defaultdict(list)
    for job in jobs:
        if job.future is not None:
            by_loop[job.future.get_loop()].append(job)
    for loop, waiting in by_loop.items():
        try:
            loop.call_soon_threadsafe(_resolve, waiting, problem)
        except RuntimeError:
            # The loop is closed, so nobody waits; the jobs are done all the same.
            continue


def _resolve(jobs: list[Change], problem: str | None) -> None:
    for job in jobs:
        assert job.future is not None
        if job.future.done():
            continue
        if problem:
            job.future.set_exception(JournalError(problem))
        else:
            job.future.set_result(None)
