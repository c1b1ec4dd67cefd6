"""The axes of the Judge Datasheet (arXiv 2606.15610): one function per family, calls in, readings out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from scipy.special import ndtri

from jrh_mlflow.measures.calls import CallTable, PairTable, pair_table
from jrh_mlflow.schema.estimates import Estimate, NotEstimable, Reading
from jrh_mlflow.schema.items import DELTA_0_DIFFERENT, DELTA_0_SAME, FILLER, LADDER, NATURAL, VACUUM
from jrh_mlflow.scoring.ledger import estimate_share, interval_method, refuse, share
from jrh_mlflow.stats.psychometrics import band_crossing, crossing, crossing_interval, d_prime

Axes = dict[str, Reading]


def delta_key(delta: float) -> str:
    """Spell a ladder step: `delta_1`, `delta_0.5`."""
    return f"delta_{delta:g}"


def vacuum_axes(calls: CallTable) -> Axes:
    """Dark current: share of vacuum calls that prefer a side; tie and abstain are no preference."""
    vacuum = calls.where(np.isin(calls.condition, VACUUM))
    units = vacuum.units("vacuum calls")
    return {
        "dark_current": share(units, vacuum.prefers),
        "tie_rate/vacuum": share(units, vacuum.outcome == "tie"),
    }


def delta_0_axes(calls: CallTable) -> Axes:
    """RFP0 and its decomposition; RFP0 = SCS + PFP + OSC/2 + Other holds by the definition of Other."""
    same = calls.where(calls.condition == DELTA_0_SAME)
    units = same.units("delta_0_same calls")
    pairs = pair_table(same, "delta_0_same pairs")
    axes: Axes = {
        # "Not a tie" to the letter: an abstention counts here and comes back in `other_conflict`.
        "raw_false_preference": share(units, same.outcome != "tie"),
        "stable_cross_sensitivity": share(pairs.units, pairs.stable),
        "positional_false_preference": share(pairs.units, pairs.positional),
        "one_sided_commit": share(pairs.units, pairs.one_sided),
        "no_preference": share(pairs.units, pairs.no_preference),
        "tie_rate/delta_0_same": share(units, same.outcome == "tie"),
    }
    return {**axes, "other_conflict": _other_conflict(axes, pairs)}


def _other_conflict(axes: Mapping[str, Reading], pairs: PairTable) -> Reading:
    """Residual of the identity: half the abstentions per pair, and what excluded calls leave between calls and pairs.

    With every call usable it is a share of pairs counted by halves and takes that share's intervals; with excluded
    calls it can leave that share (even fall under 0), and the intervals are widened to hold it.
    """
    parts = [
        axes[name]
        for name in (
            "raw_false_preference",
            "stable_cross_sensitivity",
            "positional_false_preference",
            "one_sided_commit",
        )
    ]
    for part in parts:
        if isinstance(part, NotEstimable):
            return part
    raw, stable, positional, one_sided = (part.value for part in parts if isinstance(part, Estimate))
    residual = raw - stable - positional - one_sided / 2
    usable = pairs.units.usable
    halves = pairs.abstains[usable] / 2
    by_cluster = np.zeros(pairs.units.n_codes)
    np.add.at(by_cluster, pairs.units.clusters[usable], halves)
    base = estimate_share(
        pairs.units,
        k=float(halves.sum()),
        n=int(usable.sum()),
        by_cluster=by_cluster,
        sizes=pairs.units.sizes(usable),
    )
    if abs(residual - base.value) < 1e-9:
        return base
    return replace(
        base,
        value=residual,
        numerator=None,
        bound_low=None,
        bound_high=None,
        ci_low=_least(base.ci_low, residual),
        ci_high=_most(base.ci_high, residual),
        cluster_low=_least(base.cluster_low, residual),
        cluster_high=_most(base.cluster_high, residual),
        method=f"{base.method}; residual of calls against pairs, widened to hold it",
    )


def _least(end: float | None, value: float) -> float | None:
    return None if end is None else min(end, value)


def _most(end: float | None, value: float) -> float | None:
    return None if end is None else max(end, value)


def control_axes(calls: CallTable) -> Axes:
    """Filler and different-subset controls, reported alone and never pooled."""
    filler = calls.where(calls.condition == FILLER)
    different = calls.where(calls.condition == DELTA_0_DIFFERENT)
    return {
        # v is the padded content of a filler pair.
        "filler_preference": share(filler.units("filler calls"), filler.content == "v"),
        "different_subset_preference": share(different.units("delta_0_different calls"), different.prefers),
    }


def ladder_axes(calls: CallTable, *, seed: int, n_resamples: int) -> Axes:
    """Sensitivity, ties, wrong choices and d' at each step, and the 75 % threshold of the curve."""
    ladder = calls.where(calls.condition == LADDER)
    axes: Axes = {}
    for delta in np.unique(ladder.delta):
        step = ladder.where(ladder.delta == delta)
        key = delta_key(float(delta))
        units = step.units(f"ladder calls at {key}")
        axes[f"target_sensitivity/{key}"] = target = share(units, step.correct)
        axes[f"conditional_accuracy/{key}"] = share(units, step.correct, among=step.prefers)
        axes[f"tie_rate/{key}"] = ties = share(units, step.outcome == "tie")
        # A better content exists at every ladder step, so each of its ties is a miss.
        axes[f"miss_by_tie/{key}"] = ties
        axes[f"wrong_choice/{key}"] = share(units, step.prefers & ~step.correct)
        axes[f"d_prime/{key}"] = _d_prime(target)
    return {**axes, "threshold_75": _threshold(ladder, seed=seed, n_resamples=n_resamples)}


