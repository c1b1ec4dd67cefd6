"""Judges of known rates on a suite: how often each interval of a datasheet holds the truth.

In `independent` every call is a draw of its own; in `clustered` each task has rates of its own
around the same means (intraclass correlation 0.1), as real judges do. An interval is checked where
its assumption holds: the plain one on independent units, the clustered one everywhere. And a judge
without noise, asked five times, must read what it reads when it is asked once.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.special import ndtri

from jrh_mlflow.engine import plan_calls
from jrh_mlflow.engine.runner import calls_frame
from jrh_mlflow.engine.sessions import record
from jrh_mlflow.judges.scripted import Noisy
from jrh_mlflow.measures.axes import AXES, declared, delta_key, step_of
from jrh_mlflow.schema.estimates import Estimate
from jrh_mlflow.schema.items import DELTA_0, FILLER, LADDERS, VACUUM
from jrh_mlflow.show.results import measure
from jrh_mlflow.suites import Suite, datasheet_suite
from tests.validation.loop import (
    HIGH,
    LOW,
    N_ERRORS,
    Part,
    Simulation,
    check_share,
    coverage_error,
    coverage_verdict,
)

EDGE = 10
"""With fewer expected successes or failures a share is at the edge: Wilson is conservative."""
RATES = {
    "dark_current": 0.15,
    "stable": 0.15,
    "positional": 0.25,
    "one_sided": 0.2,
    "tie": 0.4,
    "filler": 0.6,
}
CURVE = {1.0: 0.55, 2.0: 0.66, 3.0: 0.78, 4.0: 0.86, 5.0: 0.9}
ICC = 0.1


@dataclass(frozen=True, kw_only=True)
class JudgedSuite:
    """Where simulated judges are measured."""

    design: str
    icc: float
    suite: Suite
    n_resamples: int = 200
    """Of the threshold's bootstrap, per judge."""

    @property
    def largest_step(self):
        """The largest step of its ladders."""
        return max(item.delta or 0.0 for item in self.suite.items)


def judged_suites(suite, *, n_resamples=200):
    """Return both designs on one suite."""
    designs = {"independent": 0.0, "clustered": ICC}
    return [
        JudgedSuite(design=name, icc=icc, suite=suite, n_resamples=n_resamples)
        for name, icc in designs.items()
    ]


def _suite(size):
    return datasheet_suite(n_tasks=10, depth=3) if size.quick else datasheet_suite()


def noisy_judge(seed, *, icc):
    """Return the judge whose rates are stated above."""
    return Noisy(sensitivity=CURVE, matched=None, icc=icc, seed=seed, **RATES)


def _readings(world, batch):
    """Yield what judges read on the axes whose truth is known."""
    # The suite's calls are prepared once for all judges of the batch.
    prepared = PreparedCalls(world.suite)
    known = known_readings(world.largest_step)
    for seed in batch.seeds:
        calls = prepared.answered(noisy_judge(seed, icc=world.icc))
        readings = measure(calls, seed=seed, n_resamples=world.n_resamples).estimates
        yield {axis: readings.get(axis) for axis in known}


def asked_calls(judge, suite):
    """Return the records of a judge that is asked everything once."""
    judge.begin(suite)
    calls = plan_calls(suite, judge, replicates=1)
    return calls_frame([_record(judge, call, judge.answer(call)) for call in calls])


def _record(judge, call, answer):
    return record(judge, call, answer, failure=None, latency_s=0.0)


class PreparedCalls:
    """The calls of a suite, with the records of every answer prepared."""

    _ANSWERS = ("1", "2", "tie")

    def __init__(self, suite):
        judge = Noisy()
        self._calls = list(plan_calls(suite, judge, replicates=1))
        self._records = calls_frame(
            [_record(judge, call, answer) for answer in self._ANSWERS for call in self._calls]
        )

    def answered(self, judge):
        """Return the records of one judge."""
        answers = [self._ANSWERS.index(judge.answer(call)) for call in self._calls]
        rows = np.array(answers) * len(answers) + np.arange(len(answers))
        return self._records.iloc[rows].reset_index(drop=True)


# --- the truth, from what the judge does and what each axis counts


def known_readings(largest=5.0):
    """Return what each axis would read with infinitely many calls, up to the largest step."""
    pairs = _simulated_pairs()
    known = {}
    for axis in AXES:
        condition = next(iter(axis.stimuli.conditions), None)
        if axis.hits and axis.by_step and condition in LADDERS:
            for step, right in CURVE.items():
                known[f"{axis.name}/{delta_key(step)}"] = true_mean(axis, _ladder_pairs(right))
        elif axis.hits and axis.largest:
            steps = [step for step in sorted(CURVE) if step <= largest][-axis.largest :]
            means = [true_mean(axis, _ladder_pairs(CURVE[step])) for step in steps]
            known[axis.name] = sum(means) / len(means)
        elif (axis.hits or axis.signed) and condition in pairs:
            known[axis.name] = true_mean(axis, pairs[condition])
    known["reading"] = 0.0
    for step, right in CURVE.items():
        # d' of two alternatives: twice the quantile of the share of right choices.
        known[f"d_prime/{delta_key(step)}"] = 2 * float(ndtri(right))
        # The judge is the same on both ladders.
        known[f"reading_gap/{delta_key(step)}"] = 0.0
    crossing = float(np.interp(0.75, list(CURVE.values()), list(CURVE)))
    return known | {"threshold_75": crossing, "matched_threshold_75": crossing}


