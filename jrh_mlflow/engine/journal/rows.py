"""One row of the journal: a call in one of four states, sealed with the sha256 of its content."""

from __future__ import annotations

import hashlib
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

_PIECE = 2047
"""Bytes hashed at once: for more, Python lets go of its lock, and the event loop waits until it has it back."""
SHORT_SEAL = 32
"""Digits of a row's sha256 where all of them take too much room: damage meets half of them no more often."""
RESERVED, ANSWERED, FAILED, LOST = "reserved", "answered", "failed", "lost"


UNREADABLE = "none of the first answers of its run could be read"
"""Reason on an answer that the next run asks for anew, once."""


class Reservation(IntEnum):
    """How an attempt to reserve a call ended; only a granted one is true."""

    GRANTED = 1
    NO_ROOM = 0
    """The cap does not cover its worst case."""
    IS_ANSWERED = -1
    """Somebody has answered it: read it from the journal."""
    IS_IN_FLIGHT = -2
    """Somebody else has reserved it, and lives or was not found dead yet: wait for the answer."""

    def __bool__(self) -> bool:
        # Not by its number: the two refusals below 0 would be true.
        return self is Reservation.GRANTED


class CallRow(NamedTuple):
    """A call, in the order of the table's columns after `id`."""

    key: str
    state: str
    request: str | bytes | None
    """Bytes are the name of its text, in the table of texts."""
    response: str | bytes | None
    """Bytes where it is compressed."""
    reason: str | None
    cost_micro: int
    """What the call cost; the worst case while it is reserved."""
    budget: str
    """Empty for calls without a budget."""
    owner: str
    """The journal object that wrote it, named as its spool file."""
    at: float
    sha256: str

    def is_intact(self) -> bool:
        """Whether the content is what was sealed."""
        return digest(self[:-1])[: max(SHORT_SEAL, len(self.sha256))] == self.sha256


class JournalledAnswer(NamedTuple):
    """An answer as it is served."""

    response: str
    at: float
    """When it came, in seconds since 1970."""
    is_unreadable: bool = False
    """Whether it was among the first answers of a run, and none of them could be read."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Recovery:
    """What opening a journal found of processes that had died."""

    replayed: int = 0
    """Answers and failures that had arrived but were not committed."""
    lost: int = 0
    lost_micro: int = 0


class Held(NamedTuple):
    """A reservation that waits to be settled."""

    id: int
    """0 for a call that was never reserved."""
    worst_micro: int
    budget: str


class SettledCall(NamedTuple):
    """What the books of a budget say of one attempt."""

    state: str
    response: str | None
    """What came back, an error's bill included."""
    reason: str | None
    """Why there is no answer."""
    cost_micro: int


def seal(
    *,
    key: str,
    state: str,
    cost_micro: int,
    budget: str,
    owner: str,
    request: str | bytes | None = None,
    response: str | None = None,
    reason: str | None = None,
) -> CallRow:
    """Make a row of now."""
    content = (key, state, request, response, reason, cost_micro, budget, owner, time.time())
    return CallRow(*content, digest(content))


def unserved(row: CallRow, reason: str, *, state: str = FAILED) -> CallRow:
    """Return what is recorded of an answer that another one stands for: paid, never served."""
    # Sealed anew, because state and reason are part of what is hashed.
    content = row._replace(state=state, reason=reason)[:-1]
    return CallRow(*content, digest(content))


def totals(amounts: Iterable[tuple[str, int]]) -> Counter[str]:
    """Add micro-dollars up by budget."""
    sums: Counter[str] = Counter()
    for budget, micro in amounts:
        sums[budget] += micro
    return sums


def digest(content: Iterable[object]) -> str:
    """Hash the columns of a row."""
    text = "\x1f".join([value if type(value) is str else _written(value) for value in content]).encode()
    hashed = hashlib.sha256(text[:_PIECE])
    for start in range(_PIECE, len(text), _PIECE):
        hashed.update(text[start : start + _PIECE])
    return hashed.hexdigest()


def _written(value: object) -> str:
    return "" if value is None else value.hex() if isinstance(value, bytes) else str(value)


def demand_micro(name: str, value: int) -> None:
    """Refuse what is no amount of money: micro-dollars are whole and not negative."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError(f"`{name}` must be a whole number of micro-dollars, 0 or more, but got {value!r}.")
