"""The reliability report: what each axis counts, and what it leaves out."""

from __future__ import annotations

import json
import re

import pytest

import jrh_mlflow as jrh
from jrh_mlflow.comparing.comparison import compare_calls
from jrh_mlflow.measures.datasheet import NO_PROFILE
from jrh_mlflow.schema.estimates import Estimate, NotEstimable
from jrh_mlflow.show.results import ReliabilityReport
from tests.measures.pointwise import doses, number, point, points, reading, reason, repeats, report

YES_NO = ("no", "yes")


def test_a_judge_that_is_wrong_but_stable_is_consistent_and_never_accurate():
    rows = [
        *points("baseline", [("no", "yes")] * 20),
        *points("typos", [("no", "yes")] * 20),
        *[
            row
            for index in range(20)
            for row in repeats("stochastic_stability", ["no"] * 5, "yes", source=f"s{index:03d}")
        ],
    ]
    found = report(rows)
    assert number(found, "typos/accuracy") == number(found, "typos/pass") == number(found, "baseline/accuracy") == 0
    assert number(found, "typos/consistency") == number(found, "stochastic_stability/consistency") == 1
    assert number(found, "stochastic_stability/unanimity") == 1
    assert number(found, "stochastic_stability/flip_rate") == 0
    assert {test: one.value for test, one in found.scores.items()} == {"stochastic_stability": 1, "typos": 0}


def test_with_the_api_down_nothing_is_estimated_and_everything_is_withheld():
    rows = [
        *points("baseline", [("error", "yes"), ("error", "no")] * 10),
        *points("typos", [("error", "yes"), ("error", "no")] * 10),
        *[
            row
            for index in range(5)
            for row in repeats("stochastic_stability", ["error"] * 3, "no", source=f"s{index:03d}")
        ],
        *[point(f"error_injection_{dose}", "error", source=f"s{index:03d}") for index in range(5) for dose in (1, 2)],
    ]
    found = jrh.measure(rows, labels=YES_NO)
    assert isinstance(found, ReliabilityReport)
    assert not any(isinstance(one, Estimate) for one in found.estimates.values())
    missing_class = {"stochastic_stability/fnr"}
    assert set(found.withheld) == set(found.estimates) - missing_class | {"reliability/mean", "reliability/min"}
    assert found.summary == {
        "n_tests": 0,
        "mean": None,
        "sd": None,
        "min": None,
        "max": None,
        "mean_ci_low": None,
        "mean_ci_high": None,
    }
    assert found.profile == NO_PROFILE
    assert "Across tests: withheld" in found.to_markdown()


def test_an_unparsed_answer_is_never_wrong_and_moves_the_bounds():
    rows = points("typos", [("yes", "yes")] * 39 + [("unparsed", "yes")])
    one = reading(jrh.measure(rows, labels=YES_NO), "typos/accuracy")
    assert (one.value, one.n, one.excluded, one.left_out["unparsed"]) == (1, 39, 1, 1)
    assert (one.bound_low, one.bound_high) == (39 / 40, 1)


def test_past_the_limit_an_axis_is_withheld_with_its_reason():
    rows = points("typos", [("yes", "yes")] * 18 + [("unparsed", "yes")] * 2)
    found = jrh.measure(rows, labels=YES_NO)
    assert (
        "2 of 20 typos calls with an expected answer gave no usable answer (unparsed 2)"
        in found.withheld["typos/accuracy"]
    )
    assert isinstance(jrh.measure(rows, labels=YES_NO, max_excluded=0.1).estimates["typos/accuracy"], Estimate)


def test_an_abstention_is_an_answer_that_is_neither_right_nor_consistent_nor_moved():
    rows = [
        *points("baseline", [("abstain", "yes"), ("yes", "yes")]),
        *points("typos", [("abstain", "yes"), ("abstain", "yes")]),
        *points("label_flip", [("no", "no"), ("abstain", "no")]),
    ]
    found = report(rows)
    for axis in ("typos/accuracy", "typos/consistency", "label_flip/moved", "typos/fnr"):
        assert (number(found, axis), reading(found, axis).n) == (0, 2)
    assert number(found, "typos/error_rate") == 1


