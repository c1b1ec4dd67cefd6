"""Generation without a model: a whole suite by a function, what code alone can write, and what needs a writer."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest
from click.testing import CliRunner
from mlflow import MlflowClient

import jrh_mlflow as jrh
from jrh_mlflow.cli.main import group
from jrh_mlflow.errors import RecipeError
from jrh_mlflow.generation.report import generation_page
from tests.generation.tools import LABELS, RUBRIC, rows, run

pytestmark = pytest.mark.quick


def test_a_table_becomes_a_suite_with_a_baseline_per_row_and_every_test() -> None:
    done = run(pd.DataFrame(rows()), None, None, tests="all")
    found = done.suite.manifest["conditions"]
    assert found["baseline"] == 20
    assert {"label_flip", "semantic_paraphrase", "verbosity_bias_long", "verbosity_bias_short"} <= set(found)
    assert found["rubric_paraphrase"] == 20
    labels = {row["id"]: row["label"] for row in rows()}
    for item in done.suite.items:
        if item.condition == "label_flip":
            assert item.expected != labels[item.task]
        elif not item.condition.startswith("error_injection"):
            assert item.expected == labels[item.task]


def test_items_come_by_seed_then_by_test_and_twice_the_same() -> None:
    tests = ["semantic_paraphrase", "typos", "label_flip"]
    first = run(rows(), None, None, tests=tests)
    second = run(rows(), None, None, tests=tests)
    assert first.suite.sha256 == second.suite.sha256
    assert [item.condition for item in first.suite.items[:4]] == ["baseline", *tests]
    assert [item.task for item in first.suite.items[::4]] == [row["id"] for row in rows()]
    other = run(rows(), None, None, tests=tests, seed=1)
    assert other.suite.sha256 != first.suite.sha256


def test_without_a_generator_python_and_the_command_line_make_what_code_writes(store_uri: str, tmp_path: Path) -> None:
    data, kept = tmp_path / "answers.csv", {"rubric": RUBRIC, "labels": LABELS, "tests": "error_injection,typos"}
    pd.DataFrame(rows(4)).to_csv(data, index=False)
    suite = jrh.generate(data, **kept, tracking_uri=store_uri)
    options = [f"--{name}={value if isinstance(value, str) else ','.join(value)}" for name, value in kept.items()]
    command = ["generate", str(data), *options, "--tracking-uri", store_uri, "-o", str(tmp_path / "suite")]
    assert CliRunner().invoke(group, command, catch_exceptions=False).exit_code == 0
    assert jrh.load_suite(tmp_path / "suite").sha256 == suite.sha256
    assert suite.origin["generator"] == {"model": "code", "kind": "code", "seed": 0}


@pytest.mark.parametrize("generator", [None, "none"])
def test_a_test_that_needs_a_writer_is_refused_without_one_and_the_option_is_named(generator: str | None) -> None:
    with pytest.raises(RecipeError, match=r"no generator: label_flip\. .*--generator.* format_invariance_1") as refused:
        run(rows(4), None, None, generator=generator, tests=["label_flip", "typos"])
    assert refused.value.exit_code == 2


def test_items_suite_and_run_say_who_wrote(store_uri: str) -> None:
    done = run(rows(4), None, store_uri, tests=["label_flip", "typos"])
    metas = {item.condition: item.meta for item in done.suite.items}
    assert metas["label_flip"]["generator"] == "write"
    assert metas["typos"]["generator"] == "code"
    assert metas["label_flip"]["validator"] == "not asked"
    assert metas["label_flip"]["review"] == {"state": "unreviewed"}
    assert metas["label_flip"]["source"] == "r03"
    assert metas["label_flip"]["attempts"] >= 1
    assert 0 < metas["label_flip"]["similarity"] < 1
    assert metas["label_flip"]["similarity"] == round(metas["label_flip"]["similarity"], 4)
    assert done.suite.origin["generator"]["kind"] == "callable"
    data = MlflowClient(tracking_uri=store_uri).get_run(done.run_id).data
    assert (data.tags["jrh.kind"], data.tags["jrh.generator"]) == ("generate", "callable")


def test_the_run_holds_counts_settings_and_the_suite_itself(store_uri: str, tmp_path: Path) -> None:
    tests = ["markdown", "format_invariance_1"]
    done = run(rows(4), None, store_uri, generator=None, tests=tests, name="mine")
    client = MlflowClient(tracking_uri=store_uri)
    logged = client.get_run(done.run_id)
    assert logged.info.status == "FINISHED"
    assert logged.data.metrics["generate/items"] == 8
    assert logged.data.metrics["generate/markdown/items"] == 4
    assert logged.data.metrics["generate/format_invariance_1/set_aside"] == 0
    assert logged.data.metrics["calls/total"] == 0
    assert logged.data.params["suite.sha256"] == done.suite.sha256
    assert logged.data.params["dataset.sha256"] == done.suite.origin["dataset_sha256"]
    assert logged.data.params["run.tests"] == "markdown,format_invariance_1"
    assert logged.data.params["generator.kind"] == "code"
    assert logged.data.params["validator.kind"] == "none"
    assert logged.inputs.dataset_inputs[0].dataset.name == "mine"
    folder = Path(client.download_artifacts(done.run_id, "", str(tmp_path)))
    assert jrh.load_suite(folder / "suite").sha256 == done.suite.sha256
    assert (folder / "generation.md").read_text(encoding="utf-8").startswith("# Reliability suite: mine")
    assert done.suite.origin["generate_run_id"] == done.run_id


def test_a_reworded_question_serves_every_seed_with_its_own_label() -> None:
    done = run(rows(6), None, None, tests="rubric_paraphrase")
    items = [item for item in done.suite.items if item.condition == "rubric_paraphrase"]
    assert [(item.task, item.expected) for item in items] == [(row["id"], row["label"]) for row in rows(6)]
    assert len({item.rubric for item in items}) == 3
    assert items[0].rubric != RUBRIC
    assert [item.response for item in items] == [row["response"] for row in rows(6)]


def test_what_a_test_cannot_be_made_of_is_set_aside_with_the_reason(store_uri: str, tmp_path: Path) -> None:
    short = [rows(1)[0], {**rows(2)[1], "response": "Yes."}]
    done = run(short, None, store_uri, generator=None, tests="error_injection:doses=1")
    (aside,) = done.made.set_aside
    assert (aside.id, aside.source, aside.test) == ("r01/error_injection_1", "r01", "error_injection")
    assert "fewer than 6 words" in aside.reason
    assert done.metrics["generate/set_aside"] == 1
    folder = MlflowClient(tracking_uri=store_uri).download_artifacts(done.run_id, "", str(tmp_path))
    (line,) = (Path(folder) / "set_aside.jsonl").read_text(encoding="utf-8").splitlines()
    assert json.loads(line)["reason"] == aside.reason
    assert "| fewer than | 1 |" in generation_page(done.suite, done.made, writer="x").to_markdown()


def test_a_suite_of_baselines_only_says_so() -> None:
    short = [{**row, "response": f"Yes {number}."} for number, row in enumerate(rows(2))]
    done = run(short, None, None, generator=None, tests="error_injection")
    assert len(done.suite) == 2
    assert any("Nothing could be made" in note for note in done.made.notes)


def test_levels_that_the_data_lack_are_made_too() -> None:
    seen = rows(6, levels=("2", "3"))
    done = run(seen, None, None, tests="synthetic_ordinal", scale=(1, 4))
    made = [item for item in done.suite.items if item.condition == "synthetic_ordinal"]
    assert {item.expected for item in made} == {"1", "2", "3", "4"}
    assert len(made) + len(done.made.set_aside) == 6 * 4
    assert {item.answers for item in made} == {("1", "2", "3", "4")}


def test_model_text_in_the_note_is_only_text() -> None:
    # What the original holds too is no tag that a writer left in.
    data = [{**rows(1)[0], "response": _hostile("Shops")}]
    written = _hostile("Shops").replace("people", "folk").replace("safer", "quieter").replace("gained", "profited")
    done = run(data, None, None, generator=lambda brief, temperature: written, tests="semantic_paraphrase")
    (item,) = [item for item in done.suite.items if item.condition == "semantic_paraphrase"]
    assert "<script>" in (item.response or "")
    note = generation_page(done.suite, done.made, writer="f").to_markdown()
    assert "<script>" not in note
    assert "![x]" not in note


def _hostile(before: str) -> str:
    return rows(1)[0]["response"].replace(before, f"<script>alert()</script> ![x] | {before}")


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"tests": "label_flop"}, "Did you mean 'label_flip'"),
        ({"tests": "synthetic_ordinal"}, "ordinal"),
        ({"rubric": " "}, "rubric"),
        ({"generator": 3}, "generator must be"),
        ({"labels": ("no", "yes")}, "label"),
        ({"columns": {"response": "answer"}}, "answer"),
    ],
)
def test_what_makes_no_sense_is_refused_before_a_run_is_opened(
    options: dict[str, object], text: str, store_uri: str
) -> None:
    client = MlflowClient(tracking_uri=store_uri)
    experiment = client.get_experiment_by_name("tests").experiment_id
    before = len(client.search_runs([experiment]))
    with pytest.raises(RecipeError, match=text):
        run(rows(4), None, store_uri, **options)
    assert len(client.search_runs([experiment])) == before


def test_a_users_function_writes_and_what_it_raises_is_a_reason() -> None:
    def broken(brief: str, temperature: float) -> object:
        if "Remark 100" in brief:
            raise OSError("no disk")
        return 7

    done = run(rows(2), None, None, generator=broken, tests="semantic_paraphrase", validator="none")
    problems = [one.attempts[0].problems for one in done.made.set_aside]
    assert problems == [("OSError: no disk",), ("int instead of a text",)]
    assert "cost/usd" not in done.metrics


def test_generate_returns_the_suite_alone(store_uri: str) -> None:
    suite = jrh.generate(
        rows(2), tests="typos", rubric=RUBRIC, generator=None, labels=LABELS, tracking_uri=store_uri, experiment="tests"
    )
    assert isinstance(suite, jrh.Suite)
    assert suite.origin["builder"] == "generate"
