"""CSV that this package writes: as many rows as records for every reader, and no cell that runs as a formula."""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import jrh_mlflow as jrh
from jrh_mlflow.outputs import begins_formula, csv_text, guard_formula, remove_guard, write_csv
from jrh_mlflow.suites.dataset import read_table

PACKAGE = Path(jrh.__file__).parent
STARTS = ("=", "+", "-", "@", "|", "%", "\t", "＝", "＋", "－", "＠")
SPACES = ("", " ", "\n", "\r", "\r\n", "\u00a0", "\u3000", " \n\t ")
TEXTS = st.text(st.one_of(st.characters(), st.sampled_from("\r\n\t =+-@|%＝＋－＠'\",;\x00\x1b\x85\u2028")))


def rows_of(text: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(text, newline="")))


@given(st.lists(st.tuples(TEXTS, TEXTS, st.integers()), min_size=1))
def test_every_reader_finds_as_many_rows_as_records_and_no_live_formula(cells: list[tuple[str, str, int]]) -> None:
    frame = pd.DataFrame(cells, columns=["a", "b", "n"])
    # An old reader takes a bare carriage return for the end of a row.
    for text in (csv_text(frame), csv_text(frame).replace("\r", "\n")):
        head, *rows = rows_of(text)
        assert head == ["a", "b", "n"]
        assert len(rows) == len(pd.read_csv(io.StringIO(text), dtype=str, keep_default_na=False)) == len(cells)
        assert [int(row[2]) for row in rows] == [n for *_, n in cells]
        assert not [cell for row in rows for cell in row if begins_formula(cell)]


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("space", SPACES)
def test_a_text_that_begins_like_a_formula_has_an_apostrophe_before_it(start: str, space: str) -> None:
    ((_, text),) = rows_of(csv_text(pd.DataFrame({"id": ["007"], "text": [f"{space}{start}cmd"]})))[1:]
    assert text.startswith("'")


def test_a_rationale_with_a_carriage_return_stays_one_row() -> None:
    frame = pd.DataFrame({"item": range(80), "rationale": ["It is better.\r=1+1", "\r=1+1"] * 40})
    text = csv_text(frame)
    assert "\r" not in text
    rows = rows_of(text)[1:]
    assert len(rows) == 80
    assert {row[1] for row in rows} == {"It is better.\n=1+1", "'\n=1+1"}


@given(TEXTS)
def test_the_guard_comes_off_and_leaves_the_text(text: str) -> None:
    assert remove_guard(guard_formula(text)) == text


def test_ids_labels_and_numbers_come_back_as_they_are(tmp_path: Path) -> None:
    frame = pd.DataFrame({"id": ["007", "-1"], "label": ["NA", ""], "x": [1, None], "yes": [True, False]})
    write_csv(frame, tmp_path / "a.csv")
    text = (tmp_path / "a.csv").read_text(encoding="utf-8")
    assert text == '"id","label","x","yes"\n"007","NA",1.0,True\n"-1","","",False\n'
    assert read_table(tmp_path / "a.csv")[["id", "label"]].to_numpy().tolist() == [["007", "NA"], ["-1", ""]]


def test_a_header_is_one_line_without_formula_or_control_character() -> None:
    frame = pd.DataFrame({"=cmd|' /C calc'!A0": ["-x"], "a\x1b[31mb\r\nc": ["1"], 3: [4]})
    assert rows_of(csv_text(frame)) == [["'=cmd|' /C calc'!A0", "a\ufffd[31mb c", "3"], ["'-x", "1", "4"]]


def test_csv_is_written_in_one_place() -> None:
    writers = re.compile(r"\.to_csv\(|csv\.(?:writer|DictWriter)\(")
    files = PACKAGE.rglob("*.py")
    found = {file.name for file in files if writers.search(file.read_text(encoding="utf-8"))}
    assert found == {"outputs.py"}
