"""Runs of earlier versions tell how their judge is made, as far as it can be proved; otherwise they say what to do."""

from __future__ import annotations

import json
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import jrh_mlflow as jrh
from jrh_mlflow.errors import RecipeError
from jrh_mlflow.suites.suite import read_suite
from jrh_mlflow.tracking.judges.identity import differences, earlier_definition, judge_from, measured_judge
from jrh_mlflow.tracking.runs import keys

ROOT = Path(__file__).parent.parent.parent
BEFORE = sorted((ROOT / "tests/compatibility/files/store/artifacts/1").glob("*/artifacts/judge/judge.json"))
EXAMPLE = ROOT / "mlruns_example"
THEN: dict[str, Any] = {"api_base": "http://127.0.0.1:18431/v1", "max_tokens": 64, "seed": 7}


def read(path: Path) -> dict[str, Any]:
    written: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return written


def of_kind(*kinds: str) -> list[Path]:
    """Files of the first version about judges of some kinds."""
    return [path for path in BEFORE if read(path)["kind"] in kinds]


def defined(path: Path, *, prompt: tuple[str, str] = ("", ""), **changed: Any) -> dict[str, Any] | None:
    """Make the definition of a judge of the first version, with its prompt or its settings edited."""
    folder = path.parent.parent
    return earlier_definition(
        {**read(path), **changed},
        (folder / "judge/prompt.txt").read_text(encoding="utf-8").replace(*prompt),
        suite=read_suite(folder / "suite", hashes=True),
        calls=pd.read_parquet(folder / "calls/calls.parquet"),
        replicates=1,
    )


@pytest.mark.parametrize("path", of_kind("prompted"), ids=lambda path: read(path)["tie_criterion"])
def test_a_prompted_judge_of_the_first_version_is_the_one_that_its_settings_make_today(path: Path):
    definition = defined(path)
    today = jrh.PromptedJudge("openai/judge-of-then", tie_criterion=read(path)["tie_criterion"], **THEN)
    assert definition is not None
    assert judge_from(definition).fingerprint() == today.fingerprint()
    assert differences(definition, today.definition()) == ()


@pytest.mark.parametrize("path", of_kind("scripted"), ids=lambda path: f"{read(path)['name']} {path.parts[-4][:4]}")
def test_a_scripted_judge_of_the_first_version_is_made_again(path: Path):
    definition = defined(path)
    assert definition is not None
    assert judge_from(definition).name == read(path)["name"]


def test_what_does_not_send_what_was_sent_is_not_taken_for_the_judge():
    path = of_kind("prompted")[0]
    changes: list[dict[str, Any]] = [
        *({"seed": 8}, {"temperature": 0.1}, {"model": "openai/other"}, {"api_base": None}, {"extra.top_p": 0.5}),
        *({"prompt": ("You compare", "You rate")}, {"prompt": ("Tie criterion", "Tie rule")}, {"structured": False}),
    ]
    assert defined(path) is not None
    assert [defined(path, **change) for change in changes] == [None] * len(changes)


def test_a_scripted_judge_that_answers_otherwise_is_not_taken_for_the_judge():
    path = next(path for path in of_kind("scripted") if read(path)["name"] == "careful")
    assert defined(path) is not None
    assert defined(path, seed=5) is None
    assert defined(path, name="Oracle", accuracy=None) is None


written_by_newer = pytest.mark.since_mlflow("3.17")
"""The example store is a database of MLflow 3.17, which an older one does not open."""


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The example store without what this version adds to runs, copied so that they find their files."""
    folder = tmp_path_factory.mktemp("example")
    for name in ("mlartifacts", "mlflow.db"):
        (shutil.copytree if name == "mlartifacts" else shutil.copy)(EXAMPLE / name, folder / name)
    with sqlite3.connect(folder / "mlflow.db") as connection:
        place = (folder / "mlartifacts").as_uri()
        connection.execute("UPDATE runs SET artifact_uri = replace(artifact_uri, 'mlflow-artifacts:', ?)", (place,))
        rows = connection.execute("SELECT artifact_uri FROM runs").fetchall()
        connection.execute("DELETE FROM tags WHERE key IN (?, ?)", (keys.TAG_FINGERPRINT, keys.TAG_JUDGE))
    connection.close()
    for path in folder.glob("mlartifacts/1/*/artifacts/judge/judge.json"):
        known = {name: value for name, value in read(path).items() if name not in ("definition", "fingerprint")}
        path.write_text(json.dumps(known), encoding="utf-8")
    assert all(uri.startswith("file:") for (uri,) in rows)
    return f"sqlite:///{folder / 'mlflow.db'}"


def run_of(uri: str, name: str) -> Path:
    """The folder of a run of the example store, by the name of its judge."""
    files = Path(uri.removeprefix("sqlite:///")).parent.glob("mlartifacts/1/*/artifacts/judge/judge.json")
    return next(path.parent.parent for path in files if read(path)["name"] == name)


@written_by_newer
def test_judges_of_the_example_store_are_made_again_and_read_measured(example: str):
    for name, label in (("Coder1.5B strict 1/2", "recorded"), ("length-swayed", "simulated")):
        run_id = run_of(example, name).parts[-2]
        measured, found = measured_judge(run_id, tracking_uri=example), jrh.status(run_id, tracking_uri=example)
        assert measured.judge().fingerprint() == measured.fingerprint
        assert (found.state, found.name, found.run_id) == ("measured", f"{name} ({label})", run_id)


@written_by_newer
def test_a_judge_that_an_earlier_version_measured_is_found_by_what_it_is(example: str):
    grader = jrh.scripted.Grader(accuracy=0.95, flip=0.02, seed=1, name="careful")
    assert jrh.status(grader, tracking_uri=example).run_id == run_of(example, "careful").parts[-2]
    other = jrh.scripted.Grader(accuracy=0.95, flip=0.02, seed=2, name="careful")
    assert jrh.status(other, tracking_uri=example).state == "never measured"


@written_by_newer
def test_a_run_whose_judge_cannot_be_proved_says_what_to_do(example: str):
    folder = run_of(example, "obedient")
    path = folder / "judge/judge.json"
    path.write_text(path.read_text(encoding="utf-8").replace('"seed": 3', '"seed": 4'), encoding="utf-8")
    measured = measured_judge(folder.parts[-2], tracking_uri=example)
    assert measured.definition is None
    with pytest.raises(RecipeError, match=r"Measure it again .* or pass the judge itself"):
        measured.judge()
    assert "cannot be told" in jrh.status(measured.run_id, tracking_uri=example).reason
