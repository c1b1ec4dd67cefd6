"""The calls behind every number: counted again from what `behind` tells, they give the number's own counts."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given

import jrh_mlflow as jrh
from jrh_mlflow.errors import RecipeError
from jrh_mlflow.measures.axes import find
from jrh_mlflow.measures.behind import LEFT_OUT, NO, YES, Behind, CallFinder, has_calls
from jrh_mlflow.measures.records import halves_marked, normalise
from jrh_mlflow.schema.estimates import Estimate, Reading
from jrh_mlflow.schema.items import SINGLE_LADDERS
from jrh_mlflow.show.results import by_category
from tests.measures import recount, test_reliability_recount
from tests.measures.pointwise import point, repeats
from tests.measures.test_single_responses import COIN
from tests.readings import COSTLY_PROPERTY, Row, asked, pair

MEASURING: dict[str, Any] = {"max_excluded": 0.99, "n_resamples": 5}


def counted_again(found: Behind) -> dict[str, int]:
    """Units by how they count: every call of a unit must tell the same."""
    told = defaultdict(set)
    for row in np.flatnonzero(found.calls):
        assert found.unit_of[row] >= 0, found.key
        told[found.unit_of[row]].add(found.counts[row])
    assert all(len(states) == 1 for states in told.values()), found.key
    states = [states.pop() for states in told.values()]
    return {state: states.count(state) for state in (*(YES, NO, LEFT_OUT), "")}


def check(finder: CallFinder, key: str, reading: Reading) -> None:
    """Compare a reading with a count of the calls behind it."""
    assert has_calls(key)
    if not reading.n + reading.excluded:
        return
    found = finder.behind(key)
    axis = find(key)
    if key.startswith("drop/") or key == "reading":
        # A difference of two shares over the same sources or steps: n is that of the smaller one.
        assert reading.n <= found.n, key
        return
    if axis is not None and (axis.gap or len(axis.derived_from) > 1):
        # A difference: each of its calls is behind one of the two, whose counts are checked by themselves.
        step = key.removeprefix(axis.name)
        both = [finder.behind(f"{name}{step}") for name in axis.gap or axis.derived_from]
        assert (found.calls == both[0].calls | both[1].calls).all(), key
        if isinstance(reading, Estimate):
            assert reading.n == min(part.n for part in both), key
            assert reading.excluded == sum(part.excluded for part in both), key
        return
    if (found.unit_of[found.calls] < 0).all():
        return check_levels(finder, found, reading)
    counts = counted_again(found)
    n = counts["yes"] + counts["no"] + counts[""]
    assert (found.n, found.excluded) == (n, counts["left_out"]), key
    if not isinstance(reading, Estimate):
        # A value that cannot be told (no variation) tells no more than its n, and a withheld one counts in calls.
        assert reading.withheld or reading.n == n, key
        return
    if key == "constant_answer":
        # The least of several shares, each of them among these calls.
        assert reading.n <= n
        return
    assert (reading.n, reading.excluded) == (n, counts["left_out"]), key
    if reading.numerator is None:
        return
    if found.numerator is not None:
        assert reading.numerator == pytest.approx(found.numerator), key
    halves = axis is not None and axis.halves
    if found.can_count and float(reading.numerator).is_integer() and not halves:
        assert counts["yes"] == reading.numerator, key


def check_levels(finder: CallFinder, found: Behind, reading: Reading) -> None:
    """Levels that are compared: two contents are a unit, and each content is in several of them."""
    frame = finder._frame[found.calls]
    lost = set(found.counts[found.calls]) - {""}
    assert lost <= {"left_out"}
    step = found.key.rpartition("delta_")[2] if "delta_" in found.key else None
    n = excluded = 0
    for _, own in frame.groupby("task"):
        said = {level: list(found.counts[list(part.index)]) for level, part in own.groupby("delta")}
        for low, high in combinations(sorted(said), 2):
            if step is None or high - low == float(step):
                usable = "" in said[low] and "" in said[high]
                n, excluded = n + usable, excluded + (not usable)
    if step is not None:
        assert (reading.n, reading.excluded) == (n, excluded) == (found.n, found.excluded), found.key
    else:
        # Levels that are answered alike are none of its units, or left out where another answer was lost.
        assert (reading.n, reading.excluded) == (found.n, found.excluded), found.key
        assert found.n + found.excluded <= n + excluded, found.key
    if isinstance(reading, Estimate):
        assert reading.numerator == pytest.approx(found.numerator), found.key


def check_sheet(rows: Any, *, labels: Sequence[str] | None = None, metric: str | None = None, **kept: Any) -> list[str]:
    sheet = jrh.measure(rows, labels=labels, metric=metric, **MEASURING)
    finder = CallFinder(rows, labels=labels, metric=metric or "accuracy", **kept)
    for key, reading in sheet.estimates.items():
        check(finder, key, reading)
    return [key for key, reading in sheet.estimates.items() if isinstance(reading, Estimate)]


def lossy(rows: Sequence[Any], seed: int = 0) -> pd.DataFrame:
    """The same calls, of which some gave no usable answer and some abstained."""
    frame = normalise(rows)
    rng = random.Random(seed)
    for row in range(len(frame)):
        if (drawn := rng.random()) < 0.15:
            frame.loc[row, ["outcome", "answer"]] = (
                ("error" if drawn < 0.05 else "unparsed" if drawn < 0.1 else "abstain"),
                "",
            )
    return frame.sample(frac=1, random_state=seed, ignore_index=True)


@COSTLY_PROPERTY
@given(recount.records())
def test_calls_behind_every_number_of_pairs_give_its_counts(rows):
    check_sheet(rows)


@COSTLY_PROPERTY
@given(test_reliability_recount.records())
def test_calls_behind_every_number_of_a_reliability_report_give_its_counts(drawn):
    labels, rows = drawn
    check_sheet(rows, labels=labels)


def test_a_whole_datasheet_with_matched_ladder_replicates_and_confidences_can_be_followed():
    suite = jrh.datasheet_suite(n_tasks=2, depth=3)
    frame = lossy(asked(jrh.scripted.LongerWins(), suite, replicates=2))
    rng = np.random.default_rng(0)
    frame["confidence"] = np.where(rng.random(len(frame)) < 0.9, rng.random(len(frame)).round(3), np.nan)
    keys = check_sheet(frame)
    assert {"threshold_75", "d_prime/delta_1", "reading_gap/delta_2", "other_conflict", "filler_preference"} <= set(
        keys
    )
    assert {"confidence/brier", "expected/dark_current", "expected/target_sensitivity/delta_3"} <= set(keys)


def test_calls_without_a_partner_are_behind_numbers_of_calls_and_of_no_pair():
    rows = pair("a", "1", "2", delta=0.0) + pair("b", "1", "1", delta=0.0)
    frame = halves_marked(pd.DataFrame(rows[:3]))
    check_sheet(frame)
    finder = CallFinder(frame)
    assert finder.behind("raw_false_preference").calls.tolist() == [True, True, True]
    assert finder.behind("stable_cross_sensitivity").calls.tolist() == [True, True, False]


def test_a_pointwise_datasheet_with_lost_calls_can_be_followed():
    suite = jrh.datasheet_suite(design="pointwise", n_tasks=3)
    frame = lossy(asked(COIN, suite, replicates=2))
    keys = check_sheet(frame, labels=suite.labels)
    assert {"pointwise/padding", "pointwise/repeat_agreement", "pointwise/separation/delta_5"} <= set(keys)
    assert "pointwise/mean_answer/level_0" in keys
    assert CallFinder(frame, labels=suite.labels).behind("pointwise/padding").can_count
    assert set(frame[CallFinder(frame).behind("pointwise/dark_current").calls]["condition"]).isdisjoint(SINGLE_LADDERS)


def scaled(seed: int, *, sources: int = 12) -> list[Row]:
    """Baselines, tests of every kind of expectation, replicates and doses, on a scale."""
    rng = random.Random(seed)
    said = ("1", "2", "3", "4", "4", "abstain", "unparsed", "error")
    rows = []
    for number in range(sources):
        source, label = f"s{number:02d}", rng.choice("1234")
        for test in ("baseline", "format_invariance_1", "label_flip", *(f"error_injection_{dose}" for dose in (1, 2))):
            expected = "" if test.startswith("error") else rng.choice("1234") if test == "label_flip" else label
            rows.append(point(test, rng.choice(said), expected, source=source))
        rows += repeats("stochastic_stability", [rng.choice(said) for _ in range(3)], label, source=source)
    for row in rows:
        unsure = "model" if row["task"] > "s09" else "unverified"
        row |= {"label_source": unsure if row["task"] > "s08" and row["expected"] else ""}
        row |= {"rubric": "safe" if row["task"] < "s05" else "helpful"}
    return rows


@pytest.mark.parametrize("metric", [None, "f1", "mae"])
def test_a_report_on_a_scale_with_doses_and_labels_of_a_model_can_be_followed(metric):
    rows, labels = scaled(3), ("1", "2", "3", "4")
    keys = check_sheet(rows, labels=labels, metric=metric)
    assert {"error_injection/monotone", "error_injection_1/decline", "label_flip/agreement_model"} <= set(keys)
    assert {"all/accuracy", "all/mae", "stochastic_stability/unanimity", "label_flip/within_one"} <= set(keys)


def test_groups_of_items_and_rubrics_are_followed_by_their_names():
    rows, labels = scaled(5), ("1", "2", "3", "4")
    groups = {row["suite_item"]: f"of/{row['task'][-1]}" for row in rows if row["task"] < "s06"}
    finder = CallFinder(rows, labels=labels, groups=groups)
    sheet = jrh.measure(rows, labels=labels, **MEASURING)
    found = {"category": by_category(rows, groups, labels=labels, **MEASURING), "rubric": sheet.rubrics}
    for kind, named in found.items():
        assert named
        for name, readings in named.items():
            check_each(finder, {f"{kind}/{name}/{axis}": reading for axis, reading in readings.items()})


def check_each(finder: CallFinder, readings: Mapping[str, Reading]) -> None:
    for key, reading in readings.items():
        check(finder, key, reading)


def test_the_name_of_a_test_leads_to_what_stands_for_it_and_the_mean_to_all_of_them():
    rows, labels = scaled(7), ("1", "2", "3", "4")
    finder = CallFinder(rows, labels=labels, scores=jrh.measure(rows, labels=labels, **MEASURING).scores)
    for test, axis in {
        "label_flip": "accuracy",
        "stochastic_stability": "unanimity",
        "error_injection": "monotone",
    }.items():
        assert (finder.behind(test).counts == finder.behind(f"{test}/{axis}").counts).all()
    tests = [finder.behind(test).calls for test in ("label_flip", "stochastic_stability", "format_invariance_1")]
    assert np.logical_or.reduce([*tests, finder.behind("error_injection").calls]).sum() == (
        finder.behind("reliability/mean").calls.sum()
    )


@pytest.mark.parametrize("metric", [None, "mae"])
def test_only_tests_in_the_mean_are_behind_it_and_only_the_lowest_and_highest_behind_its_ends(metric):
    rows, labels = scaled(7), ("1", "2", "3", "4")
    rows += [point("padding", "unparsed", "1", source=f"s{number:02d}") for number in range(12)]
    rows += [point("typos", "1", "1", source=f"s{number:02d}") for number in range(12)]
    report = jrh.measure(rows, labels=labels, metric=metric, **MEASURING)
    finder = CallFinder(rows, labels=labels, metric=metric or "accuracy", scores=report.scores)
    averaged = {
        test: reading.value
        for test, reading in report.scores.items()
        if isinstance(reading, Estimate) and test not in report.apart
    }
    assert len(averaged) == report.summary["n_tests"] > 1
    assert "padding" in report.scores
    assert "padding" not in averaged
    for name in ("mean", "sd", "min", "max"):
        # Padding is withheld, so the report itself has neither mean nor ends.
        assert report.summary[name] is None
        value = {"min": min, "max": max}.get(name, len)(averaged.values())
        behind = [test for test, one in averaged.items() if name in ("mean", "sd") or one == value]
        assert 0 < len(behind) <= len(averaged)
        wanted = np.logical_or.reduce([finder.behind(test).calls for test in behind])
        assert (finder.behind(f"reliability/{name}").calls == wanted).all(), name


def test_a_family_is_all_its_steps_and_a_number_without_calls_is_refused():
    finder = CallFinder(asked(jrh.scripted.AlwaysFirst(), jrh.datasheet_suite(n_tasks=2, depth=2)))
    steps = [finder.behind(f"target_sensitivity/delta_{step}").calls for step in (1, 2)]
    assert (finder.behind("target_sensitivity").calls == steps[0] | steps[1]).all()
    for key in ("natural/accuracy", "label_flip/accuracy", "cost/usd", "dark_currant"):
        with pytest.raises(RecipeError, match="no calls behind"):
            finder.behind(key)
