"""What readings show of each bias: found, none found, or not known; and how large one must be to be found.

A bias is found where the 95 % interval by task excludes what a judge without it reads (`Axis.neutral`). Where none is
found, `detectable` tells a judge without it from a design that could not have shown it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from jrh_mlflow.measures.axes import AXES, EXPECTED, find
from jrh_mlflow.schema.estimates import Estimate, NotEstimable, Reading
from jrh_mlflow.scoring.readings import CONSISTENCY
from jrh_mlflow.stats.power import detectable_from_interval, detectable_share

State = Literal["found", "none found", "not known"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """What a reading shows of one bias."""

    key: str
    """Of the estimate."""
    state: State
    reading: Reading
    detectable: float | None
    """Smallest bias that a run like this finds in four of five cases; None where it is not known."""


def findings(estimates: Mapping[str, Reading]) -> list[Finding]:
    """Return what was looked for, in the order of the declarations; a bias that nothing was asked about is left out."""
    declared = [axis.main_key for axis in AXES if axis.neutral is not None]
    return [
        Finding(key=key, state=_state(_neutral(key), reading), reading=reading, detectable=detectable(key, reading))
        for key in (*declared, *filter(_is_consistency, estimates))
        if (reading := estimates.get(key)) is not None
        if isinstance(reading, Estimate) or reading.withheld
    ]


def detectable(key: str, reading: Reading) -> float | None:
    """Smallest effect that a run like this finds in four of five cases; None without an interval by cluster.

    Of a bias that is a share, the share itself, however it clusters (`detectable_share`). Of every other reading the
    distance of the truth from a limit, or from the neutral value (`detectable_from_interval`).
    """
    if not isinstance(reading, Estimate) or reading.cluster_interval is None or reading.censored:
        return None
    if _neutral(key) in (0.0, 1.0) and reading.statistic == "rate":
        return detectable_share(reading.n_clusters)
    # Some bootstrap intervals leave their value out.
    low, high = reading.cluster_interval
    low, high = min(low, reading.value), max(high, reading.value)
    return detectable_from_interval(reading.value, low, high) or None


def _neutral(key: str) -> float | None:
    if _is_consistency(key):
        return 1.0
    axis = None if key.startswith(EXPECTED) else find(key)
    return axis.neutral if axis else None


def _is_consistency(key: str) -> bool:
    return key.endswith(f"/{CONSISTENCY}")


def finding_state(key: str, reading: Reading) -> State | None:
    """Return what a reading shows of the bias that its axis is about; None where it is about none."""
    neutral = _neutral(key)
    return None if neutral is None else _state(neutral, reading)


def _state(neutral: float | None, reading: Reading) -> State:
    ends = None if isinstance(reading, NotEstimable) else reading.cluster_interval
    if ends is None or neutral is None:
        return "not known"
    return "none found" if ends[0] <= neutral <= ends[1] else "found"
