"""How an answer becomes durable: first in the spool of its process, then in the database by the one thread that writes.

What arrived is in the spool, a file of its own process, before anything else is done with it. It is locked for
as long as its journal is open. The lock ends with the process, so it also tells, across containers and recycled process
ids, whether the owner of a reservation still lives. The writer puts whatever waits into one transaction (group commit).
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import queue
import secrets
import threading
import time
import weakref
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Any, NamedTuple

from jrh_mlflow.engine.journal.rows import CallRow, Held, Reservation
from jrh_mlflow.errors import JournalError

_log = logging.getLogger("jrh_mlflow")
_MARK = ".spool-"
_SENT = "sent"
"""First word of a line that says what was sent: alone that such lines are written, else with the reservation's id."""
_AHEAD = 2**20
"""Bytes that the disk has promised before anything is sent: what is in flight fits in when it is full."""
_line = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
_RAW = "\x1f"
_TRIM_BYTES = 32 * 2**20
_open_spools: weakref.WeakSet[Spool] = weakref.WeakSet()


class SpoolEntry(NamedTuple):
    """One line of a spool: a settled call and the reservation it settles."""

    number: int
    held: Held
    row: CallRow


class Spool:
    """The append-only file of one open journal. Not safe for threads: its journal keeps the order."""

    def __init__(self, journal: Path) -> None:
        self.owner = f"{os.getpid()}-{secrets.token_hex(6)}"
        self.journal = journal
        self.path = spool_path(journal, self.owner)
        self.committed = 0
        """Number of the last entry that the database holds; set by the writer."""
        self.unkept = 0
        """Settled calls that the disk did not take."""
        self._last = 0
        self._size = self._promised = 0
        self._torn = False
        self.sent: set[int] | None = None
        """Reservations in flight that were sent; None until somebody says that he marks them."""
        self._fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        lock(self._fd, wait=True)
        _open_spools.add(self)

    def append(self, held: Held, row: CallRow) -> int:
        """Write one settled call and return its number.

        A disk that takes no more is said, not raised: the database may still have room for a paid answer.
        """
        everything_is_committed = self.committed == self._last
        self._last += 1
        if self.sent is not None:
            self.sent.discard(held.id)
        text = _spooled(self._last, held, row)
        try:
            # Not after every commit: emptying a file costs more than writing some lines to it.
            if everything_is_committed and self._size > _TRIM_BYTES:
                os.ftruncate(self._fd, 0)
                self._size = self._promised = 0
                self._write(self._marks())
            self._write(f"{text}\n".encode())
        except OSError as error:
            self._torn = True
            self.unkept += 1
            _log.warning("The spool %s cannot be written (%s).", self.path, error.strerror)
        return self._last

    def mark_sent(self, numbers: Iterable[int] = ()) -> None:
        """Note that these reservations are about to be sent; from the first time on, one without a mark never was.

        Written and not synced: it must outlive the process, not the machine.

        Raises:
            OSError: The disk takes no more: what cannot be noted must not be sent.
        """
        if self.sent is None:
            self._write(_mark_line(()))
            self.sent = set()
        new = [number for number in numbers if number not in self.sent]
        if new:
            self._write(_mark_line(new))
            # After the line: what could not be noted is not sent.
            self.sent.update(new)

    def _marks(self) -> bytes:
        """Write down that marks are made, and those of what is in flight."""
        return b"" if self.sent is None else _mark_line(()) + (_mark_line(self.sent) if self.sent else b"")

    def _promise(self, size: int) -> None:
        """Have the disk set room aside beyond what is to be written; one that has none left may still take a line."""
        if self._size + size + _AHEAD > self._promised and hasattr(os, "posix_fallocate"):
            with suppress(OSError):
                os.posix_fallocate(self._fd, self._promised, self._size + size + 2 * _AHEAD - self._promised)
                self._promised = self._size + size + 2 * _AHEAD

    def _write(self, line: bytes) -> None:
        # After a line that was cut off by a full disk: alone on its line, only that one is unreadable.
        if self._torn:
            line = b"\n" + line
        self._promise(len(line))
        while line:
            written = os.pwrite(self._fd, line, self._size)
            self._size += written
            line = line[written:]
        self._torn = False

    def close(self, *, remove: bool) -> None:
        """Let go of the file; one that is kept is replayed by the next process that opens the journal."""
        if self._fd < 0:
            return
        # Unlinked while it is locked: nobody may find a spool without an owner and replay it.
        if remove:
            self.path.unlink(missing_ok=True)
        os.close(self._fd)
        self._fd = -1


def spool_path(journal: Path, owner: str) -> Path:
    """Return where the spool of an owner lies: beside the journal."""
    return journal.with_name(f"{journal.name}{_MARK}{owner}")


def spool_owners(journal: Path) -> list[str]:
    """Return the owners of all spool files, living or dead."""
    start = f"{journal.name}{_MARK}"
    return sorted(path.name[len(start) :] for path in journal.parent.iterdir() if path.name.startswith(start))


