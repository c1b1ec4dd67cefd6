"""What a tie criterion moves: the operating points of a judge, and the shift of its axes between two criteria.

A tie criterion moves a judge along its curve of false preference on equal pairs against sensitivity one step apart. A
prompt that changes how well it can see, and not only when it commits, lies off the curve of the others: its
d' = z(H) − z(F) differs, with H the share choosing the better content at the smallest ladder step, F the share of
preferences on pairs of equal quality, both as (k + 1/2) / (n + 1).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from scipy.optimize import isotonic_regression
from scipy.special import ndtri

from jrh_mlflow.measures.axes import AXES, EXPECTED, declared, task_counts
from jrh_mlflow.measures.records import call_table, is_pointwise, normalise
from jrh_mlflow.schema.estimates import Estimate, NotEstimable, Reading
from jrh_mlflow.scoring.ledger import difference_bounds, estimate_difference
from jrh_mlflow.stats import Array, Interval
from jrh_mlflow.stats.bootstrap import percentile_interval, resampled_sums
from jrh_mlflow.stats.proportions import cluster_interval, mean_replicates, share_correlation

_RESAMPLES = 2000
_LEVEL = 0.95


@dataclass(frozen=True, kw_only=True)
class OperatingPoint:
    """One judge under one prompt and one criterion."""

    judge: str
    prompt: str
    criterion: str
    tasks: tuple[str, ...]
    counts: Array
    """Tasks × 4: preferences and calls on equal pairs, right choices and calls one step apart."""
    replicates: tuple[float, float] = (1.0, 1.0)
    """Calls per presentation, of equal pairs and one step apart."""

    @property
    def false_preference(self) -> float:
        """Share of usable calls on equal pairs that are not a tie."""
        return float(self.counts[:, 0].sum() / self.counts[:, 1].sum())

    @property
    def sensitivity(self) -> float:
        """Share of usable calls one step apart that choose the better content."""
        return float(self.counts[:, 2].sum() / self.counts[:, 3].sum())

    @property
    def d_prime(self) -> float:
        """Resolution at this point."""
        return float(_d_primes(self.counts.sum(axis=0)[None, :])[0])

    @property
    def intervals(self) -> tuple[Interval | None, Interval | None]:
        """95 % by task of false preference and sensitivity."""
        false, hits = (self.counts[:, at : at + 2].T / n for at, n in zip((0, 2), self.replicates, strict=True))
        return cluster_interval(*false), cluster_interval(*hits)


@dataclass(frozen=True, kw_only=True, slots=True)
class ResolutionShift:
    """A prompt against the other prompts of its judge, under the criteria that both have."""

    judge: str
    prompt: str
    value: float
    """Mean d' of the prompt minus mean d' of the others."""
    low: float | None
    high: float | None
    criteria: tuple[str, ...]

    @property
    def off(self) -> bool:
        """Whether the prompt lies off the curve of the others."""
        return self.low is not None and self.high is not None and (self.low > 0 or self.high < 0)


def operating_counts(calls: pd.DataFrame) -> dict[str, Any] | None:
    """Count what an operating point needs, by task, JSON-ready; None for pointwise calls or without both conditions."""
    frame = normalise(calls)
    if is_pointwise(frame):
        return None
    table = call_table(frame)
    columns: list[Array] = []
    replicates = []
    for axis in (declared("raw_false_preference"), declared("target_sensitivity/delta_1")):
        # Of a ladder the smallest step.
        own = next(iter(axis.where(table.condition, table.delta).values()), np.zeros(len(frame), bool)) & table.usable
        if axis.hits is None or not own.any():
            return None
        columns += task_counts(table, own, axis.hits)
        replicates.append(mean_replicates(table.presentation[own]))
    counts = np.column_stack(columns).astype(int)
    return {"tasks": sorted(set(frame["task"])), "counts": counts.tolist(), "replicates": replicates}


def operating_point(data: Mapping[str, Any], *, judge: str, prompt: str, criterion: str) -> OperatingPoint:
    """Read what `operating_counts` returned."""
    equal, step = data.get("replicates", (1.0, 1.0))
    return OperatingPoint(
        judge=judge,
        prompt=prompt,
        criterion=criterion,
        tasks=tuple(data["tasks"]),
        counts=np.array(data["counts"], float),
        replicates=(equal, step),
    )


def curve(points: Sequence[OperatingPoint]) -> list[tuple[float, float]]:
    """Return the rising curve of best fit through a judge's points: isotone in false preference, (0, 0) first."""
    ordered = sorted(points, key=lambda point: (point.false_preference, point.sensitivity))
    fitted = isotonic_regression([point.sensitivity for point in ordered]).x
    drawn = [(point.false_preference, float(y)) for point, y in zip(ordered, fitted, strict=True)]
    return [(0.0, 0.0), *drawn]


def resolution_shifts(points: Sequence[OperatingPoint], *, seed: int = 0) -> list[ResolutionShift]:
    """Compare each prompt with the others of its judge; intervals hold for all comparisons together (Bonferroni)."""
    found = [
        sides
        for judge, prompt in dict.fromkeys((point.judge, point.prompt) for point in points)
        if (sides := _sides([point for point in points if point.judge == judge], prompt))
    ]
    level = 1 - (1 - _LEVEL) / max(1, len(found))
    return [_shift(own, others, level=level, seed=seed) for own, others in found]


