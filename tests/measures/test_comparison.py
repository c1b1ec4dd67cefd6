"""Comparing judges: known answers, decisions that hold their level, and what is said when numbers are missing."""

from __future__ import annotations

import json
import random
from itertools import combinations

import numpy as np
import pytest

import jrh_mlflow as jrh
from jrh_mlflow.errors import CallsError
from jrh_mlflow.measures.comparison import OVERALL, ScoreTable, axis_difference, decided
from jrh_mlflow.measures.records import normalise
from jrh_mlflow.reports.comparison import comparison_markdown, comparison_page, comparison_tables
from jrh_mlflow.reports.terminal import comparison_lines
from jrh_mlflow.results.comparison import compare_calls
from jrh_mlflow.scoring.ledger import Resampling
from jrh_mlflow.stats.paired import holm, mcnemar_midp
from tests.measures.comparing_tools import LABELS, oracle, point_calls
from tests.readings import asked

TESTS = ("typos", "markdown", "stochastic_stability")


def wrong(source, condition, replicate):
    return LABELS[(int(source[1:]) + 1) % 5]


def chance(share, seed):
    """Right with a chance, independent of everything else."""
    draws = random.Random(seed)

    def judge(source, condition, replicate):
        return oracle(source, condition, replicate) if draws.random() < share else wrong(source, condition, replicate)

    return judge


def compared(judges, **options):
    return compare_calls(judges, n_resamples=options.pop("n_resamples", 200), labels=LABELS, **options)


def test_two_identical_judges_share_every_letter_and_have_p_one():
    calls = point_calls(chance(0.7, 1), tests=TESTS)
    found = compared({"one": calls, "two": calls})
    assert set(found.letters) == {"baseline", *TESTS, OVERALL}
    assert all(row == {"one": "a", "two": "a"} for row in found.letters.values())
    assert {(one.value, one.p_cluster, one.p_holm, one.different) for one in found.differences} == {
        (0.0, 1.0, 1.0, False)
    }
    assert {one.p_mcnemar for one in found.differences if one.axis != OVERALL} == {1.0}


def test_a_judge_that_is_always_right_is_told_from_one_that_is_always_wrong():
    found = compared({"wrong": point_calls(wrong, tests=TESTS), "right": point_calls(oracle, tests=TESTS)})
    by_axis = {one.axis: one for one in found.differences}
    assert by_axis["typos"].value == -1.0
    assert by_axis["typos"].different
    assert found.letters["typos"] == {"right": "a", "wrong": "b"}
    assert found.letters["stochastic_stability"] == {"wrong": "a", "right": "a"}
    assert by_axis[OVERALL].value == pytest.approx(-2 / 3)
    assert by_axis[OVERALL].different
    # All resamples are the same, and yet the interval keeps a width.
    assert by_axis["typos"].low == -1.0
    assert -1 < by_axis["typos"].high < -0.5


def test_on_pairs_the_oracle_is_told_from_a_judge_that_takes_the_first():
    suite = jrh.datasheet_suite(n_tasks=10, depth=2)
    judges = {
        name: normalise(asked(judge, suite))
        for name, judge in {"first": jrh.scripted.AlwaysFirst(), "oracle": jrh.scripted.Oracle()}.items()
    }
    found = compare_calls(judges, n_resamples=200)
    assert found.letters["dark_current"] == {"oracle": "a", "first": "b"}, "low is good here"
    assert found.letters["target_sensitivity/delta_1"] == {"oracle": "a", "first": "b"}
    dark = next(one for one in found.differences if one.axis == "dark_current")
    assert (dark.a, dark.b, dark.value) == ("first", "oracle", 1.0)
    # A datasheet is a description, never one grade.
    assert OVERALL not in found.cells
    assert not found.summaries["by_judge"]


def test_mcnemar_is_the_one_of_the_discordant_units_and_does_not_decide():
    """One source with many units: as independent units they differ, as one cluster they cannot be told apart."""
    one = point_calls(oracle, tests=tuple(f"t{i}" for i in range(12)), n_sources=1)
    other = point_calls(wrong, tests=tuple(f"t{i}" for i in range(12)), n_sources=1)
    for frame in (one, other):
        frame.loc[frame["condition"] != "baseline", "condition"] = "typos"
    found = compared({"one": one, "other": other})
    typos = next(each for each in found.differences if each.axis == "typos")
    assert typos.p_mcnemar == pytest.approx(mcnemar_midp(12, 0))
    assert typos.p_mcnemar < 0.001
    assert typos.p_cluster == 1.0
    assert not typos.different
    assert (typos.low, typos.high) == (None, None)


