"""`jrh sweep` on the command line."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from mlflow import MlflowClient

import jrh_mlflow as jrh
from jrh_mlflow.cli.main import group
from jrh_mlflow.errors import RecipeError

JUDGES = """
import jrh_mlflow as jrh

def make(choice):
    def judge(shown):
        answer = "tie" if choice["model"] == "quiet" else "1"
        return jrh.Answer(answer, cost_usd=choice["usd"])
    return judge
"""
SPACE = "choices: {model: [quiet, loud], usd: [0.001]}\njudge: judges.py:make\norders: [one]\n"


def run(*arguments: str) -> Result:
    return CliRunner().invoke(group, ["sweep", *arguments, "--allow-code"], catch_exceptions=False)


@pytest.fixture
def space(tmp_path: Path) -> str:
    (tmp_path / "judges.py").write_text(JUDGES, encoding="utf-8")
    (tmp_path / "space.yaml").write_text(SPACE, encoding="utf-8")
    jrh.datasheet_suite(n_tasks=4, depth=1).save(tmp_path / "suite")
    return str(tmp_path / "space.yaml")


@pytest.mark.slow
def test_a_space_of_a_file_is_swept_and_printed(space: str, store_uri: str, tmp_path: Path) -> None:
    where = ("--suite", str(tmp_path / "suite"), "--tracking-uri", store_uri, "--experiment", "sweeps")
    done = run(space, *where, "--json", "--max-replicates", "1")
    assert done.exit_code == 0
    data = json.loads(done.stdout)
    assert [one["params"]["model"] for one in data["front"]] == ["quiet"]
    assert data["n_configurations"] == 2
    joined = run(space, *where, "--worker")
    assert joined.exit_code == 0
    assert "0 trial(s) run" in joined.stdout
    told = run(space, *where, "--max-replicates", "1")
    lines = told.stdout.splitlines()
    assert "too few" in "".join(lines[1:4])
    assert data["verdict"]["sentences"][0].startswith("4 tasks are too few")
    assert "4 tasks are few" in told.stderr
    assert any("4 tasks are few" in note for note in data["notes"])


def test_a_dry_run_prices_and_logs_nothing(tmp_path: Path) -> None:
    text = "models: [my/model]\ntemperatures: [0.0, 1.0]\norders: [one, both]\n"
    (tmp_path / "space.yaml").write_text(text, encoding="utf-8")
    jrh.datasheet_suite(n_tasks=4, depth=1).save(tmp_path / "suite")
    where = (str(tmp_path / "space.yaml"), "--suite", str(tmp_path / "suite"), "--dry-run")
    unknown = run(*where)
    assert "4 of 2 judges" in unknown.stdout
    assert "dollars unknown" in unknown.stdout
    assert "4 tasks are few" in unknown.stderr
    known = json.loads(run(*where, "--price", "my/model=1,2", "--n-trials", "1", "--json").stdout)
    assert known["grid_worst_usd"] > known["grid_usd"] > known["trials_usd"] > 0
    assert not (tmp_path / ".jrh" / "sweeps").exists()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("objectives: {relibility: maximize}", "no metric 'relibility'. Did you mean 'reliability'?"),
        ("constraints: ['dark_current <= 0.1']", "no metric 'dark_current'. Did you mean 'dark_current/rate'?"),
        ("constraints: ['label_flip/accuracy/rate >= 0.9']", "no metric 'label_flip/accuracy/rate'."),
    ],
)
@pytest.mark.parametrize("options", [(), ("--dry-run",)])
def test_a_metric_that_no_run_can_have_is_refused_before_anything_is_asked(
    space: str, store_uri: str, tmp_path: Path, text: str, message: str, options: tuple[str, ...]
) -> None:
    client = MlflowClient(tracking_uri=store_uri)
    # A dry run runs no code of a file.
    begin = "models: [my/model]\n" if options else Path(space).read_text(encoding="utf-8")
    Path(space).write_text(f"{begin}{text}\n", encoding="utf-8")
    where = ("--suite", str(tmp_path / "suite"), "--tracking-uri", store_uri, "--experiment", "misspelt")
    with pytest.raises(RecipeError) as refused:
        run(space, *where, *options)
    assert message in str(refused.value)
    assert client.get_experiment_by_name("misspelt") is None
    assert not (Path(os.environ["JRH_HOME"]) / "sweeps").exists()


def test_what_is_wrong_is_said(space: str, store_uri: str, tmp_path: Path) -> None:
    (tmp_path / "wrong.yaml").write_text("modles: [x]\n", encoding="utf-8")
    with pytest.raises(RecipeError, match="Did you mean 'models'"):
        run(str(tmp_path / "wrong.yaml"))
    with pytest.raises(RecipeError, match="cannot be read"):
        run(str(tmp_path / "absent.yaml"))
    assert "--price takes MODEL=IN,OUT" in run(space, "--price", "1,2").stderr
    with pytest.raises(RecipeError, match="without --worker first"):
        run(space, "--suite", str(tmp_path / "suite"), "--worker", "--tracking-uri", store_uri)
