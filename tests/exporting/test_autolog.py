"""`jrh.autolog`: runs of `mlflow.genai.evaluate` name the datasheets of their judges, and change in nothing else."""

from __future__ import annotations

import inspect
import os
import threading
import warnings
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, Literal

import mlflow
import pytest
from mlflow import MlflowClient
from mlflow.genai import evaluate as imported_before
from mlflow.genai import make_judge
from mlflow.genai.scorers import RegexMatch, Safety, scorer

import jrh_mlflow as jrh
from jrh_mlflow.exporting import autolog as autolog_module
from jrh_mlflow.exporting import exported_scorers as exported
from jrh_mlflow.judges.scripted import LongerWins
from jrh_mlflow.models.families import kinship_note
from jrh_mlflow.show.plain_text import MAX_DESCRIPTION
from jrh_mlflow.tracking.runs import keys
from jrh_mlflow.tracking.traces.traces_in import models_of

ROWS = [{"inputs": {"instruction": "Explain tides."}, "outputs": {"A": "The moon, mostly.", "B": "Wind."}}]
WORKERS = "MLFLOW_GENAI_EVAL_MAX_WORKERS"


@scorer
def polite(outputs: Any) -> bool:
    return "please" in str(outputs)


def code_named(name: str) -> Any:
    return scorer(lambda outputs: True, name=name)


def clear_judge(name: str = "clear") -> Any:
    return make_judge(
        name=name,
        instructions="Is {{ outputs }} clear?",
        model="openai:/gpt-4o",
        feedback_value_type=Literal["yes", "no"],
    )


@pytest.fixture(scope="module")
def here(store_uri: str) -> Iterator[SimpleNamespace]:
    """A store with one measured judge in it, active for MLflow."""
    patch = pytest.MonkeyPatch()
    for name, value in {"MAX_WORKERS": "1", "SKIP_TRACE_VALIDATION": "true"}.items():
        patch.setenv(f"MLFLOW_GENAI_EVAL_{name}", value)
    mlflow.set_tracking_uri(store_uri)
    mlflow.set_experiment("application")
    suite = jrh.datasheet_suite(n_tasks=1, depth=2)
    measured = jrh.evaluate(LongerWins(), suite, experiment="judges", traces="none", progress=False)
    yield SimpleNamespace(
        client=MlflowClient(), measured=measured, scorer=jrh.to_mlflow(measured.run_id, name="longer")
    )
    mlflow.set_tracking_uri(None)
    for name in ("MLFLOW_EXPERIMENT_ID", "MLFLOW_EXPERIMENT_NAME", "MLFLOW_TRACKING_URI"):
        patch.delenv(name, raising=False)
    patch.undo()


@pytest.fixture(autouse=True)
def _logging(here: SimpleNamespace) -> Iterator[None]:
    jrh.autolog()
    yield
    jrh.autolog(disable=True)


def evaluated(*scorers: Any, evaluate: Any = None, data: Any = ROWS) -> Any:
    evaluate = evaluate or mlflow.genai.evaluate
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of MLflow's and pandas' own
        return evaluate(data, list(scorers))


def tags_of(here: SimpleNamespace, run_id: str) -> dict[str, str]:
    tags: dict[str, str] = here.client.get_run(run_id).data.tags
    return tags


def noted(here: SimpleNamespace, scorers: list[Any], *, run_id: str | None = None) -> dict[str, str]:
    """Note the judges of an evaluation that asked nobody, and return the tags of its run."""
    run_id = run_id or here.client.create_run(mlflow.get_experiment_by_name("application").experiment_id).info.run_id
    autolog_module.note_datasheets(run_id, scorers)
    return tags_of(here, run_id)


def line(tags: dict[str, str], name: str) -> str:
    [found] = [text for text in tags[keys.TAG_NOTE].splitlines() if f"`{name}`" in text]
    return found


