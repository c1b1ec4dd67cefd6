"""`metric=` of evaluate, the command line, recipes, replay and sweeps."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from mlflow import MlflowClient

import jrh_mlflow as jrh
from jrh_mlflow.cli.main import group
from jrh_mlflow.errors import RecipeError
from jrh_mlflow.measuring.replay import replay_each
from jrh_mlflow.sweeps.space import check_names
from tests.generation.tools import RUBRIC, rows


@pytest.fixture(scope="module")
def suite(store_uri: str) -> jrh.Suite:
    return jrh.generate(rows(8), tests="padding", rubric=RUBRIC, labels=("fail", "pass"), tracking_uri=store_uri)


def test_a_run_says_by_which_metric_its_tests_are_scored_and_a_replay_keeps_it(
    suite: jrh.Suite, store_uri: str, tmp_path: Path
) -> None:
    suite.save(tmp_path / "suite")
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text("judge: scripted:Oracle\nsuite: suite\nmetric: balanced_accuracy\n", encoding="utf-8")
    done = CliRunner().invoke(group, ["evaluate", str(recipe), "--metric", "f1", "--tracking-uri", store_uri, "--json"])
    assert done.exit_code == 0, (done.output, done.exception)
    (facts,) = json.loads(done.stdout)
    assert facts["metrics"]["padding/f1_score/value"] == 1.0
    data = MlflowClient(tracking_uri=store_uri).get_run(facts["run_id"]).data
    assert (data.params["run.metric"], data.tags["jrh.metric"]) == ("f1_score", "f1_score")
    assert data.metrics["padding/f1_score/value"] == data.metrics["reliability/mean"] == 1.0
    (again,) = replay_each(f"runs:/{facts['run_id']}", tracking_uri=store_uri)
    assert again.report.metric == "f1_score"
    assert again.metrics["padding/f1_score/value"] == 1.0


@pytest.mark.parametrize(
    ("metric", "text"),
    [
        ("f1_scor", "Did you mean 'f1_score'"),
        ("mae", "does not fit the suite: mae needs a scale"),
        ("log_loss", "Unknown"),
    ],
)
def test_a_metric_is_checked_before_anything_is_asked(metric: str, text: str, suite: jrh.Suite, store_uri: str) -> None:
    asked = []
    with pytest.raises(RecipeError, match=text):
        jrh.evaluate(asked.append, suite, metric=metric, tracking_uri=store_uri)
    assert not asked


def test_pairs_have_no_metric_to_choose(store_uri: str) -> None:
    with pytest.raises(RecipeError, match="is that of reliability suites"):
        jrh.evaluate(jrh.scripted.Oracle(), jrh.datasheet_suite(n_tasks=1), metric="f1", tracking_uri=store_uri)


def test_a_sweep_may_aim_at_it(suite: jrh.Suite) -> None:
    check_names(["padding/f1_score/value"], suite, replicates=1, metric="f1_score")
    with pytest.raises(RecipeError, match="have no metric 'padding/f1_score/value'"):
        check_names(["padding/f1_score/value"], suite, replicates=1)
