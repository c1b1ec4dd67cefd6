"""What rules come to on the calls of a judge: readings, differences to a baseline, facts, and what would decide.

An axis decides by the ends of its interval by task. A difference to a baseline is read on the calls that both judges
were asked; its interval is made of the two judges' own, squared and added, with the correlation of the two shares over
the tasks where the axis is a share of calls, pairs or items, and none (as if the judges had been asked on different
tasks, which is wide where they err on the same) where it is anything else.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property

import numpy as np
import pandas as pd

from jrh_mlflow.measures import axes
from jrh_mlflow.measures.levels import level_table
from jrh_mlflow.measures.records import call_table, has_levels, is_pointwise, normalise, pair_table
from jrh_mlflow.measures.rules import Rule, RuleCheck, State, decide, known
from jrh_mlflow.measures.unit_scores import unit_scores
from jrh_mlflow.perturb import expectation_of
from jrh_mlflow.results import ReliabilityReport
from jrh_mlflow.results.comparison import shared_calls
from jrh_mlflow.results.measure import Report, categorised, measure
from jrh_mlflow.schema.estimates import Ends, Estimate, NotEstimable, Reading, intervals
from jrh_mlflow.schema.items import BASELINE
from jrh_mlflow.scoring.bounds import difference_bounds
from jrh_mlflow.scoring.ledger import interval_method
from jrh_mlflow.stats import Array, Codes
from jrh_mlflow.stats.proportions import cluster_interval, collapse_replicates, newcombe, share_correlation
from jrh_mlflow.stats.psychometrics import decided_steps
from jrh_mlflow.tracking import keys

MOST_TASKS = 20_000
MOST_ROWS = 10_000
"""Tasks that are counted, and calls that are measured, at most to say how many further tasks would decide."""

_D_PRIME = "d_prime/"


@dataclass(frozen=True, kw_only=True)
class JudgeCalls:
    """The calls of one judge on one suite, and how its run reads them."""

    calls: pd.DataFrame
    labels: Sequence[str] | None = None
    groups: Mapping[str, str] | None = None
    """Item to its category."""
    seed: int = 0
    metric: str | None = None

    @cached_property
    def report(self) -> Report:
        """What the run measured."""
        report = measure(self.calls, seed=self.seed, labels=self.labels, metric=self.metric)
        return categorised(report, self.calls, self.groups or {}, seed=self.seed)

    @cached_property
    def readings(self) -> dict[str, Reading]:
        """Every axis that a rule can name."""
        found = keys.sheet_readings(self.report)
        if isinstance(self.report, ReliabilityReport):
            found[keys.RELIABILITY_MEAN] = _mean_reading(self.report)
        return found

    @property
    def tasks(self) -> list[str]:
        """Names of the tasks, or of the sources."""
        return sorted(set(self.calls["task"]))

    def only(self, mask: pd.Series) -> JudgeCalls:
        """Return some of the calls."""
        return replace(self, calls=self.calls[mask])

    def repeated(self, n_tasks: int) -> JudgeCalls:
        """Return calls on `n_tasks` tasks that look like the present ones."""
        times = dict(zip(self.tasks, _times(len(self.tasks), n_tasks).tolist(), strict=True))
        copies = []
        for nth in range(max(times.values())):
            copy = self.calls[self.calls["task"].map(times) > nth]
            # A copy is a task of its own, with items of its own.
            copies.append(copy.assign(**{name: copy[name] + f"~{nth}" for name in ("task", "suite_item")}))
        calls = pd.concat(copies, ignore_index=True)
        groups = self.groups and {name: self.groups.get(name.rpartition("~")[0], "") for name in calls["suite_item"]}
        return replace(self, calls=calls, groups=groups)


def check_rules(
    rules: Sequence[Rule],
    judge: JudgeCalls,
    *,
    baseline: JudgeCalls | None = None,
    costs: Mapping[str, Ends | None] | None = None,
) -> tuple[RuleCheck, ...]:
    """Check every rule.

    Args:
        rules: As they were written.
        judge: Whom they are about.
        baseline: The judge that rules of the form `AXIS - baseline` compare with.
        costs: Key to what is known of the cost: both ends, one of them, or nothing.

    Raises:
        RecipeError: when a rule is about something that does not exist, with the nearest name.
    """
    costs = costs or {}
    for rule in rules:
        known(rule, judge.readings, costs=costs)
    pair = None if baseline is None else _paired(judge, baseline)
    return tuple(_check(rule, judge, pair, costs) for rule in rules)


def _check(
    rule: Rule, judge: JudgeCalls, pair: tuple[JudgeCalls, JudgeCalls] | None, costs: Mapping[str, Ends | None]
) -> RuleCheck:
    if rule.kind == "cost":
        return _cost_check(rule, costs[rule.axis])
    if rule.kind == "excluded":
        return _excluded_check(rule, judge.readings)
    judges = (judge,) if rule.kind == "axis" else pair
    assert judges is not None
    return _interval_check(rule, judges)


def _interval_check(rule: Rule, judges: tuple[JudgeCalls, ...]) -> RuleCheck:
    """Decide by an interval; where that is not enough, say how many further tasks like these would be."""
    reading = _reading(judges, rule.axis)
    if isinstance(reading, NotEstimable):
        ends = (reading.bounds.low, reading.bounds.high) if reading.bounds else (None, None)
        why = f"withheld: {reading.reason}" if reading.withheld else f"no number: {reading.reason}"
        return RuleCheck(
            rule=rule, state="undecided", estimate=None, low=ends[0], high=ends[1], reason=why, n=reading.n
        )
    state = _state(rule, reading)
    low, high = _ends(reading)
    undecided = state == "undecided"
    further, why = _further(rule, judges, reading) if undecided else (0, _decided_by(rule, state, low, high))
    return RuleCheck(
        rule=rule,
        state=state,
        estimate=reading.value,
        low=low,
        high=high,
        reason=why,
        further_tasks=further,
        n=reading.n,
        n_clusters=reading.n_clusters,
    )


def _reading(judges: tuple[JudgeCalls, ...], axis: str) -> Reading:
    """Read an axis of one judge, or the difference of the first to the second."""
    readings = [judge.readings.get(axis, NotEstimable(reason=f"no calls behind {axis}")) for judge in judges]
    return readings[0] if len(readings) == 1 else _difference(judges, readings, axis)


def _ends(reading: Estimate) -> Ends:
    """Return the interval that decides; of a threshold the steps between which the curve's intervals put it."""
    if reading.unit == "curve":
        return reading.not_reached_at, reading.reached_by
    return reading.cluster_low, reading.cluster_high


