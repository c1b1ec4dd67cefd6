"""What rules come to on the calls of a judge: decided by an interval, or after how many further tasks like these.

Further tasks look like the present ones: these are repeated, and read again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property

import numpy as np

from jrh_mlflow.decisions.judge_calls import JudgeCalls, paired_calls
from jrh_mlflow.errors import RecipeError
from jrh_mlflow.measures.rule_readings import deciding_ends, is_threshold, step_counts
from jrh_mlflow.measures.rules import IntervalRule, Rule, RuleCheck, State, undecided
from jrh_mlflow.schema import metric_keys
from jrh_mlflow.schema.estimates import Ends, Estimate, NotEstimable
from jrh_mlflow.show.names import reason_text
from jrh_mlflow.show.numbers import threshold_text
from jrh_mlflow.show.results import ReliabilityReport
from jrh_mlflow.stats import Codes

MOST_TASKS = 20_000
MOST_ROWS = 10_000
"""Tasks that are counted, and calls that are measured, at most."""


@dataclass(frozen=True, kw_only=True)
class RunEvidence:
    """What rules about a run are decided on."""

    judge: JudgeCalls
    """Whom they are about."""
    baseline: JudgeCalls | None = None
    """The judge that rules of the form `AXIS - baseline` compare with."""
    facts: Mapping[str, Ends | None] = field(default_factory=dict)
    """Costs, counts and time of the run: both ends, one of them, or nothing that is known."""

    @cached_property
    def pair(self) -> list[JudgeCalls]:
        """The judge and its baseline on the calls that both were asked; nobody where there is none."""
        return [] if self.baseline is None else paired_calls(self.judge, self.baseline)

    def check(self, rules: Sequence[Rule]) -> tuple[RuleCheck, ...]:
        """Check every rule.

        Raises:
            RecipeError: when a rule is about something that does not exist, with the nearest name.
        """
        for rule in rules:
            self._check_known(rule)
        return tuple(rule.check(self) for rule in rules)

    def _check_known(self, rule: Rule) -> None:
        report = self.judge.report
        if isinstance(report, ReliabilityReport) and rule.axis == metric_keys.RELIABILITY_MIN:
            tests = [f"'{test}/{report.metric} {rule.op} {rule.limit:g}'" for test in report.tests][:2]
            why = f"{rule.axis} has no interval, so that {rule.text!r} cannot be decided"
            raise RecipeError(f"{why}. Require {' and '.join(tests)}, ….")
        if not rule.is_known(self.judge.readings, self.facts):
            # An axis of the suite that this run was stopped before is no typing mistake.
            rule.check_known(self.judge.axes, self.facts)

    def interval_check(self, rule: IntervalRule) -> RuleCheck:
        """Decide by an interval; where that is not enough, say how many further tasks like these would be."""
        judges = self.pair if rule.needs_baseline else [self.judge]
        if not judges:
            return undecided(rule, "there is no call that both the judge and the baseline were asked")
        reading = rule.reading(judges)
        if isinstance(reading, NotEstimable):
            ends = (reading.bounds.low, reading.bounds.high) if reading.bounds else (None, None)
            reason = reason_text(reading.reason)
            return undecided(rule, f"withheld: {reason}" if reading.withheld else reason, ends=ends, n=reading.n)
        state, (low, high) = rule.state(reading), deciding_ends(reading)
        is_open = state == "undecided"
        further, why = further_tasks(rule, judges, reading) if is_open else (0, _decided_by(rule, state, low, high))
        return RuleCheck(
            rule=rule,
            state=state,
            estimate=None if reading.censored else reading.value,
            low=low,
            high=high,
            reason=why,
            further_tasks=further,
            n=reading.n,
            n_clusters=reading.n_clusters,
            censored=threshold_text(reading) if reading.censored and reading.unit == "curve" else "",
        )


def _decided_by(rule: Rule, state: State, low: float | None, high: float | None) -> str:
    upper = (state == "holds") == (rule.op in ("<=", "<"))
    end, name = (high, "upper") if upper else (low, "lower")
    return f"the {name} end of its interval is {end:.4g}"


def further_tasks(rule: IntervalRule, judges: Sequence[JudgeCalls], reading: Estimate) -> tuple[int | None, str]:
    """Say after how many more tasks an undecided rule would be decided, None where no number helps; and why it is not.

    A threshold has no number on the limit itself: it is reached by a step or not, and its ends may both be open yet.
    """
    low, high = deciding_ends(reading)
    inside, between_steps = _open_text(rule, reading), is_threshold(rule.axis)
    facing = low if reading.value > rule.limit else high
    if low is None and high is None and not between_steps:
        return None, "there is no interval by task"
    if reading.value == rule.limit and not between_steps:
        return None, f"{inside}, and the estimate on the limit itself: no number of tasks helps"
    if facing is None and not between_steps:
        return None, f"{inside}, which is open on the side of the limit"
    search = _by_counts(rule, judges, reading) or _by_calls(rule, judges, reading)
    if search.needed is None:
        return None, f"{inside}; {search.most - search.present:,} further tasks like these would not decide it"
    return search.needed - search.present, inside


def _open_text(rule: IntervalRule, reading: Estimate) -> str:
    """Say what is known of an undecided reading."""
    low, high = deciding_ends(reading)
    if not is_threshold(rule.axis):
        ends = ", ".join("–" if end is None else f"{end:.4g}" for end in (low, high))
        return f"the limit lies within its interval [{ends}]"
    over = ("over", "at most") if reading.unit == "curve" else ("at least", "at most")
    known = [f"{word} {end:g}" for word, end in zip(over, (low, high), strict=True) if end is not None]
    what = f"only that it is {' and '.join(known)}" if known else "nothing of it"
    return f"the intervals at the steps of the curve decide {what}"


@dataclass(frozen=True, kw_only=True, slots=True)
class _TaskSearch:
    """How many tasks like the present ones would decide a rule."""

    present: int
    most: int
    """That were looked at."""
    needed: int | None


def _by_counts(rule: IntervalRule, judges: Sequence[JudgeCalls], reading: Estimate) -> _TaskSearch | None:
    """Repeat the counts of a share, or of the shares of a curve; None for what is made of anything else."""
    counts, n_tasks = [step_counts(judge, rule.axis) for judge in judges], len(judges[0].tasks)
    if not counts[0] or {*counts[0]} != {*counts[-1]}:
        return None

    def ends_of(tasks: Codes) -> Ends | None:
        return rule.ends_of_counts(
            [{step: (hits[tasks], sizes[tasks]) for step, (hits, sizes) in steps.items()} for steps in counts]
        )

    # Counts stand for the reading only where they give its own interval back.
    if ends_of(np.arange(n_tasks)) != deciding_ends(reading):
        return None

    def is_decided(wanted: int) -> bool:
        ends = ends_of(np.repeat(np.arange(n_tasks), _times(n_tasks, wanted)))
        return ends is not None and rule.state(reading, ends) != "undecided"

    times, guess = MOST_TASKS // n_tasks, _times_wider(rule, reading)
    needed = tasks_needed(is_decided, n_tasks, most=times, guess=2 if guess is None else math.ceil(guess))
    return _TaskSearch(present=n_tasks, most=times * n_tasks, needed=needed)


def _by_calls(rule: IntervalRule, judges: Sequence[JudgeCalls], reading: Estimate) -> _TaskSearch:
    """Repeat the calls themselves, twice, four times, …, and measure them again: for what is more than a share.

    Every rule looks at the same repeats, so that each is measured once. Between the last that does not decide and the
    first that does, the interval is taken to shrink with the root of the number of tasks.
    """
    n_tasks, most = len(judges[0].tasks), max(2, MOST_ROWS // len(judges[0].calls))
    times, wider = 1, _times_wider(rule, reading)
    # Measuring takes its time: what the width of the interval puts far beyond reach is not looked at.
    while times < most and (wider is None or wider * times <= 2 * most):
        more = min(2 * times, most)
        repeated = rule.reading([judge.repeated(more) for judge in judges])
        if isinstance(repeated, Estimate) and rule.state(repeated) != "undecided":
            needed = more * n_tasks if wider is None else math.ceil(wider * times * n_tasks)
            needed = min(max(needed, times * n_tasks + 1), more * n_tasks)
            return _TaskSearch(present=n_tasks, most=most * n_tasks, needed=needed)
        times, wider = more, _times_wider(rule, repeated) if isinstance(repeated, Estimate) else None
    return _TaskSearch(present=n_tasks, most=most * n_tasks, needed=None)


def _times_wider(rule: IntervalRule, reading: Estimate) -> float | None:
    """Return how many times as many tasks an interval needs that shrinks with their root; None where it has no end."""
    end = reading.cluster_low if reading.value > rule.limit else reading.cluster_high
    if end is None or is_threshold(rule.axis) or reading.value == rule.limit:
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
