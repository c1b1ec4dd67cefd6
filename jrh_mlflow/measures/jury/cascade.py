"""A cascade read from logged calls: a cheap judge first, a strong one when the cheap one is unsure.

| unsure | the cheap judge is unsure when | what a unit costs before it is escalated |
|---|---|---|
| `confidence` | its confidence is under a threshold, or it gave none | one call |
| `replicates` | its replicates of the item, in the same order, are not all the same answer | all replicates |
| `disagree` | two cheap judges answer differently; the first one's answer counts | one call of each |
| `abstain` | (nothing else) | one call |

It is also unsure, whatever the signal, when it abstained or gave no usable answer. The threshold of `confidence` is
chosen on one half of the sources and used on the other, and the other way round.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from jrh_mlflow.errors import RecipeError, check_known
from jrh_mlflow.measures.jury.panels import panel_accuracy
from jrh_mlflow.measures.jury.votes import MISSING, NOT_ASKED, VoteTable, halves
from jrh_mlflow.schema.estimates import NotEstimable, Reading
from jrh_mlflow.scoring.ledger import share
from jrh_mlflow.stats import Array, Codes, Mask

UNSURE = ("confidence", "replicates", "disagree", "abstain")
_MOST_THRESHOLDS = 100


@dataclass(frozen=True, kw_only=True, slots=True)
class Cascade:
    """What a cascade reads, beside its two ends on the same units."""

    cheap: tuple[str, ...]
    strong: str
    unsure: str
    thresholds: tuple[float, ...]
    """Of the two halves, each chosen on the other one; none for a signal without a threshold."""
    accuracy: Reading
    escalated: Reading
    """Share of the units that go on to the strong judge."""
    usd_per_1k: float | None
    cheap_accuracy: Reading
    cheap_usd_per_1k: float | None
    """Of the cheap judge's one call."""
    strong_accuracy: Reading
    strong_usd_per_1k: float | None


