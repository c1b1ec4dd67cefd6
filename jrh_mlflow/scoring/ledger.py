"""The denominator ledger: every reading is made here, so no unusable call is ever counted as an answer.

A share has a Wilson interval and one by cluster (`cluster_interval`). Any other value (an error, a correlation,
agreement) is a function of sums over units and has bootstrap intervals: a resample is one row of weights times the
units' features, and all are computed at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any, Literal, TypeVar

import numpy as np
import numpy.typing as npt

from jrh_mlflow.schema.estimates import Bounds, Ends, Estimate, NotEstimable, Reading, Statistic, intervals
from jrh_mlflow.stats import Array, Codes, Interval, Mask
from jrh_mlflow.stats.bootstrap import percentile_interval, resampled_sums
from jrh_mlflow.stats.paired import value_interval
from jrh_mlflow.stats.proportions import (
    cluster_at,
    cluster_interval,
    collapse_replicates,
    newcombe,
    share_correlation,
    t_quantile,
    wilson,
    wilson_share,
)

MAX_EXCLUDED = 0.05
"""Share of unusable calls past which a number is withheld."""
FEW_CLUSTERS = 30
LOSSES_LEAVE_OPEN = "the answers that came would decide it, but the lost calls could have gone either way"
"""Said of a decision that only calls without a usable answer leave open."""


Rows = TypeVar("Rows", bound="ParallelArrays")
_COLUMNS: dict[type, tuple[str, ...]] = {}
"""Names of the fields of each kind of table: `fields` takes longer than to choose the rows."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ParallelArrays:
    """A table: a field that is an array has one value per row, any other is of the whole table."""

    def where(self: Rows, mask: Mask) -> Rows:
        """Return the rows of `mask`."""
        rows = np.flatnonzero(mask)
        if type(self) not in _COLUMNS:
            _COLUMNS[type(self)] = tuple(field.name for field in fields(self))
        columns = {name: getattr(self, name) for name in _COLUMNS[type(self)]}
        chosen: dict[str, Any] = {
            name: column[rows] if isinstance(column, np.ndarray) else column for name, column in columns.items()
        }
        return type(self)(**chosen)


@dataclass(frozen=True, kw_only=True, slots=True)
class Units:
    """The denominator of one or more shares: calls or pairs, usable or not."""

    what: str
    """What they are, for reasons: `calls in condition vacuum`."""
    unit: Literal["call", "pair", "item"]
    usable: Mask
    clusters: npt.NDArray[np.intp]
    """Cluster code of each unit; codes are 0 … n_codes - 1."""
    n_codes: int
    left_out: dict[str, int]
    """Unusable calls by outcome."""
    max_excluded: float = MAX_EXCLUDED
    n_calls: int | None = None
    """Calls that were asked for these units; None: each unit is one."""
    presentations: Codes | None = None
    """Code of what was asked in each unit: units that share one are replicates. None: all differ."""
    members: tuple[Codes, Codes] | None = None
    """Unit and record of every call behind them: parallel arrays, records by their place. None: not known."""

    def sizes(self, among: Mask) -> npt.NDArray[np.float64]:
        """Number of units of `among` per cluster."""
        return np.bincount(self.clusters[among], minlength=self.n_codes).astype(float)


# --- Bounds: what a share or a difference can still be, when some calls gave no usable answer.
#
# A lost call could have ended in any way that an answer can. A share is therefore bounded by what each of its units can
# still be: a hit, a miss, or no unit at all, where the denominator depends on the answer. One hit more never lowers
# hits / (hits + misses) and one miss more never raises it, so every unit takes its best end by itself:
#
#     high = (can be a hit) / (can be a hit, or must be a miss)
#     low = (must be a hit) / (must be a hit, or can be a miss)
#
# where a unit that must be something can be nothing else. Both are reached by some completion of the lost calls.