def test_an_item_passes_when_every_replicate_is_right_and_leaves_when_one_is_unusable():
    rows = [
        *repeats("typos", ["yes", "yes"], "yes", source="a"),
        *repeats("typos", ["yes", "no"], "yes", source="b"),
        *repeats("typos", ["yes", "error"], "yes", source="c"),
    ]
    one = reading(report(rows, labels=YES_NO), "typos/pass")
    assert (one.numerator, one.n, one.excluded, one.unit) == (1, 2, 1, "item")


def test_replicates_are_compared_with_each_other_and_not_with_the_label():
    rows = [
        *repeats("stochastic_stability", ["no", "no", "no", "no"], "yes", source="a"),
        *repeats("stochastic_stability", ["yes", "yes", "yes", "no"], "yes", source="b"),
    ]
    found = report(rows, labels=YES_NO)
    assert number(found, "stochastic_stability/accuracy") == 3 / 8
    assert number(found, "stochastic_stability/unanimity") == 1 / 2
    assert number(found, "stochastic_stability/flip_rate") == pytest.approx((0 + 3 / 6) / 2)
    assert found.scores["stochastic_stability"] == found.estimates["stochastic_stability/unanimity"]


def shaky_on_many(n: int) -> list[dict[str, object]]:
    """Stable when asked three times, never when asked ten times; half of the typos are judged right."""
    sources = [f"s{number}" for number in range(n)]
    deep = ["yes"] * 9 + ["no"]
    return [
        *(row for source in sources for row in repeats("stochastic_stability", ["yes"] * 3, "yes", source=source)),
        *(row for source in sources for row in repeats("stochastic_stability_deep", deep, "yes", source=source)),
        *points("typos", [("yes", "yes"), ("no", "yes")] * (n // 2)),
    ]


def test_the_deep_design_of_stability_is_reported_and_does_not_count_twice_in_the_mean():
    found = report(shaky_on_many(8), labels=YES_NO)
    assert list(found.scores) == ["stochastic_stability", "typos"]
    assert (found.summary["n_tests"], found.summary["mean"]) == (2, 0.75)
    assert number(found, "stochastic_stability_deep/unanimity") == 0
    assert "stochastic stability deep" in found.to_markdown()


def test_the_deep_design_stands_for_stability_where_nothing_else_does():
    rows = [row for row in shaky_on_many(8) if row["condition"] != "stochastic_stability"]
    found = report(rows, labels=YES_NO)
    assert list(found.scores) == ["stochastic_stability_deep", "typos"]


def test_a_comparison_shows_the_deep_design_and_leaves_it_out_of_the_mean_over_tests():
    rows = shaky_on_many(8)
    steady = [row | {"answer": "yes"} for row in rows]
    cells = compare_calls({"shaky": rows, "steady": steady}, labels=YES_NO).cells
    assert cells["stochastic_stability_deep"]["shaky"].value == 0
    assert cells["overall"]["shaky"].value == pytest.approx(0.75)


def test_one_unusable_replicate_of_many_is_missing_from_its_item_and_does_not_take_the_item_along():
    rows = [*repeats("stochastic_stability_deep", ["yes"] * 29 + ["error"], "yes"), *points("typos", [("no", "yes")])]
    found = jrh.measure(rows)
    assert number(found, "stochastic_stability_deep/flip_rate") == 0
    assert reason(found, "stochastic_stability_deep/unanimity").withheld


def test_asked_once_there_is_nothing_to_agree_with():
    found = report([point("stochastic_stability", "yes", "yes"), point("typos", "no", "yes")])
    assert reason(found, "stochastic_stability/unanimity").reason.startswith("no stochastic_stability items with two")
    assert "typos/unanimity" not in found.estimates
    assert found.summary["n_tests"] == 1
    assert "1 of 2 tests without a number" in found.profile


def test_replicates_meet_the_baseline_replicates_in_turn():
    rows = [*repeats("baseline", ["yes", "no"], "yes"), *repeats("typos", ["yes", "no", "yes", "yes"], "yes")]
    one = reading(report(rows), "typos/consistency")
    assert (one.numerator, one.n) == (3, 4)


def test_consistency_leaves_out_a_call_whose_baseline_is_unusable():
    rows = [*points("baseline", [("yes", "yes"), ("error", "yes")]), *points("typos", [("yes", "yes"), ("no", "yes")])]
    one = reading(report(rows), "typos/consistency")
    assert (one.value, one.n, one.excluded, one.left_out["error"]) == (1, 1, 1, 1)


def test_where_the_expected_answer_changes_the_answer_should_move_decided_item_by_item():
    rows = [
        *points("baseline", [("yes", "yes"), ("yes", "yes"), ("no", "no")]),
        *points("label_flip", [("no", "no"), ("yes", "no"), ("yes", "yes")]),
        *points("synthetic", [("yes", "yes"), ("no", "no"), ("no", "no")]),
    ]
    found = report(rows)
    assert (number(found, "label_flip/moved"), reading(found, "label_flip/moved").n) == (2 / 3, 3)
    assert "label_flip/consistency" not in found.estimates
    assert (number(found, "synthetic/consistency"), reading(found, "synthetic/consistency").n) == (1, 2)
    assert (number(found, "synthetic/moved"), reading(found, "synthetic/moved").n) == (1, 1)


def test_without_a_baseline_consistency_is_not_estimable():
    assert (
        "no typos calls with a baseline" in reason(report(points("typos", [("yes", "no")])), "typos/consistency").reason
    )


def test_two_baseline_items_of_one_source_leave_the_original_unknown():
    rows = [point("baseline", "yes", "yes"), point("baseline", "no", "yes", number=1), point("typos", "no", "yes")]
    assert "several baseline items" in reason(report(rows), "typos/consistency").reason


def test_labels_without_a_known_order_keep_what_needs_none():
    found = report(points("typos", [("cat", "cat"), ("dog", "cat"), ("dog", "dog")]))
    assert number(found, "typos/accuracy") == 2 / 3
    assert number(found, "typos/matthews") == pytest.approx(0.5)
    assert "pass labels=" in reason(found, "typos/fpr").reason


def test_several_words_have_accuracy_and_nothing_of_two_labels_or_a_scale():
    found = report(points("typos", [("a", "a"), ("b", "c")]))
    assert set(found.estimates) == {
        "typos/accuracy",
        "typos/pass",
        "typos/consistency",
        "all/accuracy",
        "all/error_rate",
    }


def test_the_pool_of_all_tests_leaves_the_baseline_out():
    rows = [
        *points("baseline", [("no", "yes")] * 9),
        *points("typos", [("yes", "yes")]),
        *points("padding", [("no", "yes")]),
    ]
    one = reading(report(rows), "all/accuracy")
    assert (one.value, one.n) == (0.5, 2)


def test_across_tests_there_are_mean_sd_min_and_max_with_an_interval_by_source():
    rows = [
        *points("a", [("yes", "yes")] * 30 + [("no", "yes")] * 10),
        *points("b", [("yes", "yes")] * 20 + [("no", "yes")] * 20),
    ]
    summary = report(rows, n_resamples=400).summary
    assert summary["mean"] == pytest.approx(0.625)
    assert summary["sd"] == pytest.approx(0.25 / 2**0.5)
    assert (summary["min"], summary["max"], summary["n_tests"]) == (0.5, 0.75, 2)
    assert 0.4 < summary["mean_ci_low"] < 0.625 < summary["mean_ci_high"] < 0.8


def test_one_perfect_test_has_no_sd_and_no_interval_of_zero_width():
    summary = report(points("a", [("yes", "yes")] * 10)).summary
    assert (summary["mean"], summary["sd"], summary["mean_ci_low"], summary["mean_ci_high"]) == (1, None, None, None)


def test_the_profile_names_baseline_weakest_test_and_flips():
    rows = [
        *points("baseline", [("yes", "yes")] * 19 + [("no", "yes")]),
        *points("a", [("yes", "yes")] * 10 + [("no", "yes")] * 10),
        *points("b", [("yes", "yes")] * 20),
        *repeats("stochastic_stability", ["yes", "yes", "yes", "no"], "yes"),
        *repeats("stochastic_stability", ["yes", "yes", "yes", "yes"], "yes", source="s1"),
        *repeats("stochastic_stability", ["no", "no", "no", "no"], "yes", source="s2"),
    ]
    profile = re.sub(r" \[[<>0-9., ]+\]| without an interval", " […]", report(rows).profile)
    # Three sources are too few to say that the third test is not the weakest.
    weakest = "weakest test not decided: a 0.50 […], stochastic stability 0.67 […]"
    assert profile == f"baseline accuracy 0.95 […]; {weakest}; flips on repeat 0.17 […]"


def test_the_weakest_test_is_named_where_its_interval_lies_below_all_others():
    rows = [
        *points("a", [("yes", "yes")] * 10 + [("no", "yes")] * 30),
        *points("b", [("yes", "yes")] * 40),
        *points("c", [("yes", "yes")] * 39 + [("no", "yes")]),
    ]
    assert report(rows).profile.startswith("weakest test a 0.25 [0.")
    few = report([*rows, *points("d", [("yes", "yes"), ("no", "yes"), ("no", "yes")])]).profile
    assert few.startswith("weakest test not decided: a 0.25 [0.")
    assert "d 0.33 [0." in few
    assert "b 1.00" not in few


def test_a_profile_names_at_most_three_tests_that_may_be_the_weakest():
    rows = [row for test in "abcde" for row in points(test, [("yes", "yes"), ("no", "yes")])]
    profile = report(rows).profile
    assert profile.startswith("weakest test not decided: a 0.50 [")
    assert profile.endswith(" and 2 more")


def test_the_data_of_a_report_is_json_without_nan():
    rows = [
        *doses({"a": ["5", "4", "4", "2"], "b": ["5", "5", "error", "1"]}),
        *points("typos", [("3", "4"), ("4", "4")]),
    ]
    found = report(rows)
    data = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert set(data["estimates"]) == set(found.estimates)
    assert data["labels"] == ["1", "2", "3", "4", "5"]
    assert {one["kind"] for one in data["estimates"].values()} == {"estimate", "not_estimable"}


def test_the_same_seed_gives_the_same_report_and_no_global_random_state_is_touched():
    rows = points("typos", [(str(1 + index % 5), str(1 + index % 4)) for index in range(40)])
    first, again, other = (report(rows, seed=seed) for seed in (1, 1, 2))
    assert first.to_dict() == again.to_dict()
    assert reading(first, "typos/mae").cluster_low != reading(other, "typos/mae").cluster_low


def test_everything_without_a_number_says_why():
    found = report([*points("typos", [("cat", "dog"), ("abstain", "cat")]), point("error_injection_1", "error")])
    reasons = [one.reason for one in found.estimates.values() if isinstance(one, NotEstimable)]
    assert reasons
    assert all(reasons)


def test_the_baseline_alone_is_measured_and_there_is_no_test_to_sum_up():
    found = report(points("baseline", [("yes", "yes"), ("no", "yes")]))
    assert number(found, "baseline/accuracy") == 0.5
    assert (found.tests, found.scores, found.summary["mean"]) == ((), {}, None)
    assert not any(axis.startswith("all/") for axis in found.estimates)
    assert found.profile.startswith("baseline accuracy 0.50 [")


def test_doses_without_a_baseline_have_nothing_to_fall_from():
    found = report([point("error_injection_1", "3"), point("error_injection_2", "2")])
    assert reason(found, "error_injection_1/decline").reason.startswith("no error_injection_1 calls with a baseline")
    assert reason(found, "error_injection/monotone").reason.startswith("no sources with a baseline and every dose")


def test_a_bootstrap_needs_a_resample():
    with pytest.raises(ValueError, match="n_resamples >= 1"):
        report(points("typos", [("yes", "no")]), n_resamples=0)
