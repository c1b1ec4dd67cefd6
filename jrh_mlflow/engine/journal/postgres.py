"""The journal of several machines: a PostgreSQL server, one writer thread per process, and a spool on its own disk."""

from __future__ import annotations

import hashlib
import logging
import os
import re
import time
import uuid
import weakref
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import psycopg
from psycopg.conninfo import conninfo_to_dict
from psycopg.errors import DeadlockDetected, SerializationFailure, UniqueViolation
from sqlalchemy.dialects import postgresql

from jrh_mlflow.engine.journal._base import Journal
from jrh_mlflow.engine.journal.rows import SHORT_SEAL, CallRow, Recovery
from jrh_mlflow.engine.journal.tables import CALLS, Database, compiled, warn_of_dead
from jrh_mlflow.engine.journal.texts import MARK, StoredText
from jrh_mlflow.engine.journal.writer import Change, Spool, is_alive, sole_opener, spool_owners
from jrh_mlflow.errors import SCHEMA_VERSION, JournalError, check_schema_version
from jrh_mlflow.home import home, writable_home

T = TypeVar("T")
_log = logging.getLogger("jrh_mlflow")
_OLDEST = 12
_PATIENCE_SECONDS = 20.0
_RETURN_SECONDS = 60.0
"""How long a server may be away in mid-run: a restart takes seconds."""
_APPLICATION = "jrh_mlflow journal"
_ABOUT = {"application", "version", "id"}
_LOOK_UP = 1024
_DEFAULTS = {
    "connect_timeout": "10",
    "application_name": "jrh_mlflow",
    # A peer that has gone without a word is noticed after a minute, not after hours.
    "keepalives_idle": "30",
    "keepalives_interval": "10",
    "keepalives_count": "3",
}
_SESSION = """SELECT set_config('search_path', 'jrh_journal', false),
    set_config('tcp_keepalives_idle', '30', false), set_config('tcp_keepalives_interval', '10', false),
    set_config('default_transaction_isolation', 'read committed', false),
    set_config('tcp_keepalives_count', '3', false), set_config('idle_in_transaction_session_timeout', '60s', false),
    CASE current_setting('synchronous_commit') WHEN 'off' THEN set_config('synchronous_commit', 'on', false) END"""
_open_connections: weakref.WeakSet[psycopg.Connection[Any]] = weakref.WeakSet()

_DIALECT = postgresql.dialect(paramstyle="pyformat")  # type: ignore[no-untyped-call]
_TYPES = {name: CALLS.c[name].type.compile(_DIALECT) for name in CallRow._fields}
_BYTES = {name for name, kind in _TYPES.items() if kind == "BYTEA"}
_COLUMNS = ", ".join(CallRow._fields)
_HASH = re.compile("[0-9a-f]{64}")
_NEW = f"unnest(%b::bigint[], {', '.join(f'%b::{kind}[]' for kind in _TYPES.values())}) AS new (id, {_COLUMNS})"
"""The rows of a statement as a table, in binary: as text psycopg writes lists character by character."""
_INSERT = f"INSERT INTO calls ({_COLUMNS}) SELECT {_COLUMNS} FROM {_NEW} RETURNING id, sha256"  # noqa: S608
_FILLED = ", ".join(f"{name} = new.{name}" for name in CallRow._fields)
_FILL = f"UPDATE calls AS old SET {_FILLED} FROM {_NEW} WHERE old.id = new.id AND old.state = %s"  # noqa: S608
_FIND = f"SELECT {_COLUMNS} FROM calls WHERE key = ANY(%b) AND state = 'answered'"  # noqa: S608
_LOCK_BUDGETS = """WITH locked AS (SELECT 1 FROM budgets WHERE %s::bytea[] IS NULL OR name = ANY(%s)
    ORDER BY name FOR NO KEY UPDATE) SELECT txid_current(), count(*) FROM locked"""
_END = """SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND pid = %s
    AND objid::bigint = %s"""
_INSERT_TEXTS = """INSERT INTO texts SELECT * FROM unnest(%b::bytea[], %b::bytea[], %b::bytea[])
    ON CONFLICT (name) DO NOTHING"""


