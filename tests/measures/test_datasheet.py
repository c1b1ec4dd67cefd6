"""The axes: recounted by plain loops, their identities and invariances on random records, and known outcomes."""

from __future__ import annotations

import math
from collections import Counter
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import jrh_mlflow as jrh
from jrh_mlflow.schema.items import VACUUM
from jrh_mlflow.stats.proportions import cluster_wilson
from tests.readings import PROPERTY, Row, call, estimate, missing, pair, pairs, value

SAID = ("1", "2", "tie", "abstain", "unparsed", "error")
USABLE = SAID[:4]
DECOMPOSITION = ("stable_cross_sensitivity", "positional_false_preference", "one_sided_commit", "no_preference")
CONDITIONS = {
    **dict.fromkeys(VACUUM, (None, False)),
    "delta_0_same": (0.0, False),
    "delta_0_different": (0.0, False),
    "filler": (None, False),
    "ladder": (1.0, True),
    "natural": (None, True),
}


@st.composite
def records(draw: st.DrawFn, *, said: tuple[str, ...] = SAID, conditions: Any = tuple(CONDITIONS)) -> list[Row]:
    """Random call records: a few tasks, every condition and outcome, replicates."""
    rows = []
    for index in range(draw(st.integers(1, 30))):
        condition = draw(st.sampled_from(conditions))
        delta, has_better = CONDITIONS[condition]
        fields = {
            "condition": condition,
            "task": f"task-{draw(st.integers(0, 4))}",
            "delta": float(draw(st.integers(1, 3))) if condition == "ladder" else delta,
            "better": draw(st.sampled_from("uv")) if has_better else "",
        }
        for replicate in range(draw(st.integers(1, 2))):
            both = draw(st.sampled_from(said)), draw(st.sampled_from(said))
            rows += pair(f"item-{index}", *both, replicate=replicate, **fields)
    return draw(st.permutations(rows))


def measured(rows: list[Row], **changes: Any) -> jrh.Datasheet:
    """Nothing withheld unless every unit is unusable, so that arithmetic can be looked at."""
    return jrh.measure(rows, **({"max_excluded": 0.99, "n_resamples": 20} | changes))


# A second count, by plain loops over dictionaries and the words of the protocol.


def content(row: Row) -> str | None:
    if row["outcome"] != "verdict":
        return None
    return {"uv1": "u", "uv2": "v", "vu1": "v", "vu2": "u"}[row["order"] + row["answer"]]


Tally = dict[str, list[int]]
"""Task to hits and units."""


def recount(rows: list[Row]) -> dict[str, Tally]:
    """Hits and units by task, of every share that has a denominator."""
    tallies: dict[str, Tally] = {}

    def add(axis: str, row: Row, hit: bool) -> None:
        tally = tallies.setdefault(axis, {}).setdefault(row["task"], [0, 0])
        tally[0] += hit
        tally[1] += 1

    for row in rows:
        if row["outcome"] not in ("unparsed", "error"):
            for axis, hit in call_axes(row).items():
                add(axis, row, hit)
    for uv, vu in both_orders(rows):
        if not {uv["outcome"], vu["outcome"]} & {"unparsed", "error"}:
            for axis, hit in pair_axes(uv, vu).items():
                add(axis, uv, hit)
    return tallies


def call_axes(row: Row) -> dict[str, bool]:
    condition, verdict, tie = row["condition"], row["outcome"] == "verdict", row["outcome"] == "tie"
    right = verdict and content(row) == row["better"]
    if condition in VACUUM:
        return {"dark_current": verdict, "tie_rate/vacuum": tie}
    if condition != "ladder":
        return {
            "delta_0_same": {"raw_false_preference": not tie, "tie_rate/delta_0_same": tie},
            "delta_0_different": {"different_subset_preference": verdict},
            "filler": {"filler_preference": content(row) == "v"},
            "natural": {"natural/accuracy": right},
        }[condition]
    step = f"delta_{row['delta']:g}"
    chosen = {f"conditional_accuracy/{step}": right} if verdict else {}
    return chosen | {
        f"target_sensitivity/{step}": right,
        f"tie_rate/{step}": tie,
        f"miss_by_tie/{step}": tie,
        f"wrong_choice/{step}": verdict and not right,
    }


