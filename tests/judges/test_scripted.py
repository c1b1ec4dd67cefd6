"""Scripted judges: calibration weights. Each reading is known beforehand, so that swapped labels cannot hide."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace

import pytest

import jrh_mlflow as jrh
from jrh_mlflow.engine import plan_calls
from jrh_mlflow.errors import RecipeError
from jrh_mlflow.judges.scripted import AlwaysFirst, AlwaysTie, LongerWins, Noisy, Oracle, Profile, profile, slot_of
from jrh_mlflow.schema.presentation import Presentation
from tests.readings import asked, estimate, missing, value

STEPS = tuple(f"delta_{step}" for step in range(1, 6))
FALSE_PREFERENCES = (
    "dark_current",
    "raw_false_preference",
    "stable_cross_sensitivity",
    "positional_false_preference",
    "one_sided_commit",
    "other_conflict",
)


@pytest.fixture(scope="module")
def suite() -> jrh.Suite:
    return jrh.load_suite("datasheet-paper")


@pytest.fixture(scope="module")
def half_steps() -> jrh.Suite:
    return jrh.datasheet_suite(half_steps=True)


def sheet(judge: object, suite: jrh.Suite) -> jrh.Datasheet:
    return jrh.measure(asked(judge, suite), n_resamples=40)


def test_always_first_is_all_position(suite):
    read = sheet(AlwaysFirst(), suite)
    expected = {
        "dark_current": 1,
        "tie_rate/vacuum": 0,
        "raw_false_preference": 1,
        "positional_false_preference": 1,
        "stable_cross_sensitivity": 0,
        "one_sided_commit": 0,
        "other_conflict": 0,
        "no_preference": 0,
        "filler_preference": 0.5,
        "different_subset_preference": 1,
    }
    for step in STEPS:
        expected |= {
            f"target_sensitivity/{step}": 0.5,
            f"conditional_accuracy/{step}": 0.5,
            f"wrong_choice/{step}": 0.5,
            f"miss_by_tie/{step}": 0,
            f"tie_rate/{step}": 0,
            f"d_prime/{step}": 0,
        }
    assert {axis: value(read, axis) for axis in expected} == pytest.approx(expected, abs=1e-12)
    threshold = estimate(read, "threshold_75")
    assert (threshold.value, threshold.censored) == (5, "right")
    assert (threshold.cluster_low, threshold.cluster_high) == (None, None)
    assert threshold.censoring == {"left": 0, "right": 1}
    assert read.profile == "vacuum-active, presentation-conflicted, never reaches 75 %"


def test_always_tie_never_prefers(suite):
    read = sheet(AlwaysTie(), suite)
    expected = dict.fromkeys(FALSE_PREFERENCES, 0) | {
        "no_preference": 1,
        "tie_rate/vacuum": 1,
        "tie_rate/delta_0_same": 1,
    }
    for step in STEPS:
        expected |= {f"miss_by_tie/{step}": 1, f"tie_rate/{step}": 1, f"target_sensitivity/{step}": 0}
        expected[f"wrong_choice/{step}"] = 0
        assert "chose a side" in missing(read, f"conditional_accuracy/{step}").reason
    assert {axis: value(read, axis) for axis in expected} == expected
    assert estimate(read, "threshold_75").censored == "right"


def test_longer_wins_is_blind_on_the_matched_ladder_and_loves_padding(suite):
    read = sheet(LongerWins(), suite)
    assert value(read, "filler_preference") == 1
    assert value(read, "dark_current") == 0
    # Two wordings of one quality are never of the same length, so this judge prefers the same content twice.
    assert value(read, "stable_cross_sensitivity") == 1
    assert value(read, "positional_false_preference") == 0
    for step in STEPS:
        assert value(read, f"target_sensitivity/{step}") == 0.5
        assert value(read, f"wrong_choice/{step}") == 0.5
    assert estimate(read, "threshold_75").censored == "right"


def test_longer_wins_is_blind_on_half_steps_too(half_steps):
    read = sheet(LongerWins(), half_steps)
    assert value(read, "target_sensitivity/delta_0.5") == 0.5


def test_the_oracle_is_never_wrong(suite):
    read = sheet(Oracle(), suite)
    expected = dict.fromkeys(FALSE_PREFERENCES, 0) | {"no_preference": 1, "filler_preference": 0}
    expected["different_subset_preference"] = 0
    for step in STEPS:
        expected |= {f"target_sensitivity/{step}": 1, f"conditional_accuracy/{step}": 1, f"miss_by_tie/{step}": 0}
    assert {axis: value(read, axis) for axis in expected} == expected
    threshold = estimate(read, "threshold_75")
    assert (threshold.value, threshold.censored, threshold.censoring["left"]) == (1, "left", 1)


def test_the_oracle_resolves_half_a_step(half_steps):
    threshold = estimate(sheet(Oracle(), half_steps), "threshold_75")
    assert (threshold.value, threshold.censored) == (0.5, "left")


def test_an_oracle_forced_to_choose_falls_back_on_the_first_slot(suite):
    read = sheet(Oracle().with_criterion("forced"), suite)
    assert value(read, "dark_current") == 1
    assert value(read, "positional_false_preference") == 1
    assert value(read, "target_sensitivity/delta_1") == 1


def test_a_forced_arm_makes_a_tie_unparsed(suite):
    read = jrh.measure(asked(AlwaysTie().with_criterion("forced"), suite))
    assert read.outcomes["unparsed"] == 2 * len(suite)
    assert "dark_current" in read.withheld


def test_scripted_judges_can_be_called_with_a_presentation():
    shown = Presentation(kind="pair", instruction="i", first="long text", second="short")
    assert (AlwaysFirst()(shown), AlwaysTie()(shown), LongerWins()(shown)) == ("1", "tie", "1")


@pytest.mark.parametrize(
    ("content", "order", "slot"), [("u", "uv", "1"), ("v", "uv", "2"), ("u", "vu", "2"), ("v", "vu", "1")]
)
def test_a_content_stands_in_the_slot_of_its_order(content, order, slot):
    assert slot_of(content, order) == slot


@pytest.mark.parametrize("judge", [AlwaysFirst(), AlwaysTie(), LongerWins(), Oracle(), Noisy(), profile("Llama8B")])
def test_scripted_judges_say_that_they_are_simulated(judge):
    assert judge.simulated
    assert judge.settings()["kind"] == "scripted"
    assert judge.fingerprint() == judge.fingerprint() is not None


# Noisy: the truth of `tests.validation`.


def test_the_same_seed_answers_the_same_and_another_does_not(suite):
    answers = [[one.answer + one.outcome for one in asked(Noisy(seed=seed), suite)] for seed in (1, 1, 2)]
    assert answers[0] == answers[1] != answers[2]


def test_replicates_are_drawn_anew():
    records = asked(Noisy(dark_current=0.5), jrh.datasheet_suite(n_tasks=2), replicates=2)
    by_replicate = [[one.outcome for one in records if one.replicate == number] for number in (0, 1)]
    assert len(by_replicate[0]) == len(by_replicate[1])
    assert by_replicate[0] != by_replicate[1]


def test_rates_of_zero_and_one_are_exact(suite):
    judge = Noisy(
        dark_current=0,
        stable=1,
        positional=0,
        one_sided=0,
        sensitivity={1: 0, 2: 0, 3: 1, 4: 1, 5: 1},
        tie=0,
        filler=1,
    )
    read = sheet(judge, suite)
    expected = {
        "dark_current": 0,
        "stable_cross_sensitivity": 1,
        "positional_false_preference": 0,
        "filler_preference": 1,
        "target_sensitivity/delta_2": 0,
        "wrong_choice/delta_2": 1,
        "target_sensitivity/delta_3": 1,
    }
    assert {axis: value(read, axis) for axis in expected} == expected
    assert value(read, "threshold_75") == pytest.approx(2.75)


@pytest.fixture(scope="module")
def two_steps() -> jrh.Suite:
    return jrh.datasheet_suite(n_tasks=10, depth=2)


@pytest.mark.parametrize("icc", [0.0, 0.2])
def test_measured_rates_lie_around_the_true_ones(icc, two_steps):
    """8 seeds of 10 tasks: means within a few standard errors of the truth, and each kind of pair under its name."""
    truth = {
        "dark_current": 0.3,
        "stable_cross_sensitivity": 0.15,
        "positional_false_preference": 0.35,
        "one_sided_commit": 0.2,
        "no_preference": 0.3,
        "target_sensitivity/delta_1": 0.6,
        "miss_by_tie/delta_1": 0.4 * 0.25,
        "filler_preference": 0.7,
    }
    rates = {"dark_current": 0.3, "stable": 0.15, "positional": 0.35, "one_sided": 0.2, "tie": 0.25, "filler": 0.7}
    # Each seed has tasks of its own: one table of 80 tasks, whose rates are the means over the seeds.
    records = [
        replace(one, task=f"{seed} {one.task}", suite_item=f"{seed} {one.suite_item}")
        for seed in range(8)
        for one in asked(Noisy(**rates, sensitivity={1: 0.6, 2: 0.8}, icc=icc, seed=seed), two_steps)
    ]
    read = jrh.measure(records, n_resamples=1)
    for axis, true in truth.items():
        assert value(read, axis) == pytest.approx(true, abs=0.06), axis


def test_tasks_with_rates_of_their_own_widen_the_clustered_interval(suite):
    vacuum = jrh.Suite(name="vacuum", items=[item for item in suite.items if item.condition.startswith("vacuum")])

    def width(icc: float) -> float:
        reads = [
            estimate(
                jrh.measure(asked(Noisy(dark_current=0.5, icc=icc, seed=s), vacuum), n_resamples=1), "dark_current"
            )
            for s in range(4)
        ]
        return sum((one.cluster_high or 1) - (one.cluster_low or 0) for one in reads)

    assert width(0.5) > 1.3 * width(0.0)


def test_unparsed_answers_come_at_their_rate(suite):
    outcomes = Counter(one.outcome for one in asked(Noisy(unparsed=0.2), suite))
    assert outcomes["unparsed"] / (2 * len(suite)) == pytest.approx(0.2, abs=0.05)
    assert outcomes["error"] == 0


@pytest.mark.parametrize(
    "rates", [{"dark_current": 1.1}, {"stable": 0.6, "positional": 0.6}, {"icc": 1.0}, {"sensitivity": {1: -0.1}}]
)
def test_impossible_rates_are_a_programmers_mistake(rates):
    with pytest.raises(ValueError, match=r"Rates must lie in \[0, 1\]"):
        Noisy(**rates)


def test_a_step_without_a_rate_is_an_error_of_the_call_and_not_a_guess(suite):
    records = asked(Noisy(sensitivity={1: 0.5}), suite)
    errors = [one for one in records if one.outcome == "error"]
    assert len(errors) == 200
    assert {one.error for one in errors if one.delta == 2} == {"ValueError: Noisy has no sensitivity for delta 2.0."}


def test_every_setting_is_named_for_the_run():
    settings = Noisy(seed=3, sensitivity={1: 0.6, 2: 0.8}).settings()
    assert settings["sensitivity"] == "1: 0.6, 2: 0.8"
    assert settings["seed"] == 3
    assert Noisy(seed=3).fingerprint() != Noisy(seed=4).fingerprint()


# The judges of the paper.


def test_profiles_of_the_paper_are_found_by_name():
    assert isinstance(profile("Llama8B"), Profile)
    assert profile("Qwen32B_strict").tie_criterion.name == "strict"
    with pytest.raises(RecipeError, match=r"Unknown profile 'Lama8B'\. Did you mean 'Llama8B'"):
        profile("Lama8B")


def test_a_profile_moves_to_its_published_arm_and_refuses_another():
    strict = profile("Qwen32B").with_criterion("strict")
    assert (strict.name, strict.counts["judge"]) == ("Qwen32B_strict", "Qwen32B")
    assert strict.with_criterion("allowed").name == "Qwen32B"
    with pytest.raises(RecipeError, match=r"The paper reports no 'strict' arm for Llama8B\."):
        profile("Llama8B").with_criterion("strict")


def test_a_profile_answers_only_what_the_paper_asked(suite):
    strict = profile("Qwen32B_strict")
    strict.begin(suite)
    planned = Counter((call.item.condition, call.item.delta) for call in plan_calls(suite, strict, replicates=1))
    assert planned == {("delta_0_same", 0.0): 120, ("ladder", 1.0): 100, ("ladder", 5.0): 20}


def test_on_another_suite_a_profile_keeps_the_published_rates():
    read = sheet(profile("Llama8B"), jrh.datasheet_suite(design="paper", n_tasks=8, seed=3))
    assert value(read, "dark_current") == pytest.approx(2 / 3, abs=0.01)
    assert value(read, "positional_false_preference") == pytest.approx(58 / 60, abs=0.02)
    assert value(read, "target_sensitivity/delta_1") == pytest.approx(0.61, abs=0.01)


def test_the_answers_of_a_profile_are_spread_over_the_tasks(suite):
    """Otherwise one task would hold all of a kind and the clustered interval would be an artefact."""
    records = asked(profile("Llama8B"), suite)
    preferred = Counter(one.task for one in records if one.condition.startswith("vacuum") and one.outcome == "verdict")
    assert len(preferred) == 10
    assert max(preferred.values()) - min(preferred.values()) <= 2


def test_a_profile_that_was_not_told_its_suite_fails_the_call_and_not_the_run(suite):
    from jrh_mlflow.engine import ask_calls

    judge = profile("Qwen14B")
    records = ask_calls(judge, list(plan_calls(suite, judge, replicates=1))[:4]).records
    assert {one.outcome for one in records} == {"error"}


def test_asking_is_a_coroutine(suite):
    call = next(iter(plan_calls(suite, AlwaysTie(), replicates=1)))
    assert asyncio.run(AlwaysTie().ask(call)) == "tie"
