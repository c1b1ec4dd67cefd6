"""Decisions of a review: events that are only ever added, the states they fold into, and the file that keeps them.

    accept    takes the text as it stands        edit      takes it with another text or label
    reject    leaves the item out                reopen    back to undecided, as it was generated
    undo      takes back one's own last event on the item, if it is the item's last one
    settle    ends a disagreement as one of the reviewers decided

An item's state is what its last event that was not undone left. What each reviewer decided last is kept apart, for
their agreement. Where reviewers disagree, an acceptance, edit or rejection may settle it too: a settled item takes no
further decision until somebody reopens it or settles it anew, and the settling decision is no reviewer's own.

On disk it is one SQLite file per review, durable on every click, open in several processes at once.
"""

from __future__ import annotations

import json
import sqlite3
import threading
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from jrh_mlflow.errors import SCHEMA_VERSION, ReviewError, check_schema_version

UNDECIDED = "undecided"
ACCEPTED = "accepted"
EDITED = "edited"
REJECTED = "rejected"
EXEMPT = "exempt"
"""Written by code and not looked at: it needs no decision, and may have one."""
STATES = (UNDECIDED, ACCEPTED, EDITED, REJECTED)
DECIDED = (ACCEPTED, EDITED, REJECTED)

FINISH = "finish"
"""The event of a reviewed suite being written; it belongs to no item."""
ASSIGN = "assign"
"""The event of items being assigned to reviewers; it belongs to no item."""
SETTLES = "settles"
"""The fact of an event that settles a disagreement."""
UNSETTLED = "unsettled"
SETTLED = "settled"
_DID = {
    "accept": "accepted",
    "edit": "edited",
    "reject": "rejected",
    "undo": "changed",
    "reopen": "reopened",
    "settle": "settled",
}
ACTIONS = tuple(_DID)


class ConflictError(ReviewError):
    """What was asked for does not fit how the review stands."""


class StaleError(ConflictError):
    """Somebody else changed what the decision is about since it was shown."""


@dataclass(frozen=True, kw_only=True, slots=True)
class State:
    """Where an item stands."""

    state: str = UNDECIDED
    text: str | None = None
    """The edited text; None is the generated one."""
    label: str | None = None
    """The edited label; None is the generated one."""
    message: int | None = None
    """Of a transcript: which message `text` replaces."""
    reason: str | None = None

    @property
    def changed(self) -> bool:
        """Whether text or label differ from what was generated."""
        return self.text is not None or self.label is not None


@dataclass(frozen=True, kw_only=True, slots=True)
class Event:
    """One click."""

    number: int
    """From 1, over all items; the version of an item is the number of its last event."""
    item: str
    """The item's key in the review; empty for events about the whole suite."""
    who: str
    when: str
    """UTC, ISO 8601."""
    action: str
    before: State
    after: State
    facts: Mapping[str, Any] = field(default_factory=dict)
    """Of a finish: path and hash of what was written; of an assignment: which items are whose."""

    @property
    def settles(self) -> bool:
        """Whether it settles a disagreement."""
        return bool(self.facts.get(SETTLES))


