"""Comparing judges: known answers, decisions that hold their level, and what is said when numbers are missing."""

from __future__ import annotations

import json
import random
import re
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

import jrh_mlflow as jrh
from jrh_mlflow.comparing import comparison_view
from jrh_mlflow.comparing.comparison import Difference, Paired, compare_calls, decided
from jrh_mlflow.comparing.comparison_view import comparison_page, comparison_tables
from jrh_mlflow.errors import CallsError, RecipeError
from jrh_mlflow.measures.records import normalise
from jrh_mlflow.measures.reliability import OVERALL
from jrh_mlflow.show.numbers import p_text
from jrh_mlflow.show.tables import Column, Table
from jrh_mlflow.stats.max_t import max_t
from jrh_mlflow.stats.paired import mcnemar_midp
from tests.comparing.comparing_tools import LABELS, oracle, point_calls
from tests.readings import asked

pytestmark = pytest.mark.quick

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


@cache
def right_and_wrong():
    """A judge that is always wrong beside one that is always right; nobody changes what is returned."""
    return compared({"wrong": point_calls(wrong, tests=TESTS), "right": point_calls(oracle, tests=TESTS)})


def test_two_identical_judges_have_p_one_and_no_letters():
    calls = point_calls(chance(0.7, 1), tests=TESTS)
    found = compared({"one": calls, "two": calls})
    assert {one.axis for one in found.differences} == {"baseline", *TESTS, OVERALL}
    assert found.letters == {}
    assert "No letters: no two judges differ" in comparison_page(found).to_markdown()
    assert {(one.value, one.p, one.p_adjusted, one.told_apart) for one in found.differences} == {(0.0, 1.0, 1.0, False)}
    assert {one.p_mcnemar for one in found.differences if one.axis != OVERALL} == {1.0}


def test_a_judge_that_is_always_right_is_told_from_one_that_is_always_wrong():
    found = right_and_wrong()
    by_axis = {one.axis: one for one in found.differences}
    assert by_axis["typos"].value == -1.0
    assert by_axis["typos"].told_apart
    assert found.letters["typos"] == {"right": "a", "wrong": "b"}
    assert "stochastic_stability" not in found.letters, "equal there: no letters"
    assert by_axis[OVERALL].value == pytest.approx(-2 / 3)
    assert by_axis[OVERALL].told_apart
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
    assert found.letters["ability/delta_1"] == {"oracle": "a", "first": "b"}
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
    assert typos.p == 1.0
    assert not typos.told_apart
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


def test_a_judge_with_a_withheld_test_has_no_mean_over_tests():
    calls = {name: point_calls(chance(0.9, 2), tests=TESTS) for name in "ab"}
    lost = calls["b"].index[calls["b"]["condition"] == "typos"]
    calls["b"].loc[lost, ["outcome", "answer"]] = ["error", ""]
    spread = compared(calls).summaries["by_judge"]
    assert spread["a"]["mean"] is not None
    assert spread["b"] == {"n": 2, "mean": None, "sd": None, "min": None, "max": None}


def test_the_difference_of_means_is_the_mean_of_the_differences():
    calls = {name: point_calls(chance(share, 3), tests=TESTS, n_sources=20) for name, share in [("a", 0.9), ("b", 0.4)]}
    found = compared(calls)
    by_axis = {one.axis: one for one in found.differences}
    assert by_axis[OVERALL].value == pytest.approx(np.mean([by_axis[test].value for test in TESTS]))
    assert by_axis[OVERALL].low < by_axis[OVERALL].value < by_axis[OVERALL].high
    assert by_axis[OVERALL].p_mcnemar is None


def test_baseline_tests_and_their_mean_are_one_deciding_family():
    calls = {name: point_calls(chance(share, 4), tests=TESTS, n_sources=20) for name, share in [("a", 0.9), ("b", 0.6)]}
    found = compared(calls)
    assert found.primary == ("baseline", "markdown", "stochastic_stability", "typos", OVERALL)
    assert {one.family for one in found.differences} == {"primary"}
    assert all(one.p <= one.p_adjusted for one in found.differences)
    alone = compared(calls, primary=[OVERALL])
    mean = next(one for one in alone.differences if one.axis == OVERALL)
    assert mean.p_adjusted == mean.p, "a family of one"
    assert next(one for one in found.differences if one.axis == OVERALL).p_adjusted > mean.p


