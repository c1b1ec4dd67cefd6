"""The axes on records whose readings are known, the ledger at work, and thresholds."""

from __future__ import annotations

import json
import re
from itertools import product

import numpy as np
import pandas as pd
import pytest

import jrh_mlflow as jrh
from jrh_mlflow.schema.items import VACUUM
from jrh_mlflow.stats.psychometrics import d_prime
from tests.measures.recount import DECOMPOSITION, USABLE, measured, same
from tests.readings import Row, call, estimate, missing, pair, pairs, value

pytestmark = pytest.mark.quick


@pytest.mark.parametrize(("uv", "vu"), list(product(USABLE, USABLE)))
def test_each_way_a_pair_can_end_has_its_own_name(uv, vu):
    """Same slot twice is positional, same content twice is stable, one preference is one-sided, none is none."""
    if {uv, vu} <= {"1", "2"}:
        expected = "positional_false_preference" if uv == vu else "stable_cross_sensitivity"
    else:
        expected = "one_sided_commit" if {uv, vu} & {"1", "2"} else "no_preference"
    sheet = measured(pair("a", uv, vu, delta=0))
    assert {axis: value(sheet, axis) for axis in DECOMPOSITION} == {
        axis: float(axis == expected) for axis in DECOMPOSITION
    }


@pytest.mark.parametrize(
    ("order", "slot", "chosen"), [("uv", "1", "u"), ("uv", "2", "v"), ("vu", "1", "v"), ("vu", "2", "u")]
)
def test_a_slot_is_mapped_back_to_the_content_that_stood_in_it(order, slot, chosen):
    other = {"uv": "vu", "vu": "uv"}[order]
    for better in "uv":
        fields = {"condition": "ladder", "delta": 1, "better": better}
        sheet = measured([call("a", order, slot, **fields), call("a", other, "tie", **fields)])
        assert value(sheet, "target_sensitivity/delta_1") == (0.5 if chosen == better else 0.0)
        assert value(sheet, "wrong_choice/delta_1") == (0.0 if chosen == better else 0.5)


def test_ties_and_abstentions_in_the_vacuum_are_no_preference_and_stay_in_the_denominator():
    rows = pairs([("1", "tie"), ("abstain", "2")], condition="vacuum_empty")
    reading = estimate(measured(rows), "dark_current")
    assert (reading.numerator, reading.n) == (2, 4)
    assert value(measured(rows), "tie_rate/vacuum") == 0.25


def test_all_three_kinds_of_vacuum_are_one_denominator():
    rows = [row for kind in VACUUM for row in pairs([("1", "tie")], condition=kind, name=kind)]
    assert estimate(measured(rows), "dark_current").n == 6


def test_an_abstention_on_equal_pairs_is_not_a_tie():
    sheet = measured(pairs([("abstain", "tie"), ("tie", "tie")], delta=0))
    assert value(sheet, "raw_false_preference") == 0.25
    assert value(sheet, "tie_rate/delta_0_same") == 0.75
    assert value(sheet, "no_preference") == 1
    assert estimate(sheet, "other_conflict").numerator == 0.5
    assert value(sheet, "other_conflict") == 0.25


def test_a_tie_on_the_ladder_is_not_correct_and_leaves_the_conditional_accuracy():
    rows = pairs([("1", "2"), ("1", "tie"), ("2", "tie")], condition="ladder", delta=1, better="u")
    sheet = measured(rows)
    assert value(sheet, "target_sensitivity/delta_1") == pytest.approx(3 / 6)
    assert value(sheet, "miss_by_tie/delta_1") == pytest.approx(2 / 6)
    assert value(sheet, "wrong_choice/delta_1") == pytest.approx(1 / 6)
    conditional = estimate(sheet, "conditional_accuracy/delta_1")
    assert (conditional.numerator, conditional.n) == (3, 4)


def test_conditional_accuracy_without_a_choice_is_not_estimable_rather_than_zero():
    sheet = measured(pairs([("tie", "tie")], condition="ladder", delta=1, better="u"))
    assert missing(sheet, "conditional_accuracy/delta_1").reason == "none of the ladder calls at delta_1 chose a side"


