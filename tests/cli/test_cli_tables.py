"""`--table` and spreadsheets as input, run as a user runs them."""

from __future__ import annotations

import json
from pathlib import Path

import openpyxl
import pandas as pd
import pytest
from click.testing import CliRunner, Result

from jrh_mlflow.cli.main import group
from jrh_mlflow.errors import RecipeError
from jrh_mlflow.suites.dataset import read_table
from tests.generation.tools import RUBRIC, rows

pytestmark = pytest.mark.quick


def cli(*arguments: object) -> Result:
    return CliRunner().invoke(group, [str(argument) for argument in arguments])


@pytest.fixture
def book(tmp_path: Path) -> Path:
    """Labelled responses on the second sheet, their ids numbers and their labels booleans."""
    path = tmp_path / "answers.xlsx"
    labelled = [{**row, "id": number, "label": row["label"] == "pass"} for number, row in enumerate(rows()[:6])]
    with pd.ExcelWriter(path, engine="openpyxl") as writer:
        pd.DataFrame({"about": ["nothing here"]}).to_excel(writer, sheet_name="read me", index=False)
        pd.DataFrame(labelled).to_excel(writer, sheet_name="round 2", index=False)
    return path


def test_a_spreadsheet_becomes_a_suite_and_its_items_and_calls_become_spreadsheets(
    book: Path, store_uri: str, tmp_path: Path
) -> None:
    made, asked = tmp_path / "items.xlsx", tmp_path / "calls.xlsx"
    more = ("--rubric", RUBRIC, "--tests", "padding,markdown", "--tracking-uri", store_uri, "-o", "suite")
    done = cli("generate", f"{book}#round 2", *more, "--table", made)
    assert done.exit_code == 0, (done.output, done.exception)
    items = read_table(made)
    assert set(items["test"]) == {"baseline", "padding", "markdown"}
    assert set(items["label"]) == {"true", "false"}
    done = cli(
        "evaluate", "--judge", "scripted:Oracle", "--suite", "suite", "--table", asked, "--tracking-uri", store_uri
    )
    assert done.exit_code == 0, (done.output, done.exception)
    calls = read_table(asked)
    assert set(calls["suite_item"]) == set(items["id"])
    assert (calls["answer"] == calls["expected"]).all()
    done = cli("suite", "show", "suite", "--table", tmp_path / "again.csv")
    assert done.exit_code == 0, (done.output, done.exception)
    assert list(read_table(tmp_path / "again.csv")["id"]) == list(items["id"])


def test_a_recipe_names_a_sheet_of_a_file_beside_it(book: Path, store_uri: str, tmp_path: Path) -> None:
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    book.rename(folder / "answers.xlsx")
    recipe = folder / "recipe.yaml"
    recipe.write_text(f"dataset: 'answers.xlsx#round 2'\nrubric: {RUBRIC}\ntests: [typos]\n", encoding="utf-8")
    done = cli("generate", recipe, "--tracking-uri", store_uri, "-o", tmp_path / "suite")
    assert done.exit_code == 0, (done.output, done.exception)


def test_a_table_that_cannot_be_written_is_refused_before_anything_is_made(book: Path, store_uri: str) -> None:
    for path, text in ((book, "exists already"), (book.with_suffix(".ods"), "written as .xlsx, .csv or .jsonl")):
        done = cli("generate", f"{book}#round 2", "--rubric", RUBRIC, "--table", path, "-o", "none")
        assert isinstance(done.exception, RecipeError)
        assert text in str(done.exception)
    assert not Path("none").exists()
    assert openpyxl.load_workbook(book).sheetnames == ["read me", "round 2"]


def test_replay_takes_labels_of_single_responses_from_the_command_line(store_uri: str, tmp_path: Path) -> None:
    rows = [{"id": n, "said": {"label": said}, "gold": gold} for n, (said, gold) in enumerate(["ab", "bb", "aa", "bx"])]
    (tmp_path / "judged.json").write_text(json.dumps(rows).replace('"x"', '"b"'), encoding="utf-8")
    mapping = ("--map", "item=id", "--map", "answer=said.label", "--map", "expected=gold", "--tracking-uri", store_uri)
    done = cli("replay", tmp_path / "judged.json", *mapping, "--labels", "a,b", "--json")
    assert done.exit_code == 0, (done.output, done.exception)
    (facts,) = json.loads(done.stdout)
    assert facts["metrics"]["baseline/accuracy/rate"] == 3 / 4
    again = cli("replay", f"runs:/{facts['run_id']}", "--tracking-uri", store_uri, "--json")
    assert json.loads(again.stdout)[0]["metrics"]["baseline/fnr/rate"] == facts["metrics"]["baseline/fnr/rate"] == 1 / 3