def _simulated_pairs():
    """Condition to what the judge chooses in both orders of a pair, and the chance of that."""
    stable, positional, one_sided = (RATES[name] for name in ("stable", "positional", "one_sided"))
    # Either slot, and one order or the other, as often.
    equal = {
        ("u", "u"): stable,
        **dict.fromkeys([("u", "v"), ("v", "u")], positional / 2),
        **dict.fromkeys([("u", "tie"), ("v", "tie"), ("tie", "u"), ("tie", "v")], one_sided / 4),
        ("tie", "tie"): 1 - stable - positional - one_sided,
    }
    dark = RATES["dark_current"]
    padded = RATES["filler"]
    empty = {("u", "u"): dark, ("tie", "tie"): 1 - dark}
    return {
        **dict.fromkeys(VACUUM, empty),
        **dict.fromkeys(DELTA_0, equal),
        FILLER: {("v", "v"): padded, ("u", "u"): 1 - padded},
    }


def _ladder_pairs(right):
    ties = (1 - right) * RATES["tie"]
    return {("u", "u"): right, ("tie", "tie"): ties, ("v", "v"): 1 - right - ties}


def true_mean(axis, judgments):
    """Mean of what is counted, where u is the better content."""

    def mean(event):
        if axis.unit == "pair":
            return sum(chance * float(event(*both, "u")) for both, chance in judgments.items())
        # A pair is two calls, each half of its chance.
        calls = [(choice, chance / 2) for both, chance in judgments.items() for choice in both]
        return sum(chance * float(event(choice, "u")) for choice, chance in calls)

    counted = mean(axis.hits or axis.signed)
    return counted / mean(axis.among) if axis.among else counted


# --- the promise


def _checks(world, sheets):
    for axis, truth in known_readings(world.largest_step).items():
        readings = [reading for reading in sheets[axis] if isinstance(reading, Estimate)]
        if readings:
            yield from _axis_checks(axis, world.design, truth, readings)


def _axis_checks(axis, design, truth, readings):
    bias = float(np.mean([reading.value for reading in readings])) - truth
    ends = {"by task": [(reading.cluster_low, reading.cluster_high) for reading in readings]}
    if design == "independent" and declared(axis).unit != "curve":
        ends["plain"] = [(reading.ci_low, reading.ci_high) for reading in readings]
    for interval in sorted(ends, reverse=True):
        held = [_holds(low, high, truth) for low, high in ends[interval]]
        coverage = float(np.mean(held))
        runs = pd.DataFrame({"held": held, "truth": truth, "bias": bias})
        yield check_share(
            f"interval {interval} holds the truth",
            f"{axis}, {design}",
            runs,
            "held",
            at_least=LOW,
            beside=("truth", "bias"),
            verdict=_verdict(axis, interval, coverage, truth, readings),
        )


def _holds(low, high, truth):
    # An end beyond the measured steps (None) of a threshold holds everything on its side.
    return (low is None or low <= truth) and (high is None or truth <= high)


def _verdict(axis, interval, coverage, truth, readings):
    declaration = declared(axis)
    # Calls of equal pairs hang together by definition: what one order prefers, the other may not.
    of_equal_pairs = set(declaration.stimuli.conditions) <= set(DELTA_0)
    if interval == "plain" and declaration.unit == "call" and of_equal_pairs:
        return "not judged: the two orders of a pair are not independent"
    n = len(readings)
    share = truth
    if declaration.statistic == "value":
        share = CURVE[step_of(axis)] if declaration.by_step else 0.5
    # Too wide is said whenever it is seen, with its cause; it fails only without one.
    too_wide = f"FAILS: over {HIGH:.1%}"
    if min(share, 1 - share) * readings[-1].n < EDGE:
        too_wide = f"conservative: fewer than {EDGE} expected on one side"
    elif interval == "by task":
        too_wide = "conservative: made to hold where tasks differ far more than here"
    elif coverage <= HIGH + N_ERRORS * coverage_error(n):
        too_wide = f"conservative: over {HIGH:.1%}, within the error of the seeds"
    return coverage_verdict(coverage, n, too_wide=too_wide)


ESTIMATORS = Simulation(
    worlds=lambda size, apply: judged_suites(_suite(size)), run=_readings, checks=_checks, batch=20
)


# --- replicates of the same answers


def moved_by_replicates(suite, *, n_replicates=5, n_resamples=200):
    """Repeat every answer of a judge: axis to whether its clustered interval moved."""
    once = PreparedCalls(suite).answered(noisy_judge(0, icc=ICC))
    # Copies hold no new information: an interval that narrows takes replicates for new units.
    copies = [once.assign(replicate=number) for number in range(n_replicates)]
    before = measure(once, seed=0, n_resamples=n_resamples).estimates
    after = measure(pd.concat(copies, ignore_index=True), seed=0, n_resamples=n_resamples).estimates
    moved = {}
    for axis, reading in before.items():
        if isinstance(reading, Estimate) and reading.cluster_interval:
            again = getattr(after[axis], "cluster_interval", None)
            same = again and np.allclose(reading.cluster_interval, again, rtol=0, atol=1e-9)
            moved[axis] = not same
    return moved


def check_replicates(size, apply):
    """Return one row: no clustered interval may move."""
    moved = moved_by_replicates(_suite(size))
    names = [axis for axis, has_moved in moved.items() if has_moved]
    design = f"{len(moved)} clustered intervals; moved: {', '.join(names) or 'none'}"
    runs = pd.DataFrame({"moved": list(moved.values())})
    yield check_share(
        "moved by replicates of one answer", design, runs, "moved", at_most=0.0, error=0.0
    )


PART = Part(word="judges", simulations=(ESTIMATORS, check_replicates))