def test_half_steps_are_spelled_with_their_point():
    sheet = measured(pairs([("1", "2")], condition="ladder", delta=0.5, better="u"))
    assert value(sheet, "target_sensitivity/delta_0.5") == 1
    assert estimate(sheet, "threshold_75").censored == "left"
    assert value(sheet, "threshold_75") == 0.5


def test_the_padded_content_of_a_filler_pair_is_v():
    assert value(measured(pairs([("2", "1")], condition="filler")), "filler_preference") == 1
    assert value(measured(pairs([("1", "2")], condition="filler")), "filler_preference") == 0


def test_natural_pairs_alone_make_no_ladder_axes():
    sheet = measured(pairs([("1", "2"), ("1", "1")], condition="natural", better="u"))
    assert all(axis.startswith("natural/") for axis in sheet.estimates)
    assert value(sheet, "natural/accuracy") == 0.75
    assert value(sheet, "natural/stable_correct") == 0.5
    assert value(sheet, "natural/positional") == 0.5


def test_a_judge_that_is_wrong_but_stable_is_told_from_one_that_is_right():
    sheet = measured(pairs([("1", "2")] * 4, condition="natural", better="v"))
    assert value(sheet, "natural/stable_wrong") == 1
    assert value(sheet, "natural/stable_correct") == 0
    assert value(sheet, "natural/accuracy") == 0


# The ledger at work.


@pytest.mark.parametrize(("n_lost", "given"), [(0, True), (1, True), (2, True), (3, False)])
@pytest.mark.parametrize("outcome", ["unparsed", "error"])
def test_five_per_cent_left_out_is_not_withheld_and_the_next_call_is(n_lost, given, outcome):
    """40 calls: 2 are exactly 5 %."""
    said = [outcome] * n_lost + ["1"] * (40 - n_lost)
    rows = pairs(zip(said[::2], said[1::2], strict=True), condition="vacuum_empty")
    sheet = jrh.measure(rows)
    if given:
        reading = estimate(sheet, "dark_current")
        assert (reading.value, reading.n, reading.excluded) == (1.0, 40 - n_lost, n_lost)
        assert reading.left_out == {"unparsed": 0, "error": 0} | {outcome: n_lost}
        assert reading.bound_low == (40 - n_lost) / 40
        assert reading.bound_high == 1
    else:
        reason = missing(sheet, "dark_current")
        assert reason.withheld
        assert re.fullmatch(rf"3 of 40 vacuum calls .* \({outcome} 3\), .* 5%", reason.reason)
        assert (reason.n, reason.excluded) == (37, 3)
        assert sheet.withheld["dark_current"] == reason.reason


@pytest.mark.parametrize("percent", [n for n in range(1, 60) if n / 100 * 100 != n or n % 10 == 5])
def test_exactly_the_limit_is_never_withheld_whatever_its_last_bit(percent):
    """0.29 * 100 is 28.999…96 in binary, but 29 of 100 calls are 29 %."""
    said = ["error"] * percent + ["tie"] * (100 - percent)
    rows = pairs(zip(said[::2], said[1::2], strict=True), condition="vacuum_empty")
    assert estimate(jrh.measure(rows, max_excluded=percent / 100), "dark_current").excluded == percent


def test_a_pair_with_one_lost_call_leaves_the_pairs_but_its_other_call_stays_among_the_calls():
    rows = pairs([("1", "error"), *[("1", "2")] * 19], delta=0)
    sheet = jrh.measure(rows)
    raw, stable = estimate(sheet, "raw_false_preference"), estimate(sheet, "stable_cross_sensitivity")
    assert (raw.n, raw.excluded, raw.unit) == (39, 1, "call")
    assert (stable.n, stable.excluded, stable.unit) == (19, 1, "pair")
    assert (stable.bound_low, stable.bound_high) == (19 / 20, 1)


def lossy_pairs(n_lost: int, n_pairs: int = 50) -> list[Row]:
    """One lost call in each of some pairs."""
    return pairs([("1", "error")] * n_lost + [("1", "2")] * (n_pairs - n_lost), delta=0)


