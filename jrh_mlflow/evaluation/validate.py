"""We test the tester: simulated judges with known rates, and how often each interval holds the truth.

Two designs, many seeds each. In `independent` every call is a draw of its own; in `clustered` each task has rates of
its own around the same means (intraclass correlation 0.1), as real judges do. An interval is checked where its
assumption holds: the plain one on independent units, the clustered one everywhere.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from scipy.special import ndtri

from jrh_mlflow.engine import plan_calls
from jrh_mlflow.engine.runner import calls_frame
from jrh_mlflow.engine.sessions import record
from jrh_mlflow.judges.scripted import Noisy
from jrh_mlflow.results import measure
from jrh_mlflow.schema.estimates import Estimate
from jrh_mlflow.schema.items import Call
from jrh_mlflow.suites import Suite, datasheet_suite

LOW, HIGH = 0.93, 0.975
"""Accepted coverage of a nominal 95 % interval."""
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
_PAIRED_CALLS = ("raw_false_preference", "tie_rate/delta_0_same", "different_subset_preference")
"""Shares of calls whose two orders hang together by definition: the plain interval does not apply."""


@dataclass(kw_only=True, slots=True)
class Tally:
    """What many seeds gave for one axis."""

    truth: float
    estimates: list[float] = field(default_factory=list)
    n: int = 0
    plain_hits: int = 0
    plain_total: int = 0
    cluster_hits: int = 0
    cluster_total: int = 0

    def add(self, reading: Estimate) -> None:
        """Count one seed; an end beyond the measured steps (None) of a threshold holds everything on its side."""
        self.estimates.append(reading.value)
        self.n = reading.n
        self.plain_hits += _holds(reading.ci_low, reading.ci_high, self.truth)
        self.plain_total += 1
        self.cluster_hits += _holds(reading.cluster_low, reading.cluster_high, self.truth)
        self.cluster_total += 1


@dataclass(frozen=True, kw_only=True, slots=True)
class Check:
    """One estimator in one design."""

    axis: str
    design: str
    truth: float
    bias: float
    interval: str
    coverage: float
    n_seeds: int
    verdict: str
    """`ok`, `conservative: …`, `not judged: …` or `FAILS: …`."""

    @property
    def fails(self) -> bool:
        """Whether the interval misses its promise by more than chance."""
        return self.verdict.startswith("FAILS")


def validate(
    *,
    n_seeds: int = 500,
    suite: Suite | None = None,
    n_resamples: int = 200,
    on_seed: Callable[[], None] | None = None,
) -> list[Check]:
    """Measure simulated judges over many seeds and compare every interval with the truth.

    Args:
        n_seeds: Simulated judges per design.
        suite: Where they are measured; the default datasheet suite when None.
        n_resamples: Of the threshold's bootstrap, per judge.
        on_seed: Called after each judge, for a progress bar.
    """
    on = suite or datasheet_suite()
    checks: list[Check] = []
    for design, icc in (("independent", 0.0), ("clustered", ICC)):
        tallies: dict[str, Tally] = {}
        for seed in range(n_seeds):
            judge = Noisy(sensitivity=CURVE, icc=icc, seed=seed, **RATES)
            sheet = measure(_simulate(judge, on), seed=seed, n_resamples=n_resamples)
            for axis, truth in truths().items():
                reading = sheet.estimates[axis]
                if isinstance(reading, Estimate):
                    tallies.setdefault(axis, Tally(truth=truth)).add(reading)
            if on_seed:
                on_seed()
        checks += [check for axis, tally in tallies.items() for check in _checks(axis, design, tally)]
    return checks


def truths() -> dict[str, float]:
    """Return what each axis would read with infinitely many calls."""
    raw = RATES["stable"] + RATES["positional"] + RATES["one_sided"] / 2
    known = {
        "dark_current": RATES["dark_current"],
        "tie_rate/vacuum": 1 - RATES["dark_current"],
        "raw_false_preference": raw,
        "tie_rate/delta_0_same": 1 - raw,
        "different_subset_preference": raw,
        "stable_cross_sensitivity": RATES["stable"],
        "positional_false_preference": RATES["positional"],
        "one_sided_commit": RATES["one_sided"],
        "no_preference": 1 - RATES["stable"] - RATES["positional"] - RATES["one_sided"],
        "filler_preference": RATES["filler"],
        "threshold_75": _true_threshold(),
    }
    for step, right in CURVE.items():
        ties, key = (1 - right) * RATES["tie"], f"delta_{step:g}"
        known |= {
            f"target_sensitivity/{key}": right,
            f"conditional_accuracy/{key}": right / (1 - ties),
            f"miss_by_tie/{key}": ties,
            f"wrong_choice/{key}": 1 - right - ties,
            f"d_prime/{key}": 2 * float(ndtri(right)),
        }
    return known


def _true_threshold() -> float:
    return float(np.interp(0.75, list(CURVE.values()), list(CURVE)))


def _simulate(judge: Noisy, suite: Suite) -> pd.DataFrame:
    def answered() -> Iterator[tuple[Call, str]]:
        for call in plan_calls(suite, judge, replicates=1):
            yield call, judge.answer(call)

    return calls_frame([record(judge, call, answer, failure=None, latency_s=0.0) for call, answer in answered()])


def _holds(low: float | None, high: float | None, truth: float) -> bool:
    return (low is None or low <= truth) and (high is None or truth <= high)


def _checks(axis: str, design: str, tally: Tally) -> list[Check]:
    rows = {"by task": (tally.cluster_hits, tally.cluster_total)}
    if design == "independent" and axis != "threshold_75":
        rows = {"plain": (tally.plain_hits, tally.plain_total), **rows}
    return [
        Check(
            axis=axis,
            design=design,
            truth=tally.truth,
            bias=float(np.mean(tally.estimates)) - tally.truth,
            interval=interval,
            coverage=hits / total,
            n_seeds=total,
            verdict=_verdict(axis, design, interval, hits / total, total, tally),
        )
        for interval, (hits, total) in rows.items()
    ]


def _verdict(axis: str, design: str, interval: str, coverage: float, total: int, tally: Tally) -> str:
    # Coverage from finitely many seeds is itself a share: it must miss the band by more than three standard errors.
    slack = 3 * math.sqrt(0.95 * 0.05 / total)
    if interval == "plain" and axis in _PAIRED_CALLS:
        return "not judged: the two orders of a pair are not independent"
    if coverage < LOW - slack:
        return f"FAILS: under {LOW:.0%}"
    if coverage <= HIGH:
        return "ok" if coverage >= LOW else "ok within the error of the seeds"
    # Too wide is said whenever it is seen, with its cause; without one it fails only beyond the error of the seeds.
    verdict = _conservative(axis, design, interval, tally)
    if verdict.startswith("FAILS") and coverage <= HIGH + slack:
        return f"conservative: over {HIGH:.1%}, within the error of the seeds"
    return verdict


def _conservative(axis: str, design: str, interval: str, tally: Tally) -> str:
    share = tally.truth if 0 < tally.truth < 1 and not axis.startswith("d_prime") else CURVE.get(_step(axis), 0.5)
    if min(share, 1 - share) * tally.n < EDGE:
        return f"conservative: fewer than {EDGE} expected on one side"
    if interval == "by task" and design == "independent":
        return "conservative: tasks do not differ, the design effect is at least 1"
    if interval == "by task" and tally.n / 10 <= 6:
        return "conservative: few calls per task"
    return f"FAILS: over {HIGH:.1%}"


def _step(axis: str) -> float:
    return float(axis.rpartition("delta_")[2]) if "delta_" in axis else math.nan


def summary(checks: list[Check]) -> dict[str, int]:
    """Count verdicts by their first word."""
    counts: dict[str, int] = defaultdict(int)
    for check in checks:
        counts[check.verdict.split(":")[0]] += 1
    return dict(counts)
