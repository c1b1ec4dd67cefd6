"""Tables in: no cell changes on the way, and a file that would shift or split is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from jrh_mlflow.errors import RecipeError
from jrh_mlflow.suites.dataset import read_table


def test_cells_of_a_csv_stay_text(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("id,label\n007,NA\n", encoding="utf-8-sig")
    assert read_table(path).to_dict("records") == [{"id": "007", "label": "NA"}]


def test_rows_longer_than_the_header_are_refused_instead_of_shifting_every_column(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("id,a\n1,2,\n4,5,\n", encoding="utf-8")
    with pytest.raises(RecipeError, match="more cells than its header"):
        read_table(path)


def test_a_line_separator_inside_a_json_string_does_not_end_the_line(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "one\u2028two"}\r\n{"text": "three"}\n', encoding="utf-8", newline="")
    assert list(read_table(path)["text"]) == ["one\u2028two", "three"]
