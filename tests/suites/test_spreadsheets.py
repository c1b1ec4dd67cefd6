"""Spreadsheets: cells come in and go out as they are, and nothing that a model wrote runs as a formula."""

from __future__ import annotations

import datetime
import sys
from pathlib import Path

import openpyxl
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import jrh_mlflow as jrh
from jrh_mlflow.errors import JrhError, RecipeError
from jrh_mlflow.outputs import begins_formula, remove_guard
from jrh_mlflow.suites.dataset import read_table
from jrh_mlflow.suites.spreadsheets import LONGEST_CELL, items_frame, write_table

HOSTILE = [
    "=1+1",
    "+cmd|' /C calc'!A0",
    "-2+3",
    "@SUM(A1)",
    "\t=1",
    '=HYPERLINK("http://x")',
    "'=1",
    "_x0041_",
    "a\nb",
]


def book(path: Path, sheets: dict[str, list[list[object]]]) -> Path:
    made = openpyxl.Workbook()
    made.remove(made.active)
    for name, rows in sheets.items():
        sheet = made.create_sheet(name)
        for row in rows:
            sheet.append(row)
    made.save(path)
    return path


def test_numbers_booleans_and_empty_cells_are_read_as_written(tmp_path: Path) -> None:
    day = datetime.date(2026, 1, 2)
    rows = [["id", "score", "ok", "day", "none"], ["007", 3, True, day, None], ["8", 2.5, False, None, "NA"]]
    path = book(tmp_path / "a.xlsx", {"first": [*rows, [], [None]], "Round 2": [["x"], [1]]})
    first, second = read_table(path).to_dict("records")
    assert first == {"id": "007", "score": 3, "ok": True, "day": "2026-01-02", "none": None}
    assert (type(first["score"]), type(first["ok"]), second["score"], second["none"]) == (int, bool, 2.5, "NA")
    assert read_table(f"{path}#Round 2").to_dict("records") == [{"x": 1}]


@pytest.mark.parametrize(
    ("rows", "text"),
    [
        ([["a"], ["=A1"]], "A2 is a formula that was never computed"),
        ([["a", None], [1, 2]], "column 2 has cells and no name"),
        ([["a", "a"], [1, 2]], "two columns are named 'a'"),
        ([["a"]], "has no rows"),
        ([], "is empty"),
    ],
)
def test_a_sheet_that_is_no_table_is_refused(rows: list[list[object]], text: str, tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match=text):
        read_table(book(tmp_path / "a.xlsx", {"s": rows}))


def test_a_missing_sheet_names_the_nearest_and_all_others(tmp_path: Path) -> None:
    path = book(tmp_path / "a.xlsx", {"answers": [["a"], [1]], "notes": [["b"], [2]]})
    with pytest.raises(
        RecipeError, match=r"no sheet 'answer'. Did you mean 'answers'\? Sheets there are: answers, notes"
    ):
        read_table(f"{path}#answer")
    (tmp_path / "old.xlsx").write_bytes(b"\xd0\xcf\x11\xe0")
    with pytest.raises(RecipeError, match=r"no \.xlsx file"):
        read_table(tmp_path / "old.xlsx")


def test_without_the_library_the_message_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = book(tmp_path / "a.xlsx", {"s": [["a"], [1]]})
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    for act in (lambda: read_table(path), lambda: write_table(pd.DataFrame({"a": [1]}), tmp_path / "b.xlsx")):
        with pytest.raises(RecipeError, match=r"pip install 'jrh-mlflow\[excel\]'"):
            act()