def both_orders(rows: list[Row]) -> list[tuple[Row, Row]]:
    found: dict[tuple[str, int], dict[str, Row]] = {}
    for row in rows:
        found.setdefault((row["suite_item"], row["replicate"]), {})[row["order"]] = row
    return [(orders["uv"], orders["vu"]) for orders in found.values()]


def pair_axes(uv: Row, vu: Row) -> dict[str, bool]:
    w, j = (content(uv), content(vu)), (uv["answer"], vu["answer"])
    n_sides = sum(one is not None for one in w)
    stable, positional = n_sides == 2 and w[0] == w[1], n_sides == 2 and j[0] == j[1]
    if uv["condition"] == "delta_0_same":
        return dict(zip(DECOMPOSITION, (stable, positional, n_sides == 1, n_sides == 0), strict=True))
    if uv["condition"] != "natural":
        return {}
    return {
        "natural/stable_correct": stable and w[0] == uv["better"],
        "natural/stable_wrong": stable and w[0] != uv["better"],
        "natural/positional": positional,
        "natural/one_sided": n_sides == 1,
        "natural/no_preference": n_sides == 0,
    }


@PROPERTY
@given(records())
def test_every_share_equals_a_second_count_by_plain_loops(rows):
    shares = {
        axis: reading
        for axis, reading in measured(rows).estimates.items()
        if isinstance(reading, jrh.Estimate) and not axis.startswith(("d_prime", "threshold", "other"))
    }
    tallies = recount(rows)
    assert set(shares) == set(tallies)
    for axis, tally in tallies.items():
        hits, sizes = np.array(list(tally.values()), float).T
        reading = shares[axis]
        assert (reading.numerator, reading.n, reading.n_clusters) == (hits.sum(), sizes.sum(), len(sizes)), axis
        if len(sizes) > 1:
            clustered = cluster_wilson(hits, sizes)
            assert (reading.cluster_low, reading.cluster_high) == pytest.approx(clustered), axis


@PROPERTY
@given(records(conditions=("delta_0_same",)))
def test_raw_false_preference_is_the_sum_of_its_parts(rows):
    sheet = measured(rows)
    axes = ("raw_false_preference", *DECOMPOSITION, "other_conflict")
    if any(isinstance(sheet.estimates[axis], jrh.NotEstimable) for axis in axes):
        return
    raw, stable, positional, one_sided, no_preference, other = (value(sheet, axis) for axis in axes)
    assert raw == pytest.approx(stable + positional + one_sided / 2 + other)
    assert stable + positional + one_sided + no_preference == pytest.approx(1)


@PROPERTY
@given(records(said=("1", "2", "tie"), conditions=("delta_0_same",)))
def test_clean_outputs_leave_nothing_over(rows):
    assert value(measured(rows), "other_conflict") == 0


@PROPERTY
@given(records(said=USABLE, conditions=("delta_0_same",)))
def test_what_is_left_over_is_half_of_the_abstentions_per_pair(rows):
    abstentions = sum(row["outcome"] == "abstain" for row in rows)
    assert value(measured(rows), "other_conflict") == pytest.approx(abstentions / len(rows))


def ends(low: float | None, high: float | None, *, open_ended: bool) -> tuple[float, float]:
    assert open_ended or (low is not None and high is not None)
    return -math.inf if low is None else low, math.inf if high is None else high


@PROPERTY
@given(records())
def test_intervals_and_bounds_hold_the_number_and_never_have_zero_width(rows):
    for axis, reading in measured(rows).estimates.items():
        if not isinstance(reading, jrh.Estimate) or axis == "threshold_75":
            continue
        open_ended = axis.startswith("d_prime/")  # a share of 0 or 1 has no finite d'
        low, high = ends(reading.ci_low, reading.ci_high, open_ended=open_ended)
        assert low - 1e-9 <= reading.value <= high + 1e-9, axis
        assert high > low, axis
        if reading.n_clusters > 1:
            wide_low, wide_high = ends(reading.cluster_low, reading.cluster_high, open_ended=open_ended)
            assert wide_low <= low + 1e-9, axis
            assert wide_high >= high - 1e-9, axis
        else:
            assert (reading.cluster_low, reading.cluster_high) == (None, None), axis
        if reading.bound_low is not None and reading.bound_high is not None:
            assert reading.bound_low - 1e-9 <= reading.value <= reading.bound_high + 1e-9, axis


