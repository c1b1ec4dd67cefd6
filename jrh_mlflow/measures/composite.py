"""Decisions that a policy makes of the calls on one item, and their composite `reliability`.

A policy (replicates, vote, orders) is cheap to change: one order or both, one replicate or five are read from the same
calls.

| policy | rule |
|---|---|
| vote `majority` | the answer given most often; a draw is a tie (a pair) or an abstention (one response) |
| vote `unanimous` | the answer that all replicates gave, otherwise a tie or an abstention |
| orders `one` | the votes of one presentation order, chosen by a hash of the item's id, so that no slot is favoured |
| orders `both` | the content that the votes of both orders agree on; a tie when they do not |

Calls without a usable answer have no vote. An item is unusable when all calls of a vote are.

The composite is the mean of its parts, each of them visible:

| suite | part | a decision scores 1 when |
|---|---|---|
| pairs | `part` of an axis: `no_dark_current`, `no_false_preference`, `sensitivity`, … | as the axis counts calls |
| reliability tests | each test | as in the test's own report |

Of axes where lower is better the other decisions score 1. A part with several steps is the mean over the steps. A
suite that lacks a part has a composite without it, so composites are compared on one suite only. Intervals resample
whole tasks.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy import special

from jrh_mlflow.errors import SuiteError, check_known
from jrh_mlflow.measures import axes
from jrh_mlflow.measures.records import choice, has_steps, is_pointwise, normalise
from jrh_mlflow.measures.unit_scores import unit_scores
from jrh_mlflow.perturb.registry import counted_once
from jrh_mlflow.schema.estimates import Estimate, NotEstimable, Reading, intervals
from jrh_mlflow.schema.items import BASELINE, LADDER, OPTIONAL_COLUMNS, PAIR_CONDITIONS
from jrh_mlflow.scoring.ledger import MAX_EXCLUDED, interval_method
from jrh_mlflow.stats import Array
from jrh_mlflow.stats.bootstrap import percentile_interval, resampled_sums
from jrh_mlflow.stats.paired import cluster_sign_p
from jrh_mlflow.stats.proportions import cluster_interval, mean_replicates

VOTES = ("majority", "unanimous")
ORDERS = ("one", "both")
COLUMNS = (
    "suite_item",
    "task",
    "condition",
    "delta",
    "better",
    "expected",
    "replicate",
    "outcome",
    "decision",
    *OPTIONAL_COLUMNS,
)


class Decision(NamedTuple):
    """What was decided about an item."""

    outcome: str
    """`verdict`, `tie`, `abstain`, or how the last unusable call of the vote ended."""
    value: str
    """`u`, `v`, `tie` or `abstain` for a pair, a label or `abstain` otherwise; empty when there is no decision."""


class Vote(NamedTuple):
    """One call, as a vote."""

    order: str
    outcome: str
    value: str
    """`u`, `v`, `tie`, `abstain` or a label; empty when the call is unusable."""


def item_decisions(
    calls: pd.DataFrame | Iterable[object],
    *,
    vote: str = "majority",
    orders: str = "both",
    replicates: int | None = None,
) -> pd.DataFrame:
    """Turn calls into decisions, one row per item and decision.

    Args:
        calls: Call records.
        vote: `majority` or `unanimous`.
        orders: `one` or `both`; pointwise items have no order and ignore it.
        replicates: Calls per order behind one decision; an item asked more often has several decisions. All of an
            item's replicates make one decision when None.

    Returns:
        Columns suite_item, task, condition, delta, better, expected, replicate (of the decision), outcome and
        decision, in the order of the items.
    """
    checked_policy(vote=vote, orders=orders)
    if replicates is not None and replicates < 1:
        raise ValueError(f"`replicates >= 1` must hold, but got {replicates=}.")
    frame, key = normalise(calls), ["suite_item", "replicate"]
    frame = frame.assign(replicate=0 if replicates is None else frame["replicate"] // replicates)
    decided = with_decisions(frame, key, vote=vote, orders=orders).drop_duplicates(key, ignore_index=True)
    columns: pd.DataFrame = decided[list(COLUMNS)]
    return columns


def with_decisions(frame: pd.DataFrame, by: Sequence[str], *, vote: str, orders: str) -> pd.DataFrame:
    """Return normalised records with outcome and decision of all that share the columns `by`, the item first."""
    cast = zip(*(frame[name].tolist() for name in ("order", "outcome", "answer")), strict=True)
    keys = list(zip(*(frame[name].tolist() for name in by), strict=True))
    votes: dict[tuple[Any, ...], list[Vote]] = {}
    for key, (order, outcome, answer) in zip(keys, cast, strict=True):
        votes.setdefault(key, []).append(cast_vote(order=order, outcome=outcome, answer=answer))
    pair = not is_pointwise(frame)
    made = {key: decision_of(own, item=key[0], vote=vote, orders=orders, pair=pair) for key, own in votes.items()}
    outcomes, decisions = zip(*(made[key] for key in keys), strict=True)
    decided: pd.DataFrame = frame.assign(outcome=outcomes, decision=decisions)
    return decided


def checked_policy(*, vote: str, orders: str) -> None:
    """Refuse a vote or an order policy that is not known, with the nearest one that is."""
    check_known("vote", vote, VOTES)
    check_known("orders", orders, ORDERS)


def cast_vote(*, order: str, outcome: str, answer: str) -> Vote:
    """Read one call as a vote."""
    return Vote(order, outcome, choice(order=order, outcome=outcome, answer=answer))


def decision_of(votes: Sequence[Vote], *, item: str, vote: str, orders: str, pair: bool) -> Decision:
    """Decide one item from its votes.

    Example:
        >>> both = [Vote("uv", "verdict", "u"), Vote("vu", "verdict", "v")]
        >>> decision_of(both, item="a", vote="majority", orders="both", pair=True)
        Decision(outcome='tie', value='tie')
    """
    drawn = "tie" if pair else "abstain"
    by_order: dict[str, list[Vote]] = {}
    for cast in votes:
        by_order.setdefault(cast.order, []).append(cast)
    if pair and orders == "one":
        return _counted(by_order.get(chosen_order(item), []), vote=vote, drawn=drawn)
    made = [_counted(own, vote=vote, drawn=drawn) for own in by_order.values()]
    # An order without a usable answer leaves no decision: the other order alone would be the policy `one`.
    lost = [decision for decision in made if not decision.value]
    if lost:
        return lost[0]
    # Orders that disagree settle nothing: the item is a draw.
    return made[0] if len(set(made)) == 1 else Decision(drawn, drawn)


def chosen_order(item: str) -> str:
    """Return the presentation order that the policy `one` asks for: fixed for an item, even over items."""
    return "uv" if hashlib.blake2b(item.encode("utf-8", "surrogatepass"), digest_size=1).digest()[0] % 2 else "vu"


def calls_per_decision(*, orders: str, replicates: int, pair: bool) -> int:
    """Return how many calls a policy pays for one judgment."""
    return replicates * (2 if pair and orders == "both" else 1)


def as_records(decisions: pd.DataFrame) -> pd.DataFrame:
    """Return pointwise decisions as call records, for the measures that read those."""
    answer = decisions["decision"].where(decisions["outcome"] == "verdict", "")
    records: pd.DataFrame = decisions.assign(order="", answer=answer).drop(columns="decision")
    return records


def _counted(votes: Sequence[Vote], *, vote: str, drawn: str) -> Decision:
    usable = Counter(cast.value for cast in votes if cast.value)
    if not usable:
        return Decision(votes[-1].outcome if votes else "error", "")
    # Lost calls do not vote: a majority is one of the answers that there are.
    (first, most), *others = usable.most_common()
    won = not others if vote == "unanimous" else not others or others[0][1] < most
    if not won:
        return Decision(drawn, drawn)
    return Decision(first if first in ("tie", "abstain") else "verdict", first)


_RESAMPLES = 2000
_FEW_TASKS = 12


@dataclass(frozen=True, kw_only=True)
class Tally:
    """Decisions counted by task and cell: all that the composite, its intervals and its differences need."""

    cells: tuple[str, ...]
    """`no_dark_current`, `sensitivity/delta_1`, …: a part, or a step of one."""
    tasks: tuple[str, ...]
    hits: Array
    """Tasks × cells: decisions that score 1."""
    sizes: Array
    """Tasks × cells: usable decisions."""
    excluded: tuple[int, ...]
    """Per cell: decisions without a usable answer."""
    replicates: tuple[float, ...] = ()
    """Per cell: usable decisions on the same item as a decision, itself included, on average; one each when empty."""

    @cached_property
    def weights(self) -> Array:
        """Weight of each cell in the composite; they sum to 1."""
        return cell_weights(self.cells)

    @property
    def value(self) -> float:
        """The composite; NaN when a cell has no usable decision."""
        total = np.hstack([self.hits, self.sizes]).sum(axis=0)[None, :]
        # Weights are thirds of fifths: a judge that is right throughout must read 1 all the same.
        return round(float(_composites(total, self.weights)[0]), 12)

    def only(self, part: str) -> Tally:
        """Return the cells of one part."""
        return self._of([cell for cell in self.cells if part_of(cell) == part])

    def _of(self, cells: Sequence[str]) -> Tally:
        own = [self.cells.index(cell) for cell in cells]
        return replace(
            self,
            cells=tuple(self.cells[index] for index in own),
            hits=self.hits[:, own],
            sizes=self.sizes[:, own],
            excluded=tuple(self.excluded[index] for index in own),
            replicates=tuple(self.replicates[index] for index in own if self.replicates),
        )

    def by_task(self) -> tuple[Array, Array]:
        """Return score and weight of each task; the composite is their weighted mean."""
        # A task weighs by its share of each cell, so that the weighted mean over tasks is the composite itself.
        totals = np.maximum(self.sizes.sum(axis=0), 1)
        weights = self.sizes @ (self.weights / totals)
        scores = np.divide(self.hits @ (self.weights / totals), weights, out=np.zeros(len(weights)), where=weights > 0)
        return scores, weights

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON-ready data."""
        return {
            "cells": list(self.cells),
            "tasks": list(self.tasks),
            "hits": self.hits.astype(int).tolist(),
            "sizes": self.sizes.astype(int).tolist(),
            "excluded": list(self.excluded),
            "replicates": list(self.replicates),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Tally:
        """Read what `to_dict` wrote."""
        return cls(
            cells=tuple(data["cells"]),
            tasks=tuple(data["tasks"]),
            hits=np.array(data["hits"], float),
            sizes=np.array(data["sizes"], float),
            excluded=tuple(data["excluded"]),
            replicates=tuple(data["replicates"]),
        )


def part_of(cell: str) -> str:
    """Return the part of the composite that a cell belongs to."""
    return cell.partition("/")[0]


def cell_weights(cells: Sequence[str]) -> Array:
    """Return the weight of each cell: parts are equal, and so are the steps of a part."""
    names = [part_of(cell) for cell in cells]
    return np.array([1 / (len(set(names)) * names.count(name)) for name in names])


def pair_cell(condition: str, delta: float | None) -> str | None:
    """Return the cell of a pair's condition, or None where it is no part of the composite."""
    for axis in axes.AXES:
        if axis.part and condition in axis.stimuli.conditions:
            return f"{axis.part}/{axes.delta_key(float(delta or 0.0))}" if axis.by_step else axis.part
    return None


def pair_hit(cell: str, decision: str, better: str) -> bool:
    """Whether a decision about a pair scores 1: a hit of its axis, or none where lower is better."""
    axis = next(axis for axis in axes.AXES if axis.part == part_of(cell))
    assert axis.hits is not None
    return bool(axis.hits(decision, better)) != (axis.direction == "lower")


def tally(decisions: pd.DataFrame, *, labels: Sequence[str] | None = None) -> Tally:
    """Count decisions, as `decide` returns them, by task and cell.

    Raises:
        SuiteError: when nothing in the suite is part of the composite.
    """
    pairs = decisions["condition"].isin(PAIR_CONDITIONS) & (decisions["expected"] == "")
    scores = _pair_scores(decisions) if bool(pairs.all()) else _point_scores(decisions, labels)
    if scores.empty or has_steps(decisions):
        raise SuiteError("The composite `reliability` has no part on this suite: it has neither ladder nor tests.")
    # A task without a part of the composite (a baseline alone) is no cluster of it.
    cells, tasks = sorted(set(scores["cell"])), sorted(set(scores["task"]))
    column, row = scores["cell"].map(cells.index), scores["task"].map(tasks.index)
    usable = scores["score"].notna()
    hits, sizes = np.zeros((len(tasks), len(cells))), np.zeros((len(tasks), len(cells)))
    np.add.at(sizes, (row[usable], column[usable]), 1)
    np.add.at(hits, (row[usable], column[usable]), scores.loc[usable, "score"])
    lost = np.bincount(column[~usable], minlength=len(cells))
    items = pd.factorize(scores["item"])[0]
    return Tally(
        cells=tuple(cells),
        tasks=tuple(tasks),
        hits=hits,
        sizes=sizes,
        excluded=tuple(int(n) for n in lost),
        replicates=tuple(mean_replicates(items[usable & (column == cell)]) for cell in range(len(cells))),
    )


def ability_tally(decisions: pd.DataFrame) -> Tally | None:
    """Count the decisions of the two largest steps of a ladder by task: 1 better, 1/2 no preference, 0 worse.

    In halves, so that counts stay whole: every decision is two units. None where there is no ladder, or no answer.
    """
    ladder = decisions[(decisions["condition"] == LADDER) & (decisions["decision"] != "")]
    ladder = ladder[ladder["delta"].isin(sorted(set(ladder["delta"]))[-axes.LARGEST :])]
    if ladder.empty:
        return None
    tasks = sorted(set(ladder["task"]))
    row = ladder["task"].map(tasks.index).to_numpy()
    halves = 2 * axes.better_or_half(ladder["decision"].to_numpy(object), ladder["better"].to_numpy(object))
    hits, sizes = (
        np.bincount(row, weights=units, minlength=len(tasks)).astype(float)
        for units in (halves, np.full(len(row), 2.0))
    )
    return Tally(
        cells=("ability",),
        tasks=tuple(tasks),
        hits=hits[:, None],
        sizes=sizes[:, None],
        excluded=(0,),
        replicates=(2 * mean_replicates(pd.factorize(ladder["suite_item"])[0]),),
    )


_SCORES = ("cell", "task", "item", "score")


def _pair_scores(decisions: pd.DataFrame) -> pd.DataFrame:
    rows = []
    row: Any
    for row in decisions.itertuples(index=False):
        cell = pair_cell(row.condition, row.delta)
        if cell is not None:
            score = float(pair_hit(cell, row.decision, row.better)) if row.decision else math.nan
            rows.append((cell, row.task, row.suite_item, score))
    scores: pd.DataFrame = pd.DataFrame(rows, columns=list(_SCORES))
    return scores


def _point_scores(decisions: pd.DataFrame, labels: Sequence[str] | None) -> pd.DataFrame:
    scores = unit_scores(normalise(as_records(decisions)), labels=labels)
    # The unperturbed items are no test; where nothing else was asked they are all there is.
    tests = scores[scores["axis"].isin(counted_once(set(scores["axis"]) - {BASELINE}))]
    names = {"axis": "cell", "cluster": "task", "presentation": "item"}
    named = (tests if len(tests) else scores).rename(columns=names)
    columns: pd.DataFrame = named[list(_SCORES)].reset_index(drop=True)
    return columns


def reliability(counted: Tally, *, seed: int = 0, max_excluded: float = MAX_EXCLUDED) -> Reading:
    """Return the composite with its interval by task; withheld when too many decisions of a cell are unusable."""
    for cell, lost, n in zip(counted.cells, counted.excluded, counted.sizes.sum(axis=0), strict=True):
        if lost / max(1.0, lost + n) > max_excluded:
            return NotEstimable(
                reason=f"{lost} of {int(lost + n)} decisions of {cell} have no usable answer, over {max_excluded:.0%}",
                withheld=True,
                n=int(n),
                excluded=lost,
            )
    used = int((counted.sizes.sum(axis=1) > 0).sum())
    # Whole tasks are drawn, for all cells at once: decisions on one task hang together over the cells.
    interval = percentile_interval(resampled(counted, seed=seed), n_clusters=used)
    method = "bootstrap of whole tasks"
    if interval is None:
        interval, method = _wide(counted), "clustered intervals of the cells, added in squares"
    return Estimate(
        value=counted.value,
        n=int(counted.sizes.sum()),
        excluded=sum(counted.excluded),
        **intervals(None, interval),
        n_clusters=used,
        method=interval_method(method, used),
        unit="item",
    )


def parts(counted: Tally, *, seed: int = 0) -> dict[str, Reading]:
    """Return every part of the composite, as the share of decisions that score 1."""
    names = dict.fromkeys(part_of(cell) for cell in counted.cells)
    return {name: reliability(counted.only(name), seed=seed) for name in names}


def resampled(counted: Tally, *, seed: int = 0, n_resamples: int = _RESAMPLES) -> Array:
    """Return the composite over resamples of whole tasks; the same seed draws the same tasks for every tally."""
    sums = np.hstack([counted.hits, counted.sizes])
    blocks = resampled_sums(sums, n_resamples=n_resamples, seed=seed)
    return np.concatenate([_composites(block, counted.weights) for block in blocks])


@dataclass(frozen=True, kw_only=True, slots=True)
class CompositeDifference:
    """Two configurations on the same tasks: composite of the first minus that of the second."""

    value: float
    low: float | None
    high: float | None
    p: float
    method: str = "sign-flip test on tasks"


def composite_difference(first: Tally, second: Tally, *, seed: int = 0) -> CompositeDifference:
    """Compare two tallies of one suite, paired by task.

    The p-value is of a sign-flip test on whole tasks; under 12 tasks, where that test can hardly ever decide (five
    tasks never reach 0.05), of a t-test on the tasks' differences.

    Raises:
        ValueError: when they are not of the same tasks and cells.
    """
    if first.tasks != second.tasks or first.cells != second.cells:
        raise ValueError("Composites are compared on the same tasks and cells, but those of the two differ.")
    gaps = resampled(first, seed=seed) - resampled(second, seed=seed)
    used = int((first.sizes.sum(axis=1) > 0).sum())
    low, high = percentile_interval(gaps, n_clusters=used) or (None, None)
    a, b = (
        (tally.hits * (tally.weights / np.maximum(tally.sizes.sum(axis=0), 1))).sum(axis=1) for tally in (first, second)
    )
    p, method = _task_p(a, b, seed=seed)
    return CompositeDifference(value=first.value - second.value, low=low, high=high, p=p, method=method)


def _task_p(a: Array, b: Array, *, seed: int) -> tuple[float, str]:
    gaps = a - b
    spread = float(gaps.std(ddof=1)) if 2 <= len(gaps) < _FEW_TASKS else 0.0
    if spread < 1e-12:
        return cluster_sign_p(a, b, np.arange(len(a)), seed=seed), "sign-flip test on tasks"
    t = float(gaps.mean()) / (spread / math.sqrt(len(gaps)))
    return float(2 * special.stdtr(len(gaps) - 1, -abs(t))), f"t-test on {len(gaps)} tasks"


def _composites(sums: Array, weights: Array) -> Array:
    """Composite of each row of summed hits and sizes."""
    hits, sizes = np.hsplit(sums, 2)
    shares = np.divide(hits, sizes, out=np.full(hits.shape, np.nan), where=sizes > 0)
    composites: Array = shares @ weights
    return composites


def _wide(counted: Tally) -> tuple[float, float] | None:
    """Square and add: where all resamples agree, an interval without a width would claim certainty."""
    below = above = 0.0
    replicates = np.array(counted.replicates or [1.0] * len(counted.cells))
    hits, sizes = counted.hits / replicates, counted.sizes / replicates
    for index, weight in enumerate(counted.weights):
        ends = cluster_interval(hits[:, index], sizes[:, index])
        if ends is None:
            return None
        share = hits[:, index].sum() / sizes[:, index].sum()
        below, above = below + (weight * (share - ends[0])) ** 2, above + (weight * (ends[1] - share)) ** 2
    return max(0.0, counted.value - math.sqrt(below)), min(1.0, counted.value + math.sqrt(above))
