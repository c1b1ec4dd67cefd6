"""Bounds of withheld axes: all that they can still read, found again by completing the lost calls in every way."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest

import jrh_mlflow as jrh
from jrh_mlflow.comparing.criterion_shift import criterion_axes
from jrh_mlflow.measures.axes import stimuli_axes
from jrh_mlflow.measures.datasheet import datasheet_axes
from jrh_mlflow.measures.records import CallTable, call_table, normalise
from jrh_mlflow.schema.estimates import Bounds, Reading
from jrh_mlflow.scoring.ledger import Possible, Resampling
from tests.measures.pointwise import number, point, reason, repeats, report
from tests.readings import Row, missing, pair, pairs

ANSWERS = ("1", "2", "tie", "abstain")
CHOICES = ("u", "v", "tie", "abstain")
CONDITIONS: dict[str, list[dict[str, Any]]] = {
    "vacuum": [{"condition": "vacuum_empty"}],
    "equal": [{"condition": "delta_0_same", "delta": 0}],
    "controls": [{"condition": "filler"}, {"condition": "delta_0_different", "delta": 0}],
    "ladder": [{"condition": "ladder", "delta": step, "better": "u"} for step in (1, 2)],
    "both ladders": [{"condition": name, "delta": 1, "better": "v"} for name in ("ladder", "ladder_matched")],
    "natural": [{"condition": "natural", "better": "u"}],
    "natural_tie": [{"condition": "natural_tie"}],
}


def table_of(rows: list[Row], *, max_excluded: float = 0.0) -> CallTable:
    return call_table(normalise(rows), max_excluded=max_excluded)


def readings(table: CallTable) -> dict[str, Reading]:
    return datasheet_axes(table, Resampling(n_resamples=1))


def random_rows(fields: list[dict[str, Any]], *, seed: int, n_pairs: int = 4, n_lost: int = 3) -> list[Row]:
    """A few pairs on two tasks; the lost calls are anywhere, so pairs lose one half or both."""
    dice = random.Random(seed)
    said = [dice.choice(ANSWERS) for _ in range(2 * n_pairs)]
    for place in dice.sample(range(2 * n_pairs), n_lost):
        said[place] = dice.choice(("unparsed", "error"))
    return [
        row
        for index in range(n_pairs)
        for row in pair(
            f"item-{index}", *said[2 * index : 2 * index + 2], task=f"task-{index % 2}", **fields[index % len(fields)]
        )
    ]


def completed(table: CallTable) -> Iterator[CallTable]:
    """Every way in which the lost calls could have ended."""
    lost = np.flatnonzero(table.choice == "")
    for chosen in product(CHOICES, repeat=len(lost)):
        whole = table.choice.copy()
        whole[lost] = chosen
        yield replace(table, choice=whole)


def spread(values: list[jrh.Estimate]) -> tuple[tuple[float, str], tuple[float, str]]:
    """Least and greatest value with their censoring; `≤ 1` is under 1, and `> 5` over 5."""
    sides = {"left": -1, "right": 1}
    ordered = sorted(values, key=lambda one: (one.value, sides.get(one.censored or "", 0)))
    first, last = ordered[0], ordered[-1]
    return (first.value, first.censored or ""), (last.value, last.censored or "")


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", CONDITIONS)
def test_bounds_are_the_least_and_the_greatest_reading_over_all_completions(name: str, seed: int) -> None:
    table = table_of(random_rows(CONDITIONS[name], seed=seed, n_lost=2))
    found = readings(table)
    complete = [readings(whole) for whole in completed(table)]
    bounded = {axis: one.bounds for axis, one in found.items() if isinstance(one, jrh.NotEstimable) and one.withheld}
    assert bounded
    for axis, bounds in bounded.items():
        values = [one for sheet in complete if isinstance(one := sheet[axis], jrh.Estimate)]
        assert values, axis
        assert bounds is not None, axis
        (low, below), (high, above) = spread(values)
        assert (bounds.low, bounds.high) == pytest.approx((low, high), abs=1e-12), axis
        assert (bounds.low_censored or "", bounds.high_censored or "") == (below, above), axis


def test_every_axis_of_pairs_that_can_be_withheld_is_in_the_test_above() -> None:
    tested = {axis for fields in CONDITIONS.values() for axis in readings(table_of(random_rows(fields, seed=0)))}
    # Asked once, a pair has nothing that two asks are compared in.
    twice = {"repeated_place", "repeated_wording"}
    assert {axis.main_key for axes in stimuli_axes().values() for axis in axes} - twice <= tested


def test_a_known_half_of_a_pair_rules_out_what_it_cannot_become() -> None:
    """The other order chose u: stable, positional and one-sided are possible, no preference is not."""
    found = readings(table_of(pair("item", "1", "error", delta=0)))
    ends = {
        axis: (found[axis].bounds.low, found[axis].bounds.high)  # type: ignore[union-attr]
        for axis in ("stable_cross_sensitivity", "positional_false_preference", "one_sided_commit", "no_preference")
    }
    assert ends == {
        "stable_cross_sensitivity": (0, 1),
        "positional_false_preference": (0, 1),
        "one_sided_commit": (0, 1),
        "no_preference": (0, 0),
    }


def test_bounds_say_how_many_calls_were_asked_and_how_the_lost_ones_ended() -> None:
    rows = pairs([("1", "error"), ("unparsed", "error"), *[("1", "2")] * 8], delta=0)
    for axis in ("raw_false_preference", "stable_cross_sensitivity", "other_conflict"):
        bounds = missing(jrh.measure(rows), axis).bounds
        assert bounds is not None, axis
        assert (bounds.asked, dict(bounds.lost)) == (20, {"unparsed": 1, "error": 2}), axis
        assert bounds.lost_share == 0.15, axis


def test_what_is_missing_for_another_reason_has_no_bounds() -> None:
    rows = pairs([("tie", "tie")] * 20, condition="ladder", delta=1, better="u")
    gaps = pairs([("1", "2")] * 20, condition="ladder", delta=3, better="u", name="far")
    sheet = jrh.measure(rows + gaps)
    without = {axis: one for axis, one in sheet.estimates.items() if isinstance(one, jrh.NotEstimable)}
    assert {"dark_current", "conditional_accuracy/delta_1", "threshold_75"} <= set(without)
    assert {axis for axis, one in without.items() if one.bounds or one.withheld} == set()


def test_a_curve_that_was_asked_with_gaps_is_withheld_without_bounds() -> None:
    steps = [
        pairs([("1", "error")] * 4, condition="ladder", delta=step, better="u", name=f"at-{step}") for step in (1, 3)
    ]
    sheet = jrh.measure([row for rows in steps for row in rows])
    assert missing(sheet, "threshold_75").withheld
    assert missing(sheet, "threshold_75").bounds is None
    assert missing(sheet, "target_sensitivity/delta_1").bounds is not None


def test_a_gap_to_a_ladder_that_was_not_asked_has_no_bounds() -> None:
    rows = pairs([("1", "error")] * 4, condition="ladder_matched", delta=2, better="u")
    others = pairs([("1", "error")] * 4, condition="ladder", delta=1, better="u", name="other")
    sheet = jrh.measure(rows + others)
    assert missing(sheet, "matched_sensitivity/delta_2").bounds is not None
    assert missing(sheet, "reading_gap/delta_2").bounds is None


def test_the_bounds_of_a_number_are_those_it_would_be_withheld_with() -> None:
    """One place: whether an axis is withheld is another question than between what it lies."""
    for name, fields in CONDITIONS.items():
        rows = random_rows(fields, seed=7, n_pairs=10)
        strict, lax = (readings(table_of(rows, max_excluded=limit)) for limit in (0.0, 0.9))
        for axis, one in lax.items():
            bounds = getattr(strict[axis], "bounds", None)
            if not isinstance(one, jrh.Estimate) or bounds is None or one.bound_low is None or one.bound_high is None:
                continue
            assert one.bound_low == pytest.approx(min(bounds.low, one.value)), (name, axis)
            assert one.bound_high == pytest.approx(max(bounds.high, one.value)), (name, axis)


def test_the_shift_of_a_withheld_axis_lies_between_the_bounds_of_both_arms() -> None:
    before = readings(table_of(pairs([("tie", "error"), *[("tie", "1")] * 4], delta=0)))
    after = readings(table_of(pairs([("tie", "tie")] * 4 + [("1", "tie")], delta=0)))
    shift = criterion_axes({"allowed": before, "strict": after})["strict/tie_rate/delta_0_same"]
    assert isinstance(shift, jrh.NotEstimable)
    assert shift.bounds is not None
    assert (shift.bounds.low, shift.bounds.high) == pytest.approx((0.9 - 0.6, 0.9 - 0.5))


def test_bounds_are_data_and_never_a_number() -> None:
    sheet = jrh.measure(pairs([("1", "error")] * 2 + [("1", "2")] * 8, delta=0))
    data = sheet.to_dict()["estimates"]["raw_false_preference"]
    assert data["kind"] == "not_estimable"
    assert "value" not in data
    assert data["bounds"] == {
        "low": 0.9,
        "high": 1.0,
        "asked": 20,
        "lost": {"unparsed": 0, "error": 2},
        "low_censored": None,
        "high_censored": None,
    }
    assert "Bounds(low=0.9, high=1.0, asked=20" in repr(sheet.estimates["raw_false_preference"])


def test_a_mean_of_probabilities_lies_between_what_the_calls_without_one_could_add() -> None:
    rows = [row | {"confidence": 0.8} for row in pairs([("1", "2")] * 4, condition="natural", better="u")]
    rows += [row | {"confidence": None} for row in pairs([("1", "2")], condition="natural", better="u", name="bare")]
    sheet = jrh.measure(rows)
    expected: dict[str, tuple[float, float] | None] = {
        "confidence/brier": (0.04 * 0.8, 0.04 * 0.8 + 0.2),
        "confidence/mean": (0.64, 0.84),
        "confidence/accuracy_gap": (-0.2 * 0.8 - 0.2, -0.2 * 0.8 + 0.2),
        "confidence/ece": None,
        "expected/natural/accuracy": (0.64, 1.0),
    }
    for axis, ends in expected.items():
        bounds = missing(sheet, axis).bounds
        assert (bounds and (bounds.low, bounds.high)) == (ends if ends is None else pytest.approx(ends)), axis


def test_possible_outcomes_of_a_unit_decide_its_bounds_whatever_they_are() -> None:
    """Any set of outcomes, also such that no axis has: against all assignments."""
    sets = [subset for subset in product((False, True), repeat=3) if any(subset)]
    for units in product(sets, repeat=3):
        hit, miss, out = (np.array(column) for column in zip(*units, strict=True))
        shares = []
        for ends in product(*([place for place, can in enumerate(unit) if can] for unit in units)):
            counted = [end for end in ends if end != 2]
            shares += [counted.count(0) / len(counted)] if counted else []
        found = Possible(hit=hit, miss=miss, out=out).bounds
        assert found == ((min(shares), max(shares)) if shares else None), units


def test_bounds_are_of_the_public_kind() -> None:
    assert Bounds(low=0.3, high=0.5, asked=10, lost={"error": 2}).lost_share == 0.2


def pointwise_rows() -> list[Row]:
    """Two lost calls: a replicate beside one that says no, and the baseline of another source."""
    rows = [point("baseline", said, "yes", source=f"s{place}") for place, said in enumerate(("yes", "error", "no"))]
    typos = {"s0": ("yes", "no"), "s1": ("yes", "yes"), "s2": ("yes", "unparsed")}
    return rows + [row for source, said in typos.items() for row in repeats("typos", said, "yes", source=source)]


def test_shares_of_reliability_tests_have_the_least_and_the_greatest_that_completions_read() -> None:
    rows = pointwise_rows()
    found = report(rows, max_excluded=0.0, labels=("no", "yes"))
    lost = [index for index, row in enumerate(rows) if row["outcome"] in ("error", "unparsed")]
    complete = []
    for said in product(("yes", "no", "abstain"), repeat=len(lost)):
        whole = [dict(row) for row in rows]
        for index, one in zip(lost, said, strict=True):
            answer = "" if one == "abstain" else one
            whole[index] |= {"outcome": "verdict" if answer else one, "answer": answer}
        complete.append(report(whole, n_resamples=1, labels=("no", "yes")))
    shares = ("accuracy", "pass", "error_rate", "fnr", "consistency", "unanimity")
    for axis in ("baseline/accuracy", "baseline/pass", "all/accuracy", *(f"typos/{name}" for name in shares)):
        bounds, values = reason(found, axis).bounds, [number(one, axis) for one in complete]
        assert bounds is not None, axis
        assert (bounds.low, bounds.high) == pytest.approx((min(values), max(values))), axis
    for axis in ("typos/matthews", "typos/flip_rate", "typos/gwet_ac1"):
        assert reason(found, axis).withheld
        assert reason(found, axis).bounds is None, axis