def cascade(
    table: VoteTable,
    cheap: str | Sequence[str],
    strong: str,
    *,
    unsure: str | None = None,
    max_usd: float | None = None,
    seed: int = 0,
) -> Cascade | NotEstimable:
    """Read what a cascade would have answered and cost.

    A unit whose strong answer is missing when it is needed is unusable. With `replicates`, only units that were asked
    twice or more count.

    Args:
        table: The votes.
        cheap: The judge that is asked first; two for `disagree`.
        strong: The judge that is asked when the first is unsure.
        unsure: The signal; when None the first of the table above for which there are records.
        max_usd: Dollars per 1,000 units: of the thresholds of `confidence` only those that cost less are candidates.
        seed: Of the halves.

    Raises:
        RecipeError: when a judge or signal is not known, or no threshold costs so little.
        CallsError: when there are too few sources to choose a threshold on one half.
    """
    first = (cheap,) if isinstance(cheap, str) else tuple(cheap)
    if len(first) not in (1, 2):
        raise RecipeError(f"A cascade is one or two cheap judges and a strong one, but got {[*first, strong]}.")
    table.columns((*first, strong))
    signal = _signal(table, first, unsure)
    rows = table.judged & _repeated(table) if signal == "replicates" else table.judged
    if signal == "confidence" and np.isnan(table.confidence[table.judged][:, table.columns(first)]).all():
        return NotEstimable(reason=f"{first[0]} logged no confidence; ask for it with logprobs, or use another signal")
    if not rows.any():
        what = "was asked each item once" if table.judged.any() else "has no units with an expected answer"
        return NotEstimable(reason=f"{first[0]} {what}: there is nothing to read a cascade from")
    part = table.where(rows)
    steps = _Steps.of(part, first, strong, signal)
    crossed = signal == "confidence"
    thresholds, escalates = _crossed(steps, max_usd=max_usd, seed=seed) if crossed else ((), steps.doubtful)
    every = np.ones(len(escalates), dtype=bool)
    return Cascade(
        cheap=first,
        strong=strong,
        unsure=signal,
        thresholds=thresholds,
        accuracy=panel_accuracy(part, steps.answers(escalates)),
        escalated=share(part.units("units with an expected answer", usable=every, left_out={}), escalates),
        usd_per_1k=steps.usd_per_1k(escalates),
        cheap_accuracy=panel_accuracy(part, steps.cheap),
        cheap_usd_per_1k=part.usd_per_1k(first[:1]),
        strong_accuracy=panel_accuracy(part, steps.strong),
        strong_usd_per_1k=part.usd_per_1k([strong]),
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class _Steps:
    """The units of a cascade: what either judge answered, and what it cost."""

    table: VoteTable
    cheap: Codes
    strong: Codes
    doubtful: Mask
    """Unsure whatever the threshold."""
    confidence: Array
    """NaN is unsure at every threshold."""
    cheap_usd: Array
    strong_usd: Array

    @classmethod
    def of(cls, table: VoteTable, first: tuple[str, ...], strong: str, signal: str) -> _Steps:
        own, last = table.columns(first), table.columns([strong])[0]
        cast = table.answer[:, own]
        doubtful = np.asarray(((cast == MISSING) | (cast == table.abstain)).any(axis=1))
        costs = np.column_stack([_costs(table, column) for column in own]).sum(axis=1)
        if signal == "disagree":
            doubtful |= cast[:, 0] != cast[:, 1]
        if signal == "replicates":
            doubtful |= _waver(table, cast[:, 0])
            # To see whether they agree all replicates must be asked, so each unit costs them all.
            costs = np.bincount(_groups(table), weights=costs)[_groups(table)]
        return cls(
            table=table,
            cheap=cast[:, 0],
            strong=table.answer[:, last],
            doubtful=doubtful,
            confidence=table.confidence[:, own[0]],
            cheap_usd=costs,
            strong_usd=_costs(table, int(last)),
        )

    def answers(self, escalates: Mask) -> Codes:
        return np.where(escalates, self.strong, self.cheap)

    def under(self, threshold: float) -> Mask:
        return np.asarray(self.doubtful | ~(self.confidence >= threshold))

    def usd_per_1k(self, escalates: Mask, among: Mask | None = None) -> float | None:
        spent = self.cheap_usd + np.where(escalates, self.strong_usd, 0.0)
        mean = float(spent.mean() if among is None else spent[among].mean())
        return None if math.isnan(mean) else 1000 * mean

    def right(self, escalates: Mask, among: Mask) -> float:
        answer = self.answers(escalates)[among]
        usable = answer != MISSING
        return float((answer == self.table.expected[among]).sum() / usable.sum()) if usable.any() else 0.0


def _signal(table: VoteTable, first: tuple[str, ...], unsure: str | None) -> str:
    if unsure is None:
        if len(first) == 2:
            return "disagree"
        column = table.columns(first)[0]
        if not np.isnan(table.confidence[table.judged, column]).all():
            return "confidence"
        return "replicates" if (table.judged & _repeated(table)).any() else "abstain"
    check_known("signal", unsure, UNSURE)
    wanted = 2 if unsure == "disagree" else 1
    if len(first) != wanted:
        raise RecipeError(f"The signal {unsure!r} needs {wanted} cheap judge(s), but got {list(first)}.")
    return unsure


def _crossed(steps: _Steps, *, max_usd: float | None, seed: int) -> tuple[tuple[float, ...], Mask]:
    """Choose the threshold of each half on the other one."""
    first, second = halves(steps.table, seed=seed)
    escalates = np.zeros(len(first), dtype=bool)
    thresholds = []
    for learnt, used in ((second, first), (first, second)):
        threshold = _best_threshold(steps, learnt, max_usd=max_usd)
        thresholds.append(threshold)
        escalates[used] = steps.under(threshold)[used]
    return tuple(thresholds), escalates


def _best_threshold(steps: _Steps, learnt: Mask, *, max_usd: float | None) -> float:
    """Return the most accurate threshold that costs at most `max_usd`; of equals the one that escalates least."""
    values = np.unique(steps.confidence[learnt & ~np.isnan(steps.confidence)])
    if not len(values):
        # The cheap judge gave no confidence here: every unit is escalated at any threshold.
        return 0.0
    if len(values) > _MOST_THRESHOLDS:
        values = np.unique(np.quantile(values, np.linspace(0, 1, _MOST_THRESHOLDS), method="nearest"))
    best: tuple[float, float] | None = None
    # The value after the largest one escalates everything.
    for threshold in (*values.tolist(), float(np.nextafter(values[-1], np.inf))):
        escalates = steps.under(threshold)
        price = steps.usd_per_1k(escalates, learnt)
        if max_usd is not None and (price is None or price > max_usd):
            continue
        right = steps.right(escalates, learnt)
        if best is None or right > best[0]:
            best = right, threshold
    if best is None:
        least = steps.usd_per_1k(steps.under(float(values[0])), learnt)
        cost = "of unknown price" if least is None else f"${least:.4g}"
        raise RecipeError(f"No threshold costs at most ${max_usd:g} per 1,000 judgments: the cheapest is {cost}.")
    return best[1]


def _costs(table: VoteTable, column: int) -> Array:
    """Dollars of each call; one that was not asked counts as the mean of those that were."""
    costs, asked = table.cost_usd[:, column], np.asarray(table.outcome[:, column] != NOT_ASKED)
    return np.where(asked, costs, costs[asked].mean() if asked.any() else np.nan)


def _groups(table: VoteTable) -> Codes:
    """Code of item and order: the replicates of one have the same."""
    names = np.array([f"{item}#{order}" for item, order in zip(table.item, table.order, strict=True)], dtype=object)
    return np.unique(names, return_inverse=True)[1].astype(np.intp)


def _repeated(table: VoteTable) -> Mask:
    groups = _groups(table)
    return np.asarray(np.bincount(groups)[groups] > 1)


def _waver(table: VoteTable, answer: Codes) -> Mask:
    """Units among whose replicates there are two answers."""
    groups = _groups(table)
    different = np.unique(np.column_stack([groups, answer]), axis=0)[:, 0]
    return np.asarray(np.bincount(different)[groups] > 1)