def is_alive(journal: Path, owner: str) -> bool:
    """Whether the process that owns a spool still has it open."""
    try:
        fd = os.open(spool_path(journal, owner), os.O_RDWR)
    except FileNotFoundError:
        return False
    try:
        # A process id would not tell: ids are used again, and those of another container mean nothing here.
        return not lock(fd, wait=False)
    finally:
        os.close(fd)


def read_spool(journal: Path, owner: str) -> Iterator[SpoolEntry]:
    """Yield what a dead process had received, in order. The line it was writing when it died may be torn."""
    unreadable = 0
    with suppress(FileNotFoundError), spool_path(journal, owner).open("rb") as lines:
        for line in lines:
            entry = _parse(line)
            if entry is not None:
                yield entry
            # What was promised and not used is zeros.
            elif line.strip(b"\0\n ") and _mark(line) is None:
                unreadable += 1
    if unreadable:
        _log.warning("The spool of %s holds %d lines that were cut off or damaged.", journal, unreadable)


def _spooled(number: int, held: Held, row: CallRow) -> str:
    """Write a line: JSON, and behind it the request as it is, which is long, and JSON already, without a line's end."""
    request = row.request
    if not isinstance(request, str) or "\n" in request:
        return _line([number, held, row])
    return f"{_line([number, held, row._replace(request=None)])}{_RAW}{request}"


def _parse(line: bytes) -> SpoolEntry | None:
    try:
        # JSON has no such character: it is escaped there.
        text, is_raw, request = line.decode().rstrip("\n").partition(_RAW)
        number, held, row = json.loads(text)
        entry = SpoolEntry(number, Held._make(held), CallRow._make(row))
        entry = entry._replace(row=entry.row._replace(request=request)) if is_raw else entry
    except (ValueError, TypeError):
        return None
    return entry if entry.row.is_intact() else None


def sent_by(journal: Path, owner: str) -> set[int] | None:
    """Return the reservations that a process had sent; None where it did not say: then any of them may have been."""
    sent: set[int] | None = None
    with suppress(FileNotFoundError), spool_path(journal, owner).open("rb") as lines:
        for mark in filter(None, map(_mark, lines)):
            sent = (sent or set()) | set(mark[1:])
    return sent


def _mark_line(numbers: Collection[int]) -> bytes:
    return b'["%b"%b]\n' % (_SENT.encode(), b"".join([b",%d" % number for number in sorted(numbers)]))


def _mark(line: bytes) -> list[Any] | None:
    if not line.lstrip(b"\n").startswith(b'["sent"'):
        return None
    try:
        mark = json.loads(line)
    except ValueError:
        return None
    return mark if mark[0] == _SENT else None


@contextmanager
def sole_opener(journal: Path) -> Iterator[None]:
    """Let one process at a time open, recover or repair the journals of a directory."""
    # The folder itself is locked: a lock file of our own would be one more thing to clean up.
    fd = os.open(journal.parent, os.O_RDONLY)
    try:
        lock(fd, wait=True)
        yield
    finally:
        os.close(fd)


def lock(fd: int, *, wait: bool) -> bool:
    """Lock a file until it is closed or its process ends; False when another holds it."""
    # Not at the top: there is none on Windows, where opening a journal says so.
    import fcntl

    try:
        fcntl.flock(fd, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _let_go_in_child() -> None:
    """A forked child must not keep its parent's spool locked, or the parent would seem to live on."""
    for spool in list(_open_spools):
        spool.close(remove=False)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_let_go_in_child)


_LINGER_S = 0.01
"""How long more is waited for where there was more than one change: a commit costs as much for many as for one."""
_BATCH = 48
"""Changes of one transaction at most: nobody waits long for the first of them, and of a damaged file that holds few
transactions whole more answers can be read."""


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
        self._cause: str | None = None
        self._transact = transact
        self._spool = spool
        self._changes: queue.SimpleQueue[Change | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="jrh-journal", daemon=True)
        self._thread.start()

    @property
    def problem(self) -> str | None:
        """Why nothing is written any more, and whether what was paid is kept all the same; None while all is well."""
        if self._cause is None:
            return None
        spool = self._spool
        kept = (
            f"{spool.unkept} paid answers could not be kept either, and are paid again."
            if spool.unkept
            else f"{spool.path.name} keeps what was paid."
        )
        return f"The journal cannot be written ({self._cause}). {kept} Mend the cause and start again."

    def submit(self, change: Change) -> None:
        """Queue a change; its future is done once the change is durable."""
        self._changes.put(change)

    def stop(self) -> None:
        """Write what waits, then end the thread. The database is left to the caller."""
        self._changes.put(None)
        self._thread.join()

    def _run(self) -> None:
        more, is_busy = True, False
        while more:
            # Waits for one change and takes whatever else is there: the slower the disk, the larger the batches.
            batch = [self._changes.get()]
            if is_busy and self._changes.qsize() < _BATCH:
                time.sleep(_LINGER_S)
            while len(batch) < _BATCH and not self._changes.empty():
                batch.append(self._changes.get())
            changes = [change for change in batch if change is not None]
            more = len(changes) == len(batch)
            is_busy = len(changes) > 1
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
            self._cause = str(error)
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
