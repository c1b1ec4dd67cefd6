"""Call records: what is forgiven, and one clear line for each rule that is broken."""

from __future__ import annotations

import io

import numpy as np
import pandas as pd
import pytest

import jrh_mlflow as jrh
from jrh_mlflow.errors import CallsError
from jrh_mlflow.measures.records import normalise
from jrh_mlflow.schema.items import REQUIRED_COLUMNS, CallRecord
from tests.readings import Row, pair, pairs


def good() -> list[Row]:
    return [
        *pair("equal", "1", "tie", delta=0.0),
        *pair("step", "1", "2", condition="ladder", delta=1.0, better="u"),
        *pair("empty", "abstain", "error", condition="vacuum_empty"),
        *pair("real", "2", "unparsed", condition="natural", better="v"),
    ]


def broken(**changes: object) -> list[Row]:
    """The good records with the first one changed."""
    first, *rest = good()
    return [first | changes, *rest]


def refused(calls: object) -> str:
    with pytest.raises(CallsError) as caught:
        jrh.measure(calls)  # type: ignore[arg-type]
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_good_records_are_taken_as_rows_call_records_or_a_table():
    rows = good()
    tables = [rows, iter(rows), pd.DataFrame(rows), [CallRecord(**row) for row in rows]]
    sheets = [jrh.measure(calls).to_dict() for calls in tables]
    assert sheets.count(sheets[0]) == len(sheets)


def test_records_that_went_through_csv_read_the_same():
    """CSV turns the slot 1 into 1.0 and an empty cell into NaN."""
    frame = pd.DataFrame(good())
    back = pd.read_csv(io.StringIO(frame.to_csv(index=False)))
    assert back["answer"].dtype == float
    pd.testing.assert_frame_equal(normalise(back), normalise(frame))


def test_records_that_went_through_parquet_read_the_same(tmp_path):
    frame = pd.DataFrame(good())
    frame.to_parquet(tmp_path / "calls.parquet")
    pd.testing.assert_frame_equal(normalise(pd.read_parquet(tmp_path / "calls.parquet")), normalise(frame))


@pytest.mark.parametrize("empty", [None, np.nan, "", pd.NA])
def test_every_kind_of_empty_cell_is_empty(empty):
    rows = [
        {key: empty if cell in ("", None) else cell for key, cell in row.items()}
        for row in pair("empty", "tie", "tie", condition="vacuum_empty")
    ]
    frame = normalise(pd.DataFrame(rows, dtype=object))
    assert frame["better"].tolist() == frame["answer"].tolist() == ["", ""]
    assert frame["delta"].isna().all()


def test_text_columns_may_be_categories_and_numbers_may_be_text():
    frame = pd.DataFrame(good())
    expected = normalise(frame)
    for column in ("suite_item", "task", "condition", "order", "better", "outcome", "answer"):
        frame[column] = frame[column].astype("category")
    frame["delta"] = [f"{delta:g}" if delta == delta else "" for delta in frame["delta"]]
    frame["replicate"] = "0"
    pd.testing.assert_frame_equal(normalise(frame), expected)


def test_other_columns_are_ignored_and_the_index_does_not_matter():
    frame = pd.DataFrame(good()).assign(note="…", cost_usd=1.0)
    frame.index = pd.Index([7] * len(frame))
    assert jrh.measure(frame).to_dict() == jrh.measure(good()).to_dict()


@pytest.mark.parametrize("calls", [[], pd.DataFrame(), pd.DataFrame(columns=list(REQUIRED_COLUMNS))])
def test_no_records_are_refused(calls):
    assert refused(calls) == "There are no call records: nothing to measure. Check the file or the filter before it."


@pytest.mark.parametrize("column", REQUIRED_COLUMNS)
def test_a_missing_column_is_named_with_the_columns_there_are(column):
    message = refused(pd.DataFrame(good()).drop(columns=column))
    assert message.startswith(f"Call records lack the column(s) {column}.")
    assert "Columns there are: " in message


def test_a_misspelt_column_is_suggested():
    message = refused(pd.DataFrame(good()).rename(columns={"outcome": "outcomes"}))
    assert "Did you mean 'outcomes'?" in message