def world(n_clusters: int, n_axes: int, seed: int) -> list[Paired]:
    """Differences of two judges on some axes, as sums over clusters; on the first axis they truly differ."""
    rng = np.random.default_rng(seed)
    sums = rng.integers(-4, 5, size=(n_clusters, n_axes)).astype(float)
    sums[:, 0] += 5
    return [
        Paired(
            difference=Difference(
                axis=f"x{at}", a="a", b="b", value=1.0, low=0, high=1, n=9, n_clusters=n_clusters, method=""
            ),
            standard_error=0.1,
            n_units=9 * n_clusters,
            sums=column,
            flipped=lambda signs, column=column: signs @ column,
        )
        for at, column in enumerate(sums.T)
    ]


@pytest.mark.parametrize("is_sum", [True, False])
def test_the_deciding_axes_are_adjusted_among_themselves_and_the_others_over_everything(is_sum):
    found = world(10, 12, seed=1)
    sums = np.column_stack([one.sums for one in found])
    if not is_sum:
        found = [replace(one, sums=None) for one in found]
    both = decided(found, n_clusters=10, primary={"x0", "x1", "x2"}, alpha=0.05, margin=0.1, seed=0)
    family, grid = max_t(sums[:, :3]), max_t(sums)
    assert [one.p_adjusted for one in both[:3]] == pytest.approx(list(family.p_adjusted))
    assert [one.p_adjusted for one in both[3:]] == pytest.approx(list(grid.p_adjusted[3:]))
    assert [one.p for one in both] == pytest.approx(list(grid.p))
    assert [one.family for one in both] == ["primary"] * 3 + ["exploratory"] * 9
    assert [one.told_apart for one in both] == [True] + [False] * 11


def test_an_exploratory_axis_is_never_told_apart_whatever_its_p():
    judges = {"wrong": point_calls(wrong, tests=TESTS), "right": point_calls(oracle, tests=TESTS)}
    found = compared(judges, primary=["stochastic_stability"])
    by_axis = {one.axis: one for one in found.differences}
    assert by_axis["typos"].p_adjusted < 0.01
    assert (by_axis["typos"].family, by_axis["typos"].told_apart) == ("exploratory", False)
    assert found.letters == {}
    assert found.told == "0 of 1 differences are significant at 0.05; 4 more are exploratory"
    assert "| exploratory |" in comparison_page(found).to_markdown()


@pytest.mark.parametrize(("axis", "close"), [("typo", "typos"), ("overal", "overall"), ("threshold_75", None)])
def test_a_deciding_axis_that_is_not_compared_is_refused_with_the_nearest(axis, close):
    judges = {"one": point_calls(oracle, tests=TESTS), "two": point_calls(wrong, tests=TESTS)}
    with pytest.raises(RecipeError, match=f"not compared on '{axis}'") as refused:
        compared(judges, primary=["markdown", axis])
    assert ("Did you mean" in str(refused.value)) == (close is not None)
    assert close is None or f"Did you mean {close!r}?" in str(refused.value)
    assert "Axes of this suite: baseline, markdown, stochastic_stability, typos, overall." in str(refused.value)


@pytest.mark.parametrize("none", [[], ()])
def test_a_deciding_family_without_an_axis_is_refused_and_is_not_the_usual_one(none):
    judges = {"one": point_calls(oracle, tests=TESTS), "two": point_calls(wrong, tests=TESTS)}
    with pytest.raises(RecipeError, match="`primary` names no axis: name one, or leave it out"):
        compared(judges, primary=none)


def test_with_a_baseline_every_other_judge_is_compared_with_it_and_nothing_has_letters():
    shares = {"old": 0.5, "new": 0.95, "other": 0.5}
    judges = {name: point_calls(chance(share, at), tests=TESTS) for at, (name, share) in enumerate(shares.items())}
    against, each = compared(judges, baseline="old"), compared(judges)
    assert {(one.a, one.b) for one in against.differences} == {("new", "old"), ("other", "old")}
    assert against.letters == {}
    by_axis = {(one.axis, one.a): one for one in against.differences}
    assert by_axis[(OVERALL, "new")].value > 0, "the judge less the baseline"
    among = {(one.axis, one.b): one for one in each.differences if one.a == "old"}
    for axis, name in by_axis:
        assert by_axis[(axis, name)].value == pytest.approx(-among[(axis, name)].value)
        assert by_axis[(axis, name)].p_adjusted <= among[(axis, name)].p_adjusted, "fewer comparisons to adjust for"
    for text in (comparison_page(against).to_markdown(), lines_of(against), page_of(against)):
        assert "old (baseline)" in text
        assert "no letters" in re.sub("<[^>]+>", "", text)


def page_of(found) -> str:
    return comparison_page(found, title="t").to_html()


def lines_of(found) -> str:
    return "\n".join(comparison_page(found).to_text())


