"""The composite against judges whose parts are known."""

from __future__ import annotations

import numpy as np
import pytest

import jrh_mlflow as jrh
from jrh_mlflow.engine import ask_calls, plan_calls
from jrh_mlflow.errors import SuiteError
from jrh_mlflow.judges import Judge, scripted
from jrh_mlflow.measures.composite import (
    Tally,
    composite_difference,
    item_decisions,
    parts,
    reliability,
    tally,
)
from jrh_mlflow.schema.items import Item
from tests.measures.pointwise import point


@pytest.fixture(scope="module")
def suite() -> jrh.Suite:
    return jrh.datasheet_suite(design="paper", n_tasks=6, depth=3)


def counted(judge: Judge, suite: jrh.Suite, *, orders: str = "both") -> Tally:
    return tally(item_decisions(ask_calls(judge, plan_calls(suite, judge, replicates=1)).records, orders=orders))


def values(found: Tally) -> dict[str, float]:
    return {name: one.value for name, one in parts(found).items() if isinstance(one, jrh.Estimate)}


@pytest.mark.parametrize(
    ("judge", "expected"),
    [
        (scripted.Oracle(), {"no_dark_current": 1.0, "no_false_preference": 1.0, "sensitivity": 1.0}),
        (scripted.AlwaysTie(), {"no_dark_current": 1.0, "no_false_preference": 1.0, "sensitivity": 0.0}),
        (scripted.AlwaysFirst(), {"no_dark_current": 1.0, "no_false_preference": 1.0, "sensitivity": 0.0}),
    ],
)
def test_the_parts_of_known_judges_are_read_and_the_composite_is_their_mean(
    judge: Judge, expected: dict[str, float], suite: jrh.Suite
) -> None:
    found = counted(judge, suite)
    assert values(found) == pytest.approx(expected)
    assert found.value == pytest.approx(sum(expected.values()) / 3)


def test_one_order_shows_what_both_orders_hide(suite: jrh.Suite) -> None:
    found = values(counted(scripted.AlwaysFirst(), suite, orders="one"))
    assert found["no_dark_current"] == found["no_false_preference"] == 0.0
    assert 0.2 < found["sensitivity"] < 0.8


def test_sensitivity_weighs_every_step_alike() -> None:
    both = Tally(
        cells=("sensitivity/delta_1", "sensitivity/delta_2"),
        tasks=("a", "b"),
        hits=np.array([[0.0, 1.0], [0.0, 1.0]]),
        sizes=np.array([[9.0, 1.0], [9.0, 1.0]]),
        excluded=(0, 0),
    )
    assert both.value == 0.5


def test_an_interval_has_a_width_even_where_all_tasks_agree(suite: jrh.Suite) -> None:
    found = reliability(counted(scripted.Oracle(), suite))
    assert isinstance(found, jrh.Estimate)
    assert found.value == 1.0
    assert found.cluster_low is not None
    assert found.cluster_low < 0.99


def test_too_many_unusable_decisions_withhold_the_composite(suite: jrh.Suite) -> None:
    found = reliability(counted(scripted.Noisy(unparsed=0.3), suite))
    assert isinstance(found, jrh.NotEstimable)
    assert found.withheld


def test_scores_by_task_average_to_the_composite_and_a_tally_survives_json(suite: jrh.Suite) -> None:
    found = counted(scripted.Noisy(seed=3), suite)
    scores, weights = found.by_task()
    assert (scores * weights).sum() / weights.sum() == pytest.approx(found.value)
    again = Tally.from_dict(found.to_dict())
    assert again.value == found.value
    assert (again.hits == found.hits).all()


def test_a_clear_difference_is_found_on_few_tasks_and_none_where_there_is_none(suite: jrh.Suite) -> None:
    strong, weak = counted(scripted.Oracle(), suite), counted(scripted.AlwaysTie(), suite)
    noisy = [counted(scripted.Noisy(seed=seed), suite, orders="one") for seed in (1, 2)]
    assert composite_difference(strong, noisy[0]).p < 0.01
    assert composite_difference(noisy[0], noisy[1]).p > 0.05
    assert composite_difference(strong, weak).value == pytest.approx(1 / 3)
    assert composite_difference(weak, weak).p == 1.0


def test_composites_of_different_suites_are_not_compared(suite: jrh.Suite) -> None:
    other = jrh.datasheet_suite(n_tasks=4, depth=3)
    with pytest.raises(ValueError, match="same tasks"):
        composite_difference(counted(scripted.Oracle(), suite), counted(scripted.Oracle(), other))


def test_reliability_tests_are_parts_of_their_own_and_the_baseline_is_none() -> None:
    items = [
        Item(
            id=f"{task}/{condition}",
            task=task,
            condition=condition,
            kind="response",
            instruction="?",
            response="!",
            answers=("no", "yes"),
            expected="yes",
        )
        for task in ("a", "b", "c")
        for condition in ("baseline", "label_flip", "typos")
    ]
    calls = [
        {
            "suite_item": item.id,
            "task": item.task,
            "condition": item.condition,
            "delta": None,
            "order": "",
            "better": "",
        }
        | {
            "replicate": 0,
            "outcome": "verdict",
            "answer": "no" if item.condition == "typos" else "yes",
            "expected": "yes",
        }
        for item in items
    ]
    found = tally(item_decisions(calls), labels=("no", "yes"))
    assert values(found) == {"label_flip": 1.0, "typos": 0.0}
    assert found.value == 0.5


def test_a_task_with_nothing_but_its_baseline_changes_no_interval_and_no_p_value() -> None:
    def counts(answers: str, *, alone: int) -> Tally:
        rows = [point("typos", said, "1", source=f"a{index}") for index, said in enumerate(answers)]
        rows += [point("baseline", "1", "1", source=f"b{index}") for index in range(alone)]
        return tally(item_decisions(rows), labels=("0", "1"))

    one, other = (
        (reliability(counts("11101", alone=alone)), composite_difference(counts("11101", alone=alone), weak))
        for alone, weak in ((0, counts("01100", alone=0)), (4, counts("01100", alone=4)))
    )
    assert one == other


def test_a_suite_without_any_part_is_refused(suite: jrh.Suite) -> None:
    judge = scripted.AlwaysTie()
    decisions = item_decisions(ask_calls(judge, plan_calls(suite, judge, replicates=1)).records)
    with pytest.raises(SuiteError, match="no part"):
        tally(decisions[decisions["condition"] == "filler"])
