"""`jrh.evaluate` against a real MLflow store."""

from __future__ import annotations

import asyncio
import gc
import json
from pathlib import Path
from typing import Any

import mlflow
import pandas as pd
import pytest
from mlflow import MlflowClient

import jrh_mlflow as jrh
from jrh_mlflow.errors import RecipeError, SuiteError, TrackingError
from jrh_mlflow.schema.items import REQUIRED_COLUMNS

SMALL = {"n_tasks": 2, "depth": 2}


@pytest.fixture(scope="module")
def small() -> jrh.Suite:
    return jrh.datasheet_suite(**SMALL)


@pytest.fixture(scope="module")
def llama(store_uri: str) -> jrh.Evaluation:
    judge = jrh.scripted.profile("Llama8B")
    return jrh.evaluate(judge, "datasheet-paper", experiment="tests", tracking_uri=store_uri)


def where(uri: str) -> dict[str, Any]:
    """The store; what functions answer would become traces, which take it as long as all the rest."""
    return {"tracking_uri": uri, "experiment": "tests", "traces": "none", "progress": False}


def run_of(evaluation: jrh.Evaluation, uri: str) -> mlflow.entities.Run:
    return MlflowClient(tracking_uri=uri).get_run(evaluation.run_id)


def test_what_is_logged_is_exactly_what_mlflow_shows(llama: jrh.Evaluation, store_uri: str) -> None:
    assert run_of(llama, store_uri).data.metrics == llama.logged
    assert llama.metrics["dark_current/rate"] == pytest.approx(80 / 120)
    assert llama.metrics["dark_current/n"] == 120
    assert llama.metrics["threshold_75/value"] == 4.0
    assert llama.metrics["calls/total"] == 540


def test_every_estimate_travels_with_n_interval_and_exclusions(llama: jrh.Evaluation) -> None:
    for key in llama.metrics:
        axis, _, statistic = key.rpartition("/")
        if statistic in ("rate", "value"):
            assert f"{axis}/n" in llama.metrics
            assert f"{axis}/excluded" in llama.metrics
            assert f"{axis}/ci_low" in llama.metrics or f"{axis}/ci_high" in llama.metrics