def agreeing(n_sources: int, **options):
    """Two judges that give the same answers."""
    calls = point_calls(chance(0.7, 3), n_sources=n_sources)
    options["n_resamples"] = 20
    return {one.axis: one for one in compared({"one": calls, "two": calls}, **options).differences}


def test_judges_that_answer_alike_are_equivalent_only_where_there_are_enough_sources():
    few, many = agreeing(10), agreeing(60)
    assert not few["typos"].equivalent
    assert many["typos"].equivalent
    assert many["typos"].equivalence[0] == -many["typos"].equivalence[1] > -0.1
    assert not agreeing(60, margin=0.01)["typos"].equivalent
    assert not agreeing(1)["typos"].equivalent
    assert agreeing(1)["typos"].equivalence is None


def test_what_is_detectable_shrinks_with_the_sources_and_is_none_where_nothing_could_be_found():
    judges = {"a": 0.8, "b": 0.6}
    found = {}
    for n in (5, 10, 40):
        calls = {name: point_calls(chance(share, n), tests=TESTS, n_sources=n) for name, share in judges.items()}
        found[n] = {one.axis: one.detectable for one in compared(calls, n_resamples=20).differences}
    assert set(found[5].values()) == {None}, "five sources give no p under 1/16"
    assert 0 < found[40]["typos"] < found[10]["typos"] < 1
    assert found[40][OVERALL] < found[40]["typos"], "several tests tell more than one"


def test_p_adjusted_p_detectable_and_equivalence_stand_side_by_side_wherever_differences_are_shown():
    judges = {
        name: point_calls(chance(share, 2), tests=TESTS, n_sources=40) for name, share in [("a", 0.9), ("b", 0.5)]
    }
    judges["c"] = judges["a"]
    found = compared(judges)
    assert found.different
    text, page, lines = comparison_page(found).to_markdown(), page_of(found), lines_of(found)
    for shown in (text, page, lines):
        assert "p adjusted" in shown
        assert "detectable" in shown
        assert "equivalent" in shown
        assert "chance of 80 %" in shown
    told = found.different[0]
    assert f"| {p_text(told.p)} | {p_text(told.p_adjusted)} | yes |" in text
    cells = f"<td>{p_text(told.p)}</td><td>{p_text(told.p_adjusted)}</td><td>yes</td>"
    assert cells in re.sub(' data-head="[^"]*"', "", page)
    frame = comparison_tables(found)["differences"]
    assert list(frame.columns[:9]) == ["axis", "a", "b", "difference", "low", "high", "p", "p_adjusted", "told_apart"]
    assert {"n", "n_clusters", "family", "p_mcnemar", "detectable", "equivalent"} <= set(frame.columns)
    assert list(frame["p_adjusted"]) == [one.p_adjusted for one in found.differences]


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
    assert "typos" not in found.letters
    assert any("typos has no number for deaf" in note for note in found.notes)
    assert any("leaves out typos" in note for note in found.notes)
    assert found.cells[OVERALL]["wrong"].value == pytest.approx(0.5), "markdown 0 and stability 1"
    assert "n/a" in comparison_page(found).to_markdown()


def test_too_few_sources_for_any_decision_are_said():
    judges = {"a": point_calls(oracle, n_sources=4), "b": point_calls(wrong, n_sources=4)}
    found = compared(judges)
    assert not found.different
    assert any("4 independent sources are too few for 2 comparisons" in note for note in found.notes)
    assert "| none |" in comparison_page(found).to_markdown()


def test_how_many_are_told_apart_is_said_the_same_wherever_it_is_said():
    judges = {
        name: point_calls(judge, tests=TESTS, n_sources=8)
        for name, judge in {"a": oracle, "b": wrong, "c": oracle}.items()
    }
    found = compared(judges)
    assert 0 < len(found.different) < len(found.differences)
    text = f"{len(found.different)} of {len(found.differences)} differences are significant"
    for shown in (comparison_page(found).to_markdown(), page_of(found), lines_of(found), repr(found)):
        assert text in re.sub("<[^>]+>", "", shown)


def test_costs_are_those_of_the_calls_compared_and_unknown_is_not_zero():
    judges = {
        "paid": point_calls(oracle, cost_usd=0.5),
        "unknown": point_calls(wrong),
    }
    found = compared(judges)
    assert found.costs["paid"] == {"usd": 12.0, "usd_per_accuracy_point": pytest.approx(0.12)}
    assert found.costs["unknown"] == {"usd": None, "usd_per_accuracy_point": None}
    assert "| unknown | unknown | unknown |" in comparison_page(found).to_markdown()


