"""Criterion shift: the same judge on the same suite under two tie criteria."""

from __future__ import annotations

from collections.abc import Mapping

from jrh_mlflow.measures.datasheet.sheet import Datasheet
from jrh_mlflow.measures.ledger import interval_method
from jrh_mlflow.schema.estimates import Estimate, NotEstimable, Reading
from jrh_mlflow.stats.proportions import newcombe

_AXES = ("tie_rate/", "raw_false_preference", "dark_current", "target_sensitivity/", "miss_by_tie/", "wrong_choice/")


def criterion_axes(arms: Mapping[str, Datasheet]) -> dict[str, Reading]:
    """Return `<criterion>/<axis>` to `arm - base` for ties (ΔC), false preference, sensitivity and misses."""
    (_, base), *others = arms.items()
    return {
        f"{name}/{axis}": difference(before, sheet.estimates[axis])
        for name, sheet in others
        for axis, before in base.estimates.items()
        if axis.startswith(_AXES) and axis in sheet.estimates
    }


def difference(before: Reading, after: Reading) -> Reading:
    """Return `after - before` of two shares, with intervals from theirs (Newcombe), or why there is none."""
    for side, reading in (("base", before), ("other", after)):
        if isinstance(reading, NotEstimable):
            return NotEstimable(reason=f"{side} arm: {reading.reason}", withheld=reading.withheld)
    assert isinstance(before, Estimate)
    assert isinstance(after, Estimate)
    plain = _interval(before, after, (before.ci_low, before.ci_high), (after.ci_low, after.ci_high))
    clustered = _interval(
        before, after, (before.cluster_low, before.cluster_high), (after.cluster_low, after.cluster_high)
    )
    n_clusters = min(before.n_clusters, after.n_clusters)
    return Estimate(
        value=after.value - before.value,
        n=min(before.n, after.n),
        excluded=before.excluded + after.excluded,
        ci_low=plain[0],
        ci_high=plain[1],
        cluster_low=clustered[0],
        cluster_high=clustered[1],
        n_clusters=n_clusters,
        method=interval_method("Newcombe difference of Wilson intervals", n_clusters),
        unit=after.unit,
    )


_Ends = tuple[float | None, float | None]


def _interval(before: Estimate, after: Estimate, a: _Ends, b: _Ends) -> _Ends:
    if a[0] is None or a[1] is None or b[0] is None or b[1] is None:
        return None, None
    return newcombe(before.value, (a[0], a[1]), after.value, (b[0], b[1]))