def test_pairs_are_withheld_by_the_share_of_their_calls():
    """One lost call in each of five pairs: 5 of 100 calls are the limit, though 5 of 50 pairs are twice as many."""
    sheet = jrh.measure(lossy_pairs(5))
    assert not sheet.withheld
    stable = estimate(sheet, "stable_cross_sensitivity")
    assert (stable.n, stable.excluded, stable.left_out["error"]) == (45, 5, 5)
    over = jrh.measure(lossy_pairs(6))
    assert set(over.withheld) == {
        *DECOMPOSITION,
        *("other_conflict", "raw_false_preference", "tie_rate/delta_0_same", "slot_lean", "positional_excess"),
    }
    reason = missing(over, "stable_cross_sensitivity")
    assert reason.reason == (
        "6 of 100 calls on delta_0_same pairs gave no usable answer (error 6), over the limit of 5%"
    )
    assert (reason.n, reason.excluded) == (44, 6)


@pytest.mark.parametrize("both", [True, False])
def test_two_lost_calls_weigh_the_same_in_one_pair_and_in_two(both):
    said = [("error", "error")] * 3 if both else [("1", "error")] * 6
    sheet = jrh.measure(pairs(said + [("1", "2")] * (50 - len(said)), delta=0))
    assert "no_preference" in sheet.withheld
    assert "no_preference" not in jrh.measure(pairs(said[1:] + [("1", "2")] * (51 - len(said)), delta=0)).withheld


def test_pairs_that_all_lost_a_call_have_no_number_however_wide_the_limit():
    sheet = jrh.measure(pairs([("1", "error")] * 10, delta=0), max_excluded=0.9)
    assert value(sheet, "raw_false_preference") == 1
    reason = missing(sheet, "stable_cross_sensitivity")
    assert reason.withheld
    assert reason.reason == (
        "10 of 20 calls on delta_0_same pairs gave no usable answer (error 10), "
        "at least one of each of the delta_0_same pairs"
    )


def test_an_unusable_call_is_never_a_wrong_verdict_a_tie_or_a_zero():
    rows = pairs([("1", "2")] * 19 + [("1", "unparsed")], condition="ladder", delta=1, better="u")
    sheet = jrh.measure(rows)
    assert value(sheet, "target_sensitivity/delta_1") == 1
    assert value(sheet, "tie_rate/delta_1") == 0
    assert value(sheet, "wrong_choice/delta_1") == 0


def test_the_bounds_of_d_prime_are_those_of_the_counts_with_the_lost_calls_added():
    rows = pairs([("1", "2")] * 19 + [("1", "unparsed")], condition="ladder", delta=1, better="u")
    reading = estimate(jrh.measure(rows), "d_prime/delta_1")
    assert (reading.bound_low, reading.bound_high) == (d_prime(39, 40), d_prime(40, 40))


def test_a_condition_that_was_not_asked_is_named_as_such():
    sheet = jrh.measure(pairs([("1", "2")], delta=0))
    assert missing(sheet, "dark_current").reason == "no vacuum calls"
    assert missing(sheet, "threshold_75").reason == "no ladder calls"
    assert not missing(sheet, "dark_current").withheld
    assert sheet.withheld == {}


@pytest.mark.parametrize("limit", [-0.1, 1.0, 2])
def test_a_limit_outside_the_unit_range_is_a_programmers_mistake(limit):
    with pytest.raises(ValueError, match="max_excluded="):
        jrh.measure(pairs([("1", "2")], delta=0), max_excluded=limit)


# Thresholds on records.


def ladder(*right: int, n_pairs: int = 10, n_tasks: int = 10) -> list[Row]:
    """Steps 1, 2, …: `right` pairs each chosen right in both orders, the others by slot."""
    return [
        row
        for step, count in enumerate(right, start=1)
        for row in pairs(
            [("1", "2")] * count + [("1", "1")] * (n_pairs - count),
            n_tasks=n_tasks,
            name=f"step-{step}",
            condition="ladder",
            delta=step,
            better="u",
        )
    ]


