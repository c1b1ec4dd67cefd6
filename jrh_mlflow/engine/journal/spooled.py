"""What the journals of both databases share: an answer goes to the spool, then to the writer thread."""

from __future__ import annotations

import asyncio
import logging
import math
import os
import threading
import time
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, suppress

from jrh_mlflow.engine.journal._base import Journal, Summary
from jrh_mlflow.engine.journal.rows import ANSWERED, FAILED, LOST, RESERVED, CallRow, Held, demand_micro, seal
from jrh_mlflow.engine.journal.spool import Spool
from jrh_mlflow.engine.journal.writer import Change, ChangeKind, JournalWriter
from jrh_mlflow.errors import JournalError
from jrh_mlflow.text import clean_text

_log = logging.getLogger("jrh_mlflow")


class SpooledJournal(Journal):
    """See `Journal`. Answers go to the spool, then to the writer thread, and are acknowledged after the COMMIT."""

    _spool: Spool
    _writer: JournalWriter

    def __init__(self, place: str) -> None:
        self.place = place
        self._process = os.getpid()
        self._closed = False
        self._hits = 0
        self._damaged: set[str] = set()
        self._budgets: set[str] = set()
        self._held: dict[str, list[Held]] = {}
        self._reading = threading.Lock()
        # Entries reach the spool and the writer in one order, so that a commit covers a beginning of the spool.
        self._ordering = threading.Lock()

    @abstractmethod
    def _find_rows(self, keys: Sequence[str]) -> dict[str, CallRow]:
        """Return the rows that answer these keys, whole or not."""

    @abstractmethod
    def _put_budget(self, name: str, cap_micro: int | None) -> None:
        """Make a budget, or give it another cap."""

    @abstractmethod
    def _budget(self, name: str) -> tuple[int, int]:
        """Return what a budget has spent and reserved; zeros for one that was never opened."""

    @abstractmethod
    def _counts(self) -> Mapping[str, int]:
        """Return how many calls there are of each state, `hits` served before, `size_bytes` and `spent_micro`."""

    @abstractmethod
    def _prune(self, *, before: float, failed: bool) -> int:
        """Delete calls settled before a moment, or only those that gave no answer; return how many."""

    @abstractmethod
    def _sign_off(self) -> tuple[int, int]:
        """Count what is in flight as lost, keep the hits and remove the spool; return lost calls and micro-dollars."""

    @abstractmethod
    def _disconnect(self) -> None:
        """Close every connection."""

    @abstractmethod
    def _errors(self) -> AbstractContextManager[None]:
        """Turn the errors of the database into a `JournalError`."""

    def get_many(self, keys: Sequence[str]) -> dict[str, str]:
        """Return the responses of those calls that are answered."""
        found = self._find(keys)
        self._hits += len(found)
        return found

    def holds(self, keys: Sequence[str]) -> set[str]:
        """Return which of these calls are answered, without serving them."""
        return set(self._find(keys))

    def _find(self, keys: Sequence[str]) -> dict[str, str]:
        self._demand_open()
        with self._errors(), self._reading:
            rows = self._find_rows(keys)
        for key in [key for key, row in rows.items() if not row.is_intact()]:
            self._note_damage(key)
            del rows[key]
        return {key: row.response or "" for key, row in rows.items()}

    def _note_damage(self, key: str) -> None:
        if not self._damaged:
            _log.warning("The journal %s has a damaged row. Such calls are asked again.", self.place)
        self._damaged.add(key)

    async def reserve(self, key: str, *, budget: str | None, worst_micro: int) -> bool:
        """Set the worst case of a call aside before it is sent, durably."""
        demand_micro("worst_micro", worst_micro)
        if budget is not None and budget not in self._budgets:
            raise ValueError(f"Budget {budget!r} must be opened with `open_budget` first.")
        key, name = clean_text(key), clean_text(budget or "")
        row = seal(key=key, state=RESERVED, cost_micro=worst_micro, budget=name, owner=self._spool.owner)
        job = Change(ChangeKind.RESERVE, row=row)
        try:
            await self._write(job)
        except asyncio.CancelledError:
            # The caller will never know, so it cannot release what may yet be granted. A closed journal has settled it.
            with suppress(JournalError):
                self._submit(Change(ChangeKind.WITHDRAW, withdrawn=job))
            raise
        with self._ordering:
            if job.held:
                self._held.setdefault(key, []).append(job.held)
        return job.held is not None

    async def answered(
        self, key: str, *, request_json: str, response_json: str, cost_micro: int | None, budget: str | None
    ) -> None:
        """Keep an answer and settle its reservation; returns when it is durable."""
        content = {"state": ANSWERED, "request": clean_text(request_json), "response": clean_text(response_json)}
        await self._settle(key, content, cost_micro=cost_micro, budget=budget)

    async def failed(
        self,
        key: str,
        *,
        request_json: str,
        reason: str,
        response_json: str | None,
        cost_micro: int,
        budget: str | None,
    ) -> None:
        """Record a call that gave no usable answer and settle its reservation."""
        content = {"state": FAILED, "request": clean_text(request_json), "reason": clean_text(reason)}
        if response_json is not None:
            content["response"] = clean_text(response_json)
        await self._settle(key, content, cost_micro=cost_micro, budget=budget)

    async def _settle(self, key: str, content: dict[str, str], *, cost_micro: int | None, budget: str | None) -> None:
        if cost_micro is not None:
            demand_micro("cost_micro", cost_micro)
        key = clean_text(key)
        job = Change(ChangeKind.SETTLE, future=asyncio.get_running_loop().create_future())
        with self._ordering:
            self._demand_open()
            job.held = self._take(key) or Held(0, 0, clean_text(budget or ""))
            cost = job.held.worst_micro if cost_micro is None else cost_micro
            job.row = seal(key=key, cost_micro=cost, budget=job.held.budget, owner=self._spool.owner, **content)
            try:
                job.number = self._spool.append(job.held, job.row)
            finally:
                # Even on Ctrl-C between the two: an entry that is passed over here would be so in a replay, too.
                self._writer.submit(job)
        assert job.future is not None
        await job.future

    async def release(self, key: str, *, budget: str | None) -> None:
        """Give back a reservation whose call was never sent."""
        with self._ordering:
            held = self._take(clean_text(key))
        if held is None:
            raise ValueError(f"Nothing is reserved for {key!r} in budget {budget!r}.")
        await self._write(Change(ChangeKind.RELEASE, held=held))

    def _take(self, key: str) -> Held | None:
        waiting = self._held.get(key)
        if not waiting:
            return None
        held = waiting.pop(0)
        if not waiting:
            del self._held[key]
        return held

    async def _write(self, job: Change) -> None:
        job.future = asyncio.get_running_loop().create_future()
        self._submit(job)
        await job.future

    def _submit(self, job: Change) -> None:
        with self._ordering:
            self._demand_open()
            self._writer.submit(job)

    def open_budget(self, name: str, cap_micro: int | None) -> None:
        """Make a budget usable; a changed cap replaces the old one."""
        if not name:
            raise ValueError("A budget must have a name.")
        if cap_micro is not None:
            demand_micro("cap_micro", cap_micro)
        self._demand_open()
        with self._errors():
            self._put_budget(clean_text(name), cap_micro)
        self._budgets.add(name)

    def spent_micro(self, name: str) -> int:
        """Return what a budget has spent; 0 for one that was never opened."""
        return self._sums(name)[0]

    def reserved_micro(self, name: str) -> int:
        """Return what the calls in flight of a budget may cost at most."""
        return self._sums(name)[1]

    def _sums(self, name: str) -> tuple[int, int]:
        self._demand_open()
        with self._errors(), self._reading:
            return self._budget(clean_text(name))

    def summary(self) -> Summary:
        """Count what the journal holds."""
        self._demand_open()
        with self._errors():
            counts = self._counts()
        return Summary(
            answered=counts[ANSWERED],
            failed=counts[FAILED],
            in_flight=counts[RESERVED],
            lost=counts[LOST],
            damaged=len(self._damaged),
            size_bytes=counts["size_bytes"],
            hits=counts["hits"] + self._hits,
            spent_micro=counts["spent_micro"],
        )

    def prune(self, *, older_than_days: float | None, failed: bool) -> int:
        """Delete settled calls and return how many. What was spent stays counted."""
        if older_than_days is None and not failed:
            raise ValueError("Pruning must be limited: give `older_than_days`, `failed=True`, or both.")
        if older_than_days is not None and not 0 <= older_than_days < math.inf:
            raise ValueError(f"`0 <= older_than_days < inf` must hold, but got {older_than_days=}.")
        before = math.inf if older_than_days is None else time.time() - older_than_days * 86_400
        self._demand_open()
        with self._errors():
            return self._prune(before=before, failed=failed)

    def close(self) -> None:
        """Write what waits, count what is in flight as lost, and remove the spool when all of it is committed."""
        with self._ordering:
            if self._closed or os.getpid() != self._process:
                return
            self._closed = True
        self._writer.stop()
        try:
            if self._writer.problem is None:
                with self._errors():
                    self._warn_of_lost(*self._sign_off())
            else:
                _log.warning("%s", self._writer.problem)
        finally:
            self._spool.close(remove=False)
            with self._errors(), self._reading:
                self._disconnect()

    def _warn_of_lost(self, lost: int, micro: int) -> None:
        if lost:
            message = "The journal %s was closed with %d calls in flight, at most %.6f USD of them spent."
            _log.warning(message, self.place, lost, micro / 1e6)

    def _demand_open(self) -> None:
        if self._closed:
            raise JournalError(f"The journal {self.place} is closed.")
        if os.getpid() != self._process:
            raise JournalError("A journal cannot be carried over a fork. Open it in the process that uses it.")
