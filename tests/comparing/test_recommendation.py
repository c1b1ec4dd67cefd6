"""What a comparison recommends: who is able first, then who is without fault, then who is cheap."""

from __future__ import annotations

import re

from jrh_mlflow.comparing.comparison import compare_calls
from jrh_mlflow.comparing.recommendation import recommendation, tasks_for
from tests.comparing.comparing_tools import (
    able_but,
    blind,
    coin,
    honest,
    oracle,
    pair_calls,
    point_calls,
)

GLOSSARY = re.compile(r"[Δδκ±]|dark current|false preference|threshold|P_all|\bp\b|p-value", re.IGNORECASE)


def perfect(condition, delta, luck):
    return "better" if delta else "tie"


def often(share):
    def judge(condition, delta, luck):
        return ("better" if luck.random() < share else "worse") if delta else "tie"

    return judge


def advice(judges, **options):
    costs = options.pop("costs", {})
    n_tasks = options.pop("n_tasks", 24)
    calls = {
        name: pair_calls(judge, n_tasks=n_tasks, cost_usd=costs.get(name), seed=place)
        for place, (name, judge) in enumerate(judges.items())
    }
    found = compare_calls(calls, n_resamples=200, **options)
    sentences = recommendation(found).sentences
    assert 1 <= len(sentences) <= 4
    assert not GLOSSARY.search(" ".join(sentences)), sentences
    return found, sentences


def test_an_honest_tie_is_recommended_over_a_coin_that_has_more_right_answers():
    found, sentences = advice({"coin": coin, "honest": honest})
    small = found.cells["target_sensitivity/delta_1"]
    assert small["coin"].value > small["honest"].value == 0, "ties count as wrong there"
    assert found.cells["ability"]["honest"].value == 1.0
    assert found.letters["ability"] == {"honest": "a", "coin": "b"}
    assert sentences[0].startswith("Use honest, because it picks the better of two clearly different answers in 1.00 [")
    assert re.search(r"against 0\.\d\d \[0\.\d\d, 0\.\d\d\] for coin", sentences[0])
    assert "target_sensitivity/delta_1" not in found.primary


def test_between_a_coin_and_a_judge_that_always_ties_none_is_recommended():
    _, sentences = advice({"coin": coin, "blind": blind})
    assert sentences[0].startswith("Use none of them")


def test_judges_that_count_words_are_not_recommended_however_able_they_look_on_the_ladder():
    calls = {"good": pair_calls(perfect, matched=coin), "bad": pair_calls(often(0.3), matched=coin, seed=1)}
    first, *more = recommendation(compare_calls(calls, n_resamples=200)).sentences
    assert first.startswith("Use none of them")
    assert "with the same words in 0." in first
    assert more[-1].endswith("it counts words.")
    reads = recommendation(compare_calls({**calls, "reads": pair_calls(perfect, matched=perfect)}, n_resamples=200))
    assert reads.sentences[0].startswith("Use reads, because it picks the better of two answers with the same words")


def test_an_able_judge_with_a_fault_is_recommended_over_a_blind_one_and_the_fault_is_said():
    found, sentences = advice({"blind": blind, "able": able_but})
    assert found.letters["dark_current"] == {"blind": "a", "able": "b"}
    assert sentences[0].startswith("Use able, because it picks")
    assert any(line.startswith("But it prefers one of two empty answers in 1.00") for line in sentences)


def test_of_two_able_judges_the_one_without_the_fault_is_recommended():
    _, sentences = advice({"fault": able_but, "clean": perfect})
    assert sentences[0].startswith("Use clean, because it prefers one of two empty answers in 0.00 [")
    assert "for fault" in sentences[0]


def test_of_two_able_judges_the_one_that_leans_to_no_side_is_recommended():
    def leaning(condition, delta, luck):
        return "tie" if condition.startswith("vacuum") else "better" if delta else "1"

    def wording(condition, delta, luck):
        # Takes one content in both orders, so that no place is preferred.
        return "tie" if condition.startswith("vacuum") else "better"

    found, sentences = advice({"leaning": leaning, "fair": wording}, n_tasks=60)
    assert {name: finding.state for name, finding in found.leans["slot_lean"].items()} == {
        "leaning": "problem",
        "fair": "ok",
    }
    assert sentences[0].startswith("Use fair, because it has a lean of ")


def test_where_each_is_better_in_something_nothing_is_recommended():
    def other_fault(condition, delta, luck):
        return "1" if condition == "delta_0_same" else "better" if delta else "tie"

    _, sentences = advice({"empty": able_but, "equal": other_fault})
    assert not sentences[0].startswith("Use")
    assert "two equally good answers in 0.00" in sentences[0]
    assert "two empty answers in 0.00" in sentences[0]


def test_equal_judges_are_not_told_apart_and_the_cheapest_is_named_with_its_price():
    judges = {"dear": often(0.8), "cheap": often(0.8), "third": often(0.8)}
    _, sentences = advice(judges, costs={"dear": 0.002, "cheap": 0.001, "third": 0.003})
    assert sentences[0].startswith("No difference is shown")
    assert "the cheapest is cheap ($1.00 per 1,000 calls)" in sentences[0]
    assert re.search(r"about \d[\d,]* tasks would show a difference of 0\.10", sentences[0])


def test_a_judge_that_is_told_to_be_less_able_is_not_among_the_alike():
    judges = {"a": often(0.9), "b": often(0.9), "weak": often(0.3)}
    _, sentences = advice(judges, costs={"a": 0.002, "b": 0.001, "weak": 0.0001})
    assert "the cheapest is b" in sentences[0]
    assert "weak" not in sentences[0]
    assert sentences[-1].startswith("Not weak: weak picks")


def test_a_dearer_judge_is_recommended_with_its_price():
    _, sentences = advice({"weak": often(0.3), "good": perfect}, costs={"weak": 0.001, "good": 0.01})
    assert sentences[0].startswith("Use good")
    assert sentences[-1] == "It costs $10.00 per 1,000 calls, weak $1.00."


def test_four_tasks_tell_nothing_apart_and_say_so():
    _, sentences = advice({"a": perfect, "b": often(0.4)}, n_tasks=4)
    assert sentences[0].startswith("4 tasks are too few")
    assert "Use" not in sentences[0]


def test_ability_is_a_veto_where_a_user_names_other_deciding_axes():
    _, sentences = advice({"blind": blind, "able": able_but}, primary=["dark_current"])
    assert sentences[0].startswith("Use able")


def test_against_a_baseline_those_ahead_of_it_are_named_and_not_ranked():
    judges = {"base": often(0.2), "a": perfect, "b": often(0.95)}
    _, sentences = advice(judges, baseline="base")
    assert sentences[0].startswith("a and b are not shown to be worse than base")


def test_reliability_tests_are_weighed_by_their_mean():
    def wrong(source, condition, replicate):
        return str(6 - int(oracle(source, condition, replicate)))

    tests = ("typos", "markdown")
    found = compare_calls(
        {"right": point_calls(oracle, tests=tests), "wrong": point_calls(wrong, tests=tests)}, n_resamples=200
    )
    first = recommendation(found).sentences[0]
    assert first.startswith("Use right, because it is right in 1.00")


def test_the_tasks_needed_fall_with_the_difference_and_rise_with_the_tests():
    assert tasks_for(0.2, -0.1, 0.1, 20) < tasks_for(0.1, -0.1, 0.1, 20) < tasks_for(0.1, -0.1, 0.1, 20, n_tests=9)
    assert tasks_for(0.1, None, 0.2, 20) is None
    assert tasks_for(0.1, 0.0, 0.0, 20) is None