@dataclass(slots=True)
class Standing:
    """One item's events, folded."""

    stack: list[Event] = field(default_factory=list)
    """Events that were not undone."""
    own: dict[str, list[State]] = field(default_factory=dict)
    """By reviewer: what they decided and did not undo."""
    version: int = 0
    history: list[Event] = field(default_factory=list)

    @property
    def state(self) -> State:
        """Where the item stands now."""
        return self.stack[-1].after if self.stack else State()

    @property
    def by(self) -> Event | None:
        """The event that put it there."""
        return self.stack[-1] if self.stack else None

    def mine(self, who: str) -> State | None:
        """What one reviewer decided last, whatever others did since."""
        states = self.own.get(who)
        return states[-1] if states and states[-1].state in DECIDED else None

    @property
    def opinions(self) -> dict[str, State]:
        """By reviewer what each decided last, in the order in which they first did."""
        return {who: state for who in self.own if (state := self.mine(who)) is not None}

    @property
    def disputed(self) -> tuple[str, ...]:
        """What reviewers disagree on: `decision` (one keeps, another rejects), `label`, `text` of what they keep."""
        if len(self.own) < 2:
            return ()
        states = list(self.opinions.values())
        kept = [state for state in states if state.state != REJECTED]
        differs = {
            "decision": 0 < len(kept) < len(states),
            "label": len({state.label for state in kept}) > 1,
            "text": len({(state.text, state.message) for state in kept}) > 1,
        }
        return tuple(name for name, differ in differs.items() if differ)

    @property
    def settled(self) -> Event | None:
        """The decision that settled a disagreement, while it stands."""
        return self.by if self.by is not None and self.by.settles else None

    @property
    def disagreement(self) -> str | None:
        """`unsettled` or `settled`; None where nobody disagrees."""
        if self.settled is not None:
            return SETTLED
        return UNSETTLED if self.disputed else None

    def add(self, event: Event) -> None:
        """Fold one more event in."""
        own = self.own.get(event.who, [])
        if event.action == "undo":
            # Only one's own last event can be undone, and only while it is the item's last: it lies on top.
            undone = self.stack.pop()
            if own and not undone.settles:
                own.pop()
        else:
            self.stack.append(event)
            if not event.settles:
                self.own.setdefault(event.who, []).append(event.after)
        self.version = event.number
        self.history.append(event)


_UNTOUCHED = Standing()


class Standings:
    """All events so far. Derived: it can be thrown away and made again from the events."""

    def __init__(self) -> None:
        self.items: dict[str, Standing] = {}
        self.last = 0
        self.finished: Event | None = None
        """The last time a reviewed suite was written, if nothing was decided since."""
        self.assigned: Event | None = None
        """The last time items were assigned to reviewers."""

    def add(self, events: Iterable[Event]) -> None:
        """Fold more events in, in the order of their numbers."""
        for event in events:
            if event.action == FINISH:
                self.finished = event
            elif event.action == ASSIGN:
                self.assigned = event
            else:
                self.items.setdefault(event.item, Standing()).add(event)
                # A later decision makes the written suite out of date; an assignment does not.
                self.finished = None
            self.last = event.number

    def of(self, item: str) -> Standing:
        """Return where an item stands; undecided when nobody touched it."""
        return self.items.get(item, _UNTOUCHED)

    @property
    def reviewers(self) -> list[str]:
        """Names of all who decided something, sorted."""
        return sorted({event.who for standing in self.items.values() for event in standing.history})


@dataclass(frozen=True, kw_only=True, slots=True)
class Click:
    """What a reviewer asks for."""

    action: str
    who: str
    version: int
    """Of the item as the reviewer saw it."""
    text: str | None = None
    label: str | None = None
    reason: str | None = None
    settles: bool = False
    """Whether it is the final decision on what reviewers disagree on."""
    as_decided_by: str | None = None
    """Of a settlement: the reviewer whose decision stands."""

    @property
    def facts(self) -> dict[str, Any]:
        """What is kept of it besides the state that it leads to."""
        if not self.settles:
            return {}
        return {SETTLES: True, **({"as": self.as_decided_by} if self.as_decided_by else {})}


@dataclass(frozen=True, kw_only=True, slots=True)
class GeneratedPart:
    """What of an item a decision is measured against."""

    text: str | None
    """None where no text can be edited."""
    label: str | None
    labels: tuple[str, ...]
    message: int | None = None
    """Of a transcript: the message whose text it is."""


