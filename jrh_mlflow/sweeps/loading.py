"""A space written down in YAML."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from jrh_mlflow.errors import RecipeError, suggest
from jrh_mlflow.judges.callables import CallableJudge
from jrh_mlflow.judges.rendering import BUILT_IN
from jrh_mlflow.recipe import judge_from_text
from jrh_mlflow.sweeps.space import REGISTRY, SPACE_KEYS, JudgeOf, Space


def load_space(path: str | Path, *, tracking_uri: str | None = None) -> Space:
    """Read a space; files in it are relative to it, and `prompts:/name/version` comes from MLflow's registry.

    `judge: file.py:function` names a function from the chosen values of `choices` to a judge.

    Raises:
        RecipeError: for a key that is not known, with the nearest one that is.
    """
    path = Path(path)
    try:
        data = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise RecipeError(f"{path} cannot be read: {' '.join(str(error).split())}.") from error
    return as_space(data, where=str(path), folder=path.parent, tracking_uri=tracking_uri)


def as_space(
    space: Space | Mapping[str, Any] | str | Path,
    *,
    where: str = "The space",
    folder: Path | None = None,
    tracking_uri: str | None = None,
) -> Space:
    """Take a space as it is, read a file, or make one from a mapping."""
    if isinstance(space, str | Path):
        return load_space(space, tracking_uri=tracking_uri)
    if isinstance(space, Space):
        return space
    given = _known(space, SPACE_KEYS, where=where)
    if isinstance(given.get("judge"), str):
        given["judge"] = _function(str(given["judge"]), folder)
    if isinstance(given.get("prompts"), list | tuple):
        given["prompts"] = [_prompt(one, folder, tracking_uri) for one in given["prompts"]]
    return Space(**given)


def _known(data: object, known: tuple[str, ...], *, where: str) -> dict[str, Any]:
    if not isinstance(data, Mapping):
        raise RecipeError(f"{where}: a mapping was expected, not {type(data).__name__}.")
    for key in data:
        if key not in known:
            raise RecipeError(f"{where}: unknown key {key!r}.{suggest(str(key), known)} Known: {', '.join(known)}.")
    return dict(data)


def _function(text: str, folder: Path | None) -> JudgeOf:
    file, colon, name = text.partition(":")
    beside = (folder or Path()) / file
    judge = judge_from_text(f"{beside}{colon}{name}" if beside.exists() else text)
    if not isinstance(judge, CallableJudge):
        raise RecipeError(f"`judge` of a space is a function from chosen values to a judge, but {text!r} is a judge.")
    return judge.function  # type: ignore[return-value]


def _prompt(spec: object, folder: Path | None, tracking_uri: str | None) -> object:
    if not isinstance(spec, str | Path):
        return spec  # the space says what is wrong with it
    text = str(spec)
    if text.startswith(REGISTRY):
        from jrh_mlflow.tracking.sweeps import registered_prompt

        return registered_prompt(text, tracking_uri=tracking_uri)
    beside = (folder or Path()) / text if "\n" not in text and text not in BUILT_IN else None
    return str(beside) if beside is not None and len(text) < 1024 and beside.is_file() else text
