"""One table of reading gaps by language, on judges that read one language and not another."""

from __future__ import annotations

import json
from typing import Any

import pytest

import jrh_mlflow as jrh
from jrh_mlflow.comparing.by_language import LanguageComparison
from jrh_mlflow.errors import RecipeError
from jrh_mlflow.perturb.languages import language_of
from jrh_mlflow.schema.estimates import Estimate, NotEstimable
from jrh_mlflow.suites.tasks import built_in_tasks, task_language, translated_tasks

OVERLAP = jrh.scripted.WordOverlap()


def counts_in_english(presentation: jrh.Presentation) -> str:
    """Counts words of the instruction in English, and sees nothing anywhere else."""
    return OVERLAP(presentation) if language_of(presentation.instruction) == "en" else "1"


def suite(code: str) -> jrh.Suite:
    if code == "en":
        return jrh.datasheet_suite(tasks=translated_tasks(), design="short")
    return jrh.datasheet_suite(language=code, design="short")


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> LanguageComparison:
    store = f"sqlite:///{tmp_path_factory.mktemp('store')}/mlflow.db"
    where: dict[str, Any] = {"tracking_uri": store, "experiment": "tests", "traces": "none", "progress": False}
    runs = [
        jrh.evaluate(judge, suite(code), **where) for judge in (counts_in_english, OVERLAP) for code in ("zh", "en")
    ]
    return jrh.by_language(runs)


def test_a_judge_that_counts_in_english_only_has_its_gap_there_and_nowhere_else(table):
    english, chinese = table.rows[2:] if table.rows[2].judge.startswith("counts") else table.rows[:2]
    assert (english.language, chinese.language, english.n_tasks) == ("en", "zh", 12)
    assert (english.ladder.value, english.matched.value) == (1.0, pytest.approx(0.5, abs=0.1))
    assert (chinese.ladder.value, chinese.matched.value, chinese.gap.value) == (0.5, 0.5, 0.0)
    beyond = chinese.beyond_english
    assert isinstance(beyond, Estimate)
    assert beyond.value == pytest.approx(-english.gap.value)
    assert beyond.cluster_high is not None
    assert (beyond.cluster_high < -0.15, beyond.n, beyond.unit) == (True, 12, "item")
    assert isinstance(english.beyond_english, NotEstimable)


def test_a_judge_that_counts_in_both_differs_in_nothing(table):
    chinese = next(row for row in table.rows if row.language == "zh" and not row.judge.startswith("counts"))
    beyond = chinese.beyond_english
    assert isinstance(beyond, Estimate)
    assert (beyond.cluster_low or 0) < 0 < (beyond.cluster_high or 0)
    assert chinese.checked == task_language("zh").checked


def test_the_table_is_markdown_data_and_a_frame(table):
    assert "| Chinese |" in table.to_markdown()
    assert len(json.loads(json.dumps(table.to_dict()))["rows"]) == len(table.to_frame()) == 4


def test_what_cannot_be_put_side_by_side_is_said(store_uri):
    where: dict[str, Any] = {"tracking_uri": store_uri, "experiment": "tests", "traces": "none", "progress": False}
    german = jrh.datasheet_suite(language="de", n_tasks=2, depth=1)
    first, again = (jrh.evaluate(jrh.scripted.AlwaysFirst(), german, **where) for _ in range(2))
    with pytest.raises(RecipeError, match="has two runs in German"):
        jrh.by_language([first, again])
    with pytest.raises(RecipeError, match="at least two runs"):
        jrh.by_language([first])
    tasks = [task for task in built_in_tasks() if task.id not in {one.id for one in translated_tasks()}]
    other = jrh.evaluate(jrh.scripted.AlwaysFirst(), jrh.datasheet_suite(tasks=tasks[:2], design="short"), **where)
    with pytest.raises(RecipeError, match="fewer than two tasks in common"):
        jrh.by_language([first, other])