def _d_prime(target: Reading) -> Reading:
    """D' of the calls choosing the better content; intervals are those of the share, mapped by 2 z(p).

    A share's end at 0 or 1 has no finite d', so that end is None: open.
    """
    if isinstance(target, NotEstimable):
        return replace(target, statistic="value")

    def mapped(end: float | None) -> float | None:
        return None if end is None or end in (0.0, 1.0) else 2 * float(ndtri(end))

    assert target.numerator is not None
    total = target.n + target.excluded
    return replace(
        target,
        value=d_prime(target.numerator, target.n),
        ci_low=mapped(target.ci_low),
        ci_high=mapped(target.ci_high),
        cluster_low=mapped(target.cluster_low),
        cluster_high=mapped(target.cluster_high),
        # Counted, not mapped: with nothing left out both bounds are the value itself.
        bound_low=d_prime(target.numerator, total),
        bound_high=d_prime(target.numerator + target.excluded, total),
        method=f"{target.method}; ends mapped to d'",
        statistic="value",
    )


def _threshold(ladder: CallTable, *, seed: int, n_resamples: int) -> Reading:
    units = ladder.units("ladder calls")
    reason = refuse(units, statistic="value")
    if reason is not None:
        return reason
    steps = np.unique(ladder.delta[units.usable])
    if np.any(np.diff(steps) > 1):
        measured = ", ".join(f"{step:g}" for step in steps)
        return NotEstimable(reason=f"the curve has gaps: measured at delta {measured} only", statistic="value")
    shape = (ladder.n_tasks, len(steps))
    column = np.minimum(np.searchsorted(steps, ladder.delta), len(steps) - 1)
    n, correct = np.zeros(shape), np.zeros(shape)
    np.add.at(n, (ladder.task[units.usable], column[units.usable]), 1)
    hit = units.usable & ladder.correct
    np.add.at(correct, (ladder.task[hit], column[hit]), 1)
    lost = np.bincount(column[~units.usable], minlength=len(steps))
    present = n.sum(axis=1) > 0
    correct, n = correct[present], n[present]
    # Tasks are put in the order of their counts, so that their names cannot move the bootstrap.
    by_counts = np.lexsort(np.hstack([correct, n]).T)
    correct, n = correct[by_counts], n[by_counts]
    found = crossing(steps, correct.sum(axis=0), n.sum(axis=0))
    interval = crossing_interval(steps, correct, n, rng=np.random.default_rng(seed), n_resamples=n_resamples)
    ends = (interval.low, interval.high) if interval else (None, None)
    if ends[0] is not None and ends[0] == ends[1]:
        # Tasks that all agree leave nothing to resample; an interval of zero width would claim certainty.
        ends = band_crossing(steps, correct, n)
    # More right answers lower a threshold: its best case is the lower bound.
    best, worst = (
        crossing(steps, correct.sum(axis=0) + gained, n.sum(axis=0) + lost) for gained in (lost, np.zeros(len(steps)))
    )
    return Estimate(
        value=found.value,
        n=int(units.usable.sum()),
        excluded=int((~units.usable).sum()),
        ci_low=ends[0],
        ci_high=ends[1],
        cluster_low=ends[0],
        cluster_high=ends[1],
        n_clusters=int(present.sum()),
        method=interval_method("cluster bootstrap of the isotonic curve", int(present.sum())),
        unit="curve",
        statistic="value",
        left_out=units.left_out,
        bound_low=None if best.censored == "left" else best.value,
        bound_high=None if worst.censored == "right" else worst.value,
        censored=found.censored,
        censoring={"left": interval.left_share, "right": interval.right_share} if interval else {},
    )


def natural_axes(calls: CallTable) -> Axes:
    """Real pairs with a known better side: accuracy over calls, and how the two orders of a pair combine."""
    natural = calls.where(calls.condition == NATURAL)
    pairs = pair_table(natural, "natural pairs")
    right = pairs.contents[:, 0] == pairs.better
    return {
        "natural/accuracy": share(natural.units("natural calls"), natural.correct),
        "natural/stable_correct": share(pairs.units, pairs.stable & right),
        "natural/stable_wrong": share(pairs.units, pairs.stable & ~right),
        "natural/positional": share(pairs.units, pairs.positional),
        "natural/one_sided": share(pairs.units, pairs.one_sided),
        "natural/no_preference": share(pairs.units, pairs.no_preference),
    }
