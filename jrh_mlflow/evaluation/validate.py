"""We test the tester: simulated judges with known rates, and how often each interval holds the truth.

Two designs, many seeds each. In `independent` every call is a draw of its own; in `clustered` each task has rates of
its own around the same means (intraclass correlation 0.1), as real judges do. An interval is checked where its
assumption holds: the plain one on independent units, the clustered one everywhere.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from scipy.special import ndtri

from jrh_mlflow.engine import plan_calls
from jrh_mlflow.engine.runner import calls_frame
from jrh_mlflow.engine.sessions import record
from jrh_mlflow.judges.scripted import Noisy
from jrh_mlflow.measures.axes import AXES, Axis, Event, declared, delta_key, step_of
from jrh_mlflow.results import measure
from jrh_mlflow.schema.estimates import Estimate
from jrh_mlflow.schema.items import DELTA_0, FILLER, LADDERS, VACUUM
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

Judgments = Mapping[tuple[str, str], float]
"""Choices in order uv and in order vu to their probability."""


@dataclass(kw_only=True, slots=True)
class Coverage:
    """What many seeds gave for one axis."""

    truth: float
    estimates: list[float] = field(default_factory=list)
    n: int = 0
    plain_hits: int = 0
    cluster_hits: int = 0

    def add(self, reading: Estimate) -> None:
        """Count one seed; an end beyond the measured steps (None) of a threshold holds everything on its side."""
        self.estimates.append(reading.value)
        self.n = reading.n
        self.plain_hits += _holds(reading.ci_low, reading.ci_high, self.truth)
        self.cluster_hits += _holds(reading.cluster_low, reading.cluster_high, self.truth)


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
    suite = suite or datasheet_suite()
    checks: list[Check] = []
    for design, icc in (("independent", 0.0), ("clustered", ICC)):
        found = {axis: Coverage(truth=truth) for axis, truth in truths().items()}
        for seed in range(n_seeds):
            judge = Noisy(sensitivity=CURVE, matched=None, icc=icc, seed=seed, **RATES)
            sheet = measure(_simulate(judge, suite), seed=seed, n_resamples=n_resamples)
            for axis, seen in found.items():
                reading = sheet.estimates[axis]
                if isinstance(reading, Estimate):
                    seen.add(reading)
            if on_seed:
                on_seed()
        checks += [check for axis, seen in found.items() if seen.n for check in _checks(axis, design, seen)]
    return checks


def truths() -> dict[str, float]:
    """Return what each axis would read with infinitely many calls, from what the judge does and the axis counts."""
    step_keys = {delta_key(step): right for step, right in CURVE.items()}
    known: dict[str, float] = {}
    pairs = _simulated_pairs()
    for axis in AXES:
        if axis.hits and axis.by_step and axis.stimuli.conditions[0] in LADDERS:
            known |= {f"{axis.name}/{key}": _truth(axis, _ladder_pairs(right)) for key, right in step_keys.items()}
        elif axis.hits and axis.stimuli.conditions[0] in pairs:
            known[axis.name] = _truth(axis, pairs[axis.stimuli.conditions[0]])
    known |= {f"d_prime/{key}": 2 * float(ndtri(right)) for key, right in step_keys.items()}
    # The judge is the same on both ladders.
    known |= {f"reading_gap/{key}": 0.0 for key in step_keys}
    crossing = float(np.interp(0.75, list(CURVE.values()), list(CURVE)))
    return known | {"threshold_75": crossing, "matched_threshold_75": crossing}


def _simulated_pairs() -> dict[str, Judgments]:
    """Return what the judge does with the two orders of a pair, by condition."""
    stable, positional, one_sided = (RATES[name] for name in ("stable", "positional", "one_sided"))
    ties = 1 - stable - positional - one_sided
    equal = {("u", "u"): stable, ("u", "v"): positional, ("u", "tie"): one_sided, ("tie", "tie"): ties}
    dark, padded = RATES["dark_current"], RATES["filler"]
    return {
        **{condition: {("u", "u"): dark, ("tie", "tie"): 1 - dark} for condition in VACUUM},
        **dict.fromkeys(DELTA_0, equal),
        FILLER: {("v", "v"): padded, ("u", "u"): 1 - padded},
    }


def _ladder_pairs(right: float) -> Judgments:
    ties = (1 - right) * RATES["tie"]
    return {("u", "u"): right, ("tie", "tie"): ties, ("v", "v"): 1 - right - ties}


def _truth(axis: Axis, judgments: Judgments) -> float:
    """Share of hits where u is the better content."""

    def share(event: Event) -> float:
        if axis.unit == "pair":
            return sum(chance * bool(event(*both, "u")) for both, chance in judgments.items())
        return sum(chance * bool(event(choice, "u")) / 2 for both, chance in judgments.items() for choice in both)

    assert axis.hits is not None
    return share(axis.hits) / (share(axis.among) if axis.among else 1.0)


def _simulate(judge: Noisy, suite: Suite) -> pd.DataFrame:
    calls = plan_calls(suite, judge, replicates=1)
    return calls_frame([record(judge, call, judge.answer(call), failure=None, latency_s=0.0) for call in calls])


def _holds(low: float | None, high: float | None, truth: float) -> bool:
    return (low is None or low <= truth) and (high is None or truth <= high)


def _checks(axis: str, design: str, seen: Coverage) -> list[Check]:
    rows = {"by task": seen.cluster_hits}
    if design == "independent" and declared(axis).unit != "curve":
        rows = {"plain": seen.plain_hits, **rows}
    total = len(seen.estimates)
    return [
        Check(
            axis=axis,
            design=design,
            truth=seen.truth,
            bias=float(np.mean(seen.estimates)) - seen.truth,
            interval=interval,
            coverage=hits / total,
            n_seeds=total,
            verdict=_verdict(axis, design, interval, hits / total, total, seen),
        )
        for interval, hits in rows.items()
    ]


def _verdict(axis: str, design: str, interval: str, coverage: float, total: int, seen: Coverage) -> str:
    # Coverage from finitely many seeds is itself a share: it must miss the band by more than three standard errors.
    slack = 3 * math.sqrt(0.95 * 0.05 / total)
    measured = declared(axis)
    # Calls of equal pairs hang together by definition: what one order prefers, the other may not.
    if interval == "plain" and measured.unit == "call" and set(measured.stimuli.conditions) <= set(DELTA_0):
        return "not judged: the two orders of a pair are not independent"
    if coverage < LOW - slack:
        return f"FAILS: under {LOW:.0%}"
    if coverage <= HIGH:
        return "ok" if coverage >= LOW else "ok within the error of the seeds"
    # Too wide is said whenever it is seen, with its cause; without one it fails only beyond the error of the seeds.
    verdict = _conservative(axis, design, interval, seen)
    if verdict.startswith("FAILS") and coverage <= HIGH + slack:
        return f"conservative: over {HIGH:.1%}, within the error of the seeds"
    return verdict


def _conservative(axis: str, design: str, interval: str, seen: Coverage) -> str:
    measured = declared(axis)
    share = seen.truth
    if measured.statistic == "value":
        share = CURVE[step_of(axis)] if measured.by_step else 0.5
    if min(share, 1 - share) * seen.n < EDGE:
        return f"conservative: fewer than {EDGE} expected on one side"
    if interval == "by task" and design == "independent":
        return "conservative: tasks do not differ, the design effect is at least 1"
    if interval == "by task" and seen.n / 10 <= 6:
        return "conservative: few calls per task"
    return f"FAILS: over {HIGH:.1%}"


def summary(checks: list[Check]) -> dict[str, int]:
    """Count verdicts by their first word."""
    return dict(Counter(check.verdict.split(":")[0] for check in checks))
