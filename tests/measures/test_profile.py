"""The profile: each word at the end of its interval, what is cannot be told, and the sketches of the paper's judges."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

import jrh_mlflow as jrh
from jrh_mlflow.measures import datasheet
from jrh_mlflow.measures.datasheet import Share, profile_line
from jrh_mlflow.schema.estimates import Estimate, NotEstimable, Reading
from jrh_mlflow.schema.items import LADDER, VACUUM
from tests.readings import asked, pairs

NOTHING = "not enough measured for a profile"
STEPS = (1.0, 2.0, 3.0, 4.0, 5.0)


def reading(value: float, low: float | None, high: float | None, **given: object) -> Estimate:
    facts = {"n": 100, "excluded": 0, "ci_low": value, "ci_high": value, "n_clusters": 10, "method": "by hand"}
    return Estimate(**{"value": value, "cluster_low": low, "cluster_high": high, **facts, **given})  # type: ignore[arg-type]


def only(name: str, conditions: Sequence[str]) -> jrh.Suite:
    """Return the items of a built-in suite that are of these conditions."""
    return jrh.Suite(name=name, items=[one for one in jrh.load_suite(name).items if one.condition in conditions])


@pytest.mark.parametrize(
    ("dark_current", "words"),
    [
        ((0.0, 0.0, 0.099), "vacuum-clean"),
        ((0.0, 0.0, 0.1), "dark current cannot be told: 0.00 [0.00, 0.10], limit 0.10"),
        ((0.04, 0.0, 0.17), "dark current cannot be told: 0.04 [0.00, 0.17], limit 0.10"),
        ((0.3, 0.099, 0.6), "dark current cannot be told: 0.30 [0.10, 0.60], limit 0.10"),
        ((0.3, 0.1, 0.6), "vacuum-leaky"),
        ((0.9, 0.499, 1.0), "vacuum-leaky"),
        ((0.9, 0.5, 1.0), "vacuum-active"),
        ((0.0, None, None), "dark current cannot be told: 0.00 without an interval, limit 0.10"),
    ],
)
def test_the_vacuum_word_follows_the_interval_of_dark_current_and_not_its_value(dark_current, words):
    assert profile_line({"dark_current": reading(*dark_current)}, {}) == words


def equal_pairs(raw: tuple[float, float, float]) -> dict[str, Reading]:
    return {"raw_false_preference": reading(*raw)}


def kinds(positional: tuple[float, ...], stable: tuple[float, ...], one_sided: tuple[float, ...]) -> dict[str, Share]:
    found = {"positional": positional, "stable": stable, "one-sided": one_sided}
    return {name: Share(*ends) for name, ends in found.items()}


NONE, SOME, HALF, MOST = (0.0, 0.0, 0.1), (0.4, 0.25, 0.6), (0.6, 0.5, 0.8), (0.9, 0.67, 1.0)


@pytest.mark.parametrize(
    ("parts", "word"),
    [
        (kinds(MOST, NONE, NONE), "presentation-conflicted"),
        (kinds(NONE, MOST, NONE), "stable-preferring"),
        (kinds(NONE, NONE, HALF), "one-sided"),
        (kinds(SOME, SOME, NONE), "mixed stable-positional"),
        (
            kinds((0.9, 0.6, 1.0), NONE, NONE),
            "kind of false preference cannot be told: "
            "positional 0.90 [0.60, 1.00], stable 0.00 [0.00, 0.10], one-sided 0.00 [0.00, 0.10] of it",
        ),
    ],
)
def test_the_kind_of_false_preference_is_told_where_its_part_is_decided(parts, word):
    assert profile_line(equal_pairs((0.5, 0.3, 0.7)), parts) == word


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        ((0.0, 0.0, 0.09), "equivalence-respecting"),
        ((0.0, 0.0, 0.11), "false preference cannot be told: 0.00 [0.00, 0.11], limit 0.10"),
        ((0.5, 0.09, 0.9), "false preference cannot be told: 0.50 [0.09, 0.90], limit 0.10"),
    ],
)
def test_without_a_decided_false_preference_its_kind_is_not_told(raw, words):
    assert profile_line(equal_pairs(raw), kinds(MOST, NONE, NONE)) == words


@pytest.mark.parametrize("kind", ["positional", "stable"])
def test_the_parts_of_false_preference_are_shares_of_it_by_task(kind):
    # Half of the pairs are a preference, all of one kind: its part is 1 and not 1/2.
    answers = {"positional": ("1", "1"), "stable": ("1", "2")}
    rows = pairs([answers[kind], ("tie", "tie")] * 28, n_tasks=28, delta=0)
    line = jrh.measure(rows).profile
    assert line == {"positional": "presentation-conflicted", "stable": "stable-preferring"}[kind]


@pytest.mark.parametrize(
    ("threshold", "words"),
    [
        ({"value": 1.0, "censored": "left", "reached_by": 1.0}, "resolves one step"),
        ({"value": 0.5, "censored": "left", "reached_by": 0.5}, "resolves a step of 0.5"),
        ({"value": 1.0, "censored": "left", "reached_by": 3.0}, "reaches 75 % by delta 3"),
        ({"value": 2.5, "reached_by": 4.0}, "reaches 75 % by delta 4"),
        ({"value": 2.5, "reached_by": 4.0, "not_reached_at": 1.0}, "reaches 75 % between delta 1 and 4"),
        ({"value": 5.0, "censored": "right", "not_reached_at": 5.0}, "never reaches 75 %"),
        (
            {"value": 5.0, "censored": "right", "not_reached_at": 3.0},
            "75 % cannot be told: delta 5 reads 0.70 [0.60, 0.80]",
        ),
        ({"value": 1.0, "censored": "left"}, "75 % cannot be told: delta 5 reads 0.70 [0.60, 0.80]"),
    ],
)
@pytest.mark.parametrize(
    ("axis", "family", "where"),
    [
        ("threshold_75", "target_sensitivity", ""),
        ("matched_threshold_75", "matched_sensitivity", " on the matched ladder"),
    ],
)
def test_the_threshold_words_follow_the_intervals_of_the_curve_on_both_ladders(threshold, words, axis, family, where):
    estimates: dict[str, Reading] = {
        axis: reading(low=None, high=None, **threshold),
        f"{family}/delta_5": reading(0.7, 0.6, 0.8),
    }
    told = words.replace("75 % cannot", f"75 %{where} cannot") if "cannot be told" in words else words + where
    assert profile_line(estimates, {}) == told


@pytest.mark.parametrize(
    ("ties", "words"),
    [
        ((0.5, 0.25, 0.7), "misses by tie"),
        ((0.5, 0.24, 0.7), "misses by tie cannot be told: 0.50 [0.24, 0.70], limit 0.25"),
        ((0.1, 0.0, 0.24), NOTHING),
    ],
)
def test_misses_are_looked_for_at_the_smallest_step(ties, words):
    estimates: dict[str, Reading] = {"miss_by_tie/delta_1": reading(*ties), "miss_by_tie/delta_2": reading(1, 0.9, 1)}
    assert profile_line(estimates, {}) == words


def test_natural_pairs_are_told_in_numbers_with_their_intervals():
    estimates: dict[str, Reading] = {
        "natural/accuracy": reading(0.9, 0.8, 0.95),
        "natural/stable_correct": reading(0.85, 0.7, 0.9),
    }
    assert profile_line(estimates, {}) == ("natural pairs 0.90 [0.80, 0.95] right, 0.85 [0.70, 0.90] in both orders")


def test_what_was_not_measured_leaves_no_word():
    withheld = NotEstimable(reason="3 of 40", withheld=True)
    axes = ("dark_current", "threshold_75", "raw_false_preference", "miss_by_tie/delta_1")
    assert profile_line(dict.fromkeys(axes, withheld), {}) == NOTHING


def test_decided_words_come_first_and_what_is_not_decided_after_them():
    estimates = {"dark_current": reading(0.0, 0.0, 0.2), **equal_pairs((0.0, 0.0, 0.05))}
    assert profile_line(estimates, {}) == (
        "equivalence-respecting; dark current cannot be told: 0.00 [0.00, 0.20], limit 0.10"
    )


@pytest.mark.parametrize("icc", [0.0, 0.3])
def test_a_judge_that_leaks_in_8_of_100_calls_is_hardly_ever_called_clean(icc):
    """By its value alone it was in 36 % of runs. The full form is `python -m tests.benchmarks.words`."""
    vacuum = only("datasheet", VACUUM)
    noisy = (jrh.scripted.Noisy(dark_current=0.08, icc=icc, seed=seed) for seed in range(8))
    lines = [jrh.measure(asked(judge, vacuum)).profile for judge in noisy]
    assert sum("vacuum-clean" in line for line in lines) <= 1
    assert all(line.startswith(("vacuum-", "dark current cannot be told: 0.")) for line in lines)


def test_a_judge_flat_at_70_percent_hardly_ever_reaches_75():
    """By the isotonic curve alone it did in half of the runs."""
    ladder = only("datasheet", [LADDER])
    flat = (jrh.scripted.Noisy(sensitivity=dict.fromkeys(STEPS, 0.7), icc=0.1, tie=0, seed=seed) for seed in range(6))
    lines = [jrh.measure(asked(judge, ladder), n_resamples=20).profile for judge in flat]
    assert not [line for line in lines if "reaches" in line or "resolves" in line]
    assert all("75 % cannot be told: delta 5 reads 0." in line for line in lines)


@pytest.mark.parametrize(
    ("judge", "line"),
    [
        (
            jrh.scripted.Oracle(),
            "vacuum-clean, equivalence-respecting, resolves one step, resolves one step on the matched ladder",
        ),
        (
            jrh.scripted.AlwaysFirst(),
            "vacuum-active, presentation-conflicted, never reaches 75 %, never reaches 75 % on the matched ladder",
        ),
        (
            jrh.scripted.AlwaysTie(),
            "vacuum-clean, equivalence-respecting, never reaches 75 %, never reaches 75 % on the matched ladder, "
            "misses by tie",
        ),
    ],
)
def test_on_the_default_suite_a_judge_without_a_mistake_is_decided_on_every_word(judge, line):
    assert jrh.measure(asked(judge, jrh.load_suite("datasheet")), n_resamples=20).profile == line


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("Llama8B", {"vacuum-leaky", "presentation-conflicted", "reaches 75 % between delta 1 and 5"}),
        ("Qwen14B", {"mixed stable-positional", "resolves one step"}),
        ("Qwen32B", {"resolves one step"}),
        ("Qwen32B_strict", {"misses by tie"}),
    ],
)
def test_the_judges_of_the_paper_have_the_words_that_ten_tasks_support(name, words):
    """The published sketches are from the values: `vacuum-clean` is 0 of 120 calls there, `vacuum-active` 80 of 120."""
    sheet = jrh.measure(asked(jrh.scripted.profile(name), jrh.load_suite("datasheet-paper")))
    told = set(sheet.profile.partition(";")[0].split(", "))
    for axis, word in (("dark_current", "vacuum-clean"), ("raw_false_preference", "equivalence-respecting")):
        one = sheet.estimates[axis]
        is_below = isinstance(one, Estimate) and one.cluster_high is not None and one.cluster_high < 0.10
        assert (word in told) == is_below
    assert told - {"vacuum-clean", "equivalence-respecting"} == words


def test_the_rules_are_stated_where_the_profile_is_made():
    assert datasheet.__doc__ is not None
    words = ("vacuum-clean", "equivalence-respecting", "presentation-conflicted", "stable-preferring", "one-sided")
    words += ("resolves one step", "reaches 75 % by", "never reaches 75 %", "misses by tie", "cannot be told")
    assert all(word in datasheet.__doc__ for word in words)


def test_replicates_do_not_decide_the_kind_of_false_preference():
    """Asked five times, a judge without noise says nothing new about the next task."""
    answers = [("1", "1")] * 6 + [("1", "2")] * 2
    once = pairs(answers, n_tasks=8, delta=0)
    again = [{**row, "replicate": replicate} for row in once for replicate in range(5)]
    line = jrh.measure(once).profile
    assert line.startswith("kind of false preference cannot be told: positional 0.75 [")
    assert jrh.measure(again).profile == line
