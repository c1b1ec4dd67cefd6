"""Readings by category: each group measured by itself, spelled in keys that MLflow takes."""

from __future__ import annotations

import pandas as pd
import pytest

from jrh_mlflow.schema.estimates import Estimate, NotEstimable
from jrh_mlflow.show.results import ReliabilityReport, by_category, categorised, measure
from jrh_mlflow.tracking.runs.keys import category_names, sheet_points
from tests.measures.category_tools import call, two_groups

LABELS = ("no violation", "violation")


def test_each_group_has_the_counts_of_its_own_calls() -> None:
    calls, groups = two_groups()
    found = by_category(calls, groups, labels=LABELS)
    assert list(found) == ["easy", "hard"]
    easy, hard = found["easy"], found["hard"]
    assert (easy["accuracy"].value, easy["accuracy"].n) == (1.0, 20)
    assert (hard["accuracy"].value, hard["error_rate"].value) == (0.65, 0.35)
    assert (hard["fpr"].value, hard["fpr"].n) == (0.2, 10)
    assert (hard["fnr"].value, hard["fnr"].n) == (0.5, 10)
    assert isinstance(hard["fnr"], Estimate)
    # Wilson of 5/10.
    assert (round(hard["fnr"].ci_low, 4), round(hard["fnr"].ci_high, 4)) == (0.2366, 0.7634)


def test_a_group_reads_what_measuring_it_alone_reads() -> None:
    calls, groups = two_groups()
    own = calls[[groups[item] == "hard" for item in calls["suite_item"]]]
    alone = measure(own, labels=LABELS).estimates
    found = by_category(calls, groups, labels=LABELS)["hard"]
    assert {axis: reading.value for axis, reading in found.items()} == {
        axis: alone[f"all/{axis}"].value for axis in ("accuracy", "error_rate", "fpr", "fnr", "matthews")
    }


def test_baselines_are_measured_where_there_is_no_test() -> None:
    calls = pd.DataFrame([call(f"t{n}", "baseline", "violation", LABELS[n % 2]) for n in range(4)])
    found = by_category(calls, {f"t{n}/baseline": "only" for n in range(4)}, labels=LABELS)
    assert (found["only"]["accuracy"].value, found["only"]["fpr"].n) == (0.5, 0)
    assert isinstance(found["only"]["fpr"], NotEstimable)


def test_a_group_without_answers_is_withheld_and_the_other_is_not() -> None:
    calls, groups = two_groups()
    calls.loc[[groups[item] == "hard" for item in calls["suite_item"]], ["outcome", "answer"]] = ["error", ""]
    report = categorised(measure(calls, labels=LABELS), calls, groups)
    assert isinstance(report, ReliabilityReport)
    assert "category/hard/accuracy" in report.withheld
    keys = {point.key for point in sheet_points(report)}
    assert "category/easy/accuracy/rate" in keys
    assert not any(key.startswith("category/hard/") for key in keys)


def test_a_scale_has_distances_by_category() -> None:
    answers = [("1", "2"), ("2", "2"), ("3", "1"), ("3", "3")]
    calls = pd.DataFrame([call(f"t{n}", "label_flip", *pair) for n, pair in enumerate(answers)])
    found = by_category(calls, {f"t{n}/label_flip": "all of it" for n in range(4)}, labels=("1", "2", "3"))
    assert found["all of it"]["mae"].value == 0.75


def test_the_report_shows_its_categories_and_data_hold_them() -> None:
    calls, groups = two_groups()
    report = categorised(measure(calls, labels=LABELS), calls, groups)
    assert isinstance(report, ReliabilityReport)
    page = report.to_markdown()
    assert "### By category" in page
    assert "| `hard` | 0.65 [" in page
    assert report.to_dict()["categories"]["hard"]["fnr"]["value"] == 0.5
    without = measure(calls, labels=LABELS)
    assert "categories" not in without.to_dict()
    assert "By category" not in without.to_markdown()


def test_calls_without_a_group_are_in_no_category() -> None:
    calls, groups = two_groups()
    some = {item: group for item, group in groups.items() if group == "easy"}
    assert list(by_category(calls, some, labels=LABELS)) == ["easy"]
    assert by_category(calls, {}, labels=LABELS) == {}


@pytest.mark.parametrize(
    ("group", "name"), [("Banking (EU)", "banking_eu"), ("Größe", "grosse"), ("a/b: c", "a_b_c"), ("7", "7")]
)
def test_groups_are_spelled_in_ascii(group: str, name: str) -> None:
    assert category_names([group]) == {group: name}


def test_groups_that_would_be_spelled_alike_are_told_apart() -> None:
    names = category_names(["A b", "a-b", "日本", "中国"])
    assert len(set(names.values())) == 4
    assert all(name.isascii() and name for name in names.values())