@PROPERTY
@given(records())
def test_the_ledger_accounts_for_every_call_and_pair(rows):
    sheet = measured(rows)
    names = dict.fromkeys(VACUUM, "vacuum")
    calls = Counter(names.get(row["condition"], row["condition"]) for row in rows)
    steps = Counter(f"delta_{row['delta']:g}" for row in rows if row["condition"] == "ladder")
    owners = {
        "dark_current": calls["vacuum"],
        "tie_rate/vacuum": calls["vacuum"],
        "raw_false_preference": calls["delta_0_same"],
        "tie_rate/delta_0_same": calls["delta_0_same"],
        **dict.fromkeys(DECOMPOSITION, calls["delta_0_same"] // 2),
        "filler_preference": calls["filler"],
        "different_subset_preference": calls["delta_0_different"],
        "natural/accuracy": calls["natural"],
        "natural/positional": calls["natural"] // 2,
        "threshold_75": calls["ladder"],
    }
    for step, n in steps.items():
        axes = ("target_sensitivity", "tie_rate", "miss_by_tie", "wrong_choice", "d_prime")
        owners |= {f"{axis}/{step}": n for axis in axes}
    for axis, total in owners.items():
        reading = sheet.estimates.get(axis)
        if reading is not None and not (isinstance(reading, jrh.NotEstimable) and not reading.withheld):
            assert reading.n + reading.excluded == total, axis
            if isinstance(reading, jrh.NotEstimable) or reading.unit == "call":
                assert sum(reading.left_out.values()) >= reading.excluded, axis
    assert sheet.outcomes == {name: sum(row["outcome"] == name for row in rows) for name in sheet.outcomes}
    assert sum(sheet.outcomes.values()) == len(rows)


def same(one: jrh.Datasheet, other: jrh.Datasheet) -> None:
    """Equal but for the last bits of a sum taken in another order."""
    assert flat(one.to_dict()) == {key: pytest.approx(cell, abs=1e-9) for key, cell in flat(other.to_dict()).items()}


def flat(data: Any, *path: str) -> dict[tuple[str, ...], Any]:
    if not isinstance(data, dict):
        return {path: data}
    return {key: cell for name, part in data.items() for key, cell in flat(part, *path, name).items()}


@PROPERTY
@given(records(), st.randoms(use_true_random=False))
def test_the_order_of_the_rows_changes_nothing(rows, random):
    shuffled = random.sample(rows, len(rows))
    same(measured(rows), measured(shuffled))


@PROPERTY
@given(records())
def test_the_names_of_tasks_and_items_change_nothing(rows):
    """Also not the bootstrap: names in reverse order must draw the same resamples."""
    renamed = [
        row | {"task": f"{9 - int(row['task'][-1])} other", "suite_item": row["suite_item"][::-1]} for row in rows
    ]
    same(measured(rows), measured(renamed))


@PROPERTY
@given(records())
def test_which_content_is_called_u_changes_nothing(rows):
    """Contents trade names, slots stay: what was order uv is now vu. In a filler pair v means the padded one."""
    swapped = {"uv": "vu", "vu": "uv", "u": "v", "v": "u", "": ""}
    renamed = [
        row
        if row["condition"] == "filler"
        else row | {"order": swapped[row["order"]], "better": swapped[row["better"]]}
        for row in rows
    ]
    same(measured(rows), measured(renamed))


@PROPERTY
@given(records())
def test_mirroring_every_slot_changes_nothing(rows):
    """Both contents trade places and the judge follows: preferences by content and by position are the same share."""
    mirror = {"uv": "vu", "vu": "uv", "1": "2", "2": "1", "": ""}
    same(measured(rows), measured([row | {key: mirror[row[key]] for key in ("order", "answer")} for row in rows]))


@PROPERTY
@given(records(conditions=("ladder", "delta_0_same")), records(conditions=("filler", *VACUUM)))
def test_rows_of_another_condition_change_no_reading(rows, others):
    others = [row | {"suite_item": f"other {row['suite_item']}", "task": f"a {row['task']}"} for row in others]
    alone, together = measured(rows), measured(rows + others)
    foreign = ("dark_current", "tie_rate/vacuum", "filler_preference")
    assert {axis: reading for axis, reading in together.estimates.items() if axis not in foreign} == {
        axis: reading for axis, reading in alone.estimates.items() if axis not in foreign
    }


@PROPERTY
@given(records(), st.data())
def test_a_number_is_withheld_exactly_when_more_than_the_limit_is_left_out(rows, data):
    limit = data.draw(st.sampled_from([0.0, 0.05, 0.1, 0.25, 0.5]))
    strict, open_ = measured(rows, max_excluded=limit), measured(rows)
    for axis, reading in open_.estimates.items():
        if axis == "other_conflict" or (isinstance(reading, jrh.NotEstimable) and not reading.withheld):
            continue
        total = reading.n + reading.excluded
        if axis.startswith("conditional_accuracy/"):
            step = axis.partition("/")[2]
            total = sum(f"delta_{row['delta']:g}" == step for row in rows if row["condition"] == "ladder")
        # Whole numbers: `excluded > limit * total` with nothing to round.
        over = 100 * reading.excluded > round(100 * limit) * total
        now = strict.estimates[axis]
        assert isinstance(now, jrh.NotEstimable) == (over or isinstance(reading, jrh.NotEstimable)), axis
        assert (axis in strict.withheld) == isinstance(now, jrh.NotEstimable), axis


# Known outcomes.


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
        assert reason.reason == f"3 of 40 vacuum calls gave no usable answer ({outcome} 3), over the limit of 5%"
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


def test_pairs_are_withheld_on_their_own_count():
    """One lost call in each of three pairs: 3 of 100 calls, but 3 of 50 pairs."""
    sheet = jrh.measure(pairs([("1", "error")] * 3 + [("1", "2")] * 47, delta=0))
    assert value(sheet, "raw_false_preference") == 1
    assert set(sheet.withheld) == {*DECOMPOSITION, "other_conflict"}


def test_an_unusable_call_is_never_a_wrong_verdict_a_tie_or_a_zero():
    rows = pairs([("1", "2")] * 19 + [("1", "unparsed")], condition="ladder", delta=1, better="u")
    sheet = jrh.measure(rows)
    assert value(sheet, "target_sensitivity/delta_1") == 1
    assert value(sheet, "tie_rate/delta_1") == 0
    assert value(sheet, "wrong_choice/delta_1") == 0


def test_the_bounds_of_d_prime_are_those_of_the_counts_with_the_lost_calls_added():
    rows = pairs([("1", "2")] * 19 + [("1", "unparsed")], condition="ladder", delta=1, better="u")
    reading = estimate(jrh.measure(rows), "d_prime/delta_1")
    from jrh_mlflow.stats.detection import d_prime

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
    assert reading.method == "cluster bootstrap of the isotonic curve; clustered by task; few tasks (10)"
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
    assert reading.method.endswith("one task, no clustered interval")


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
    assert few.method == "Wilson; clustered by task; few tasks (29)"
    assert many.method == "Wilson; clustered by task"


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
    import json

    data = jrh.measure(ladder(0, 5, 10) + pairs([("1", "error")], delta=0)).to_dict()
    assert json.loads(json.dumps(data, allow_nan=False)) == data
    assert data["estimates"]["raw_false_preference"]["kind"] == "not_estimable"
    assert data["estimates"]["target_sensitivity/delta_3"]["value"] == 1.0
    assert data["outcomes"] == {"verdict": 61, "tie": 0, "abstain": 0, "unparsed": 0, "error": 1}