def test_an_evaluation_links_the_datasheet_of_its_judge_and_says_what_is_code(here: SimpleNamespace) -> None:
    result = evaluated(here.scorer, polite)
    tags, run = tags_of(here, result.run_id), here.measured.run_id
    home = here.client.get_run(run).info.experiment_id
    assert tags["jrh.status.longer"] == f"measured: run {run}"
    assert tags["jrh.status.polite"] == "code"
    assert tags[keys.TAG_DATASHEETS] == "1 measured, 1 code"
    assert f"(#/experiments/{home}/runs/{run}?workflowType=machine_learning)" in line(tags, "longer")
    assert "Simulated" in line(tags, "longer")
    assert "not a judge" in line(tags, "polite")
    assert result.result_df is not None
    assert set(result.metrics) == {"polite/mean", "longer/win_rate", "longer/tie_share", "longer/flips"}
    again = evaluated(here.scorer, data=mlflow.search_traces(run_id=result.run_id))
    assert tags_of(here, again.run_id)["jrh.status.longer"] == tags["jrh.status.longer"]


def test_what_was_never_measured_is_told_with_the_command_that_measures_it(here: SimpleNamespace) -> None:
    tags = noted(here, [clear_judge(), Safety(), RegexMatch(pattern="a")])
    assert [tags[f"jrh.status.{name}"] for name in ("clear", "safety", "regex_match")] == [
        "never measured",
        "never measured",
        "code",
    ]
    for name in ("clear", "safety"):
        assert "jrh.evaluate(" in line(tags, name) or "jrh evaluate" in line(tags, name)


