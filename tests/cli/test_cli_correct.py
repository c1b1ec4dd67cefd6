"""`jrh correct`."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest
from click.testing import CliRunner

import jrh_mlflow
from jrh_mlflow.cli.correct import correct
from tests.people.command import jrh

LABELLED = pd.DataFrame({"judge": [True] * 60 + [False] * 40, "human": [True] * 57 + [False] * 41 + [True] * 2})
VERDICTS = pd.DataFrame({"judge": [True] * 300 + [False] * 100})


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str]:
    paths = [tmp_path / name for name in ("verdicts.csv", "labelled.csv")]
    for path, frame in zip(paths, (VERDICTS, LABELLED), strict=True):
        frame.to_csv(path, index=False)
    return str(paths[0]), str(paths[1])


def printed(*arguments: str) -> str:
    done = CliRunner().invoke(correct, list(arguments), catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


def test_the_command_prints_what_python_returns(files):
    expected = jrh_mlflow.correct(VERDICTS, LABELLED, sampling="by_verdict")
    told = json.loads(printed(*files, "--sampling", "by_verdict", "--json"))
    assert told["estimate"]["value"] == expected.estimate.value
    assert told["estimate"]["ci_low"] == expected.estimate.ci_low
    assert (told["method"], told["level"], told["run_id"]) == ("two strata", 0.95, None)
    page = printed(*files, "--sampling", "by_verdict", "--markdown")
    assert page.strip() == expected.to_markdown().strip()
    text = printed(*files, "--sampling", "by_verdict")
    assert f"{expected.estimate.value:.2f} " in text
    assert "|" not in text.splitlines()[0]


def test_labels_and_columns_are_named(files, tmp_path):
    frame = pd.DataFrame({"grade": [5] * 300 + [2] * 100})
    frame.to_csv(tmp_path / "grades.csv", index=False)
    both = LABELLED.replace({True: 4, False: 2}).rename(columns={"judge": "grade", "human": "expert"})
    pd.concat([both, pd.DataFrame({"grade": [5], "expert": [5]})]).to_csv(tmp_path / "both.csv", index=False)
    columns = ("--map", "judge=grade", "--map", "human=expert")
    names = (*columns, "--positive", "4", "--positive", "5", "--name", "grades")
    told = json.loads(printed(str(tmp_path / "grades.csv"), str(tmp_path / "both.csv"), *names, "--json"))
    assert told["naive"]["value"] == 0.75
    assert (told["scorer"], told["n_labelled"]) == ("grades", 101)


def test_a_run_is_logged_and_its_place_printed(files, store_uri):
    told = printed(*files, "--log", "--name", "polite", "--tracking-uri", store_uri, "--experiment", "rates")
    assert "logged: run " in told


def test_bad_input_is_one_line_and_exit_code_2(files, tmp_path, capsys):
    pd.DataFrame({"judge": [3, 4]}).to_csv(tmp_path / "scores.csv", index=False)
    done = jrh("correct", tmp_path / "scores.csv", files[1], capsys=capsys)
    assert (done.code, done.out) == (2, "")
    (line,) = done.err.splitlines()
    assert "the verdicts are scores (3, 4)" in line