def _state(rule: Rule, reading: Estimate) -> State:
    return _decide(rule, reading, _ends(reading))


def _decide(rule: Rule, reading: Estimate, ends: Ends) -> State:
    low, high = ends
    if reading.unit == "curve" and low is not None:
        # Not reached at a step is over that step.
        low = math.nextafter(low, math.inf)
    return decide(rule, low, high)


def _decided_by(rule: Rule, state: State, low: float | None, high: float | None) -> str:
    upper = (state == "holds") == (rule.op in ("<=", "<"))
    end, name = (high, "upper") if upper else (low, "lower")
    return f"the {name} end of its interval is {end:.4g}"


def _mean_reading(report: ReliabilityReport) -> Reading:
    """Return the mean over tests; it says nothing where a test is withheld, which it would leave out."""
    held = {test: one for test, one in report.scores.items() if isinstance(one, NotEstimable) and one.withheld}
    if held:
        return NotEstimable(reason=f"the mean over tests would leave out {', '.join(held)}: withheld", withheld=True)
    mean, low, high = (report.summary[name] for name in ("mean", "mean_ci_low", "mean_ci_high"))
    tests = [one for one in report.scores.values() if isinstance(one, Estimate)]
    if mean is None:
        return NotEstimable(reason="no test has a number")
    ends = [one.cluster_interval for one in tests if one.cluster_interval]
    if low is None and len(ends) == len(tests):
        # No resample differs: as wide as if all tests went up and down together.
        low, high = (float(end) for end in np.mean(ends, axis=0))
    n_clusters = max(one.n_clusters for one in tests)
    return Estimate(
        value=mean,
        n=sum(one.n for one in tests),
        excluded=sum(one.excluded for one in tests),
        **intervals(None, (low, high)),
        n_clusters=n_clusters,
        method=interval_method("mean over tests", n_clusters),
        unit="item",
    )


