"""Two labels: which way the errors go."""

from __future__ import annotations

import numpy as np

from jrh_mlflow.measures.ledger import refuse, share
from jrh_mlflow.measures.reliability.points import PointTable
from jrh_mlflow.measures.values import Array, Resampling, Sample, ratio
from jrh_mlflow.schema.estimates import NotEstimable, Reading
from jrh_mlflow.stats.association import matthews

ORDER_UNKNOWN = "which label is the {what} one is not known; pass labels=(…) in order, the {what} one last"


def error_axes(calls: PointTable, name: str) -> dict[str, Reading]:
    """Share of calls that are not the expected answer: the other side of accuracy, an abstention included."""
    judged = calls.where(calls.expected != "")
    return {f"{name}/error_rate": share(judged.units(f"{name} calls with an expected answer"), ~judged.right)}


def binary_axes(calls: PointTable, name: str, resampling: Resampling) -> dict[str, Reading]:
    """FPR, FNR and Matthews' correlation; the last label is the positive one.

    FPR is the share of the calls that expect the negative label and answer the positive one, FNR the other way round;
    an abstention is in their denominators and no error of either kind.
    """
    judged = calls.where(calls.expected != "")
    return {
        f"{name}/fpr": _confused(judged, name, expected=0),
        f"{name}/fnr": _confused(judged, name, expected=1),
        f"{name}/matthews": _matthews(judged, name, resampling),
    }


def _confused(calls: PointTable, name: str, *, expected: int) -> Reading:
    if not calls.scale.ordered:
        return NotEstimable(reason=ORDER_UNKNOWN.format(what="positive"))
    label, other = calls.scale.labels[expected], calls.scale.labels[1 - expected]
    part = calls.where(calls.expected == label)
    return share(part.units(f"{name} calls that expect {label!r}"), np.asarray(part.answer == other))


def _matthews(calls: PointTable, name: str, resampling: Resampling) -> Reading:
    units = calls.verdicts(f"{name} calls with an expected answer")
    reason = refuse(units)
    if reason is not None:
        return reason
    used = calls.where(units.usable)
    positive = used.scale.labels[1]
    # Symmetric in the two labels, so it needs no order.
    cell = 2 * (used.expected == positive).astype(int) + (used.answer == positive).astype(int)
    features = np.eye(4)[cell]
    tn, fp, fn, tp = (int(count) for count in features.sum(axis=0))
    sample = Sample(units=units, features=features, items=used.item)
    missing = "no variation: one label throughout on the expected or on the given side"
    return sample.readings({"matthews": matthews(tp, fp, fn, tn)}, _phi, resampling, without=missing)["matthews"]


def _phi(sums: Array) -> dict[str, Array]:
    tn, fp, fn, tp = sums.T
    margins = (tp + fp) * (tp + fn) * (tn + fp) * (tn + fn)
    return {"matthews": ratio(tp * tn - fp * fn, np.sqrt(margins))}
