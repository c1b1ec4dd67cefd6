"""Recipes: evaluations and generations written down in YAML."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jrh_mlflow.errors import RecipeError, suggest
from jrh_mlflow.generation.editor import STAGES
from jrh_mlflow.generation.writers import Generator
from jrh_mlflow.judges import Judge
from jrh_mlflow.judges.http_judge import http_judge
from jrh_mlflow.judges.raw import PromptedJudge
from jrh_mlflow.measuring.resolve import judge_from_text
from jrh_mlflow.measuring.until import until
from jrh_mlflow.models import trust
from jrh_mlflow.options import NO_VALIDATOR, GenerationSettings, JudgeOptions, RunOptions, read_prices
from jrh_mlflow.perturb.registry import listed_tests
from jrh_mlflow.plugins import function_from_text
from jrh_mlflow.suites.transcripts.preprocessing import is_function
from jrh_mlflow.tracking.judges.judge_registry import SCORERS
from jrh_mlflow.yaml_files import Document

_VERIFIER = "verifier"
"""Another word for the validator."""
_TEXTS = ("rubric", "tie_criterion")
_SERVICE = ("url", "body", "answer", "usage", "headers")
"""Of a judge, what may stand in a file."""
GENERATION_KEYS = (*(name for name in GenerationSettings.model_fields if name != "progress"), "output", _VERIFIER)


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """An evaluation written down: the arguments of `jrh.evaluate` or `jrh.criterion_shift`."""

    judge: Judge
    suite: str | None = None
    criteria: tuple[str, ...] | None = None
    options: dict[str, Any] = field(default_factory=dict)


def load_recipe(
    path: str | Path,
    *,
    judge: Mapping[str, Any] | None = None,
    options: Mapping[str, Any] | None = None,
    allow_key_to: str | Iterable[str] | None = None,
) -> Recipe:
    """Read a recipe in YAML; paths in it are relative to the recipe.

    Args:
        path: The recipe.
        judge: Arguments of `PromptedJudge` that override those of the recipe's judge.
        options: Keywords of `jrh.evaluate` that override those of the recipe.
        allow_key_to: Hosts that may get keys, though only the recipe names them; `HOST`, `HOST:PORT`, `http://HOST`.

    Raises:
        RecipeError: for a key that is not known, with the nearest one that is, or a value that makes no sense.
    """
    trust.allow_key_to(allow_key_to)
    document = read_document(path, ("judge", "suite", "criteria", "until", *RunOptions.model_fields))
    document.demand("judge")
    settings = run_options(document)
    rules = document.value("until", str | list, "a rule, as 'dark_current <= 0.1', or a list of rules")
    if rules is not None:
        with document.named("until"):
            settings["stop"] = until(rules)
    settings |= options or {}
    trust.check_stores(settings)
    suite, criteria = document.data.get("suite"), document.value("criteria", list, "a list, as in [allowed, strict]")
    return Recipe(
        judge=recipe_judge(document.data["judge"], document, judge or {}, options=settings),
        suite=None if suite is None else document.beside(str(suite)),
        criteria=None if criteria is None else tuple(str(document.text(arm, "criteria")) for arm in criteria),
        options=settings,
    )


def read_document(path: str | Path, known: Iterable[str]) -> Document:
    """Read a file of a user's; the addresses in it are known to be its own, and not the user's word."""
    document = Document.read(path, known)
    trust.name_addresses(document.data, str(path))
    return document


def run_options(document: Document, overrides: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Read the run options of a document, with those that stand in their place."""
    written = {**document.data, **(overrides or {})}
    given = {key: written[key] for key in RunOptions.model_fields if written.get(key) is not None}
    with document.named():
        return RunOptions.checked(given).given


def load_generation(
    path: str | Path,
    *,
    allow_key_to: str | Iterable[str] | None = None,
) -> dict[str, Any]:
    """Read a generation in YAML: the arguments of `jrh.generate` and `output`; paths are relative to the recipe.

    `generator` is a model name, the arguments of `Generator`, `{callable: file.py:function}`, or `none` for the rules;
    `planner`, `editor` and `summary` are the same, with `prompt`, a template file; `validator` (or `verifier`) and
    `labeller` are judges as in other recipes; `rubric` and `instruction` are a text, `@file` or `{file: name}`.

    Args:
        path: The recipe.
        allow_key_to: As for `load_recipe`.

    Raises:
        RecipeError: for a key that is not known, with the nearest one that is.
    """
    trust.allow_key_to(allow_key_to)
    return generation_from(read_document(path, GENERATION_KEYS))


def generation_from(document: Document) -> dict[str, Any]:
    """Read a generation as `load_generation` does."""
    given = dict(document.data)
    if _VERIFIER in given:
        if "validator" in given:
            raise document.error("`verifier` is another word for `validator`. Give one of them.")
        given["validator"] = given.pop(_VERIFIER)
    document.demand("dataset", "rubric")
    given["dataset"] = document.beside(str(given["dataset"]))
    given["instruction"] = document.text(given.get("instruction"), "instruction")
    given["rubric"] = _rubric(given["rubric"], document)
    given["generator"] = _recipe_generator(document)
    for role in ("validator", "labeller"):
        written = given.get(role)
        if isinstance(written, list):
            given[role] = [recipe_judge(judge, document, place=role) for judge in written]
        elif written not in (None, NO_VALIDATOR):
            given[role] = recipe_judge(written, document, place=role)
    if given.get("tests") is not None:
        given["tests"] = listed_tests(given["tests"], folder=document.folder, where=document.where)
    given |= {stage: _recipe_stage(stage, document) for stage in STAGES if given.get(stage) is not None}
    if isinstance(steps := given.get("preprocess"), str | list):
        steps = steps.split(",") if isinstance(steps, str) else steps
        steps = [step.strip() if isinstance(step, str) else step for step in steps]
        with document.named("preprocess"):
            given["preprocess"] = [document.code(step) if is_function(step) else step for step in steps]
    if "output" in given:
        given["output"] = str(document.folder / str(given["output"]))
    # A key without a value is left to its default.
    given = {key: value for key, value in given.items() if value is not None}
    trust.check_stores(given)
    with document.named():
        if "prices" in given:
            given["prices"] = read_prices(given["prices"])
        # Checked here only to name the file in errors; whoever generates makes the settings.
        GenerationSettings.checked({key: value for key, value in given.items() if key != "output"})
    return given


