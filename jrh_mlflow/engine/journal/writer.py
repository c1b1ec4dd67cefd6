"""The one thread of a journal that writes: whatever waits goes into one transaction (group commit)."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum

from jrh_mlflow.engine.journal.rows import CallRow, Held, Reservation
from jrh_mlflow.engine.journal.spool import Spool
from jrh_mlflow.errors import JournalError

_BATCH = 1024
"""Changes of one transaction at most, so that nobody waits long for the first of them."""


class ChangeKind(IntEnum):
    """What a change does. Within a batch settling comes first: what it frees may be set aside again."""

    SETTLE = 0
    RESERVE = 1
    WITHDRAW = 2


@dataclass(slots=True)
class Change:
    """One change that waits to be written."""

    kind: ChangeKind
    row: CallRow | None = None
    held: Held | None = None
    """The reservation; of a RESERVE set only where it is granted."""
    reservation: Reservation = Reservation.NO_ROOM
    """The result of a RESERVE."""
    replaces_before: float | None = None
    """A RESERVE puts an answer of before that moment out of service."""
    even_if_taken: bool = False
    """A RESERVE asks only whether the cap leaves room."""
    stands: bool = True
    """Whether a SETTLE that answers is what the journal serves; False where another answer came first."""
    number: int = 0
    """Of its entry in the spool; 0 when it has none."""
    future: asyncio.Future[None] | None = None
    withdrawn: Change | None = None
    """The RESERVE change whose caller has gone, so that nobody else can release it."""


Transact = Callable[[Sequence[Change], int], None]
"""Makes a batch of changes durable, all or none, and notes how far the spool is in the database."""


class JournalWriter:
    """Runs changes in the order they were given and wakes their event loops after the COMMIT.

    The first error ends all writing: a later commit must not claim that the spool is in the database when an earlier
    part of it is not. What was spooled is replayed when the journal is opened again.
    """

    def __init__(self, transact: Transact, spool: Spool) -> None:
        self.problem: str | None = None
        self._transact = transact
        self._spool = spool
        self._changes: queue.SimpleQueue[Change | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="jrh-journal", daemon=True)
        self._thread.start()

    def submit(self, change: Change) -> None:
        """Queue a change; its future is done once the change is durable."""
        self._changes.put(change)

    def stop(self) -> None:
        """Write what waits, then end the thread. The database is left to the caller."""
        self._changes.put(None)
        self._thread.join()

    def _run(self) -> None:
        more = True
        while more:
            # Waits for one change and takes whatever else is there: the slower the disk, the larger the batches.
            batch = [self._changes.get()]
            while len(batch) < _BATCH and not self._changes.empty():
                batch.append(self._changes.get())
            changes = [change for change in batch if change is not None]
            more = len(changes) == len(batch)
            if changes:
                self._commit(changes)
                _wake(changes, self.problem)

    def _commit(self, changes: list[Change]) -> None:
        if self.problem:
            return
        number = max(change.number for change in changes)
        try:
            self._transact(changes, number)
        except Exception as error:
            # Whatever it is, it must reach those who wait: an error in this thread would leave them waiting for ever.
            kept = f"{self._spool.path.name} keeps what was paid."
            self.problem = f"The journal cannot be written ({error}). {kept} Mend the cause and start again."
        else:
            self._spool.committed = max(number, self._spool.committed)


def _wake(changes: list[Change], problem: str | None) -> None:
    by_loop = defaultdict(list)
    for change in changes:
        if change.future is not None:
            by_loop[change.future.get_loop()].append(change)
    # One call per loop and batch: each wakes a loop, and futures must be resolved in their own thread.
    for loop, waiting in by_loop.items():
        try:
            loop.call_soon_threadsafe(_resolve, waiting, problem)
        except RuntimeError:
            # The loop is closed, so nobody waits; the changes are done all the same.
            continue


def _resolve(changes: list[Change], problem: str | None) -> None:
    for change in changes:
        assert change.future is not None
        if change.future.done():  # its caller was cancelled
            continue
        if problem:
            change.future.set_exception(JournalError(problem))
        else:
            change.future.set_result(None)