@dataclass(frozen=True, kw_only=True)
class ServerAddress:
    """Where a server is. Only `shown` may be printed, logged or stored."""

    shown: str
    options: dict[str, Any] = field(repr=False)

    def explain(self, error: BaseException) -> str:
        """Return the first line of an error, free of the password."""
        text = (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")
        for name in ("password", "sslpassword"):
            if self.options.get(name):
                text = text.replace(str(self.options[name]), "***")
        return text


def read_address(url: str) -> ServerAddress:
    """Read `postgresql://user:password@host:port/database?option=value`, as libpq does.

    Raises:
        JournalError: For an address that cannot be read. It repeats none of it: what libpq takes for a port or a
            host is a part of the password when that holds an unescaped `/` or `@`.
    """
    _, _, rest = url.partition("://")
    try:
        given = {name: value for name, value in conninfo_to_dict(f"postgresql://{rest}").items() if value is not None}
    except psycopg.ProgrammingError:
        given = {"port": "unreadable"}
    host, port, database = str(given.get("host", "")), str(given.get("port", "0")), str(given.get("dbname", ""))
    if not port.replace(",", "0").isdecimal() or "@" in host + database:
        form = "postgresql://USER:PASSWORD@HOST:PORT/DATABASE"
        escapes = "In the password / is written %2F, @ is %40, : is %3A, ? is %3F and % is %25."
        raise JournalError(f"The address of the PostgreSQL server cannot be read. It has the form {form}. {escapes}")
    return ServerAddress(shown=_show(given), options={**_DEFAULTS, **given, "client_encoding": "UTF8"})


def _show(given: dict[str, Any]) -> str:
    user = f"{given['user']}@" if "user" in given else ""
    host, port = str(given.get("host", "")), f":{given['port']}" if "port" in given else ""
    database = given.get("dbname", "")
    if host.startswith("/"):
        return f"postgresql://{user}{port}/{database}?host={host}"
    return f"postgresql://{user}{host}{port}/{database}"


def _connect(address: ServerAddress) -> psycopg.Connection[Any]:
    """Open a connection that commits each statement by itself and whose commits are on the server's disk."""
    try:
        connection = psycopg.connect(**address.options, autocommit=True)
    except psycopg.Error as error:
        todo = "Check that the server runs, the address and the password"
        # Not `from error`: nothing that was made of the address may be printed.
        raise JournalError(f"No connection to {address.shown}: {address.explain(error)}. {todo}.") from None
    _open_connections.add(connection)
    try:
        connection.execute(_SESSION)
    except psycopg.Error:
        connection.close()
        raise
    return connection


def _let_go_in_child() -> None:
    """A forked child must not keep its parent's connections open, or the parent would seem to live on."""
    for connection in list(_open_connections):
        if not connection.closed:
            # Not `connection.close()`, which would end the parent's session on the server.
            os.close(connection.fileno())


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_let_go_in_child)