def _rubric(written: object, document: Document) -> object:
    """Read the one rubric, or each of several by its id, where it stands in a file."""
    # A lone key that looks like `file` is taken for it, or for a slip of the pen.
    if isinstance(written, Mapping) and (len(written) > 1 or not suggest(str(next(iter(written), "")), ["file"])):
        return {name: document.text(text, name) for name, text in written.items()}
    return document.text(written, "rubric")


def _recipe_stage(stage: str, document: Document) -> object:
    """Return a stage of editing transcripts with its function found, and its file as seen from here."""
    if not isinstance(document.data[stage], Mapping):
        return document.data[stage]
    written = dict(document.data[stage])
    if isinstance(written.get("prompt"), str):
        written["prompt"] = _prompt_file(written["prompt"], document)
    if "callable" in written:
        with document.named(stage):
            written["callable"] = function_from_text(document.code(str(written["callable"])))
    return written


def _prompt_file(spec: str, document: Document) -> str:
    # A text with lines or placeholders is the prompt itself.
    return spec if "\n" in spec or "{" in spec else document.beside(spec)


def _recipe_generator(document: Document) -> object:
    written = document.data.get("generator")
    if written is None or isinstance(written, str):
        return written
    generator = document.inside("generator", written, ("callable", *inspect.signature(Generator).parameters))
    if ("callable" in written) == ("model" in written):
        raise generator.error("give one of `model` or `callable`.")
    with generator.named():
        if "model" in written:
            return Generator(**generator.data)
        return function_from_text(document.code(str(written["callable"])))


def recipe_judge(
    data: object,
    document: Document,
    overrides: Mapping[str, Any] | None = None,
    *,
    place: str = "judge",
    options: Mapping[str, Any] | None = None,
) -> Judge:
    """Make the judge that stands at a place of a document, as one text or as a mapping.

    Of the `options` of an evaluation, its store and experiment are where a registered judge is looked for.

    Raises:
        RecipeError: saying what is wrong with it.
    """
    inside = document.inside(place, _in_full(data), ("callable", "scripted", *_SERVICE, *JudgeOptions.model_fields))
    # What overrides was typed on the command line, where its files were read already.
    inside.data = {key: value for key, value in inside.data.items() if key not in (overrides or {})}
    written = {key: inside.text(value, key) if key in _TEXTS else value for key, value in inside.data.items()}
    written |= overrides or {}
    ways = [key for key in ("callable", "scripted", "model", "url") if key in written]
    if len(ways) != 1:
        raise inside.error(f"give one of `model`, `callable`, `scripted` or `url`, not {len(ways)} of them.")
    if isinstance(inside.data.get("prompt"), str):
        written["prompt"] = _prompt_file(inside.data["prompt"], document)
    if isinstance(inside.data.get("messages"), str):
        written["messages"] = document.beside(inside.data["messages"])
    with inside.named():
        for key in ("verdict", "answer"):
            form = inside.data.get(key)
            if isinstance(form, Mapping) and "function" in form:
                written[key] = function_from_text(document.code(str(form["function"])))
        if ways == ["url"]:
            return http_judge(**written)
        if ways == ["model"]:
            return PromptedJudge(**written)
        criterion = written.pop("tie_criterion", None)
        text = str(written.pop(ways[0]))
        if written:
            raise RecipeError(f"{', '.join(written)} need(s) a `model`.")
        store = {name: value for name, value in (options or {}).items() if name in ("experiment", "tracking_uri")}
        # A scorer of a store of the user's is the user's; a store that the file names may hold anything.
        is_own = ways == ["scripted"] or (text.startswith(SCORERS) and not _names_store(document, store))
        text = f"scripted:{text}" if ways == ["scripted"] else document.beside(text) if is_own else document.code(text)
        judge = judge_from_text(text, **store)
        return judge.with_criterion(criterion) if criterion else judge


def _names_store(document: Document, store: Mapping[str, Any]) -> bool:
    """Whether the store of a registered judge is one that the file, or `.env`, names."""
    uri, judging = store.get("tracking_uri"), document.data.get("evaluate")
    if uri is None:
        return trust.is_from_dotenv("MLFLOW_TRACKING_URI")
    return uri in [part.get("tracking_uri") for part in (document.data, judging) if isinstance(part, Mapping)]


def _in_full(data: object) -> object:
    """Return a judge that is written as one text as the mapping it stands for."""
    if not isinstance(data, str):
        return data
    where, colon, name = data.partition(":")
    if not colon or "/" in where:
        return {"model": data}
    return {"scripted": name} if where == "scripted" else {"callable": data}