Extremes = tuple[Array, Array]
"""Of each unit the value if its lost calls make the mean least, and greatest; NaN where it is then no unit."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Possible:
    """What each unit can still be; of a unit with all its answers exactly one is true."""

    hit: Mask
    miss: Mask
    out: Mask
    """In no denominator: its answer makes it none of the units that are counted."""

    @property
    def bounds(self) -> Interval | None:
        """Least and greatest share over all completions; None where no unit can be counted."""
        if not (self.hit | self.miss).any():
            return None
        low_hits, low_n = int((~self.miss & ~self.out).sum()), int((self.miss | ~self.out).sum())
        high_hits, high_n = int(self.hit.sum()), int((self.hit | ~self.out).sum())
        # Where no unit can be a miss, a share is 1 or there is none; where none can be a hit, 0 or none.
        return low_hits / low_n if low_n else 1.0, high_hits / high_n if high_n else 0.0

    @property
    def extremes(self) -> Extremes:
        """Score of each unit in the completion with the least share, and in that with the greatest; NaN: no unit."""
        least, most = ~self.miss & ~self.out, self.hit
        return np.where(self.miss | ~self.out, least, np.nan), np.where(self.hit | ~self.out, most, np.nan)


def possible(usable: Mask, hits: Mask, among: Mask | None = None) -> Possible:
    """Return what units can still be when nothing is known of those that are not usable."""
    counted = np.ones(len(usable), dtype=bool) if among is None else among
    return Possible(
        hit=~usable | (hits & counted),
        miss=~usable | (~hits & counted),
        out=~counted if among is None else ~usable | ~counted,
    )


def over_completions(completions: Iterable[tuple[Mask, Mask]]) -> Possible:
    """Return what units can still be, from (hits, counted) of every way in which the lost calls could have ended."""
    every = list(completions)
    return Possible(
        hit=np.any([hits & counted for hits, counted in every], axis=0),
        miss=np.any([~hits & counted for hits, counted in every], axis=0),
        out=np.any([~counted for _, counted in every], axis=0),
    )


def bounds_of(reading: Reading) -> Bounds | None:
    """Return between what a reading on calls lies, whether it has a number or was withheld."""
    if not isinstance(reading, Estimate):
        return reading.bounds
    if reading.bound_low is None or reading.bound_high is None:
        return None
    n_calls = reading.n + reading.excluded if reading.n_calls is None else reading.n_calls
    return Bounds(low=reading.bound_low, high=reading.bound_high, asked=n_calls, lost=reading.left_out)


def difference_bounds(first: Reading, second: Reading) -> Bounds | None:
    """Return between what `first - second` lies, two readings that have no call in common."""
    left, right = bounds_of(first), bounds_of(second)
    if left is None or right is None:
        return None
    return Bounds(
        low=left.low - right.high,
        high=left.high - right.low,
        asked=left.asked + right.asked,
        lost={name: left.lost.get(name, 0) + right.lost.get(name, 0) for name in {**left.lost, **right.lost}},
    )


# --- Readings


def refuse(units: Units, *, statistic: Statistic = "rate") -> NotEstimable | None:
    """Say why no number can be given for these units, or None when one can.

    The limit is on calls, also where a unit is a pair or an item: one lost call takes its whole unit along, and the
    share of the units that are left out would depend on how many calls each has.
    """
    n, excluded = int(units.usable.sum()), int((~units.usable).sum())
    if n + excluded == 0:
        return NotEstimable(reason=f"no {units.what}", statistic=statistic)
    # Of pairs and items the lost calls are counted; `left_out` has all of their outcomes.
    lost, n_calls = (excluded, n + excluded) if units.n_calls is None else (sum(units.left_out.values()), units.n_calls)
    # A quotient is rounded once, so 29 of 100 is exactly the limit 0.29; 0.29 * 100 would fall short of 29.
    over = lost / n_calls > units.max_excluded
    if n and not over:
        return None
    outcomes = ", ".join(f"{name} {count}" for name, count in units.left_out.items() if count)
    calls = units.what if units.n_calls is None else f"calls on {units.what}"
    few = f"over the limit of {100 * units.max_excluded:g}%" if over else f"at least one of each of the {units.what}"
    return NotEstimable(
        reason=f"{lost} of {n_calls} {calls} gave no usable answer ({outcomes}), {few}",
        withheld=True,
        n=n,
        excluded=excluded,
        left_out=units.left_out,
        statistic=statistic,
    )


def share(units: Units, hits: Mask, *, among: Mask | None = None, can_be: Possible | None = None) -> Reading:
    """Share of `hits` among the usable units (or among those of them in `among`), with both intervals and bounds.

    The bounds are what the share would be with every lost call answered, at the least and at the most: `can_be` says
    what each unit can still be (when None, an unusable one anything). A withheld share has nothing but its bounds.
    """
    can_be = can_be or possible(units.usable, hits, among)
    reason = refuse(units)
    if reason is not None:
        return with_bounds(reason, units, can_be.bounds)
    counted = units.usable if among is None else units.usable & among
    if not counted.any():
        return NotEstimable(reason=f"none of the {units.what} chose a side")
    estimate = estimate_share(units, hits, among=counted, extremes=None if units.usable.all() else can_be.extremes)
    low, high = can_be.bounds or (estimate.value, estimate.value)
    # A pair with a known half can rule out what the whole pairs read: the bounds hold the number all the same.
    return replace(estimate, bound_low=min(low, estimate.value), bound_high=max(high, estimate.value))


def with_bounds(reading: NotEstimable, units: Units, ends: Interval | None) -> NotEstimable:
    """Give a withheld reading its bounds, and any other none: where nothing was asked there is nothing to bound."""
    if not reading.withheld or ends is None:
        return reading
    n_calls = len(units.usable) if units.n_calls is None else units.n_calls
    return replace(reading, bounds=Bounds(low=ends[0], high=ends[1], asked=n_calls, lost=units.left_out))


def estimate_share(units: Units, hits: Mask | Array, *, among: Mask, extremes: Extremes | None = None) -> Estimate:
    """Estimate the share of `hits` among some units; a unit may count by halves.

    The interval by cluster takes replicates of one presentation as one unit; `n` and the Wilson interval count all.
    `extremes` says what each unit can still be where calls were lost.
    """
    n, k = int(among.sum()), hits[among].sum().item()
    excluded = int((~units.usable).sum())
    # Wilson counts every call; the interval by task must not narrow because the same question was asked again.
    by_cluster, sizes = _by_cluster(units, np.where(among, hits, np.nan))
    n_clusters = int((sizes > 0).sum())
    at_level = partial(cluster_at, by_cluster, sizes)
    return Estimate(
        value=k / n,
        n=n,
        excluded=excluded,
        **intervals(
            wilson(int(k), n) if float(k).is_integer() else wilson_share(k / n, n), cluster_interval(by_cluster, sizes)
        ),
        n_clusters=n_clusters,
        method=interval_method("Wilson", n_clusters, by_task=HULL),
        unit=units.unit,
        numerator=k,
        left_out=units.left_out,
        n_calls=units.n_calls,
        # As if every lost unit had been a miss, and every one a hit; `share` replaces both where more is known.
        bound_low=k / (n + excluded),
        bound_high=(k + excluded) / (n + excluded),
        at_level=at_level,
        decides_at=_over_losses(units, at_level, extremes, _share_at),
    )


def _by_cluster(units: Units, values: Array) -> tuple[Array, Array]:
    """Sum values and units by cluster, replicates as one; NaN is no unit."""
    used = np.isfinite(values)
    presentations = np.arange(len(values)) if units.presentations is None else units.presentations
    return collapse_replicates(values[used], presentations[used], units.clusters[used])


_IntervalAt = Callable[[float], "Interval | None"]


def _share_at(units: Units, values: Array) -> _IntervalAt:
    return partial(cluster_at, *_by_cluster(units, values))


def _value_at(units: Units, values: Array) -> _IntervalAt:
    (gains, sizes), (losses, _) = (_by_cluster(units, part) for part in (np.maximum(values, 0), np.maximum(-values, 0)))
    return partial(value_interval, gains, losses, sizes)


def _over_losses(
    units: Units, at_level: _IntervalAt, extremes: Extremes | None, interval_of: Callable[[Units, Array], _IntervalAt]
) -> _IntervalAt | None:
    """Return what decides where calls were lost; None where none was, or nothing is known of how they could end."""
    if extremes is None or np.array_equal(*extremes, equal_nan=True):
        return None
    return partial(hull_at, [at_level, *(interval_of(units, values) for values in extremes)])


def hull_at(parts: Sequence[_IntervalAt], level: float) -> Interval | None:
    """Return the hull of several intervals at a level; one that has no ends leaves it to the others."""
    known = [ends for part in parts if (ends := part(level)) is not None]
    return (min(low for low, _ in known), max(high for _, high in known)) if known else None


def deciding_ends(reading: Estimate, *, level: float = 0.95, is_own: bool | None = None) -> Ends:
    """Return the ends that decide at a level: the hull of the interval by cluster and of those of both completions.

    A completion gives every lost call the answer that makes the number least, or greatest. Where only the bounds of the
    number are known (a gap, a number read from a file), the interval is moved by them; where an interval is known at
    95 % only (a bootstrap), its arms are stretched as those of a t interval. `is_own`: as `has_own_intervals` says.
    """
    own: Ends = (reading.cluster_low, reading.cluster_high)
    is_own = has_own_intervals(reading) if is_own is None else is_own
    if reading.decides_at is not None and is_own:
        return reading.decides_at(level) or (None, None)
    if reading.unit == "curve":
        # The steps of a curve that was read from a file are decided at 95 % only.
        return (reading.not_reached_at, reading.reached_by) if level <= 0.95 else (None, None)
    if level != 0.95:
        at_level = reading.at_level(level) if reading.at_level and is_own else None
        own = at_level or _stretched(reading, own, level)
    if not is_own or not reading.excluded or reading.bound_low is None or reading.bound_high is None:
        return own
    low, high = own
    return (
        None if low is None else low + min(0.0, reading.bound_low - reading.value),
        None if high is None else high + max(0.0, reading.bound_high - reading.value),
    )


def has_own_intervals(reading: Estimate) -> bool:
    """Whether a reading's intervals at other levels are its own: one made of another may carry that one's along."""
    if reading.unit == "curve" or reading.at_level is None:
        return True
    known = reading.at_level(0.95)
    return known is None or known == (reading.cluster_low, reading.cluster_high)


def _stretched(reading: Estimate, ends: Ends, level: float) -> Ends:
    if reading.n_clusters < 2:
        return None, None
    times = t_quantile(reading.n_clusters - 1, level) / t_quantile(reading.n_clusters - 1, 0.95)
    low, high = (None if end is None else reading.value + times * (end - reading.value) for end in ends)
    return low, high


def without_losses(reading: Estimate) -> Estimate:
    """Return a reading as if nothing had been lost: what the answers that came say by themselves."""
    return replace(reading, decides_at=None if reading.at_level else reading.decides_at, excluded=0)


def deciding_interval(reading: Estimate, level: float = 0.95, *, is_own: bool | None = None) -> Interval | None:
    """Return `deciding_ends` where both are known."""
    low, high = deciding_ends(reading, level=level, is_own=is_own)
    return None if low is None or high is None else (low, high)


def mean_value(units: Units, values: Array, *, extremes: Extremes | None = None) -> Reading:
    """Mean of the values of the usable units, each from -1 to 1, with both intervals and bounds.

    The interval by cluster is that of the values (`value_interval`), never of zero width; the other one takes the mean
    as the share of what is above 0 less the share of what is below it.

    Args:
        units: The denominator.
        values: Of each unit; of an unusable one any.
        extremes: What each value would be with every lost call answered, at the least and at the most.
    """
    ends = mean_ends(extremes)
    reason = refuse(units, statistic="value")
    if reason is not None:
        return with_bounds(reason, units, ends)
    used = units.usable
    at_level = _value_at(units, np.where(used, values, np.nan))
    n, n_clusters = int(used.sum()), len(np.unique(units.clusters[used]))
    above, below = float(np.maximum(values[used], 0.0).mean()), float(np.maximum(-values[used], 0.0).mean())
    plain = newcombe(below, wilson_share(below, n), above, wilson_share(above, n), correlation=_apart(above, below))
    value = above - below
    return Estimate(
        value=value,
        n=n,
        excluded=int((~used).sum()),
        **intervals(plain, at_level(0.95)),
        n_clusters=n_clusters,
        method=interval_method("difference of two shares (square and add)", n_clusters, by_task="t of the values"),
        unit=units.unit,
        statistic="value",
        left_out=units.left_out,
        n_calls=units.n_calls,
        bound_low=min(ends[0], value) if ends else value,
        bound_high=max(ends[1], value) if ends else value,
        at_level=at_level,
        decides_at=_over_losses(units, at_level, extremes, _value_at),
    )


def mean_ends(extremes: Extremes | None) -> Interval | None:
    """Return the least and the greatest mean over all ways in which lost calls could have ended."""
    if extremes is None or not np.isfinite(extremes[0]).any():
        return None
    least, most = (float(np.nanmean(values)) for values in extremes)
    return least, most


def _apart(above: float, below: float) -> float:
    """Correlation of two shares of the same units of which a unit has only one."""
    spread = above * (1 - above) * below * (1 - below)
    # Where every unit has one of the two it is -1, and the last digit may fall beyond.
    return max(-1.0, -above * below / spread**0.5) if spread else 0.0


def estimate_difference(before: Estimate, after: Estimate, *, method: str, correlation: float = 0.0) -> Estimate:
    """Estimate `after - before` of two shares, their intervals squared and added (`newcombe`).

    The interval by cluster takes the `correlation` of the two shares over the clusters into account.
    """
    both = ((before.interval, after.interval, 0.0), (before.cluster_interval, after.cluster_interval, correlation))
    plain, clustered = (
        newcombe(before.value, a, after.value, b, correlation=together) if a and b else None for a, b, together in both
    )
    n_clusters = min(before.n_clusters, after.n_clusters)
    return Estimate(
        value=after.value - before.value,
        n=min(before.n, after.n),
        excluded=before.excluded + after.excluded,
        **intervals(plain, clustered),
        n_clusters=n_clusters,
        method=interval_method(method, n_clusters),
        unit=after.unit,
        at_level=partial(_difference_at, before, after, correlation),
    )


def counted_difference(before: Estimate, after: Estimate, *, method: str, counts: Sequence[Array]) -> Estimate:
    """Estimate `after - before` of two shares that have no call in common, with all that was left out and its bounds.

    `counts` are hits and sizes by cluster, of `before` and then of `after`.
    """
    bounds = difference_bounds(after, before)
    return replace(
        estimate_difference(before, after, method=method, correlation=share_correlation(*counts)),
        left_out={name: n + before.left_out.get(name, 0) for name, n in after.left_out.items()},
        bound_low=bounds.low if bounds else None,
        bound_high=bounds.high if bounds else None,
    )


def _difference_at(before: Estimate, after: Estimate, correlation: float, level: float) -> Interval | None:
    if before.at_level is None or after.at_level is None:
        return None
    a, b = before.at_level(level), after.at_level(level)
    return newcombe(before.value, a, after.value, b, correlation=correlation) if a and b else None


HULL = "hull of clustered Wilson and beta-binomial"
"""What the interval of a share by task is."""


def interval_method(plain: str, n_clusters: int, *, by_task: str = "clustered") -> str:
    """Name the intervals, and say when there are few clusters or only one."""
    if n_clusters < 2:
        return f"{plain}; one task, no clustered interval"
    few = f"; few tasks ({n_clusters})" if n_clusters < FEW_CLUSTERS else ""
    return f"{plain}; {by_task} by task{few}"


Statistics = Callable[[Array], Mapping[str, Array]]
"""Sums of features (resamples × features) to named values (one per resample); NaN where there is none."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Resampling:
    """How intervals are resampled: the same seed draws the same clusters for every statistic."""

    seed: int = 0
    n_resamples: int = 1000

    def __post_init__(self) -> None:
        if self.n_resamples < 1:
            raise ValueError(f"`n_resamples >= 1` must hold, but got {self.n_resamples}.")

    def intervals(self, statistics: Statistics, features: Array, clusters: Codes) -> dict[str, Interval | None]:
        """Return 95 % intervals over resamples of whole clusters; none with fewer than two, or without a width."""
        codes, inverse = np.unique(clusters, return_inverse=True)
        k = len(codes)
        if k < 2:
            return {}
        # Summed per cluster once: a resample is then a weighted sum of k rows, however many units there are.
        by_cluster = np.zeros((k, features.shape[1]))
        np.add.at(by_cluster, inverse, features)
        blocks = resampled_sums(by_cluster, n_resamples=self.n_resamples, seed=self.seed)
        pieces = [statistics(block) for block in blocks]
        return {
            name: percentile_interval(np.concatenate([piece[name] for piece in pieces]), n_clusters=k)
            for name in pieces[0]
        }