def _sides(points: Sequence[OperatingPoint], prompt: str) -> tuple[list[OperatingPoint], list[OperatingPoint]] | None:
    """Split a judge's points into those of a prompt and of the others, under the criteria that both have."""
    own = [point for point in points if point.prompt == prompt]
    others = [point for point in points if point.prompt != prompt]
    shared = {point.criterion for point in own} & {point.criterion for point in others}
    own, others = ([point for point in side if point.criterion in shared] for side in (own, others))
    return (own, others) if shared and len({point.tasks for point in (*own, *others)}) == 1 else None


def _shift(
    own: Sequence[OperatingPoint], others: Sequence[OperatingPoint], *, level: float, seed: int
) -> ResolutionShift:
    sums = np.hstack([point.counts for point in (*own, *others)])
    # Criteria weigh the same on both sides, however many prompts have one.
    shares = {name: [point.criterion for point in others].count(name) for name in {point.criterion for point in own}}
    weights = [1 / len(own)] * len(own) + [-1 / (len(shares) * shares[point.criterion]) for point in others]

    def gaps(block: Array) -> Array:
        each = np.column_stack([_d_primes(block[:, at : at + 4]) for at in range(0, block.shape[1], 4)])
        difference: Array = each @ np.array(weights)
        return difference

    blocks = resampled_sums(sums, n_resamples=_RESAMPLES, seed=seed)
    values = np.concatenate([gaps(block) for block in blocks])
    low, high = percentile_interval(values, n_clusters=len(sums), level=level) or (None, None)
    return ResolutionShift(
        judge=own[0].judge,
        prompt=own[0].prompt,
        value=float(gaps(sums.sum(axis=0)[None, :])[0]),
        low=low,
        high=high,
        criteria=tuple(sorted(shares)),
    )


def _d_primes(sums: Array) -> Array:
    """D' of rows of false preferences, equal calls, right choices, step calls."""
    false = (sums[:, 0] + 0.5) / (sums[:, 1] + 1)
    hits = (sums[:, 2] + 0.5) / (sums[:, 3] + 1)
    values: Array = ndtri(hits) - ndtri(false)
    return values


def criterion_axes(
    arms: Mapping[str, Mapping[str, Reading]], *, calls: Mapping[str, pd.DataFrame] | None = None
) -> dict[str, Reading]:
    """Return `<criterion>/<axis>` to `arm - base` for ties (ΔC), false preference, sensitivity and misses.

    Args:
        arms: Criterion to the readings under it; the first is the base.
        calls: Criterion to call records. Every arm asks about the same tasks: with them, intervals by task take into
            account how the arms go together over the tasks.
    """
    (base_name, base), *others = arms.items()
    counts = {name: _task_counts(records) for name, records in (calls or {}).items()}
    return {
        f"{name}/{axis}": difference(before, estimates[axis], correlation=_correlation(counts, base_name, name, axis))
        for name, estimates in others
        for axis, before in base.items()
        if axis in estimates and not axis.startswith(EXPECTED) and declared(axis).shifted
    }


def _task_counts(calls: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Return every axis that shifts to its hits and usable calls, by task."""
    frame = normalise(calls)
    table, tasks = call_table(frame), sorted(set(frame["task"]))
    return {
        key: pd.DataFrame(dict(zip(("hits", "n"), task_counts(table, own, axis.hits), strict=True)), index=tasks)
        for axis in AXES
        if axis.shifted and axis.hits
        for key, own in axis.where(table.condition, table.delta).items()
    }


def _correlation(counts: Mapping[str, Mapping[str, pd.DataFrame]], base: str, name: str, axis: str) -> float | None:
    """Correlation of an axis under two criteria over the tasks; None where it was not counted."""
    both = [counts.get(arm, {}).get(axis) for arm in (base, name)]
    if both[0] is None or both[1] is None:
        return None
    before, after = both[0].align(both[1], fill_value=0.0)
    return share_correlation(*(each[column].to_numpy(float) for each in (before, after) for column in ("hits", "n")))


def difference(before: Reading, after: Reading, *, correlation: float | None = None) -> Reading:
    """Return `after - before` of two shares, with intervals from theirs (Newcombe), or why there is none.

    Args:
        before: Of the base.
        after: Of the other arm.
        correlation: Of the two shares over the tasks, for the interval by task; none is used when None.
    """
    for arm, reading in (("base arm", before), ("other arm", after)):
        if isinstance(reading, NotEstimable):
            bounds = difference_bounds(after, before) if reading.withheld else None
            return NotEstimable(
                reason=f"{arm}: {reading.reason}", withheld=reading.withheld, statistic="value", bounds=bounds
            )
    assert isinstance(before, Estimate)
    assert isinstance(after, Estimate)
    paired = "" if correlation is None else ", paired by task"
    method = f"Newcombe difference of the intervals{paired}"
    found = estimate_difference(before, after, method=method, correlation=correlation or 0.0)
    return replace(found, statistic="value")
