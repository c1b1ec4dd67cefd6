"""The journal of one machine: an SQLite file in WAL mode, one writer thread per process, and a spool."""

from __future__ import annotations

import socket
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

from jrh_mlflow.engine.journal import tables
from jrh_mlflow.engine.journal.opening import connect, is_damage, open_database
from jrh_mlflow.engine.journal.rows import CallRow, Held
from jrh_mlflow.engine.journal.spool import Spool, sole_opener
from jrh_mlflow.engine.journal.spooled import SpooledJournal
from jrh_mlflow.engine.journal.tables import transaction
from jrh_mlflow.engine.journal.writer import Change, Database, JournalWriter
from jrh_mlflow.errors import JournalError


class SqliteDatabase(Database):
    """See `Database`."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection

    def transact(self, jobs: Sequence[Change], *, owner: str, number: int) -> None:
        """Commit a batch; where two answers meet, one by one."""
        try:
            self._attempt(jobs, owner, number, together=True)
        except sqlite3.IntegrityError:
            self._attempt(jobs, owner, number, together=False)

    def _attempt(self, jobs: Sequence[Change], owner: str, number: int, *, together: bool) -> None:
        with transaction(self.connection):
            self.apply(jobs, together=together)
            if number:
                self.connection.execute("UPDATE owners SET committed = ? WHERE owner = ?", (number, owner))

    def settle_together(self, settled: Sequence[tuple[CallRow, Held]]) -> None:
        """Settle many calls with few statements."""
        tables.settle_together(self.connection, settled)

    def settle(self, row: CallRow, held: Held) -> None:
        """Put an answered or failed call in the place of its reservation, and book its cost."""
        tables.settle(self.connection, row, held)

    def release_all(self, reservations: Iterable[Held]) -> None:
        """Take back reservations."""
        tables.release_all(self.connection, reservations)

    def set_aside(self, budget: str, worst_micro: int) -> bool:
        """Reserve an amount in one statement."""
        return tables.set_aside(self.connection, budget, worst_micro)

    def insert(self, rows: Sequence[CallRow]) -> list[int]:
        """Insert rows and return their ids."""
        return tables.insert(self.connection, rows)


class SqliteJournal(SpooledJournal):
    """See `Journal`."""

    def __init__(self, path: Path) -> None:
        self.path = path.resolve()
        super().__init__(str(self.path))
        self.id = f"{socket.gethostname()}:{self.path}"
        with self._errors():
            self._open()

    def _open(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with sole_opener(self.path), ExitStack() as undo:
            self.recovery = open_database(self.path)
            self._spool = Spool(self.path)
            undo.callback(self._spool.close, remove=True)
            self._database = SqliteDatabase(undo.enter_context(closing(connect(self.path))))
            self._database.connection.execute("INSERT INTO owners VALUES (?, 0)", (self._spool.owner,))
            self._reader = undo.enter_context(closing(connect(self.path)))
            self._reader.execute("PRAGMA query_only = ON")
            self._writer = JournalWriter(self._database, self._spool)
            undo.pop_all()

    def settle_dead(self) -> None:
        """Settle what the dead left behind, as every opening does."""
        SqliteJournal(self.path).close()

    def _find_rows(self, keys: Sequence[str]) -> dict[str, CallRow]:
        try:
            return tables.find_answers(self._reader, keys)
        except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
            if not is_damage(error):
                raise
        rows: dict[str, CallRow] = {}
        for key in keys:
            rows |= self._find_alone(key)
        return rows

    def _find_alone(self, key: str) -> dict[str, CallRow]:
        """Look one call up in a damaged file; what cannot be read is as if it were not there."""
        try:
            return tables.find_answers(self._reader, [key])
        except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
            if not is_damage(error):
                raise
            self._note_damage(key)
            return {}

    def _put_budget(self, name: str, cap_micro: int | None) -> None:
        statement = "INSERT INTO budgets VALUES (:name, :cap, 0, 0) ON CONFLICT (name) DO UPDATE SET cap = :cap"
        with closing(connect(self.path)) as connection, transaction(connection):
            connection.execute(statement, {"name": name, "cap": cap_micro})

    def _budget(self, name: str) -> tuple[int, int]:
        found = self._reader.execute("SELECT spent, reserved FROM budgets WHERE name = ?", (name,)).fetchone()
        return (int(found[0]), int(found[1])) if found else (0, 0)

    def _counts(self) -> Mapping[str, int]:
        parts = [self.path, self.path.with_name(f"{self.path.name}-wal")]
        with closing(connect(self.path)) as connection:
            return {
                **tables.count_states(connection),
                "hits": tables.count_hits(connection),
                "size_bytes": sum(part.stat().st_size for part in parts if part.exists()),
                "spent_micro": int(connection.execute("SELECT sum(spent) FROM budgets").fetchone()[0]),
            }

    def _prune(self, *, before: float, failed: bool) -> int:
        """Delete calls and give their room back to the disk."""
        with closing(connect(self.path)) as connection:
            with transaction(connection):
                removed = tables.prune(connection, before=before, failed=failed)
            connection.execute("VACUUM")
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return removed

    def _sign_off(self) -> tuple[int, int]:
        connection = self._database.connection
        with transaction(connection):
            lost = tables.lose(connection, self._spool.owner)
            tables.count_hits(connection, add=self._hits)
        # In this order: an owner without a spool is settled, a spool without an owner would be replayed.
        self._spool.close(remove=True)
        connection.execute("DELETE FROM owners WHERE owner = ?", (self._spool.owner,))
        return lost

    def _disconnect(self) -> None:
        self._reader.close()
        self._database.connection.close()

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            raise JournalError(f"The journal {self.path} cannot be used: {error}.") from error