def decide(standing: Standing, click: Click, generated: GeneratedPart) -> State:
    """Return the state a click leads to.

    Raises:
        StaleError: when the item changed since the reviewer saw it.
        ReviewError: when the click makes no sense.
    """
    # Before anything else: a click on what was not shown means nothing.
    if click.version != standing.version:
        raise StaleError(_stale(standing))
    _check_settling(standing, click)
    now = standing.state
    if click.action == "accept":
        return replace(now, state=EDITED if now.changed else ACCEPTED, reason=click.reason)
    if click.action == "reject":
        if not (click.reason or "").strip():
            raise ReviewError("A rejection needs a reason: say in a few words what is wrong with the item.")
        return replace(now, state=REJECTED, reason=click.reason)
    if click.action == "reopen":
        if now == State():
            raise ReviewError("The item is undecided already: there is nothing to reopen.")
        return State(reason=click.reason)
    if click.action == "edit":
        return _edited(now, click, generated)
    if click.action == "undo":
        return _undone(standing, click.who)
    if click.action == "settle":
        return _as_decided(standing, click)
    raise ReviewError(f"Unknown action {click.action!r}. Known: {', '.join(ACTIONS)}.")


def _check_settling(standing: Standing, click: Click) -> None:
    """Refuse a decision on what was settled, and a settlement where nobody disagrees."""
    # Both lead out of a settlement, so they are allowed on one.
    if click.action in ("undo", "reopen"):
        return
    settled = standing.settled
    if click.settles or click.action == "settle":
        if not click.settles:
            raise ReviewError("To settle is the final decision on an item: say so with `settles`.")
        if settled is None and not standing.disputed:
            raise ReviewError("Reviewers do not disagree on this item: there is nothing to settle.")
    elif settled is not None:
        raise ReviewError(
            f"{settled.who} settled this item ({settled.when}). Reopen it first, or settle it as another decided."
        )


def _as_decided(standing: Standing, click: Click) -> State:
    opinion = standing.opinions.get(click.as_decided_by or "")
    if opinion is None:
        raise ReviewError(f"{click.as_decided_by!r} decided nothing here. Known: {', '.join(standing.opinions)}.")
    return opinion


def _edited(now: State, click: Click, generated: GeneratedPart) -> State:
    text, label, message = now.text, now.label, now.message
    if click.label is not None:
        if click.label not in generated.labels:
            raise ReviewError(f"Unknown label {click.label[:80]!r}. Known: {', '.join(generated.labels)}.")
        if generated.label is None:
            raise ReviewError("This item expects a direction, not a label: there is no label to edit.")
        # Back to what was generated is no edit: the item counts as accepted then.
        label = None if click.label == generated.label else click.label
    if click.text is not None:
        if generated.text is None:
            raise ReviewError("The item has no single text to edit: name the `message` of the transcript.")
        if not click.text.strip():
            raise ReviewError("The edited text is empty. Reject the item instead.")
        text = None if click.text == generated.text else click.text
        message = None if text is None else generated.message
    if (text, label, message) == (now.text, now.label, now.message):
        raise ReviewError("The edit changes neither text nor label. Accept the item instead.")
    after = State(text=text, label=label, message=message, reason=click.reason)
    return replace(after, state=EDITED if after.changed else ACCEPTED)


def _undone(standing: Standing, who: str) -> State:
    last = standing.by
    if last is None:
        raise ReviewError("There is nothing to undo on this item.")
    if last.who != who:
        raise ReviewError(f"The last decision on this item is {last.who}'s, not yours. Reopen it, or decide anew.")
    return standing.stack[-2].after if len(standing.stack) > 1 else State()


def _stale(standing: Standing) -> str:
    if not standing.history:
        return "This item is not the one that was shown. Load it again."
    last = standing.history[-1]
    return f"{last.who} {_DID[last.action]} this item meanwhile ({last.when}). Look at it again before you decide."


def plain_event(state: State) -> dict[str, Any]:
    """Return a state as JSON-ready data, without what is empty."""
    return {name: value for name, value in asdict(state).items() if value is not None}


APPLICATION_ID = 0x6A726872  # "jrhr"
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
            # Reading needs no lock on the file; writing does, and happens only when items arrive.
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
        texts = [json.dumps(part) for part in (plain_event(before), plain_event(after), dict(facts))]
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
    if application == APPLICATION_ID:
        check_schema_version(f"The review {path}", version, error=ReviewError)
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
