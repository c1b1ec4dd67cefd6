"""What comes of generating: replies, attempts, items, what was set aside, and what it used."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from jrh_mlflow.schema.items import Item

NOT_ASKED = "not asked"
"""The verdict of an item that no validator has seen."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Reply:
    """What a writer or a validator said to one question: a text, or the problem."""

    text: str | None = None
    """What was written, or the validator's answer."""
    problem: str | None = None
    """Why there is no text."""
    input_tokens: int | None = 0
    """None is unknown."""
    output_tokens: int | None = 0
    cost_usd: float | None = 0.0
    """None is unknown, never free."""
    cached: bool = False
    key: str | None = None
    """Of the answer in the journal."""
    called: bool = True
    """False where nothing was asked: by code, or because an earlier run knows that there is no text."""
    prompt_sha256: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Attempt:
    """One try at one text."""

    number: int
    """From 1."""
    temperature: float | None
    problems: tuple[str, ...]
    """Why the text was not taken; empty when it was."""
    verdict: str | None
    """The validator's answer, `not asked`, or None when it gave none."""
    rejected: bool = False
    """True when the validator's answer was not the expected one."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SetAside:
    """An item that was not made."""

    id: str
    test: str
    condition: str
    source: str
    reason: str
    attempts: tuple[Attempt, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the line of `set_aside.jsonl`."""
        row = asdict(self)
        for attempt in row["attempts"]:
            del attempt["rejected"]
        return row


@dataclass(kw_only=True, slots=True)
class Usage:
    """Calls, tokens and dollars of all models together; sums are of what is known."""

    calls: int = 0
    cached: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_micro: int = 0
    unknown_costs: int = 0
    """Calls whose cost is unknown: with any, `cost_usd` is a lower bound."""
    paid: set[str] = field(default_factory=set, repr=False)
    """Keys of the answers that are counted."""

    def add(self, call: Reply) -> None:
        """Count a call; one that was asked before in the same run has been paid and counted."""
        if not call.called:
            return
        self.calls += 1
        self.cached += call.cached
        if call.key is not None:
            if call.key in self.paid:
                return
            self.paid.add(call.key)
        self.input_tokens += call.input_tokens or 0
        self.output_tokens += call.output_tokens or 0
        self.cost_micro += round((call.cost_usd or 0.0) * 1_000_000)
        self.unknown_costs += call.cost_usd is None

    def plus(self, other: Usage) -> Usage:
        """Return what both used."""
        counts = [each.name for each in fields(self) if each.name != "paid"]
        return Usage(**{name: getattr(self, name) + getattr(other, name) for name in counts})

    @property
    def cost_usd(self) -> float | None:
        """Dollars of the calls whose cost is known, or None when none is that was not free."""
        return None if self.unknown_costs and not self.cost_micro else self.cost_micro / 1_000_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Counts:
    """What came of one test."""

    items: int = 0
    set_aside: int = 0
    attempts: int = 0
    """Of its texts, whether they were taken or not."""
    validator_rejected: int = 0
    verified: int | None = None
    """Of the items, those that the validator confirmed; None where it must, or where nobody has to."""
    unverified: int | None = None
    """Of the items, those that nobody confirmed."""
    unwrapped: int | None = None
    """Of the items, those whose text the writer had wrapped in something, which was taken off; None for none."""

    def to_dict(self) -> dict[str, int]:
        """Return the counts that there are."""
        counts = {each.name: getattr(self, each.name) for each in fields(self)}
        return {name: count for name, count in counts.items() if count is not None}


@dataclass(frozen=True, kw_only=True)
class Made:
    """What generation made of all its targets."""

    items: tuple[Item, ...]
    """Baselines and perturbed items: by seed, then by test, then by number."""
    set_aside: tuple[SetAside, ...]
    tests: dict[str, Counts]
    """By test, in the order they were asked for."""
    usage: Usage
    stopped: str | None = None
    """Why targets are missing (`budget`), or None."""
    unfinished: int = 0
    """Items that were neither made nor set aside because generation was stopped."""
    seconds: float = 0.0
    cpu_seconds: float | None = None
    """Of models on this machine; None when there is none."""
    notes: Sequence[str] = ()
    """What a reader of the suite should know first."""

    def total(self, name: str) -> int:
        """Sum one count over all tests."""
        return sum(getattr(counts, name) or 0 for counts in self.tests.values())
