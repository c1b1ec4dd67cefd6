"""The journal contract: what the engine relies on, and how an answer goes to the spool, the writer and the database."""

from __future__ import annotations

import asyncio
import json
import logging
import math
import os
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, TypeVar

from jrh_mlflow.engine.journal.rows import (
    ANSWERED,
    FAILED,
    LOST,
    RESERVED,
    UNREADABLE,
    CallRow,
    Held,
    JournalledAnswer,
    Recovery,
    Reservation,
    SettledCall,
    demand_micro,
    seal,
)
from jrh_mlflow.engine.journal.texts import whole_answer
from jrh_mlflow.engine.journal.writer import Change, ChangeKind, JournalWriter, Spool
from jrh_mlflow.errors import JournalError
from jrh_mlflow.text import clean_text

if TYPE_CHECKING:
    from typing_extensions import Self

    from jrh_mlflow.engine.journal.tables import Database

T = TypeVar("T")
_log = logging.getLogger("jrh_mlflow")


@lru_cache(maxsize=64)
def _of_model(model: str) -> str:
    """Write the request of a reservation."""
    return json.dumps({"model": clean_text(model)})


@dataclass(frozen=True, kw_only=True, slots=True)
class Summary:
    """What a journal holds."""

    answered: int
    failed: int
    in_flight: int
    """Reserved and not settled yet, by any process that lives."""
    lost: int
    """In flight when their process died: perhaps paid, never answered, counted as spent at the worst case."""
    damaged: int
    """Rows this process asked for and found damaged."""
    size_bytes: int
    hits: int
    """Answers served instead of being paid again, by every process that has closed the journal, and by this one."""
    spent_micro: int
    """Micro-dollars of all budgets and of the calls without one."""


