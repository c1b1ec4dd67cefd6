"""The journal contract: what the engine relies on, whichever database keeps it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing_extensions import Self


@dataclass(frozen=True, kw_only=True, slots=True)
class Summary:
    """What a journal holds."""

    answered: int
    failed: int
    in_flight: int
    """Reserved and not settled yet, by any process that lives."""
    lost: int
    """In flight when their process died: perhaps paid, never answered, counted as spent at the worst case."""
    damaged: int
    """Rows this process asked for and found damaged."""
    size_bytes: int
    hits: int
    """Answers served instead of being paid again, by every process that has closed the journal, and by this one."""
    spent_micro: int
    """Micro-dollars of all budgets and of the calls without one."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Recovery:
    """What opening a journal found of processes that had died."""

    replayed: int = 0
    """Answers and failures that had arrived but were not committed."""
    lost: int = 0
    lost_micro: int = 0


class Journal(ABC):
    """Answers by key, and the money they cost in integer micro-dollars.

    A call is reserved, sent, and then settled exactly once: `answered`, `failed` or `release`, through the journal
    object that reserved it. Methods may be used from several threads and event loops, and several processes may
    share one journal; each process opens its own.
    """

    recovery: Recovery
    place: str
    """Where it is, as it may be printed: a path, or an address without its password."""
    id: str
    """Tells it from every other journal, whatever address leads to it: the id that a server keeps, or host and file."""

    @abstractmethod
    def get_many(self, keys: Sequence[str]) -> dict[str, str]:
        """Return the responses of those calls that are answered. Failures, reservations and damaged rows are not."""

    def get(self, key: str) -> str | None:
        """Return the response of an answered call, or None."""
        return self.get_many([key]).get(key)

    @abstractmethod
    def holds(self, keys: Sequence[str]) -> set[str]:
        """Return which of these calls are answered, without serving them: for a quote or an export."""

    @abstractmethod
    async def reserve(self, key: str, *, budget: str | None, worst_micro: int) -> bool:
        """Set the worst case of a call aside before it is sent, durably.

        Args:
            key: Identifies the call, replicate included.
            budget: A budget opened with `open_budget`; None for no cap.
            worst_micro: What the call costs at most.

        Returns:
            False, and nothing is set aside, when spent + reserved + worst would exceed the cap.
        """

    @abstractmethod
    async def answered(
        self, key: str, *, request_json: str, response_json: str, cost_micro: int | None, budget: str | None
    ) -> None:
        """Keep an answer and settle its reservation; returns when it is durable.

        A cost of None is unknown and settles at the worst case that was reserved. When another process has answered
        the key first, its answer stays and this one is recorded as a failure, with its cost.
        """

    @abstractmethod
    async def failed(
        self,
        key: str,
        *,
        request_json: str,
        reason: str,
        response_json: str | None,
        cost_micro: int,
        budget: str | None,
    ) -> None:
        """Record a call that gave no usable answer and settle its reservation. It is never served."""

    @abstractmethod
    async def release(self, key: str, *, budget: str | None) -> None:
        """Give back a reservation whose call was never sent."""

    @abstractmethod
    def open_budget(self, name: str, cap_micro: int | None) -> None:
        """Make a budget usable. What it has spent is kept, a changed cap replaces the old one."""

    @abstractmethod
    def spent_micro(self, name: str) -> int:
        """Return what a budget has spent."""

    @abstractmethod
    def reserved_micro(self, name: str) -> int:
        """Return what the calls in flight of a budget may cost at most."""

    @abstractmethod
    def settle_dead(self) -> None:
        """Settle what processes left behind that have died since the journal was opened."""

    @abstractmethod
    def summary(self) -> Summary:
        """Count what the journal holds."""

    @abstractmethod
    def prune(self, *, older_than_days: float | None, failed: bool) -> int:
        """Delete settled calls and return how many. What was spent stays counted.

        Args:
            older_than_days: Only calls settled longer ago than this; None for any age.
            failed: Only failed and lost calls.
        """

    @abstractmethod
    def close(self) -> None:
        """Write what waits and let go of the journal. Calls still in flight count as lost."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