@pytest.mark.parametrize("ending", ["xlsx", "csv"])
def test_text_that_begins_like_a_formula_is_text_and_comes_back(ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"a.{ending}"
    frame = pd.DataFrame({"=head": HOSTILE})
    notes = write_table(frame, path)
    if ending == "xlsx":
        cells = [cell for row in openpyxl.load_workbook(path).active.iter_rows() for cell in row]
        assert {cell.data_type for cell in cells} == {"s"}
        assert (list(read_table(path)["=head"]), notes) == (HOSTILE, [])
        return
    read = read_table(path)
    assert not [text for text in [*read.columns, *read.iloc[:, 0]] if begins_formula(text)]
    assert [remove_guard(text) for text in read["'=head"]] == HOSTILE
    assert notes == ["a.csv: 6 cell(s) begin like a formula and have an apostrophe before them"]


def test_a_number_with_a_sign_stays_a_number(tmp_path: Path) -> None:
    write_table(pd.DataFrame({"answer": ["-1", "+2", "-1.5"]}), tmp_path / "a.csv")
    assert list(read_table(tmp_path / "a.csv")["answer"]) == ["-1", "+2", "-1.5"]


def test_what_a_cell_cannot_hold_is_replaced_or_cut_and_said(tmp_path: Path) -> None:
    texts = ["a\x00\x1b[31m", "half \ud800", "x" * LONGEST_CELL, "\U0001f600" * LONGEST_CELL, "_x0041_" * LONGEST_CELL]
    notes = write_table(pd.DataFrame({"text": texts}, dtype=object), tmp_path / "a.xlsx")
    assert [note.partition(" held")[0] for note in notes] == ["a.xlsx: 4 cell(s)"]
    control, half, whole, faces, underscores = read_table(tmp_path / "a.xlsx")["text"]
    assert (control, half, whole) == ("a\ufffd\ufffd[31m", "half \ufffd", texts[2])
    for cut in (faces, underscores):
        assert "… [cut, " in cut
        assert len(cut.encode("utf-16-le")) <= 2 * LONGEST_CELL


@settings(max_examples=12, deadline=None)
@given(st.lists(st.one_of(st.none(), st.booleans(), st.integers(-(2**50), 2**50), st.text(min_size=1)), min_size=20))
def test_every_cell_comes_back_but_for_characters_that_cannot_be_written(tmp_path_factory, cells) -> None:
    path = tmp_path_factory.mktemp("cells") / "a.xlsx"
    notes = write_table(pd.DataFrame({"id": range(len(cells)), "cell": pd.Series(cells, dtype=object)}), path)
    read = list(read_table(path).get("cell", [None] * len(cells)))
    if not notes:
        assert read == cells
    assert [type(cell) for cell in read] == [type(cell) for cell in cells]


def test_a_file_that_is_there_is_not_written_over(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    write_table(pd.DataFrame({"a": [1]}), path)
    with pytest.raises(RecipeError, match="exists already"):
        write_table(pd.DataFrame({"a": [2]}), path)
    write_table(pd.DataFrame({"a": [2]}), path, force=True)
    assert list(read_table(path)["a"]) == ["2"]
    with pytest.raises(RecipeError, match=r"written as \.xlsx, \.csv or \.jsonl"):
        write_table(pd.DataFrame({"a": [1]}), tmp_path / "a.ods")
    with pytest.raises(JrhError, match="cannot be written"):
        write_table(pd.DataFrame({"a": [1]}), path / "b.csv")


def test_a_suite_is_one_row_per_item_with_the_text_before_and_after(tmp_path: Path, store_uri: str) -> None:
    rows = [{"id": "s1", "instruction": "Reply.", "response": "A short reply.", "label": "pass"}]
    rows += [{"id": "s2", "instruction": "Reply.", "response": "Another one.", "label": "fail"}]
    suite = jrh.generate(rows, tests=["padding"], rubric="Good?", labels=("fail", "pass"), tracking_uri=store_uri)
    frame = items_frame(suite.items)
    assert len(frame) == len(suite)
    made = frame[frame["test"] == "padding"].set_index("source")
    assert made.loc["s1", "original"] == "A short reply."
    assert made.loc["s1", "text"] != "A short reply."
    assert (made.loc["s1", "label"], made.loc["s2", "label"]) == ("pass", "fail")
    write_table(frame, tmp_path / "items.xlsx")
    assert list(read_table(tmp_path / "items.xlsx")["text"]) == list(frame["text"])


@pytest.mark.parametrize("ending", ["xlsx", "csv"])
def test_missing_cells_of_every_kind_are_empty_and_are_no_formula(ending: str, tmp_path: Path) -> None:
    cells = {"n": pd.array([1, pd.NA], dtype="Int64"), "text": pd.array([pd.NA, "a"], dtype="string"), "x": [None, 0.5]}
    assert write_table(pd.DataFrame(cells), tmp_path / f"a.{ending}") == []
    first, second = read_table(tmp_path / f"a.{ending}").to_dict("records")
    assert (first["text"] or None, first["x"] or None, second["n"] or None) == (None, None, None)
    assert (str(first["n"]), second["text"], float(second["x"])) == ("1", "a", 0.5)
