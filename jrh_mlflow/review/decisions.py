"""Decisions on disk: one SQLite file per review, durable on every click, open in several processes at once."""

from __future__ import annotations

import json
import sqlite3
import threading
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from jrh_mlflow.errors import ReviewError
from jrh_mlflow.review.states import ASSIGN, FINISH, Click, Event, GeneratedPart, Standings, State, decide, plain

APPLICATION_ID = 0x6A726872  # "jrhr"
SCHEMA_VERSION = 1
_BUSY_SECONDS = 30.0

_TABLES = (
    """CREATE TABLE IF NOT EXISTS events (
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        item TEXT NOT NULL, who TEXT NOT NULL, at TEXT NOT NULL, action TEXT NOT NULL,
        before TEXT NOT NULL, after TEXT NOT NULL, facts TEXT NOT NULL)""",
    "CREATE TABLE IF NOT EXISTS places (place INTEGER PRIMARY KEY, item TEXT NOT NULL UNIQUE)",
    """CREATE TRIGGER IF NOT EXISTS events_stay BEFORE UPDATE ON events
        BEGIN SELECT RAISE(ABORT, 'decisions are never changed'); END""",
    """CREATE TRIGGER IF NOT EXISTS events_remain BEFORE DELETE ON events
        BEGIN SELECT RAISE(ABORT, 'decisions are never deleted'); END""",
    f"PRAGMA application_id = {APPLICATION_ID}",
    f"PRAGMA user_version = {SCHEMA_VERSION}",
)


class Decisions:
    """The decisions of one review. Nothing is kept in memory that another process could not add to."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.RLock()
        self._standings = Standings()
        self._appended: list[Event] = []
        self._places: dict[str, int] = {}
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._connection = sqlite3.connect(
                path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False
            )
            # Catalogs keep reviews without closing them; Python warns about connections that are left open.
            weakref.finalize(self, self._connection.close)
            _prepare(self._connection, path)
        except (sqlite3.Error, OSError) as error:
            raise ReviewError(f"The decisions in {path} cannot be opened: {error}.") from error

    def close(self) -> None:
        """Close the file; everything decided is in it already."""
        with self._lock:
            self._connection.close()

    @contextmanager
    def current(self) -> Iterator[Standings]:
        """Give all events so far, other processes' included; nothing is added to them inside the block."""
        with self._lock:
            self._standings.add(self.events(since=self._standings.last))
            yield self._standings

    def events(self, *, since: int = 0, limit: int = -1) -> list[Event]:
        """Return events after a number, in order; all of them when the limit is below 0."""
        with self._lock:
            rows = self._connection.execute(
                "SELECT * FROM events WHERE number > ? ORDER BY number LIMIT ?", (since, limit)
            )
            return [_event(row) for row in rows]

    def decide(self, item: str, click: Click, generated: GeneratedPart) -> Event:
        """Append one decision and return it once it is on the disk.

        Raises:
            StaleError: when somebody else decided since the item was shown; nothing is written.
            ReviewError: when the decision makes no sense; nothing is written.
        """
        return self.decide_all([(item, click, generated)])[0]

    def decide_all(self, clicks: Sequence[tuple[str, Click, GeneratedPart]]) -> list[Event]:
        """Append several decisions together, or none of them."""
        events = []
        with self._writing():
            for item, click, generated in clicks:
                standing = self._standings.of(item)
                after = decide(standing, click, generated)
                events.append(self._append(item, click.who, click.action, standing.state, after, click.facts))
        return events

    def finish(self, who: str, facts: Mapping[str, Any], *, last: int) -> Event:
        """Append that the reviewed suite was written from the events up to `last`."""
        with self._writing():
            return self._append("", who, FINISH, State(), State(), {**facts, "events": last})

    def assign(self, who: str, facts: Mapping[str, Any]) -> Event:
        """Append which items are whose; what was assigned before counts no more."""
        with self._writing():
            return self._append("", who, ASSIGN, State(), State(), facts)

    def places(self, items: Sequence[str]) -> dict[str, int]:
        """Return a number for each item that stays the same for as long as the review lasts, in order of arrival."""
        with self._lock:
            if any(item not in self._places for item in items):
                with self._writing():
                    known = [(item,) for item in items]
                    self._connection.executemany("INSERT OR IGNORE INTO places (item) VALUES (?)", known)
                self._places = {
                    item: place - 1 for place, item in self._connection.execute("SELECT place, item FROM places")
                }
            return self._places

    def _append(self, item: str, who: str, action: str, before: State, after: State, facts: Mapping[str, Any]) -> Event:
        when = datetime.now(timezone.utc).isoformat(timespec="milliseconds")
        texts = [json.dumps(part) for part in (plain(before), plain(after), dict(facts))]
        row = (item, who, when, action, *texts)
        number = self._connection.execute(
            "INSERT INTO events (item, who, at, action, before, after, facts) VALUES (?, ?, ?, ?, ?, ?, ?)", row
        ).lastrowid
        event = _event((number, *row))
        self._appended.append(event)
        return event

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Hold the file alone; on leaving, what was appended is on the disk, or nothing of it."""
        with self._lock:
            try:
                # The lock before the reading: what is decided here must be decided on all that others have written.
                self._connection.execute("BEGIN IMMEDIATE")
                self._standings.add(self.events(since=self._standings.last))
                yield
                self._connection.execute("COMMIT")
                # Only now: what was rolled back must not stand in memory.
                self._standings.add(self._appended)
            except BaseException as error:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                if isinstance(error, sqlite3.Error):
                    raise ReviewError(f"The decision was not saved: {error} ({self.path.name}). Try again.") from error
                raise
            finally:
                self._appended = []


def _prepare(connection: sqlite3.Connection, path: Path) -> None:
    """Refuse a file that is no review of ours; make the tables of a new one."""
    connection.execute("BEGIN")  # one view of the file, whatever another process is making of it
    (n_tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    connection.execute("COMMIT")
    if application != APPLICATION_ID and n_tables:
        raise ReviewError(f"{path} is a database, but holds no review. Move it away.")
    if application == APPLICATION_ID and version != SCHEMA_VERSION:
        raise ReviewError(f"The review {path} has schema version {version}, this package reads {SCHEMA_VERSION}.")
    (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
    if mode != "wal":
        raise ReviewError(f"SQLite does not grant {path} a write-ahead log ({mode=}). Use a local disk.")
    # In WAL mode only FULL waits for the disk with every commit, and a click that was answered must survive.
    connection.execute("PRAGMA synchronous = FULL")
    if not n_tables:
        for statement in ("BEGIN IMMEDIATE", *_TABLES, "COMMIT"):
            connection.execute(statement)


def _event(row: Sequence[Any]) -> Event:
    *about, before, after, facts = row
    named = dict(zip(("number", "item", "who", "when", "action"), about, strict=True))
    was, became = (State(**json.loads(text)) for text in (before, after))
    return Event(**named, before=was, after=became, facts=json.loads(facts))
