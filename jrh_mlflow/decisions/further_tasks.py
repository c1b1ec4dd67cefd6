"""How many further tasks that look like the present ones would decide a rule: the tasks repeated, and read again."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from jrh_mlflow.decisions.axis_readings import (
    Counts,
    Judges,
    axis_reading,
    deciding_ends,
    share_ends,
    state_of,
    threshold_difference,
)
from jrh_mlflow.decisions.judge_calls import JudgeCalls
from jrh_mlflow.measures import axes
from jrh_mlflow.measures.rules import Rule
from jrh_mlflow.schema.estimates import Ends, Estimate
from jrh_mlflow.stats import Codes
from jrh_mlflow.stats.psychometrics import decided_steps

MOST_TASKS = 20_000
MOST_ROWS = 10_000
"""Tasks that are counted, and calls that are measured, at most."""

_D_PRIME = "d_prime/"


def further_tasks(rule: Rule, judges: Judges, reading: Estimate) -> tuple[int | None, str]:
    """Say after how many more tasks an undecided rule would be decided, None where no number helps; and why it is not.

    A threshold has no number on the limit itself: it is reached by a step or not, and its ends may both be open yet.
    """
    low, high = deciding_ends(reading)
    inside, is_threshold = _open_text(rule, reading), _is_threshold(rule.axis)
    facing = low if reading.value > rule.limit else high
    if low is None and high is None and not is_threshold:
        return None, "there is no interval by task"
    if reading.value == rule.limit and not is_threshold:
        return None, f"{inside}, and the estimate on the limit itself: no number of tasks helps"
    if facing is None and not is_threshold:
        return None, f"{inside}, which is open on the side of the limit"
    found = _by_counts(rule, judges, reading) or _by_calls(rule, judges, reading)
    if found.needed is None:
        return None, f"{inside}; {found.most - found.present:,} further tasks like these would not decide it"
    return found.needed - found.present, inside


def _open_text(rule: Rule, reading: Estimate) -> str:
    """Say what is known of an undecided reading."""
    low, high = deciding_ends(reading)
    if not _is_threshold(rule.axis):
        ends = ", ".join("–" if end is None else f"{end:.4g}" for end in (low, high))
        return f"the limit lies within its interval [{ends}]"
    over = ("over", "at most") if reading.unit == "curve" else ("at least", "at most")
    known = [f"{word} {end:g}" for word, end in zip(over, (low, high), strict=True) if end is not None]
    told = f"only that it is {' and '.join(known)}" if known else "nothing of it"
    return f"the intervals at the steps of the curve decide {told}"


def _is_threshold(axis: str) -> bool:
    declared = axes.find(axis)
    return declared is not None and declared.unit == "curve"


@dataclass(frozen=True, kw_only=True, slots=True)
class _TaskSearch:
    """How many tasks like the present ones would decide a rule."""

    present: int
    most: int
    """That were looked at."""
    needed: int | None


def _by_counts(rule: Rule, judges: Judges, reading: Estimate) -> _TaskSearch | None:
    """Repeat the counts of a share, or of the shares of a curve; None for what is made of anything else."""
    if len(judges) > 1 and rule.axis.startswith(_D_PRIME):
        return None
    counted, n_tasks = [_step_counts(judge, rule.axis) for judge in judges], len(judges[0].tasks)

    def ends_of(picked: Codes) -> Ends | None:
        taken = [{step: (hits[picked], sizes[picked]) for step, (hits, sizes) in each.items()} for each in counted]
        if len(judges) > 1 and _is_threshold(rule.axis):
            after, before = (_counted_ends(rule.axis, [one]) or (None, None) for one in taken)
            return threshold_difference(after, before)
        return _counted_ends(rule.axis, taken)

    if not counted[0] or {*counted[0]} != {*counted[-1]} or ends_of(np.arange(n_tasks)) != deciding_ends(reading):
        return None

    def is_decided(wanted: int) -> bool:
        ends = ends_of(np.repeat(np.arange(n_tasks), _times(n_tasks, wanted)))
        return ends is not None and state_of(rule, reading, ends) != "undecided"

    times, guess = MOST_TASKS // n_tasks, _times_wider(rule, reading)
    needed = tasks_needed(is_decided, n_tasks, most=times, guess=2 if guess is None else math.ceil(guess))
    return _TaskSearch(present=n_tasks, most=times * n_tasks, needed=needed)


def _step_counts(judge: JudgeCalls, axis: str) -> dict[float, Counts]:
    """Return the counts behind a share or a d', under step 0, or those of every step behind a threshold."""
    declared = axes.find(axis)
    if declared and _is_threshold(axis):
        family = next(one.name for one in axes.AXES if one.curve and one.stimuli == declared.stimuli)
        names = {step: f"{family}/{axes.delta_key(step)}" for step in axes.by_step(judge.readings, family)}
    else:
        names = {0.0: axis.replace(_D_PRIME, "target_sensitivity/", 1) if axis.startswith(_D_PRIME) else axis}
    return {step: judge.units[name].task_counts for step, name in names.items() if name in judge.units}


