"""Call records with the probabilities of their answers, as arrays."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from jrh_mlflow.errors import CallsError
from jrh_mlflow.measures.ledger import MAX_EXCLUDED, Mask, Units
from jrh_mlflow.measures.reliability.points import Codes, Texts, left_out
from jrh_mlflow.measures.reliability.scale import plain
from jrh_mlflow.measures.values import Array
from jrh_mlflow.schema.calls import USABLE

_TOLERANCE = 1e-2
"""By how much probabilities may sum past 1, as they come rounded."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SureTable:
    """Calls with their probabilities as parallel arrays, in an order that does not depend on that of the rows."""

    condition: Texts
    delta: npt.NDArray[np.float64]
    outcome: Texts
    answer: Texts
    target: Texts
    """The right answer: the slot of the better content, or the expected label; empty where there is none."""
    confidence: Array
    """NaN where there is none; other numbers are from 0 to 1."""
    refused: Mask
    """Cells that hold something which is no probability."""
    known: npt.NDArray[np.object_]
    """Answer to probability, of the answers that were read."""
    item: Codes
    task: Codes
    n_tasks: int
    max_excluded: float

    @property
    def right(self) -> Mask:
        """Verdicts equal to the right answer."""
        return np.asarray((self.outcome == "verdict") & (self.answer == self.target) & (self.target != ""))

    @property
    def usable(self) -> Mask:
        """Answers with a confidence."""
        return np.isin(self.outcome, USABLE) & ~np.isnan(self.confidence)

    def where(self, mask: Mask) -> SureTable:
        """Return the calls of `mask`."""
        names = ("condition", "delta", "outcome", "answer", "target", "confidence", "refused", "known", "item", "task")
        arrays: dict[str, Any] = {name: getattr(self, name)[mask] for name in names}
        return replace(self, **arrays)

    def units(self, what: str) -> Units:
        """Return these calls as a denominator; an answer without a confidence is left out by that name."""
        answered = np.isin(self.outcome, USABLE)
        bad = int((answered & self.refused).sum())
        without = int((answered & ~self.usable).sum()) - bad
        extra = {"no_confidence": without, "bad_confidence": bad}
        return Units(
            what=what,
            unit="call",
            usable=self.usable,
            clusters=self.task,
            n_codes=self.n_tasks,
            left_out=left_out(self.outcome[~answered]) | {name: count for name, count in extra.items() if count},
            max_excluded=self.max_excluded,
        )


def has_confidence(frame: pd.DataFrame) -> bool:
    """Tell whether any call has a confidence."""
    return "confidence" in frame.columns and bool(_given(frame["confidence"]).any())


def sure_table(frame: pd.DataFrame, *, max_excluded: float = MAX_EXCLUDED) -> SureTable:
    """Read normalised records into arrays.

    Raises:
        CallsError: when a cell of `probabilities` is no JSON object of probabilities.
    """
    frame = frame.sort_values(["suite_item", "order", "replicate"], kind="stable", ignore_index=True)
    given = _given(frame["confidence"])
    numbers = pd.to_numeric(frame["confidence"], errors="coerce").to_numpy(float)
    valid = given & (numbers >= 0) & (numbers <= 1)
    confidence = np.where(valid, numbers, np.nan)
    outcome = frame["outcome"].to_numpy(object)
    answer = np.array([plain(text) for text in frame["answer"]], dtype=object)
    tasks, items = pd.factorize(frame["task"], sort=True), pd.factorize(frame["suite_item"], sort=True)
    return SureTable(
        condition=frame["condition"].to_numpy(object),
        delta=frame["delta"].to_numpy(float),
        outcome=outcome,
        answer=answer,
        target=_targets(frame),
        confidence=confidence,
        refused=given & ~valid,
        known=_known(frame, np.where(outcome == "verdict", answer, outcome), confidence),
        item=items[0],
        task=tasks[0],
        n_tasks=len(tasks[1]),
        max_excluded=max_excluded,
    )


def _given(cells: pd.Series[Any]) -> Mask:
    return np.asarray(cells.notna() & (cells.astype(str).str.strip() != ""))


def _targets(frame: pd.DataFrame) -> Texts:
    """Return the slot in which the better content stands, or the expected label."""
    better, order = frame["better"].to_numpy(object), frame["order"].to_numpy(object)
    # Order uv puts u in slot 1; order vu puts it in slot 2.
    slot = np.where(better == "", "", np.where((better == "u") == (order == "uv"), "1", "2"))
    expected = np.array([plain(text) for text in frame["expected"]], dtype=object)
    return np.where(order == "", expected, slot).astype(object)


def _known(frame: pd.DataFrame, given: Texts, confidence: Array) -> npt.NDArray[np.object_]:
    known = np.empty(len(frame), dtype=object)
    cells = frame["probabilities"] if "probabilities" in frame.columns else [None] * len(frame)
    for row, cell in enumerate(cells):
        # Without a confidence the call is not counted, and nothing is read of it.
        if np.isnan(confidence[row]):
            known[row] = {}
        elif isinstance(cell, str) and cell:
            known[row] = _distribution(cell, item=str(frame["suite_item"].iloc[row]))
        else:
            known[row] = {given[row]: float(confidence[row])}
    return known


def _distribution(cell: str, *, item: str) -> Mapping[str, float]:
    problem = f"Column 'probabilities' must hold JSON objects of probabilities that sum to 1 at the most (item {item})."
    try:
        found = json.loads(cell)
    except ValueError as error:
        raise CallsError(problem) from error
    values: list[Any] = list(found.values()) if isinstance(found, dict) else [None]
    if not all(isinstance(value, int | float) and value >= 0 for value in values) or sum(values) > 1 + _TOLERANCE:
        raise CallsError(problem)
    return {plain(answer): float(value) for answer, value in found.items()}
