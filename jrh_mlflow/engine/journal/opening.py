"""Opening a journal file: refuse what is none, repair what is damaged, settle what the dead left behind."""

from __future__ import annotations

import logging
import sqlite3
import time
from contextlib import closing
from pathlib import Path

from jrh_mlflow.engine.journal._base import Recovery
from jrh_mlflow.engine.journal.rows import RESERVED
from jrh_mlflow.engine.journal.salvage import Pages, salvage_rows
from jrh_mlflow.engine.journal.spool import is_alive, read_spool, spool_owners, spool_path
from jrh_mlflow.engine.journal.tables import (
    APPLICATION_ID,
    PAGE_BYTES,
    SCHEMA_VERSION,
    create_tables,
    insert_salvaged,
    is_recorded,
    lose,
    settle,
    transaction,
)
from jrh_mlflow.errors import JournalError

_log = logging.getLogger("jrh_mlflow")
_BUSY_SECONDS = 60.0
_ALWAYS_CHECKED_BYTES = 256 * 2**20
"""A larger file is checked whole only after a process died; its rows are checked one by one in any case."""


def connect(path: Path) -> sqlite3.Connection:
    """Open a connection that waits for other writers and whose commits are on the disk."""
    connection = sqlite3.connect(
        path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False, cached_statements=256
    )
    connection.execute("PRAGMA synchronous = FULL")
    # What damage left need not be UTF-8; it must reach the check of the row's sha256 to be found out.
    connection.text_factory = lambda data: data.decode("utf-8", "replace")
    return connection


def is_damage(error: Exception) -> bool:
    """Whether an error says that the file is damaged, and not that it is locked, full or out of reach."""
    # The subclasses of DatabaseError are the others; sqlite3 cannot decode a message that quotes a damaged schema.
    return type(error) is sqlite3.DatabaseError or isinstance(error, UnicodeDecodeError)


def open_database(path: Path) -> Recovery:
    """Leave a whole journal of this version at `path`: made, checked or repaired, the dead processes settled."""
    _finish_repair(path)
    if path.exists() and path.stat().st_size == 0:
        _log.warning("The journal %s was an empty file. Starting with no answers.", path)
    try:
        if _check(path):
            return _recover(path)
    except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
        if not is_damage(error):
            raise
    _repair(path)
    return _recover(path)


def _check(path: Path) -> bool:
    with closing(connect(path)) as connection:
        names = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if application != APPLICATION_ID and (names or application):
            raise JournalError(f"{path} is a database, but not a journal. Give another path.")
        if application == APPLICATION_ID and version != SCHEMA_VERSION:
            known = f"this version reads {SCHEMA_VERSION}"
            raise JournalError(f"The journal {path} has schema version {version}, {known}. Give another path.")
        connection.execute(f"PRAGMA page_size = {PAGE_BYTES}")
        _demand_wal(connection, path)
        if application != APPLICATION_ID:
            with transaction(connection):
                create_tables(connection)
            return True
        return {"calls", "budgets", "owners"} <= names and _passes_check(connection, path)