def test_cells_are_the_numbers_of_the_own_reports_and_means_are_plain_means():
    calls = {name: point_calls(chance(share, 2), tests=TESTS) for name, share in {"a": 0.9, "b": 0.5}.items()}
    found = compared(calls)
    report = jrh.measure(calls["b"], labels=LABELS)
    values = [report.scores[test].value for test in TESTS]
    assert [found.cells[test]["b"].value for test in TESTS] == values
    assert found.cells["baseline"]["b"].value == report.estimates["baseline/accuracy"].value
    assert found.cells[OVERALL]["b"].value == pytest.approx(np.mean(values))
    spread = found.summaries["by_judge"]["b"]
    assert (spread["mean"], spread["sd"]) == (pytest.approx(np.mean(values)), pytest.approx(np.std(values, ddof=1)))
    assert (spread["min"], spread["max"], spread["n"]) == (min(values), max(values), 3)
    both = [found.cells["typos"][name].value for name in "ab"]
    assert found.summaries["by_test"]["typos"]["mean"] == pytest.approx(np.mean(both))
    assert found.ordinal["typos"]["b"]["mae"] == jrh.measure(calls["b"], labels=LABELS).estimates["typos/mae"]


def test_the_difference_of_means_is_the_mean_of_the_differences():
    calls = {name: point_calls(chance(share, 3), tests=TESTS, n_sources=20) for name, share in [("a", 0.9), ("b", 0.4)]}
    found = compared(calls)
    by_axis = {one.axis: one for one in found.differences}
    assert by_axis[OVERALL].value == pytest.approx(np.mean([by_axis[test].value for test in TESTS]))
    assert by_axis[OVERALL].low < by_axis[OVERALL].value < by_axis[OVERALL].high
    assert by_axis[OVERALL].p_mcnemar is None


def test_the_overall_family_is_adjusted_apart_from_the_grid():
    calls = {name: point_calls(chance(share, 4), tests=TESTS, n_sources=20) for name, share in [("a", 0.9), ("b", 0.6)]}
    found = compared(calls)
    overall = [one for one in found.differences if one.axis == OVERALL]
    grid = [one for one in found.differences if one.axis != OVERALL]
    assert [one.p_holm for one in overall] == [one.p_cluster for one in overall], "a family of one"
    smallest = min(grid, key=lambda one: one.p_cluster)
    assert smallest.p_holm == pytest.approx(min(1.0, 4 * smallest.p_cluster))


def null_world(seed: int) -> ScoreTable:
    """Three equal judges, three axes, 30 sources of three units each that move together."""
    rng = np.random.default_rng(seed)
    shape = (3, 30)
    scores = {name: np.repeat(rng.random(shape) < 0.6, 3, axis=1).astype(float).ravel() for name in "abc"}
    axis = np.repeat(np.array(["x", "y", "z"], dtype=object), 90)
    return ScoreTable(axis=axis, cluster=np.tile(np.repeat(np.arange(30), 3), 3), scores=scores)


def test_holm_keeps_the_chance_of_any_false_difference_under_the_level():
    """In 300 worlds of equal judges; the same worlds decided without clusters or without Holm break the level."""
    worlds, alpha = 300, 0.1
    told, unadjusted, unclustered = 0, 0, 0
    for seed in range(worlds):
        table = null_world(seed)
        family = [
            axis_difference(table, axis, a, b, Resampling(n_resamples=1))
            for axis in "xyz"
            for a, b in combinations("abc", 2)
        ]
        assert len(family) == 9
        told += any(one.different for one in decided(family, alpha=alpha))
        unadjusted += min(one.p_cluster for one in family) <= alpha
        unclustered += min(holm([one.p_mcnemar for one in family])) <= alpha
    noise = 2 * np.sqrt(alpha * (1 - alpha) / worlds)
    assert told / worlds <= alpha + noise
    assert unadjusted / worlds > 3 * alpha
    assert unclustered / worlds > 3 * alpha


def test_a_truncated_run_shortens_the_others_and_the_note_says_so():
    whole = point_calls(chance(0.7, 5), tests=TESTS, n_sources=12)
    cut = point_calls(chance(0.6, 6), tests=TESTS, n_sources=8)
    found = compared({"whole": whole, "cut": cut})
    assert found.n_calls == len(cut)
    assert found.cells["typos"]["whole"].n == 8
    assert any(f"Compared on the {len(cut)} calls that every run has" in note for note in found.notes)
    assert f"whole {len(whole)}" in found.notes[0]


def test_replicates_of_one_run_only_do_not_count_in_unanimity():
    once = point_calls(oracle, tests=("typos",))
    thrice = point_calls(lambda s, c, r: LABELS[r], tests=("typos",), replicates=3)
    found = compared({"once": once, "thrice": thrice})
    assert found.cells["typos"]["thrice"].n == 12


