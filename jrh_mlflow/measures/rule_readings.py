"""Numbers that rules are decided on: a difference to a baseline, the ends of an interval, counts by task, lost calls.

A difference is read on the calls that both judges were asked; its interval is made of the two judges' own, squared and
added, with the correlation of the two shares over the tasks where the axis is a share of calls, pairs or items, and
none (as if the judges had been asked on different tasks, which is wide where they err on the same) where it is anything
else.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from jrh_mlflow.measures import axes
from jrh_mlflow.measures.unit_scores import AxisUnits
from jrh_mlflow.schema.estimates import Ends, Estimate, NotEstimable, Reading, intervals
from jrh_mlflow.scoring.ledger import difference_bounds
from jrh_mlflow.stats import Array
from jrh_mlflow.stats.proportions import cluster_interval, newcombe, share_correlation
from jrh_mlflow.stats.psychometrics import decided_steps

D_PRIME = "d_prime/"
Counts = tuple[Array, Array]
"""Hits and units of a share, by task."""
StepCounts = Mapping[float, Counts]
"""Those behind a share or a d' stand under step 0; a threshold has some under every step of its curve."""


class JudgeReadings(Protocol):
    """What one judge read on one suite."""

    @property
    def readings(self) -> Mapping[str, Reading]:
        """Every axis that was measured."""

    @property
    def units(self) -> Mapping[str, AxisUnits]:
        """What every axis counts that is a mean over units."""


Judges = Sequence[JudgeReadings]
"""One, or a judge and the baseline that it is compared with."""


def axis_reading(judge: JudgeReadings, axis: str, *, where: str = "in this run") -> Reading:
    """Return what a judge reads on an axis."""
    return judge.readings.get(axis, NotEstimable(reason=f"not asked {where}"))


def paired_readings(judges: Judges, axis: str) -> tuple[Estimate, Estimate] | NotEstimable:
    """Return the readings of a judge and of its baseline; where one has no number, why."""
    after, before = (axis_reading(judge, axis, where="in calls that both runs have") for judge in judges)
    bounds = difference_bounds(after, before)
    for reading, name in ((after, "the judge"), (before, "the baseline")):
        if isinstance(reading, NotEstimable):
            return replace(reading, reason=f"{name}: {reading.reason}", bounds=bounds if reading.withheld else None)
    assert isinstance(after, Estimate)
    assert isinstance(before, Estimate)
    return after, before


