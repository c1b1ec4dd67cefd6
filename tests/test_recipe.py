"""Recipes in YAML, and judges named by text."""

from __future__ import annotations

from pathlib import Path

import pytest

from jrh_mlflow.errors import RecipeError
from jrh_mlflow.judges.prompted import PromptedJudge
from jrh_mlflow.measuring.resolve import judge_from_text
from jrh_mlflow.recipe import load_recipe

pytestmark = pytest.mark.quick

ROOT = Path(__file__).parent.parent


def write(folder: Path, text: str) -> Path:
    path = folder / "recipe.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_the_shipped_recipe_is_a_capped_prompted_judge() -> None:
    recipe = load_recipe(ROOT / "recipes" / "openai_judge.yaml")
    assert isinstance(recipe.judge, PromptedJudge)
    assert recipe.judge.max_tokens == 400
    assert recipe.suite == "datasheet"
    assert recipe.options == {"max_usd": 1.0, "concurrency": 32}


def test_paths_are_relative_to_the_recipe(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("def judge(shown):\n    return 'tie'\n", encoding="utf-8")
    recipe = load_recipe(write(tmp_path, "judge:\n  callable: mine.py:judge\n  tie_criterion: strict\n"))
    assert recipe.judge.name == "mine:judge"
    assert recipe.judge.tie_criterion.name == "strict"


def test_scripted_judges_criteria_and_prices_are_read(tmp_path: Path) -> None:
    recipe = load_recipe(
        write(tmp_path, "judge: {scripted: Oracle}\ncriteria: [allowed, strict]\nprices: {my/model: [1, 2.5]}\n")
    )
    assert recipe.judge.name == "Oracle"
    assert recipe.criteria == ("allowed", "strict")
    assert recipe.options["prices"] == {"my/model": (1.0, 2.5)}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("judg: x", "unknown key 'judg'. Did you mean 'judge'"),
        ("suite: datasheet", "has no `judge`"),
        ("judge: {modell: x}", "unknown key 'modell'. Did you mean 'model'"),
        ("judge: {model: a/b, scripted: Oracle}", "not 2 of them"),
        ("judge: {scripted: Oracle, temperature: 1}", "temperature need"),
        ("judge: {scripted: Orakle}", "Did you mean 'Oracle'"),
        ("judge: a/b\nprices: {a/b: 3}", "`prices` must map"),
        ("judge: {model: a/b, temperature: 1e-1}", "judge: `temperature` must … '1e-1'"),
        ("judge: {model: a/b, max_tokens: 0}", "recipe.yaml, judge: `max_tokens"),
        ("judge: a/b\nconcurrency: many", "`concurrency` must … 'many'"),
        ("judge: a/b\nreplicates: 0", "`replicates` must … is 0"),
        ("judge: a/b\nmax_usd: -1", "`max_usd` must … above 0 … -1"),
        ("judge: a/b\nseed: true", "`seed` must … True"),
        ("judge: a/b\ntags: [x]", "`tags` must be a mapping"),
        ("judge: a/b\nexperiment: 7", "`experiment` must … 7"),
        ("judge: a/b\ncriteria: strict", "`criteria` must be a list, as in [allowed, strict], but is 'strict'"),
        ("judge: {model: a/b, rubric: {file: nowhere.txt}}", "The rubric file nowhere.txt cannot be read"),
        ("judge: {model: a/b, rubric: {flie: x.txt}}", "`rubric`: unknown key 'flie'. Did you mean 'file'"),
        ("judge: a/b\ncriteria: [allowed, '@nowhere.txt']", "The criteria file nowhere.txt cannot be read"),
        ("- a", "a mapping was expected"),
        ("judge: [", "cannot be read"),
    ],
)
def test_a_wrong_recipe_says_what_is_wrong_with_it(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(RecipeError) as caught:
        load_recipe(write(tmp_path, text))
    assert all(part in str(caught.value) for part in message.split(" … "))


def test_a_key_without_a_value_is_left_to_its_default(tmp_path: Path) -> None:
    assert load_recipe(write(tmp_path, "judge: a/b\nconcurrency:\n")).options == {}


def test_arguments_of_a_model_override_the_recipe(tmp_path: Path) -> None:
    path = write(tmp_path, "judge: {model: a/b, temperature: 1, rubric: Be fair.}\n")
    judge = load_recipe(path, judge={"temperature": 0.5, "api_base": "http://127.0.0.1:9/v1"}).judge
    assert isinstance(judge, PromptedJudge)
    assert (judge.temperature, judge.api_base, judge.rubric) == (0.5, "http://127.0.0.1:9/v1", "Be fair.")
    with pytest.raises(RecipeError, match="temperature need"):
        load_recipe(write(tmp_path, "judge: scripted:Oracle\n"), judge={"temperature": 0.5})


def test_texts_of_a_judge_may_stand_in_files_beside_the_recipe(tmp_path: Path) -> None:
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "fair.txt").write_text("Be fair.", encoding="utf-8")
    for written in ("{file: texts/fair.txt}", '"@texts/fair.txt"'):
        text = f"judge: {{model: a/b, rubric: {written}, tie_criterion: {written}}}\ncriteria: [strict, {written}]\n"
        recipe = load_recipe(write(tmp_path, text))
        assert isinstance(recipe.judge, PromptedJudge)
        assert (recipe.judge.rubric, recipe.judge.tie_criterion.text) == ("Be fair.", "Be fair.")
        assert recipe.criteria == ("strict", "Be fair.")
    assert (
        load_recipe(write(tmp_path, "judge: {model: a/b, rubric: '@@ada'}"), judge={"rubric": "@x"}).judge.rubric
        == "@x"
    )  # type: ignore[attr-defined]


def test_a_missing_recipe_is_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match="cannot be read"):
        load_recipe(tmp_path / "nowhere.yaml")


@pytest.mark.parametrize("text", ["scripted:", ":f", "plain", "nowhere.py:f"])
def test_a_judge_that_cannot_be_found_is_refused(text: str) -> None:
    with pytest.raises(RecipeError):
        judge_from_text(text)


def test_a_bad_rule_of_until_is_refused_with_the_file_that_it_stands_in(tmp_path: Path) -> None:
    path = write(tmp_path, "judge: scripted:Oracle\nuntil: [dark_current == 0.1]\n")
    with pytest.raises(RecipeError) as refused:
        load_recipe(path)
    assert str(refused.value).startswith(f"{path}, until: ")
