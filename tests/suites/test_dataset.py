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


def refusal(path: Path, text: str) -> str:
    path.write_text(text, encoding="utf-8", newline="")
    with pytest.raises(RecipeError) as refused:
        read_table(path)
    return str(refused.value)


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize(
    ("lines", "number", "problem"),
    [
        (['{"a": 1}', '{"a": 2'], 2, "no JSON"),
        (['{"a": 1}', "", "", '{"a": 2'], 4, "no JSON"),
        (["", '{"a": 1}', "nonsense"], 3, "no JSON"),
        (['\ufeff{"a": 1}', '{"a": "one\u2028two"}', "", "[1]"], 4, "an object was expected"),
        (['{"a": "\u2028\u2029\x85\x0b\x0c"}', '{"a": 1,}'], 2, "no JSON"),
        (['{"a": 1}', "[" * 100_000], 2, "no JSON: too deep"),
    ],
)
def test_an_error_names_the_line_of_json_lines_as_an_editor_counts_it(
    lines: list[str], number: int, problem: str, newline: str, tmp_path: Path
) -> None:
    # A vertical tab may not stand in a JSON string as it is.
    text = newline.join(lines).replace("\x0b\x0c", "")
    assert f"a.jsonl cannot be read: line {number} " in (said := refusal(tmp_path / "a.jsonl", text))
    assert problem in said


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize(
    ("lines", "number"),
    [
        (["id,a", "1,2", "3,4,5"], 3),
        (["id,a", "", "1,2", "", "3,4,5"], 5),
        (["\ufeffid,a", '1,"one', "", 'two"', "3,4,5"], 5),
        (['id,"a', 'b"', "1,2", "3,4,5"], 4),
        (["id,a", "1,2", '3,"never closed', "4,5"], 3),
        (["id,a", "1,2,3", "4,5,6"], 2),
    ],
)
def test_an_error_names_the_line_of_a_csv_file_though_cells_hold_several(
    lines: list[str], number: int, newline: str, tmp_path: Path
) -> None:
    assert f"a.csv cannot be read: line {number}" in refusal(tmp_path / "a.csv", newline.join([*lines, ""]))