class PostgresDatabase(Database):
    """See `Database`."""

    dialect = _DIALECT
    collision = UniqueViolation
    damage = JournalError
    transient = (DeadlockDetected, SerializationFailure)
    for_update = " FOR UPDATE"
    numbers_first = True

    def __init__(self, address: ServerAddress) -> None:
        super().__init__(_connect(address))
        self._address = address
        self._owner: str | None = None
        self._process = self.connection.info.backend_pid
        self._number: int | None = None
        """Of the transaction that is made: the server knows by it, after a lost connection, how it ended."""

    def transaction(self) -> AbstractContextManager[object]:
        """Commit, or leave nothing behind."""
        block: AbstractContextManager[object] = self.connection.transaction()
        return block

    savepoint = transaction
    """Inside another, psycopg makes a savepoint of it."""

    def transact(self, changes: Sequence[Change], number: int, *, owner: str) -> None:
        """Commit a batch; errors are told without the password."""
        try:
            super().transact(changes, number, owner=owner)
        except psycopg.Error as error:
            raise JournalError(self._address.explain(error)) from error

    def _attempt(self, *batch: Any, **how: Any) -> None:
        self._surely(lambda: super(PostgresDatabase, self)._attempt(*batch, **how))

    def sign_off(self, owner: str, *, hits: int, sent: Container[int] | None = None) -> tuple[int, int]:
        """Count what an owner has in flight as lost; where that was done before the connection was, nothing is said."""
        return self._surely(lambda: super(PostgresDatabase, self).sign_off(owner, hits=hits, sent=sent)) or (0, 0)

    def _surely(self, transact: Callable[[], T]) -> T | None:
        """Make a transaction, once, over as many connections as it takes.

        Returns:
            What it returns; None where a connection was lost that had committed it.
        """
        while True:
            self._number = None
            try:
                return transact()
            except psycopg.Error as error:
                if not _is_lost(self.connection, error):
                    raise
                if self._return(error):
                    return None

    def _return(self, lost: psycopg.Error) -> bool:
        """Connect again, as the owner that this was; True where the transaction was committed after all."""
        began = time.monotonic()
        committed = _patiently(self._return_once)
        text = "The connection to the journal %s was lost (%s) and made again after %.1f s. Nothing was lost."
        _log.warning(text, self._address.shown, self._address.explain(lost), time.monotonic() - began)
        return committed

    def _return_once(self) -> bool:
        self.connection.close()
        self.connection = _connect(self._address)
        # A server that has not noticed yet holds the lock for the old connection, whose transaction may still end.
        lock = _lock_number(self._owner or "")
        self.connection.execute(_END, (self._process, lock & 0xFFFFFFFF))
        self.connection.execute("SELECT pg_advisory_lock(%s)", (lock,))
        self._process = self.connection.info.backend_pid
        query = "SELECT coalesce(txid_status(%s) = 'committed', false) FROM owners WHERE owner = %s"
        rows = self.connection.execute(query, (self._number, self._owner)).fetchall()
        if not rows:
            raise JournalError(f"{self._address.shown} is not the server it was")
        return bool(rows[0][0])

    def insert(self, rows: Sequence[CallRow]) -> list[int]:
        """Insert rows and return their ids."""
        if not rows:
            return []
        # PostgreSQL promises no order. Rows of one seal are equal, so which of them has which id does not matter.
        numbers: dict[str, list[int]] = {}
        values = self._arrays(rows, [0] * len(rows))
        for number, sha256 in self.connection.execute(_INSERT, values, binary=True):
            numbers.setdefault(self._decode(sha256, "sha256"), []).append(number)
        return [numbers[row.sha256[:SHORT_SEAL]].pop() for row in rows]

    def fill(self, rows: Sequence[tuple[CallRow, int]], *, state: str) -> int:
        """Let rows take the place of others."""
        if not rows:
            return 0
        values = self._arrays([row for row, _ in rows], [number for _, number in rows])
        return int(self.connection.execute(_FILL, [*values, state]).rowcount)

    def select_answers(self, keys: Sequence[str]) -> Iterator[CallRow]:
        """Look keys up, many at a time."""
        for start in range(0, len(keys), _LOOK_UP):
            chunk = [self._encode(key, "key") for key in keys[start : start + _LOOK_UP]]
            for row in self.connection.execute(_FIND, (chunk,), binary=True):
                yield CallRow._make(map(self._decode, row, CallRow._fields))

    def insert_texts(self, texts: Sequence[StoredText]) -> None:
        """Insert texts, many at a time."""
        if texts:
            self.connection.execute(_INSERT_TEXTS, [list(column) for column in zip(*texts, strict=True)])

    def select_texts(self, names: Sequence[bytes]) -> Iterator[StoredText]:
        """Look names up, many at a time."""
        query = "SELECT name, base, body FROM texts WHERE name = ANY(%b)"
        for start in range(0, len(names), _LOOK_UP):
            chunk = list(names[start : start + _LOOK_UP])
            yield from map(StoredText._make, self.connection.execute(query, (chunk,), binary=True))

    def lock_texts(self) -> None:
        """Wait for all who insert texts, and let them wait: each batch that needs a text inserts it."""
        self.connection.execute("LOCK TABLE texts IN SHARE ROW EXCLUSIVE MODE")

    def size_bytes(self) -> int:
        """Add up the tables of the journal with their indexes."""
        sizes = """SELECT CAST(sum(pg_total_relation_size(oid)) AS bigint) FROM pg_class
            WHERE relnamespace = CAST('jrh_journal' AS regnamespace) AND relkind = 'r'"""
        return int(self.fetch(sizes)[0][0])

    def lock_budgets(self, names: Iterable[str] | None = None) -> None:
        """Make other writers of these budgets wait, in one order, so that no two block each other."""
        encoded = None if names is None else [name.encode() for name in set(names)]
        ((self._number, _),) = self.connection.execute(_LOCK_BUDGETS, (encoded, encoded))

    def fetch(self, statement: str, **values: Any) -> list[tuple[Any, ...]]:
        """Run a query and return its rows, text that is kept as bytes decoded."""
        cursor = self._run(statement, values)
        names = [column.name for column in cursor.description]
        return [tuple(map(self._decode, row, names)) for row in cursor]

    def _run(self, statement: str, values: dict[str, Any]) -> Any:
        encoded = {name: self._encode(value, name) for name, value in values.items()}
        return self.connection.execute(compiled(statement, self.dialect), encoded, binary=True)

    def _arrays(self, rows: Sequence[CallRow], numbers: Sequence[int]) -> list[list[Any]]:
        """Turn rows into the columns that `unnest` takes."""
        columns = zip(CallRow._fields, zip(*rows, strict=True), strict=True)
        return [list(numbers), *([self._encode(value, name) for value in values] for name, values in columns)]

    def _encode(self, value: Any, name: str) -> Any:
        if name not in _BYTES or not isinstance(value, str):
            return value
        if name in ("key", "sha256") and _HASH.fullmatch(value):
            return MARK + bytes.fromhex(value if name == "key" else value[:SHORT_SEAL])
        return value.encode()

    def _decode(self, value: Any, name: str) -> Any:
        if not isinstance(value, bytes):
            return value
        if value.startswith(MARK):
            return value[len(MARK) :].hex() if name in ("key", "sha256") else value
        # What damage left need not be UTF-8; it must reach the check of the row's sha256 to be found out.
        return value.decode("utf-8", "replace")

    def create_tables(self) -> None:
        """Lay out an empty journal."""
        super().create_tables()
        # The id names the folder of the spools: one journal may be reached by several addresses.
        self.connection.execute(
            "CREATE TABLE about (application text NOT NULL, version int NOT NULL, id text NOT NULL)"
        )
        about = (_APPLICATION, SCHEMA_VERSION, uuid.uuid4().hex)
        self.connection.execute("INSERT INTO about VALUES (%s, %s, %s)", about)

    def sign_on(self, owner: str) -> None:
        """Register an owner, who lives for as long as this connection, the one that writes.

        The server ends the lock with the connection: an owner without it can commit nothing any more.
        """
        # Before the row: an owner that others can see without its lock would be taken for dead.
        self.connection.execute("SELECT pg_advisory_lock(%s)", (_lock_number(owner),))
        self._owner = owner
        super().sign_on(owner)


