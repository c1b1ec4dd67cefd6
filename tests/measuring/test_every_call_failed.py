"""A run in which no call was answered is an error with its cause, never a page of withheld numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from click.testing import CliRunner
from mlflow import MlflowClient
from mlflow.artifacts import download_artifacts
from mlflow.genai.scorers import scorer

import jrh_mlflow as jrh
from jrh_mlflow.cli.main import group
from jrh_mlflow.errors import JudgeError
from tests.loopback import LoopbackServer, error_reply


@pytest.fixture(scope="module")
def small() -> jrh.Suite:
    return jrh.datasheet_suite(n_tasks=1, depth=1, design="paper")


def down(shown: jrh.Presentation) -> str:
    """Fails on every call, in two ways, one of them rare."""
    if shown.first == "":
        raise ValueError("nothing to read \x1b[2J")
    raise RuntimeError(f"service 17 is down for {len(shown.instruction)} s")


@scorer
def broken_scorer(outputs: Any) -> str:
    raise KeyError(f"no column {outputs!r:.10}")


def fail(judge: object, suite: jrh.Suite, store_uri: str, name: str, **options: Any) -> tuple[JudgeError, Any]:
    """Evaluate a judge whose every call fails; return the error and the run it left."""
    with pytest.raises(JudgeError) as raised:
        jrh.evaluate(judge, suite, tracking_uri=store_uri, experiment="dead", run_name=name, **options)
    return raised.value, run_called(name, store_uri)


def run_called(name: str, store_uri: str) -> Any:
    client = MlflowClient(tracking_uri=store_uri)
    experiment = client.get_experiment_by_name("dead")
    assert experiment is not None
    (run,) = client.search_runs([experiment.experiment_id], f"attributes.run_name = '{name}'")
    return run


def test_the_commonest_cause_comes_first_with_its_count(small: jrh.Suite, store_uri: str) -> None:
    error, run = fail(down, small, store_uri, "callable")
    n_empty = 2 * sum(item.u == "" or item.v == "" for item in small.items)
    total = 2 * len(small)
    assert 0 < n_empty < total / 2
    assert str(error).startswith("RuntimeError: service 17 is down for ")
    assert f"{total - n_empty} of {total} calls" in str(error)
    assert "\x1b" not in str(error)
    assert run.info.status == "FAILED"


def test_the_failed_run_keeps_its_calls_and_says_why(small: jrh.Suite, store_uri: str, tmp_path: Path) -> None:
    error, run = fail(down, small, store_uri, "kept")
    kept = download_artifacts(
        run_id=run.info.run_id, artifact_path="calls/calls.parquet", dst_path=str(tmp_path), tracking_uri=store_uri
    )
    calls = pd.read_parquet(kept)
    assert set(calls["outcome"]) == {"error"}
    assert len(calls) == 2 * len(small)
    assert str(error) in run.data.tags["mlflow.note.content"]
    assert run.data.metrics == {}
    assert run.data.params["judge.model"] == "down"


def test_without_texts_the_failed_run_repeats_none(small: jrh.Suite, store_uri: str, tmp_path: Path) -> None:
    def quoting(shown: jrh.Presentation) -> str:
        raise RuntimeError(f"cannot read {shown.instruction!r}")

    error, run = fail(quoting, small, store_uri, "no texts", texts=False)
    assert "cannot read" in str(error)
    folder = Path(download_artifacts(run_id=run.info.run_id, dst_path=str(tmp_path), tracking_uri=store_uri))
    kept = " ".join(map(str, pd.read_parquet(folder / "calls/calls.parquet").to_dict("list").values()))
    written = [kept, (folder / "failure.txt").read_text(encoding="utf-8"), str(run.data.tags)]
    assert not [text for text in written if small.items[0].instruction[:20] in text]


def test_an_mlflow_judge_that_fails_on_every_call_is_an_error(small: jrh.Suite, store_uri: str) -> None:
    error, run = fail(broken_scorer, small, store_uri, "scorer")
    assert "KeyError: " in str(error)
    assert run.info.status == "FAILED"


def test_a_model_that_fails_on_every_call_is_an_error_however_few_they_are(
    small: jrh.Suite, store_uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-planted-0123456789")
    few = jrh.Suite(name="few", items=small.items[:2])
    with LoopbackServer(reply=lambda body: error_reply(400, "No such setting.")) as server:
        error, run = fail(jrh.PromptedJudge("openai/mine", api_base=server.url), few, store_uri, "prompted")
    assert str(error).startswith("bad_request: HTTP 400: No such setting (4 of 4 calls)")
    assert run.info.status == "FAILED"


def test_one_answered_call_is_a_run(small: jrh.Suite, store_uri: str) -> None:
    asked = iter(range(10**6))

    def once(shown: jrh.Presentation) -> str:
        if next(asked):
            raise RuntimeError("down")
        return "tie"

    done = jrh.evaluate(once, small, tracking_uri=store_uri, experiment="dead", concurrency=1)
    assert done.metrics["calls/error"] == len(done.calls) - 1


def test_a_shift_whose_first_arm_fails_is_an_error_and_its_parent_failed(small: jrh.Suite, store_uri: str) -> None:
    with pytest.raises(JudgeError, match="service 17 is down"):
        jrh.criterion_shift(down, small, tracking_uri=store_uri, experiment="dead", run_name="shift")
    assert run_called("shift", store_uri).info.status == "FAILED"


def test_the_command_prints_the_cause_and_no_table(small: jrh.Suite, store_uri: str, tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("def judge(shown):\n    raise RuntimeError('no such host')\n", encoding="utf-8")
    folder = small.save(tmp_path / "suite")
    ended = CliRunner().invoke(
        group,
        [
            *("evaluate", "--judge", f"{tmp_path / 'broken.py'}:judge", "--suite", str(folder)),
            *("--tracking-uri", store_uri, "--experiment", "dead"),
        ],
    )
    assert isinstance(ended.exception, JudgeError)
    assert ended.exception.exit_code == 4
    assert str(ended.exception).startswith("RuntimeError: no such host")
    assert "withheld" not in ended.output


def test_recorded_errors_are_data(small: jrh.Suite) -> None:
    calls = pd.DataFrame(
        {
            **{"suite_item": ["a", "a"], "task": ["t", "t"], "condition": ["vacuum_empty"] * 2, "delta": [None, None]},
            **{"order": ["uv", "vu"], "better": ["", ""], "replicate": [0, 0], "outcome": ["error"] * 2},
            **{"answer": ["", ""], "expected": ["", ""]},
        }
    )
    assert jrh.measure(calls).outcomes["error"] == 2
