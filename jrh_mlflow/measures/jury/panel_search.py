"""The best panel of a given size, never reported on the data it was chosen on.

The best of many panels looks better than it is: its luck was part of why it was chosen. So the sources are split in
two halves at random; the panel chosen on one half is reported on the other, and the other way round. The difference
between the accuracy where a panel was chosen and where it was not is the optimism.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from jrh_mlflow.errors import RecipeError
from jrh_mlflow.measures.jury.panels import PanelAnswers, Rule, panel_accuracy, panel_answer, vote_weights
from jrh_mlflow.measures.jury.votes import MISSING, VoteTable, halves
from jrh_mlflow.schema.estimates import Estimate, NotEstimable, Reading

MOST_PANELS = 2000
"""Up to here every panel is tried; past it judges are added one by one."""

Panel = tuple[str, ...]
Score = Callable[[Panel], float]


@dataclass(frozen=True, kw_only=True, slots=True)
class PanelPoint:
    """A panel of the search, on all units."""

    panel: Panel
    accuracy: float
    """In sample: fine for one panel, too good for the best of many."""
    usd_per_1k: float | None

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON-ready data."""
        return {"panel": list(self.panel), "accuracy": self.accuracy, "usd_per_1k": self.usd_per_1k}


@dataclass(frozen=True, kw_only=True, slots=True)
class HalfChoice:
    """The panel chosen on one half of the sources."""

    panel: Panel
    in_sample: float
    """Accuracy on the half it was chosen on."""
    out_of_sample: Reading
    """Accuracy on the other half."""
    usd_per_1k: float | None

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON-ready data."""
        return {
            "panel": list(self.panel),
            "in_sample": self.in_sample,
            "out_of_sample": self.out_of_sample.to_dict(),
            "usd_per_1k": self.usd_per_1k,
        }


@dataclass(frozen=True, kw_only=True, slots=True)
class BestPanel:
    """What choosing the best panel of a size is worth."""

    size: int
    max_usd: float | None
    search: str
    """`exhaustive` or `greedy`."""
    n_panels: int
    """Panels that were tried on all units."""
    panel: Panel
    """Chosen on all units: the one to use. Its accuracy is `accuracy`, not that of its point."""
    usd_per_1k: float | None
    accuracy: Reading
    """Cross-fitted: every unit answered by the panel chosen on the half that it is not in."""
    in_sample: float
    """Every unit answered by the panel chosen on its own half."""
    halves: tuple[HalfChoice, HalfChoice]
    points: tuple[PanelPoint, ...]
    notes: tuple[str, ...]

    @property
    def optimism(self) -> float | None:
        """How much better the chosen panel looks where it was chosen."""
        return self.in_sample - self.accuracy.value if isinstance(self.accuracy, Estimate) else None

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON-ready data."""
        return {
            "size": self.size,
            "max_usd": self.max_usd,
            "search": self.search,
            "n_panels": self.n_panels,
            "panel": list(self.panel),
            "usd_per_1k": self.usd_per_1k,
            "accuracy": self.accuracy.to_dict(),
            "in_sample": self.in_sample,
            "optimism": self.optimism,
            "halves": [one.to_dict() for one in self.halves],
            "points": [one.to_dict() for one in self.points],
            "notes": list(self.notes),
        }


def best_panel(
    table: VoteTable,
    size: int,
    *,
    max_usd: float | None = None,
    rule: Rule | None = None,
    seed: int = 0,
    most_panels: int = MOST_PANELS,
) -> BestPanel | NotEstimable:
    """Choose the best panel of `size` judges on one half of the sources, report it on the other, and swap.

    Best is the highest accuracy; of equals the cheaper, then the one named first. Panels that leave too many units
    without an answer are no candidates. All panels are tried up to `most_panels`; with more, judges are added one by
    one, each time the one that helps most.

    Args:
        table: The votes.
        size: Judges of a panel.
        max_usd: Dollars per 1,000 units that a panel may cost, the sum over its members. Judges whose price is not
            known are then left out: unknown is never free.
        rule: How a panel votes; majority when None.
        seed: Of the halves.
        most_panels: Where the exhaustive search ends.

    Raises:
        RecipeError: when there are too few judges, or no panel costs so little.
        CallsError: when there are too few sources to split.
    """
    rule = rule or Rule()
    rule.check(table)
    judged = table.where(table.judged)
    search = _Search(table=table, size=size, max_usd=max_usd, most_panels=most_panels)
    sides = halves(judged, seed=seed)
    parts = [judged.where(side) for side in sides]
    chosen = [search.best(search.scored(_scorer(part, rule))) for part in parts]
    scores = search.scored(_scorer(judged, rule))
    overall = search.best(scores)
    if overall is None or chosen[0] is None or chosen[1] is None:
        reason = f"every panel of {size} leaves more than {100 * table.max_excluded:g}% of the units without an answer"
        return NotEstimable(reason=reason, withheld=True)
    own = np.full(len(judged.item), MISSING, dtype=np.intp)
    crossed = own.copy()
    found = []
    for panel, here, there in ((chosen[0], 0, 1), (chosen[1], 1, 0)):
        inside, outside = panel_answer(parts[here], panel, rule), _transferred(parts[here], parts[there], panel, rule)
        own[sides[here]], crossed[sides[there]] = inside.answer, outside.answer
        found.append(
            HalfChoice(
                panel=panel,
                in_sample=_accuracy(parts[here], inside),
                out_of_sample=panel_accuracy(parts[there], outside.answer),
                usd_per_1k=table.usd_per_1k(panel),
            )
        )
    return BestPanel(
        size=size,
        max_usd=max_usd,
        search="exhaustive" if search.exhaustive else "greedy",
        n_panels=len(scores),
        panel=overall,
        usd_per_1k=table.usd_per_1k(overall),
        accuracy=panel_accuracy(judged, crossed),
        in_sample=_accuracy(judged, PanelAnswers(answer=own, split=np.zeros(len(own), dtype=bool))),
        halves=(found[0], found[1]),
        points=search.points(scores),
        notes=search.notes,
    )