def _paired(judge: JudgeCalls, baseline: JudgeCalls) -> tuple[JudgeCalls, JudgeCalls]:
    """Return both judges on the calls that both were asked."""
    calls = shared_calls({"judge": normalise(judge.calls), "baseline": normalise(baseline.calls)})
    return replace(judge, calls=calls["judge"]), replace(baseline, calls=calls["baseline"], metric=judge.metric)


def _difference(judges: tuple[JudgeCalls, ...], readings: Sequence[Reading], axis: str) -> Reading:
    """Return the judge's reading minus the baseline's."""
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
    )


def _difference_ends(judges: tuple[JudgeCalls, ...], readings: tuple[Estimate, Estimate], axis: str) -> Ends:
    """Return the interval of a difference; an end that one of the two does not have is open.

    Thresholds lie between the steps that their curves decide, and are at least 0 by definition: what is known of both
    adds up, with 2.5 % of error on a side each.
    """
    after, before = readings
    if after.unit == "curve":
        (low, high), (below, above) = _ends(after), _ends(before)
        return None if above is None else (low or 0.0) - above, None if high is None else high - (below or 0.0)
    counts = [_task_counts(judge, axis) for judge in judges]
    if counts[0] is not None and counts[1] is not None:
        return share_ends([counts[0], counts[1]]) or (None, None)
    low, high = ((_longer(after, before, side)) for side in (-1, 1))
    return low, high


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


def _task_counts(judge: JudgeCalls, axis: str) -> Counts | None:
    """Return hits and units of a share by task, tasks in the order of their names; None of what is no plain share."""
    frame = normalise(judge.calls)
    if not is_pointwise(frame):
        return _pair_counts(frame, axis)
    return _level_counts(judge, frame, axis) if has_levels(frame) else _test_counts(judge, frame, axis)


def _pair_counts(frame: pd.DataFrame, axis: str) -> Counts | None:
    declared, table = axes.find(axis), call_table(frame)
    if declared is None or declared.hits is None or axis.startswith(axes.EXPECTED):
        return None
    calls = table.where(declared.where(table.condition, table.delta)[axis])
    shown = pair_table(calls) if declared.unit == "pair" else calls
    units, hits = shown.units(""), np.asarray(declared.hits(*shown.seen), float)
    used = units.usable if declared.among is None else units.usable & declared.among(*shown.seen)
    asked = np.arange(len(used)) if units.presentations is None else units.presentations
    return collapse_replicates(hits[used], asked[used], units.clusters[used], n_clusters=units.n_codes)


def _level_counts(judge: JudgeCalls, frame: pd.DataFrame, axis: str) -> Counts | None:
    declared = axes.find(axis)
    units = declared and declared.counted(level_table(frame, labels=judge.labels)).get(axis)
    if not units:
        return None
    used = np.isfinite(units.score)
    asked = np.arange(len(used)) if units.presentation is None else units.presentation
    return collapse_replicates(units.score[used], asked[used], units.task[used], n_clusters=len(judge.tasks))


def _test_counts(judge: JudgeCalls, frame: pd.DataFrame, axis: str) -> Counts | None:
    """Count what stands for a reliability test."""
    test, _, statistic = axis.partition("/")
    scores = unit_scores(frame, labels=judge.labels)
    own = scores[scores["axis"] == test].dropna(subset="score")
    if own.empty or expectation_of(test).statistic != statistic:
        return None
    places = {task: place for place, task in enumerate(judge.tasks)}
    shown, cluster = own["presentation"].factorize()[0], own["cluster"].map(places).to_numpy()
    return collapse_replicates(own["score"].to_numpy(float), shown, cluster, n_clusters=len(places))


def _step_counts(judge: JudgeCalls, axis: str) -> dict[float, Counts]:
    """Return the counts behind a share or a d', under step 0, or those of every step behind a threshold."""
    declared = axes.find(axis)
    if declared is not None and declared.unit == "curve":
        family = next(one.name for one in axes.AXES if one.curve and one.stimuli == declared.stimuli)
        names = {step: f"{family}/{axes.delta_key(step)}" for step in axes.by_step(judge.readings, family)}
    else:
        names = {0.0: axis.replace(_D_PRIME, "target_sensitivity/", 1) if axis.startswith(_D_PRIME) else axis}
    found = {step: _task_counts(judge, name) for step, name in names.items()}
    return {step: counts for step, counts in found.items() if counts is not None}


