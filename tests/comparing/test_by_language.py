"""One table of reading gaps by language, on judges that read one language and not another."""

from __future__ import annotations

import json
from typing import Any

import pytest

import jrh_mlflow as jrh
from jrh_mlflow.comparing.across_suites import LanguageReading
from jrh_mlflow.comparing.compare import SuitesComparison
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
def done(tmp_path_factory: pytest.TempPathFactory) -> SuitesComparison:
    store = f"sqlite:///{tmp_path_factory.mktemp('store')}/mlflow.db"
    where: dict[str, Any] = {"tracking_uri": store, "experiment": "tests", "traces": "none", "progress": False}
    runs = [
        jrh.evaluate(judge, suite(code), **where) for judge in (counts_in_english, OVERLAP) for code in ("zh", "en")
    ]
    compared = jrh.compare(runs, log=False)
    assert isinstance(compared, SuitesComparison)
    return compared


@pytest.fixture
def rows(done: SuitesComparison) -> tuple[LanguageReading, ...]:
    return done.across.languages


def test_a_judge_that_counts_in_english_only_has_its_gap_there_and_nowhere_else(rows):
    english, chinese = rows[2:] if rows[2].judge.startswith("counts") else rows[:2]
    assert (english.language, chinese.language, english.n_tasks) == ("en", "zh", 12)
    assert (english.ladder.value, english.matched.value) == (1.0, pytest.approx(0.5, abs=0.1))
    assert (chinese.ladder.value, chinese.matched.value, chinese.gap.value) == (0.5, 0.5, 0.0)
    beyond = chinese.beyond_english
    assert isinstance(beyond, Estimate)
    assert beyond.value == pytest.approx(-english.gap.value)
    assert beyond.cluster_high is not None
    assert (beyond.cluster_high < -0.15, beyond.n, beyond.unit) == (True, 12, "item")
    assert isinstance(english.beyond_english, NotEstimable)


def test_a_judge_that_counts_in_both_differs_in_nothing(rows):
    chinese = next(row for row in rows if row.language == "zh" and not row.judge.startswith("counts"))
    beyond = chinese.beyond_english
    assert isinstance(beyond, Estimate)
    assert (beyond.cluster_low or 0) < 0 < (beyond.cluster_high or 0)
    assert chinese.checked == task_language("zh").checked


def test_the_table_is_markdown_data_and_a_frame(done):
    assert "| Chinese |" in done.to_markdown()
    assert len(json.loads(json.dumps(done.to_dict()))["languages"]) == 4
    frame = done.to_frame()
    assert (frame["axis"] == "reading_gap_beyond_english").sum() == 4


def test_a_judge_without_one_suite_in_english_has_no_difference_from_it(store_uri):
    where: dict[str, Any] = {"tracking_uri": store_uri, "experiment": "tests", "traces": "none", "progress": False}
    runs = [
        jrh.evaluate(judge, suite(code), **where)
        for judge, code in ((OVERLAP, "de"), (OVERLAP, "zh"), (jrh.scripted.AlwaysFirst(), "en"))
    ]
    german, chinese = (row for row in jrh.compare(runs, log=False).across.languages if row.language != "en")
    assert (german.language, chinese.language) == ("de", "zh")
    assert "0 runs in English" in german.beyond_english.reason


def test_suites_without_tasks_in_common_have_no_table_by_language(store_uri):
    where: dict[str, Any] = {"tracking_uri": store_uri, "experiment": "tests", "traces": "none", "progress": False}
    tasks = [task for task in built_in_tasks() if task.id not in {one.id for one in translated_tasks()}]
    suites = [suite("de"), jrh.datasheet_suite(tasks=tasks[:2], design="short")]
    runs = [jrh.evaluate(jrh.scripted.AlwaysFirst(), one, **where) for one in suites]
    assert jrh.compare(runs, log=False).across.languages == ()
