"""Recipes, pipelines, spaces and policies: four kinds of YAML, and the same sentence for the same mistake."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from jrh_mlflow.decisions.gate import read_policy
from jrh_mlflow.errors import RecipeError
from jrh_mlflow.recipe import load_generation, load_recipe
from jrh_mlflow.sweeps.space import load_space
from jrh_mlflow.workflow import load_workflow
from jrh_mlflow.yaml_files import Document, read_yaml

pytestmark = pytest.mark.quick

READERS: dict[str, Callable[[Path], object]] = {
    "recipe": load_recipe,
    "generation": load_generation,
    "pipeline": load_workflow,
    "space": load_space,
    "policy": read_policy,
}
UNKNOWN_KEYS = {
    "recipe": "judge: a/b\nsiute: x",
    "generation": "dataset: d.csv\nrubirc: x",
    "pipeline": "suite: datasheet\njudgs: []",
    "space": "modles: [a/b]",
    "policy": "requires: []",
}
WRONG_TYPES = {
    "recipe": "judge: a/b\nreplicates: many",
    "generation": "dataset: d.csv\nrubric: Good?\nplans: many",
    "pipeline": "suite: datasheet\njudges: [a/b]\nevaluate: {replicates: many}",
    "space": "models: many",
    "policy": "require: 3",
}
UNKNOWN_CHOICES = {
    "recipe": "judge: scripted:Orakle",
    "generation": "dataset: d.csv\nrubric: Good?\nvalidator: scripted:Orakle",
    "pipeline": "suite: datasheet\njudges: [{model: a/b, answer_style: leters}]",
    "space": "models: [a/b]\norders: [bth]",
    "policy": "require: a <= 1\nundecided: passd",
}
PLACE = r"(, [a-z]+)?"
"""Inside the file, where a mistake is not at its top."""


def refusal(kind: str, folder: Path, text: str | None) -> str:
    path = folder / "mine.yaml"
    if text is not None:
        path.write_text(text, encoding="utf-8")
    with pytest.raises(RecipeError) as refused:
        READERS[kind](path)
    assert "\n" not in str(refused.value)
    assert str(refused.value).startswith(str(path))
    return str(refused.value).removeprefix(f"{folder}/")


@pytest.mark.parametrize("kind", READERS)
@pytest.mark.parametrize("text", [None, "judge: [", "a: b: c"])
def test_a_file_that_cannot_be_read_is_named_with_the_reason(kind: str, text: str | None, tmp_path: Path) -> None:
    assert re.fullmatch(r"mine\.yaml cannot be read: .+\.", refusal(kind, tmp_path, text))


@pytest.mark.parametrize("kind", READERS)
@pytest.mark.parametrize(("text", "type_"), [("", "NoneType"), ("- a", "list"), ("word", "str")])
def test_a_file_that_is_no_mapping_says_what_it_is(kind: str, text: str, type_: str, tmp_path: Path) -> None:
    assert refusal(kind, tmp_path, text) == f"mine.yaml: a mapping was expected, not {type_}."


@pytest.mark.parametrize("kind", READERS)
def test_an_unknown_key_comes_with_the_nearest_and_all_that_are_known(kind: str, tmp_path: Path) -> None:
    told = refusal(kind, tmp_path, UNKNOWN_KEYS[kind])
    assert re.fullmatch(rf"mine\.yaml{PLACE}: unknown key '\w+'\. Did you mean '\w+'\? Known: \w+(, \w+)+\.", told)


@pytest.mark.parametrize("kind", READERS)
def test_a_value_of_another_type_says_the_rule_and_the_value(kind: str, tmp_path: Path) -> None:
    told = refusal(kind, tmp_path, WRONG_TYPES[kind])
    form = rf"mine\.yaml{PLACE}: `\w+`( of a space)? must be a [^`]+, but is ('many'|3)\.( Write [^.]+0\.1`\.)?"
    assert re.fullmatch(form, told), told


@pytest.mark.parametrize("kind", READERS)
def test_an_unknown_choice_comes_with_the_nearest_and_all_that_are_known(kind: str, tmp_path: Path) -> None:
    told = refusal(kind, tmp_path, UNKNOWN_CHOICES[kind])
    form = rf"mine\.yaml{PLACE}: Unknown [\w` ]+ '\w+'\. Did you mean '\w+'\? Known: \w+(, \w+)+\."
    assert re.fullmatch(form, told), told


def test_what_stands_inside_is_named_by_all_places_around_it(tmp_path: Path) -> None:
    text = "generate: {dataset: d.csv, rubric: Good, generator: {modle: a/b}}\njudges: [a/b]"
    assert refusal("pipeline", tmp_path, text).startswith("mine.yaml, generate, generator: unknown key 'modle'.")


def test_a_file_that_is_named_lies_beside_the_document(tmp_path: Path) -> None:
    (tmp_path / "rows.xlsx").touch()
    document = Document({}, (), where="mine.yaml", folder=tmp_path)
    assert document.beside("rows.xlsx#first") == f"{tmp_path}/rows.xlsx#first"
    assert document.beside("rows.xlsx:judge") == f"{tmp_path}/rows.xlsx:judge"
    assert document.beside("nowhere.csv") == "nowhere.csv"
    assert document.beside("runs:/rows.xlsx") == "runs:/rows.xlsx"


@pytest.mark.parametrize(
    "text",
    [
        "a0: &a0 [x, x, x, x, x, x, x, x, x]\n"
        + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 12)),
        "judge: &a [*a]\n",
        f"judge: {'[' * 5000}\n",
    ],
    ids=["aliases of aliases", "inside itself", "too deep"],
)
def test_a_few_lines_that_stand_for_a_billion_values_are_one_error(text: str, tmp_path: Path) -> None:
    (tmp_path / "evil.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(RecipeError, match="evil"):
        read_yaml(tmp_path / "evil.yaml")


def test_aliases_of_usual_size_are_read(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("base: &base {a: 1}\nboth: [*base, {<<: *base, b: 2}]\n", encoding="utf-8")
    assert read_yaml(tmp_path / "mine.yaml") == {"base": {"a": 1}, "both": [{"a": 1}, {"a": 1, "b": 2}]}
