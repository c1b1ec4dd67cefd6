"""Recipes: evaluations and generations written down in YAML."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jrh_mlflow.errors import RecipeError, suggest
from jrh_mlflow.generation.editor import STAGES
from jrh_mlflow.generation.writers import Generator
from jrh_mlflow.judges import Judge
from jrh_mlflow.judges.prompted import PromptedJudge
from jrh_mlflow.measuring.named import beside, judge_from_text
from jrh_mlflow.measuring.until import Until, until
from jrh_mlflow.options import NO_VALIDATOR, GenerationSettings, JudgeOptions, RunOptions, read_prices
from jrh_mlflow.perturb import listed_tests
from jrh_mlflow.plugins import function_from_text
from jrh_mlflow.text import given_text
from jrh_mlflow.yaml_files import known_keys, read_yaml

_VERIFIER = "verifier"
"""Another word for the validator."""
_GENERATION_KEYS = (*(name for name in GenerationSettings.model_fields if name != "progress"), "output")


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """An evaluation written down: the arguments of `jrh.evaluate` or `jrh.criterion_shift`."""

    judge: Judge
    suite: str | None = None
    criteria: tuple[str, ...] | None = None
    options: dict[str, Any] = field(default_factory=dict)


def load_recipe(
    path: str | Path, *, judge: Mapping[str, Any] | None = None, options: Mapping[str, Any] | None = None
) -> Recipe:
    """Read a recipe in YAML; paths in it are relative to the recipe.

    Args:
        path: The recipe.
        judge: Arguments of `PromptedJudge` that override those of the recipe's judge.
        options: Keywords of `jrh.evaluate` that override those of the recipe.

    Raises:
        RecipeError: for a key that is not known, with the nearest one that is, or a value that makes no sense.
    """
    path = Path(path)
    keys = ("judge", "suite", "criteria", "until", *RunOptions.model_fields)
    written = known_keys(read_yaml(path), keys, where=str(path))
    if "judge" not in written:
        raise RecipeError(f"{path} has no `judge`.")
    suite, criteria = written.get("suite"), written.get("criteria")
    with _naming(path):
        run = {key: written[key] for key in RunOptions.model_fields if written.get(key) is not None}
        settings = RunOptions.checked(run).given
        if written.get("until") is not None:
            settings["stop"] = _until(written["until"], path)
    settings |= options or {}
    if criteria is not None and not isinstance(criteria, list):
        raise RecipeError(f"{path}: `criteria` must be a list, as in [allowed, strict], but is {criteria!r}.")
    return Recipe(
        judge=recipe_judge(written["judge"], path, judge or {}, options=settings),
        suite=None if suite is None else beside(path.parent, str(suite)),
        criteria=None if criteria is None else tuple(_criterion(one, path) for one in criteria),
        options=settings,
    )


def _until(written: object, path: Path) -> Until:
    """Read `until`: one rule, or a list of them."""
    rules = [written] if isinstance(written, str) else written
    if not isinstance(rules, list) or not all(isinstance(rule, str) for rule in rules):
        raise ValueError(f"`until` must be a rule, as 'dark_current <= 0.1', or a list of rules, but is {written!r}.")
    try:
        return until(rules)
    except RecipeError as error:
        raise RecipeError(f"{path}, until: {error}") from error


def load_generation(path: str | Path, *, validator: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Read a generation in YAML: the arguments of `jrh.generate` and `output`; paths are relative to the recipe.

    `generator` is a model name, the arguments of `Generator`, `{callable: file.py:function}`, or `none` for the rules;
    `planner`, `editor` and `summary` are the same, with `prompt`, a template file; `validator` (or `verifier`) and
    `labeller` are judges as in other recipes; `rubric` and `instruction` are a text, `@file` or `{file: name}`.

    Args:
        path: The recipe.
        validator: Arguments of `PromptedJudge` that override those of the recipe's validator.

    Raises:
        RecipeError: for a key that is not known, with the nearest one that is.
    """
    path = Path(path)
    return generation_from(read_yaml(path), path, where=str(path), validator=validator)


