"""Parameters of tests and prompt files, from what a user writes to suite, run and budget."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from click.testing import CliRunner, Result
from mlflow import MlflowClient

import jrh_mlflow as jrh
from jrh_mlflow.cli.main import group
from jrh_mlflow.errors import RecipeError
from jrh_mlflow.generation.prepared import PreparedGeneration, prepare_generation
from jrh_mlflow.options import GenerationSettings
from tests.generation.tools import LABELS, PRICES, RUBRIC, WRITER, rows, run

STABILITY = {"name": "stochastic_stability", "replicates": 5, "deep_seeds": 0}
SARCASM = "---\nexpects: flipped\nconfirm: false\n---\nOf {label} make {expected}: {original}"


def jrh_command(*arguments: object) -> Result:
    return CliRunner().invoke(group, [str(argument) for argument in arguments])


def prepared(**options: Any) -> PreparedGeneration:
    about = {"rubric": RUBRIC, "labels": LABELS, "generator": WRITER, "prices": PRICES, "max_usd": 1.0}
    return prepare_generation(GenerationSettings.checked({"dataset": rows(2), **about, **options}))


def test_parameters_are_used_stated_in_the_manifest_and_logged(store_uri: str) -> None:
    done = run(rows(3), None, store_uri, tests=[STABILITY, "typos"])
    assert {item.replicates for item in done.suite.items} == {1, 5}
    assert "stochastic_stability_deep" not in done.suite.manifest["conditions"]
    stated = {"replicates": 5, "deep_seeds": 0, "deep_replicates": 10}
    assert done.suite.origin["parameters"] == {"stochastic_stability": stated}
    params = MlflowClient(store_uri).get_run(done.run_id).data.params
    assert (params["test.stochastic_stability.replicates"], params["test.stochastic_stability.deep_seeds"]) == (
        "5",
        "0",
    )
    assert "test.stochastic_stability.deep_replicates" not in params


def test_a_recipe_and_the_command_line_make_what_python_makes(store_uri: str, tmp_path: Path) -> None:
    pd.DataFrame(rows(3)).to_csv(tmp_path / "answers.csv", index=False)
    same = {"rubric": RUBRIC, "labels": list(LABELS), "tracking_uri": store_uri}
    suite = jrh.generate(tmp_path / "answers.csv", tests=[STABILITY, "typos"], **same)
    recipe = {**same, "dataset": "answers.csv", "tests": [STABILITY, "typos"], "output": "by_recipe"}
    (tmp_path / "recipe.yaml").write_text(json.dumps(recipe), encoding="utf-8")
    assert jrh_command("generate", tmp_path / "recipe.yaml").exit_code == 0
    text = "stochastic_stability:replicates=5:deep_seeds=0,typos"
    options = ["--rubric", RUBRIC, "--labels", "fail,pass", "--tracking-uri", store_uri, "-o", tmp_path / "by_option"]
    assert jrh_command("generate", tmp_path / "answers.csv", "--tests", text, *options).exit_code == 0
    other = jrh_command(
        "generate", tmp_path / "answers.csv", "--tests", "stochastic_stability:deep_seeds=0,typos", *options
    )
    assert "it differs in parameters of tests" in str(other.exception)
    assert jrh_command("generate", tmp_path / "answers.csv", "--tests", text, *options).exit_code == 0
    for folder in ("by_recipe", "by_option"):
        assert jrh.load_suite(tmp_path / folder).sha256 == suite.sha256


def test_a_mistake_in_a_recipe_is_one_line_with_file_and_entry(tmp_path: Path) -> None:
    recipe = {"dataset": "answers.csv", "rubric": RUBRIC, "tests": ["typos", {**STABILITY, "replicats": 3}]}
    (tmp_path / "recipe.yaml").write_text(json.dumps(recipe), encoding="utf-8")
    done = jrh_command("generate", tmp_path / "recipe.yaml", "--dry-run")
    assert done.exit_code != 0
    told = str(done.exception) + done.output
    assert "recipe.yaml, entry 2 of `tests`: Test 'stochastic_stability' has no parameter 'replicats'" in told
    assert "Did you mean 'replicates'?" in told


def test_other_parameters_are_another_budget_and_stated_defaults_are_not() -> None:
    names = ["label_flip", "stochastic_stability"]
    plain = prepared(tests=names)
    assert prepared(tests=["label_flip", {"name": "stochastic_stability", "replicates": 3}]).budget() == plain.budget()
    keys = {
        prepared(tests=tests).budget()
        for tests in (
            names,
            "label_flip,stochastic_stability:replicates=5",
            "label_flip:max_length=3,stochastic_stability",
        )
    }
    assert len(keys) == 3


def test_a_prompt_file_is_carried_out_by_the_generator_and_scored_by_what_its_items_expect(
    store_uri: str, tmp_path: Path
) -> None:
    (tmp_path / "sarcasm.txt").write_text(SARCASM, encoding="utf-8")
    briefs: list[str] = []

    def write(brief: str, temperature: float | None) -> str:
        briefs.append(brief)
        return f"Oh sure, as if. {brief.partition(': ')[2]}"

    done = run(rows(4), None, store_uri, tests=f"@{tmp_path / 'sarcasm.txt'}", generator=write)
    made = [item for item in done.suite.items if item.condition == "sarcasm"]
    assert {item.expected for item in made} == set(LABELS)
    assert briefs[0].startswith("Of fail make pass: The council")
    stated = done.suite.origin["parameters"]["sarcasm"]
    assert stated["prompt"] == SARCASM.rpartition("---\n")[2]
    assert (
        MlflowClient(store_uri).get_run(done.run_id).data.params["test.sarcasm.prompt_sha256"]
        == stated["prompt_sha256"]
    )
    evaluated = jrh.evaluate(
        lambda shown: "pass", done.suite, tracking_uri=store_uri, experiment="tests", progress=False
    )
    reading = jrh.measure(evaluated.calls).estimates["sarcasm/accuracy"]
    assert isinstance(reading, jrh.Estimate)
    assert (reading.value, reading.n) == (0.5, 4)


def test_a_prompt_file_in_a_recipe_lies_beside_it_and_needs_a_model(tmp_path: Path) -> None:
    pd.DataFrame(rows(2)).to_csv(tmp_path / "answers.csv", index=False)
    (tmp_path / "sarcasm.txt").write_text(SARCASM, encoding="utf-8")
    entry = {"name": "irony", "prompt": "sarcasm.txt", "expects": "unchanged"}
    recipe = {"dataset": "answers.csv", "rubric": RUBRIC, "labels": list(LABELS), "tests": [entry], "generator": WRITER}
    (tmp_path / "recipe.yaml").write_text(json.dumps(recipe), encoding="utf-8")
    done = jrh_command("generate", tmp_path / "recipe.yaml", "--dry-run", "--json")
    assert json.loads(done.output)["generator_calls"] == 2
    with pytest.raises(RecipeError, match="no generator: sarcasm"):
        jrh.generate(rows(2), tests=[f"@{tmp_path / 'sarcasm.txt'}"], rubric=RUBRIC, labels=LABELS)


def test_tests_shows_parameters_and_prompt_files(tmp_path: Path) -> None:
    shown = jrh_command("suite", "tests", "stochastic_stability:replicates=5").output
    assert "replicates = 5: How often every seed is asked about." in shown
    (tmp_path / "sarcasm.txt").write_text(SARCASM, encoding="utf-8")
    own = jrh_command("suite", "tests", f"@{tmp_path / 'sarcasm.txt'}")
    assert "the flipped label" in own.output
    assert "Of {label} make {expected}: {original}" in own.output
    (facts,) = json.loads(jrh_command("suite", "tests", "stochastic_stability", "--json").output)
    assert facts["parameters"]["replicates"] == 3
