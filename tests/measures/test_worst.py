"""The worst items, and what the calls cost."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd
import pytest

from jrh_mlflow.errors import CallsError
from jrh_mlflow.measures.reliability import cost_points, worst_items
from jrh_mlflow.schema.items import Item
from jrh_mlflow.schema.presentation import Message
from tests.measures.category_tools import call
from tests.measures.pointwise import point, repeats
from tests.readings import Row, pair

SCALE = ("1", "2", "3", "4", "5")


def items(rows: list[Row], answers: tuple[str, ...] | None = SCALE) -> dict[str, Item]:
    return {
        row["suite_item"]: Item(
            id=row["suite_item"],
            task=row["task"],
            condition=row["condition"],
            kind="response",
            rubric="Rate it.",
            response=f"text of {row['suite_item']}",
            answers=answers,
        )
        for row in rows
    }


def test_worst_comes_first_by_size_then_replicates_then_right_baseline_then_id():
    rows = [
        point("baseline", "4", "4", source="a"),
        point("baseline", "3", "4", source="b"),
        point("typos", "1", "4", source="a"),
        *repeats("padding", ["2", "2"], "4", source="a"),
        *repeats("authority", ["2", "4"], "4", source="a"),
        *repeats("markdown", ["2", "4"], "4", source="b"),
        point("semantic_paraphrase", "4", "4", source="a"),
        point("label_flip", "unparsed", "1", source="a"),
        point("error_injection_1", "1", source="a"),
    ]
    found = worst_items(rows, items(rows))
    assert [one.item for one in found] == ["a/typos", "a/padding", "a/authority", "b/markdown", "b/baseline"]
    first = found[0]
    assert (first.expected, first.given, first.error_size, first.test, first.source) == ("4", "1", 3, "typos", "a")
    assert (first.original, first.perturbed) == ("text of a/baseline", "text of a/typos")
    assert worst_items(rows, items(rows), n=2) == found[:2]


def test_of_several_wrong_replicates_the_furthest_answer_is_shown():
    rows = repeats("typos", ["3", "1", "2"], "4")
    assert worst_items(rows, items(rows))[0].given == "1"


def test_of_one_source_and_test_the_worst_item_only_is_told():
    rows = [
        point("synthetic_ordinal", "1", "4", number=1),
        point("synthetic_ordinal", "2", "4", number=2),
        *repeats("stochastic_stability", ["2", "3", "2"], "4"),
        *repeats("stochastic_stability_deep", ["3"] * 9 + ["4"], "4"),
        point("stochastic_stability", "3", "4", source="s1"),
    ]
    found = [one.item for one in worst_items(rows, items(rows))]
    assert found == ["s0/synthetic_ordinal/1", "s0/stochastic_stability", "s1/stochastic_stability"]


def test_an_item_that_was_asked_often_is_no_worse_for_it():
    rows = [
        point("baseline", "4", "4", source="a"),
        point("typos", "3", "4", source="a"),
        *repeats("stochastic_stability_deep", ["3", "3", "unparsed"], "4", source="b"),
        *repeats("stochastic_stability", ["3", "3", "4"], "4", source="a"),
    ]
    found = [one.item for one in worst_items(rows, items(rows))]
    assert found == ["a/typos", "b/stochastic_stability_deep", "a/stochastic_stability"]


def test_labels_without_a_scale_are_all_off_by_one():
    rows = [point("typos", "no", "yes")]
    assert worst_items(rows, items(rows, ("no", "yes")))[0].error_size == 1


def test_items_with_different_labels_are_told_too():
    rows = [point("typos", "no", "yes", source="a"), point("typos", "1", "4", source="b")]
    both = items(rows[:1], ("no", "yes")) | items(rows[1:])
    assert [one.item for one in worst_items(rows, both)] == ["a/typos", "b/typos"]


def test_a_reworded_question_is_shown_instead_of_the_response():
    rows = [point("baseline", "4", "4"), point("rubric_paraphrase", "1", "4")]
    suite = items(rows)
    suite["s0/rubric_paraphrase"] = replace(suite["s0/rubric_paraphrase"], rubric="Give a grade.")
    found = worst_items(rows, suite)[0]
    assert (found.original, found.perturbed) == ("Rate it.", "Give a grade.")


def test_without_a_baseline_there_is_no_original():
    rows = [point("typos", "1", "4")]
    assert worst_items(rows, items(rows))[0].original is None


def test_items_the_suite_does_not_know_and_pairs_are_refused():
    rows = [point("typos", "1", "4")]
    with pytest.raises(CallsError, match="not in the suite: s0/typos"):
        worst_items(rows, {})
    with pytest.raises(CallsError, match="pointwise"):
        worst_items(pair("equal", "1", "tie", delta=0.0), {})


def priced(row: Row, cost: float | None) -> Row:
    return row | {"cost_usd": cost}


def test_the_cost_curve_runs_in_the_order_of_the_calls_and_unusable_calls_cost_too():
    rows = [
        priced(point("typos", "4", "4", source="b"), 0.5),
        priced(point("typos", "unparsed", "4", source="c"), 0.25),
        priced(point("typos", "3", "4", source="a"), 0.25),
        priced(point("typos", "abstain", "4", source="d"), 1.0),
        priced(point("error_injection_1", "3", source="d"), 1.0),
    ]
    assert cost_points(rows) == [(0.5, 1, 1.0), (1.0, 2, 0.5), (2.0, 3, pytest.approx(1 / 3))]


@pytest.mark.parametrize("unknown", [None, float("nan")])
def test_one_unknown_cost_leaves_no_curve(unknown):
    rows = [priced(point("typos", "4", "4", source="a"), 0.5), priced(point("typos", "4", "4", source="b"), unknown)]
    assert cost_points(rows) == []


def test_without_a_column_of_costs_the_curve_says_so():
    with pytest.raises(CallsError, match="cost_usd"):
        cost_points([point("typos", "4", "4")])


@pytest.mark.parametrize(
    ("said", "shown"),
    [(("Go away.", "Bye."), ("Hello.", "Go away.")), (("Hello.", "Bye."), ("Bye.", "Bye."))],
    ids=["edited", "the same again"],
)
def test_of_a_transcript_the_first_edited_message_is_shown_else_the_last(
    said: tuple[str, ...], shown: tuple[str, ...]
) -> None:
    def item(condition: str, *said: str) -> Item:
        talk = tuple(Message(role="assistant", content=text) for text in ("Hi", *said))
        return Item(id=f"t/{condition}", task="t", condition=condition, transcript=talk, answers=("no", "yes"))

    items = {one.id: one for one in (item("baseline", "Hello.", "Bye."), item("agent_perturbation", *said))}
    calls = pd.DataFrame([call("t", "baseline", "no", "no"), call("t", "agent_perturbation", "yes", "no")])
    (worst,) = worst_items(calls, items)
    assert (worst.original, worst.perturbed) == shown