def generation_from(
    written: object, path: Path, *, where: str, validator: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Read a generation as `load_generation` does, from data of the recipe at `path`; errors say `where`."""
    given = known_keys(written, (*_GENERATION_KEYS, _VERIFIER), where=where)
    if _VERIFIER in given:
        if "validator" in given:
            raise RecipeError(f"{where}: `verifier` is another word for `validator`. Give one of them.")
        given["validator"] = given.pop(_VERIFIER)
    for key in ("dataset", "rubric"):
        if key not in given:
            raise RecipeError(f"{where} has no `{key}`.")
    given["dataset"] = beside(path.parent, str(given["dataset"]))
    given |= _texts(given, "instruction", path=path)
    given["rubric"] = _rubric(given["rubric"], path)
    given["generator"] = _recipe_generator(given.get("generator"), path)
    for role, overrides in (("validator", validator), ("labeller", None)):
        if given.get(role) not in (None, NO_VALIDATOR):
            given[role] = recipe_judge(given[role], path, overrides)
    if given.get("tests") is not None:
        given["tests"] = listed_tests(given["tests"], folder=path.parent, where=str(path))
    given |= {stage: _recipe_stage(given[stage], stage, path) for stage in STAGES if given.get(stage) is not None}
    if isinstance(given.get("preprocess"), str | list):
        given["preprocess"] = _steps(given["preprocess"], path.parent)
    if "output" in given:
        given["output"] = str(path.parent / str(given["output"]))
    given = {key: value for key, value in given.items() if value is not None}
    with _naming(path):
        if "prices" in given:
            given["prices"] = read_prices(given["prices"])
        GenerationSettings.checked({key: value for key, value in given.items() if key != "output"})
    return given


def _rubric(written: object, path: Path) -> object:
    """Read the one rubric, or each of several by its id, where it stands in a file."""
    # A lone key that looks like `file` is taken for it, or for a slip of the pen.
    if isinstance(written, Mapping) and (len(written) > 1 or not suggest(str(next(iter(written), "")), ["file"])):
        return _texts(written, *written, path=path)
    return _texts({"rubric": written}, "rubric", path=path).get("rubric", written)


def _steps(given: str | list[Any], folder: Path) -> list[object]:
    """Return preprocessors whose files lie beside the recipe as seen from here."""
    steps = given.split(",") if isinstance(given, str) else given
    return [beside(folder, step.strip()) if isinstance(step, str) else step for step in steps]


def _recipe_stage(data: object, stage: str, path: Path) -> object:
    """Return a stage of editing transcripts with its function found, and its file as seen from here."""
    if not isinstance(data, Mapping):
        return data
    written = dict(data)
    if isinstance(written.get("prompt"), str):
        written["prompt"] = _prompt_file(written["prompt"], path)
    if "callable" in written:
        with _naming(f"{path}, {stage}"):
            written["callable"] = function_from_text(beside(path.parent, str(written["callable"])))
    return written


def _prompt_file(spec: str, path: Path) -> str:
    # A text with lines or placeholders is the prompt itself.
    return spec if "\n" in spec or "{" in spec else beside(path.parent, spec)


def _recipe_generator(data: object, path: Path) -> object:
    if data is None or isinstance(data, str):
        return data
    keys = ("callable", *inspect.signature(Generator).parameters)
    written = known_keys(data, keys, where=f"{path}, generator")
    if ("callable" in written) == ("model" in written):
        raise RecipeError(f"{path}, generator: give one of `model` or `callable`.")
    with _naming(f"{path}, generator"):
        if "model" in written:
            return Generator(**written)
        return function_from_text(beside(path.parent, str(written["callable"])))


def _texts(written: Mapping[str, Any], *keys: str, path: Path) -> dict[str, str]:
    """Read the texts that may stand in a file beside the recipe."""
    given = {key: written[key] for key in keys if isinstance(written.get(key), str | Mapping)}
    try:
        return {key: given_text(value, what=key, folder=path.parent) for key, value in given.items()}
    except RecipeError as error:
        raise RecipeError(f"{path}: {error}") from error


def recipe_judge(
    data: object, path: Path, overrides: Mapping[str, Any] | None = None, *, options: Mapping[str, Any] | None = None
) -> Judge:
    """Make the judge that a recipe describes, as one text or as a mapping; files lie beside the recipe.

    Of the `options` of an evaluation, its store and experiment are where a registered judge is looked for.

    Raises:
        RecipeError: saying what is wrong with it.
    """
    keys = ("callable", "scripted", *JudgeOptions.model_fields)
    written = {**known_keys(_in_full(data), keys, where=f"{path}, judge"), **(overrides or {})}
    ways = [key for key in ("callable", "scripted", "model") if key in written]
    if len(ways) != 1:
        raise RecipeError(f"{path}, judge: give one of `model`, `callable` or `scripted`, not {len(ways)} of them.")
    # What overrides was typed on the command line, where its files were read already.
    written |= _texts(
        {key: value for key, value in written.items() if key not in (overrides or {})}, *_TEXTS, path=path
    )
    if isinstance(written.get("prompt"), str) and "prompt" not in (overrides or {}):
        written["prompt"] = _prompt_file(written["prompt"], path)
    if ways == ["model"]:
        with _naming(f"{path}, judge"):
            return PromptedJudge(**written)
    criterion = written.pop("tie_criterion", None)
    text = str(written.pop(ways[0]))
    if written:
        raise RecipeError(f"{path}, judge: {', '.join(written)} need(s) a `model`.")
    text = f"scripted:{text}" if ways == ["scripted"] else beside(path.parent, text)
    where = {name: value for name, value in (options or {}).items() if name in ("experiment", "tracking_uri")}
    judge = judge_from_text(text, **where)
    return judge.with_criterion(criterion) if criterion else judge


def _criterion(written: object, path: Path) -> str:
    return _texts({"criteria": written}, "criteria", path=path).get("criteria", str(written))


_TEXTS = ("rubric", "tie_criterion")
"""Of a judge, what may stand in a file."""


def _in_full(data: object) -> object:
    """Return a judge that is written as one text as the mapping it stands for."""
    if not isinstance(data, str):
        return data
    where, colon, name = data.partition(":")
    if not colon or "/" in where:
        return {"model": data}
    return {"scripted": name} if where == "scripted" else {"callable": data}


@contextmanager
def _naming(where: object) -> Iterator[None]:
    """Say of a value that makes no sense where it is written."""
    try:
        yield
    except (ValueError, TypeError) as error:
        raise RecipeError(f"{where}: {error}") from error
