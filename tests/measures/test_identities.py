"""Identities and invariances of the datasheet on random call records with every outcome."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import asdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import jrh_mlflow as jrh
from jrh_mlflow.schema.items import VACUUM
from jrh_mlflow.stats.proportions import cluster_interval
from tests.measures.recount import DECOMPOSITION, SAID, USABLE, flat, measured, records, recount, same
from tests.readings import COSTLY_PROPERTY, Row, value


def every_share_equals_a_second_count_by_plain_loops(rows: list[Row], sheet: jrh.Datasheet) -> None:
    shares = {
        axis: reading
        for axis, reading in sheet.estimates.items()
        if isinstance(reading, jrh.Estimate)
        and not axis.startswith(("d_prime", "threshold", "other", "ability"))
        and reading.numerator is not None
    }
    tallies = recount(rows)
    assert set(shares) == set(tallies)
    for axis, tally in tallies.items():
        hits, sizes = np.array(list(tally.by_task.values()), float).T
        reading = shares[axis]
        assert (reading.numerator, reading.n, reading.n_clusters) == (hits.sum(), sizes.sum(), len(sizes)), axis
        if len(sizes) > 1:
            asked = np.array(list(tally.presentations.values()), float)
            replicates = np.square(asked).sum() / asked.sum()
            clustered = cluster_interval(hits / replicates, sizes / replicates)
            assert (reading.cluster_low, reading.cluster_high) == pytest.approx(clustered), axis


CLEAN = ("1", "2", "tie")


@COSTLY_PROPERTY
@given(st.sampled_from((SAID, USABLE, CLEAN)).flatmap(lambda said: records(said=said, conditions=("delta_0_same",))))
def test_raw_false_preference_is_the_sum_of_its_parts_and_half_of_the_abstentions_per_pair(rows):
    sheet = measured(rows)
    axes = ("raw_false_preference", *DECOMPOSITION, "other_conflict")
    said = {row["answer"] or row["outcome"] for row in rows}
    if not said <= {*USABLE} and any(isinstance(sheet.estimates[axis], jrh.NotEstimable) for axis in axes):
        return
    raw, stable, positional, one_sided, no_preference, other = (value(sheet, axis) for axis in axes)
    assert raw == pytest.approx(stable + positional + one_sided / 2 + other)
    assert stable + positional + one_sided + no_preference == pytest.approx(1)
    if said <= {*USABLE}:
        assert other == pytest.approx(sum(row["outcome"] == "abstain" for row in rows) / len(rows))
    if said <= {*CLEAN}:
        assert other == 0


NATURAL_PARTS = ("stable_correct", "stable_wrong", "positional", "one_sided_right", "one_sided_wrong", "no_preference")


@COSTLY_PROPERTY
@given(records(said=USABLE, conditions=("natural",)))
def test_the_six_ways_in_which_two_orders_of_a_real_pair_combine_add_up(rows):
    sheet = measured(rows)
    parts = {axis: value(sheet, f"natural/{axis}") for axis in NATURAL_PARTS}
    assert sum(parts.values()) == pytest.approx(1)
    assert value(sheet, "natural/one_sided") == pytest.approx(parts["one_sided_right"] + parts["one_sided_wrong"])
    judgebench = value(sheet, "natural/judgebench_accuracy")
    assert judgebench == pytest.approx(parts["stable_correct"] + parts["one_sided_right"])
    by_call = parts["stable_correct"] + parts["positional"] / 2 + parts["one_sided_right"] / 2
    assert value(sheet, "natural/accuracy") == pytest.approx(by_call)


def ends(low: float | None, high: float | None, *, open_ended: bool) -> tuple[float, float]:
    assert open_ended or (low is not None and high is not None)
    return -math.inf if low is None else low, math.inf if high is None else high


def intervals_and_bounds_hold_the_number_and_never_have_zero_width(sheet: jrh.Datasheet) -> None:
    for axis, reading in sheet.estimates.items():
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


def the_ledger_accounts_for_every_call_and_pair(rows: list[Row], sheet: jrh.Datasheet) -> None:
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


def renamed(rows: list[Row]) -> list[Row]:
    """Tasks and items by other names, in reverse order: the bootstrap must draw the same resamples."""
    return [row | {"task": f"{9 - int(row['task'][-1])} other", "suite_item": row["suite_item"][::-1]} for row in rows]


def with_contents_named_anew(rows: list[Row]) -> list[Row]:
    """Contents trade names, slots stay: what was order uv is now vu. In a filler pair v means the padded one."""
    swapped = {"uv": "vu", "vu": "uv", "u": "v", "v": "u", "": ""}
    return [
        row
        if row["condition"] == "filler"
        else row | {"order": swapped[row["order"]], "better": swapped[row["better"]]}
        for row in rows
    ]


def mirrored(rows: list[Row]) -> list[Row]:
    """Both contents trade places and the judge follows: preferences by content and by position are the same share."""
    mirror = {"uv": "vu", "vu": "uv", "1": "2", "2": "1", "": ""}
    return [row | {key: mirror[row[key]] for key in ("order", "answer")} for row in rows]


@COSTLY_PROPERTY
@given(records(), st.randoms(use_true_random=False), st.sampled_from([0.0, 0.05, 0.1, 0.25, 0.5]))
def test_what_holds_of_all_records_however_they_are_ordered_named_and_mirrored(rows, random, limit):
    """One test, so that the records are measured once for all that is said of them."""
    sheet = measured(rows)
    every_share_equals_a_second_count_by_plain_loops(rows, sheet)
    intervals_and_bounds_hold_the_number_and_never_have_zero_width(sheet)
    the_ledger_accounts_for_every_call_and_pair(rows, sheet)
    a_number_is_withheld_exactly_when_more_than_the_limit_is_left_out(rows, sheet, limit)
    same(sheet, measured(with_contents_named_anew(renamed(random.sample(rows, len(rows))))))
    same(sheet, measured(mirrored(rows)), mirrored=True)


@COSTLY_PROPERTY
@given(records(conditions=("ladder", "delta_0_same")), records(conditions=("filler", *VACUUM)))
def test_rows_of_another_condition_change_no_reading(rows, others):
    others = [row | {"suite_item": f"other {row['suite_item']}", "task": f"a {row['task']}"} for row in others]
    alone, together = measured(rows), measured(rows + others)
    foreign = ("dark_current", "tie_rate/vacuum", "slot_lean/vacuum", "filler_preference", "padding_lean")
    one, other = (
        flat({axis: asdict(reading) for axis, reading in sheet.estimates.items() if axis not in foreign})
        for sheet in (alone, together)
    )
    assert one.keys() == other.keys()
    # A clustered end is found by iteration: its last bit may differ.
    apart = [key for key in one if one[key] != other[key] and key[-1] not in ("at_level", "decides_at")]
    assert {key: one[key] for key in apart} == {key: pytest.approx(other[key], abs=1e-9) for key in apart}


def a_number_is_withheld_exactly_when_more_than_the_limit_is_left_out(
    rows: list[Row], open_: jrh.Datasheet, limit: float
) -> None:
    strict = measured(rows, max_excluded=limit)
    for axis, reading in open_.estimates.items():
        if axis == "other_conflict" or (isinstance(reading, jrh.NotEstimable) and not reading.withheld):
            continue
        total = reading.n + reading.excluded
        if axis.startswith("conditional_accuracy/"):
            step = axis.partition("/")[2]
            total = sum(f"delta_{row['delta']:g}" == step for row in rows if row["condition"] == "ladder")
        lost, asked = reading.excluded, total
        if isinstance(reading, jrh.Estimate) and reading.unit == "pair":
            lost, asked = sum(reading.left_out.values()), 2 * total
        # Whole numbers: `lost > limit * asked` with nothing to round.
        over = 100 * lost > round(100 * limit) * asked
        now = strict.estimates[axis]
        assert isinstance(now, jrh.NotEstimable) == (over or isinstance(reading, jrh.NotEstimable)), axis
        assert (axis in strict.withheld) == isinstance(now, jrh.NotEstimable), axis