def _is_lost(connection: psycopg.Connection[Any], error: psycopg.Error) -> bool:
    """Whether a statement failed because the connection did; one that the server ends says so before it is closed."""
    return connection.closed or (error.sqlstate or "").startswith(("08", "57P", "25P03"))


def _patiently(connect: Callable[[], T]) -> T:
    give_up = time.monotonic() + _RETURN_SECONDS
    while True:
        try:
            return connect()
        except (JournalError, psycopg.Error):
            if time.monotonic() > give_up:
                raise
        time.sleep(0.2)


class PostgresJournal(Journal):
    """See `Journal`.

    A process lives, for the others, as long as the connection that writes. When it is lost, it is made again and the
    batch goes on; where the server stays away, writing ends with a `JournalError`, the spool keeps what had arrived,
    and the next journal opened on this machine replays it. A pooler between the two must therefore pool sessions, not
    transactions.
    """

    def __init__(self, url: str) -> None:
        self._address = read_address(url)
        # A function, because what holds the password must not show it when it is printed.
        self._another: Callable[[], PostgresJournal] = lambda: PostgresJournal(url)
        super().__init__(self._address.shown)
        with self._errors():
            self._open()

    @staticmethod
    def shown(address: str) -> str:
        """Return the address without its password."""
        return read_address(address).shown

    def _open(self) -> None:
        with ExitStack() as undo:
            database = PostgresDatabase(self._address)
            undo.callback(database.connection.close)
            self.id = _open_tables(database, self.place)
            writable_home()
            spools = spool_folder(self.id) / "journal"
            spools.parent.mkdir(parents=True, exist_ok=True)
            with sole_opener(spools):
                self.recovery = _recover(database, spools, self.place)
                spool = Spool(spools)
            undo.callback(spool.close, remove=True)
            database.sign_on(spool.owner)
            reader = PostgresDatabase(self._address)
            undo.callback(reader.connection.close)
            self._begin(database, reader, spool)
            undo.pop_all()

    def settle_dead(self) -> None:
        """Settle what the dead left behind, as every opening does."""
        # A server that is away is waited for, and said, by who has something to write.
        with suppress(JournalError):
            self._another().close()

    def _read(self, work: Callable[[Database], T]) -> T:
        """Do what may be done twice; a connection that was lost is made again."""
        try:
            return super()._read(work)
        except psycopg.Error as error:
            if not _is_lost(self._reader.connection, error):
                raise
        self._reader.connection.close()
        self._reader = _patiently(lambda: PostgresDatabase(self._address))
        return super()._read(work)

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except (psycopg.Error, OSError) as error:
            todo = "Check that the server runs and start again: what was paid is kept"
            raise JournalError(
                f"The journal {self.place} cannot be used: {self._address.explain(error)}. {todo}."
            ) from error


