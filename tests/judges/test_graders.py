"""Scripted judges of single responses: what each must read is known before it is asked."""

from __future__ import annotations

import math

import pytest

import jrh_mlflow as jrh
from jrh_mlflow.judges.scripted import AlwaysFirst, AlwaysTie, Grader, LongerWins, Oracle
from jrh_mlflow.measuring.resolve import judge_from_text
from jrh_mlflow.schema.items import Item
from jrh_mlflow.schema.presentation import Presentation
from tests.measures.pointwise import number, reading
from tests.readings import asked

N = 200
SCALE = ("1", "2", "3", "4", "5")
DOSES = tuple(f"error_injection_{dose}" for dose in (1, 2, 3))
TESTS = ("baseline", "label_flip", "typos", "stochastic_stability")


def item(source: int, condition: str, *, answers: tuple[str, ...] = ("fail", "pass"), **changes: object) -> Item:
    """One response; every second one expects the last label, and error doses expect none."""
    fields = {
        "id": f"s{source:03d}/{condition}",
        "task": f"s{source:03d}",
        "condition": condition,
        "kind": "response",
        "instruction": "Explain the tides.",
        "rubric": "Is it right?",
        "response": f"The moon pulls at the sea, remark {source}.",
        "answers": answers,
        "expected": None if condition in DOSES else answers[-1 if source % 2 else 0],
        "replicates": 4 if condition == "stochastic_stability" else 1,
    }
    return Item(**(fields | changes))  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def suite() -> jrh.Suite:
    return jrh.Suite(name="graded", items=[item(source, test) for source in range(N) for test in TESTS])


@pytest.fixture(scope="module")
def doses() -> jrh.Suite:
    """Sources of the highest level, each with three doses of errors."""
    items = [item(2 * source + 1, test, answers=SCALE) for source in range(60) for test in ("baseline", *DOSES)]
    return jrh.Suite(name="doses", items=items)


def report(judge: object, suite: jrh.Suite) -> jrh.ReliabilityReport:
    found = jrh.measure(asked(judge, suite), labels=suite.labels, n_resamples=10)
    assert isinstance(found, jrh.ReliabilityReport)
    return found


def test_each_test_reads_its_own_rate_within_binomial_error(suite: jrh.Suite) -> None:
    rates = {"label_flip": 0.6, "typos": 0.95}
    found = report(Grader(accuracy=0.8, tests=rates), suite)
    for test, rate in {"baseline": 0.8, **rates}.items():
        assert abs(number(found, f"{test}/accuracy") - rate) < 4 * math.sqrt(rate * (1 - rate) / N)
        assert reading(found, f"{test}/accuracy").n == N


@pytest.mark.parametrize("rate", [0.0, 1.0])
def test_the_ends_are_exact(rate: float, suite: jrh.Suite) -> None:
    found = report(Grader(accuracy=rate), suite)
    assert {number(found, f"{test}/accuracy") for test in TESTS} == {rate}


def test_without_flips_replicates_agree_however_wrong_the_grader_is(suite: jrh.Suite) -> None:
    found = report(Grader(accuracy=0.5), suite)
    assert number(found, "stochastic_stability/unanimity") == 1
    assert number(found, "stochastic_stability/flip_rate") == 0


def test_a_flip_makes_replicates_disagree_at_the_known_rate_and_leaves_the_accuracy(suite: jrh.Suite) -> None:
    """Two replicates that are drawn apart differ with chance 2 p (1 - p); they share a draw with chance (1 - f)²."""
    accuracy, flip = 0.7, 0.5
    found = report(Grader(accuracy=accuracy, flip=flip), suite)
    expected = (1 - (1 - flip) ** 2) * 2 * accuracy * (1 - accuracy)
    assert abs(number(found, "stochastic_stability/flip_rate") - expected) < 4 * math.sqrt(0.25 / N)
    assert number(found, "stochastic_stability/unanimity") < 0.8
    assert abs(number(found, "stochastic_stability/accuracy") - accuracy) < 4 * math.sqrt(0.21 / N)


def test_error_doses_decline_by_one_level_each(doses: jrh.Suite) -> None:
    records = asked(Grader(accuracy=1), doses)
    assert [record.answer for record in records[:4]] == ["5", "4", "3", "2"]
    found = report(Grader(accuracy=1), doses)
    assert number(found, "error_injection/monotone") == 1
    assert {number(found, f"{dose}/decline") for dose in DOSES} == {1}