class _Search:
    """The panels that may be chosen, and how they are gone through."""

    def __init__(self, *, table: VoteTable, size: int, max_usd: float | None, most_panels: int) -> None:
        self.size, self.max_usd = size, max_usd
        self.prices = {name: table.usd_per_1k([name]) for name in table.judges}
        self.judges = [name for name in table.judges if max_usd is None or self.prices[name] is not None]
        self.unpriced = [name for name in table.judges if name not in self.judges]
        self._check()
        self.exhaustive = math.comb(len(self.judges), size) <= most_panels

    @property
    def notes(self) -> tuple[str, ...]:
        found = [f"Left out, price unknown: {', '.join(self.unpriced)}."] if self.unpriced else []
        if not self.exhaustive:
            n_panels = math.comb(len(self.judges), self.size)
            found.append(f"There are {n_panels} panels: judges were added one by one, not every panel was tried.")
        return tuple(found)

    def scored(self, score: Score) -> dict[Panel, float]:
        """Return the panels that were tried and have a score."""
        panels: Iterator[Panel] = self._affordable() if self.exhaustive else iter([self._grown(score)])
        scores = {panel: score(panel) for panel in panels}
        return {panel: value for panel, value in scores.items() if not math.isnan(value)}

    def best(self, scores: Mapping[Panel, float]) -> Panel | None:
        """Return the panel with the highest score, or None when none has one."""
        return min(scores, key=lambda panel: self._rank(panel, scores[panel])) if scores else None

    def points(self, scores: Mapping[Panel, float]) -> tuple[PanelPoint, ...]:
        """Return the panels with their prices."""
        return tuple(
            PanelPoint(panel=panel, accuracy=value, usd_per_1k=self._price(panel)) for panel, value in scores.items()
        )

    def _check(self) -> None:
        check_limit(self.max_usd)
        n_judges = len(self.prices)
        if not 1 <= self.size <= n_judges:
            raise RecipeError(f"A panel of {self.size} cannot be chosen from {n_judges} judges: give 1 to {n_judges}.")
        if self.max_usd is None:
            return
        if self.size > len(self.judges):
            raise RecipeError(
                f"No panel of {self.size} can be held under ${self.max_usd:g}: the price of {len(self.unpriced)} of "
                f"{n_judges} judges is unknown ({', '.join(self.unpriced)}). Leave the limit out, or measure them with "
                "a price."
            )
        cheapest = sum(sorted(self.prices[name] or 0.0 for name in self.judges)[: self.size])
        if cheapest > self.max_usd:
            raise RecipeError(
                f"No panel of {self.size} costs at most ${self.max_usd:g} per 1,000 judgments: the cheapest costs "
                f"${cheapest:.4g}."
            )

    def _price(self, panel: Sequence[str]) -> float | None:
        known = [price for name in panel if (price := self.prices[name]) is not None]
        return sum(known) if len(known) == len(panel) else None

    def _rank(self, panel: Panel, value: float) -> tuple[float, float]:
        price = self._price(panel)
        return -value, math.inf if price is None else price

    def _fits(self, panel: Sequence[str]) -> bool:
        """Whether a panel, filled up with the cheapest others, stays under the limit."""
        if self.max_usd is None:
            return True
        others = sorted(self.prices[name] or 0.0 for name in self.judges if name not in panel)
        price = self._price(panel) or 0.0
        return price + sum(others[: self.size - len(panel)]) <= self.max_usd * (1 + 1e-12)

    def _affordable(self) -> Iterator[Panel]:
        return (panel for panel in combinations(self.judges, self.size) if self._fits(panel))

    def _grown(self, score: Score) -> Panel:
        panel: Panel = ()
        while len(panel) < self.size:
            wider = [(*panel, name) for name in self.judges if name not in panel and self._fits((*panel, name))]
            values = {one: score(one) for one in wider}
            panel = min(values, key=lambda one: (math.isnan(values[one]), *self._rank(one, values[one])))
        return tuple(sorted(panel, key=self.judges.index))


def check_limit(max_usd: float | None) -> None:
    """Refuse a limit that no panel can keep, or that is none."""
    if max_usd is not None and not 0 < max_usd < math.inf:
        raise RecipeError(f"A limit is an amount of more than $0 per 1,000 judgments, but got {max_usd:g}.")


def _scorer(part: VoteTable, rule: Rule) -> Score:
    return lambda panel: _accuracy(part, panel_answer(part, panel, rule))


def _accuracy(part: VoteTable, given: PanelAnswers) -> float:
    """Share of right answers; NaN when too many units have none."""
    usable = given.answer != MISSING
    if not usable.any() or (~usable).sum() / len(usable) > part.max_excluded:
        return math.nan
    return float((given.answer == part.expected).sum() / usable.sum())


def _transferred(learnt: VoteTable, used: VoteTable, panel: Panel, rule: Rule) -> PanelAnswers:
    """Let a panel vote on one half with all that it takes from the other."""
    weights = vote_weights(learnt, panel) if rule.vote == "weighted" else None
    return panel_answer(used, panel, rule, weights=weights)