def test_a_threshold_says_how_many_resamples_were_censored():
    reading = estimate(jrh.measure(ladder(0, 4, 6, 8, 10)), "threshold_75")
    assert reading.value == pytest.approx(2.5)
    assert reading.censored is None
    assert set(reading.censoring) == {"left", "right"}
    assert reading.unit == "curve"
    assert reading.method.split("; ") == [
        "cluster bootstrap of the isotonic curve",
        "clustered by task",
        "few tasks (10)",
    ]
    assert reading.cluster_low is not None
    assert reading.cluster_high is not None
    assert reading.cluster_low < 2.5 < reading.cluster_high


def test_tasks_that_all_agree_get_a_band_instead_of_a_point():
    rows = ladder(5, 10, n_pairs=10, n_tasks=1)
    tasks = [
        row | {"task": str(task), "suite_item": f"{row['suite_item']} {task}"} for task in range(10) for row in rows
    ]
    reading = estimate(jrh.measure(tasks), "threshold_75")
    assert reading.value == 1.0
    assert reading.censored == "left"
    half = estimate(jrh.measure([row for row in tasks if row["delta"] == 2] + wrong_step(10)), "threshold_75")
    assert half.value == pytest.approx(1.5)
    assert half.cluster_low is None or half.cluster_low < 1.5
    assert half.cluster_high is not None
    assert half.cluster_high > 1.5


def wrong_step(n_tasks: int) -> list[Row]:
    """Step 1 at one half on every task."""
    return [
        row
        for task in range(n_tasks)
        for index in range(10)
        for row in pair(f"one {task} {index}", "1", "1", task=str(task), condition="ladder", delta=1, better="u")
    ]


def test_one_task_has_a_threshold_but_no_interval():
    reading = estimate(jrh.measure(ladder(0, 10, n_tasks=1)), "threshold_75")
    assert reading.value == pytest.approx(1.5)
    assert (reading.cluster_low, reading.cluster_high, reading.censoring) == (None, None, {})
    assert reading.method.endswith("no clustered interval")


def test_a_curve_with_a_gap_has_no_threshold():
    rows = [row for row in ladder(0, 5, 10, 10, 10) if row["delta"] in (1, 2, 4)]
    assert missing(jrh.measure(rows), "threshold_75").reason == "the curve has gaps: measured at delta 1, 2, 4 only"


def test_the_seed_belongs_to_the_interval_only():
    rng = np.random.default_rng(5)
    rows = ladder(*rng.integers(0, 10, 5))
    one, other = (estimate(jrh.measure(rows, seed=seed, n_resamples=50), "threshold_75") for seed in (1, 1))
    assert one == other
    assert one.value == value(jrh.measure(rows, seed=2, n_resamples=50), "threshold_75")


def test_few_tasks_are_said_and_many_are_not():
    few = estimate(jrh.measure(pairs([("1", "2")] * 60, n_tasks=29, delta=0)), "raw_false_preference")
    many = estimate(jrh.measure(pairs([("1", "2")] * 60, n_tasks=30, delta=0)), "raw_false_preference")
    assert few.method == f"{many.method}; few tasks (29)"
    assert "few tasks" not in many.method


def test_replicates_are_pairs_of_their_own():
    rows = [*pair("a", "1", "2", delta=0), *pair("a", "1", "1", delta=0, replicate=1)]
    sheet = measured(rows)
    assert value(sheet, "stable_cross_sensitivity") == 0.5
    assert value(sheet, "positional_false_preference") == 0.5


def test_a_data_frame_gives_the_same_readings_as_its_rows_and_is_left_alone():
    rows = ladder(0, 5, 10) + pairs([("1", "tie")], delta=0)
    frame = pd.DataFrame(rows)
    before = frame.copy(deep=True)
    same(jrh.measure(rows), jrh.measure(frame))
    pd.testing.assert_frame_equal(frame, before)


def test_a_datasheet_is_plain_data_for_json():
    data = jrh.measure(ladder(0, 5, 10) + pairs([("1", "error")], delta=0)).to_dict()
    assert json.loads(json.dumps(data, allow_nan=False)) == data
    assert data["estimates"]["raw_false_preference"]["kind"] == "not_estimable"
    assert data["estimates"]["target_sensitivity/delta_3"]["value"] == 1.0
    assert data["outcomes"] == {"verdict": 61, "tie": 0, "abstain": 0, "unparsed": 0, "error": 1}
