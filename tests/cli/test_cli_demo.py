"""`jrh demo`: what it prints, in which order, and that nothing in it is asked, paid or passed off as live."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from mlflow import MlflowClient

import jrh_mlflow as jrh
from jrh_mlflow import demo
from jrh_mlflow.cli.demo import demo as command
from jrh_mlflow.cli.main import group
from jrh_mlflow.measuring.recorded.answers import RecordedJudge
from jrh_mlflow.tracking.mlflow_server import DATABASE, folder_uri
from tests.docs.blocks import ROOT

SMALL_TESTS = ("markdown", "label_flip")
FULL_SUITE = demo.demo_suite()
N_TESTS = len({item.condition for item in FULL_SUITE.items} - {"baseline"})
MOST_LINES = 60
"""Of the whole demo: what is found must not scroll away."""


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch, store_uri: str, tmp_path: Path) -> Path:
    """The demo with fewer judges, in a store whose tables are there already."""
    monkeypatch.setattr(demo, "JUDGES", ("Llama8B", "Qwen14B"))
    monkeypatch.setattr(demo, "recorded_judges", lambda: [RecordedJudge("forced")])
    items = [item for item in FULL_SUITE.items if item.condition in ("baseline", *SMALL_TESTS)]
    monkeypatch.setattr(demo, "demo_suite", lambda: jrh.Suite(name=FULL_SUITE.name, items=items))
    careful, _, obedient = demo.graders()
    monkeypatch.setattr(demo, "graders", lambda: [careful, obedient])
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    folder = tmp_path / "demo"
    folder.mkdir()
    shutil.copy(store_uri.removeprefix("sqlite:///"), folder / DATABASE)
    return folder


def run(folder: Path, *options: str) -> Result:
    return CliRunner().invoke(command, [str(folder), *options], catch_exceptions=False)


def conclusion(printed: str) -> tuple[list[str], list[str]]:
    """The sentences that say what was found, and the lines that say what to do next."""
    found, _, following = printed.partition("\nWhat was found")[2].partition(":\n")[2].partition("\n\nWhat next:\n")
    return found.replace("\n  ", " ").splitlines(), following.splitlines()


def test_each_part_is_printed_when_it_is_measured_and_the_demo_ends_with_what_was_found(
    small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo.Demo, "shift", lambda self: None)
    done = run(small)
    assert done.exit_code == 0, done.output
    order = [
        "simulated from its counts",
        "Qwen2.5-Coder-1.5B-Instruct (Q4_K_M)",
        "nobody is asked now",
        "chooses the better (δ = 5)",
        "obedient (simulated)",
        "No letters:",
        "What was found",
    ]
    start = 0
    for text in order:
        start = done.output.index(text, start)
    assert re.search(r"Δ75 +2\.27 \[1\.48, 3\.33\]\n", done.output)
    # Each test more is a line more.
    assert len(done.output.splitlines()) + N_TESTS - len(SMALL_TESTS) <= MOST_LINES
    (paper, recorded_sentence, graders), following = conclusion(done.output)
    assert re.search(r"Llama8B .* 67 % \[50–79 %\].* 0 % \[0–18 %\]\.$", paper)
    assert re.search(r" 89 % \[75–95 %\].* 52 % \[38–65 %\]", recorded_sentence)
    assert re.search(r"careful .* \d+ % \[.*obedient .* \d+ % \[.* \d+ % \[", graders)
    page = (ROOT / "docs" / "howto" / "demo.md").read_text(encoding="utf-8")
    told, links = conclusion(page.replace("```", ""))
    assert told[:2] == [paper, recorded_sentence]
    _, howto, next_command = following
    assert links[:3] == following
    assert (ROOT / howto.partition("/blob/main/")[2]).is_file()
    dry = CliRunner().invoke(group, next_command.partition(" jrh ")[2].split())
    assert dry.exit_code == 0, dry.output
    client = MlflowClient(folder_uri(small))
    experiment = client.get_experiment_by_name(demo.EXPERIMENT)
    runs = {run.info.run_name: run.data.tags for run in client.search_runs([experiment.experiment_id])}
    recorded = {name for name, tags in runs.items() if tags.get("jrh.recorded") == "true"}
    # One judge on two suites: names that differ, since numbers may.
    assert recorded == {"Coder1.5B forced A/B (recorded)", "Coder1.5B forced A/B (recorded) on datasheet-28x5-s0"}
    assert "Llama8B (simulated)" in runs


def test_quick_leaves_the_recorded_judge_out(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "JUDGES", ("Llama8B",))
    for name in ("_print_graders", "_print_recorded"):
        monkeypatch.setattr(f"jrh_mlflow.cli.demo.{name}", lambda parts: None)
    for name in ("_graders_sentence", "_recorded_sentence"):
        monkeypatch.setattr(f"jrh_mlflow.cli.demo.{name}", lambda part, name=name: f"{name}.")
    found, _ = conclusion(run(small, "--quick").output)
    assert re.search(r" 94 % \[75–98 %\].* 50 % \[39–61 %\]", found[1]), "the shift between two tie criteria"
