"""Opening a journal on PostgreSQL: make or check its tables, settle what dead processes left behind."""

from __future__ import annotations

import hashlib
import logging
import time
from pathlib import Path

from jrh_mlflow.engine.journal._base import Recovery
from jrh_mlflow.engine.journal.postgres_tables import (
    APPLICATION,
    SCHEMA_VERSION,
    Connection,
    create_tables,
    is_recorded,
    lock_budgets,
    lose,
    settle,
)
from jrh_mlflow.engine.journal.spool import is_alive, read_spool, spool_owners, spool_path
from jrh_mlflow.errors import JournalError
from jrh_mlflow.home import home

_log = logging.getLogger("jrh_mlflow")
_OLDEST = 12
_PATIENCE_SECONDS = 20.0
_ABOUT = {"application", "version", "id"}


def open_tables(connection: Connection, shown: str) -> str:
    """Leave the tables of this version in the schema `jrh_journal`, and return the journal's id."""
    if connection.info.server_version < _OLDEST * 10_000:
        raise JournalError(f"{shown} runs PostgreSQL {connection.info.server_version // 10_000}, {_OLDEST} is needed.")
    if connection.execute("SELECT current_setting('fsync')").fetchone() == ("off",):
        _log.warning("The server of %s has fsync switched off: a power cut may lose answers.", shown)
    with connection.transaction():
        lock_opening(connection)
        columns = _columns(connection)
        if not columns:
            create_tables(connection)
        return _journal_id(connection, shown, made=columns.get("about", set()) if columns else _ABOUT)


def _columns(connection: Connection) -> dict[str, set[str]]:
    """Return the columns of each table in the schema, which is made when it is missing."""
    if connection.execute("SELECT 1 FROM pg_namespace WHERE nspname = 'jrh_journal'").fetchone() is None:
        connection.execute("CREATE SCHEMA jrh_journal")
    query = """SELECT relname, attname FROM pg_class JOIN pg_attribute ON attrelid = pg_class.oid AND attnum > 0
        WHERE relnamespace = 'jrh_journal'::regnamespace AND relkind IN ('r', 'p', 'v', 'm', 'f')"""
    columns: dict[str, set[str]] = {}
    for table, column in connection.execute(query):
        columns.setdefault(table, set()).add(column)
    return columns


def _journal_id(connection: Connection, shown: str, *, made: set[str]) -> str:
    about = None
    if made >= _ABOUT:
        about = connection.execute("SELECT application, version, id FROM jrh_journal.about").fetchone()
    if about is None or about[0] != APPLICATION or not about[2].isalnum():
        raise JournalError(f"The schema jrh_journal of {shown} holds tables that are no journal. Use another database.")
    if about[1] != SCHEMA_VERSION:
        known = f"this version reads {SCHEMA_VERSION}"
        raise JournalError(f"The journal {shown} has schema version {about[1]}, {known}. Use another database.")
    return str(about[2])


def lock_opening(connection: Connection) -> None:
    """Let one process at a time, on any machine, open or recover the journal, until the transaction ends."""
    connection.execute("SELECT pg_advisory_xact_lock(%s)", (_lock_number("opening"),))


def _lock_number(name: str) -> int:
    """Name an advisory lock: they are numbers, shared by all that use the database."""
    return int.from_bytes(hashlib.sha256(f"jrh_journal {name}".encode()).digest()[:8], "big", signed=True)


def spool_folder(journal_id: str) -> Path:
    """Return where this machine keeps the spools of a journal: in `$JRH_HOME/spools`, by default `.jrh/spools`."""
    return home() / "spools" / journal_id


def sign_on(connection: Connection, owner: str) -> None:
    """Register an owner, who lives for as long as this connection, the one that writes.

    The server ends the lock with the connection: an owner without it can commit nothing any more.
    """
    connection.execute("SELECT pg_advisory_lock(%s)", (_lock_number(owner),))
    connection.execute("INSERT INTO jrh_journal.owners VALUES (%s, 0)", (owner,))


def recover(connection: Connection, spools: Path, shown: str) -> Recovery:
    """Replay the spools that dead processes left on this machine; what else the dead had in flight is lost."""
    replayed = lost = lost_micro = 0
    with connection.transaction():
        lock_opening(connection)
        here = [owner for owner in spool_owners(spools) if not is_alive(spools, owner)]
        dead = [owner for owner in here if _outlive(connection, owner, _PATIENCE_SECONDS)]
        elsewhere = [owner for owner in _reserving(connection) if owner not in spool_owners(spools)]
        gone = [owner for owner in elsewhere if _outlive(connection, owner, 0)]
        if dead or gone:
            lock_budgets(connection)
        for owner in [*dead, *gone]:
            replayed += _replay(connection, spools, owner) if owner in dead else 0
            n_calls, micro = lose(connection, owner)
            lost, lost_micro = lost + n_calls, lost_micro + micro
    # Only now: until the commit the spools are all there is, and after it they replay to nothing.
    for owner in dead:
        spool_path(spools, owner).unlink(missing_ok=True)
        connection.execute("DELETE FROM jrh_journal.owners WHERE owner = %s", (owner,))
    if replayed or lost:
        message = (
            "A process on the journal %s had died: %d calls recovered, %d lost in flight, at most %s of them spent."
        )
        _log.warning(message, shown, replayed, lost, f"{lost_micro / 1e6:.6f} USD")
    return Recovery(replayed=replayed, lost=lost, lost_micro=lost_micro)


def _reserving(connection: Connection) -> list[str]:
    query = "SELECT DISTINCT owner FROM jrh_journal.calls WHERE state <> 'answered' AND state = 'reserved' ORDER BY 1"
    return [owner for (owner,) in connection.execute(query)]


def _outlive(connection: Connection, owner: str, seconds: float) -> bool:
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


def _replay(connection: Connection, spools: Path, owner: str) -> int:
    """Bring into the database what a spool holds beyond the last commit of its owner."""
    query = "SELECT committed FROM jrh_journal.owners WHERE owner = %s"
    found = connection.execute(query, (owner,)).fetchone()
    committed = found[0] if found else 0
    replayed = 0
    for entry in read_spool(spools, owner):
        if entry.number > committed and not is_recorded(connection, entry.row):
            settle(connection, entry.row, entry.held)
            replayed += 1
        committed = max(committed, entry.number)
    upsert = """INSERT INTO jrh_journal.owners VALUES (%s, %s)
        ON CONFLICT (owner) DO UPDATE SET committed = EXCLUDED.committed"""
    connection.execute(upsert, (owner, committed))
    return replayed
