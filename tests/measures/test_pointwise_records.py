"""Pointwise records: which tables are taken as such, and one clear line for each rule that is broken."""

from __future__ import annotations

import io
import re

import pandas as pd
import pytest

import jrh_mlflow as jrh
from jrh_mlflow.errors import CallsError
from jrh_mlflow.measures.records import complete_pairs, normalise
from jrh_mlflow.show.results import Datasheet, ReliabilityReport
from tests.measures.pointwise import point, repeats
from tests.readings import Row, pair


def good() -> list[Row]:
    return [point("baseline", "4", "4"), point("typos", "3", "4"), *repeats("padding", ["4", "error"], "4")]


def broken(**changes: object) -> list[Row]:
    first, *rest = good()
    return [first | changes, *rest]


def refused(calls: list[Row]) -> str:
    with pytest.raises(CallsError) as caught:
        jrh.measure(calls)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_table_without_presentation_orders_gives_a_reliability_report_and_pairs_give_a_datasheet():
    assert isinstance(jrh.measure(good()), ReliabilityReport)
    assert isinstance(jrh.measure(pair("equal", "1", "tie", delta=0.0)), Datasheet)


def test_pairs_and_pointwise_items_in_one_table_are_to_be_measured_apart():
    message = refused([*good(), *pair("equal", "1", "tie", delta=0.0)])
    assert "measure them apart" in message
    assert "2 record(s) are of pairs and 4 pointwise" in message


def test_an_unknown_condition_with_a_presentation_order_is_a_misspelt_pair_condition():
    message = refused([*good(), *pair("step", "1", "2", condition="laddder")])
    assert message.startswith("Unknown condition 'laddder'. Did you mean 'ladder'?")


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"suite_item": ""}, "`suite_item` must not be empty"),
        ({"task": ""}, "`task` must not be empty … the source of the item"),
        ({"condition": ""}, "`condition` must be baseline or the name of a reliability test"),
        ({"outcome": "tie"}, "`outcome` must be one of … for pointwise items"),
        ({"replicate": -1}, "`replicate` must be 0, 1, …"),
        ({"delta": 0.0}, "`delta` must be empty for pointwise items"),
        ({"better": "u"}, "`better` must be empty for pointwise items"),
        ({"answer": ""}, "`answer` must not be empty where `outcome` is verdict"),
        ({"outcome": "error"}, "`answer` must be empty unless `outcome` is verdict"),
    ],
)
def test_each_broken_rule_is_one_line_with_the_item(changes, rule):
    item = changes.get("suite_item", "s0/baseline")
    message = refused(broken(**changes))
    assert all(part in message for part in rule.split(" … "))
    assert message.endswith(f" 1 record(s) break it (items {item}).")


def test_an_item_is_asked_once_per_replicate():
    assert re.search(r"item x replicate, .*\b1 record", refused([*good(), good()[0]]))


@pytest.mark.parametrize(("column", "value"), [("expected", "1"), ("task", "other"), ("condition", "markdown")])
def test_one_item_has_one_meaning(column, value):
    rows = repeats("typos", ["4", "4"], "4")
    assert refused([rows[0], rows[1] | {column: value}]).endswith(f"several values of `{column}` (items s0/typos).")


def test_a_stopped_run_keeps_every_pointwise_record():
    frame = normalise(good())
    pd.testing.assert_frame_equal(complete_pairs(frame), frame)


def test_records_that_went_through_csv_read_the_same():
    """CSV turns the levels 3 and 4 into 3.0 and 4.0 beside an empty cell."""
    frame = pd.DataFrame(good())
    back = pd.read_csv(io.StringIO(frame.to_csv(index=False)))
    assert back["answer"].dtype == float
    assert jrh.measure(back).to_dict() == jrh.measure(frame).to_dict()


def test_the_order_of_the_records_does_not_matter():
    rows = good()
    assert jrh.measure(rows[::-1]).to_dict() == jrh.measure(rows).to_dict()


def test_an_answer_outside_the_given_labels_is_refused_with_the_labels():
    with pytest.raises(CallsError, match=r"'4' stand\(s\) in `answer` or `expected` but is none of the labels 1, 2, 3"):
        jrh.measure(good(), labels=["1", "2", "3"])


@pytest.mark.parametrize("labels", [["1"], ["1", "1"], [], ["1", "1.0"]])
def test_labels_are_two_or_more_different_ones(labels):
    with pytest.raises(ValueError, match="two or more different"):
        jrh.measure(good(), labels=labels)


def test_pairs_have_no_labels():
    with pytest.raises(ValueError, match="are about pointwise records"):
        jrh.measure(pair("equal", "1", "tie", delta=0.0), labels=["1", "2"])
