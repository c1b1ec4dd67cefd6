"""What rules come to on the calls of a judge: each holds, fails or is undecided, why, and what would help."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from jrh_mlflow.decisions.axis_readings import Judges, axis_reading, deciding_ends, paired, state_of
from jrh_mlflow.decisions.further_tasks import further_tasks
from jrh_mlflow.decisions.judge_calls import JudgeCalls
from jrh_mlflow.decisions.run_facts import cost_check, excluded_check
from jrh_mlflow.errors import RecipeError
from jrh_mlflow.measures.rules import Rule, RuleCheck, State, known, undecided
from jrh_mlflow.schema import metric_keys
from jrh_mlflow.schema.estimates import Ends, NotEstimable
from jrh_mlflow.show.names import reason_text
from jrh_mlflow.show.numbers import threshold_text
from jrh_mlflow.show.results import ReliabilityReport


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
        _check_known(rule, judge, costs)
    pair = () if baseline is None else paired(judge, baseline)
    return tuple(_check(rule, judge, pair, costs) for rule in rules)


def _check_known(rule: Rule, judge: JudgeCalls, costs: Mapping[str, Ends | None]) -> None:
    if isinstance(judge.report, ReliabilityReport) and rule.axis == metric_keys.RELIABILITY_MIN:
        tests = [f"{test}/{judge.report.metric}" for test in judge.report.tests][:2]
        each = " and ".join(f"'{test} {rule.op} {rule.limit:g}'" for test in tests)
        raise RecipeError(f"{rule.axis} has no interval, so that {rule.text!r} cannot be decided. Require {each}, ….")
    # An axis of the suite that this run was stopped before is no typing mistake.
    measured = rule.kind == "cost" or rule.axis in judge.readings
    known(rule, judge.readings if measured else judge.axes, costs=costs)


def _check(rule: Rule, judge: JudgeCalls, pair: Judges, costs: Mapping[str, Ends | None]) -> RuleCheck:
    if rule.kind == "cost":
        return cost_check(rule, costs[rule.axis])
    if rule.kind == "excluded":
        return excluded_check(rule, judge.readings)
    if rule.kind == "baseline" and not pair:
        return undecided(rule, "there is no call that both the judge and the baseline were asked")
    return _interval_check(rule, (judge,) if rule.kind == "axis" else pair)


def _interval_check(rule: Rule, judges: Judges) -> RuleCheck:
    """Decide by an interval; where that is not enough, say how many further tasks like these would be."""
    reading = axis_reading(judges, rule.axis)
    if isinstance(reading, NotEstimable):
        ends = (reading.bounds.low, reading.bounds.high) if reading.bounds else (None, None)
        reason = reason_text(reading.reason)
        why = f"withheld: {reason}" if reading.withheld else reason
        return undecided(rule, why, ends=ends, n=reading.n)
    state = state_of(rule, reading)
    low, high = deciding_ends(reading)
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
        censored=threshold_text(reading) if reading.censored and rule.kind == "axis" else "",
    )


def _decided_by(rule: Rule, state: State, low: float | None, high: float | None) -> str:
    upper = (state == "holds") == (rule.op in ("<=", "<"))
    end, name = (high, "upper") if upper else (low, "lower")
    return f"the {name} end of its interval is {end:.4g}"