def test_a_grader_that_misses_a_dose_is_not_monotone(doses: jrh.Suite) -> None:
    """A miss at dose 2 is one level up, as high as dose 1: still no rise; a miss at the last dose is none either."""
    blind = report(Grader(accuracy=1, tests=dict.fromkeys(DOSES, 0.0)), doses)
    assert number(blind, "error_injection_1/decline") == 0
    assert number(blind, "error_injection_3/decline") == 1
    rising = report(Grader(accuracy=0.5), doses)
    assert number(rising, "error_injection/monotone") < 1


def test_doses_end_at_the_lowest_label() -> None:
    low = jrh.Suite(name="low", items=[item(0, test, answers=SCALE) for test in ("baseline", *DOSES)])
    assert [record.answer for record in asked(Grader(accuracy=1), low)] == ["1", "1", "1", "1"]


def test_a_wrong_label_is_the_neighbour_and_always_an_answer(doses: jrh.Suite) -> None:
    records = [record for record in asked(Grader(accuracy=0), doses) if record.condition == "baseline"]
    assert {record.answer for record in records} == {"4"}
    low = jrh.Suite(name="low", items=[item(0, "baseline", answers=SCALE)])
    assert asked(Grader(accuracy=0), low)[0].answer == "2"


def test_a_run_is_repeatable_and_another_seed_is_another_run(suite: jrh.Suite) -> None:
    answers = [[record.answer for record in asked(Grader(flip=0.3, seed=seed), suite)] for seed in (1, 1, 2)]
    assert answers[0] == answers[1]
    assert answers[0] != answers[2]


def test_graders_with_other_rates_are_other_judges() -> None:
    graders = [Grader(), Grader(accuracy=0.8), Grader(flip=0.1), Grader(seed=1), Grader(tests={"typos": 0.5})]
    assert len({grader.fingerprint() for grader in graders}) == len(graders)
    assert Grader(tests={"typos": 0.5}).settings()["tests"] == "typos: 0.5"
    assert Grader(name="strict").name == "strict"
    assert isinstance(judge_from_text("scripted:Grader"), Grader)


@pytest.mark.parametrize("rates", [{"accuracy": 1.2}, {"flip": -0.1}, {"tests": {"typos": 2.0}}])
def test_rates_outside_nought_to_one_are_refused(rates: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"\[0, 1\]"):
        Grader(**rates)  # type: ignore[arg-type]


def test_an_item_without_any_expectation_is_an_error_and_no_answer() -> None:
    lost = jrh.Suite(name="lost", items=[item(0, "typos", expected=None), item(1, "error_injection_1")])
    records = asked(Grader(), lost)
    assert [record.outcome for record in records] == ["error", "error"]
    assert "no expectation for condition 'typos'" in str(records[0].error)


def test_always_first_gives_the_first_label(suite: jrh.Suite) -> None:
    found = report(AlwaysFirst(), suite)
    assert {number(found, f"{test}/accuracy") for test in TESTS} == {0.5}
    assert number(found, "typos/consistency") == 1
    assert number(found, "baseline/fpr") == 0
    assert number(found, "baseline/fnr") == 1


def test_always_tie_abstains_and_an_abstention_is_an_answer_that_is_never_right(suite: jrh.Suite) -> None:
    found = report(AlwaysTie(), suite)
    assert found.outcomes["abstain"] == sum(one.replicates for one in suite.items)
    assert number(found, "typos/accuracy") == 0
    assert reading(found, "typos/accuracy").excluded == 0
    assert found.withheld.keys() == {axis for axis in found.withheld if axis.endswith("/matthews")}


@pytest.mark.parametrize(("n_words", "answer"), [(0, "1"), (39, "1"), (40, "2"), (79, "2"), (80, "3"), (900, "3")])
def test_longer_wins_climbs_one_label_for_every_forty_words(n_words: int, answer: str) -> None:
    shown = Presentation(kind="response", instruction="", response="word " * n_words, answers=("1", "2", "3"))
    assert LongerWins()(shown) == answer


def test_the_oracle_is_right_everywhere_and_says_the_lowest_where_only_a_decline_is_expected(
    suite: jrh.Suite, doses: jrh.Suite
) -> None:
    found = report(Oracle(), suite)
    assert {number(found, f"{test}/accuracy") for test in TESTS} == {1}
    assert number(report(Oracle(), doses), "error_injection/monotone") == 1
