"""Measured numbers, and the reasons why a number is missing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields, is_dataclass, replace
from typing import Any, Literal

Statistic = Literal["rate", "value"]
"""A share of units, or any other number: the last part of its MLflow key."""
Censoring = Literal["left", "right"] | None
"""Of a threshold: reached at the smallest measured step, or never reached."""

Ends = tuple[float | None, float | None]


@dataclass(frozen=True, kw_only=True, slots=True)
class Estimate:
    """A measured number that never travels without its denominator."""

    value: float
    n: int
    """Calls, canonical pairs or items, as `unit` says."""
    excluded: int
    """Units of the denominator without a usable answer; a pair or an item that lost a call is lost whole."""
    ci_low: float | None
    """95 %, independent units. None: not available, or for a threshold beyond the measured steps."""
    ci_high: float | None
    cluster_low: float | None
    """95 %, tasks as clusters; decisions use this one. None as for `ci_low`."""
    cluster_high: float | None
    n_clusters: int
    method: str
    unit: Literal["call", "pair", "item", "person", "curve"] = "call"
    statistic: Statistic = "rate"
    numerator: float | None = None
    left_out: Mapping[str, int] = field(default_factory=dict)
    """Unusable calls of the denominator by outcome."""
    n_calls: int | None = None
    """Calls behind it, lost ones included, where a unit is more than one call."""
    bound_low: float | None = None
    """The value if every lost call had gone against it."""
    bound_high: float | None = None
    """The value if every lost call had gone for it."""
    censored: Censoring = None
    """Thresholds only; `value` is then the outermost measured step on that side, a bound."""
    censoring: Mapping[str, float] = field(default_factory=dict)
    """Thresholds only: share of resamples censored on either side."""
    not_reached_at: float | None = None
    """Thresholds only: up to this step the intervals by cluster of the curve lie below the target. None: at no step."""
    reached_by: float | None = None
    """Thresholds only: from this step on they lie at or above it. None: at no step."""
    at_level: Callable[[float], tuple[float, float] | None] | None = field(default=None, compare=False, repr=False)
    """The interval by cluster at another level than 95 %; known while the counts are at hand, and in no file."""
    decides_at: Callable[[float], Ends | None] | None = field(default=None, compare=False, repr=False)
    """What decides at a level: the hull of that interval and of those of the two extreme completions of lost calls; of
    a threshold the steps between which its curve lies. None: nothing was lost, or it is not known; in no file."""

    @property
    def interval(self) -> tuple[float, float] | None:
        """The interval of independent units, where both of its ends are known."""
        return None if self.ci_low is None or self.ci_high is None else (self.ci_low, self.ci_high)

    @property
    def cluster_interval(self) -> tuple[float, float] | None:
        """The interval by cluster, where both of its ends are known."""
        return None if self.cluster_low is None or self.cluster_high is None else (self.cluster_low, self.cluster_high)

    @property
    def crossing_decided(self) -> bool:
        """Thresholds only: whether the intervals of the curve support `≤ value`, `> value`, or that it is reached."""
        if self.censored == "right":
            return self.not_reached_at == self.value
        return self.reached_by is not None and (self.censored is None or self.reached_by == self.value)

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON-ready data."""
        data = asdict(replace(self, at_level=None, decides_at=None))
        del data["at_level"], data["decides_at"]
        return {"kind": "estimate", **data}


@dataclass(frozen=True, kw_only=True, slots=True)
class Bounds:
    """What a withheld number would read if every lost call had gone one way or the other; no number itself."""

    low: float
    high: float
    asked: int
    """Calls behind it, lost ones included."""
    lost: Mapping[str, int]
    """Calls without a usable answer by outcome."""
    low_censored: Censoring = None
    """Thresholds only, as `censored` of an estimate."""
    high_censored: Censoring = None

    @property
    def lost_share(self) -> float:
        """Share of the calls that were lost."""
        return sum(self.lost.values()) / self.asked


@dataclass(frozen=True, kw_only=True, slots=True)
class NotEstimable:
    """What was not measured: never 0, never NaN."""

    reason: str
    withheld: bool = False
    """True when calls were made but too many of them gave no usable answer."""
    n: int = 0
    excluded: int = 0
    left_out: Mapping[str, int] = field(default_factory=dict)
    statistic: Statistic = field(default="rate", compare=False)
    """What the number would be; two reasons are the same whatever they stand for."""
    bounds: Bounds | None = None
    """Of a withheld share, curve or mean: between what it lies. None where nothing was lost, or no bound is exact."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON-ready data."""
        return {"kind": "not_estimable", **asdict(self)}


Reading = Estimate | NotEstimable


def read_reading(data: Mapping[str, Any]) -> Reading:
    """Read what `to_dict` wrote."""
    kind = Estimate if data["kind"] == "estimate" else NotEstimable
    known = {field.name for field in fields(kind)}
    # Files say more of a reading than its fields: its kind, and what would have been found.
    values = {name: value for name, value in data.items() if name in known}
    if isinstance(values.get("bounds"), Mapping):
        values["bounds"] = Bounds(**values["bounds"])
    return kind(**values)


def intervals(plain: Ends | None, clustered: Ends | None) -> dict[str, Any]:
    """Return both intervals as the fields of an `Estimate`; a missing one has no ends."""
    (ci_low, ci_high), (cluster_low, cluster_high) = plain or (None, None), clustered or (None, None)
    return {"ci_low": ci_low, "ci_high": ci_high, "cluster_low": cluster_low, "cluster_high": cluster_high}


def plain_data(value: Any) -> Any:
    """Return a result as JSON-ready data: what has a `to_dict` by it, other dataclasses by field, tuples as lists."""
    if hasattr(value, "to_dict"):
        return value.to_dict()
    if is_dataclass(value):
        return plain_fields(value)
    if isinstance(value, Mapping):
        return {key: plain_data(inner) for key, inner in value.items()}
    return [plain_data(inner) for inner in value] if isinstance(value, tuple | list) else value


def plain_fields(value: Any, *names: str) -> dict[str, Any]:
    """Return the fields of a dataclass, or what else has these names, as JSON-ready data."""
    return {name: plain_data(getattr(value, name)) for name in names or [field.name for field in fields(value)]}
