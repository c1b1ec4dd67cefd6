"""The one way in: what a user passes is resolved and checked in one place, for every verb."""

from __future__ import annotations

from pathlib import Path

import pytest

import jrh_mlflow as jrh
from jrh_mlflow.errors import RecipeError, SuiteError
from jrh_mlflow.judges import AnsweringJudge, ModelJudge
from jrh_mlflow.measuring.resolve import default_journal, journal_at, prepare, resolve_judge, resolve_suite
from jrh_mlflow.suites.suite import mark_hash, reviews_folder
from jrh_mlflow.tracking.runs.outbox import outbox_home

MODEL = "openai/gpt-4o-mini"


def tie(_: jrh.Presentation) -> str:
    return "tie"


@pytest.mark.parametrize(
    "judge",
    [MODEL, jrh.PromptedJudge(MODEL), tie, jrh.scripted.Oracle()],
    ids=("name", "prompted", "function", "scripted"),
)
def test_every_judge_keeps_one_of_the_two_contracts(judge: object) -> None:
    found = resolve_judge(judge)
    assert isinstance(found, AnsweringJudge) != isinstance(found, ModelJudge)
    assert found.model_judge is (found if isinstance(found, ModelJudge) else None)
    assert hasattr(found, "ask") != hasattr(found, "request")


def test_what_is_prepared_knows_price_cap_calls_and_identity() -> None:
    prepared = prepare(MODEL, "datasheet-short", replicates=2, max_usd=1.5, prices={MODEL: (1, 2)})
    assert prepared.cap_micro == 1_500_000
    assert prepared.price is not None
    assert prepared.n_calls == 2 * prepare(tie, "datasheet-short").n_calls
    again = prepare(jrh.PromptedJudge(MODEL), prepared.suite, replicates=2, max_usd=9, prices={MODEL: (1, 2)})
    assert again.identity == prepared.identity
    assert again.budget() == prepared.budget()
    assert prepare(tie, "datasheet-short").budget() is None


def test_a_cap_on_a_judge_that_answers_by_itself_is_refused() -> None:
    with pytest.raises(RecipeError, match="'tie' is a callable judge"):
        prepare(tie, "datasheet-short", max_usd=1)


def test_a_quote_of_a_judge_that_answers_by_itself_counts_its_calls() -> None:
    prepared = prepare(tie, "datasheet-short")
    quoted = prepared.quote()
    assert (quoted.calls, quoted.usd, quoted.worst_usd) == (prepared.n_calls, None, None)


@pytest.fixture
def _relative_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A relative `JRH_HOME`, first used in `here`; the test itself goes on `elsewhere`."""
    for name in ("here", "elsewhere"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv("JRH_HOME", f"state-of-{tmp_path.name}")
    monkeypatch.chdir(tmp_path / "here")
    with journal_at(None):
        pass
    monkeypatch.chdir(tmp_path / "elsewhere")


@pytest.mark.usefixtures("_relative_home")
def test_after_a_chdir_journal_reviews_and_outbox_still_lie_together(tmp_path: Path) -> None:
    suite = resolve_suite("datasheet-short")
    mark_hash(suite.sha256, "open")
    home = tmp_path / "here" / f"state-of-{tmp_path.name}"
    assert default_journal() == home / "journal.db"
    assert default_journal().is_file()
    assert reviews_folder() == home / "reviews"
    assert len(list(reviews_folder().iterdir())) == 1
    assert outbox_home() == home / "outbox"
    assert list((tmp_path / "elsewhere").iterdir()) == []
    with pytest.raises(SuiteError, match="under review"):
        prepare(tie, "datasheet-short")


def test_a_suite_under_review_is_not_exported_either(tmp_path: Path) -> None:
    from click.testing import CliRunner

    from jrh_mlflow.cli.main import group

    mark_hash(jrh.load_suite("datasheet-short").sha256, "open")
    arguments = ["batch", "export", "--model", MODEL, "--suite", "datasheet-short", "-o", str(tmp_path / "out.jsonl")]
    result = CliRunner().invoke(group, arguments)
    assert isinstance(result.exception, SuiteError)
    assert "under review" in str(result.exception)
    assert not (tmp_path / "out.jsonl").exists()


@pytest.mark.parametrize("verb", [jrh.evaluate, jrh.criterion_shift], ids=["evaluate", "criterion_shift"])
def test_a_suite_under_review_reaches_no_judge_and_leaves_no_run(verb: object, store_uri: str) -> None:
    import mlflow

    suite = jrh.datasheet_suite(n_tasks=1, depth=1)
    mark_hash(suite.sha256, "open")
    with pytest.raises(SuiteError, match="under review"):
        verb(tie, suite, tracking_uri=store_uri, experiment="held-back")  # type: ignore[operator]
    assert mlflow.MlflowClient(store_uri).get_experiment_by_name("held-back") is None
