"""Right against the expected answer, true to the judge's own baseline answer, and which way errors go."""

from __future__ import annotations

import numpy as np

from jrh_mlflow.schema.estimates import NotEstimable, Reading
from jrh_mlflow.scoring.ledger import refuse, share
from jrh_mlflow.scoring.pointwise import ORDER_UNKNOWN, Counted, PointTable
from jrh_mlflow.scoring.values import Resampling, Sample, ratio
from jrh_mlflow.stats import Array
from jrh_mlflow.stats.agreement import matthews


def accuracy(calls: PointTable, name: str) -> Counted:
    """Calls equal to the expected answer; an abstention is an answer and never right."""
    judged = calls.where(calls.expected != "")
    return judged.counted(f"{name} calls with an expected answer", judged.right)


def accuracy_axes(calls: PointTable, name: str) -> dict[str, Reading]:
    """Accuracy over calls, and pass rate over items: right in every replicate."""
    judged = calls.where(calls.expected != "")
    items = judged.items(f"{name} items with an expected answer")
    return {
        f"{name}/accuracy": accuracy(calls, name).reading,
        f"{name}/pass": share(items.units, items.all_of(judged.right)),
    }


def baseline_axes(calls: PointTable, name: str) -> dict[str, Reading]:
    """Consistency where the expected answer is the baseline's, `moved` where it is another; decided item by item.

    Replicate r is compared with baseline replicate r mod their number. A pair of calls with an unusable one leaves the
    denominator; an abstention is neither consistent nor moved.
    """
    paired = calls.where(calls.base_outcome != "")
    kept = paired.where(paired.expected == paired.base_expected)
    other = paired.where(
        np.asarray((paired.expected != paired.base_expected) & (paired.expected != "") & (paired.base_expected != ""))
    )
    both = {"consistency": kept, "moved": other} if len(other.test) else {"consistency": kept}
    if len(other.test) and not len(kept.test):
        del both["consistency"]
    several = calls.n_bases > 1
    if several.any():
        reason = f"{int(several.sum())} {name} calls have several baseline items: which is the original is not known"
        return {f"{name}/{axis}": NotEstimable(reason=reason) for axis in both}
    return {f"{name}/{axis}": _compared(part, f"{name} calls with a baseline", axis) for axis, part in both.items()}


def _compared(calls: PointTable, what: str, axis: str) -> Reading:
    verdicts = (calls.outcome == "verdict") & (calls.base_outcome == "verdict")
    same = calls.answer == calls.base_answer
    return share(calls.paired(what), np.asarray(verdicts & (same if axis == "consistency" else ~same)))


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
    reason = refuse(units, statistic="value")
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
