"""One number for each test, what they are across tests, and a one-line profile.

| part of the profile | rule |
|---|---|
| baseline accuracy x | accuracy on the unperturbed items, where it has a number |
| weakest test t x | the test with the lowest score; of equal ones the first by name |
| flips on repeat x | flip rate of stochastic_stability, else of its deep design, else of the baseline |
| k of n tests without a number | tests whose score was withheld or could not be estimated |

What reliability costs.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd

from jrh_mlflow.errors import CallsError
from jrh_mlflow.measures.records import normalise
from jrh_mlflow.schema.calls import USABLE
from jrh_mlflow.schema.estimates import Estimate, Reading
from jrh_mlflow.schema.items import BASELINE, ERROR_INJECTION, STABILITY
from jrh_mlflow.scoring.accuracy import Counted, accuracy
from jrh_mlflow.scoring.answers import PointTable, plain
from jrh_mlflow.scoring.ordinal import dose_of, monotone
from jrh_mlflow.scoring.stability import unanimity
from jrh_mlflow.scoring.values import Array, Resampling

RULES = __doc__


@dataclass(frozen=True, kw_only=True, slots=True)
class Scored:
    """A test with the axis that stands for it."""

    test: str
    axis: str
    counted: Counted | None
    """None where nothing could be counted."""


def scored_tests(calls: PointTable, tests: tuple[str, ...]) -> list[Scored]:
    """Return for each test what stands for it: accuracy, for stability unanimity, for error doses the monotone share.

    The doses of `error_injection` are one test.
    """
    plain = [test for test in tests if dose_of(test) is None]
    found = [
        Scored(test=test, axis=f"{test}/unanimity", counted=unanimity(calls.of(test), test))
        if test.startswith(STABILITY)
        else Scored(test=test, axis=f"{test}/accuracy", counted=accuracy(calls.of(test), test))
        for test in plain
    ]
    if len(plain) < len(tests):
        found.append(Scored(test=ERROR_INJECTION, axis=f"{ERROR_INJECTION}/monotone", counted=monotone(calls)))
    return sorted(found, key=lambda scored: scored.test)


def across_tests(
    scored: list[Scored], estimates: Mapping[str, Reading], resampling: Resampling
) -> dict[str, float | None]:
    """Mean, sample standard deviation, minimum and maximum of the tests' scores that have a number.

    The mean's interval resamples whole sources, every test at once; None where it would have no width.
    """
    numbered = [(one, reading) for one in scored if isinstance(reading := estimates[one.axis], Estimate)]
    values = [reading.value for _, reading in numbered]
    if not values:
        return {"n_tests": 0, **dict.fromkeys(("mean", "sd", "min", "max", "mean_ci_low", "mean_ci_high"))}
    low, high = _mean_interval([one.counted for one, _ in numbered if one.counted], resampling)
    return {
        "n_tests": len(values),
        "mean": math.fsum(values) / len(values),
        "sd": float(np.std(values, ddof=1)) if len(values) > 1 else None,
        "min": min(values),
        "max": max(values),
        "mean_ci_low": low,
        "mean_ci_high": high,
    }


def _mean_interval(counted: list[Counted], resampling: Resampling) -> tuple[float | None, float | None]:
    hits = np.column_stack([one.units.sizes(one.units.usable & one.hits) for one in counted])
    sizes = np.column_stack([one.units.sizes(one.units.usable) for one in counted])
    sources = np.flatnonzero(sizes.sum(axis=1) > 0)
    n_tests = len(counted)

    def mean(sums: Array) -> dict[str, Array]:
        whole = (sums[:, n_tests:] > 0).all(axis=1)
        shares = sums[:, :n_tests] / np.maximum(sums[:, n_tests:], 1)
        # A resample without a call of some test has no mean over the same tests.
        return {"mean": np.where(whole, shares.mean(axis=1), np.nan)}

    ends = resampling.intervals(mean, np.hstack([hits, sizes])[sources], sources).get("mean")
    return ends or (None, None)


def profile_line(estimates: Mapping[str, Reading], scores: Mapping[str, Reading]) -> str:
    """Describe a judge in one line by the rules above; what was not measured leaves no word."""
    numbers = {test: reading.value for test, reading in scores.items() if isinstance(reading, Estimate)}
    parts = []
    accurate = estimates.get(f"{BASELINE}/accuracy")
    if isinstance(accurate, Estimate):
        parts.append(f"baseline accuracy {accurate.value:.2f}")
    if numbers:
        weakest = min(numbers, key=lambda test: (numbers[test], test))
        parts.append(f"weakest test {weakest} {numbers[weakest]:.2f}")
    flips = [estimates.get(f"{test}/flip_rate") for test in (STABILITY, f"{STABILITY}_deep", BASELINE)]
    parts += [f"flips on repeat {reading.value:.2f}" for reading in flips if isinstance(reading, Estimate)][:1]
    if parts and len(numbers) < len(scores):
        parts.append(f"{len(scores) - len(numbers)} of {len(scores)} tests without a number")
    return "; ".join(parts) or "not enough measured for a profile"


class CostPoint(NamedTuple):
    """Where the running score stood when so much had been spent."""

    usd: float
    """Cumulative dollars, unusable calls included."""
    n: int
    """Usable calls with an expected answer so far."""
    score: float
    """Share of them that were right."""


def cost_curve(calls: pd.DataFrame | Iterable[object]) -> list[CostPoint]:
    """Return cumulative dollars and running accuracy in the order of the records, one point per usable call.

    Unusable calls cost money and give no answer: they move the dollars of the next point and not the score.

    Returns:
        The points; none when the cost of any call is unknown, or no call has an expected answer.

    Raises:
        CallsError: when the records break a rule, or have no column `cost_usd`.
    """
    frame = normalise(calls)
    if "cost_usd" not in frame.columns:
        raise CallsError("Call records lack the column cost_usd: there is no cost curve without costs.")
    costs = pd.to_numeric(frame["cost_usd"], errors="coerce").to_numpy(float)
    if not np.isfinite(costs).all():
        return []
    spent = np.cumsum(costs)
    answer, expected = (np.array([plain(text) for text in frame[name]], object) for name in ("answer", "expected"))
    counted = np.isin(frame["outcome"].to_numpy(object), USABLE) & (expected != "")
    n = np.cumsum(counted)
    score = np.cumsum(counted & (answer == expected)) / np.maximum(n, 1)
    return [CostPoint(usd=float(spent[row]), n=int(n[row]), score=float(score[row])) for row in np.flatnonzero(counted)]


def usd_per_accuracy_point(cost: float | None, accuracy: float | None) -> float | None:
    """Return total cost in dollars over accuracy in percentage points; None when either is unknown or accuracy is 0.

    Example:
        >>> round(usd_per_accuracy_point(1.35, 0.9), 6)
        0.015
    """
    if cost is None or not accuracy:
        return None
    return cost / (100 * accuracy)
