"""Axes of confidence on records whose readings are known, and what cannot be known shown as bounds."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from hypothesis import given

import jrh_mlflow as jrh
from jrh_mlflow.errors import CallsError
from jrh_mlflow.measures.confidence import ConfidenceTable, calibration_axes, confidence_axes
from jrh_mlflow.measures.records import normalise
from jrh_mlflow.schema.estimates import Estimate
from jrh_mlflow.scoring.ledger import Resampling
from tests.measures.pointwise import number, point, reading, report
from tests.measures.recount import measured, records
from tests.readings import COSTLY_PROPERTY, Row, call, estimate, missing, pair, pairs, value

LADDER = {"condition": "ladder", "delta": 1.0, "better": "u"}


def sure(rows: list[Row], *confidences: float | None, probabilities: dict[str, float] | None = None) -> list[Row]:
    """Give records their confidences, the same again and again."""
    text = json.dumps(probabilities) if probabilities else None
    return [
        {**row, "confidence": confidences[index % len(confidences)], "probabilities": text}
        for index, row in enumerate(rows)
    ]


def own(sheet: jrh.Datasheet) -> set[str]:
    return {axis for axis in sheet.estimates if axis.startswith(("confidence/", "expected/"))}


@COSTLY_PROPERTY
@given(records())
def test_confidences_leave_the_hard_axes_alone_and_are_those_axes_where_the_judge_is_sure(rows):
    plain = measured(rows)
    empty = measured([{**row, "confidence": None, "probabilities": None} for row in rows])
    assert own(plain) == set()
    assert empty.to_dict() == plain.to_dict()
    page = plain.to_markdown()
    assert empty.to_markdown() == page
    assert "Confidence" not in page
    for confidence in (0.9, 1.0):
        sheet = measured(sure(rows, confidence))
        assert {axis: sheet.estimates[axis] for axis in plain.estimates} == dict(plain.estimates)
    for axis in own(sheet):
        hard = sheet.estimates.get(axis.removeprefix("expected/"))
        if isinstance(hard, Estimate):
            assert value(sheet, axis) == pytest.approx(hard.value), axis
            assert estimate(sheet, axis).bound_high == pytest.approx(hard.bound_high), axis


def test_calibration_of_hand_worked_pairs():
    """In order uv slot 1 is u: right, right (slot 2 of vu), a tie and a wrong slot, with 0.9, 0.8, 0.6, 0.7."""
    rows = pair("a", "1", "2", **LADDER) + pair("b", "tie", "1", **LADDER)
    sheet = measured(sure(rows, 0.9, 0.8, 0.6, 0.7))
    assert value(sheet, "confidence/brier") == pytest.approx((0.01 + 0.04 + 0.36 + 0.49) / 4)
    assert value(sheet, "confidence/mean") == pytest.approx(0.75)
    assert value(sheet, "confidence/accuracy_gap") == pytest.approx(0.75 - 0.5)
    assert missing(sheet, "confidence/ece").reason.startswith("fewer than 50 calls")


def test_the_calibration_error_has_ten_bins_and_names_what_a_calibrated_judge_reads():
    rows = pairs([("1", "2")] * 20 + [("2", "1")] * 10, n_tasks=7, **LADDER)
    error = estimate(measured(sure(rows, 0.8)), "confidence/ece")
    assert error.value == pytest.approx(0.8 - 2 / 3)
    assert error.n == 60
    assert "a calibrated judge would read" in error.method
    assert error.cluster_low is not None
    assert error.cluster_low < error.value < error.cluster_high


def test_calls_without_a_known_right_answer_are_no_part_of_calibration():
    rows = pairs([("1", "1")] * 5, condition="vacuum_empty", name="v") + pairs([("1", "tie")] * 5, delta=0)
    sheet = measured(sure(rows, 0.9))
    assert missing(sheet, "confidence/brier").reason == "no calls with a known right answer"


def test_calls_without_a_usable_confidence_leave_the_denominator_and_are_counted_by_their_reason():
    rows = sure(pairs([("1", "2")] * 5, **LADDER), 0.9)
    rows += sure(pair("x", "1", "2", **LADDER), None, 90.0) + sure(pair("y", "unparsed", "1", **LADDER), None, 0.9)
    brier = estimate(measured(rows), "confidence/brier")
    assert (brier.n, brier.excluded) == (11, 3)
    assert brier.left_out == {"unparsed": 1, "error": 0, "no_confidence": 1, "bad_confidence": 1}
    withheld = missing(measured(rows, max_excluded=0.05), "confidence/brier")
    assert withheld.withheld
    assert "no_confidence 1, bad_confidence 1" in withheld.reason


@pytest.mark.parametrize("cell", ["high", -0.5, 1.5])
def test_confidences_that_are_no_probabilities_are_withheld_and_never_a_crash(cell):
    sheet = measured(sure(pairs([("1", "2")] * 5, **LADDER), cell), max_excluded=0.05)
    assert "bad_confidence 10" in missing(sheet, "confidence/brier").reason


def test_a_confidence_alone_gives_expected_values_as_bounds():
    """Slots with 0.8 say at least 0.8 and at most 1; ties with 0.6 at least 0 and at most 0.4."""
    rows = sure(pairs([("1", "tie"), ("tie", "2")], condition="vacuum_empty"), 0.8, 0.6, 0.6, 0.8)
    dark = estimate(measured(rows), "expected/dark_current")
    assert (dark.bound_low, dark.bound_high) == pytest.approx(((0.8 + 0 + 0 + 0.8) / 4, (1 + 0.4 + 0.4 + 1) / 4))
    assert dark.value == pytest.approx((dark.bound_low + dark.bound_high) / 2)
    assert "30.0% of the probability not read" in dark.method


@pytest.mark.parametrize(("said", "axis", "low", "high"), [
    ("1", "target_sensitivity/delta_1", 0.7, 1.0),
    ("2", "target_sensitivity/delta_1", 0.0, 0.3),
    ("tie", "target_sensitivity/delta_1", 0.0, 0.3),
])  # fmt: skip
def test_what_one_verdict_says_of_choosing_the_better(said, axis, low, high):
    other = {"1": "2", "2": "1", "tie": "tie"}[said]
    rows = sure(pair("a", said, other, **LADDER), 0.7)
    found = estimate(measured(rows), f"expected/{axis}")
    assert (found.bound_low, found.bound_high) == pytest.approx((low, high))


def test_a_whole_distribution_gives_the_expected_values_exactly():
    spread = {"1": 0.5, "2": 0.2, "tie": 0.3}
    rows = sure(pairs([("1", "1")] * 4, condition="vacuum_empty", name="v"), 0.5, probabilities=spread)
    rows += sure(pairs([("1", "1")] * 4, delta=0, name="d"), 0.5, probabilities=spread)
    rows += sure(pairs([("1", "1")] * 4, name="l", **LADDER), 0.5, probabilities=spread)
    rows += sure(pairs([("1", "1")] * 4, name="n", condition="natural", better="v"), 0.5, probabilities=spread)
    sheet = measured(rows)
    # u stands in slot 1 half of the time, so either content is chosen with (0.5 + 0.2) / 2.
    wanted = {"dark_current": 0.7, "raw_false_preference": 0.7, "target_sensitivity/delta_1": 0.35}
    for axis, expected in {**wanted, "natural/accuracy": 0.35}.items():
        found = estimate(sheet, f"expected/{axis}")
        assert (found.value, found.bound_low, found.bound_high) == pytest.approx((expected,) * 3), axis


def test_an_abstention_counts_as_no_side_in_the_vacuum_and_as_no_tie_between_equals():
    spread = {"abstain": 0.6, "1": 0.1, "tie": 0.3}
    rows = sure(pair("v", "abstain", "abstain", condition="vacuum_empty"), 0.6, probabilities=spread)
    rows += sure(pair("d", "abstain", "abstain", delta=0), 0.6, probabilities=spread)
    sheet = measured(rows)
    assert value(sheet, "expected/dark_current") == pytest.approx(0.1)
    assert value(sheet, "expected/raw_false_preference") == pytest.approx(0.7)


def test_the_interval_of_a_partly_known_value_holds_both_ends():
    rng = np.random.default_rng(2)
    rows = pairs([("1", "tie") if rng.random() < 0.5 else ("tie", "tie") for _ in range(40)], condition="vacuum_empty")
    dark = estimate(measured(sure(rows, 0.7), n_resamples=200), "expected/dark_current")
    assert dark.cluster_low < dark.bound_low < dark.value < dark.bound_high < dark.cluster_high


@pytest.mark.parametrize(
    "cell", ["no json", "[0.5]", '{"1": "0.5"}', '{"1": -0.1}', '{"1": 0.8, "2": 0.8}', '{"1": NaN}']
)
def test_a_distribution_that_is_none_is_refused_with_its_item(cell):
    rows = [{**row, "confidence": 0.5, "probabilities": cell} for row in pair("item-7", "1", "2", **LADDER)]
    with pytest.raises(CallsError, match="item-7"):
        measured(rows)


def test_the_order_of_the_records_changes_nothing():
    rng = np.random.default_rng(1)
    rows = pairs([("1", "2"), ("2", "1"), ("tie", "1")] * 12, **LADDER)
    rows = [{**row, "confidence": float(rng.uniform(0.4, 1))} for row in rows]
    shuffled = [rows[index] for index in rng.permutation(len(rows))]
    assert measured(rows).to_dict() == measured(shuffled).to_dict()


def test_records_read_from_csv_have_the_same_axes(tmp_path):
    rows = sure(pairs([("1", "2"), ("tie", "1")] * 15, **LADDER), 0.9, 0.7, None, 0.8, 0.6)
    file = tmp_path / "calls.csv"
    pd.DataFrame(rows).to_csv(file, index=False)
    text = pd.read_csv(file, dtype=str, keep_default_na=False)
    assert measured(text.to_dict("records")).to_dict() == measured(rows).to_dict()


def test_pointwise_answers_are_right_when_they_equal_the_expected_one_however_the_number_is_spelled():
    rows = [point("typos", "3.0", "3", source="s1"), point("typos", "4", "3", source="s2")]
    rows += [point("error_injection_1", "1", source="s1")]
    spread = {"confidence": 0.6, "probabilities": '{"3": 0.6, "4": 0.4}'}, {"confidence": 0.7, "probabilities": None}
    found = report([{**row, **given} for row, given in zip(rows, (*spread, {"confidence": 0.9}), strict=True)])
    assert number(found, "confidence/brier") == pytest.approx((0.16 + 0.49) / 2)
    assert reading(found, "confidence/brier").n == 2
    accuracy = reading(found, "expected/typos/accuracy")
    assert (accuracy.bound_low, accuracy.bound_high) == pytest.approx((0.3, (0.6 + 0.3) / 2))
    assert "expected/error_injection_1/accuracy" not in found.estimates
    assert "### Confidence" in found.to_markdown()
    assert "typos: accuracy (expected)" in found.to_markdown()


def test_the_page_of_a_datasheet_shows_calibration_and_expected_values():
    page = measured(sure(pairs([("1", "2")] * 30, **LADDER), 0.9)).to_markdown()
    section = page[page.index("### Confidence") :]
    for text in ("Brier score | 0.01", "calibration error (ECE) | 0.10", "chooses the better (δ = 1, expected)"):
        assert text in section


def test_axes_can_be_had_without_a_datasheet():
    frame = normalise(sure(pairs([("1", "2")] * 3, **LADDER), 0.9))
    assert set(confidence_axes(frame)) == {
        *(f"confidence/{name}" for name in ("brier", "ece", "mean", "accuracy_gap")),
        "expected/target_sensitivity/delta_1",
    }
    assert confidence_axes(frame.drop(columns="confidence")) == {}


def overconfident(seed: int, *, n_tasks: int = 20, per: int = 15, over: float = 0.15) -> ConfidenceTable:
    """Calls right with probability `confidence - over`, confidences from 0.5 to 1."""
    rng = np.random.default_rng(seed)
    n = n_tasks * per
    confidence = rng.uniform(0.5, 1, n)
    right = rng.random(n) < confidence - over
    empty = np.full(n, {}, object)
    return ConfidenceTable(
        condition=np.full(n, "natural", object),
        delta=np.full(n, np.nan),
        outcome=np.full(n, "verdict", object),
        choice=np.where(right, "1", "2").astype(object),
        better=np.full(n, "", object),
        pair=np.arange(n),
        order=np.full(n, "", object),
        target=np.full(n, "1", object),
        confidence=confidence,
        refused=np.zeros(n, bool),
        known=empty,
        item=np.arange(n),
        row=np.arange(n),
        task=np.arange(n) % n_tasks,
        n_tasks=n_tasks,
        max_excluded=0.05,
    )


def test_intervals_by_task_cover_the_truth_about_as_often_as_they_say():
    """Of an overconfident judge: gap and error 0.15; Brier the mean of p (1 - c)^2 + (1 - p) c^2 over c."""
    c = np.linspace(0.5, 1, 10_001)
    truth = {"accuracy_gap": 0.15, "ece": 0.15, "mean": 0.75}
    truth["brier"] = float(((c - 0.15) * (1 - c) ** 2 + (1.15 - c) * c**2).mean())
    covered = dict.fromkeys(truth, 0)
    for seed in range(100):
        axes = calibration_axes(overconfident(seed), resampling=Resampling(seed=seed, n_resamples=100))
        for name, true in truth.items():
            found = axes[f"confidence/{name}"]
            assert isinstance(found, Estimate)
            covered[name] += found.cluster_low <= true <= found.cluster_high
    assert min(covered.values()) >= 88, covered


def test_one_call_alone_has_no_interval():
    rows = sure([call("a", "uv", "1", **LADDER), call("a", "vu", "2", **LADDER)], 0.9)
    found = estimate(measured(rows), "confidence/brier")
    assert (found.cluster_low, found.ci_low) == (None, None)
    assert "no clustered interval" in found.method