def _demand_wal(connection: sqlite3.Connection, path: Path) -> None:
    (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
    if mode != "wal":
        where = "as on a network file system"
        raise JournalError(f"SQLite does not grant {path} a write-ahead log ({mode=}), {where}. Use a local disk.")


def _passes_check(connection: sqlite3.Connection, path: Path) -> bool:
    if path.stat().st_size > _ALWAYS_CHECKED_BYTES and not spool_owners(path):
        return True
    return bool(connection.execute("PRAGMA integrity_check(1)").fetchone() == ("ok",))


def _repair(path: Path) -> None:
    """Write every readable row to a new file, then let it take the place of the damaged one."""
    if any(is_alive(path, owner) for owner in spool_owners(path)):
        raise JournalError(f"The journal {path} is damaged, and a process still has it open. Stop that process first.")
    draft = path.with_name(f"{path.name}.salvaging")
    draft.unlink(missing_ok=True)
    budgets = _readable_budgets(path)
    pages = Pages(path)
    with closing(connect(draft)) as connection:
        connection.execute(f"PRAGMA page_size = {PAGE_BYTES}")
        with transaction(connection):
            create_tables(connection)
            found = _copy_rows(connection, pages)
            _copy_budgets(connection, budgets)
    if not found and not pages.look_like_a_journal():
        draft.unlink()
        raise JournalError(f"{path} is not a journal, and nothing in it could be read as one. It was left as it is.")
    draft.rename(_salvaged(path))
    _finish_repair(path)


def _copy_rows(connection: sqlite3.Connection, pages: Pages) -> int:
    # Settled calls first: a page left behind may still show them as reserved.
    settled = sum(insert_salvaged(connection, *found) for found in salvage_rows(pages) if found[1].state != RESERVED)
    return settled + sum(
        insert_salvaged(connection, *found) for found in salvage_rows(pages) if found[1].state == RESERVED
    )


def _readable_budgets(path: Path) -> list[tuple[str, int | None, int]]:
    """Return name, cap and spent of each budget, or nothing when SQLite cannot read them."""
    try:
        with closing(connect(path)) as connection:
            return connection.execute("SELECT name, cap, spent FROM budgets").fetchall()
    except (sqlite3.Error, UnicodeDecodeError):
        return []


def _copy_budgets(connection: sqlite3.Connection, budgets: list[tuple[str, int | None, int]]) -> None:
    """Keep caps, and of the two sums of what was spent the larger: pruned calls have no row any more."""
    for name, cap, spent in budgets:
        statement = """INSERT INTO budgets VALUES (:name, :cap, :spent, 0)
            ON CONFLICT (name) DO UPDATE SET cap = :cap, spent = max(spent, :spent)"""
        connection.execute(statement, {"name": name, "cap": cap, "spent": spent})


def _salvaged(path: Path) -> Path:
    return path.with_name(f"{path.name}.salvaged")


def _finish_repair(path: Path) -> None:
    """Move the damaged file aside and the salvaged one into its place; picks up where a killed process stopped."""
    if not _salvaged(path).exists():
        return
    aside = path.with_name(f"{path.name}.damaged-{time.strftime('%Y%m%dT%H%M%S')}-{time.time_ns() % 10**9:09d}")
    for suffix in ("-shm", "-wal", ""):
        part = path.with_name(path.name + suffix)
        if part.exists():
            part.rename(aside.with_name(aside.name + suffix))
    _salvaged(path).rename(path)
    with closing(connect(path)) as connection:
        (found,) = connection.execute("SELECT count(*) FROM calls").fetchone()
    _log.warning("The journal %s was damaged: %d calls were salvaged, the file is kept as %s.", path, found, aside.name)


def _recover(path: Path) -> Recovery:
    """Replay the spools of processes that died, and count what else they had in flight as lost."""
    replayed = lost = lost_micro = 0
    with closing(connect(path)) as connection:
        dead = [owner for owner in _owners(connection, path) if not is_alive(path, owner)]
        with transaction(connection):
            for owner in dead:
                replayed += _replay(connection, path, owner)
                n_calls, micro = lose(connection, owner)
                lost, lost_micro = lost + n_calls, lost_micro + micro
        # Only now: until the commit the spools are all there is, and after it they replay to nothing.
        for owner in dead:
            spool_path(path, owner).unlink(missing_ok=True)
            connection.execute("DELETE FROM owners WHERE owner = ?", (owner,))
    if replayed or lost:
        money = f"{lost_micro / 1e6:.6f} USD"
        message = (
            "A process on the journal %s had died: %d calls recovered, %d lost in flight, at most %s of them spent."
        )
        _log.warning(message, path, replayed, lost, money)
    return Recovery(replayed=replayed, lost=lost, lost_micro=lost_micro)


def _owners(connection: sqlite3.Connection, path: Path) -> list[str]:
    in_database = connection.execute(
        "SELECT owner FROM owners UNION SELECT owner FROM calls WHERE state <> 'answered' AND state = 'reserved'"
    )
    return sorted({owner for (owner,) in in_database} | set(spool_owners(path)))


def _replay(connection: sqlite3.Connection, path: Path, owner: str) -> int:
    """Bring into the database what a spool holds beyond the last commit of its owner."""
    found = connection.execute("SELECT committed FROM owners WHERE owner = ?", (owner,)).fetchone()
    committed = found[0] if found else 0
    replayed = 0
    for entry in read_spool(path, owner):
        if entry.number > committed and not is_recorded(connection, entry.row):
            settle(connection, entry.row, entry.held)
            replayed += 1
        committed = max(committed, entry.number)
    connection.execute("INSERT OR REPLACE INTO owners VALUES (?, ?)", (owner, committed))
    return replayed
