"""The journal's tables, one schema for every database, and the statements that read and change them.

Tables are SQLAlchemy's, and statements are SQL that every database understands, compiled once per dialect. They run on
the driver's own connection: the writer thread takes the interpreter from a busy event loop, and SQLAlchemy's way of
executing a statement costs more than SQLite's. The three that move batches of rows are each database's own.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Container, Iterable, Sequence
from contextlib import AbstractContextManager
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import BYTEA
from sqlalchemy.schema import CreateIndex, CreateTable

from jrh_mlflow.engine.journal.rows import (
    ANSWERED,
    FAILED,
    LOST,
    RESERVED,
    UNREADABLE,
    CallRow,
    Held,
    Recovery,
    Reservation,
    seal,
    totals,
    unserved,
)
from jrh_mlflow.engine.journal.texts import (
    SHORT_REQUEST,
    StoredText,
    TextPacker,
    shortened_row,
    whole_answer,
    whole_texts,
)
from jrh_mlflow.engine.journal.writer import Change, ChangeKind, read_spool, sent_by, spool_path
from jrh_mlflow.errors import JournalError
from jrh_mlflow.text import clean_text

_log = logging.getLogger("jrh_mlflow")
_ATTEMPTS = 5

_metadata = sa.MetaData()
_Number = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_Given = sa.Text().with_variant(BYTEA(), "postgresql")
"""Text from outside. PostgreSQL's own text holds no NUL, and what a database in another encoding makes of the rest must
not break a seal: there it is kept as UTF-8 bytes."""

CALLS = sa.Table(
    "calls",
    _metadata,
    sa.Column("id", _Number, sa.Identity(), primary_key=True),
    sa.Column("key", _Given, nullable=False),
    sa.Column("state", sa.Text, nullable=False),
    sa.Column("request", _Given),
    sa.Column("response", _Given),
    sa.Column("reason", _Given),
    sa.Column("cost_micro", _Number, nullable=False),
    sa.Column("budget", _Given, nullable=False),
    sa.Column("owner", sa.Text, nullable=False),
    sa.Column("at", sa.Double().with_variant(sa.REAL(), "sqlite"), nullable=False),
    sa.Column("sha256", _Given, nullable=False),
)
BUDGETS = sa.Table(
    "budgets",
    _metadata,
    sa.Column("name", _Given, primary_key=True),
    sa.Column("cap", _Number),
    sa.Column("spent", _Number, nullable=False),
    sa.Column("reserved", _Number, nullable=False),
)
OWNERS = sa.Table(
    "owners",
    _metadata,
    sa.Column("owner", sa.Text, primary_key=True),
    # How far the spool of an owner is in the database. Kept after its death until its own machine has replayed it.
    sa.Column("committed", _Number, nullable=False),
)
TEXTS = sa.Table(
    "texts",
    _metadata,
    sa.Column("name", sa.LargeBinary, primary_key=True),
    sa.Column("base", sa.LargeBinary),
    sa.Column("body", sa.LargeBinary, nullable=False),
)
HITS = sa.Table("hits", _metadata, sa.Column("served", _Number, nullable=False))
"""One row: how many answers were served instead of being paid again."""
TABLES = (CALLS, BUDGETS, OWNERS, HITS, TEXTS)
"""In this order, so that `calls` begins on the second page of an SQLite file: see the repair of damaged ones."""


def _where(condition: str) -> dict[str, Any]:
    # Only a query that names this very condition is served by the index, so queries say `state <> 'answered'` too.
    return dict.fromkeys(("sqlite_where", "postgresql_where"), sa.text(condition))


sa.Index("answered", CALLS.c.key, unique=True, **_where("state = 'answered'"))
sa.Index("unanswered", CALLS.c.state, CALLS.c.owner, **_where("state <> 'answered'"))

_SET_ASIDE = """UPDATE budgets SET reserved = reserved + :worst
    WHERE name = :budget AND (cap IS NULL OR spent + reserved + :worst <= cap)"""
_BOOK = """INSERT INTO budgets VALUES (:budget, NULL, :cost, 0)
    ON CONFLICT (name) DO UPDATE SET spent = budgets.spent + :cost, reserved = budgets.reserved - :worst"""
_PUT_BUDGET = """INSERT INTO budgets VALUES (:budget, :cap, 0, 0) ON CONFLICT (name) DO UPDATE SET cap = :cap"""
_RESERVED_BY = """SELECT id, key, cost_micro, budget, request FROM calls
    WHERE state <> 'answered' AND state = 'reserved' AND owner = :owner"""
_IN_FLIGHT = "SELECT key FROM calls WHERE state <> 'answered' AND state = 'reserved'"
_MARK_UNREADABLE = "UPDATE calls SET reason = :reason, sha256 = :sha256 WHERE key = :key AND state = 'answered'"
_RETIRE = """UPDATE calls SET state = 'failed', reason = :reason, sha256 = :sha256
    WHERE key = :key AND state = 'answered'"""
_IS_RECORDED = """SELECT 1 FROM calls
    WHERE state <> 'answered' AND state = :state AND owner = :owner AND key = :key AND at = :at"""
_SETTLED = """SELECT id, state, response, reason, cost_micro FROM calls
    WHERE budget = :budget AND state <> 'reserved' AND id > :after ORDER BY id LIMIT 2000"""
_SINCE = """SELECT id, state, response, reason, cost_micro, request, at FROM calls
    WHERE at >= :since AND state <> 'reserved' AND id > :after ORDER BY id LIMIT 2000"""
_DROP_TEXTS = """WITH RECURSIVE needed (name) AS (
        SELECT request FROM calls WHERE length(request) = 17
        UNION SELECT base FROM texts JOIN needed ON texts.name = needed.name WHERE base IS NOT NULL)
    DELETE FROM texts WHERE name IN (SELECT name FROM texts EXCEPT SELECT name FROM needed)"""
_PUT_OWNER = """INSERT INTO owners VALUES (:owner, :number)
    ON CONFLICT (owner) DO UPDATE SET committed = :number"""


class NeedsCareError(Exception):
    """Calls cannot be settled together: each must be settled by itself in a new transaction."""


class Database(ABC):
    """One connection to a journal's database, used by one thread at a time.

    Methods that change something are called inside a `transaction`, except where they say that they make their own.
    """

    dialect: ClassVar[sa.Dialect]
    collision: ClassVar[type[Exception]]
    """Raised when a second answer to a key is inserted."""
    damage: ClassVar[type[Exception]]
    """Raised when table and index contradict each other."""
    transient: ClassVar[tuple[type[Exception], ...]] = ()
    """Errors of a transaction that may succeed when it is made again."""
    for_update: ClassVar[str] = ""
    """Ends a SELECT whose rows must stay as they are until the transaction ends."""
    numbers_first: ClassVar[bool] = False
    """Whether a number behind a text takes more room than before it."""

    def __init__(self, connection: Any) -> None:
        self.connection = connection
        self._packer = TextPacker()

    @abstractmethod
    def transaction(self) -> AbstractContextManager[object]:
        """Commit what is done inside, or leave nothing of it behind."""

    @abstractmethod
    def savepoint(self) -> AbstractContextManager[object]:
        """Let a transaction go on after a statement inside has failed."""

    @abstractmethod
    def insert(self, rows: Sequence[CallRow]) -> list[int]:
        """Insert rows and return their ids, in the same order."""

    @abstractmethod
    def fill(self, rows: Sequence[tuple[CallRow, int]], *, state: str) -> int:
        """Let rows take the place of those with these ids, if they are in this state; return how many did."""

    @abstractmethod
    def select_answers(self, keys: Sequence[str]) -> Iterable[CallRow]:
        """Return the rows that answer these keys, whole or not."""

    @abstractmethod
    def insert_texts(self, texts: Sequence[StoredText]) -> None:
        """Insert those texts that are not there."""

    @abstractmethod
    def select_texts(self, names: Sequence[bytes]) -> Iterable[StoredText]:
        """Return the texts with these names."""

    @abstractmethod
    def size_bytes(self) -> int:
        """Return the room the journal takes."""

    def lock_budgets(self, names: Iterable[str] | None = None) -> None:
        """Make other writers of these budgets wait, of all when None, where a transaction alone does not."""

    def lock_texts(self) -> None:
        """Make others wait who are about to insert texts, where a transaction alone does not."""

    def change(self, statement: str, **values: Any) -> int:
        """Run a statement and return how many rows it changed."""
        return int(self._run(statement, values).rowcount)

    def fetch(self, statement: str, **values: Any) -> list[tuple[Any, ...]]:
        """Run a query and return its rows."""
        rows: list[tuple[Any, ...]] = self._run(statement, values).fetchall()
        return rows

    def _run(self, statement: str, values: dict[str, Any]) -> Any:
        return self.connection.execute(compiled(statement, self.dialect), values)

    def create_tables(self) -> None:
        """Lay out an empty journal."""
        for table in TABLES:
            making = CreateTable(table)
            if self.numbers_first and table is CALLS:
                making.columns.sort(key=lambda column: isinstance(column.element.type, sa.Text))
            self.connection.execute(str(making.compile(dialect=self.dialect)))
            for index in sorted(table.indexes, key=lambda index: str(index.name)):
                self.connection.execute(str(CreateIndex(index).compile(dialect=self.dialect)))
        self.change("INSERT INTO budgets VALUES (:budget, NULL, 0, 0)", budget="")
        self.change("INSERT INTO hits VALUES (0)")

    # What the writer does.

    def transact(self, changes: Sequence[Change], number: int, *, owner: str) -> None:
        """Make the changes of a batch durable, all or none, in a transaction of its own.

        Args:
            changes: In the order they were given.
            number: How far the owner's spool is in the database after this batch; 0 for no further than before.
            owner: Whose spool the answers are in.
        """
        # Compressed before the transaction: other processes wait for its end.
        texts: dict[bytes, StoredText] = {}
        for change in changes:
            if change.row:
                change.row, needed = self._kept(change.row)
                texts.update((text.name, text) for text in needed)
        # In one order, so that no two writers block each other.
        in_order = sorted(texts.values(), key=lambda text: text.name)
        # Nearly always all of a batch can be settled by a few statements; only then one by one.
        together = True
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                return self._attempt(changes, in_order, number, owner, together=together)
            except (self.collision, NeedsCareError):
                together = False
            except self.transient:
                if attempt == _ATTEMPTS:
                    raise
        raise JournalError(f"{_ATTEMPTS} attempts to commit did not succeed")

    def _kept(self, row: CallRow) -> tuple[CallRow, list[StoredText]]:
        """Return a row as it is kept, and the texts it needs."""
        is_long = isinstance(row.request, str) and len(row.request) >= SHORT_REQUEST
        texts = list(self._packer.pack(str(row.request))) if is_long else []
        return shortened_row(row, texts[0].name if texts else None), texts

    def _attempt(
        self, changes: Sequence[Change], texts: Sequence[StoredText], number: int, owner: str, *, together: bool
    ) -> None:
        with self.transaction():
            self.lock_budgets(_budgets(changes))
            self.insert_texts(texts)
            self._apply(changes, together=together)
            if number:
                self.change("UPDATE owners SET committed = :number WHERE owner = :owner", number=number, owner=owner)

    def _apply(self, changes: Sequence[Change], *, together: bool) -> None:
        """Make the changes of a batch.

        With few statements rather than few per change: after each the thread has to wait for the interpreter again,
        which a busy event loop lets go of only every few milliseconds.
        """
        kinds: dict[ChangeKind, list[Change]] = {kind: [] for kind in ChangeKind}
        for change in changes:
            kinds[change.kind].append(change)
        settled = [
            (change, change.row, change.held) for change in kinds[ChangeKind.SETTLE] if change.row and change.held
        ]
        if together:
            self.settle_together([(row, held) for _, row, held in settled])
        else:
            for change, row, held in settled:
                change.stands = self.settle(row, held)
        self._reserve([(change, change.row) for change in kinds[ChangeKind.RESERVE] if change.row])
        self._release(change.withdrawn.held for change in kinds[ChangeKind.WITHDRAW] if change.withdrawn)

    def _reserve(self, reserving: Sequence[tuple[Change, CallRow]]) -> None:
        """Set worst cases aside where the call is not taken and the cap leaves room; each change is told the result."""
        free = self._not_taken(reserving)
        # All rows of a budget at once, and one by one where they do not all fit.
        sums = totals((row.budget, row.cost_micro) for _, row in free)
        whole = {budget: self._set_aside(budget, worst) for budget, worst in sums.items()}
        fits = [whole[row.budget] or self._set_aside(row.budget, row.cost_micro) for _, row in free]
        numbers = iter(self.insert([row for (_, row), room in zip(free, fits, strict=True) if room]))
        for (change, row), room in zip(free, fits, strict=True):
            change.held = Held(next(numbers), row.cost_micro, row.budget) if room else None
            change.reservation = Reservation.GRANTED if room else Reservation.NO_ROOM

    def _not_taken(self, reserving: Sequence[tuple[Change, CallRow]]) -> list[tuple[Change, CallRow]]:
        """Return those whose call nobody has answered or in flight; the others are told."""
        answered = self._answered([(change, row.key) for change, row in reserving if not change.even_if_taken])
        in_flight = {key for (key,) in self.fetch(_IN_FLIGHT)} if reserving else set()
        free = []
        for change, row in reserving:
            # A batch that failed is tried again: what the first attempt granted was rolled back.
            change.held = None
            if row.key in answered and not change.even_if_taken:
                change.reservation = Reservation.IS_ANSWERED
            elif row.key in in_flight and not change.even_if_taken:
                change.reservation = Reservation.IS_IN_FLIGHT
            else:
                free.append((change, row))
                in_flight.add(row.key)
        return free

    def _answered(self, wanted: Sequence[tuple[Change, str]]) -> set[str]:
        """Return the keys that are answered; answers that are too old for who asks are put out of service."""
        rows = self.find_answers([key for _, key in wanted]) if wanted else {}
        # What damage left is not served: the answer to come takes its place.
        rows = {key: row for key, row in rows.items() if row.is_intact()}
        for change, key in wanted:
            if key in rows and change.replaces_before is not None and rows[key].at < change.replaces_before:
                old = unserved(rows.pop(key), "a fresher answer was asked for")
                self.change(_RETIRE, key=key, reason=old.reason, sha256=old.sha256)
        return set(rows)

    def _set_aside(self, budget: str, worst: int) -> bool:
        """Reserve an amount in one statement; False, and nothing changes, when the cap leaves no room."""
        return bool(self.change(_SET_ASIDE, budget=budget, worst=worst))

    def book(self, costs: Iterable[tuple[str, int]], worsts: Iterable[tuple[str, int]]) -> None:
        """Add costs to what budgets have spent, and take worst cases from what they have reserved."""
        spent, freed = totals(costs), totals(worsts)
        for budget in {**spent, **freed}:
            self.change(_BOOK, budget=budget, cost=spent[budget], worst=freed[budget])

    def settle_together(self, settled: Sequence[tuple[CallRow, Held]]) -> None:
        """Settle many calls with few statements.

        Raises:
            NeedsCareError: A reservation is not there any more.
            Exception: `collision`, when a call is answered already.
        """
        reserved = [(row, held.id) for row, held in settled if held.id]
        if self.fill(reserved, state=RESERVED) != len(reserved):
            raise NeedsCareError("a reservation is gone")
        self.insert([row for row, held in settled if not held.id])
        self.book(
            ((row.budget, row.cost_micro) for row, _ in settled),
            ((row.budget, held.worst_micro) for row, held in settled),
        )

    def settle(self, row: CallRow, held: Held) -> bool:
        """Put an answered or failed call in the place of its reservation, and book its cost.

        A reservation that was counted as lost, because its process was out of sight, gives its worst case back, and so
        does a failed attempt of which more is known by now.

        Returns:
            False for an answer that came after another one, which stays.
        """
        query = "SELECT state, cost_micro FROM calls WHERE id = :number AND owner = :owner"
        rows = self.fetch(query + self.for_update, number=held.id, owner=row.owner)
        state, micro = rows[0] if rows and rows[0][0] in (RESERVED, LOST, FAILED) else (None, 0)
        stands = self._place(row, held.id, state)
        # A lost or failed call was booked as spent, a reserved one only set aside.
        refund, worst = (0 if state == RESERVED else micro), (micro if state == RESERVED else 0)
        self.book([(row.budget, row.cost_micro - refund)], [(row.budget, worst)])
        return stands

    def _place(self, row: CallRow, number: int, state: str | None) -> bool:
        given = row.state
        for _ in range(_ATTEMPTS):
            try:
                with self.savepoint():
                    self.insert([row]) if state is None else self.fill([(row, number)], state=state)
            except self.collision:
                # The row that is in the way is committed, so it is seen now; a failure collides with nothing.
                row = self._second_answer(row)
            else:
                return row.state == given
        raise self.damage("an index holds an answer that the table does not")

    def _second_answer(self, row: CallRow) -> CallRow:
        """Make room when the answer there is damaged or gone; otherwise the first stays and this one is no answer."""
        first = self.find_answers([row.key]).get(row.key)
        if first is not None and first.is_intact():
            return unserved(row, "another process had answered first")
        self.change("DELETE FROM calls WHERE key = :key AND state = 'answered'", key=row.key)
        return row

    def _release(self, reservations: Iterable[Held | None]) -> None:
        """Take back reservations."""
        gone = "DELETE FROM calls WHERE id = :number AND state = 'reserved'"
        freed = [held for held in reservations if held and self.change(gone, number=held.id)]
        self.book((), ((held.budget, held.worst_micro) for held in freed))

    # What opening and closing do.

    def sign_on(self, owner: str) -> None:
        """Register an owner."""
        self.change("INSERT INTO owners VALUES (:owner, 0)", owner=owner)

    def sign_off(self, owner: str, *, hits: int, sent: Container[int] | None = None) -> tuple[int, int]:
        """Count what an owner has in flight as lost, and the answers it was served; in a transaction of its own."""
        with self.transaction():
            self.lock_budgets()
            lost = self._lose(owner, sent=sent)
            self.change("UPDATE hits SET served = served + :hits", hits=hits)
        return lost

    def settle_left(self, spools: Path, owners: Iterable[str]) -> Recovery:
        """Replay the spools of owners who died, where they lie here; what else they had in flight is lost."""
        replayed = lost = lost_micro = 0
        for owner in owners:
            if spool_path(spools, owner).exists():
                replayed += self._replay(spools, owner)
            n_calls, micro = self._lose(owner, sent=sent_by(spools, owner))
            lost, lost_micro = lost + n_calls, lost_micro + micro
        return Recovery(replayed=replayed, lost=lost, lost_micro=lost_micro)

    def _replay(self, spools: Path, owner: str) -> int:
        """Bring into the database what a spool holds beyond the last commit of its owner."""
        rows = self.fetch("SELECT committed FROM owners WHERE owner = :owner", owner=owner)
        committed = rows[0][0] if rows else 0
        replayed = 0
        for entry in read_spool(spools, owner):
            if entry.number > committed and not self._is_recorded(entry.row):
                row, texts = self._kept(entry.row)
                self.insert_texts(texts)
                self.settle(row, entry.held)
                replayed += 1
            committed = max(committed, entry.number)
        self.change(_PUT_OWNER, owner=owner, number=committed)
        return replayed

    def _is_recorded(self, row: CallRow) -> bool:
        """Whether this row is in the journal, in whatever form: an owner settles a call once at a moment."""
        if row.state == ANSWERED:
            kept = self.find_answers([row.key]).get(row.key)
            return kept is not None and kept.is_intact() and (kept.owner, kept.at) == (row.owner, row.at)
        return bool(self.fetch(_IS_RECORDED, state=row.state, owner=row.owner, key=row.key, at=row.at))

    def _lose(self, owner: str, *, sent: Container[int] | None = None) -> tuple[int, int]:
        """Settle what an owner left reserved at its worst case; return how many calls and micro-dollars.

        What was not `sent` is released; None where nobody knows.
        """
        lost, unsent = [], []
        for number, key, worst, budget, request in self.fetch(_RESERVED_BY, owner=owner):
            held = Held(number, worst, budget)
            if sent is not None and number not in sent:
                unsent.append(held)
                continue
            row = seal(key=key, state=LOST, cost_micro=worst, budget=budget, owner=owner, request=request)
            lost.append((row, held))
        self._release(unsent)
        self.settle_together(lost)
        return len(lost), sum(row.cost_micro for row, _ in lost)

    def forget(self, spools: Path, owners: Iterable[str]) -> None:
        """Remove the spools of owners, and then the owners.

        Only after the commit of what they held: until then the spools are all there is, and after it they replay to
        nothing. And in this order: an owner without a spool is settled, a spool without an owner would be replayed.
        """
        for owner in owners:
            spool_path(spools, owner).unlink(missing_ok=True)
            self.change("DELETE FROM owners WHERE owner = :owner", owner=owner)

    # What the journal's readers ask.

    def find_answers(self, keys: Sequence[str]) -> dict[str, CallRow]:
        """Return the rows that answer these keys, whole or not, by the key they were asked under."""
        originals = {clean_text(key): key for key in keys}
        return {originals[row.key]: row for row in self.select_answers(list(originals)) if row.key in originals}

    def mark_unreadable(self, keys: Sequence[str]) -> None:
        """Note of answers that none of the first ones of their run could be read."""
        with self.transaction():
            for key, row in self.find_answers(keys).items():
                if row.is_intact():
                    marked = unserved(row, UNREADABLE, state=ANSWERED)
                    self.change(_MARK_UNREADABLE, key=clean_text(key), reason=UNREADABLE, sha256=marked.sha256)

    def put_budget(self, name: str, cap: int | None) -> None:
        """Make a budget, or give it another cap; what it has spent is kept."""
        self.change(_PUT_BUDGET, budget=name, cap=cap)

    def read_budget(self, name: str) -> tuple[int, int]:
        """Return what a budget has spent and reserved; zeros for one that was never opened."""
        sums = self.fetch("SELECT spent, reserved FROM budgets WHERE name = :budget", budget=name)
        return (sums[0][0], sums[0][1]) if sums else (0, 0)

    def settled(self, name: str, after: int) -> list[tuple[Any, ...]]:
        """Return the next calls of a budget with ids above `after`: id, state, response, reason, cost."""
        rows = self.fetch(_SETTLED, budget=name, after=after)
        return [(number, state, whole_answer(response), *rest) for number, state, response, *rest in rows]

    def since(self, moment: float, after: int) -> list[tuple[Any, ...]]:
        """Return the next calls of a moment or later, with ids above `after`: as `settled`, then request and time."""
        rows = self.fetch(_SINCE, since=moment, after=after)
        texts = self.read_texts({row[5] for row in rows if isinstance(row[5], bytes)})
        return [
            (
                number,
                state,
                whole_answer(response),
                *rest,
                texts.get(request) if isinstance(request, bytes) else request,
                at,
            )
            for number, state, response, *rest, request, at in rows
        ]

    def read_texts(self, names: Iterable[bytes]) -> dict[bytes, str]:
        """Return the texts with these names, and those below them, as far as they are whole."""
        rows: dict[bytes, StoredText] = {}
        wanted = set(names)
        while wanted:
            found = {row.name: row for row in self.select_texts(sorted(wanted))}
            rows |= found
            wanted = {row.base for row in found.values() if row.base} - rows.keys()
        return whole_texts(rows)

    def counts(self) -> dict[str, int]:
        """Count the calls of each state; `hits` served before, `size_bytes` and `spent_micro`."""
        ((answered,),) = self.fetch("SELECT count(*) FROM calls WHERE state = 'answered'")
        others = self.fetch("SELECT state, count(*) FROM calls WHERE state <> 'answered' GROUP BY state")
        ((hits,),) = self.fetch("SELECT served FROM hits")
        ((spent,),) = self.fetch("SELECT CAST(sum(spent) AS bigint) FROM budgets")
        none = dict.fromkeys((RESERVED, FAILED, LOST), 0)
        sums = {ANSWERED: answered, "hits": hits, "spent_micro": spent, "size_bytes": self.size_bytes()}
        return {**none, **dict(others), **sums}

    def prune(self, *, before: float, failed: bool) -> int:
        """Delete calls settled before a moment, or only those that gave no answer, and the texts that none needs.

        In a transaction of its own; returns how many calls were deleted.
        """
        spared = ANSWERED if failed else RESERVED
        statement = "DELETE FROM calls WHERE state NOT IN ('reserved', :spared) AND at < :before"
        with self.transaction():
            self.lock_texts()
            removed = self.change(statement, spared=spared, before=before)
            self.change(_DROP_TEXTS)
        return removed


@cache
def compiled(statement: str, dialect: sa.Dialect) -> str:
    """Write a statement's `:names` as a driver wants them."""
    return str(sa.text(statement).compile(dialect=dialect))


def _budgets(changes: Sequence[Change]) -> set[str]:
    """Return the budgets that a batch changes.

    With that of the calls without a cap, when it reserves: whoever reserves holds it, so that no two do at once, and
    none overlooks what the other has in flight.
    """
    rows = [change.row or (change.withdrawn and change.withdrawn.row) for change in changes]
    names = {row.budget for row in rows if row} | {change.held.budget for change in changes if change.held}
    return names | {"" for change in changes if change.kind is ChangeKind.RESERVE}


def warn_of_dead(place: str, recovery: Recovery) -> None:
    """Say what opening a journal found of processes that had died."""
    if recovery.replayed or recovery.lost:
        money = f"{recovery.lost_micro / 1e6:.6f} USD"
        message = (
            "A process on the journal %s had died: %d calls recovered, %d lost in flight, at most %s of them spent."
        )
        _log.warning(message, place, recovery.replayed, recovery.lost, money)