BACKEND = PostgresJournal


def _open_tables(database: PostgresDatabase, shown: str) -> str:
    """Leave the tables of this version in the schema `jrh_journal`, and return the journal's id."""
    connection = database.connection
    if connection.info.server_version < _OLDEST * 10_000:
        raise JournalError(f"{shown} runs PostgreSQL {connection.info.server_version // 10_000}, {_OLDEST} is needed.")
    if connection.execute("SELECT current_setting('fsync')").fetchone() == ("off",):
        _log.warning("The server of %s has fsync switched off: a power cut may lose answers.", shown)
    with database.transaction():
        _lock_opening(connection)
        columns = _columns(connection)
        if not columns:
            database.create_tables()
        return _journal_id(connection, shown, made=columns.get("about", set()) if columns else _ABOUT)


def _columns(connection: psycopg.Connection[Any]) -> dict[str, set[str]]:
    """Return the columns of each table in the schema, which is made when it is missing."""
    if connection.execute("SELECT 1 FROM pg_namespace WHERE nspname = 'jrh_journal'").fetchone() is None:
        connection.execute("CREATE SCHEMA jrh_journal")
    query = """SELECT relname, attname FROM pg_class JOIN pg_attribute ON attrelid = pg_class.oid AND attnum > 0
        WHERE relnamespace = 'jrh_journal'::regnamespace AND relkind IN ('r', 'p', 'v', 'm', 'f')"""
    columns: dict[str, set[str]] = {}
    for table, column in connection.execute(query):
        columns.setdefault(table, set()).add(column)
    return columns


def _journal_id(connection: psycopg.Connection[Any], shown: str, *, made: set[str]) -> str:
    """Return the id of a journal; refuses tables of another program, and another schema version."""
    about = None
    if made >= _ABOUT:
        about = connection.execute("SELECT application, version, id FROM about").fetchone()
    if about is None or about[0] != _APPLICATION or not about[2].isalnum():
        raise JournalError(f"The schema jrh_journal of {shown} holds tables that are no journal. Use another database.")
    check_schema_version(f"The journal {shown}", about[1], error=JournalError)
    return str(about[2])


def _lock_opening(connection: psycopg.Connection[Any]) -> None:
    """Let one process at a time, on any machine, open or recover the journal, until the transaction ends."""
    connection.execute("SELECT pg_advisory_xact_lock(%s)", (_lock_number("opening"),))


def _lock_number(name: str) -> int:
    """Name an advisory lock: they are numbers, shared by all that use the database."""
    return int.from_bytes(hashlib.sha256(f"jrh_journal {name}".encode()).digest()[:8], "big", signed=True)


def spool_folder(journal_id: str) -> Path:
    """Return where this user keeps the spools of a journal on this machine."""
    return home() / "spools" / journal_id


def _recover(database: PostgresDatabase, spools: Path, shown: str) -> Recovery:
    """Replay the spools that dead processes left on this machine; what else the dead had in flight is lost."""
    reserving = "SELECT DISTINCT owner FROM calls WHERE state <> 'answered' AND state = 'reserved' ORDER BY 1"
    with database.transaction():
        _lock_opening(database.connection)
        here = spool_owners(spools)
        silent = [owner for owner in here if not is_alive(spools, owner)]
        # Silent here, but its connection may live on at the server: what it still commits must not be replayed too.
        dead = [owner for owner in silent if _outlive(database.connection, owner, _PATIENCE_SECONDS)]
        elsewhere = [owner for (owner,) in database.fetch(reserving) if owner not in here]
        # Of other machines nothing is waited for: their own next opening replays what they had received.
        gone = [owner for owner in elsewhere if _outlive(database.connection, owner, 0)]
        if dead or gone:
            database.lock_budgets()
        recovery = database.settle_left(spools, [*dead, *gone])
    database.forget(spools, dead)
    warn_of_dead(shown, recovery)
    return recovery


def _outlive(connection: psycopg.Connection[Any], owner: str, seconds: float) -> bool:
    """Take the lock of an owner who is dead; False while the server still has a connection of it.

    It notices a killed process at once, or after the statement that runs, and a machine that was cut off by its
    keep-alive probes.
    """
    give_up = time.monotonic() + seconds
    query = "SELECT pg_try_advisory_xact_lock(%s)"
    while not (connection.execute(query, (_lock_number(owner),)).fetchone() or [False])[0]:
        if time.monotonic() >= give_up:
            return False
        time.sleep(0.02)
    return True