def test_a_stale_judge_is_told_with_what_differs(here: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    stale = jrh.Status(
        state="stale",
        name="clear",
        reason="Stale: prompt differs.",
        run_id=here.measured.run_id,
        measure="jrh evaluate x",
    )
    monkeypatch.setattr(autolog_module, "status", lambda *args, **options: stale)
    tags = noted(here, [clear_judge()])
    assert tags["jrh.status.clear"] == f"stale: run {here.measured.run_id}"
    assert "prompt differs" in line(tags, "clear")
    assert "`jrh evaluate x`" in line(tags, "clear")


@pytest.mark.since_mlflow("3.16")
def test_a_judge_of_the_family_of_the_application_is_told_so(here: SimpleNamespace) -> None:
    @mlflow.trace(span_type="CHAT_MODEL")
    def application(instruction: str) -> str:
        mlflow.get_current_active_span().set_attribute("mlflow.llm.model", "gpt-4o-mini-2024-07-18")
        return "The moon."

    rows = [{"inputs": {"instruction": "Explain tides."}}]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = mlflow.genai.evaluate(rows, [here.scorer, polite], predict_fn=application)
    [trace] = [*autolog_module._traces_of(result)]
    assert models_of([trace]) == ["gpt-4o-mini-2024-07-18"]
    run = here.client.create_run(mlflow.get_experiment_by_name("application").experiment_id).info.run_id
    autolog_module.note_datasheets(run, [clear_judge(), polite], models=models_of([trace]))
    note = kinship_note(["gpt-4o"], ["gpt-4o-mini"])
    assert note in line(tags_of(here, run), "clear")
    assert note not in line(tags_of(here, run), "polite")
    # A simulated judge is no model of a family.
    assert note not in line(tags_of(here, result.run_id), "longer")
    autolog_module.note_datasheets(run, [clear_judge()], models=["claude-sonnet-4-5"])
    assert note not in line(tags_of(here, run), "clear")


def test_members_of_an_ensemble_are_told_one_by_one(here: SimpleNamespace) -> None:
    from mlflow.genai.scorers import majority_vote, make_scorer_ensemble

    vote = make_scorer_ensemble(name="vote", scorers=[clear_judge(), here.scorer], ensemble_fn=majority_vote)
    rules = make_scorer_ensemble(name="rules", scorers=[polite, RegexMatch(pattern="a")], ensemble_fn=majority_vote)
    tags = noted(here, [vote, rules])
    assert tags["jrh.status.vote"] == "never measured"
    assert tags["jrh.status.rules"] == "code"
    assert tags["jrh.status.clear"] == "never measured"
    assert tags["jrh.status.longer"].startswith("measured")


def test_the_description_of_an_open_run_keeps_its_text_and_gets_one_section(here: SimpleNamespace) -> None:
    with mlflow.start_run(description="# Mine\n\nas it was") as outer, mlflow.start_run(nested=True) as run:
        here.client.set_tag(run.info.run_id, keys.TAG_NOTE, "# Mine\n\nas it was")
        first = evaluated(polite)
        assert first.run_id == run.info.run_id
        noted(here, [clear_judge()], run_id=run.info.run_id)
        tags = noted(here, [polite, polite], run_id=run.info.run_id)
    text = tags[keys.TAG_NOTE]
    assert text.startswith("# Mine\n\nas it was\n")
    assert text.count("`polite`") == text.count("`clear`") == text.count("## Judges") == 1
    assert tags[keys.TAG_DATASHEETS] == "1 never measured, 1 code"
    assert tags_of(here, outer.info.run_id)[keys.TAG_NOTE] == "# Mine\n\nas it was"


def test_all_that_a_user_writes_around_the_list_of_judges_stays() -> None:
    def described(text: str, **told: str) -> str:
        return autolog_module.described(text, {f"`{name}`": [f"- `{name}`: {what}"] for name, what in told.items()})

    once = described("Mine.", old="Never measured.", kept="code, not a judge.")
    mine = "\n\n- `old`: I like it.\n\n## My conclusions\nImportant text.\u2028More.\n- `old`: Stale, I think.\r\n"
    again = described(
        once.replace("Judges of this evaluation\n", "Judges of this evaluation\nBy me.\n") + mine, old="Stale."
    )
    assert again == (
        "Mine.\n\n## Judges of this evaluation\nBy me.\n\n- `kept`: code, not a judge.\n- `old`: Stale." + mine
    )
    assert described(again, old="Stale.") == again


def test_a_description_that_is_full_is_not_cut(here: SimpleNamespace) -> None:
    run = here.client.create_run("0", tags={keys.TAG_NOTE: "x" * (MAX_DESCRIPTION - 10)}).info.run_id
    tags = noted(here, [polite], run_id=run)
    assert tags[keys.TAG_NOTE] == "x" * (MAX_DESCRIPTION - 10)
    assert tags["jrh.status.polite"] == "code"


def test_scorers_with_names_of_any_script_are_counted_and_told_one_by_one(here: SimpleNamespace) -> None:
    names = ["礼貌", "安全", "x`y", "x_y", "x=y", "y" * 300, "y" * 301, "a//b", "../a"]
    tags = noted(here, [*(clear_judge(name) for name in names[:2]), *(code_named(name) for name in names[2:])])
    assert [tags[f"jrh.status.{name}"] for name in ("礼貌", "安全", "x_y")] == ["never measured"] * 2 + ["code"]
    assert sum(key.startswith(keys.STATUS_OF) for key in tags) == len(names)
    assert tags[keys.TAG_DATASHEETS] == "2 never measured, 7 code"


def test_scorers_of_one_name_are_each_counted_and_told(here: SimpleNamespace) -> None:
    other = here.scorer.model_copy()
    two = [here.scorer, other, code_named("longer"), code_named("longer")]
    tags = noted(here, two)
    measured = f"measured: run {here.measured.run_id}"
    assert tags["jrh.status.longer"] == f"{measured}; code; code"
    assert tags[keys.TAG_DATASHEETS] == "1 measured, 2 code"
    told = [text for text in tags[keys.TAG_NOTE].splitlines() if "`longer`" in text]
    assert ["Measured" in text for text in told] == [True, False]


@pytest.mark.parametrize("name", ["<b>bold</b>", "a`b", "größe", "x" * 300, "a=b|c"])
def test_any_name_of_a_scorer_is_told_and_none_comes_to_life(here: SimpleNamespace, name: str) -> None:
    tags = noted(here, [code_named(name)])
    [status] = [value for key, value in tags.items() if key.startswith("jrh.status.")]
    assert status == "code"
    assert name[:20].replace("`", "ˋ") in tags[keys.TAG_NOTE]
    assert "\n- <b>" not in tags[keys.TAG_NOTE]


def test_signature_and_documentation_stay_and_disable_gives_back_what_was_there(here: SimpleNamespace) -> None:
    for _ in range(3):
        jrh.autolog()
    from mlflow.genai import evaluate as imported_while_on

    assert imported_while_on is not imported_before
    assert inspect.signature(imported_while_on) == inspect.signature(imported_before)
    assert imported_while_on.__doc__ == imported_before.__doc__
    result = evaluated(polite)
    assert tags_of(here, result.run_id)[keys.TAG_DATASHEETS] == "1 code"
    for _ in range(2):
        jrh.autolog(disable=True)
        assert mlflow.genai.evaluate is imported_before
    for evaluate in (imported_before, imported_while_on):
        result = evaluated(polite, evaluate=evaluate)
        assert keys.TAG_DATASHEETS not in tags_of(here, result.run_id)


def test_a_name_that_was_imported_before_is_not_heard(here: SimpleNamespace) -> None:
    result = evaluated(polite, evaluate=imported_before)
    assert keys.TAG_DATASHEETS not in tags_of(here, result.run_id)


def test_exceptions_of_an_evaluation_are_its_own(here: SimpleNamespace) -> None:
    with pytest.raises(TypeError, match="scorers"):
        mlflow.genai.evaluate(data=ROWS)
    with pytest.raises(mlflow.MlflowException, match="scorers"):
        evaluated("polite")


def fails(*args: object, **options: object) -> None:
    raise ValueError("out of order")


def test_an_error_of_one_judge_is_one_warning_and_the_others_are_noted(
    here: SimpleNamespace, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(autolog_module, "status", fails)
    result = evaluated(here.scorer, polite)
    [record] = [record for record in caplog.records if "autolog of jrh" in record.message]
    assert "longer: ValueError: out of order" in record.message
    assert "polite/mean" in result.metrics
    assert tags_of(here, result.run_id)["jrh.status.polite"] == "code"


@pytest.mark.parametrize("name", ["keep_every_verdict", "note_datasheets"])
def test_an_error_of_ours_is_a_warning_of_mlflow_and_the_result_is_the_same(
    here: SimpleNamespace, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    monkeypatch.setattr(autolog_module, name, fails)
    calls: list[object] = []

    @scorer(name="counted")
    def counted(outputs: Any) -> bool:
        calls.append(outputs)
        return True

    result = evaluated(counted)
    assert result.metrics["counted/mean"] == 1
    assert len(calls) == 1
    assert "error during jrh autologging: out of order" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("store", "users", "found"), [(None, None, "7"), (None, "3", "3"), ("http://127.0.0.1:9", None, None)]
)
def test_an_evaluation_on_a_database_begins_with_few_workers_also_for_scorers_that_were_loaded(
    here: SimpleNamespace, monkeypatch: pytest.MonkeyPatch, store: str | None, users: str | None, found: str | None
) -> None:
    def begun(data: Any, scorers: Any) -> None:
        raise LookupError(os.environ.get(WORKERS))

    jrh.autolog(disable=True)
    monkeypatch.setattr(mlflow.genai, "evaluate", begun)
    jrh.autolog()
    monkeypatch.setenv(WORKERS, users or "")
    if users is None:
        monkeypatch.delenv(WORKERS)
    monkeypatch.setattr(exported, "active_uri", lambda: store or mlflow.get_tracking_uri())
    with pytest.raises(LookupError) as stopped:
        mlflow.genai.evaluate(ROWS, [polite])
    jrh.autolog(disable=True)
    assert stopped.value.args == (found,)


def test_threads_that_switch_it_on_and_off_leave_it_whole() -> None:
    def switch() -> None:
        for turn in range(40):
            jrh.autolog(disable=turn % 2 == 1)

    threads = [threading.Thread(target=switch) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    jrh.autolog(disable=True)
    assert mlflow.genai.evaluate is imported_before
