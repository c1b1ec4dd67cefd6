"""What decides a rule about an axis: a judge's reading, or its difference to a baseline's, and the ends of either.

A difference is read on the calls that both judges were asked; its interval is made of the two judges' own, squared and
added, with the correlation of the two shares over the tasks where the axis is a share of calls, pairs or items, and
none (as if the judges had been asked on different tasks, which is wide where they err on the same) where it is anything
else.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from jrh_mlflow.decisions.judge_calls import JudgeCalls
from jrh_mlflow.measures.records import common_calls, normalise, shared_calls
from jrh_mlflow.measures.rules import Rule, State, decide
from jrh_mlflow.schema.estimates import Ends, Estimate, NotEstimable, Reading, intervals
from jrh_mlflow.scoring.ledger import difference_bounds
from jrh_mlflow.stats import Array
from jrh_mlflow.stats.proportions import cluster_interval, newcombe, share_correlation

Judges = tuple[JudgeCalls, ...]
"""One, or a judge and the baseline that it is compared with."""


def paired(judge: JudgeCalls, baseline: JudgeCalls) -> Judges:
    """Return both judges on the calls that both were asked; nobody where there is none."""
    frames = {"judge": normalise(judge.calls), "baseline": normalise(baseline.calls)}
    if common_calls(frames).empty:
        return ()
    calls = shared_calls(frames)
    baseline = baseline if baseline.metric == judge.metric else replace(baseline, metric=judge.metric)
    # What is measured already need not be measured again.
    return tuple(
        one if len(one.calls) == len(calls[name]) else replace(one, calls=calls[name])
        for name, one in (("judge", judge), ("baseline", baseline))
    )


def axis_reading(judges: Judges, axis: str) -> Reading:
    """Read an axis of one judge, or the difference of the first to the second."""
    where = "in this run" if len(judges) == 1 else "in calls that both runs have"
    readings = [judge.readings.get(axis, NotEstimable(reason=f"not asked {where}")) for judge in judges]
    return readings[0] if len(readings) == 1 else _difference(judges, readings, axis)


def deciding_ends(reading: Estimate) -> Ends:
    """Return the interval that decides; of a threshold the steps between which the curve's intervals put it."""
    if reading.unit == "curve":
        return reading.not_reached_at, reading.reached_by
    return reading.cluster_low, reading.cluster_high


def state_of(rule: Rule, reading: Estimate, ends: Ends | None = None) -> State:
    """Say what a reading decides, by its own ends or by others."""
    low, high = ends or deciding_ends(reading)
    if reading.unit == "curve" and low is not None:
        # Not reached at a step is over that step.
        low = math.nextafter(low, math.inf)
    return decide(rule, low, high)


def _difference(judges: Judges, readings: Sequence[Reading], axis: str) -> Reading:
    """Return the judge's reading minus the baseline's; censored where one of them is, and then without a number."""
    bounds = difference_bounds(readings[0], readings[1])
    for reading, name in zip(readings, ("the judge", "the baseline"), strict=True):
        if isinstance(reading, NotEstimable):
            return replace(reading, reason=f"{name}: {reading.reason}", bounds=bounds if reading.withheld else None)
    after, before = (reading for reading in readings if isinstance(reading, Estimate))
    return replace(
        after,
        value=after.value - before.value,
        n=min(before.n, after.n),
        excluded=before.excluded + after.excluded,
        **intervals(None, _difference_ends(judges, (after, before), axis)),
        n_clusters=min(before.n_clusters, after.n_clusters),
        unit="item" if after.unit == "curve" else after.unit,
        statistic="value",
        censored=after.censored or before.censored,
    )


def _difference_ends(judges: Judges, readings: tuple[Estimate, Estimate], axis: str) -> Ends:
    """Return the interval of a difference; an end that one of the two does not have is open."""
    after, before = readings
    if after.unit == "curve":
        return threshold_difference(deciding_ends(after), deciding_ends(before))
    units = [judge.units.get(axis) for judge in judges]
    if units[0] is not None and units[1] is not None:
        return share_ends([units[0].task_counts, units[1].task_counts]) or (None, None)
    low, high = ((_longer(after, before, side)) for side in (-1, 1))
    return low, high


def threshold_difference(after: Ends, before: Ends) -> Ends:
    """Return the ends of a difference of thresholds from the steps between which the two curves put them.

    They are at least 0 by definition: what is known of both adds up, with 2.5 % of error on a side each.
    """
    (low, high), (below, above) = after, before
    return None if above is None else (low or 0.0) - above, None if high is None else high - (below or 0.0)


def _longer(after: Estimate, before: Estimate, side: int) -> float | None:
    """Return an end of a difference of two numbers that are taken as independent: their arms squared and added."""
    ends = (after.cluster_low, before.cluster_high) if side < 0 else (after.cluster_high, before.cluster_low)
    if ends[0] is None or ends[1] is None:
        return None
    return after.value - before.value + side * math.hypot(after.value - ends[0], before.value - ends[1])


Counts = tuple[Array, Array]
"""Hits and units of a share, by task."""


def share_ends(counts: Sequence[Counts]) -> Ends | None:
    """Return the interval by task of a share, or of the difference of the first to the second; None with one task."""
    ends = [cluster_interval(*each) for each in counts]
    if len(counts) == 1 or ends[0] is None or ends[1] is None:
        return ends[0]
    share, other = (float(hits.sum() / sizes.sum()) for hits, sizes in counts)
    return newcombe(other, ends[1], share, ends[0], correlation=share_correlation(*counts[1], *counts[0]))
