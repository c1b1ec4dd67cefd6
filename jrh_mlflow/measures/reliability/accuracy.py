"""Right against the expected answer, and true to the judge's own answer on the unperturbed item: two things apart."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from jrh_mlflow.measures.ledger import Mask, Units, share
from jrh_mlflow.measures.reliability.points import PointTable
from jrh_mlflow.schema.estimates import NotEstimable, Reading
from jrh_mlflow.schema.items import BASELINE, ERROR_INJECTION


@dataclass(frozen=True, kw_only=True, slots=True)
class Counted:
    """A share before it is taken: what counts, and which of it are hits."""

    units: Units
    hits: Mask

    @property
    def reading(self) -> Reading:
        """The share."""
        return share(self.units, self.hits)


def accuracy(calls: PointTable, name: str) -> Counted:
    """Calls equal to the expected answer; an abstention is an answer and never right."""
    judged = calls.where(calls.expected != "")
    return Counted(units=judged.units(f"{name} calls with an expected answer"), hits=judged.right)


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
    if name == BASELINE or name.startswith(ERROR_INJECTION):
        return {}
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
