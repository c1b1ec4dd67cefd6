"""The journal of one machine: an SQLite file in WAL mode, checked and if need be repaired when it is opened."""

from __future__ import annotations

import logging
import shutil
import socket
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, nullcontext
from functools import cache, partial
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy.dialects import sqlite

from jrh_mlflow.engine.journal._base import Journal
from jrh_mlflow.engine.journal.rows import RESERVED, CallRow, Recovery
from jrh_mlflow.engine.journal.tables import TABLES, Database, warn_of_dead
from jrh_mlflow.engine.journal.texts import StoredText
from jrh_mlflow.engine.journal.writer import Spool, is_alive, sole_opener, spool_owners
from jrh_mlflow.errors import SCHEMA_VERSION, JournalError, check_schema_version
from jrh_mlflow.home import private_file, shown_path

T = TypeVar("T")
_log = logging.getLogger("jrh_mlflow")
_APPLICATION_ID = 0x6A72686A
"""`jrhj` in the file's header: tells a journal from any other SQLite database."""
_PAGE_BYTES = 4096
_BUSY_SECONDS = 60.0
_ALWAYS_CHECKED_BYTES = 32 * 2**20
"""A larger file is checked whole only after a process died; its rows are checked one by one in any case."""
_ROWS = 64
"""Rows of one statement: old SQLite takes at most 999 values."""
_LOOK_UP = 256
_COLUMNS = ", ".join(CallRow._fields)
_MOST_ROWS_PER_PAGE = 40
"""A row has at least a hundred bytes, most of them its sha256."""


