"""Facts of a run that rules can be about, without an interval: calls without a usable answer, costs, counts, time."""

from __future__ import annotations

from collections.abc import Mapping

from jrh_mlflow.measures import axes
from jrh_mlflow.measures.reliability import usd_per_accuracy_point
from jrh_mlflow.measures.rules import COSTS, Rule, RuleCheck, decide, undecided
from jrh_mlflow.schema import metric_keys
from jrh_mlflow.schema.estimates import Ends, Estimate, NotEstimable, Reading
from jrh_mlflow.tracking.runs import keys
from jrh_mlflow.tracking.runs.read import LoggedRun


def excluded_check(rule: Rule, readings: Mapping[str, Reading]) -> RuleCheck:
    """Decide by the share of an axis's calls without a usable answer."""
    found, reading = lost_calls(rule.axis, readings), readings.get(rule.axis)
    if found is None and reading is None:
        return undecided(rule, "not asked in this run")
    if found is None:
        return undecided(rule, reading.reason if isinstance(reading, NotEstimable) else "its calls are not counted")
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
    found = [_counted(readings[key]) for key in _asked_as(axis) if key in readings]
    counts = [each for each in found if each is not None]
    return (sum(lost for lost, _ in counts), sum(asked for _, asked in counts)) if counts else None


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


def cost_check(rule: Rule, ends: Ends | None) -> RuleCheck:
    """Decide by what is known of a cost: a sum over some of the calls is a lower end."""
    low, high = ends or (None, None)
    state = decide(rule, low, high)
    estimate = low if low is not None and low == high else None
    why = "a fact of the run" if estimate is not None else "not known of this run"
    if low is not None and high is None:
        why = f"at least {low:.4g}: the cost of some calls is not known"
    decided = 0 if state != "undecided" else None
    return RuleCheck(rule=rule, state=state, estimate=estimate, low=low, high=high, reason=why, further_tasks=decided)


def known_costs(run: LoggedRun, readings: Mapping[str, Reading]) -> dict[str, Ends | None]:
    """Return what is known of every cost, count and time of a run: of a sum that lacks some calls the lower end.

    Where no model was asked, by a simulated judge or for recorded answers, what is not known is nothing: 0.
    """
    calls, accuracy = run.calls, readings.get("all/accuracy")
    if run.simulated or run.recorded:
        calls = calls.assign(**{column: 0.0 for column in keys.SUMMED.values() if calls[column].isna().all()})
    points = keys.call_points(calls, seconds=0.0)
    if isinstance(accuracy, Estimate):
        usd = keys.whole_total(calls, "cost_usd")
        points += keys.price_points(usd_per_accuracy_point(usd, accuracy.value))
    values = dict.fromkeys(keys.SUMMED, 0.0) if calls.empty else {}
    values |= {point.key: point.value for point in points if point.key != metric_keys.SECONDS}
    values |= {key: value for key, value in run.metrics.items() if key.startswith(COSTS)}
    values[metric_keys.UNKNOWN_COSTS] = unknown = keys.unknown_costs(calls)
    if unknown:
        values.pop(metric_keys.COST_PER_1K_CALLS, None)
    gaps = {key for key, column in keys.SUMMED.items() if calls[column].isna().any()}
    known = {key: (value, None if key in gaps else value) for key, value in values.items()}
    return {**dict.fromkeys(keys.SPENT), **known}
