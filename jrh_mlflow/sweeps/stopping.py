"""When to stop a trial: as soon as it is dominated with confidence, looked at after every item.

Items are asked in random order. After n of them the composite that the whole suite would give is at most

    U = sum over cells of weight × upper end of `suite_bounds(hits, n, size)` at alpha / cells,

whenever one looks (a confidence sequence), so a trial is dropped wrongly with a chance of at most alpha. Wrongly means:
the whole suite would have put it at or above the rival. Decisions without a usable answer count as hits in U.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from jrh_mlflow.measures.composite import Vote, cast_vote, cell_weights, decision_of, pair_cell, pair_hit
from jrh_mlflow.perturb import counted_once, expectation_of, score_name
from jrh_mlflow.schema.items import BASELINE, CallRecord, Item
from jrh_mlflow.scoring.pointwise import plain_label
from jrh_mlflow.stats.proportions import suite_bounds
from jrh_mlflow.sweeps.space import Policy

ALPHA = 0.05
DOMINATED = "dominated"
"""How the reason of a stop begins."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Rival:
    """A configuration that was measured in full on the same items."""

    label: str
    value: float
    usd_per_1k: float


@dataclass(kw_only=True)
class DominatedStop:
    """A stop rule of one trial."""

    items: Sequence[Item]
    """In the order in which they are asked."""
    policy: Policy
    rivals: Sequence[Rival]
    alpha: float = ALPHA
    upper: float = 1.0
    """The smallest bound so far."""
    n_items: int = 0
    """Items decided so far, without a gap in their order."""
    _votes: dict[str, list[Vote]] = field(default_factory=dict)
    _hits: Counter[str] = field(default_factory=Counter)
    _seen: Counter[str] = field(default_factory=Counter)
    _usd: float = 0.0
    _calls: int = 0
    _priced: bool = True

    def __post_init__(self) -> None:
        pair = any(item.kind == "pair" for item in self.items)
        cells = [_cell(item) for item in self.items]
        named = sorted({cell for cell in cells if cell is not None and (pair or cell != BASELINE)}) or [BASELINE]
        named = named if pair else counted_once(named)
        self._sizes = {name: cells.count(name) for name in named}
        self._weights = dict(zip(named, cell_weights(named), strict=True))
        self._untracked = {cell for item, cell in zip(self.items, cells, strict=True) if cell and not _tracked(item)}
        self._per_judgment = self.policy.calls_per_judgment(pair=pair)

    def __call__(self, record: CallRecord) -> str | None:
        """Take a record in; say why the trial should end, or None."""
        vote = cast_vote(order=record.order, outcome=record.outcome, answer=record.answer)
        self._votes.setdefault(record.suite_item, []).append(vote)
        self._calls += 1
        self._priced &= record.cost_usd is not None
        self._usd += record.cost_usd or 0.0
        # The bound moves only when an item is decided; most records are the first of several about theirs.
        return self._verdict() if self._advance() else None

    @property
    def usd_per_1k(self) -> float:
        """Dollars of 1,000 judgments, from the mean so far."""
        return 1000 * self._per_judgment * self._usd / self._calls

    def _advance(self) -> bool:
        """Decide the items that are complete, in their order: later ones wait, or quick answers would lead."""
        before = self.n_items
        while self.n_items < len(self.items):
            item = self.items[self.n_items]
            votes = self._votes.get(item.id, [])
            if len(votes) < len(item.orders) * self.policy.replicates * item.replicates:
                break
            self._count(item, self._votes.pop(item.id))
            self.n_items += 1
        return self.n_items > before

    def _count(self, item: Item, votes: list[Vote]) -> None:
        cell = _cell(item)
        if cell not in self._sizes or cell in self._untracked:
            return
        pair = item.kind == "pair"
        made = decision_of(votes, item=item.id, vote=self.policy.vote, orders=self.policy.orders, pair=pair)
        if not made.value:
            # No usable answer speaks for the trial: the bound must hold whatever the answer would have been.
            hit = True
        elif pair:
            hit = pair_hit(cell, made.value, item.better or "")
        else:
            hit = plain_label(made.value) == plain_label(item.expected or "")
        self._hits[cell] += hit
        self._seen[cell] += 1

    def _bound(self) -> float:
        # Cells whose score needs several items together are taken at their best: the bound only gets wider.
        tracked = [cell for cell in self._sizes if cell not in self._untracked]
        total = sum(self._weights[cell] for cell in self._untracked if cell in self._weights)
        for cell in tracked:
            # Bonferroni over the cells: their bounds must hold together for the sum to be one.
            share = self.alpha / len(tracked)
            _, high = suite_bounds(self._hits[cell], self._seen[cell], self._sizes[cell], alpha=share)
            total += self._weights[cell] * high
        return float(total)

    def _verdict(self) -> str | None:
        # The bounds hold at all moments together, so the smallest of them does.
        self.upper = min(self.upper, self._bound())
        # Without a price nobody knows that it is not the cheapest.
        if not self._priced:
            return None
        for rival in self.rivals:
            if dominated_with_confidence(self.upper, self.usd_per_1k, [(rival.value, rival.usd_per_1k)]):
                return (
                    f"{DOMINATED}: reliability at most {self.upper:.3f} at ${self.usd_per_1k:.4g} per 1,000, while "
                    f"{rival.label} has {rival.value:.3f} at ${rival.usd_per_1k:.4g}"
                )
        return None


def _cell(item: Item) -> str | None:
    if item.kind == "pair":
        return pair_cell(item.condition, item.delta)
    # A label that is no ground truth scores nobody.
    scored = not item.label_source or not expectation_of(item.condition).item_by_item
    return score_name(item.condition) if scored else None


def _tracked(item: Item) -> bool:
    """Whether the score of an item is known from that item alone."""
    if item.kind == "pair" or item.replicates > 1:
        return item.replicates == 1
    return expectation_of(item.condition).item_by_item and bool(item.expected)


def dominated_with_confidence(upper: float, cost: float, front: Sequence[tuple[float, float]]) -> bool:
    """Whether some member of `front` costs at most `cost` and is worth more than `upper` at its worst.

    Each member is (lower end of its value, or the value when it is exact; cost). `upper` is the upper end of the
    candidate's value. When both ends hold with a chance of 1 - alpha / 2 at all moments, as those of `suite_bounds` do,
    the candidate is dropped wrongly by this member with a chance of at most alpha.

    Returns:
        False for an empty front, and when the ends touch: what may be equal is not dominated.

    Example:
        >>> dominated_with_confidence(0.7, 2.0, [(0.75, 1.5), (0.9, 5.0)])
        True
        >>> dominated_with_confidence(0.7, 1.0, [(0.75, 1.5), (0.9, 5.0)])
        False
    """
    if any(math.isnan(number) for number in (upper, cost, *(number for member in front for number in member))):
        raise ValueError(f"Values and costs must be numbers, but got {upper=}, {cost=}, front {list(front)}.")
    return any(price <= cost and lower > upper for lower, price in front)
