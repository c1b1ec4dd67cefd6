"""Judges of known rates on a suite: how often each interval of a datasheet holds the truth.

In `independent` every call is a draw of its own; in `clustered` each task has rates of its own around the same means
(intraclass correlation 0.1), as real judges do. An interval is checked where its assumption holds: the plain one on
independent units, the clustered one everywhere. And a judge without noise, asked five times, must read what it reads
when it is asked once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd
from scipy.special import ndtri

from jrh_mlflow.engine import plan_calls
from jrh_mlflow.engine.runner import calls_frame
from jrh_mlflow.engine.sessions import record
from jrh_mlflow.judges.scripted import Noisy, Scripted
from jrh_mlflow.measures.axes import AXES, Axis, Event, declared, delta_key, step_of
from jrh_mlflow.schema.estimates import Estimate
from jrh_mlflow.schema.items import DELTA_0, FILLER, LADDERS, VACUUM
from jrh_mlflow.show.results import measure
from jrh_mlflow.suites import Suite, datasheet_suite
from tests.validation import loop

EDGE = 10
"""With fewer expected successes or failures than this a share is at the edge, where Wilson is conservative."""
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

Judgments = Mapping[tuple[str, str], float]
"""Choices in order uv and in order vu to their probability."""


@dataclass(frozen=True, kw_only=True)
class JudgedSuite:
    """Where simulated judges are measured."""

    design: str
    icc: float
    suite: Suite
    n_resamples: int = 200
    """Of the threshold's bootstrap, per judge."""

    @property
    def largest_step(self) -> float:
        """The largest step of its ladders."""
        return max(item.delta or 0.0 for item in self.suite.items)


def judged_suites(suite: Suite, *, n_resamples: int = 200) -> list[JudgedSuite]:
    """Return both designs on one suite."""
    designs = {"independent": 0.0, "clustered": ICC}
    return [JudgedSuite(design=name, icc=icc, suite=suite, n_resamples=n_resamples) for name, icc in designs.items()]


def _suite(size: loop.SimulationSize) -> Suite:
    return datasheet_suite(n_tasks=10, depth=3) if size.quick else datasheet_suite()


def _readings(world: JudgedSuite, batch: loop.Batch) -> Iterator[dict[str, Estimate]]:
    """Yield what simulated judges read on the axes whose truth is known."""
    # The suite's calls are prepared once for all judges of the batch.
    prepared, known = PreparedCalls(world.suite), known_readings(world.largest_step)
    for seed in batch.seeds:
        judge = Noisy(sensitivity=CURVE, matched=None, icc=world.icc, seed=seed, **RATES)
        readings = measure(prepared.answered(judge), seed=seed, n_resamples=world.n_resamples).estimates
        yield {axis: value for axis, value in readings.items() if axis in known and isinstance(value, Estimate)}


def asked_calls(judge: Scripted, suite: Suite) -> pd.DataFrame:
    """Return the records of a judge that is asked everything once."""
    judge.begin(suite)
    calls = plan_calls(suite, judge, replicates=1)
    return calls_frame([record(judge, call, judge.answer(call), failure=None, latency_s=0.0) for call in calls])


class PreparedCalls:
    """The calls of a suite, with the records of every answer prepared."""

    _ANSWERS = ("1", "2", "tie")

    def __init__(self, suite: Suite) -> None:
        judge = Noisy()
        self._calls = list(plan_calls(suite, judge, replicates=1))
        self._records = calls_frame(
            [
                record(judge, call, answer, failure=None, latency_s=0.0)
                for answer in self._ANSWERS
                for call in self._calls
            ]
        )

    def answered(self, judge: Noisy) -> pd.DataFrame:
        """Return the records of one judge."""
        answers = [self._ANSWERS.index(judge.answer(call)) for call in self._calls]
        rows = np.array(answers) * len(answers) + np.arange(len(answers))
        chosen: pd.DataFrame = self._records.iloc[rows].reset_index(drop=True)
        return chosen


# --- the truth, from what the judge does and what each axis counts