class SqliteDatabase(Database):
    """See `Database`."""

    dialect = sqlite.dialect(paramstyle="named")
    collision = sqlite3.IntegrityError
    damage = sqlite3.DatabaseError

    def __init__(self, path: Path) -> None:
        super().__init__(_connect(path))
        self._path = path

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Hold the write lock from the first statement on; commit, or leave nothing behind."""
        # A plain BEGIN takes the write lock late, and fails there when another process was quicker.
        self.connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            self.connection.execute("COMMIT")
        except BaseException:
            # A full disk or a damaged page has rolled back already.
            if self.connection.in_transaction:
                self.connection.execute("ROLLBACK")
            raise

    def savepoint(self) -> AbstractContextManager[None]:
        """Do nothing: of a statement that fails, SQLite leaves nothing behind by itself."""
        return nullcontext()

    def insert(self, rows: Sequence[CallRow]) -> list[int]:
        """Insert rows: SQLite numbers those of one statement in their order, without a gap."""
        numbers: list[int] = []
        for start in range(0, len(rows), _ROWS):
            chunk = rows[start : start + _ROWS]
            values = [value for row in chunk for value in (None, *row)]
            last = self.connection.execute(_insert(len(chunk)), values).lastrowid or 0
            numbers.extend(range(last - len(chunk) + 1, last + 1))
        return numbers

    def fill(self, rows: Sequence[tuple[CallRow, int]], *, state: str) -> int:
        """Let rows take the place of others."""
        filled = 0
        for start in range(0, len(rows), _ROWS):
            chunk = rows[start : start + _ROWS]
            values = [value for row, number in chunk for value in (number, *row)]
            filled += self.connection.execute(_fill(len(chunk), state), values).rowcount
        return filled

    def select_answers(self, keys: Sequence[str]) -> Iterator[CallRow]:
        """Look keys up, many at a time."""
        for start in range(0, len(keys), _LOOK_UP):
            chunk = keys[start : start + _LOOK_UP]
            # Filled up to a few sizes, so that SQLite need not compile a statement for each.
            size = 1 if len(chunk) == 1 else _LOOK_UP
            yield from map(CallRow._make, self.connection.execute(_find(size), [*chunk, *[""] * (size - len(chunk))]))

    def insert_texts(self, texts: Sequence[StoredText]) -> None:
        """Insert texts, many at a time."""
        for start in range(0, len(texts), _ROWS):
            chunk = texts[start : start + _ROWS]
            self.connection.execute(_insert_texts(len(chunk)), [value for text in chunk for value in text])

    def select_texts(self, names: Sequence[bytes]) -> Iterator[StoredText]:
        """Look names up, many at a time."""
        for start in range(0, len(names), _LOOK_UP):
            chunk = names[start : start + _LOOK_UP]
            query = f"SELECT name, base, body FROM texts WHERE name IN ({', '.join('?' * len(chunk))})"  # noqa: S608
            yield from map(StoredText._make, self.connection.execute(query, chunk))

    def size_bytes(self) -> int:
        """Add up the file and its log."""
        parts = [self._path, _beside(self._path, "-wal")]
        return sum(part.stat().st_size for part in parts if part.exists())

    def prune(self, *, before: float, failed: bool) -> int:
        """Delete calls; their room is used again, and given back to the disk once it is more than half of the file."""
        # Overwritten with zeros: what was pruned must not be readable in a file that is not written anew.
        self.connection.execute("PRAGMA secure_delete = ON")
        removed = super().prune(before=before, failed=failed)
        (((free,),), ((pages,),)) = self.fetch("PRAGMA freelist_count"), self.fetch("PRAGMA page_count")
        if free > pages / 2:
            self.connection.execute("VACUUM")
        self.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return removed

    def create_tables(self) -> None:
        """Lay out an empty journal; the marks in the header say what it is."""
        self.connection.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
        self.connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
        super().create_tables()


@cache
def _insert_texts(n_texts: int) -> str:
    return f"INSERT OR IGNORE INTO texts VALUES {', '.join(['(?, ?, ?)'] * n_texts)}"  # noqa: S608


@cache
def _insert(n_rows: int) -> str:
    marks = f"({', '.join('?' * (len(CallRow._fields) + 1))})"
    return f"INSERT INTO calls (id, {_COLUMNS}) VALUES {', '.join([marks] * n_rows)}"  # noqa: S608


@cache
def _fill(n_rows: int, state: str) -> str:
    fill = ", ".join(f"{name} = excluded.{name}" for name in CallRow._fields)
    return f"{_insert(n_rows)} ON CONFLICT (id) DO UPDATE SET {fill} WHERE calls.state = '{state}'"


@cache
def _find(n_keys: int) -> str:
    marks = ", ".join("?" * n_keys)
    return f"SELECT {_COLUMNS} FROM calls WHERE key IN ({marks}) AND state = 'answered'"  # noqa: S608


class SqliteJournal(Journal):
    """See `Journal`."""

    def __init__(self, path: str) -> None:
        self.path = Path(path).resolve()
        super().__init__(str(self.path))
        self.id = f"{socket.gethostname()}:{self.path}"
        with self._errors():
            self._open()

    @staticmethod
    def shown(address: str) -> str:
        """Return the absolute path."""
        return shown_path(Path(address).absolute())

    def _open(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with sole_opener(self.path), ExitStack() as undo:
            self.recovery = _open_file(self.path)
            spool = Spool(self.path)
            undo.callback(spool.close, remove=True)
            database, reader = SqliteDatabase(self.path), SqliteDatabase(self.path)
            undo.callback(database.connection.close)
            undo.callback(reader.connection.close)
            database.sign_on(spool.owner)
            reader.connection.execute("PRAGMA query_only = ON")
            self._begin(database, reader, spool)
            undo.pop_all()

    def settle_dead(self) -> None:
        """Settle what the dead left behind, as every opening does."""
        # Opening checks the whole file: not where everybody lives.
        if not all(is_alive(self.path, owner) for owner in spool_owners(self.path)):
            SqliteJournal(self.place).close()

    def _aside(self, work: Callable[[Database], T]) -> T:
        with _opened(self.path) as database:
            return work(database)

    def _find_rows(self, keys: Sequence[str]) -> dict[str, CallRow]:
        try:
            return super()._find_rows(keys)
        except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
            if not _is_damage(error):
                raise
        if len(keys) > 1:
            # One by one: a damaged page then costs only the keys that lie on it.
            return {key: row for key in keys for row in self._find_rows([key]).values()}
        # What cannot be read in a damaged file is as if it were not there.
        self._note_damage(keys[0])
        return {}

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            raise JournalError(f"The journal {self.path} cannot be used: {error}.") from error


BACKEND = SqliteJournal


def _connect(path: Path) -> sqlite3.Connection:
    """Open a connection that waits for other writers and whose commits are on the disk."""
    connection = sqlite3.connect(
        path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False, cached_statements=256
    )
    connection.execute("PRAGMA synchronous = FULL")
    if sys.platform == "darwin":
        # There a plain fsync leaves the data in the drive's own cache: a power cut would take paid answers.
        connection.execute("PRAGMA fullfsync = ON")
        connection.execute("PRAGMA checkpoint_fullfsync = ON")
    # What damage left need not be UTF-8; it must reach the check of the row's sha256 to be found out.
    connection.text_factory = partial(str, encoding="utf-8", errors="replace")
    return connection


@contextmanager
def _opened(path: Path) -> Iterator[SqliteDatabase]:
    database = SqliteDatabase(path)
    with closing(database.connection):
        yield database


def _beside(path: Path, suffix: str) -> Path:
    return path.with_name(path.name + suffix)


def _is_damage(error: Exception) -> bool:
    """Whether an error says that the file is damaged, and not that it is locked, full or out of reach."""
    # The subclasses of DatabaseError are the others; sqlite3 cannot decode a message that quotes a damaged schema.
    return type(error) is sqlite3.DatabaseError or isinstance(error, UnicodeDecodeError)


def _open_file(path: Path) -> Recovery:
    """Leave a whole journal of this version at `path`: made, checked or repaired, the dead processes settled."""
    _finish_repair(path)
    if path.exists() and path.stat().st_size == 0:
        _log.warning("The journal %s was an empty file. Starting with no answers.", path)
    # Before SQLite makes it, and what lies beside it, for everybody to read.
    private_file(path)
    try:
        if _check(path):
            return _recover(path)
    except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
        if not _is_damage(error):
            raise
    _repair(path)
    return _recover(path)


def _check(path: Path) -> bool:
    """Make the tables of a new journal, or tell whether those of another one are whole."""
    with _opened(path) as database:
        connection = database.connection
        names = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        is_new = _is_new(connection, path, names)
        connection.execute(f"PRAGMA page_size = {_PAGE_BYTES}")
        _demand_wal(connection, path)
        if is_new:
            with database.transaction():
                database.create_tables()
            return True
        return {table.name for table in TABLES} <= names and _passes_check(connection, path)


def _is_new(connection: sqlite3.Connection, path: Path, tables: set[str]) -> bool:
    """Whether a file is still empty; refuses another database, and a journal of another schema version."""
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if application != _APPLICATION_ID and (tables or application):
        raise JournalError(f"{path} is a database, but not a journal. Give another path.")
    if application != _APPLICATION_ID:
        return True
    check_schema_version(f"The journal {path}", version, error=JournalError)
    return False


def _demand_wal(connection: sqlite3.Connection, path: Path) -> None:
    (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
    if mode != "wal":
        where = "as on a network file system"
        raise JournalError(f"SQLite does not grant {path} a write-ahead log ({mode=}), {where}. Use a local disk.")


def _passes_check(connection: sqlite3.Connection, path: Path) -> bool:
    if path.stat().st_size > _ALWAYS_CHECKED_BYTES and not spool_owners(path):
        return True
    return bool(connection.execute("PRAGMA integrity_check(1)").fetchone() == ("ok",))


def _recover(path: Path) -> Recovery:
    """Replay the spools of processes that died, and count what else they had in flight as lost."""
    with _opened(path) as database:
        known = database.fetch(
            "SELECT owner FROM owners UNION SELECT owner FROM calls WHERE state <> 'answered' AND state = 'reserved'"
        )
        owners = {owner for (owner,) in known} | set(spool_owners(path))
        dead = [owner for owner in sorted(owners) if not is_alive(path, owner)]
        with database.transaction():
            recovery = database.settle_left(path, dead)
        database.forget(path, dead)
    warn_of_dead(str(path), recovery)
    return recovery


def _repair(path: Path) -> None:
    """Write every readable row to a new file, then let it take the place of the damaged one."""
    if any(is_alive(path, owner) for owner in spool_owners(path)):
        raise JournalError(f"The journal {path} is damaged, and a process still has it open. Stop that process first.")
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=".salvage-") as folder:
        draft, copy = Path(folder, "draft"), Path(folder, "copy")
        with _opened(draft) as database:
            database.connection.execute(f"PRAGMA page_size = {_PAGE_BYTES}")
            with database.transaction():
                database.create_tables()
            salvaged = 0
            if _make_readable(path, copy, first_page=draft.read_bytes()[:_PAGE_BYTES]):
                with _opened(copy) as damaged, database.transaction():
                    salvaged = sum(_salvage(database, row) for row in _readable(damaged, path, "calls", _COLUMNS))
                    _salvage_texts(database, damaged, path)
                    _salvage_budgets(database, damaged)
        if not salvaged and not _says_journal(path):
            raise JournalError(
                f"{path} is not a journal, and nothing in it could be read as one. It was left as it is."
            )
        draft.rename(_beside(path, ".salvaged"))
    _finish_repair(path)


def _says_journal(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(_PAGE_BYTES)[68:72] == _APPLICATION_ID.to_bytes(4, "big")


def _make_readable(path: Path, copy: Path, *, first_page: bytes) -> bool:
    """Copy a damaged file and its log, with a first page that SQLite accepts; False when it accepts none.

    All journals begin alike: a header, and a schema in which the table of the calls starts on the second page. So
    where the header is damaged that of a new journal serves, and where the schema is, the whole first page does.
    """
    for suffix in ("", "-wal"):
        if _beside(path, suffix).exists():
            shutil.copyfile(_beside(path, suffix), _beside(copy, suffix))
    # With a write-ahead log (bytes 18 and 19), and without the number of pages (byte 28): the file's size tells it.
    header = first_page[:18] + b"\2\2" + first_page[20:28] + bytes(4) + first_page[32:100]
    for begin in (header, header + first_page[100:]):
        with copy.open("r+b") as file:
            file.write(begin)
        try:
            with _opened(copy) as database:
                database.fetch("SELECT id FROM calls LIMIT 0")
                database.fetch("SELECT name, cap, spent FROM budgets LIMIT 0")
        except (sqlite3.Error, UnicodeDecodeError):
            continue
        return True
    return False


def _readable(damaged: SqliteDatabase, path: Path, table: str, columns: str) -> Iterator[tuple[Any, ...]]:
    """Yield the rows that SQLite can still read, with their ids, going on behind each place where it cannot."""
    query = f"SELECT rowid, {columns} FROM {table} NOT INDEXED WHERE rowid >= :start ORDER BY rowid"  # noqa: S608
    start = missed = 0
    most_missed = _MOST_ROWS_PER_PAGE * (1 + path.stat().st_size // _PAGE_BYTES)
    while missed <= most_missed:
        try:
            for row in damaged.connection.execute(query, {"start": start}):
                yield row
                start, missed = row[0] + 1, 0
        except (sqlite3.Error, UnicodeDecodeError):
            # By one: how many rows a page that cannot be read held is not known.
            start, missed = start + 1, missed + 1
        else:
            return


def _salvage(database: SqliteDatabase, values: tuple[Any, ...]) -> bool:
    """Insert a call read from a damaged file, if it is whole and its answer is not there already."""
    row = CallRow._make(values[1:])
    if not row.is_intact():
        return False
    insert = _insert(1).replace("INSERT", "INSERT OR IGNORE", 1)
    added = bool(database.connection.execute(insert, values).rowcount)
    if added:
        is_reserved = row.state == RESERVED
        cost, worst = (0, -row.cost_micro) if is_reserved else (row.cost_micro, 0)
        database.book([(row.budget, cost)], [(row.budget, worst)])
    return added


def _salvage_texts(database: SqliteDatabase, damaged: SqliteDatabase, path: Path) -> None:
    """Keep the texts that are whole, where the damaged file has any: one that is not would be in the way of another."""
    try:
        damaged.fetch("SELECT name FROM texts LIMIT 0")
    except sqlite3.Error:
        return
    names = []
    for _, name, base, body in _readable(damaged, path, "texts", "name, base, body"):
        # With a borrowed schema these may be rows of another table.
        if isinstance(name, bytes) and isinstance(base, bytes | None) and isinstance(body, bytes):
            database.insert_texts([StoredText(name, base, body)])
            names.append(name)
    for start in range(0, len(names), _LOOK_UP):
        chunk = names[start : start + _LOOK_UP]
        for name in {*chunk} - database.read_texts(chunk).keys():
            database.change("DELETE FROM texts WHERE name = :name", name=name)


def _salvage_budgets(database: SqliteDatabase, damaged: SqliteDatabase) -> None:
    """Keep caps, and of the two sums of what was spent the larger: pruned calls have no row any more."""
    try:
        budgets = damaged.fetch("SELECT name, cap, spent FROM budgets")
    except (sqlite3.Error, UnicodeDecodeError):
        return
    keep = """INSERT INTO budgets VALUES (:name, :cap, :spent, 0)
        ON CONFLICT (name) DO UPDATE SET cap = :cap, spent = max(spent, :spent)"""
    for name, cap, spent in budgets:
        # With a borrowed schema these may be rows of another table.
        if isinstance(name, str) and isinstance(cap, int | None) and isinstance(spent, int):
            database.change(keep, name=name, cap=cap, spent=spent)


def _finish_repair(path: Path) -> None:
    """Move the damaged file aside and the salvaged one into its place; picks up where a killed process stopped."""
    salvaged = _beside(path, ".salvaged")
    if not salvaged.exists():
        return
    aside = _beside(path, f".damaged-{time.strftime('%Y%m%dT%H%M%S')}-{time.time_ns() % 10**9:09d}")
    for suffix in ("-shm", "-wal", ""):
        part = _beside(path, suffix)
        if part.exists():
            part.rename(_beside(aside, suffix))
    salvaged.rename(path)
    with _opened(path) as database:
        ((n_calls,),) = database.fetch("SELECT count(*) FROM calls")
    _log.warning(
        "The journal %s was damaged: %d calls were salvaged, the file is kept as %s.", path, n_calls, aside.name
    )
