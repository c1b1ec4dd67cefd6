"""Axes that are no plain share: residual of false preference, d', threshold of a curve, difference of two axes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import ndtri

from jrh_mlflow.measures.calls import CallTable, pair_table
from jrh_mlflow.schema.estimates import Estimate, NotEstimable, Reading, intervals
from jrh_mlflow.scoring.ledger import estimate_share, interval_method, refuse
from jrh_mlflow.scoring.values import Resampling
from jrh_mlflow.stats import Array, Mask
from jrh_mlflow.stats.proportions import newcombe
from jrh_mlflow.stats.psychometrics import band_crossing, crossing, crossing_interval, d_prime


@dataclass(frozen=True, kw_only=True, slots=True)
class Basis:
    """What a derived axis is made from."""

    calls: CallTable
    """Those of its stimuli; of one step where it is read step by step."""
    what: str
    """What they are, for reasons: `ladder calls`."""
    found: Mapping[str, Reading]
    """Axis, without its step, to the reading: of the same step, or of no step."""
    resampling: Resampling

    def reading(self, axis: str) -> Reading:
        """Return what an axis reads here, or that it has no reading: other stimuli may have other steps."""
        return self.found.get(axis) or NotEstimable(reason=f"{axis} was not measured at this step")


def other_conflict(basis: Basis) -> Reading:
    """Residual of RFP0 = SCS + PFP + OSC/2 + Other: half the abstentions per pair, and what excluded calls leave.

    With every call usable it is a share of pairs counted by halves and takes that share's intervals; with excluded
    calls it can leave that share (even fall under 0), and the intervals are widened to hold it.
    """
    names = ("raw_false_preference", "stable_cross_sensitivity", "positional_false_preference", "one_sided_commit")
    parts = [basis.reading(name) for name in names]
    for part in parts:
        if isinstance(part, NotEstimable):
            return part
    raw, stable, positional, one_sided = (part.value for part in parts if isinstance(part, Estimate))
    residual = raw - stable - positional - one_sided / 2
    pairs = pair_table(basis.calls)
    units = pairs.units(basis.what)
    first, second, _ = pairs.seen
    halves = ((first == "abstain").astype(float) + (second == "abstain"))[units.usable] / 2
    by_cluster = np.zeros(units.n_codes)
    np.add.at(by_cluster, units.clusters[units.usable], halves)
    base = estimate_share(
        units, k=float(halves.sum()), n=len(halves), by_cluster=by_cluster, sizes=units.sizes(units.usable)
    )
    if abs(residual - base.value) < 1e-9:
        return base
    both = (base.interval, base.cluster_interval)
    return replace(
        base,
        value=residual,
        numerator=None,
        bound_low=None,
        bound_high=None,
        **intervals(*(ends and (min(ends[0], residual), max(ends[1], residual)) for ends in both)),
        method=f"{base.method}; residual of calls against pairs, widened to hold it",
    )


def d_prime_of(target: Reading) -> Reading:
    """D' of the calls choosing the better content; intervals are those of the share, mapped by 2 z(p).

    A share's end at 0 or 1 has no finite d', so that end is None: open.
    """
    if isinstance(target, NotEstimable):
        return target

    def mapped(end: float | None) -> float | None:
        return None if end is None or end in (0.0, 1.0) else 2 * float(ndtri(end))

    assert target.numerator is not None
    total = target.n + target.excluded
    return replace(
        target,
        value=d_prime(target.numerator, target.n),
        **intervals(
            (mapped(target.ci_low), mapped(target.ci_high)), (mapped(target.cluster_low), mapped(target.cluster_high))
        ),
        # Counted, not mapped: with nothing left out both bounds are the value itself.
        bound_low=d_prime(target.numerator, total),
        bound_high=d_prime(target.numerator + target.excluded, total),
        method=f"{target.method}; ends mapped to d'",
    )


def threshold(basis: Basis, *, target: float = 0.75) -> Reading:
    """Smallest step at which the isotonic curve of choosing the better content reaches `target`."""
    units = basis.calls.units(basis.what)
    reason = refuse(units)
    if reason is not None:
        return reason
    steps = np.unique(basis.calls.delta[units.usable])
    if np.any(np.diff(steps) > 1):
        measured = ", ".join(f"{step:g}" for step in steps)
        return NotEstimable(reason=f"the curve has gaps: measured at delta {measured} only")
    correct, n, lost = _step_counts(basis.calls, units.usable, steps)
    found = crossing(steps, correct.sum(axis=0), n.sum(axis=0), target=target)
    rng, n_resamples = np.random.default_rng(basis.resampling.seed), basis.resampling.n_resamples
    resampled = crossing_interval(steps, correct, n, rng=rng, target=target, n_resamples=n_resamples)
    ends = (resampled.low, resampled.high) if resampled else (None, None)
    if ends[0] is not None and ends[0] == ends[1]:
        # Tasks that all agree leave nothing to resample; an interval of zero width would claim certainty.
        ends = band_crossing(steps, correct, n, target=target)
    # More right answers lower a threshold: its best case is the lower bound.
    best, worst = (
        crossing(steps, correct.sum(axis=0) + gained, n.sum(axis=0) + lost, target=target)
        for gained in (lost, np.zeros(len(steps)))
    )
    return Estimate(
        value=found.value,
        n=int(units.usable.sum()),
        excluded=int((~units.usable).sum()),
        **intervals(ends, ends),
        n_clusters=len(n),
        method=interval_method("cluster bootstrap of the isotonic curve", len(n)),
        unit="curve",
        left_out=units.left_out,
        bound_low=None if best.censored == "left" else best.value,
        bound_high=None if worst.censored == "right" else worst.value,
        censored=found.censored,
        censoring={"left": resampled.left_share, "right": resampled.right_share} if resampled else {},
    )


def _step_counts(ladder: CallTable, usable: Mask, steps: Array) -> tuple[Array, Array, Array]:
    """Count right choices and usable calls, tasks × steps, and unusable calls by step."""
    column = np.minimum(np.searchsorted(steps, ladder.delta), len(steps) - 1)
    hits = usable & (ladder.choice == ladder.better)
    correct, n = np.zeros((2, ladder.n_tasks, len(steps)))
    np.add.at(correct, (ladder.task[hits], column[hits]), 1)
    np.add.at(n, (ladder.task[usable], column[usable]), 1)
    # Tasks are put in the order of their counts, so that their names cannot move the bootstrap.
    order = np.lexsort(np.hstack([correct, n]).T)
    order = order[n[order].sum(axis=1) > 0]
    return correct[order], n[order], np.bincount(column[~usable], minlength=len(steps)).astype(float)


def difference(before: Reading, after: Reading, *, sides: tuple[str, str] = ("base arm", "other arm")) -> Reading:
    """Return `after - before` of two shares, with intervals from theirs (Newcombe), or why there is none."""
    for side, reading in zip(sides, (before, after), strict=True):
        if isinstance(reading, NotEstimable):
            reason = f"{side}: {reading.reason}"
            return NotEstimable(reason=reason, withheld=reading.withheld, statistic="value")
    assert isinstance(before, Estimate)
    assert isinstance(after, Estimate)
    both = ((before.interval, after.interval), (before.cluster_interval, after.cluster_interval))
    plain, clustered = (newcombe(before.value, a, after.value, b) if a and b else None for a, b in both)
    n_clusters = min(before.n_clusters, after.n_clusters)
    return Estimate(
        value=after.value - before.value,
        n=min(before.n, after.n),
        excluded=before.excluded + after.excluded,
        **intervals(plain, clustered),
        n_clusters=n_clusters,
        method=interval_method("Newcombe difference of Wilson intervals", n_clusters),
        unit=after.unit,
        statistic="value",
    )
