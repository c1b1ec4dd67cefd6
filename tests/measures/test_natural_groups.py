"""Natural pairs by group: RewardBench's recipe, the readings of each group, their place on pages and in MLflow."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import jrh_mlflow as jrh
from jrh_mlflow.errors import SuiteError
from jrh_mlflow.measures.behind import CallFinder
from jrh_mlflow.schema.presentation import Presentation
from jrh_mlflow.show.results import read_report
from tests import processes

RECIPE = Path(__file__).parents[2] / "recipes" / "rewardbench.py"
SUBSETS = ("alpacaeval-easy", "llmbar-natural", "donotanswer", "math-prm", "hep-python")


def published(n: int = 30) -> pd.DataFrame:
    """The columns of the published file; in `llmbar-natural` the rejected answer is the longer one."""
    rows = []
    for number in range(n):
        subset = SUBSETS[number % len(SUBSETS)]
        short, long = f"Answer {number}.", f"Answer {number}, with many more words than anybody needs."
        chosen, rejected = (short, long) if subset == "llmbar-natural" else (long, short)
        prompt = f"Question {number // 2}?"
        rows.append({"prompt": prompt, "chosen": chosen, "chosen_model": "a", "rejected": rejected})
        rows[-1] |= {"rejected_model": "b", "subset": subset, "id": number % 4}
    return pd.DataFrame(rows)


@pytest.fixture(scope="module")
def recipe() -> dict[str, Any]:
    return runpy.run_path(str(RECIPE))


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("rewardbench") / "filtered.parquet"
    published().to_parquet(path)
    return path


def longer(shown: Presentation) -> str:
    return "1" if len(shown.first or "") > len(shown.second or "") else "2"


@pytest.fixture(scope="module")
def done(recipe: dict[str, Any], file: Path, store_uri: str) -> jrh.Evaluation:
    suite = recipe["rewardbench"](str(file))
    return jrh.evaluate(longer, suite, tracking_uri=store_uri, experiment="tests", progress=False, metrics="all")


def test_the_recipe_writes_a_suite_whose_pairs_have_their_sections(file: Path, tmp_path: Path) -> None:
    processes.run(processes.SCRIPT, RECIPE, file, "-o", tmp_path / "suite", check=True)
    suite = jrh.load_suite(tmp_path / "suite")
    assert len(suite) == 30
    assert set(suite.groups.values()) == {"Chat", "Chat Hard", "Safety", "Reasoning"}
    assert len({item.task for item in suite.items}) == 15, "pairs on one prompt are one task"
    other = published(5).assign(subset="new")
    other.to_csv(tmp_path / "other.csv", index=False)
    refused = processes.run(processes.SCRIPT, RECIPE, tmp_path / "other.csv", "-o", tmp_path / "none")
    assert "No section is known for the subset(s) new." in refused.stderr


def test_every_section_is_read_by_itself(done: jrh.Evaluation) -> None:
    accuracy = {name: axes["accuracy"].value for name, axes in done.datasheet.categories.items()}
    assert accuracy == {"Chat": 1, "Chat Hard": 0, "Reasoning": 1, "Safety": 1}
    hard, whole = done.datasheet.categories["Chat Hard"], done.datasheet.estimates
    assert (hard["stable_wrong"].value, hard["accuracy"].n, whole["natural/accuracy"].n) == (1, 12, 60)
    assert hard["accuracy"].cluster_high > hard["accuracy"].value
    assert done.metrics["category/chat_hard/accuracy/rate"] == 0
    assert done.metrics["category/chat_hard/accuracy/n"] == 12


def test_a_group_reads_what_its_calls_alone_read(done: jrh.Evaluation) -> None:
    own = done.calls[done.calls["suite_item"].map(done.suite.groups) == "Chat Hard"]
    alone = jrh.measure(own).estimates
    for axis, reading in done.datasheet.categories["Chat Hard"].items():
        assert alone[f"natural/{axis}"] == reading, axis


def test_pages_show_sections_and_lead_to_their_calls(done: jrh.Evaluation, store_uri: str) -> None:
    page = done.datasheet.to_markdown()
    assert "By category" in page
    assert "| `Chat Hard` | 0.00" in page
    again = read_report(done.datasheet.to_dict())
    assert list(again.categories) == list(done.datasheet.categories)
    finder = CallFinder(done.calls, groups=done.suite.groups)
    behind = finder.behind("category/Chat Hard/accuracy")
    assert (behind.calls.sum(), behind.n, behind.numerator) == (12, 12, 0)
    assert set(done.calls[behind.calls]["suite_item"].map(done.suite.groups)) == {"Chat Hard"}
    assert finder.behind("category/Chat/stable_correct").n == 6
    assert "categories" not in jrh.measure(done.calls).to_dict()
    rules = jrh.gate(done.run_id, ["category/chat_hard/accuracy > 0.5"], tracking_uri=store_uri)
    assert rules.passed is False


def test_pairs_without_groups_are_as_they_were() -> None:
    table = pd.DataFrame([{"instruction": "q", "first": "a", "second": "b", "better": "1", "group": "x"}])
    suite = jrh.natural_suite(table)
    assert suite.groups == {}
    assert jrh.natural_suite(table.drop(columns="group")).sha256 == suite.sha256
    assert jrh.natural_suite(table, columns={"group": "group"}).groups == {"pair-00000": "x"}
    with pytest.raises(SuiteError, match="lacks the column"):
        jrh.natural_suite(table, columns={"group": "subset"})