def _combined(axis: str, ends: Mapping[float, Ends | None]) -> Ends | None:
    """Return the ends of an axis from those of the shares behind it."""
    if axis.startswith(_D_PRIME):
        return None if ends[0.0] is None else axes.d_prime_ends(ends[0.0])
    declared = axes.find(axis)
    if declared is None or declared.unit != "curve":
        return ends[0.0]
    return decided_steps({step: each or (None, None) for step, each in ends.items()})


def _further(rule: Rule, judges: tuple[JudgeCalls, ...], reading: Estimate) -> tuple[int | None, str]:
    """Say after how many more tasks an undecided rule would be decided, and why it is not."""
    low, high = _ends(reading)
    inside = f"the limit lies within its interval [{_shown(low)}, {_shown(high)}]"
    facing = low if reading.value > rule.limit else high
    if low is None and high is None and reading.unit != "curve":
        return None, "there is no interval by task"
    if reading.value == rule.limit:
        return None, f"{inside}, and the estimate on the limit itself: no number of tasks helps"
    if facing is None and reading.unit != "curve":
        return None, f"{inside}, which is open on the side of the limit"
    found = _by_counts(rule, judges, reading) or _by_calls(rule, judges, reading)
    if found.needed is None:
        return None, f"{inside}; {found.most - found.present:,} further tasks like these would not decide it"
    return found.needed - found.present, inside


@dataclass(frozen=True, kw_only=True, slots=True)
class _TaskSearch:
    """How many tasks like the present ones would decide a rule."""

    present: int
    most: int
    """That were looked at."""
    needed: int | None


def _by_counts(rule: Rule, judges: tuple[JudgeCalls, ...], reading: Estimate) -> _TaskSearch | None:
    """Repeat the counts of a share, or of the shares of a curve; None for what is made of anything else."""
    counted = [_step_counts(judge, rule.axis) for judge in judges]
    steps = {step: [each[step] for each in counted] for step in counted[0] if all(step in each for each in counted)}

    def ends_of(picked: Codes) -> Ends | None:
        found = {
            step: share_ends([(hits[picked], sizes[picked]) for hits, sizes in counts])
            for step, counts in steps.items()
        }
        return _combined(rule.axis, found)

    n_tasks = len(judges[0].tasks)
    if not steps or len(steps) < len(counted[0]) or ends_of(np.arange(n_tasks)) != _ends(reading):
        return None

    def is_decided(wanted: int) -> bool:
        ends = ends_of(np.repeat(np.arange(n_tasks), _times(n_tasks, wanted)))
        return ends is not None and _decide(rule, reading, ends) != "undecided"

    times = MOST_TASKS // n_tasks
    needed = tasks_needed(is_decided, n_tasks, most=times, guess=_guess(rule, reading))
    return _TaskSearch(present=n_tasks, most=times * n_tasks, needed=needed)