def test_an_axis_withheld_for_a_judge_is_not_compared_and_not_in_the_mean():
    def deaf(source, condition, replicate):
        return None if condition == "typos" else oracle(source, condition, replicate)

    found = compared({"deaf": point_calls(deaf, tests=TESTS), "wrong": point_calls(wrong, tests=TESTS)})
    assert isinstance(found.cells["typos"]["deaf"], jrh.NotEstimable)
    assert not [one for one in found.differences if one.axis == "typos"]
    assert found.letters["typos"] == {"wrong": "a"}
    assert any("typos has no number for deaf" in note for note in found.notes)
    assert any("leaves out typos" in note for note in found.notes)
    assert found.cells[OVERALL]["wrong"].value == pytest.approx(0.5), "markdown 0 and stability 1"
    assert "n/a" in comparison_markdown(found)


def test_too_few_sources_for_any_decision_are_said():
    judges = {"a": point_calls(oracle, n_sources=4), "b": point_calls(wrong, n_sources=4)}
    found = compared(judges)
    assert not found.different
    assert any("4 independent sources are too few for 2 comparisons" in note for note in found.notes)


def test_the_means_over_tests_are_counted_apart_wherever_differences_are_counted():
    judges = {
        name: point_calls(judge, tests=TESTS, n_sources=6)
        for name, judge in {"a": oracle, "b": wrong, "c": oracle}.items()
    }
    found = compared(judges)
    grid = [one for one in found.differences if one.axis != OVERALL]
    assert len(found.differences) == len(grid) + 3
    told, means = sum(one.different for one in grid), sum(one.axis == OVERALL for one in found.different)
    text = f"{told} of {len(grid)} differences are told apart, and {means} of 3 of the mean over tests"
    page = comparison_page(found, title="t", suite={}, judges=[])
    for shown in (comparison_markdown(found), page, "\n".join(comparison_lines(found)), repr(found)):
        assert text in shown
    assert any(f"too few for {len(grid)} comparisons, those of the mean over tests apart" in one for one in found.notes)


def test_costs_are_those_of_the_calls_compared_and_unknown_is_not_zero():
    judges = {
        "paid": point_calls(oracle, cost_usd=0.5),
        "unknown": point_calls(wrong),
    }
    found = compared(judges)
    assert found.costs["paid"] == {"usd": 12.0, "usd_per_accuracy_point": pytest.approx(0.12)}
    assert found.costs["unknown"] == {"usd": None, "usd_per_accuracy_point": None}
    assert "| unknown | unknown | unknown |" in comparison_markdown(found)


def test_records_that_mean_different_things_are_refused():
    one, other = point_calls(oracle), point_calls(oracle)
    other["expected"] = "1"
    with pytest.raises(CallsError, match="disagree on the task, condition or expected answer"):
        compared({"one": one, "other": other})
    elsewhere = point_calls(oracle)
    elsewhere["suite_item"] = "x" + elsewhere["suite_item"]
    with pytest.raises(CallsError, match="no call in common"):
        compared({"one": one, "elsewhere": elsewhere})
    with pytest.raises(ValueError, match="Two or more judges"):
        compared({"one": one})


def test_the_order_of_judges_changes_signs_and_nothing_else():
    calls = {name: point_calls(chance(share, 7), tests=TESTS) for name, share in [("a", 0.9), ("b", 0.5)]}
    there = compared(calls)
    back = compared(dict(reversed(calls.items())))
    for one, other in zip(there.differences, back.differences, strict=True):
        assert (one.axis, one.value, one.p_cluster) == (other.axis, -other.value, pytest.approx(other.p_cluster))
    assert there.letters == back.letters


def test_tables_json_and_markdown_hold_every_number_with_its_interval():
    calls = {name: point_calls(chance(share, 8), tests=TESTS) for name, share in [("a|b", 0.9), ("c", 0.5)]}
    found = compared(calls)
    tables = comparison_tables(found)
    assert set(tables) == {"scores", "differences", "by_judge", "by_test", "ordinal", "costs"}
    assert len(tables["scores"]) == 10
    assert tables["scores"][["low", "high", "n"]].notna().all().all()
    assert json.loads(json.dumps(found.to_dict(), allow_nan=False))["judges"] == ["a|b", "c"]
    text = comparison_markdown(found, note="Simulated.")
    assert "> Simulated." in text
    assert "a\\|b" in text
    value = found.cells["typos"]["c"]
    assert f"{value.value:.3f} [{value.cluster_low:.2f}, {value.cluster_high:.2f}]" in text


def test_a_grid_too_long_for_a_page_lists_what_was_told_apart():
    judges = {f"j{i}": point_calls(chance(0.5, i), tests=TESTS, n_sources=6) for i in range(4)}
    judges["right"] = point_calls(oracle, tests=TESTS, n_sources=6)
    found = compared(judges)
    assert len(found.differences) == 50
    assert "Only those are listed" in comparison_markdown(found)
    assert len(comparison_tables(found)["differences"]) == 50