def test_the_suite_of_a_run_is_read_from_the_store_the_evaluation_goes_to(
    small: jrh.Suite, store_uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/another.db")
    first = jrh.evaluate(jrh.scripted.AlwaysTie(), small, **where(store_uri))
    again = jrh.evaluate(jrh.scripted.AlwaysTie(), f"runs:/{first.run_id}/suite", **where(store_uri))
    assert again.suite.sha256 == small.sha256
    shift = jrh.criterion_shift(jrh.scripted.Oracle(), f"runs:/{first.run_id}/suite", **where(store_uri))
    assert {one.suite.sha256 for one in shift.arms.values()} == {small.sha256}


def test_params_tags_and_description_are_those_of_the_interface(llama: jrh.Evaluation, store_uri: str) -> None:
    data = run_of(llama, store_uri).data
    assert data.params["judge.model"] == "Llama8B"
    assert data.params["judge.tie_criterion"] == "allowed"
    assert data.params["suite.sha256"] == jrh.load_suite("datasheet-paper").sha256
    assert data.params["run.seed"] == "0"
    assert len(data.params["judge.prompt_sha256"]) == 64
    assert data.tags["jrh.kind"] == "evaluate"
    assert data.tags["jrh.simulated"] == "true"
    assert data.tags["jrh.schema_version"] == "1"
    assert data.tags["jrh.profile"] == llama.datasheet.profile
    assert data.tags["jrh.verdict"] == llama.verdict.sentences[0]
    assert data.tags["jrh.threshold_75"].startswith("4.00 [")
    note = data.tags["mlflow.note.content"]
    assert "Simulated judge" in note
    assert "| dark current | 0.67 | [0.58, 0.74] |" in note
    assert len(note) < 8000
    assert run_of(llama, store_uri).info.run_name == "Llama8B (simulated)"


def test_the_curve_has_one_point_per_whole_step(llama: jrh.Evaluation, store_uri: str) -> None:
    history = MlflowClient(tracking_uri=store_uri).get_metric_history(llama.run_id, "target_sensitivity/curve")
    assert [(point.step, round(point.value, 4)) for point in sorted(history, key=lambda point: point.step)] == [
        (1, 0.61),
        (2, 0.65),
        (3, 0.7167),
        (4, 0.75),
        (5, 1.0),
    ]


def test_artifacts_are_complete_and_the_calls_measure_to_the_same_numbers(
    llama: jrh.Evaluation, store_uri: str, tmp_path: Path
) -> None:
    folder = Path(MlflowClient(tracking_uri=store_uri).download_artifacts(llama.run_id, "", str(tmp_path)))
    assert "<h2>Equal quality" in (folder / "datasheet.html").read_text(encoding="utf-8")
    for name in ("datasheet.json", "datasheet.md", "suite/suite.jsonl", "suite/manifest.json", "judge/prompt.txt"):
        assert (folder / name).is_file()
    figures = {file.name for file in (folder / "figures").iterdir()}
    assert figures == {"psychometric_curve.svg", "delta_0_decomposition.svg", "axes_map.svg"}
    calls = pd.read_parquet(folder / "calls" / "calls.parquet")
    assert set(REQUIRED_COLUMNS) <= set(calls.columns)
    assert jrh.measure(calls).to_dict() == llama.datasheet.to_dict()
    written = json.loads((folder / "datasheet.json").read_text(encoding="utf-8"))
    assert written["estimates"]["dark_current"]["left_out"] == {"unparsed": 0, "error": 0}
    assert jrh.load_suite(folder / "suite").sha256 == llama.suite.sha256


def test_the_suite_is_a_dataset_input_and_loads_from_the_run(
    llama: jrh.Evaluation, store_uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (dataset,) = run_of(llama, store_uri).inputs.dataset_inputs
    assert dataset.dataset.name == llama.suite.name
    assert llama.suite.sha256.startswith(dataset.dataset.digest)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", store_uri)
    assert jrh.load_suite(f"runs:/{llama.run_id}/suite").sha256 == llama.suite.sha256


def test_a_judge_that_raises_or_answers_nonsense_ends_as_outcomes(small: jrh.Suite, store_uri: str) -> None:
    replies = iter(range(10**6))

    def unreliable(shown: jrh.Presentation) -> object:
        number = next(replies) % 6
        if number == 0:
            raise RuntimeError("service down")
        return [None, "I think the first one is better.", "3", "TIE ", " 1 ", jrh.Answer("2")][number]

    done = jrh.evaluate(unreliable, small, **where(store_uri), concurrency=1)
    counts = done.calls["outcome"].value_counts()
    total = len(done.calls)
    kinds = ["error", "unparsed", "unparsed", "tie", "verdict", "verdict"]
    expected = pd.Series([kinds[number % 6] for number in range(total)]).value_counts()
    assert counts.to_dict() == expected.to_dict()
    assert done.metrics["calls/error"] == expected["error"]
    assert done.metrics["calls/unparsed"] == expected["unparsed"]
    assert "dark_current" in done.withheld
    assert "over the limit of 5%" in done.withheld["dark_current"]
    assert not [key for key in done.metrics if key.startswith("dark_current/")]
    assert "dark_current" in run_of(done, store_uri).data.tags["jrh.withheld"]
    errors = done.calls.loc[done.calls["outcome"] == "error", "error"]
    assert set(errors) == {"RuntimeError: service down"}
    raw = done.calls.loc[done.calls["outcome"] == "unparsed", "error"]
    assert any("I think the first one is better." in text for text in raw)


def test_tie_is_no_answer_where_none_is_offered(small: jrh.Suite, store_uri: str) -> None:
    done = jrh.evaluate(jrh.scripted.AlwaysTie().with_criterion("forced"), small, **where(store_uri))
    assert done.metrics["calls/unparsed"] == len(done.calls)
    assert set(done.withheld) >= {"dark_current", "raw_false_preference", "threshold_75"}


def test_async_sync_and_object_judges_answer_alike(small: jrh.Suite, store_uri: str) -> None:
    async def slow(shown: jrh.Presentation) -> str:
        await asyncio.sleep(0)
        return "1"

    class Judge:
        name = "my judge"

        def __call__(self, shown: jrh.Presentation) -> float:
            return 1.0

    for judge in (slow, Judge()):
        done = jrh.evaluate(judge, small, **where(store_uri))
        assert done.metrics["dark_current/rate"] == 1.0
        assert done.metrics["positional_false_preference/rate"] == 1.0
    assert run_of(done, store_uri).data.tags["jrh.simulated"] == "false"


def test_evaluate_works_inside_a_running_event_loop(small: jrh.Suite, store_uri: str) -> None:
    async def notebook_cell() -> jrh.Evaluation:
        return jrh.evaluate(lambda shown: "2", small, **where(store_uri))

    assert asyncio.run(notebook_cell()).metrics["dark_current/rate"] == 1.0


def test_costs_and_tokens_are_summed_and_unknown_ones_are_not_zero(small: jrh.Suite, store_uri: str) -> None:
    priced = jrh.evaluate(
        lambda shown: jrh.Answer("tie", input_tokens=10, output_tokens=2, cost_usd=0.001),
        small,
        **where(store_uri),
    )
    n = len(priced.calls)
    assert priced.metrics["cost/usd"] == pytest.approx(0.001 * n)
    assert priced.metrics["cost/usd_per_1k_calls"] == pytest.approx(1.0)
    assert priced.metrics["tokens/input"] == 10 * n
    assert priced.cost_usd == pytest.approx(0.001 * n)
    free = jrh.evaluate(lambda shown: jrh.Answer("tie"), small, **where(store_uri))
    assert "cost/usd" not in free.metrics
    assert free.cost_usd is None


def test_replicates_are_calls_of_their_own(small: jrh.Suite, store_uri: str) -> None:
    done = jrh.evaluate(jrh.scripted.Oracle(), small, **where(store_uri), replicates=3)
    assert len(done.calls) == 3 * 2 * len(small)
    assert sorted(done.calls["replicate"].unique()) == [0, 1, 2]


def test_the_judge_sees_no_label_level_pair_id_or_condition(small: jrh.Suite, store_uri: str) -> None:
    seen: list[jrh.Presentation] = []
    jrh.evaluate(lambda shown: seen.append(shown) or "tie", small, **where(store_uri), concurrency=1)
    ids = {item.id for item in small.items}
    for shown in seen:
        text = repr(shown)
        assert not any(item_id in text for item_id in ids)
        assert "delta" not in text
        assert "vacuum" not in text
        assert shown.answers == ("1", "2", "tie")


def test_a_dead_server_is_refused_before_anything_is_asked(small: jrh.Suite) -> None:
    asked = []
    with pytest.raises(TrackingError, match="Nothing was asked yet"):
        jrh.evaluate(lambda shown: asked.append(1) or "tie", small, tracking_uri="http://127.0.0.1:9")
    assert not asked


def test_when_mlflow_fails_after_asking_the_same_call_again_logs_without_asking(
    small: jrh.Suite,
    store_uri: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    asked = []

    class RefusedError(OSError):
        pass

    def refuse(*arguments: object, **keywords: object) -> None:
        raise RefusedError("server went away")

    # The judge's identity is its code, so counting must not be part of a closure over changing values.
    judge = jrh.scripted.Oracle()
    original = type(judge).answer
    monkeypatch.setattr(type(judge), "answer", lambda self, call: asked.append(call) or original(self, call))
    with monkeypatch.context() as broken:
        broken.setattr(MlflowClient, "log_batch", refuse)
        with pytest.raises(TrackingError, match="jrh evaluate --resume"):
            jrh.evaluate(judge, small, **where(store_uri))
    first = len(asked)
    assert first == 2 * len(small)
    (kept,) = (tmp_path / ".jrh" / "outbox").iterdir()
    done = jrh.evaluate(judge, small, **where(store_uri))
    assert len(asked) == first
    assert "nothing is asked again" in capsys.readouterr().err
    assert done.logged == run_of(done, store_uri).data.metrics
    assert run_of(done, store_uri).info.status == "FINISHED"
    assert not kept.exists()


def test_two_different_closures_never_share_kept_calls(store_uri: str) -> None:
    from jrh_mlflow.measuring.resolve import resolve_judge

    def judge_of(answer: object) -> jrh.evaluation.JudgeFunction:  # type: ignore[name-defined]
        return lambda shown: answer

    one, two = resolve_judge(judge_of("1")).fingerprint(), resolve_judge(judge_of("2")).fingerprint()
    assert one is not None
    assert one != two
    assert resolve_judge(judge_of(["1"])).fingerprint() is None


def test_an_interrupted_run_is_marked_killed(small: jrh.Suite, store_uri: str) -> None:
    seen, before = [], gc.get_threshold()

    def interrupted(shown: jrh.Presentation) -> str:
        seen.append(gc.get_threshold())
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        jrh.evaluate(interrupted, small, **where(store_uri), run_name="interrupted", concurrency=1)
    client = MlflowClient(tracking_uri=store_uri)
    experiment = client.get_experiment_by_name("tests")
    (run,) = client.search_runs([experiment.experiment_id], "attributes.run_name = 'interrupted'")
    assert run.info.status == "KILLED"
    assert not run.data.metrics
    # While it asks, everything that was imported is walked more seldom; after it, as before.
    assert seen[0][2] > before[2]
    assert gc.get_threshold() == before


@pytest.mark.parametrize(
    ("judge", "suite", "error", "text"),
    [
        (42, None, RecipeError, "A judge must be .* int"),
        (jrh.scripted.Oracle, None, RecipeError, r"Call it: Oracle\(\)"),
        (jrh.scripted.Oracle(), "datashet", SuiteError, "Did you mean 'datasheet'"),
        (jrh.scripted.Oracle(), "no/such/folder", SuiteError, "Or give a folder"),
    ],
)
def test_bad_input_is_one_clear_line_and_nothing_is_logged(
    judge: object, suite: str | None, error: type[Exception], text: str, store_uri: str
) -> None:
    with pytest.raises(error, match=text):
        jrh.evaluate(judge, suite, tracking_uri=store_uri, experiment="of bad input")
    assert MlflowClient(tracking_uri=store_uri).get_experiment_by_name("of bad input") is None


def test_the_active_experiment_is_used_when_none_is_named(
    small: jrh.Suite, store_uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = MlflowClient(tracking_uri=store_uri)
    experiment_id = client.get_experiment_by_name("tests").experiment_id
    monkeypatch.setenv("MLFLOW_EXPERIMENT_ID", experiment_id)
    done = jrh.evaluate(jrh.scripted.Oracle(), small, tracking_uri=store_uri)
    assert run_of(done, store_uri).info.experiment_id == experiment_id


def test_a_password_in_the_store_address_is_shown_and_kept_nowhere(small: jrh.Suite, tmp_path: Path) -> None:
    with pytest.raises(TrackingError) as caught:
        jrh.evaluate(jrh.scripted.Oracle(), small, tracking_uri="http://user:pass-0123456789@127.0.0.1:9")
    assert "pass-0123456789" not in str(caught.value)
    assert "***@127.0.0.1:9" in str(caught.value)
