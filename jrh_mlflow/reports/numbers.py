"""Readings, intervals and thresholds as text, for every page, table and figure."""

from __future__ import annotations

from jrh_mlflow.schema.estimates import Estimate, NotEstimable, Reading


def value_text(reading: Reading | None) -> str:
    """Write a value to four places, or `n/a`."""
    return f"{reading.value:.4f}" if isinstance(reading, Estimate) else "n/a"


def with_interval(reading: Reading) -> str:
    """Write a value with its interval by cluster, `0.812 [0.70, 0.89]`, or `n/a`."""
    if isinstance(reading, NotEstimable):
        return "n/a"
    return f"{reading.value:.3f} {short_interval(reading.cluster_low, reading.cluster_high)}"


def interval_text(low: float | None, high: float | None) -> str:
    """Write an interval to four places; an end beyond what was measured is a dash, and so is a missing interval."""
    if low is None and high is None:
        return "–"
    return f"[{_end(low)}, {_end(high)}]"


def short_interval(low: float | None, high: float | None) -> str:
    """Write an interval to two places, or a dash where an end is missing."""
    return "–" if low is None or high is None else f"[{low:.2f}, {high:.2f}]"


def threshold_text(reading: Reading) -> str:
    """Write a threshold with its censoring: `≤ 1`, `4.00`, `> 5`."""
    if isinstance(reading, NotEstimable):
        return "n/a"
    sign = {"left": "≤ ", "right": "> ", None: ""}[reading.censored]
    return f"{sign}{reading.value:g}" if reading.censored else f"{reading.value:.2f}"


def _end(value: float | None) -> str:
    return "–" if value is None else f"{value:.4f}"