def known_readings(largest: float = max(CURVE)) -> dict[str, float]:
    """Return what each axis would read with infinitely many calls, on ladders up to the largest step."""
    step_keys = {delta_key(step): right for step, right in CURVE.items()}
    known: dict[str, float] = {}
    pairs = _simulated_pairs()
    for axis in AXES:
        if axis.hits and axis.by_step and axis.stimuli.conditions[0] in LADDERS:
            known |= {f"{axis.name}/{key}": true_mean(axis, _ladder_pairs(right)) for key, right in step_keys.items()}
        elif axis.hits and axis.largest:
            large = [step for step in sorted(CURVE) if step <= largest][-axis.largest :]
            known[axis.name] = sum(true_mean(axis, _ladder_pairs(CURVE[step])) for step in large) / len(large)
        elif (axis.hits or axis.signed) and axis.stimuli.conditions[0] in pairs:
            known[axis.name] = true_mean(axis, pairs[axis.stimuli.conditions[0]])
    # d' of two alternatives: twice the quantile of the share of right choices.
    known |= {f"d_prime/{key}": 2 * float(ndtri(right)) for key, right in step_keys.items()}
    # The judge is the same on both ladders.
    known |= {f"reading_gap/{key}": 0.0 for key in step_keys} | {"reading": 0.0}
    crossing = float(np.interp(0.75, list(CURVE.values()), list(CURVE)))
    return known | {"threshold_75": crossing, "matched_threshold_75": crossing}


def _simulated_pairs() -> dict[str, Judgments]:
    """Return what the judge does with the two orders of a pair, by condition."""
    stable, positional, one_sided = (RATES[name] for name in ("stable", "positional", "one_sided"))
    ties = 1 - stable - positional - one_sided
    # Either slot, and one order or the other, as often.
    equal = {
        ("u", "u"): stable,
        **dict.fromkeys([("u", "v"), ("v", "u")], positional / 2),
        **dict.fromkeys([("u", "tie"), ("v", "tie"), ("tie", "u"), ("tie", "v")], one_sided / 4),
        ("tie", "tie"): ties,
    }
    dark, padded = RATES["dark_current"], RATES["filler"]
    return {
        **{condition: {("u", "u"): dark, ("tie", "tie"): 1 - dark} for condition in VACUUM},
        **dict.fromkeys(DELTA_0, equal),
        FILLER: {("v", "v"): padded, ("u", "u"): 1 - padded},
    }


def _ladder_pairs(right: float) -> Judgments:
    ties = (1 - right) * RATES["tie"]
    return {("u", "u"): right, ("tie", "tie"): ties, ("v", "v"): 1 - right - ties}


def true_mean(axis: Axis, judgments: Judgments) -> float:
    """Mean of what is counted, where u is the better content."""

    def mean(event: Event) -> float:
        if axis.unit == "pair":
            return sum(chance * float(event(*both, "u")) for both, chance in judgments.items())
        # A pair is two calls, each half of its chance.
        return sum(chance * float(event(choice, "u")) / 2 for both, chance in judgments.items() for choice in both)

    counted = axis.hits or axis.signed
    assert counted is not None
    return mean(counted) / (mean(axis.among) if axis.among else 1.0)


# --- the promise


def _checks(world: JudgedSuite, sheets: Sequence[Mapping[str, Estimate]]) -> Iterator[loop.CoverageCheck]:
    for axis, truth in known_readings(world.largest_step).items():
        readings = [sheet[axis] for sheet in sheets if axis in sheet]
        if readings:
            yield from _axis_checks(axis, world.design, truth, readings)


def _axis_checks(axis: str, design: str, truth: float, readings: Sequence[Estimate]) -> Iterator[loop.CoverageCheck]:
    intervals = {"by task": [(reading.cluster_low, reading.cluster_high) for reading in readings]}
    if design == "independent" and declared(axis).unit != "curve":
        intervals = {"plain": [(reading.ci_low, reading.ci_high) for reading in readings], **intervals}
    for interval, ends in intervals.items():
        coverage = sum(_holds(low, high, truth) for low, high in ends) / len(ends)
        yield loop.CoverageCheck(
            axis=axis,
            design=design,
            truth=truth,
            bias=float(np.mean([reading.value for reading in readings])) - truth,
            interval=interval,
            coverage=coverage,
            n_seeds=len(readings),
            verdict=_verdict(axis, interval, coverage, truth, readings),
        )


