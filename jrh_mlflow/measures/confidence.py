"""What a judge's probabilities say: whether they come true, and the axes as expected values.

**Calibration** (`confidence/…`) is read on calls with a known right answer: ladder and natural pairs, where the better
content is right, and pointwise items with an expected answer. A tie or an abstention there is an answer that is wrong,
as in the hard axes. A call without a confidence leaves the denominator and is counted beside it, like an unparsed one.

**Expected values** (`expected/…`) replace each hard verdict by the probability of the event that the axis counts. Only
what was read is known of it. With `p(a)` the probabilities read (of the given answer at least: its confidence) and
`r = 1 - sum p(a)` the rest that was not read, the event E of a call has a probability from

    low = sum of p(a) for a in E    to    high = low + r.

So with the confidence c alone, a verdict in E says [c, 1] and one outside [0, 1 - c]: which answers the rest belongs to
is not known. The value is the middle of the mean low and the mean high, and no more than that; `bound_low` and
`bound_high` are the two ends, with every excluded call gone against and for it. The intervals run from the lower end of
the low mean's to the upper end of the high mean's: they hold the truth wherever in between it is. Where the provider
lists the alternatives, r is small and all of this closes around one number.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import pandas as pd

from jrh_mlflow.errors import CallsError
from jrh_mlflow.measures import axes as declarations
from jrh_mlflow.measures.axes import CONFIDENCE, EXPECTED, Event, chooses_better
from jrh_mlflow.measures.records import CallTable, call_table, choice
from jrh_mlflow.schema.estimates import Estimate, NotEstimable, Reading, intervals
from jrh_mlflow.schema.items import USABLE
from jrh_mlflow.scoring.ledger import MAX_EXCLUDED, Resampling, Sample, Units, defined_ratio, refuse, with_bounds
from jrh_mlflow.scoring.pointwise import in_order, left_out_counts, plain_label, right_answers
from jrh_mlflow.stats import Array, Interval, Mask, Texts
from jrh_mlflow.stats.calibration import N_BINS, bin_codes, ece_if_calibrated, mirrored_interval

MIN_CALLS = 5 * N_BINS
"""Fewer leave bins of under five calls, and a calibration error of chance."""
DEFAULT = Resampling()

_TOLERANCE = 1e-2
"""By how much probabilities may sum past 1, as they come rounded."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ConfidenceTable(CallTable):
    """Calls with their probabilities as parallel arrays, in an order that does not depend on that of the rows."""

    target: Texts
    """The right choice: the better content, or the expected label; empty where there is none."""
    confidence: Array
    """NaN where there is none; other numbers are from 0 to 1."""
    refused: Mask
    """Cells that hold something which is no probability."""
    known: Texts
    """Choice to probability, of the choices that were read."""
    pointwise: bool = False

    @property
    def right(self) -> Mask:
        """Verdicts equal to the right answer."""
        return np.asarray((self.outcome == "verdict") & (self.choice == self.target) & (self.target != ""))

    @property
    def usable(self) -> Mask:
        """Answers with a confidence."""
        return np.isin(self.outcome, USABLE) & ~np.isnan(self.confidence)

    def units(self, what: str) -> Units:
        """Return these calls as a denominator; an answer without a confidence is left out by that name."""
        answered = np.isin(self.outcome, USABLE)
        bad = int((answered & self.refused).sum())
        without = int((answered & ~self.usable).sum()) - bad
        extra = {"no_confidence": without, "bad_confidence": bad}
        lost = left_out_counts(self.outcome[~answered]) | {name: count for name, count in extra.items() if count}
        return replace(CallTable.units(self, what), left_out=lost)


def has_confidence(frame: pd.DataFrame) -> bool:
    """Tell whether any call has a confidence."""
    return "confidence" in frame.columns and bool(_given(frame["confidence"]).any())


def confidence_table(frame: pd.DataFrame, *, max_excluded: float = MAX_EXCLUDED) -> ConfidenceTable:
    """Read normalised records into arrays.

    Raises:
        CallsError: when a cell of `probabilities` is no JSON object of probabilities.
    """
    # By name, so that the same calls in another order have the same resamples.
    frame, row = in_order(frame, ["suite_item", "order", "replicate"])
    given = _given(frame["confidence"])
    numbers = pd.to_numeric(frame["confidence"], errors="coerce").to_numpy(float)
    valid = given & (numbers >= 0) & (numbers <= 1)
    confidence = np.where(valid, numbers, np.nan)
    calls = call_table(frame, max_excluded=max_excluded)
    columns = {field.name: getattr(calls, field.name) for field in fields(calls)} | {"row": row}
    points = frame["order"].to_numpy(object) == ""
    return ConfidenceTable(
        **columns,
        target=np.where(points, right_answers(frame), calls.better).astype(object),
        confidence=confidence,
        refused=given & ~valid,
        known=_known(frame, calls.choice, confidence),
        pointwise=bool(points.all()),
    )


