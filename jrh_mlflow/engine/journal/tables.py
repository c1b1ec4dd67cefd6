"""The tables of an SQLite journal and the few statements that change them, each inside a transaction of its caller."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache

from jrh_mlflow.engine.journal.rows import ANSWERED, FAILED, LOST, RESERVED, CallRow, Held, seal, second, totals
from jrh_mlflow.text import clean_text

APPLICATION_ID = 0x6A72686A
"""`jrhj` in the file's header: tells a journal from any other SQLite database."""
SCHEMA_VERSION = 1
PAGE_BYTES = 4096
COLUMNS = ", ".join(CallRow._fields)
_CHUNK = 64
"""Rows of one statement: old SQLite takes at most 999 values."""
_LOOK_UP = 256

_SCHEMA = (
    f"PRAGMA application_id = {APPLICATION_ID}",
    f"PRAGMA user_version = {SCHEMA_VERSION}",
    """CREATE TABLE calls (
        id INTEGER PRIMARY KEY, key TEXT NOT NULL, state TEXT NOT NULL, request TEXT, response TEXT, reason TEXT,
        cost_micro INTEGER NOT NULL, budget TEXT NOT NULL, owner TEXT NOT NULL, at REAL NOT NULL, sha256 TEXT NOT NULL)
    """,
    "CREATE UNIQUE INDEX answered ON calls (key) WHERE state = 'answered'",
    "CREATE INDEX unanswered ON calls (state, owner) WHERE state <> 'answered'",
    "CREATE TABLE budgets (name TEXT PRIMARY KEY, cap INTEGER, spent INTEGER NOT NULL, reserved INTEGER NOT NULL)",
    "INSERT INTO budgets VALUES ('', NULL, 0, 0)",
    # How far the spool of an owner is in the database.
    "CREATE TABLE owners (owner TEXT PRIMARY KEY, committed INTEGER NOT NULL)",
)
_SET_ASIDE = """UPDATE budgets SET reserved = reserved + :worst
    WHERE name = :budget AND (cap IS NULL OR spent + reserved + :worst <= cap)"""
_BOOK = """INSERT INTO budgets VALUES (:budget, NULL, :cost, 0)
    ON CONFLICT (name) DO UPDATE SET spent = spent + :cost, reserved = reserved - :worst"""
_FILL = f"UPDATE calls SET {', '.join(f'{name} = ?' for name in CallRow._fields)} WHERE id = ? AND state = 'reserved'"  # noqa: S608


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Hold the write lock from the first statement on; commit, or leave nothing behind."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def create_tables(connection: sqlite3.Connection) -> None:
    """Lay out an empty journal."""
    for statement in _SCHEMA:
        connection.execute(statement)


def set_aside(connection: sqlite3.Connection, budget: str, worst: int) -> bool:
    """Reserve an amount; False, and nothing changes, when the cap leaves no room."""
    return bool(connection.execute(_SET_ASIDE, {"worst": worst, "budget": budget}).rowcount)


def settle_together(connection: sqlite3.Connection, settled: Sequence[tuple[CallRow, Held]]) -> None:
    """Settle many calls with few statements.

    Raises:
        sqlite3.IntegrityError: When one of them needs care: `settle` them one by one in a new transaction.
    """
    for start in range(0, len(settled), _CHUNK):
        chunk = settled[start : start + _CHUNK]
        values = [value for row, held in chunk for value in (held.id or None, *row)]
        if connection.execute(_fill_many(len(chunk)), values).rowcount != len(chunk):
            raise sqlite3.IntegrityError("a reservation is gone")
    costs = totals((row.budget, row.cost_micro) for row, _ in settled)
    worsts = totals((row.budget, held.worst_micro) for row, held in settled)
    for budget, cost in costs.items():
        _book(connection, budget, cost=cost, worst=worsts[budget])


def settle(connection: sqlite3.Connection, row: CallRow, held: Held) -> None:
    """Put an answered or failed call in the place of its reservation, and book its cost."""
    try:
        worst = _place(connection, row, held)
    except sqlite3.IntegrityError:
        second = _second_answer(connection, row)
        try:
            worst = _place(connection, second, held)
        except sqlite3.IntegrityError as error:
            raise sqlite3.DatabaseError("an index holds an answer that the table does not") from error
    _book(connection, row.budget, cost=row.cost_micro, worst=worst)


def _place(connection: sqlite3.Connection, row: CallRow, held: Held) -> int:
    if held.id and connection.execute(_FILL, (*row, held.id)).rowcount:
        return held.worst_micro
    insert(connection, [row])
    return 0


def _second_answer(connection: sqlite3.Connection, row: CallRow) -> CallRow:
    """Make room when the answer that is there is damaged; otherwise the first stays and this one is no answer."""
    first = find_answer(connection, row.key)
    if first is None or not first.is_intact():
        connection.execute("DELETE FROM calls WHERE key = ? AND state = 'answered'", (row.key,))
        return row
    return second(row)


def find_answer(connection: sqlite3.Connection, key: str) -> CallRow | None:
    """Return the row that answers a key, whole or not."""
    return find_answers(connection, [key]).get(key)


