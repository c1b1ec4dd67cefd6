"""`jrh demo`: what it prints, in which order, and that nothing in it is asked, paid or passed off as live."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from mlflow import MlflowClient

from jrh_mlflow import demo
from jrh_mlflow.cli.demo import demo as command
from jrh_mlflow.errors import RecipeError
from jrh_mlflow.measuring.recorded.answers import RecordedJudge
from jrh_mlflow.tracking.mlflow_server import DATABASE, folder_uri


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch, store_uri: str, tmp_path: Path) -> Path:
    """The demo with fewer judges, in a store whose tables are there already."""
    monkeypatch.setattr(demo, "JUDGES", ("Llama8B",))
    monkeypatch.setattr(demo, "recorded_judges", lambda: [RecordedJudge("forced")])
    monkeypatch.setattr(demo, "TESTS", ("markdown", "typos"))
    careful, _, obedient = demo.graders()
    monkeypatch.setattr(demo, "graders", lambda: [careful, obedient])
    monkeypatch.setattr(demo.Demo, "shift", lambda self: None)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    folder = tmp_path / "store"
    folder.mkdir()
    shutil.copy(store_uri.removeprefix("sqlite:///"), folder / DATABASE)
    return folder


def run(folder: Path, *options: str) -> Result:
    return CliRunner().invoke(command, ["--store", str(folder), *options], catch_exceptions=False)


def test_each_part_is_printed_when_it_is_measured_and_says_what_it_is(small: Path) -> None:
    done = run(small)
    assert done.exit_code == 0, done.output
    order = [
        "measuring Llama8B (simulated)",
        "simulated from its counts",
        "viewStateShareKey=jrh",
        "measuring Coder1.5B forced A/B (recorded) on datasheet-paper",
        "Qwen2.5-Coder-1.5B-Instruct (Q4_K_M)",
        "nobody is asked now",
        "chooses the better (δ = 5)",
        "measuring Coder1.5B forced A/B (recorded) on datasheet\n",
        "Does it read?",
        "Graders, simulated",
        "No letters:",
        "Measured in",
        "viewStateShareKey=jrh&compareRunsMode=CHART",
    ]
    places, start = [], 0
    for text in order:
        places.append(done.output.index(text, start))
        start = places[-1]
    assert re.search(r"Δ75 +2\.27 \[1\.48, 3\.33\]\n", done.output)
    assert re.search(r"δ = 5\)? +0\.89 \[0\.75, 0\.95\] +0\.52 \[0\.38, 0\.65\] +0\.38 \[0\.18, 0\.52\]", done.output)
    client = MlflowClient(folder_uri(small))
    experiment = client.get_experiment_by_name(demo.EXPERIMENT)
    runs = {run.info.run_name: run.data.tags for run in client.search_runs([experiment.experiment_id])}
    recorded = {name for name, tags in runs.items() if tags.get("jrh.recorded") == "true"}
    # One judge on two suites: names that differ, since numbers may.
    assert recorded == {"Coder1.5B forced A/B (recorded)", "Coder1.5B forced A/B (recorded) on datasheet-28x5-s0"}
    assert "Llama8B (simulated)" in runs


def test_quick_leaves_the_recorded_judge_out_and_full_asks_a_model_or_says_why_not(
    small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nobody(self: demo.Demo) -> None:
        raise RecipeError("the extra is missing")

    monkeypatch.setattr("jrh_mlflow.cli.demo._print_graders", lambda parts: None)
    monkeypatch.setattr(demo.Demo, "live_model", nobody)
    monkeypatch.setattr("jrh_mlflow.cli.demo._print_recorded", lambda parts: print("the recorded judge"))
    assert "the recorded judge" not in run(small, "--quick").output
    full = run(small, "--full")
    assert full.exit_code == 0
    assert "left out: SmolLM2-135M (live): the extra is missing" in full.output
    assert "128 calls on this machine's cores" in full.output
    both = run(small, "--quick", "--full")
    assert (both.exit_code, "Give one of them" in both.output) == (2, True)