def test_records_that_mean_different_things_are_refused():
    one, other = point_calls(oracle), point_calls(oracle)
    other["expected"] = "1"
    with pytest.raises(CallsError, match="disagree on the task, condition or expected answer"):
        compared({"one": one, "other": other})
    elsewhere = point_calls(oracle)
    elsewhere["suite_item"] = "x" + elsewhere["suite_item"]
    with pytest.raises(CallsError, match="no call in common"):
        compared({"one": one, "elsewhere": elsewhere})


def test_the_order_of_judges_changes_signs_and_nothing_else():
    calls = {name: point_calls(chance(share, 7), tests=TESTS) for name, share in [("a", 0.9), ("b", 0.5)]}
    there = compared(calls)
    back = compared(dict(reversed(calls.items())))
    for one, other in zip(there.differences, back.differences, strict=True):
        assert (one.axis, one.value, one.p) == (other.axis, -other.value, pytest.approx(other.p))
    assert there.letters == back.letters


def test_tables_json_and_markdown_hold_every_number_with_its_interval():
    calls = {name: point_calls(chance(share, 8), tests=TESTS) for name, share in [("a|b", 0.9), ("c", 0.5)]}
    found = compared(calls)
    tables = comparison_tables(found)
    assert set(tables) == {"scores", "differences", "by_judge", "by_test", "ordinal", "costs"}
    assert len(tables["scores"]) == 10
    assert tables["scores"][["low", "high", "n"]].notna().all().all()
    assert json.loads(json.dumps(found.to_dict(), allow_nan=False))["judges"] == ["a|b", "c"]
    text = comparison_page(found, notes=["Simulated."]).to_markdown()
    assert "> Simulated." in text
    assert "a\\|b" in text
    value = found.cells["typos"]["c"]
    assert f"{value.value:.2f} [{value.cluster_low:.2f}, {value.cluster_high:.2f}]" in text


def test_a_grid_too_long_for_a_page_lists_what_was_told_apart():
    judges = {f"j{i}": point_calls(chance(0.5, i), tests=TESTS, n_sources=6) for i in range(4)}
    judges["right"] = point_calls(oracle, tests=TESTS, n_sources=6)
    found = compared(judges)
    assert len(found.differences) == 50
    assert "The significant ones; the table" in comparison_page(found).to_markdown()
    assert len(comparison_tables(found)["differences"]) == 50


def test_notes_name_axes_for_people_and_judges_as_they_are_called():
    def deaf(source, condition, replicate):
        return None if condition == "label_flip" else oracle(source, condition, replicate)

    tests = ("label_flip", "typos")
    found = compared({"dark_current": point_calls(deaf, tests=tests), "wrong": point_calls(wrong, tests=tests)})
    (note,) = [note for note in found.notes if "has no number" in note]
    assert note.startswith("label flip has no number for dark_current: 12 of 12 label flip calls")


def test_a_column_that_is_added_to_the_differences_is_in_every_medium(monkeypatch):
    found = right_and_wrong()
    added = Column(
        "in a hurry", lambda row: f"hurry {row.difference.n}", value=lambda row: row.difference.n, brief=True
    )
    monkeypatch.setattr(comparison_view, "DIFFERENCES", Table.of(*comparison_view.DIFFERENCES.columns, added))
    page, told = comparison_view.comparison_page(found), found.different[0]
    card = "".join(table.to_card() for table in comparison_view.comparison_card(found))
    for medium in (page.to_html(), page.to_markdown(), "\n".join(page.to_text()), card):
        assert "in a hurry" in medium
        assert f"hurry {told.n}" in medium
    assert list(comparison_tables(found)["differences"]["in a hurry"]) == [one.n for one in found.differences]


def test_a_head_of_the_differences_is_the_same_in_every_medium():
    found = right_and_wrong()
    page = comparison_page(found)
    heads = [column.head for column in comparison_view.DIFFERENCES.columns if column.brief]
    shown = [re.sub("<[^>]+>", " ", page.to_html()), page.to_markdown(), "\n".join(page.to_text())]
    assert len(heads) >= 6
    assert all(head in text for head in heads for text in shown)


def test_without_exploratory_differences_the_deciding_ones_are_the_same():
    judges = {f"j{seed}": point_calls(chance(0.5 + seed / 8, seed), tests=TESTS) for seed in range(3)}
    whole, short = (compared(judges, primary=["typos"], exploratory=asked) for asked in (True, False))
    assert short.differences == whole.deciding
    assert (short.cells, short.letters) == (whole.cells, whole.letters)
