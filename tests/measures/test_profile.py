"""The profile: each word at its edge, and the sketches of the paper's judges."""

from __future__ import annotations

import pytest

import jrh_mlflow as jrh
from jrh_mlflow.measures.datasheet import RULES, profile_line
from jrh_mlflow.schema.estimates import Estimate, NotEstimable, Reading
from tests.readings import asked


def reading(value: float, censored: str | None = None) -> Estimate:
    return Estimate(
        value=value,
        n=100,
        excluded=0,
        ci_low=0.0,
        ci_high=1.0,
        cluster_low=0.0,
        cluster_high=1.0,
        n_clusters=10,
        method="by hand",
        censored=censored,  # type: ignore[arg-type]
    )


def equal_pairs(raw: float, stable: float, positional: float, one_sided: float) -> dict[str, Reading]:
    return {
        "raw_false_preference": reading(raw),
        "stable_cross_sensitivity": reading(stable),
        "positional_false_preference": reading(positional),
        "one_sided_commit": reading(one_sided),
    }


@pytest.mark.parametrize(
    ("dark_current", "word"),
    [
        (0.0, "vacuum-clean"),
        (0.05, "vacuum-clean"),
        (0.051, "vacuum-leaky"),
        (0.499, "vacuum-leaky"),
        (0.5, "vacuum-active"),
        (1.0, "vacuum-active"),
    ],
)
def test_the_vacuum_word_follows_dark_current(dark_current, word):
    assert profile_line({"dark_current": reading(dark_current)}) == word


@pytest.mark.parametrize(
    ("parts", "word"),
    [
        ((0.10, 0.0, 0.10, 0.0), "equivalence-respecting"),
        ((0.9, 0.3, 0.6, 0.0), "presentation-conflicted"),
        ((0.9, 0.6, 0.3, 0.0), "stable-preferring"),
        ((0.4, 0.1, 0.1, 0.4), "one-sided"),
        ((0.9, 0.45, 0.45, 0.0), "mixed stable-positional"),
    ],
)
def test_the_equal_quality_word_follows_the_largest_part(parts, word):
    assert profile_line(equal_pairs(*parts)) == word


@pytest.mark.parametrize(
    ("threshold", "words"),
    [
        (reading(1.0, "left"), "resolves one step"),
        (reading(0.5, "left"), "resolves a step of 0.5"),
        (reading(4.0), "75 % at delta 4"),
        (reading(2.4666), "75 % at delta 2.5"),
        (reading(5.0, "right"), "never reaches 75 %"),
    ],
)
def test_the_threshold_words_follow_value_and_censoring(threshold, words):
    assert profile_line({"threshold_75": threshold}) == words


@pytest.mark.parametrize(("ties", "words"), [(0.249, None), (0.25, "misses by tie")])
def test_misses_are_looked_for_at_the_smallest_step(ties, words):
    estimates: dict[str, Reading] = {"miss_by_tie/delta_1": reading(ties), "miss_by_tie/delta_2": reading(1.0)}
    assert profile_line(estimates) == (words or "not enough measured for a profile")


def test_natural_pairs_are_told_in_numbers():
    estimates: dict[str, Reading] = {"natural/accuracy": reading(0.9), "natural/stable_correct": reading(0.85)}
    assert profile_line(estimates) == "natural pairs 90% right, 85% in both orders"


def test_what_was_not_measured_leaves_no_word():
    withheld = NotEstimable(reason="3 of 40", withheld=True)
    parts: dict[str, Reading] = {**equal_pairs(0.9, 0.3, 0.6, 0.0), "one_sided_commit": withheld}
    assert profile_line({"dark_current": withheld, "threshold_75": withheld, **parts}) == (
        "not enough measured for a profile"
    )


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("Llama8B", "vacuum-active, presentation-conflicted, 75 % at delta 4"),
        ("Qwen14B", "vacuum-clean, mixed stable-positional, resolves one step"),
        ("Qwen32B", "vacuum-clean, one-sided, resolves one step"),
        ("Qwen32B_strict", "equivalence-respecting, misses by tie"),
    ],
)
def test_the_judges_of_the_paper_have_their_sketches(name, line):
    assert jrh.measure(asked(jrh.scripted.profile(name), jrh.load_suite("datasheet-paper"))).profile == line


def test_the_rules_are_stated_where_the_profile_is_made():
    assert RULES is not None
    words = ("vacuum-clean", "equivalence-respecting", "presentation-conflicted", "stable-preferring", "one-sided")
    assert all(word in RULES for word in words)