def _given(cells: pd.Series[Any]) -> Mask:
    if pd.api.types.is_numeric_dtype(cells):
        return np.asarray(cells.notna())
    return np.asarray(cells.notna() & (cells.astype(str).str.strip() != ""))


def _known(frame: pd.DataFrame, chosen: Texts, confidence: Array) -> Texts:
    known = np.empty(len(frame), dtype=object)
    cells = frame["probabilities"] if "probabilities" in frame.columns else [None] * len(frame)
    for row, cell in enumerate(cells):
        # Without a confidence the call is not counted, and nothing is read of it.
        if np.isnan(confidence[row]):
            known[row] = {}
        elif isinstance(cell, str) and cell:
            distribution = _distribution(cell, item=str(frame["suite_item"].iloc[row]))
            order = str(frame["order"].iloc[row])
            known[row] = {_slot_choice(answer, order): probability for answer, probability in distribution.items()}
        else:
            known[row] = {chosen[row]: float(confidence[row])}
    return known


def _slot_choice(answer: str, order: str) -> str:
    return choice(order=order, outcome="verdict", answer=answer) if answer in ("1", "2") else answer


def _distribution(cell: str, *, item: str) -> Mapping[str, float]:
    problem = f"Column 'probabilities' must hold JSON objects of probabilities that sum to 1 at the most (item {item})."
    try:
        distribution = json.loads(cell)
    except ValueError as error:
        raise CallsError(problem) from error
    values: list[Any] = list(distribution.values()) if isinstance(distribution, dict) else [None]
    if not all(isinstance(value, int | float) and value >= 0 for value in values) or sum(values) > 1 + _TOLERANCE:
        raise CallsError(problem)
    return {plain_label(answer): float(value) for answer, value in distribution.items()}


def confidence_axes(
    frame: pd.DataFrame, *, max_excluded: float = MAX_EXCLUDED, resampling: Resampling = DEFAULT
) -> dict[str, Reading]:
    """Return every axis of this module for normalised records; none where no call has a confidence."""
    if not has_confidence(frame):
        return {}
    table = confidence_table(frame, max_excluded=max_excluded)
    return calibration_axes(table, resampling=resampling) | expected_axes(table, resampling=resampling)


def calibration_axes(calls: ConfidenceTable, *, resampling: Resampling = DEFAULT) -> dict[str, Reading]:
    """Brier score, calibration error, mean confidence, and mean confidence minus accuracy (above 0: overconfident).

    The error is the mean distance of confidence from accuracy, `sum_b n_b / n |mean confidence_b - accuracy_b|`, over
    ten equally filled bins, whose edges the bootstrap keeps. Chance alone moves every bin off the diagonal, so a
    calibrated judge does not read 0: the method names what it would read.

    Reference:
        Brier (1950), Mon. Weather Rev. 78:1-3; Naeini, Cooper & Hauskrecht (2015), AAAI 29:2901-2907; for equally
        filled bins and the bias Nixon et al. (2019), CVPR Workshops, and Roelofs et al. (2022), AISTATS 25:4036-4054.
    """
    judged = calls.where(calls.target != "")
    units = judged.units("calls with a known right answer")
    names = [axis.name for axis in declarations.AXES if axis.stimuli is CONFIDENCE]
    reason = refuse(units, statistic="value")
    judged = judged.where(units.usable)
    if reason is not None:
        return {name: with_bounds(reason, units, _mean_bounds(judged, units, name)) for name in names}
    confidence, right = judged.confidence, judged.right.astype(float)
    n = len(confidence)
    # A column for each bin: a resample then only sums rows, and the bins stay as they are.
    gaps = np.zeros((n, N_BINS))
    gaps[np.arange(n), bin_codes(confidence)] = confidence - right
    features = np.column_stack([np.square(confidence - right), confidence, confidence - right, np.ones(n), gaps])
    sample = Sample(units=units, features=features, items=judged.item)
    values: dict[str, float | None] = {
        name: float(means[0]) for name, means in _calibration(features.sum(0)[None]).items()
    }
    # Bins of a few calls differ from their accuracy by chance alone.
    if n < MIN_CALLS:
        values["ece"] = None
    without = f"fewer than {MIN_CALLS} calls with a confidence and a known right answer"
    readings = sample.readings(values, _calibration, resampling, without=without)
    # Resampling adds chance to chance, so the resamples of an error lie above it as it lies above the truth.
    readings["ece"] = _mirrored(readings["ece"], ece_if_calibrated(confidence))
    return {name: readings[name.removeprefix("confidence/")] for name in names}