def _counted_ends(axis: str, counted: Sequence[Mapping[float, Counts]]) -> Ends | None:
    """Return the ends of an axis, or of a difference, from the counts behind it."""
    ends = {step: share_ends([each[step] for each in counted]) for step in counted[0]}
    if axis.startswith(_D_PRIME):
        return None if ends[0.0] is None else axes.d_prime_ends(ends[0.0])
    if not _is_threshold(axis):
        return ends[0.0]
    return decided_steps({step: each or (None, None) for step, each in ends.items()})


def _by_calls(rule: Rule, judges: Judges, reading: Estimate) -> _TaskSearch:
    """Repeat the calls themselves, twice, four times, …, and measure them again: for what is more than a share.

    Every rule looks at the same repeats, so that each is measured once. Between the last that does not decide and the
    first that does, the interval is taken to shrink with the root of the number of tasks.
    """
    n_tasks, most = len(judges[0].tasks), max(2, MOST_ROWS // len(judges[0].calls))
    times, wider = 1, _times_wider(rule, reading)
    # Measuring takes its time: what the width of the interval puts far beyond reach is not looked at.
    while times < most and (wider is None or wider * times <= 2 * most):
        more = min(2 * times, most)
        found = axis_reading(tuple(judge.repeated(more) for judge in judges), rule.axis)
        if isinstance(found, Estimate) and state_of(rule, found) != "undecided":
            needed = more * n_tasks if wider is None else math.ceil(wider * times * n_tasks)
            needed = min(max(needed, times * n_tasks + 1), more * n_tasks)
            return _TaskSearch(present=n_tasks, most=most * n_tasks, needed=needed)
        times, wider = more, _times_wider(rule, found) if isinstance(found, Estimate) else None
    return _TaskSearch(present=n_tasks, most=most * n_tasks, needed=None)


def _times_wider(rule: Rule, reading: Estimate) -> float | None:
    """Return how many times as many tasks an interval needs that shrinks with their root; None where it has no end."""
    end = reading.cluster_low if reading.value > rule.limit else reading.cluster_high
    if end is None or _is_threshold(rule.axis) or reading.value == rule.limit:
        return None
    return ((end - reading.value) / (rule.limit - reading.value)) ** 2


def _times(n_tasks: int, wanted: int) -> Codes:
    """Return how often each task is taken: as often as any other; a rest lies evenly among them.

    Example:
        >>> _times(4, 10).tolist()
        [2, 3, 2, 3]
    """
    return np.bincount((np.arange(wanted) * n_tasks + n_tasks // 2) // wanted, minlength=n_tasks)


def tasks_needed(
    is_decided: Callable[[int], bool], n_tasks: int, *, most: int, guess: int, whole: bool = False
) -> int | None:
    """Return the fewest tasks that decide, where `n_tasks` do not; None where `most` times as many do not.

    Whole repeats of all tasks are looked at first: part of them may look better or worse than all.

    Args:
        is_decided: Of a number of tasks.
        n_tasks: The present ones.
        most: Repeats to look at.
        guess: Repeats to begin with.
        whole: Look at whole repeats only.

    Example:
        >>> tasks_needed(lambda n: n >= 37, 10, most=64, guess=2)
        37
    """
    is_decided = cache(is_decided)
    low, high = 1, min(max(2, guess), most)
    while not is_decided(high * n_tasks):
        if high >= most:
            return None
        low, high = high, min(2 * high, most)
    high = _first(lambda times: is_decided(times * n_tasks), low, high)
    return high * n_tasks if whole else _first(is_decided, (high - 1) * n_tasks, high * n_tasks)


def _first(holds: Callable[[int], bool], low: int, high: int) -> int:
    """Bisect between a number that does not and one that does."""
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high