def _by_calls(rule: Rule, judges: tuple[JudgeCalls, ...], reading: Estimate) -> _TaskSearch:
    """Repeat the calls themselves and measure them again, all tasks alike: for what is more than a share."""
    judges = _behind(judges, rule.axis, reading)

    def is_decided(wanted: int) -> bool:
        found = _reading(tuple(judge.repeated(wanted) for judge in judges), rule.axis)
        return isinstance(found, Estimate) and _state(rule, found) != "undecided"

    n_tasks, guess = len(judges[0].tasks), _guess(rule, reading)
    times = max(2, MOST_ROWS // len(judges[0].calls))
    # Measuring takes its time: what the width of the interval puts far beyond reach is not looked at.
    needed = None if guess > 2 * times else tasks_needed(is_decided, n_tasks, most=times, guess=guess, whole=True)
    return _TaskSearch(present=n_tasks, most=times * n_tasks, needed=needed)


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


def _guess(rule: Rule, reading: Estimate) -> int:
    """Guess the repeats: an interval shrinks with the root of the number of tasks."""
    low, high = reading.cluster_low, reading.cluster_high
    end = low if reading.value > rule.limit else high
    return 2 if end is None else math.ceil(((end - reading.value) / (rule.limit - reading.value)) ** 2)


def _behind(judges: tuple[JudgeCalls, ...], axis: str, reading: Estimate) -> tuple[JudgeCalls, ...]:
    """Return the calls that an axis rests on, where they alone give the same reading; else all."""
    declared, test = axes.find(axis), axis.partition("/")[0]
    conditions = judges[0].calls["condition"]
    own = conditions.isin(declared.stimuli.conditions) if declared else conditions.isin([test, BASELINE])
    if declared and declared.by_step and declared.step == "delta" and declared.unit != "curve":
        own &= pd.to_numeric(judges[0].calls["delta"], errors="coerce") == float(axis.rpartition("_")[2])
    items = set(judges[0].calls.loc[own, "suite_item"])
    fewer = tuple(judge.only(judge.calls["suite_item"].isin(items)) for judge in judges)
    return fewer if items and _reading(fewer, axis) == reading else judges


def _excluded_check(rule: Rule, readings: Mapping[str, Reading]) -> RuleCheck:
    """Decide by the share of an axis's calls without a usable answer: a fact of the run."""
    found = lost_calls(rule.axis, readings)
    if found is None:
        reading = readings[rule.axis]
        why = reading.reason if isinstance(reading, NotEstimable) else "its calls are not counted"
        return RuleCheck(rule=rule, state="undecided", estimate=None, low=None, high=None, reason=f"no number: {why}")
    lost, asked = found
    share = lost / asked
    return RuleCheck(
        rule=rule,
        state=decide(rule, share, share),
        estimate=share,
        low=share,
        high=share,
        reason=f"{lost:,} of {asked:,} calls have no usable answer",
        further_tasks=0,
        n=asked,
    )


def lost_calls(axis: str, readings: Mapping[str, Reading]) -> tuple[int, int] | None:
    """Return how many calls of an axis gave no usable answer, and of how many; None where nothing was asked.

    Of a share among some of the calls (those that chose a side) it is all calls that were asked for it.
    """
    found = [_counted(readings[key]) for key in _asked_as(axis, readings)]
    counts = [each for each in found if each is not None]
    return (sum(lost for lost, _ in counts), sum(asked for _, asked in counts)) if counts else None


def _asked_as(axis: str, readings: Mapping[str, Reading]) -> list[str]:
    """Return the axes that were asked by the same calls and count all of them; of a gap the two that it is between."""
    declared = axes.find(axis)
    if declared is None or axis.startswith(axes.EXPECTED):
        return [axis]
    step = axis.removeprefix(declared.name)
    gap = declared.gap or (("target_sensitivity", "matched_sensitivity") if declared.name == "reading_gap" else None)
    if gap:
        return [f"{name}{step}" for name in gap if f"{name}{step}" in readings]
    if declared.among is None:
        return [axis]
    whole = [
        one for one in axes.AXES if one.stimuli is declared.stimuli and one.hits and one.by_step == declared.by_step
    ]
    return [f"{one.name}{step}" for one in whole if one.among is None and one.unit == declared.unit][:1]


def _counted(reading: Reading) -> tuple[int, int] | None:
    """Return the lost calls of a reading and all that were asked."""
    if isinstance(reading, NotEstimable):
        if reading.bounds is not None:
            return sum(reading.bounds.lost.values()), reading.bounds.asked
        asked = reading.n + reading.excluded
    else:
        asked = reading.n + reading.excluded if reading.n_calls is None else reading.n_calls
    return (sum(reading.left_out.values()), asked) if asked else None


def _cost_check(rule: Rule, ends: Ends | None) -> RuleCheck:
    """Decide by what is known of a cost: a sum over some of the calls is a lower end."""
    low, high = ends or (None, None)
    state = decide(rule, low, high)
    estimate = low if low is not None and low == high else None
    why = "a fact of the run" if estimate is not None else "not known of this run"
    if low is not None and high is None:
        why = f"at least {low:.4g}: the cost of some calls is not known"
    decided = 0 if state != "undecided" else None
    return RuleCheck(rule=rule, state=state, estimate=estimate, low=low, high=high, reason=why, further_tasks=decided)


def _shown(end: float | None) -> str:
    return "–" if end is None else f"{end:.4g}"