def difference_reading(judges: Judges, axis: str) -> Reading:
    """Return the judge's reading minus the baseline's; censored where one of them is, and then without a number."""
    readings = paired_readings(judges, axis)
    if isinstance(readings, NotEstimable):
        return readings
    after, before = readings
    return replace(
        after,
        value=after.value - before.value,
        n=min(before.n, after.n),
        excluded=before.excluded + after.excluded,
        **intervals(None, _difference_ends(judges, readings, axis)),
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
    units, others = (judge.units.get(axis) for judge in judges)
    if units is not None and others is not None:
        return share_ends([units.task_counts, others.task_counts]) or (None, None)
    low, high = (_added_arms(after, before, side) for side in (-1, 1))
    return low, high


def _added_arms(after: Estimate, before: Estimate, side: int) -> float | None:
    """Return an end of a difference of two numbers that are taken as independent: their arms squared and added."""
    ends = (after.cluster_low, before.cluster_high) if side < 0 else (after.cluster_high, before.cluster_low)
    if ends[0] is None or ends[1] is None:
        return None
    return after.value - before.value + side * math.hypot(after.value - ends[0], before.value - ends[1])


def threshold_difference(after: Ends, before: Ends) -> Ends:
    """Return the ends of a difference of thresholds from the steps between which the two curves put them.

    They are at least 0 by definition: what is known of both adds up, with 2.5 % of error on a side each.
    """
    (low, high), (below, above) = after, before
    return None if above is None else (low or 0.0) - above, None if high is None else high - (below or 0.0)


def deciding_ends(reading: Estimate) -> Ends:
    """Return the interval that decides; of a threshold the steps between which the curve's intervals put it."""
    if reading.unit == "curve":
        return reading.not_reached_at, reading.reached_by
    return reading.cluster_low, reading.cluster_high


def is_threshold(axis: str) -> bool:
    """Whether an axis is where a curve over steps reaches a share: it is one of the steps, or beyond them."""
    declared = axes.find(axis)
    return declared is not None and declared.unit == "curve"


def share_ends(counts: Sequence[Counts]) -> Ends | None:
    """Return the interval by task of a share, or of the difference of the first to the second; None with one task."""
    ends = [cluster_interval(*each) for each in counts]
    if len(counts) == 1 or ends[0] is None or ends[1] is None:
        return ends[0]
    share, other = (float(hits.sum() / sizes.sum()) for hits, sizes in counts)
    return newcombe(other, ends[1], share, ends[0], correlation=share_correlation(*counts[1], *counts[0]))


def step_counts(judge: JudgeReadings, axis: str) -> dict[float, Counts]:
    """Return the counts behind a share or a d', or those of every step behind a threshold; nothing of other axes."""
    declared = axes.find(axis)
    if declared and is_threshold(axis):
        family = next(each.name for each in axes.AXES if each.curve and each.stimuli == declared.stimuli)
        names = {step: f"{family}/{axes.delta_key(step)}" for step in axes.by_step(judge.readings, family)}
    else:
        names = {0.0: axis.replace(D_PRIME, "target_sensitivity/", 1) if axis.startswith(D_PRIME) else axis}
    return {step: judge.units[name].task_counts for step, name in names.items() if name in judge.units}


def counted_ends(axis: str, *counts: StepCounts) -> Ends | None:
    """Return the ends of an axis from the counts behind it, or of the difference of the first to the second."""
    ends = {step: share_ends([each[step] for each in counts]) for step in counts[0]}
    if axis.startswith(D_PRIME):
        return None if ends[0.0] is None else axes.d_prime_ends(ends[0.0])
    if not is_threshold(axis):
        return ends[0.0]
    return decided_steps({step: each or (None, None) for step, each in ends.items()})


def lost_calls(axis: str, readings: Mapping[str, Reading]) -> tuple[int, int] | None:
    """Return how many calls of an axis gave no usable answer, and of how many; None where nothing was asked.

    Of a share among some of the calls (those that chose a side) it is all calls that were asked for it.
    """
    counts = [_lost_and_asked(readings[key]) for key in _asked_as(axis) if key in readings]
    known = [count for count in counts if count is not None]
    return (sum(lost for lost, _ in known), sum(asked for _, asked in known)) if known else None


def _asked_as(axis: str) -> list[str]:
    """Return the axes that were asked by the same calls and count all of them; of a gap the two that it is between."""
    declared = axes.find(axis)
    if declared is None or axis.startswith(axes.EXPECTED):
        return [axis]
    step = axis.removeprefix(declared.name)
    gap = declared.gap or (("target_sensitivity", "matched_sensitivity") if declared.name == "reading_gap" else None)
    if gap:
        return [f"{name}{step}" for name in gap]
    if declared.among is None:
        return [axis]
    whole = [
        other
        for other in axes.AXES
        if other.stimuli is declared.stimuli and other.hits and other.by_step == declared.by_step
    ]
    return [f"{other.name}{step}" for other in whole if other.among is None and other.unit == declared.unit][:1]


def _lost_and_asked(reading: Reading) -> tuple[int, int] | None:
    if isinstance(reading, NotEstimable):
        if reading.bounds is not None:
            return sum(reading.bounds.lost.values()), reading.bounds.asked
        asked = reading.n + reading.excluded
    else:
        asked = reading.n + reading.excluded if reading.n_calls is None else reading.n_calls
    return (sum(reading.left_out.values()), asked) if asked else None