def find_answers(connection: sqlite3.Connection, keys: Sequence[str]) -> dict[str, CallRow]:
    """Return the rows that answer these keys, whole or not, by the key they were asked under."""
    asked = {clean_text(key): key for key in keys}
    found: dict[str, CallRow] = {}
    names = list(asked)
    for start in range(0, len(names), _LOOK_UP):
        chunk = names[start : start + _LOOK_UP]
        # Filled up to a few sizes, so that SQLite need not compile a statement for each.
        size = 1 if len(chunk) == 1 else _LOOK_UP
        rows = connection.execute(_find_many(size), chunk + [""] * (size - len(chunk)))
        found |= {asked[row[0]]: CallRow._make(row) for row in rows if row[0] in asked}
    return found


@cache
def _find_many(n_keys: int) -> str:
    marks = ", ".join("?" * n_keys)
    return f"SELECT {COLUMNS} FROM calls WHERE key IN ({marks}) AND state = 'answered'"  # noqa: S608


def count_hits(connection: sqlite3.Connection, *, add: int = 0) -> int:
    """Return how many answers were served by processes that have signed off, after adding this one's."""
    # Not part of the first schema: a journal made before it was counted gets the table when it is first needed.
    connection.execute("CREATE TABLE IF NOT EXISTS hits (id INTEGER PRIMARY KEY CHECK (id = 1), served INTEGER)")
    connection.execute("INSERT OR IGNORE INTO hits VALUES (1, 0)")
    if add:
        connection.execute("UPDATE hits SET served = served + ?", (add,))
    return int(connection.execute("SELECT served FROM hits").fetchone()[0])


def is_recorded(connection: sqlite3.Connection, row: CallRow) -> bool:
    """Whether exactly this row is in the journal."""
    if row.state == ANSWERED:
        return find_answer(connection, row.key) == row
    query = "SELECT 1 FROM calls WHERE state <> 'answered' AND state = ? AND owner = ? AND sha256 = ?"
    return connection.execute(query, (row.state, row.owner, row.sha256)).fetchone() is not None


def insert(connection: sqlite3.Connection, rows: Sequence[CallRow]) -> list[int]:
    """Insert rows and return their ids: SQLite numbers the rows of one statement in their order, without a gap."""
    numbers: list[int] = []
    for start in range(0, len(rows), _CHUNK):
        chunk = rows[start : start + _CHUNK]
        values = [value for row in chunk for value in (None, *row)]
        last = connection.execute(_insert_many(len(chunk)), values).lastrowid or 0
        numbers.extend(range(last - len(chunk) + 1, last + 1))
    return numbers


@cache
def _insert_many(n_rows: int) -> str:
    marks = f"({', '.join('?' * (len(CallRow._fields) + 1))})"
    return f"INSERT INTO calls (id, {COLUMNS}) VALUES {', '.join([marks] * n_rows)}"  # noqa: S608


@cache
def _fill_many(n_rows: int) -> str:
    fill = ", ".join(f"{name} = excluded.{name}" for name in CallRow._fields)
    return f"{_insert_many(n_rows)} ON CONFLICT (id) DO UPDATE SET {fill} WHERE calls.state = 'reserved'"


def release_all(connection: sqlite3.Connection, reservations: Iterable[Held]) -> None:
    """Take back reservations."""
    for held in reservations:
        if connection.execute("DELETE FROM calls WHERE id = ? AND state = 'reserved'", (held.id,)).rowcount:
            _book(connection, held.budget, cost=0, worst=held.worst_micro)


def lose(connection: sqlite3.Connection, owner: str) -> tuple[int, int]:
    """Settle what an owner left reserved at its worst case; return how many calls and micro-dollars."""
    query = "SELECT id, key, cost_micro, budget FROM calls WHERE state <> 'answered' AND state = ? AND owner = ?"
    left = connection.execute(query, (RESERVED, owner)).fetchall()
    for number, key, worst, budget in left:
        row = seal(key=key, state=LOST, cost_micro=worst, budget=budget, owner=owner)
        settle(connection, row, Held(number, worst, budget))
    return len(left), sum(worst for _, _, worst, _ in left)


def _book(connection: sqlite3.Connection, budget: str, *, cost: int, worst: int) -> None:
    connection.execute(_BOOK, {"budget": budget, "cost": cost, "worst": worst})


def insert_salvaged(connection: sqlite3.Connection, number: int, row: CallRow) -> bool:
    """Insert a row read from a damaged file, unless its call or its answer is there already."""
    marks = ", ".join("?" * (len(row) + 1))
    added = connection.execute(f"INSERT OR IGNORE INTO calls VALUES ({marks})", (number, *row)).rowcount  # noqa: S608
    if added and row.state == RESERVED:
        _book(connection, row.budget, cost=0, worst=-row.cost_micro)
    elif added:
        _book(connection, row.budget, cost=row.cost_micro, worst=0)
    return bool(added)


def prune(connection: sqlite3.Connection, *, before: float, failed: bool) -> int:
    """Delete calls settled before a moment, or only those that gave no answer; return how many."""
    spared = ANSWERED if failed else RESERVED
    delete = "DELETE FROM calls WHERE state NOT IN (?, ?) AND at < ?"
    return connection.execute(delete, (RESERVED, spared, before)).rowcount


def count_states(connection: sqlite3.Connection) -> dict[str, int]:
    """Count the calls of each state. Both queries name the condition of a partial index, or it would not serve."""
    counts = dict.fromkeys((ANSWERED, RESERVED, FAILED, LOST), 0)
    counts[ANSWERED] = connection.execute("SELECT count(*) FROM calls WHERE state = 'answered'").fetchone()[0]
    counts.update(connection.execute("SELECT state, count(*) FROM calls WHERE state <> 'answered' GROUP BY state"))
    return counts