class Journal(ABC):
    """Answers by key, and the money they cost in integer micro-dollars.

    A call is reserved, sent, and then settled exactly once, `answered` or `failed`, through the journal object that
    reserved it. Methods may be used from several threads and event loops, and several processes may
    share one journal; each process opens its own.

    An answer goes to the spool, then to the writer thread, and is acknowledged after the COMMIT. A database is added
    by a subclass that opens it (and calls `_begin`) and a subclass of `Database`.
    """

    recovery: Recovery
    place: str
    """Where it is, as it may be printed: a path, or an address without its password."""
    id: str
    """Tells it from every other journal, whatever address leads to it: the id that a server keeps, or host and file."""

    def __init__(self, place: str) -> None:
        self.place = place
        # A fork shares the connection with its parent: the child must not use it.
        self._process = os.getpid()
        self._closed = False
        self._hits = 0
        self._damaged: set[str] = set()
        self._budgets: dict[str, int | None] = {}
        self._held: dict[str, list[Held]] = {}
        self._loops: dict[int, asyncio.AbstractEventLoop] = {}
        """By the id of a reservation: where its caller is."""
        self._reading = threading.Lock()
        # Entries reach the spool and the writer in one order, so that a commit covers a beginning of the spool.
        self._ordering = threading.Lock()

    def _begin(self, database: Database, reader: Database, spool: Spool) -> None:
        """Start to write; `database` belongs to the writer thread from here on."""
        self._database, self._reader, self._spool = database, reader, spool
        self._writer = JournalWriter(partial(database.transact, owner=spool.owner), spool)

    @staticmethod
    @abstractmethod
    def shown(address: str) -> str:
        """Return an address as it may be printed."""

    @abstractmethod
    def settle_dead(self) -> None:
        """Settle what processes left behind that have died since the journal was opened."""

    @abstractmethod
    def _errors(self) -> AbstractContextManager[None]:
        """Turn the errors of the database into a `JournalError`."""

    def _read(self, work: Callable[[Database], T]) -> T:
        """Do one thing with the connection of the readers."""
        return work(self._reader)

    def _do_rarely(self, work: Callable[[Database], T]) -> T:
        """Do one thing that may take long or write, outside the writer thread."""
        self._demand_open()
        with self._errors():
            return self._aside(work)

    def _aside(self, work: Callable[[Database], T]) -> T:
        with self._reading:
            return self._read(work)

    def _find_rows(self, keys: Sequence[str]) -> dict[str, CallRow]:
        """Return the rows that answer these keys, whole or not."""
        return self._read(lambda database: database.find_answers(keys))

    def get_many(self, keys: Sequence[str], *, newer_than: float | None = None) -> dict[str, str]:
        """Return the responses of those calls that are answered. Failures, reservations and damaged rows are not.

        Answers of before `newer_than` (seconds since 1970) are passed over.
        """
        return {key: answer.response for key, answer in self.serve(keys, newer_than=newer_than).items()}

    def serve(self, keys: Sequence[str], *, newer_than: float | None = None) -> dict[str, JournalledAnswer]:
        """Return the same as `get_many`, each with the moment when it came."""
        answers = self._answers(keys, newer_than)
        self._hits += len(answers)
        return answers

    def get(self, key: str, *, newer_than: float | None = None) -> str | None:
        """Return the response of an answered call, or None."""
        return self.get_many([key], newer_than=newer_than).get(key)

    def peek(self, keys: Sequence[str], *, newer_than: float | None = None) -> dict[str, str]:
        """Return the same as `get_many`, but not as served, and without what is asked anew: for quotes and exports."""
        answers = self._answers(keys, newer_than)
        return {key: answer.response for key, answer in answers.items() if not answer.is_unreadable}

    def _answers(self, keys: Sequence[str], newer_than: float | None) -> dict[str, JournalledAnswer]:
        self._demand_open()
        with self._errors(), self._reading:
            rows = self._find_rows(keys)
        for key in [key for key, row in rows.items() if not row.is_intact()]:
            self._note_damage(key)
            del rows[key]
        oldest = -math.inf if newer_than is None else newer_than
        return {
            key: JournalledAnswer(whole_answer(row.response) or "", row.at, row.reason == UNREADABLE)
            for key, row in rows.items()
            if row.at >= oldest
        }

    def mark_unreadable(self, keys: Sequence[str]) -> None:
        """Note of answers that a run ended because none of its first ones could be read."""
        self._do_rarely(lambda database: database.mark_unreadable(keys))

    def _note_damage(self, key: str) -> None:
        if not self._damaged:
            _log.warning("The journal %s has a damaged row. Such calls are asked again.", self.place)
        self._damaged.add(key)

    async def reserve(
        self,
        key: str,
        *,
        budget: str | None,
        worst_micro: int,
        replaces_before: float | None = None,
        even_if_taken: bool = False,
        model: str | None = None,
    ) -> Reservation:
        """Set the worst case of a call aside before it is sent, durably.

        Args:
            key: Identifies the call, replicate included.
            budget: A budget opened with `open_budget`; None for no cap.
            worst_micro: What the call costs at most.
            replaces_before: An answer of before that moment (seconds since 1970) is put out of service: it stays in the
                journal as a failure, and the answer to come takes its place.
            even_if_taken: Reserve a call that is answered or in flight, too; only the cap decides.
            model: Whose calls these are. With it the caller says by `mark_sent` when one is sent: what a dead process
                had not marked was not sent, and is not booked.

        Returns:
            True when it is granted. Else nothing is set aside, and it says why: spent + reserved + worst would exceed
            the cap, the call is answered, or another caller, in this process or another, has it in flight.
        """
        demand_micro("worst_micro", worst_micro)
        if budget is not None and budget not in self._budgets:
            raise ValueError(f"Budget {budget!r} must be opened with `open_budget` first.")
        key, name = clean_text(key), clean_text(budget or "")
        request = None if model is None else _of_model(model)
        owner = self._spool.owner
        row = seal(key=key, state=RESERVED, cost_micro=worst_micro, budget=name, owner=owner, request=request)
        if model is not None and self._spool.sent is None:
            self._mark()
        change = Change(ChangeKind.RESERVE, row=row, replaces_before=replaces_before, even_if_taken=even_if_taken)
        change.future = asyncio.get_running_loop().create_future()
        self._submit(change)
        try:
            await change.future
        except asyncio.CancelledError:
            # The caller will never know, so it cannot release what may yet be granted. A closed journal has settled it.
            # Waited for: a run that has ended holds nothing any more.
            with suppress(JournalError):
                await self._withdraw(change)
            raise
        with self._ordering:
            if change.held:
                self._held.setdefault(key, []).append(change.held)
                self._loops[change.held.id] = asyncio.get_running_loop()
        if change.reservation is Reservation.IS_IN_FLIGHT:
            self._lose_orphan(key)
        return change.reservation

    def mark_sent(self, key: str) -> None:
        """Note that a reserved call is about to be sent, before its first byte is.

        Raises:
            JournalError: That cannot be noted, so it must not be sent.
        """
        self._mark(clean_text(key))

    def _mark(self, key: str | None = None) -> None:
        with self._ordering:
            self._demand_open()
            try:
                self._spool.mark_sent([held.id for held in self._held.get(key, ())] if key is not None else ())
            except OSError as error:
                text = f"The disk of the journal {self.place} takes no more ({error.strerror}): nothing more is sent."
                raise JournalError(text) from error

    def _lose_orphan(self, key: str) -> None:
        """Count a call as lost that a caller of this journal left when its event loop was aborted."""
        with self._ordering:
            held = next((held for held in self._held.get(key, ()) if self._loops[held.id].is_closed()), None)
            if held is None:
                return
            self._held[key].remove(held)
            del self._loops[held.id]
            owner = self._spool.owner
            row = seal(key=key, state=LOST, cost_micro=held.worst_micro, budget=held.budget, owner=owner)
            # Not spooled: should this process die first, the call is lost just the same.
            self._writer.submit(Change(ChangeKind.SETTLE, row=row, held=held))

    async def release(self, key: str) -> None:
        """Take back the reservation of a call that was never sent; it leaves no trace."""
        with self._ordering:
            self._demand_open()
            held = self._take(clean_text(key))
        await self._withdraw(Change(ChangeKind.RESERVE, held=held))

    async def _withdraw(self, reserving: Change) -> None:
        future = asyncio.get_running_loop().create_future()
        self._submit(Change(ChangeKind.WITHDRAW, withdrawn=reserving, future=future))
        await future

    async def answered(
        self, key: str, *, request_json: str, response_json: str, cost_micro: int | None, budget: str | None
    ) -> bool:
        """Keep an answer and settle its reservation; returns when it is durable.

        A cost of None is unknown and settles at the worst case that was reserved.

        Returns:
            False when another process has answered the key first: its answer stays, and this one is recorded as a
            failure, with its cost.
        """
        content = {"state": ANSWERED, "request": clean_text(request_json), "response": clean_text(response_json)}
        return (await self._settle(key, content, cost_micro=cost_micro, budget=budget)).stands

    async def failed(
        self,
        key: str,
        *,
        request_json: str,
        reason: str,
        response_json: str | None,
        cost_micro: int | None,
        budget: str | None,
        revises: Held | None = None,
    ) -> Held:
        """Record a call that gave no usable answer and settle its reservation, at the worst case for a cost of None.

        It is never served. What it returns may be handed in again as `revises`, with what is known better by then.
        """
        content = {"state": FAILED, "request": clean_text(request_json), "reason": clean_text(reason)}
        if response_json is not None:
            content["response"] = clean_text(response_json)
        change = await self._settle(key, content, cost_micro=cost_micro, budget=budget, revises=revises)
        assert change.held is not None
        return change.held

    async def _settle(
        self,
        key: str,
        content: dict[str, str],
        *,
        cost_micro: int | None,
        budget: str | None,
        revises: Held | None = None,
    ) -> Change:
        if cost_micro is not None:
            demand_micro("cost_micro", cost_micro)
        key = clean_text(key)
        change = Change(ChangeKind.SETTLE, future=asyncio.get_running_loop().create_future())
        with self._ordering:
            self._demand_open()
            change.held = revises or self._take(key) or Held(0, 0, clean_text(budget or ""))
            cost = change.held.worst_micro if cost_micro is None else cost_micro
            change.row = seal(key=key, cost_micro=cost, budget=change.held.budget, owner=self._spool.owner, **content)
            try:
                change.number = self._spool.append(change.held, change.row)
            finally:
                # Even on Ctrl-C between the two: an entry that is passed over here would be so in a replay, too.
                self._writer.submit(change)
        assert change.future is not None
        await change.future
        return change

    def _take(self, key: str) -> Held | None:
        waiting = self._held.get(key)
        if not waiting:
            return None
        # Several of one key are held only with `even_if_taken`; which of them is settled first does not matter.
        held = waiting.pop(0)
        if not waiting:
            del self._held[key]
        self._loops.pop(held.id, None)
        return held

    def _submit(self, change: Change) -> None:
        with self._ordering:
            self._demand_open()
            self._writer.submit(change)

    def open_budget(self, name: str, cap_micro: int | None) -> None:
        """Make a budget usable. What it has spent is kept, a changed cap replaces the old one."""
        if not name:
            raise ValueError("A budget must have a name.")
        if cap_micro is not None:
            demand_micro("cap_micro", cap_micro)
        self._do_rarely(lambda database: database.put_budget(clean_text(name), cap_micro))
        self._budgets[name] = cap_micro

    def is_capped(self, name: str) -> bool:
        """Whether a budget was opened here with a cap; one without only counts."""
        return self._budgets[name] is not None

    def settled(self, name: str) -> Iterator[SettledCall]:
        """Yield every call that a budget has paid for or failed with, in the order in which they were reserved."""
        rows = self._in_pages(lambda after, database: database.settled(clean_text(name), after))
        yield from (SettledCall(*row) for _, *row in rows)

    def settled_since(self, moment: float) -> Iterator[tuple[SettledCall, str | None, float]]:
        """Yield every call that was paid for or failed at a moment or later, with its request and its time."""
        rows = self._in_pages(lambda after, database: database.since(moment, after))
        yield from ((SettledCall(*row), request, at) for _, *row, request, at in rows)

    def _in_pages(self, read: Callable[[int, Database], list[tuple[Any, ...]]]) -> Iterator[tuple[Any, ...]]:
        """Yield rows in pages by id: a long run has more calls than belong in memory."""
        after = 0
        while rows := self._do_rarely(partial(read, after)):
            yield from rows
            after = rows[-1][0]

    def left_micro(self, name: str) -> float:
        """Return what is neither spent nor reserved of the cap that a budget was opened with here."""
        cap = self._budgets[name]
        return math.inf if cap is None else cap - sum(self._sums(name))

    def spent_micro(self, name: str) -> int:
        """Return what a budget has spent."""
        return self._sums(name)[0]

    def reserved_micro(self, name: str) -> int:
        """Return what the calls in flight of a budget may cost at most."""
        return self._sums(name)[1]

    def _sums(self, name: str) -> tuple[int, int]:
        self._demand_open()
        with self._errors(), self._reading:
            return self._read(lambda database: database.read_budget(clean_text(name)))

    def summary(self) -> Summary:
        """Count what the journal holds."""
        counts = self._do_rarely(lambda database: database.counts())
        kept = {name: counts[name] for name in (ANSWERED, FAILED, LOST, "size_bytes", "spent_micro")}
        hits = counts["hits"] + self._hits
        return Summary(in_flight=counts[RESERVED], hits=hits, damaged=len(self._damaged), **kept)

    def prune(self, *, older_than_days: float | None, failed: bool) -> int:
        """Delete settled calls and return how many. What was spent stays counted.

        Args:
            older_than_days: Only calls settled longer ago than this; None for any age.
            failed: Only failed and lost calls.
        """
        if older_than_days is None and not failed:
            raise ValueError("Pruning must be limited: give `older_than_days`, `failed=True`, or both.")
        if older_than_days is not None and not 0 <= older_than_days < math.inf:
            raise ValueError(f"`0 <= older_than_days < inf` must hold, but got {older_than_days=}.")
        before = math.inf if older_than_days is None else time.time() - older_than_days * 86_400
        return self._do_rarely(lambda database: database.prune(before=before, failed=failed))

    def close(self) -> None:
        """Write what waits and let go of the journal. Calls still in flight count as lost."""
        with self._ordering:
            # A forked child that closes must leave connection and spool to its parent.
            if self._closed or os.getpid() != self._process:
                return
            self._closed = True
        # First: whatever it still writes must be in the database before what is in flight is counted as lost.
        self._writer.stop()
        try:
            # After a failed commit the spool is the only place of what was paid: it stays for the next opening.
            if self._writer.problem is None:
                with self._errors():
                    self._sign_off()
            else:
                _log.warning("%s", self._writer.problem)
        finally:
            self._spool.close(remove=False)
            with self._errors(), self._reading:
                self._reader.connection.close()
                self._database.connection.close()

    def _sign_off(self) -> None:
        lost, micro = self._database.sign_off(self._spool.owner, hits=self._hits, sent=self._spool.sent)
        self._spool.close(remove=True)
        self._database.forget(self._spool.journal, [self._spool.owner])
        if lost:
            message = "The journal %s was closed with %d calls in flight, at most %.6f USD of them spent."
            _log.warning(message, self.place, lost, micro / 1e6)

    def _demand_open(self) -> None:
        if self._closed:
            raise JournalError(f"The journal {self.place} is closed.")
        if os.getpid() != self._process:
            raise JournalError("A journal cannot be carried over a fork. Open it in the process that uses it.")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *details: Any) -> None:
        self.close()
