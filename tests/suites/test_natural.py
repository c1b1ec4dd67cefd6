"""Natural pairs: a table of real responses becomes a suite, or one clear line."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import jrh_mlflow as jrh
from jrh_mlflow.errors import SuiteError
from jrh_mlflow.measures.axes import declared
from tests.readings import asked, value


@pytest.fixture
def table() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "instruction": ["Say hello.", "Add 2 and 2.", "Name a colour."],
            "first": ["Hello.", "5", "Red, a warm colour."],
            "second": ["Goodbye.", "4", "Seven."],
            "better": ["1", "2", "1"],
        }
    )


def refused(table: pd.DataFrame, **arguments: object) -> str:
    with pytest.raises(SuiteError) as caught:
        jrh.natural_suite(table, **arguments)  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_each_row_is_a_pair_with_its_better_side(table):
    suite = jrh.natural_suite(table)
    assert [item.better for item in suite.items] == ["u", "v", "u"]
    assert [(item.u, item.v) for item in suite.items] == list(zip(table["first"], table["second"], strict=True))
    assert [item.id for item in suite.items] == ["pair-00000", "pair-00001", "pair-00002"]
    assert {item.condition for item in suite.items} == {"natural"}
    assert all(item.delta is None for item in suite.items)


def test_a_row_is_its_own_cluster_unless_a_task_is_given(table):
    assert len({item.task for item in jrh.natural_suite(table).items}) == 3
    grouped = jrh.natural_suite(table.assign(task=["a", "b", "a"], id=["x", "y", "z"]))
    assert [(item.id, item.task) for item in grouped.items] == [("x", "a"), ("y", "b"), ("z", "a")]


def test_columns_and_labels_of_another_tool_can_be_named(table):
    other = table.rename(columns={"instruction": "input", "first": "a", "second": "b", "better": "label"})
    other["label"] = ["A", "B", "A"]
    suite = jrh.natural_suite(
        other,
        columns={"instruction": "input", "first": "a", "second": "b", "better": "label"},
        better_values=("A", "B"),
    )
    assert {item.meta["columns"]["instruction"] for item in suite.items} == {"input"}
    plain = jrh.Suite(name=suite.name, items=[replace(item, meta={}) for item in suite.items])
    assert plain.sha256 == jrh.natural_suite(table).sha256


def test_numbers_say_the_better_side_as_well(table):
    numbers = table.assign(better=[1, 2, 1])
    assert jrh.natural_suite(numbers).sha256 == jrh.natural_suite(table).sha256


def test_known_judges_read_as_they_must_on_natural_pairs(table):
    suite = jrh.natural_suite(table)
    right = jrh.measure(asked(jrh.scripted.Oracle(), suite))
    first = jrh.measure(asked(jrh.scripted.AlwaysFirst(), suite))
    tie = jrh.measure(asked(jrh.scripted.AlwaysTie(), suite))
    longer = jrh.measure(asked(jrh.scripted.LongerWins(), suite))
    assert (value(right, "natural/accuracy"), value(right, "natural/stable_correct")) == (1, 1)
    assert (value(first, "natural/accuracy"), value(first, "natural/positional")) == (0.5, 1)
    assert (value(tie, "natural/accuracy"), value(tie, "natural/no_preference")) == (0, 1)
    # "Goodbye." is longer and wrong, "5" and "4" are equally long, the third is longer and right.
    for axis in ("stable_wrong", "no_preference", "stable_correct"):
        assert value(longer, f"natural/{axis}") == pytest.approx(1 / 3)
    assert all(axis.startswith("natural/") for axis in right.estimates)


def test_pairs_that_people_call_equal_are_read_apart(table):
    more = {"instruction": ["Say hi."], "first": ["Hi."], "second": ["Hi!"], "better": ["both"]}
    mixed = pd.concat([table, pd.DataFrame(more)], ignore_index=True)
    suite, plain = jrh.natural_suite(mixed, tie_values=("tie", "both")), jrh.natural_suite(table)
    assert [(item.condition, item.better) for item in suite.items[2:]] == [("natural", "u"), ("natural_tie", None)]
    judges = {"Oracle": 1.0, "AlwaysTie": 1.0, "AlwaysFirst": 0.0, "LongerWins": 1.0}
    for name, ties in judges.items():
        with_ties, without = (jrh.measure(asked(getattr(jrh.scripted, name)(), of)).estimates for of in (suite, plain))
        assert with_ties.pop("natural/tie_accuracy").value == ties
        # A judge is neither better nor worse by them in anything else.
        assert with_ties == without
    assert declared("natural/tie_accuracy").direction is None
    assert not {finding.axis for finding in jrh.measure(asked(jrh.scripted.AlwaysFirst(), suite)).verdict.findings} & {
        "natural/tie_accuracy"
    }


def test_a_missing_column_is_named_with_the_columns_there_are(table):
    message = refused(table.drop(columns=["first", "better"]))
    assert message == "The table lacks the column(s) first, better. Columns there are: instruction, second."


def test_an_unknown_column_role_gets_the_nearest_known_one(table):
    message = refused(table, columns={"instructions": "instruction"})
    assert message == "Unknown column role 'instructions'. Did you mean 'instruction'?"


@pytest.mark.parametrize("label", ["3", "u", "equal", 1.5])
def test_an_unknown_label_is_named_with_its_row(table, label):
    message = refused(table.assign(better=["1", label, "2"]))
    assert message == f"Row 1: `better` must be one of 1, 2, tie, but is '{label}'."


@pytest.mark.parametrize("empty", [None, np.nan])
@pytest.mark.parametrize("column", ["instruction", "first", "second", "better", "id", "task"])
def test_a_missing_cell_is_refused_and_never_becomes_the_text_nan(table, column, empty):
    full = table.assign(id=["x", "y", "z"], task=["a", "b", "c"])
    full[column] = [full[column][0], empty, full[column][2]]
    assert refused(full) == f"Row 1: `{column}` ({column}) has no value. Fill it, or drop the row."


def test_an_empty_response_is_a_response(table):
    suite = jrh.natural_suite(table.assign(second=["", "4", ""]))
    assert suite.items[0].v == ""


def test_an_empty_table_is_an_empty_suite(table):
    assert refused(table.iloc[:0]).startswith("The suite has no ")


def test_duplicate_ids_are_refused(table):
    assert refused(table.assign(id=["x", "y", "x"])).endswith(" 1 repeat: x.")
