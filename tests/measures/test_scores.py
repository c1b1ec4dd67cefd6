"""Unit scores: their mean is the number of the judge's own report, and their names are shared by all judges."""

from __future__ import annotations

import numpy as np
import pytest

import jrh_mlflow as jrh
from jrh_mlflow.measures.axes import lower_is_better
from jrh_mlflow.measures.records import normalise
from jrh_mlflow.measures.unit_scores import COLUMNS, unit_scores
from jrh_mlflow.scoring.ledger import Resampling
from jrh_mlflow.show.results import measured
from tests.comparing.comparing_tools import LABELS, oracle, point_calls
from tests.readings import asked

TESTS = ("typos", "stochastic_stability", "stochastic_stability_deep", "error_injection_1", "error_injection_2")


def shaky(source: str, condition: str, replicate: int) -> str | None:
    """Wrong on every third source, unstable on every fourth, deaf to doses on every fifth; one answer is garbage."""
    number = int(source[1:])
    if condition == "typos" and number == 7:
        return None
    if condition.startswith("stochastic") and number % 4 == 0:
        return LABELS[replicate]
    if condition.startswith("error") and number % 5 == 0:
        return "5"
    return "3" if number % 3 == 0 else oracle(source, condition, replicate)


def test_the_mean_score_of_each_axis_is_the_number_of_the_reliability_report():
    calls = point_calls(shaky, tests=TESTS, n_sources=30)
    scores = unit_scores(calls, labels=LABELS)
    report = measured(calls, labels=LABELS, max_excluded=0.05, resampling=Resampling(n_resamples=10))
    deep = "stochastic_stability_deep"
    # The deep design has a line of its own, and no second place among the scores.
    readings = {
        name: report.estimates[f"{name}/{axis}"] for name, axis in (("baseline", "accuracy"), (deep, "unanimity"))
    }
    assert deep not in report.scores
    readings |= report.scores
    assert set(scores["axis"]) == set(readings)
    for axis, reading in readings.items():
        own = scores[scores["axis"] == axis]
        assert isinstance(reading, jrh.Estimate)
        assert own["score"].mean() == pytest.approx(reading.value), axis
        assert (own["score"].notna().sum(), own["score"].isna().sum()) == (reading.n, reading.excluded)
        # A source whose own label is the lowest cannot fall with the dose.
        assert own["cluster"].nunique() == (24 if axis == "error_injection" else 30)


@pytest.mark.parametrize("judge", [jrh.scripted.AlwaysFirst(), jrh.scripted.Noisy(seed=5, unparsed=0.03)])
def test_the_mean_score_of_each_axis_is_the_number_of_the_datasheet(judge):
    records = asked(judge, jrh.datasheet_suite(n_tasks=4))
    sheet = jrh.measure(records, max_excluded=0.5)
    scores = unit_scores(normalise(records))
    assert {"dark_current", "raw_false_preference", "filler_preference"} < set(scores["axis"])
    assert sum(axis.startswith("target_sensitivity/") for axis in set(scores["axis"])) == 5
    for axis, own in scores.groupby("axis"):
        reading = sheet.estimates[str(axis)]
        assert isinstance(reading, jrh.Estimate)
        assert own["score"].mean() == pytest.approx(reading.value), axis
        assert own["score"].notna().sum() == reading.n


def test_natural_pairs_are_scored_by_call():
    rows = [
        {"suite_item": "p", "task": "p", "condition": "natural", "delta": None, "order": order, "better": "u"}
        | {"replicate": 0, "outcome": "verdict", "answer": "1", "expected": ""}
        for order in ("uv", "vu")
    ]
    scores = unit_scores(normalise(rows))
    assert scores.set_index("unit")["score"].to_dict() == {"p#uv#0": 1.0, "p#vu#0": 0.0}
    assert set(scores["axis"]) == {"natural/accuracy"}


def test_a_call_without_a_usable_answer_scores_nan_and_keeps_its_unit():
    scores = unit_scores(point_calls(shaky, n_sources=9)).set_index(["axis", "unit"])["score"]
    assert np.isnan(scores["typos", "s7/typos#0"])
    assert scores["typos", "s0/typos#0"] == 0.0
    assert scores["typos", "s1/typos#0"] == 1.0


def test_stability_is_one_unit_per_item_and_doses_one_per_source():
    scores = unit_scores(point_calls(shaky, tests=TESTS, n_sources=10), labels=LABELS)
    units = {axis: set(own["unit"]) for axis, own in scores.groupby("axis")}
    assert "s3/stochastic_stability" in units["stochastic_stability"]
    assert units["error_injection"] == {f"s{number}" for number in range(10) if number % 5}
    assert "error_injection_1" not in units


def test_the_order_of_the_records_does_not_matter():
    calls = point_calls(shaky, tests=TESTS)
    shuffled = calls.sample(frac=1, random_state=1).reset_index(drop=True)
    key = ["axis", "unit"]
    first, second = (unit_scores(one, labels=LABELS).sort_values(key, ignore_index=True) for one in (calls, shuffled))
    assert first.equals(second)
    assert tuple(first.columns) == COLUMNS


def test_axes_of_false_preference_are_better_when_lower_and_no_others():
    assert all(lower_is_better(axis) for axis in ("dark_current", "raw_false_preference", "filler_preference"))
    assert not lower_is_better("target_sensitivity/delta_1")
    assert not lower_is_better("typos")
