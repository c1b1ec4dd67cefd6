"""Tests that a rubric makes invalid: named by the user or proposed by the validator, left out, and said everywhere."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from click.testing import CliRunner
from mlflow import MlflowClient

import jrh_mlflow as jrh
from jrh_mlflow.cli.main import group
from jrh_mlflow.errors import RecipeError
from jrh_mlflow.generation.generate import price_generation
from jrh_mlflow.judges.prompted import PromptedJudge
from jrh_mlflow.options import GenerationSettings
from jrh_mlflow.perturb.registry import TESTS
from tests.generation.tools import CHECKER, LABELS, PRICES, RUBRIC, rows, run
from tests.loopback import LoopbackServer

SPELLING = "How good is the answer? Spelling counts; length does not."
WHY = {
    "typos": "spelling is graded",
    "padding": "the rubric grades length and conciseness, by sentences that say nothing",
}


@pytest.mark.parametrize(
    "invalid",
    [
        {"typos": "spelling is graded", "padding": None},
        ["typos=spelling is graded", "padding"],
        "typos=spelling is graded,padding",
    ],
)
def test_what_is_called_invalid_is_not_made_and_the_manifest_says_why(invalid: object) -> None:
    done = run(rows(2), None, None, tests="typos,padding,markdown", invalid=invalid)
    assert done.suite.origin["invalid"] == WHY
    assert set(done.suite.manifest["conditions"]) == {"baseline", "markdown"}


def test_suite_run_description_report_and_page_say_which_tests_were_left_out(store_uri: str) -> None:
    done = run(rows(4), None, store_uri, tests="all", invalid={"typos": "spelling <b>is</b> graded"})
    logged = MlflowClient(store_uri).get_run(done.run_id).data
    assert logged.params["run.invalid"] == "typos"
    assert "Left out as invalid under this rubric: typos (spelling &lt;b>is" in logged.tags["mlflow.note.content"]
    judged = jrh.evaluate(lambda shown: "pass", done.suite, tracking_uri=store_uri, experiment="t", progress=False)
    described = MlflowClient(store_uri).get_run(judged.run_id).data.tags["mlflow.note.content"]
    assert "Left out as invalid under this rubric: typos (spelling &lt;b>is&lt;/b> graded)." in described
    page = MlflowClient(store_uri).download_artifacts(judged.run_id, "datasheet.html")
    assert "typos (spelling &lt;b&gt;is&lt;/b&gt; graded)" in Path(page).read_text(encoding="utf-8")
    assert "Left out as invalid" in judged._repr_html_()


def test_names_that_are_not_known_and_suites_without_a_test_are_refused() -> None:
    about: dict[str, Any] = {"rubric": RUBRIC, "labels": LABELS}
    with pytest.raises(RecipeError, match="Did you mean 'typos'"):
        jrh.generate(rows(2), tests="markdown", invalid="typoss", **about)
    with pytest.raises(RecipeError, match="All tests that were chosen are invalid under this rubric: typos"):
        jrh.generate(rows(2), tests="typos", invalid="typos", **about)
    with pytest.raises(RecipeError, match="asks a validator about each test, and there is none"):
        jrh.generate(rows(2), tests="typos,markdown", invalid="propose", **about)
    with pytest.raises(RecipeError, match="`invalid` must be names of tests"):
        jrh.generate(rows(2), tests="typos", invalid=3, **about)


def asked_about(shown: jrh.Presentation) -> str:
    """Answers as one would who reads that spelling counts; about tone it says nothing that can be read."""
    assert shown.response == SPELLING
    if "spelling" in shown.rubric:
        return "yes"
    return "no" if "spaces" in shown.rubric or "spacing" in shown.rubric else "perhaps"


def test_the_validator_is_asked_once_for_each_test_that_expects_an_unchanged_answer(
    store_uri: str, caplog: pytest.LogCaptureFixture
) -> None:
    asked: list[str] = []

    def validator(shown: jrh.Presentation) -> str:
        asked.append(str(shown.rubric))
        return asked_about(shown)

    tests = "typos,format_invariance_2,markdown,stochastic_stability,error_injection"
    done = run(rows(3), None, store_uri, tests=tests, rubric=SPELLING, validator=validator, invalid="propose")
    assert len(asked) == 3
    assert done.suite.origin["invalid"] == {
        "typos": "the validator says that the rubric grades spelling and typing errors"
    }
    assert "typos" not in done.suite.origin["tests"]
    assert {"format_invariance_2", "markdown"} <= set(done.suite.manifest["conditions"])
    assert any("the validator did not say: markdown." in note for note in done.made.notes)
    assert "Left out as invalid under this rubric: typos" in caplog.text


def test_named_and_proposed_tests_add_up() -> None:
    about = {"tests": "typos,format_invariance_2,padding", "rubric": SPELLING, "validator": asked_about}
    done = run(rows(2), None, None, invalid="propose,padding=too long", **about)
    assert set(done.suite.origin["invalid"]) == {"typos", "padding"}


def test_proposals_are_paid_under_the_cap_once_and_stay_when_the_suite_is_made_again(tmp_path: Path) -> None:
    def reply(body: dict[str, Any]) -> str:
        graded = "spelling and typing" in body["messages"][-1]["content"]
        return json.dumps({"reason": "r", "verdict": "yes" if graded else "no"})

    with LoopbackServer(reply=reply) as server:
        options: dict[str, Any] = {
            "tests": "typos,markdown,format_invariance_1",
            "rubric": SPELLING,
            "validator": PromptedJudge(CHECKER, api_base=server.url, max_tokens=64),
            "invalid": "propose",
            "generator": None,
            "prices": PRICES,
            "journal": tmp_path / "journal.db",
            "max_usd": 1.0,
        }
        first = run(rows(3), None, None, **options)
        assert set(first.suite.origin["invalid"]) == {"typos"}
        assert (first.made.usage.calls, first.made.usage.cached) == (3, 0)
        assert (first.made.usage.cost_usd or 0) > 0
        again = run(rows(3), None, None, **options)
        assert (again.made.usage.calls, again.made.usage.cached) == (3, 3)
        assert again.suite.sha256 == first.suite.sha256
        settings = {"dataset": rows(3), "labels": LABELS, **options}
        quote = price_generation(GenerationSettings.checked(settings))
        assert (quote.validator_calls, quote.max_validator_calls) == (3, 3)
        assert (quote.usd or 0) > 0
        tight = {**options, "journal": tmp_path / "other.db", "max_usd": 1e-6}
        stopped = run(rows(3), None, None, **tight)
        assert stopped.made.usage.calls == 0
        assert str(stopped.truncated).startswith("budget")
        assert any("before 3 of 3 tests were asked about" in note for note in stopped.made.notes)


def test_a_folder_takes_the_same_suite_again_though_tests_were_proposed(store_uri: str, tmp_path: Path) -> None:
    pd.DataFrame(rows(2)).to_csv(tmp_path / "answers.csv", index=False)
    (tmp_path / "checker.py").write_text(
        "def check(shown):\n    return 'yes' if 'spelling' in shown.rubric else 'no'\n", encoding="utf-8"
    )
    options = ["--rubric", SPELLING, "--labels", "fail,pass", "--tests", "typos,markdown", "--invalid", "propose"]
    options += [
        "--validator",
        f"{tmp_path / 'checker.py'}:check",
        "--tracking-uri",
        store_uri,
        "-o",
        str(tmp_path / "s"),
    ]
    for _ in range(2):
        done = CliRunner().invoke(group, ["generate", str(tmp_path / "answers.csv"), *options], catch_exceptions=False)
        assert done.exit_code == 0, done.output
    assert set(jrh.load_suite(tmp_path / "s").origin["invalid"]) == {"typos"}


def test_the_command_line_undoes_the_tests_that_a_recipe_calls_invalid(store_uri: str, tmp_path: Path) -> None:
    pd.DataFrame(rows(2)).to_csv(tmp_path / "answers.csv", index=False)
    recipe = {"dataset": "answers.csv", "rubric": RUBRIC, "labels": list(LABELS), "tracking_uri": store_uri}
    recipe |= {"tests": ["markdown"], "invalid": ["typos", "padding"]}
    (tmp_path / "recipe.yaml").write_text(json.dumps(recipe), encoding="utf-8")

    def made(*options: str) -> tuple[dict[str, Any], list[str]]:
        folder = tmp_path / "-".join(options).replace("/", "_")
        told = ["generate", str(tmp_path / "recipe.yaml"), "--tests", "typos,markdown", *options, "-o", str(folder)]
        done = CliRunner().invoke(group, [*told, "--json"], catch_exceptions=False)
        assert done.exit_code == 0, done.output
        facts = json.loads(done.stdout)
        return facts["tests"], [note for note in facts["notes"] if "invalid" in note]

    tests, (note,) = made("--seed", "0")
    assert set(tests) == {"markdown"}
    assert "typos" in note
    assert "padding" not in note, "it was not asked for"
    assert "--invalid none" in note
    for undone in ("", "none"):
        tests, notes = made("--invalid", undone)
        assert (set(tests), notes) == ({"typos", "markdown"}, [])


def test_every_test_that_expects_an_unchanged_answer_of_a_changed_response_says_what_changes() -> None:
    silent = {name for name, test in TESTS.items() if test.expects.text == "answer unchanged" and not test.changes}
    assert silent == {"rubric_paraphrase"}
