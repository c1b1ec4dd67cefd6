"""`jrh.criterion_shift` against a real MLflow store."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from mlflow import MlflowClient

import jrh_mlflow as jrh
from jrh_mlflow.comparing.criterion_shift import _arm_name
from jrh_mlflow.errors import RecipeError
from jrh_mlflow.judges import Judge
from jrh_mlflow.schema.presentation import Criterion


@pytest.fixture(scope="module")
def shift(store_uri: str) -> jrh.CriterionShift:
    judge = jrh.scripted.profile("Qwen32B")
    return jrh.criterion_shift(judge, "datasheet-paper", experiment="tests", tracking_uri=store_uri, traces="none")


def test_a_wrong_word_is_refused_before_the_parent_run_is_made(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match="Unknown traces"):
        jrh.criterion_shift("openai/gpt-4o-mini", traces="fail", tracking_uri=f"sqlite:///{tmp_path / 'untouched.db'}")
    assert not (tmp_path / "untouched.db").exists()


def test_the_published_shift_is_read(shift: jrh.CriterionShift) -> None:
    delta_c = shift.shifts["strict/tie_rate/delta_0_same"]
    assert isinstance(delta_c, jrh.Estimate)
    assert delta_c.value == pytest.approx(31 / 120)
    assert delta_c.cluster_low is not None
    assert delta_c.cluster_low < delta_c.value
    assert shift.metrics["criterion_shift/strict/raw_false_preference/value"] == pytest.approx(-31 / 120)
    assert shift.metrics["criterion_shift/strict/miss_by_tie/delta_1/value"] == pytest.approx(0.44)
    assert shift.metrics["criterion_shift/strict/miss_by_tie/delta_1/n"] == 100


def test_what_the_paper_did_not_ask_is_not_estimable(shift: jrh.CriterionShift) -> None:
    assert isinstance(shift.shifts["strict/dark_current"], jrh.NotEstimable)
    assert "criterion_shift/strict/dark_current/value" not in shift.metrics


def test_one_line_names_the_axes_as_people_do(shift: jrh.CriterionShift) -> None:
    assert repr(shift).startswith(
        "CriterionShift('Qwen32B (simulated)', 'allowed' → 'strict': raw false preference -0.26 [-0.39, -0.07], "
    )


def test_there_is_a_parent_with_one_child_per_criterion_and_the_figures(
    shift: jrh.CriterionShift, store_uri: str
) -> None:
    client = MlflowClient(tracking_uri=store_uri)
    parent = client.get_run(shift.run_id)
    assert parent.data.tags["jrh.kind"] == "criterion_shift"
    assert parent.data.params["judge.tie_criterion"] == "allowed, strict"
    assert parent.data.metrics == shift.logged
    for name, arm in shift.arms.items():
        child = client.get_run(arm.run_id)
        assert child.data.tags["mlflow.parentRunId"] == shift.run_id
        assert child.data.params["judge.tie_criterion"] == name
    figures = {file.path for file in client.list_artifacts(shift.run_id, "figures")}
    assert "figures/operating_points.svg" in figures


@pytest.mark.parametrize(
    ("judge", "names"),
    [
        (jrh.PromptedJudge("openai/m"), ["m: allowed", "m strict", "m own-0d6bd1f2"]),
        (jrh.PromptedJudge("openai/m", name="mine"), ["mine: allowed", "mine: strict", "mine: own-0d6bd1f2"]),
        (
            jrh.scripted.AlwaysTie(),
            [f"AlwaysTie (simulated): {name}" for name in ("allowed", "strict", "own-0d6bd1f2")],
        ),
    ],
)
def test_arms_are_named_by_judge_and_criterion_once(judge: Judge, names: list[str]) -> None:
    criteria = ("allowed", "strict", "Prefer the shorter one.")
    assert [_arm_name(judge.with_criterion(criterion)) for criterion in criteria] == names


@pytest.mark.slow
def test_a_description_that_is_too_long_points_to_an_artifact_that_is_there(store_uri: str) -> None:
    criteria = [Criterion(name=f"criterion_{number}", text=f"Text {number}.") for number in range(6)]
    suite, where = jrh.datasheet_suite(n_tasks=1, depth=5), {"experiment": "tests", "tracking_uri": store_uri}
    done = jrh.criterion_shift(lambda shown: "1", suite, criteria=criteria, traces="none", **where)
    client = MlflowClient(tracking_uri=store_uri)
    note = client.get_run(done.run_id).data.tags["mlflow.note.content"]
    assert len(note) < 8000 < len(done.to_markdown())
    named = note.rpartition("artifact `")[2].removesuffix("`.\n")
    assert named in {file.path for file in client.list_artifacts(done.run_id)}


def test_the_dataset_of_the_parent_can_be_loaded(shift: jrh.CriterionShift, store_uri: str) -> None:
    [logged] = MlflowClient(tracking_uri=store_uri).get_run(shift.run_id).inputs.dataset_inputs
    suite = jrh.load_suite(json.loads(logged.dataset.source)["uri"], tracking_uri=store_uri)
    assert logged.dataset.digest == suite.sha256[:36]


def test_a_callable_is_told_the_criterion_and_its_answers(store_uri: str) -> None:
    def literal(shown: jrh.Presentation) -> str:
        if "tie" not in shown.answers:
            return "1"
        return "tie" if "surface form" in (shown.rubric or "") else "2"

    suite, where = jrh.datasheet_suite(n_tasks=1, depth=1), {"experiment": "tests", "tracking_uri": store_uri}
    done = jrh.criterion_shift(literal, suite, criteria=("forced", "allowed", "strict"), traces="none", **where)
    assert done.arms["forced"].metrics["positional_false_preference/rate"] == 1.0
    assert done.arms["strict"].metrics["no_preference/rate"] == 1.0
    assert done.metrics["criterion_shift/strict/tie_rate/vacuum/value"] == 1.0


@pytest.mark.parametrize(
    ("criteria", "text"),
    [
        (("allowed",), "at least two criteria"),
        (("allowed", "allowed"), "must differ"),
        (("allowed", "strikt"), "Did you mean 'strict'"),
        (("allowed", "forced"), "no 'forced' arm"),
    ],
)
def test_bad_criteria_are_refused_before_anything_is_logged(
    criteria: tuple[str, ...], text: str, store_uri: str
) -> None:
    with pytest.raises(RecipeError, match=text):
        jrh.criterion_shift(
            jrh.scripted.profile("Qwen32B"), criteria=criteria, experiment="tests", tracking_uri=store_uri
        )