def _holds(low: float | None, high: float | None, truth: float) -> bool:
    # An end beyond the measured steps (None) of a threshold holds everything on its side.
    return (low is None or low <= truth) and (high is None or truth <= high)


def _verdict(axis: str, interval: str, coverage: float, truth: float, readings: Sequence[Estimate]) -> str:
    measured = declared(axis)
    # Calls of equal pairs hang together by definition: what one order prefers, the other may not.
    if interval == "plain" and measured.unit == "call" and set(measured.stimuli.conditions) <= set(DELTA_0):
        return "not judged: the two orders of a pair are not independent"
    n = len(readings)
    too_wide = _conservative(measured, axis, interval, truth, readings[-1].n)
    # Too wide is said whenever it is seen, with its cause; without one it fails only beyond the error of the seeds.
    if too_wide.startswith("FAILS") and coverage <= loop.HIGH + loop.coverage_slack(n):
        too_wide = f"conservative: over {loop.HIGH:.1%}, within the error of the seeds"
    return loop.coverage_verdict(coverage, n, too_wide=too_wide)


def _conservative(measured: Axis, axis: str, interval: str, truth: float, n_units: int) -> str:
    share = truth
    if measured.statistic == "value":
        share = CURVE[step_of(axis)] if measured.by_step else 0.5
    if min(share, 1 - share) * n_units < EDGE:
        return f"conservative: fewer than {EDGE} expected on one side"
    if interval == "by task":
        return "conservative: made to hold where tasks differ far more than here"
    return f"FAILS: over {loop.HIGH:.1%}"


ESTIMATORS = loop.Simulation(
    worlds=lambda size, apply: judged_suites(_suite(size)), ask=_readings, checks=_checks, batch=20
)
JUDGES = loop.Part(
    word="judges", key="estimators", simulations=(ESTIMATORS,), text=partial(loop.coverage_text, of="judges")
)


# --- replicates of the same answers


@dataclass(frozen=True, kw_only=True, slots=True)
class ReplicateCheck:
    """Whether the clustered interval of an axis moves when every answer is repeated."""

    axis: str
    fails: bool

    def __str__(self) -> str:
        """Say it as a failure."""
        return f"{self.axis}: its clustered interval moves with replicates of the same answers"


def moved_by_replicates(suite: Suite, *, n_replicates: int = 5, n_resamples: int = 200) -> list[ReplicateCheck]:
    """Repeat every answer of a judge, and say of each axis whether its clustered interval moved."""
    once = PreparedCalls(suite).answered(Noisy(sensitivity=CURVE, matched=None, icc=ICC, seed=0, **RATES))
    # Copies hold no new information: an interval that narrows with them takes replicates for new units.
    often = pd.concat([once.assign(replicate=number) for number in range(n_replicates)], ignore_index=True)
    before, after = (
        _cluster_intervals(measure(calls, seed=0, n_resamples=n_resamples).estimates.items()) for calls in (once, often)
    )
    return [
        ReplicateCheck(axis=axis, fails=axis not in after or not np.allclose(ends, after[axis], rtol=0, atol=1e-9))
        for axis, ends in before.items()
    ]


def _cluster_intervals(readings: Iterable[tuple[str, object]]) -> dict[str, tuple[float, float]]:
    return {
        axis: reading.cluster_interval
        for axis, reading in readings
        if isinstance(reading, Estimate) and reading.cluster_interval
    }


def _check_replicates(size: loop.SimulationSize, _: loop.Map) -> list[ReplicateCheck]:
    return moved_by_replicates(_suite(size))


def _replicates_text(checks: Sequence[ReplicateCheck]) -> str:
    moved = sum(check.fails for check in checks)
    return f"Five replicates of one answer: {moved} of {len(checks)} clustered intervals move.\n"


REPLICATES = loop.Part(
    word="intervals",
    key="moved_by_replicates",
    simulations=(_check_replicates,),
    text=_replicates_text,
    by_seeds=False,
    facts=lambda checks: {check.axis: check.fails for check in checks},
)