@dataclass(frozen=True, kw_only=True, slots=True)
class Sample:
    """The usable units of some values: what is summed, and in which clusters they stand."""

    units: Units
    """The denominator; its usable units are the rows of `features`."""
    features: Array
    items: Codes
    """Item of each usable unit."""

    def readings(
        self, values: Mapping[str, float | None], statistics: Statistics, resampling: Resampling, *, without: str
    ) -> dict[str, Reading]:
        """Give each value its intervals; `without` is the reason for those that are None."""
        sources = self.units.clusters[self.units.usable]
        by_source = resampling.intervals(statistics, self.features, sources)
        n_sources, n_items = len(np.unique(sources)), len(np.unique(self.items))
        # Items lie within sources, so as many of one as of the other are the same clusters.
        same = n_items == n_sources
        by_item = by_source if same else resampling.intervals(statistics, self.features, self.items)
        return {
            name: NotEstimable(reason=without, n=int(self.units.usable.sum()), statistic="value")
            if value is None
            else self._estimate(value, by_item.get(name), by_source.get(name), n_sources)
            for name, value in values.items()
        }

    def _estimate(self, value: float, by_item: Interval | None, by_source: Interval | None, n_sources: int) -> Estimate:
        method = interval_method("cluster bootstrap by item", n_sources)
        if by_source is None and n_sources > 1:
            method += "; no interval: the resamples do not differ, or too few have a value"
        return Estimate(
            value=value,
            n=int(self.units.usable.sum()),
            excluded=int((~self.units.usable).sum()),
            **intervals(by_item, by_source),
            n_clusters=n_sources,
            method=method,
            unit=self.units.unit,
            statistic="value",
            left_out=self.units.left_out,
        )


def mean_of_shares(sums: Array) -> dict[str, Array]:
    """Mean over tests of hits / units, from sums of the hits of every test and then of its units."""
    hits, sizes = np.hsplit(sums, 2)
    # A resample without a unit of some test has no mean over the same tests.
    whole = (sizes > 0).all(axis=1)
    return {"mean": np.where(whole, (hits / np.maximum(sizes, 1)).mean(axis=1), np.nan)}


def defined_ratio(numerator: Array, denominator: Array) -> Array:
    """Divide; NaN where the denominator is 0."""
    quotient: Array = np.full(np.broadcast(numerator, denominator).shape, np.nan)
    np.divide(numerator, denominator, out=quotient, where=denominator != 0)
    return quotient
