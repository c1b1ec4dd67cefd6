"""`jrh generate` and `jrh suite tests`, run as a user runs them."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import jrh_mlflow as jrh
from jrh_mlflow.cli.main import group
from jrh_mlflow.engine.journal import open_journal
from jrh_mlflow.errors import JrhError, JudgeError, RecipeError
from jrh_mlflow.measuring.resolve import default_journal
from jrh_mlflow.recipe import load_generation
from tests.generation.tools import LABELS, RUBRIC, Player, rows
from tests.loopback import LoopbackServer, error_reply


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-planted-0123456789")


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "answers.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=["id", "task", "answer", "grade"])
        writer.writeheader()
        for row in rows():
            writer.writerow(dict(zip(writer.fieldnames, row.values(), strict=True)))
    return path


MAPPED = ("--map", "instruction=task", "--map", "response=answer", "--map", "label=grade", "--labels", "fail,pass")


def cli(*arguments: object) -> Result:
    return CliRunner().invoke(group, [str(argument) for argument in arguments])


def generated(table: Path, store_uri: str, *more: object) -> dict[str, Any]:
    done = cli("generate", table, *MAPPED, "--rubric", RUBRIC, "--tracking-uri", store_uri, "--json", *more)
    assert done.exit_code == 0, (done.output, done.exception)
    facts: dict[str, Any] = json.loads(done.stdout)
    return facts


def test_a_csv_of_twenty_rows_becomes_a_suite_without_a_key_and_twice_the_same(
    table: Path, store_uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    first = generated(table, store_uri, "--tests", "padding,typos", "-o", "one")
    second = generated(table, store_uri, "--tests", "padding,typos", "-o", "two")
    assert first["suite"]["sha256"] == second["suite"]["sha256"] == jrh.load_suite("one").sha256
    assert first["suite"]["name"] == "answers"
    assert first["tests"]["padding"]["items"] == 20
    assert first["metrics"]["calls/total"] == 0
    told = ("--rubric", RUBRIC, "--tests", "padding,typos", "--tracking-uri", store_uri, "-o", "three")
    shown = cli("generate", table, *MAPPED, *told)
    assert "padding" in shown.output
    assert first["suite"]["sha256"] in shown.output


def test_then_a_judge_is_evaluated_on_it(table: Path, store_uri: str) -> None:
    generated(table, store_uri, "-o", "suite", "--tests", "markdown,format_invariance_1")
    asked = ("--judge", "scripted:Oracle", "--suite", "suite", "--tracking-uri", store_uri, "--json")
    done = cli("evaluate", *asked)
    assert done.exit_code == 0, (done.output, done.exception)
    assert json.loads(done.stdout)[0]["metrics"]["markdown/accuracy/rate"] == 1.0


def test_rows_are_drawn_by_stratum_and_the_rubric_may_be_a_file(table: Path, store_uri: str, tmp_path: Path) -> None:
    (tmp_path / "rubric.txt").write_text("Is it right?", encoding="utf-8")
    more = ("--n", 4, "--stratify", "label", "--tests", "typos", "-o", "suite", "--rubric", "@rubric.txt")
    generated(table, store_uri, *more)
    baselines = [item for item in jrh.load_suite("suite").items if item.condition == "baseline"]
    assert sorted(str(item.expected) for item in baselines) == ["fail", "fail", "pass", "pass"]
    assert {item.rubric for item in baselines} == {"Is it right?"}


def test_a_model_is_named_priced_and_capped_on_the_command_line(table: Path, store_uri: str) -> None:
    with LoopbackServer(reply=Player(rows(), tests="semantic_paraphrase")) as server:
        model = ("--generator", "openai/writer", "--api-base", server.url, "--price", "10,20", "--max-tokens", 512)
        told = ("--tests", "semantic_paraphrase", *model)
        dry = generated(table, store_uri, *told, "--dry-run")
        assert server.counts["requests"] == 0
        facts = generated(table, store_uri, *told, "--max-usd", 5, "-o", "suite")
        assert server.counts["requests"] == facts["metrics"]["calls/total"]
    assert (dry["generator_calls"], dry["max_generator_calls"], dry["validator_calls"]) == (20, 80, 20)
    assert 0 < facts["cost_usd"] < dry["worst_usd"]


def test_the_cap_ends_with_code_three_and_a_suite_of_what_is_complete(table: Path, store_uri: str) -> None:
    with LoopbackServer(reply=Player(rows(), tests="semantic_paraphrase")) as server:
        model = ("--generator", "openai/writer", "--api-base", server.url, "--price", "1000,2000", "--max-tokens", 128)
        given = (
            *MAPPED,
            "--rubric",
            RUBRIC,
            "--tracking-uri",
            store_uri,
            "--tests",
            "semantic_paraphrase",
            "--validator",
            "none",
            *model,
        )
        done = cli("generate", table, *given, "--max-usd", 6, "-o", "suite")
    assert done.exit_code == 3, (done.output, done.exception)
    assert "Raise --max-usd" in done.stderr
    assert 20 < len(jrh.load_suite("suite")) < 40


def test_a_dead_service_is_code_four_and_leaves_no_suite(table: Path, store_uri: str) -> None:
    with LoopbackServer(reply=lambda body: error_reply(401, "Wrong key.", code="invalid_api_key")) as server:
        model = ("--generator", "openai/writer", "--api-base", server.url)
        done = cli("generate", table, *MAPPED, "--rubric", RUBRIC, "--tracking-uri", store_uri, *model, "-o", "suite")
    assert isinstance(done.exception, JudgeError)
    assert done.exception.exit_code == 4
    assert not Path("suite").exists()


RECIPE = """
dataset: answers.csv
rubric: "@rubric.txt"
tests: [padding, typos]
labels: [fail, pass]
columns: {instruction: task, response: answer, label: grade}
n: 6
stratify: label
output: made
"""


def test_a_recipe_says_the_same_with_paths_beside_it(
    table: Path, store_uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "rubric.txt").write_text(RUBRIC, encoding="utf-8")
    (tmp_path / "recipe.yaml").write_text(RECIPE, encoding="utf-8")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    done = cli("generate", "../recipe.yaml", "--tracking-uri", store_uri, "--n", 4, "--json")
    assert done.exit_code == 0, (done.output, done.exception)
    made = jrh.load_suite(tmp_path / "made")
    assert made.manifest["conditions"] == {"baseline": 4, "padding": 4, "typos": 4}
    assert {item.rubric for item in made.items} == {RUBRIC}


def test_generator_and_validator_of_a_recipe_become_objects(tmp_path: Path) -> None:
    text = RECIPE + "generator: {model: openai/writer, attempts: 2}\nvalidator: {model: openai/checker, seed: 3}\n"
    (tmp_path / "rubric.txt").write_text(RUBRIC, encoding="utf-8")
    (tmp_path / "recipe.yaml").write_text(text, encoding="utf-8")
    given = load_generation("recipe.yaml")
    assert given["generator"] == jrh.Generator("openai/writer", attempts=2)
    assert (given["validator"].model, given["validator"].seed) == ("openai/checker", 3)
    assert tuple(given["labels"]) == LABELS


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (("tests:", "testz:"), "unknown key 'testz'. Did you mean 'tests'"),
        (("dataset: answers.csv", ""), "no `dataset`"),
        (
            ('rubric: "@rubric.txt"', 'rubric: "@nowhere.txt"'),
            r"recipe\.yaml: The rubric file nowhere\.txt cannot",
        ),
        (('rubric: "@rubric.txt"', "rubric: {file: nowhere.txt}"), "The rubric file nowhere.txt cannot be read"),
        (('rubric: "@rubric.txt"', "rubric: {fiel: rubric.txt}"), "unknown key 'fiel'. Did you mean 'file'"),
        (('rubric: "@rubric.txt"', "rubric: {file: 3}"), "`rubric` .*{file: NAME}"),
        (("n: 6", "instruction: {file: nowhere.txt}"), "The instruction file nowhere.txt cannot be read"),
        (("n: 6", "generator: {modle: x}"), "Did you mean 'model'"),
        (("n: 6", "generator: {attempts: 2}"), "one of `model` or `callable`"),
        (("n: 6", "generator: {model: x, attempts: 0}"), "attempts"),
        (("n: 6", "n: ["), "cannot be read"),
        (("n: 6", "n: six"), r"recipe\.yaml: `n` must .*'six'"),
        (("n: 6", "plans: 0"), "`plans` must .*0"),
    ],
)
def test_a_recipe_that_cannot_be_followed_says_where(change: tuple[str, str], text: str, tmp_path: Path) -> None:
    (tmp_path / "rubric.txt").write_text(RUBRIC, encoding="utf-8")
    (tmp_path / "recipe.yaml").write_text(RECIPE.replace(*change), encoding="utf-8")
    with pytest.raises(RecipeError, match=text):
        load_generation("recipe.yaml")


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("answers.csv", "-o", "x"), "Give --rubric"),
        (("answers.csv", "--rubric", "Q?", *MAPPED), "Give -o"),
        (("answers.csv", "--rubric", "Q?", "-o", "x", "--temperature", "0.2"), "--temperature need"),
        (("answers.csv", "--rubric", "Q?", "-o", "x", "--map", "label"), "ROLE=COLUMN"),
        (("answers.csv", "--rubric", "Q?", "-o", "x", "--price", "1,2"), "name the model"),
        (("nowhere.csv", "--rubric", "Q?", "-o", "x"), "There is no file nowhere.csv. Check the path"),
        (("answers.csv", "--rubric", "Q?", "-o", "x", "--requests-per-minute", "0"), "not in the range x>0"),
        (("answers.csv", "--rubric", "Q?", "-o", "x", "--timeout", "-3"), "not in the range x>0"),
        (("answers.csv", "--rubric", "Q?", "-o", "x", "--max-usd", "-1"), "not in the range x>0"),
        (("answers.csv", "--rubric", "Q?", "-o", "x", *MAPPED, "--tests", "label_flop"), "Did you mean 'label_flip'"),
        (("answers.csv", "--rubric", "Q?", "-o", "x", "--map", "response=text"), "text"),
        (("answers.csv", "--rubric", "Q?", "-o", "x", *MAPPED[:6], "--scale", "1-6"), "grade"),
    ],
)
def test_bad_input_says_what_to_do_and_is_code_two(arguments: tuple[str, ...], text: str, table: Path) -> None:
    done = cli("generate", *arguments)
    said = done.output + str(done.exception)
    assert text in said
    if isinstance(done.exception, JrhError):
        assert done.exception.exit_code == 2
    else:
        assert done.exit_code == 2


def test_tests_are_listed_with_what_they_expect_and_a_prompt_is_shown() -> None:
    listed = cli("suite", "tests")
    assert listed.exit_code == 0
    line = next(line for line in listed.output.splitlines() if line.startswith("label_flip"))
    assert "model" in line
    assert "the flipped label" in line
    shown = cli("suite", "tests", "label_flip").output
    assert "=====BEGIN ORIGINAL=====" in shown
    assert "a validator must give the expected answer" in shown
    assert "no model is asked" in cli("suite", "tests", "typos").output
    assert {one["test"] for one in json.loads(cli("suite", "tests", "--json").output)} >= {
        "label_flip",
        "synthetic_ordinal",
    }
    assert "Did you mean 'typos'" in str(cli("suite", "tests", "typo").exception)


@pytest.mark.parametrize("key", ["rubric", "instruction"])
@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("{file: texts/it.txt}", "What is @asked?\n"),
        ('"@texts/it.txt"', "What is @asked?\n"),
        ('"@@ada: is it right?"', "@ada: is it right?"),
        ("Is it right, {ada}?", "Is it right, {ada}?"),
    ],
)
def test_a_text_of_a_recipe_is_what_its_file_holds(key: str, written: str, meant: str, tmp_path: Path) -> None:
    (tmp_path / "rubric.txt").write_text(RUBRIC, encoding="utf-8")
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "it.txt").write_text("What is @asked?\n", encoding="utf-8-sig")
    old, new = ('rubric: "@rubric.txt"', "rubric: ") if key == "rubric" else ("n: 6", "instruction: ")
    (tmp_path / "recipe.yaml").write_text(RECIPE.replace(old, new + written), encoding="utf-8")
    assert load_generation("recipe.yaml")[key] == meant


def test_texts_on_the_command_line_may_be_files_and_a_missing_one_is_named(
    table: Path, store_uri: str, tmp_path: Path
) -> None:
    (tmp_path / "question.txt").write_text("Is it right?", encoding="utf-8")
    told = (*MAPPED, "--tests", "typos", "--n", 4, "--tracking-uri", store_uri)
    for typed, meant in (("@@all: is it right?", "@all: is it right?"), ("@question.txt", "Is it right?")):
        done = cli("generate", table, *told, "--rubric", typed, "-o", "suite", "--force")
        assert done.exit_code == 0, (done.output, done.exception)
        assert {item.rubric for item in jrh.load_suite("suite").items} == {meant}
    missing = cli("generate", table, *told, "--rubric", "@nowhere.txt", "-o", "other")
    assert isinstance(missing.exception, RecipeError)
    assert "rubric file nowhere.txt" in str(missing.exception)


def test_cells_of_the_label_column_mean_what_the_recipe_says(store_uri: str, tmp_path: Path) -> None:
    cells = ["0.0", "1.0", "0", "1"]
    lines = [f"Say it {number}.,It is said here {number} times.,{cell}" for number, cell in enumerate(cells)]
    (tmp_path / "scores.csv").write_text("\n".join(["instruction,response,label", *lines]), encoding="utf-8")
    means = "labels: [no violation, violation]\nvalues: {0.0: no violation, 1: violation}\n"
    recipe = f"dataset: scores.csv\nrubric: {json.dumps(RUBRIC)}\ntests: [typos]\n{means}"
    (tmp_path / "recipe.yaml").write_text(recipe, encoding="utf-8")
    done = cli("generate", "recipe.yaml", "--tracking-uri", store_uri, "-o", "suite")
    assert done.exit_code == 0, (done.output, done.exception)
    baselines = [item for item in jrh.load_suite("suite").items if item.condition == "baseline"]
    assert [item.expected for item in baselines] == ["no violation", "violation"] * 2


def test_a_recipe_of_tests_that_code_writes_runs_without_a_key_when_its_generator_is_none(
    table: Path, store_uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    models = (
        "generator: {model: openai/writer, attempts: 2}\nvalidator: openai/checker\neditor: openai/editor\nmax_usd: 1\n"
    )
    (tmp_path / "rubric.txt").write_text(RUBRIC, encoding="utf-8")
    (tmp_path / "recipe.yaml").write_text(RECIPE + models, encoding="utf-8")
    done = cli("generate", "recipe.yaml", "--generator", "none", "--tracking-uri", store_uri, "--json")
    assert done.exit_code == 0, (done.output, done.exception)
    facts = json.loads(done.stdout)
    assert facts["metrics"]["calls/total"] == 0
    assert facts["tests"]["padding"]["items"] == 6
    by_code = RECIPE.replace("output: made", "output: also_made") + "generator: none\n"
    (tmp_path / "code.yaml").write_text(by_code, encoding="utf-8")
    again = cli("generate", "code.yaml", "--tracking-uri", store_uri, "--json")
    assert json.loads(again.stdout)["suite"]["sha256"] == facts["suite"]["sha256"]
    more = ("--tests", "padding,label_flip", "-o", "more")
    refused = cli("generate", "code.yaml", *more, "--tracking-uri", store_uri)
    assert isinstance(refused.exception, RecipeError)
    assert "no generator: label_flip. Name a model: generator= (--generator)" in str(refused.exception)
    assert not Path("more").exists()


@pytest.mark.parametrize(
    ("models", "named"),
    [
        (("--generator", "openai/writer", "--validator", "none"), "The generator openai/writer "),
        (("--generator", "openai/writer"), "The generator openai/writer .*OPENAI_API_KEY"),
        (
            ("--generator", "openai/writer", "--validator", "deepseek/checker"),
            "The generator openai/writer .*OPENAI_API_KEY.* The validator deepseek/checker .*DEEPSEEK_API_KEY",
        ),
    ],
)
def test_a_missing_key_is_named_with_whose_it_is_before_a_run_is_opened(
    models: tuple[str, ...], named: str, table: Path, store_uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mlflow import MlflowClient

    monkeypatch.delenv("OPENAI_API_KEY")
    monkeypatch.delenv("DEEPSEEK_API_KEY", raising=False)
    client = MlflowClient(store_uri)
    told = (*MAPPED, "--rubric", RUBRIC, "--tests", "label_flip", "--n", 4, "--tracking-uri", store_uri)
    told = (*told, "--experiment", "no-key", *models, "-o", "suite")
    for is_there in (False, True):
        if is_there:
            with open_journal(default_journal()):
                pass
        done = cli("generate", table, *told)
        assert isinstance(done.exception, JudgeError), (done.output, done.exception)
        assert re.match(named, str(done.exception))
        assert done.exception.exit_code == 4
        assert not Path("suite").exists()
        experiment = client.get_experiment_by_name("no-key")
        assert experiment is None or not client.search_runs([experiment.experiment_id]), is_there


def test_what_the_journal_answers_needs_no_key(table: Path, store_uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    told = ("--tests", "semantic_paraphrase", "--generator", "openai/writer", "--n", 4, "-o", "suite")
    with LoopbackServer(reply=Player(rows(), tests="semantic_paraphrase")) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        paid = generated(table, store_uri, *told)
        monkeypatch.delenv("OPENAI_API_KEY")
        kept = generated(table, store_uri, *told)
    assert paid["suite"] == kept["suite"]
    assert kept["metrics"]["calls/cached"] == kept["metrics"]["calls/total"] == paid["metrics"]["calls/total"] > 0


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        (("--seed", 1), "rows drawn, seed"),
        (("--n", 5), "rows drawn"),
        (("--rubric", "Is it good?"), "rubric"),
        (("--labels", "pass,fail"), "rows or labels"),
        (("--tests", "markdown"), "tests"),
        (("--name", "mine"), "name"),
    ],
)
def test_a_folder_with_another_suite_is_refused_by_the_settings_that_differ(
    changed: tuple[object, ...], named: str, table: Path, store_uri: str
) -> None:
    told = (*MAPPED, "--rubric", RUBRIC, "--tests", "typos", "--n", 4, "-o", "suite", "--tracking-uri", store_uri)
    assert cli("generate", table, *told).exit_code == 0
    refused = cli("generate", table, *told, *changed)
    assert f"it differs in {named}. Give" in str(refused.exception)
    assert isinstance(refused.exception, RecipeError)


def test_a_folder_with_another_suite_is_refused_before_anything_is_paid(
    table: Path, store_uri: str, tmp_path: Path
) -> None:
    told = ("--tests", "typos", "--n", 4)
    first = generated(table, store_uri, *told, "-o", "suite")
    content = (tmp_path / "suite" / "suite.jsonl").read_bytes()
    with LoopbackServer(reply=Player(rows(), tests="semantic_paraphrase")) as server:
        model = ("--tests", "semantic_paraphrase", "--generator", "openai/writer", "--api-base", server.url, "--n", 4)
        given = (*MAPPED, "--rubric", RUBRIC, "--tracking-uri", store_uri, "-o", "suite", "--json")
        refused = cli("generate", table, *given, *model)
        assert server.counts["requests"] == 0
        assert "suite.jsonl is another suite: it differs in generator, tests" in str(refused.exception)
        assert "--force" in str(refused.exception)
        assert isinstance(refused.exception, RecipeError)
        assert (tmp_path / "suite" / "suite.jsonl").read_bytes() == content
        forced = generated(table, store_uri, *model, "-o", "suite", "--force")
    assert forced["suite"]["sha256"] == jrh.load_suite("suite").sha256 != first["suite"]["sha256"]


def test_the_same_suite_again_is_fine_and_keeps_what_a_review_noted(
    table: Path, store_uri: str, tmp_path: Path
) -> None:
    from jrh_mlflow.suites.suite import mark_review

    told = ("--tests", "typos", "--n", 4, "-o", "suite")
    first = generated(table, store_uri, *told)
    mark_review(tmp_path / "suite", "open")
    again = generated(table, store_uri, *told)
    assert again["suite"] == first["suite"]
    assert jrh.load_suite("suite").origin["review"] == "open"


@pytest.mark.slow
def test_a_truncated_generation_is_continued_in_its_folder_and_stays_under_review(
    table: Path, store_uri: str, tmp_path: Path
) -> None:
    from jrh_mlflow.suites.suite import mark_review

    with LoopbackServer(reply=Player(rows(), tests="semantic_paraphrase")) as server:
        model = ("--generator", "openai/writer", "--api-base", server.url, "--price", "1000,2000", "--max-tokens", 128)
        given = (*MAPPED, "--rubric", RUBRIC, "--tracking-uri", store_uri, "--tests", "semantic_paraphrase", *model)
        cut = cli("generate", table, *given, "--max-usd", 6, "-o", "suite")
        assert cut.exit_code == 3, (cut.output, cut.exception)
        n_cut = len(jrh.load_suite("suite"))
        mark_review(tmp_path / "suite", "open")
        whole = cli("generate", table, *given, "--max-usd", 600, "-o", "suite")
    assert whole.exit_code == 0, (whole.output, whole.exception)
    suite = jrh.load_suite("suite")
    assert (len(suite), suite.origin["truncated"], suite.origin["review"]) == (40, None, "open")
    assert n_cut < 40
