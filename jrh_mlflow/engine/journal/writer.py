"""The one thread of a journal that writes: whatever waits goes into one transaction (group commit)."""

from __future__ import annotations

import asyncio
import queue
import sqlite3
import threading
from collections import defaultdict
from dataclasses import dataclass
from enum import IntEnum

from jrh_mlflow.engine.journal.rows import Held, Row
from jrh_mlflow.engine.journal.spool import Spool
from jrh_mlflow.engine.journal.tables import release_all, reserve, settle, settle_together, transaction
from jrh_mlflow.errors import JournalError

_BATCH = 1024


class Kind(IntEnum):
    """What a job does. Within a batch settling comes first: what it frees may be set aside again."""

    SETTLE = 0
    RELEASE = 1
    RESERVE = 2
    WITHDRAW = 3


@dataclass(slots=True)
class Job:
    """One change that waits to be written."""

    kind: Kind
    row: Row | None = None
    held: Held | None = None
    """The reservation; for RESERVE the result, None where the cap left no room."""
    number: int = 0
    """Of its entry in the spool; 0 when it has none."""
    future: asyncio.Future[None] | None = None
    withdrawn: Job | None = None
    """The RESERVE job whose caller has gone, so that nobody else can release it."""


class Writer:
    """Runs jobs in the order they were given and wakes their event loops after the COMMIT.

    The first error ends all writing: a later commit must not claim that the spool is in the database when an earlier
    part of it is not. What was spooled is replayed when the journal is opened again.
    """

    def __init__(self, connection: sqlite3.Connection, spool: Spool) -> None:
        self.problem: str | None = None
        self._connection = connection
        self._spool = spool
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="jrh-journal", daemon=True)
        self._thread.start()

    def submit(self, job: Job) -> None:
        """Queue a job; its future is done once the change is durable."""
        self._jobs.put(job)

    def stop(self) -> None:
        """Write what waits, then end the thread."""
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
        self._connection.close()

    def _commit(self, jobs: list[Job]) -> None:
        if self.problem:
            return
        try:
            try:
                self._transact(jobs, together=True)
            except sqlite3.IntegrityError:
                self._transact(jobs, together=False)
        except Exception as error:
            kept = f"{self._spool.path.name} keeps what was paid."
            self.problem = f"The journal cannot be written ({error}). {kept} Mend the cause and start again."

    def _transact(self, jobs: list[Job], *, together: bool) -> None:
        number = max(job.number for job in jobs)
        with transaction(self._connection):
            _apply(self._connection, jobs, together=together)
            if number:
                update = "UPDATE owners SET committed = ? WHERE owner = ?"
                self._connection.execute(update, (number, self._spool.owner))
        self._spool.committed = max(number, self._spool.committed)


def _apply(connection: sqlite3.Connection, jobs: list[Job], *, together: bool) -> None:
    """Make the changes of a batch.

    With few statements rather than few per job: after each the thread has to wait for the interpreter again, which a
    busy event loop lets go of only every few milliseconds.
    """
    settled = [(job.row, job.held) for job in jobs if job.kind == Kind.SETTLE and job.row and job.held]
    if together:
        settle_together(connection, settled)
    else:
        for row, held in settled:
            settle(connection, row, held)
    release_all(connection, [job.held for job in jobs if job.kind == Kind.RELEASE and job.held])
    reserving = [job for job in jobs if job.kind == Kind.RESERVE]
    granted = reserve(connection, [job.row for job in reserving if job.row])
    for job, held_now in zip(reserving, granted, strict=True):
        job.held = held_now
    release_all(connection, [job.withdrawn.held for job in jobs if job.withdrawn and job.withdrawn.held])


def _wake(jobs: list[Job], problem: str | None) -> None:
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


def _resolve(jobs: list[Job], problem: str | None) -> None:
    for job in jobs:
        assert job.future is not None
        if job.future.done():
            continue
        if problem:
            job.future.set_exception(JournalError(problem))
        else:
            job.future.set_result(None)