def test_an_unknown_condition_is_named_with_the_nearest_known_one():
    message = refused(broken(condition="laddder"))
    assert message.startswith("Unknown condition 'laddder'. Did you mean 'ladder'? Known: vacuum_empty, ")


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"suite_item": ""}, "`suite_item` must not be empty"),
        ({"task": None}, "`task` must not be empty: it is the cluster of the interval"),
        ({"outcome": "win"}, "`outcome` must be one of verdict, tie, abstain, unparsed, error"),
        ({"outcome": "Verdict"}, "`outcome` must be one of verdict, tie, abstain, unparsed, error"),
        ({"replicate": -1}, "`replicate` must be 0, 1, …"),
        ({"replicate": None}, "`replicate` must be 0, 1, …"),
        ({"replicate": 0.5}, "`replicate` must be 0, 1, …"),
        ({"order": "vuu"}, "`order` must be uv or vu for pairs"),
        ({"order": ""}, "`order` must be uv or vu for pairs"),
        ({"delta": 1.0}, "`delta` must be 0 in the conditions delta_0_same and delta_0_different"),
        ({"better": "u"}, "`better` must be empty where neither content is better"),
        ({"answer": "3"}, "`answer` must be 1 or 2 where `outcome` is verdict"),
        ({"answer": ""}, "`answer` must be 1 or 2 where `outcome` is verdict"),
        ({"outcome": "tie"}, "`answer` must be empty unless `outcome` is verdict"),
        ({"outcome": "error"}, "`answer` must be empty unless `outcome` is verdict"),
    ],
)
def test_each_broken_rule_is_one_line_with_the_item(changes, rule):
    message = refused(broken(**changes))
    item = changes.get("suite_item", "equal")
    assert message == f"{rule}, but 1 record(s) break it (items {item})."


@pytest.mark.parametrize("delta", [None, 0, -1.0, np.nan])
def test_a_ladder_call_needs_its_step(delta):
    message = refused(pair("step", "1", "2", condition="ladder", better="u", delta=delta))
    assert (
        message
        == "`delta` must be above 0 in the conditions ladder and ladder_matched, but 2 record(s) break it (items step)."
    )


@pytest.mark.parametrize("condition", ["ladder", "natural"])
@pytest.mark.parametrize("better", ["", None, "1", "tie"])
def test_a_pair_with_a_better_content_must_say_which(condition, better):
    message = refused(pair("step", "1", "2", condition=condition, delta=1.0, better=better))
    assert message.startswith(
        "`better` must be u or v in the conditions ladder, ladder_matched and natural, but 2 record(s)"
    )


def test_a_pair_with_one_order_missing_is_refused_because_direction_needs_both():
    message = refused(good()[1:])
    assert message.startswith("A pair needs both presentation orders, but 1 ")
    assert message.endswith("(items equal).")


def test_a_replicate_with_one_order_missing_is_refused_although_the_item_has_both():
    extra = pair("equal", "1", "1", delta=0.0, replicate=1)[:1]
    assert "A pair needs both presentation orders, but 1 " in refused(good() + extra)


def test_a_call_that_stands_twice_is_refused():
    message = refused([*good(), good()[0]])
    assert message == "A call is item x order x replicate, but 1 record(s) repeat one (items equal)."


@pytest.mark.parametrize(
    ("column", "changes"),
    [
        ("task", {"task": "other"}),
        ("condition", {"condition": "delta_0_different"}),
        ("delta", {"delta": None}),
    ],
)
def test_one_item_has_one_meaning(column, changes):
    assert refused(broken(**changes)) == f"One item has several values of `{column}` (items equal)."


def test_the_better_side_of_an_item_is_the_same_in_both_orders():
    first, second = pair("step", "1", "2", condition="ladder", delta=1.0, better="u")
    assert refused([first, second | {"better": "v"}]) == "One item has several values of `better` (items step)."


@pytest.mark.parametrize("delta", [float("inf"), "inf"])
def test_an_infinite_step_is_refused(delta):
    assert "Column 'delta' holds an infinite number (items equal)." in refused(broken(delta=delta))


def test_text_where_a_number_belongs_is_refused():
    assert refused(broken(delta="one")).startswith("Column 'delta' must hold numbers: ")


def test_many_broken_records_are_counted_but_only_five_are_named():
    rows = pairs([("1", "2")] * 8, delta=1.0)
    message = refused(rows)
    assert "but 16 record(s) break it (items item-0, item-1, item-2, item-3, item-4, …)." in message


@pytest.mark.parametrize("calls", ["calls.csv", {"suite_item": ["a"]}, [1, 2]])
def test_something_else_than_records_is_refused(calls):
    assert refused(calls).startswith("A call record must be a mapping or a CallRecord, but got ")


def test_nothing_of_the_callers_table_is_changed():
    frame = pd.DataFrame(good())
    before = frame.copy(deep=True)
    normalise(frame)
    pd.testing.assert_frame_equal(frame, before)
