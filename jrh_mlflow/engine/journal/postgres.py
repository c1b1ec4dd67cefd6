"""The journal of several machines: a PostgreSQL server, one writer thread per process, and a spool on its own disk."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from typing import TypeVar

import psycopg
from psycopg.errors import DeadlockDetected, SerializationFailure, UniqueViolation

from jrh_mlflow.engine.journal import postgres_tables as tables
from jrh_mlflow.engine.journal.postgres_address import ServerAddress, connect, read_address
from jrh_mlflow.engine.journal.postgres_opening import open_tables, recover, sign_on, spool_folder
from jrh_mlflow.engine.journal.postgres_tables import Connection, NeedsCareError
from jrh_mlflow.engine.journal.rows import CallRow, Held
from jrh_mlflow.engine.journal.spool import Spool, sole_opener
from jrh_mlflow.engine.journal.spooled import SpooledJournal
from jrh_mlflow.engine.journal.writer import Change, Database, JournalWriter
from jrh_mlflow.errors import JournalError

_ATTEMPTS = 5
_Found = TypeVar("_Found")


class PostgresDatabase(Database):
    """See `Database`."""

    def __init__(self, connection: Connection, address: ServerAddress) -> None:
        self.connection = connection
        self._address = address

    def transact(self, jobs: Sequence[Change], *, owner: str, number: int) -> None:
        """Commit a batch; where two answers meet, one by one."""
        together = True
        for attempt in range(_ATTEMPTS):
            try:
                return self._attempt(jobs, owner, number, together=together)
            except (UniqueViolation, NeedsCareError):
                together = False
            except (DeadlockDetected, SerializationFailure) as error:
                if attempt == _ATTEMPTS - 1:
                    raise JournalError(self._address.explain(error)) from error
            except psycopg.Error as error:
                raise JournalError(self._address.explain(error)) from error
        raise JournalError(f"{_ATTEMPTS} attempts to commit did not succeed")

    def _attempt(self, jobs: Sequence[Change], owner: str, number: int, *, together: bool) -> None:
        with self.connection.transaction():
            tables.lock_budgets(self.connection, _budgets(jobs))
            self.apply(jobs, together=together)
            if number:
                update = "UPDATE jrh_journal.owners SET committed = %s WHERE owner = %s"
                self.connection.execute(update, (number, owner))

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


def _budgets(jobs: Sequence[Change]) -> set[str]:
    """Return the budgets that a batch changes."""
    rows = [job.row or (job.withdrawn and job.withdrawn.row) for job in jobs]
    return {row.budget for row in rows if row} | {job.held.budget for job in jobs if job.held}


class PostgresJournal(SpooledJournal):
    """See `Journal`.

    A process lives, for the others, as long as the connection that writes. When it is lost, writing ends with a
    `JournalError`, the spool keeps what had arrived, and the next journal opened on this machine replays it. A pooler
    between the two must therefore pool sessions, not transactions.
    """

    def __init__(self, url: str) -> None:
        self._address = read_address(url)
        # A function, because what holds the password must not show it when it is printed.
        self._another: Callable[[], PostgresJournal] = lambda: PostgresJournal(url)
        super().__init__(self._address.shown)
        with self._errors():
            self._open()

    def _open(self) -> None:
        with ExitStack() as undo:
            connection = undo.enter_context(closing(connect(self._address)))
            self.id = open_tables(connection, self.place)
            spools = spool_folder(self.id) / "journal"
            spools.parent.mkdir(parents=True, exist_ok=True)
            with sole_opener(spools):
                self.recovery = recover(connection, spools, self.place)
                self._spool = Spool(spools)
            undo.callback(self._spool.close, remove=True)
            sign_on(connection, self._spool.owner)
            self._reader = undo.enter_context(closing(connect(self._address)))
            self._database = PostgresDatabase(connection, self._address)
            self._writer = JournalWriter(self._database, self._spool)
            undo.pop_all()

    def settle_dead(self) -> None:
        """Settle what the dead left behind, as every opening does."""
        self._another().close()

    def _find_rows(self, keys: Sequence[str]) -> dict[str, CallRow]:
        return self._ask(lambda connection: tables.find_answers(connection, keys))

    def _put_budget(self, name: str, cap_micro: int | None) -> None:
        with self._reading:
            self._ask(lambda connection: tables.put_budget(connection, name, cap_micro))

    def _budget(self, name: str) -> tuple[int, int]:
        return self._ask(lambda connection: tables.read_budget(connection, name))

    def _counts(self) -> Mapping[str, int]:
        with self._reading:
            return self._ask(tables.count_all)

    def _prune(self, *, before: float, failed: bool) -> int:
        """Delete calls. The server's autovacuum makes their room usable again."""
        with self._reading:
            return self._ask(lambda connection: tables.prune(connection, before=before, failed=failed))

    def _ask(self, work: Callable[[Connection], _Found]) -> _Found:
        """Do one statement that may be done twice; a connection that was lost is made once again."""
        try:
            return work(self._reader)
        except psycopg.OperationalError:
            if not self._reader.closed:
                raise
        self._reader = connect(self._address)
        return work(self._reader)

    def _sign_off(self) -> tuple[int, int]:
        connection = self._database.connection
        with connection.transaction():
            tables.lock_budgets(connection)
            lost = tables.lose(connection, self._spool.owner)
            connection.execute("UPDATE jrh_journal.hits SET served = served + %s", (self._hits,))
        # In this order: an owner without a spool is settled, a spool without an owner would be replayed.
        self._spool.close(remove=True)
        connection.execute("DELETE FROM jrh_journal.owners WHERE owner = %s", (self._spool.owner,))
        return lost

    def _disconnect(self) -> None:
        self._reader.close()
        self._database.connection.close()

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except (psycopg.Error, OSError) as error:
            todo = "Check that the server runs and start again: what was paid is kept"
            raise JournalError(
                f"The journal {self.place} cannot be used: {self._address.explain(error)}. {todo}."
            ) from error
