"""What a judge's scores vary with: the shares of task, wording, order and repeat, and what asking again would do.

| calls | score of a call | less the mean of | wording |
|---|---|---|---|
| pairs with a better content | 1 better, 1/2 tie or abstention, 0 worse | their step | another pair of the task |
| single responses of known level | the answer from 0 to 1 | their level | another content of the task |
| reliability tests with an expected answer | 1 right, 0 wrong | their test | another test or rubric of the source |

The formulas are in `stats.variance`. Replicates that test nothing but replicates count as asks of the baseline.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from jrh_mlflow.measures.axes import VARIANCE, better_or_half
from jrh_mlflow.measures.datasheet import response_units
from jrh_mlflow.measures.records import CallTable
from jrh_mlflow.measures.single_responses import ResponseTable
from jrh_mlflow.schema.estimates import Estimate, NotEstimable, Reading, intervals
from jrh_mlflow.schema.items import BASELINE, SINGLE_LADDERS
from jrh_mlflow.scoring.ledger import Units, interval_method, refuse
from jrh_mlflow.scoring.pointwise import PointTable, left_out_counts
from jrh_mlflow.stats import Array, Codes, Mask
from jrh_mlflow.stats.variance import ASKING_AGAIN, MORE_TASKS, PARTS, Component, variance_components

_ONCE = "nothing was asked twice, so that repeats are not told from the rest: --replicates 2 asks twice"
_ONE_CONTENT = "each task has one content, so that wording is not told from task"
_NO_ERROR = "a mean over both orders does not vary here, whatever is asked again or further"
_NO_VARIATION = "the scores do not vary, or fewer than three tasks have them"


@dataclass(frozen=True, kw_only=True, slots=True)
class ScoredCalls:
    """Calls with a score, and what they show."""

    units: Units
    score: Array
    item: Codes
    order: Codes
    """0 and 1 for the two orders of a pair; else 0."""
    stratum: Codes
    """What has a mean of its own: a step, a level, a test."""


def scored_pairs(calls: CallTable) -> ScoredCalls:
    """Score the calls on pairs with a better content."""
    chosen = np.asarray(calls.better != "")
    # Before the calls are copied: coding takes as much memory again.
    stratum = _coded(calls.condition, calls.delta)[chosen]
    own = calls.where(chosen)
    return ScoredCalls(
        units=own.units("calls with a better content"),
        score=np.asarray(better_or_half(*own.seen), float),
        item=own.item,
        order=(own.order == "vu").astype(np.intp),
        stratum=stratum,
    )


def scored_responses(table: ResponseTable) -> ScoredCalls:
    """Score the calls on single responses of known level; an abstention has no answer."""
    own = table.of(*SINGLE_LADDERS)
    known = np.isfinite(own.grade)
    units = replace(response_units(own), usable=known, left_out=left_out_counts(own.outcome[~known]))
    none = np.zeros(len(own.item), dtype=np.intp)
    stratum = _coded(own.condition, own.step)
    return ScoredCalls(units=units, score=own.grade, item=own.item, order=none, stratum=stratum)


def scored_points(calls: PointTable, unperturbed: Mask) -> ScoredCalls:
    """Score the calls with an expected answer; those that show a source as it is are asks of one item."""
    own, as_it_is = calls.where(np.asarray(calls.expected != "")), unperturbed[calls.expected != ""]
    same = as_it_is & (own.n_bases <= 1)
    return ScoredCalls(
        units=own.units("calls with an expected answer"),
        score=own.right.astype(float),
        # Codes of items lie after those of originals.
        item=np.where(same, own.original, own.original.max(initial=0) + 1 + own.item),
        order=np.zeros(len(own.item), dtype=np.intp),
        stratum=_coded(np.where(as_it_is, BASELINE, own.test)),
    )


def _coded(*columns: np.ndarray[tuple[int], np.dtype[np.generic]]) -> Codes:
    """Code the rows of some columns; what is not a number is one value."""
    codes = np.zeros(len(columns[0]), dtype=np.intp)
    for column in columns:
        # Objects are not made into an array of texts, which is as wide as the longest.
        own, values = pd.factorize(column, sort=True, use_na_sentinel=False)
        codes = codes * len(values) + own
    return codes


def variance_axes(calls: ScoredCalls) -> dict[str, Reading]:
    """Return each share, or why there is none; nothing where the design can tell no two parts from one another."""
    units = calls.units
    used = units.usable
    twice = len(used) > len(np.unique(2 * calls.item + calls.order))
    if not twice and len(np.unique(calls.item)) == len(np.unique(units.clusters)):
        return {}
    names = [name for name in (*PARTS, ASKING_AGAIN) if name != "order" or calls.order.any()]
    reason = refuse(units, statistic="value")
    if reason is not None:
        return {f"{VARIANCE}{name}": reason for name in names}
    # Where all are used they are not copied: of a million calls that is a good part of the memory.
    kept = slice(None) if used.all() else used
    parts = variance_components(
        calls.score[kept],
        task=units.clusters[kept],
        item=calls.item[kept],
        order=calls.order[kept],
        stratum=calls.stratum[kept],
    )
    missing = {"wording": _ONE_CONTENT, ASKING_AGAIN: _NO_ERROR} if twice else dict.fromkeys(names, _ONCE)
    return {
        f"{VARIANCE}{name}": _estimate(parts[name], units)
        if name in parts
        else NotEstimable(
            reason=missing.get(name, _NO_VARIATION) if parts else _NO_VARIATION, n=int(used.sum()), statistic="value"
        )
        for name in names
    }


def asking_again_helps(again: Reading | None) -> str:
    """Return `little`, `much` (about as much as more tasks) or `open`, by what twice as many asks would do."""
    if not isinstance(again, Estimate):
        return "open"
    low, high = again.cluster_interval or (0.0, MORE_TASKS)
    return "little" if high < MORE_TASKS / 2 else "much" if low >= MORE_TASKS / 2 else "open"


def _estimate(part: Component, units: Units) -> Estimate:
    n_tasks = len(np.unique(units.clusters[units.usable]))
    below = "; estimated below 0, set to 0" if part.below_zero else ""
    return Estimate(
        value=part.value,
        n=int(units.usable.sum()),
        excluded=int((~units.usable).sum()),
        **intervals(part.interval, part.interval),
        n_clusters=n_tasks,
        method=interval_method("nested analysis of variance", n_tasks, by_task="jackknife") + below,
        statistic="value",
        left_out=units.left_out,
    )