def _mean_bounds(judged: ConfidenceTable, units: Units, name: str) -> Interval | None:
    """Bounds of a mean over calls, each between two numbers; the calibration error is none and has no bounds."""
    confidence, right = judged.confidence, judged.right.astype(float)
    values = {
        "confidence/brier": (np.square(confidence - right), 0.0, 1.0),
        "confidence/mean": (confidence, 0.0, 1.0),
        "confidence/accuracy_gap": (confidence - right, -1.0, 1.0),
    }
    if name not in values or not len(units.usable):
        return None
    (known, least, most), lost = values[name], len(units.usable) - len(confidence)
    low, high = ((float(known.sum()) + lost * end) / len(units.usable) for end in (least, most))
    return low, high


def _calibration(sums: Array) -> Mapping[str, Array]:
    n = sums[:, 3]
    return {
        "brier": defined_ratio(sums[:, 0], n),
        "ece": defined_ratio(np.abs(sums[:, 4:]).sum(axis=1), n),
        "mean": defined_ratio(sums[:, 1], n),
        "accuracy_gap": defined_ratio(sums[:, 2], n),
    }


def _mirrored(reading: Reading, calibrated: float | None) -> Reading:
    if isinstance(reading, NotEstimable):
        return reading
    both = (mirrored_interval(reading.value, ends) for ends in (reading.interval, reading.cluster_interval))
    method = f"{reading.method}; mirrored against the bias; a calibrated judge would read {calibrated:.3f}"
    return replace(reading, **intervals(*both), method=method)


def expected_axes(calls: ConfidenceTable, *, resampling: Resampling = DEFAULT) -> dict[str, Reading]:
    """The axes declared as `expected`, or accuracy on each test, with probabilities in place of verdicts."""
    axes: dict[str, Reading] = {}
    for key, among, what, event in expected_cells(calls):
        part = calls.where(among)
        ends = [_event(known, event, str(target)) for known, target in zip(part.known, part.target, strict=True)]
        axes[f"{EXPECTED}{key}"] = _expected_value(part, np.array(ends).reshape(-1, 2), what, resampling)
    return axes


def expected_cells(calls: ConfidenceTable) -> Iterator[tuple[str, Mask, str, Event]]:
    """Yield the axes that these calls have: key, which of them count, what those are called, and which are hits."""
    if calls.pointwise:
        for name in sorted(set(calls.condition[calls.target != ""])):
            among = np.asarray((calls.condition == name) & (calls.target != ""))
            yield f"{name}/accuracy", among, f"{name} calls with an expected answer", chooses_better
        return
    for axis in declarations.AXES:
        if axis.expected and axis.hits:
            for key, among in axis.where(calls.condition, calls.delta).items():
                if among.any():
                    yield key, among, axis.what(key), axis.hits


def _event(known: Mapping[str, float], event: Event, target: str) -> tuple[float, float]:
    """Return the least and the greatest probability of what an axis counts."""
    low = sum(probability for choice, probability in known.items() if event(choice, target))
    # Probabilities come rounded, so their sum may pass 1 by a little.
    rest = max(0.0, 1 - sum(known.values()))
    return min(1.0, low), min(1.0, low + rest)


def _expected_value(calls: ConfidenceTable, ends: Array, what: str, resampling: Resampling) -> Reading:
    units = calls.units(what)
    reason, rows, total = refuse(units), ends[units.usable], max(1, len(ends))
    # A call without a confidence can have any probability of what the axis counts.
    bounds = float(rows[:, 0].sum() / total), float((rows[:, 1].sum() + len(ends) - len(rows)) / total)
    if reason is not None:
        return with_bounds(reason, units, bounds)
    features = np.column_stack([rows, np.ones(len(rows))])

    def means(sums: Array) -> Mapping[str, Array]:
        return {"low": defined_ratio(sums[:, 0], sums[:, 2]), "high": defined_ratio(sums[:, 1], sums[:, 2])}

    sample = Sample(units=units, features=features, items=calls.item[units.usable])
    values = {name: float(mean[0]) for name, mean in means(features.sum(axis=0)[None]).items()}
    readings = sample.readings(values, means, resampling, without="no calls")
    low, high = readings["low"], readings["high"]
    assert isinstance(low, Estimate)
    assert isinstance(high, Estimate)
    return _between(low, high, bounds)


def _between(low: Estimate, high: Estimate, bounds: Interval) -> Estimate:
    """Join the readings of both ends into one: the middle, bounds, and intervals that hold both ends."""
    both = (
        None if below is None and above is None else (_or(below, low.value), _or(above, high.value))
        for below, above in ((low.ci_low, high.ci_high), (low.cluster_low, high.cluster_high))
    )
    unread = high.value - low.value
    return replace(
        low,
        value=(low.value + high.value) / 2,
        **intervals(*both),
        bound_low=bounds[0],
        bound_high=bounds[1],
        statistic="rate",
        method=f"{low.method}; {unread:.1%} of the probability not read, the value takes half of it",
    )


def _or(end: float | None, value: float) -> float:
    return value if end is None else end
