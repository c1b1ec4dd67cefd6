"""Strings become objects: a judge named on the command line."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

from jrh_mlflow.errors import RecipeError, suggest
from jrh_mlflow.judges import Judge, as_judge, scripted

_SCRIPTED = ("AlwaysFirst", "AlwaysTie", "LongerWins", "Noisy", "Oracle")


def judge_from_text(text: str) -> Judge:
    """Resolve `scripted:Oracle`, `scripted:Llama8B`, `package.module:function` or `path/to/file.py:function`.

    Raises:
        RecipeError: saying what could not be found, with the nearest known name.
    """
    where, _, name = text.rpartition(":")
    if not where or not name:
        raise RecipeError(f"A judge is given as scripted:NAME, module:function or file.py:function, but got {text!r}.")
    if where == "scripted":
        return _scripted(name)
    module = _module_from_file(Path(where)) if where.endswith(".py") else _module(where)
    if not hasattr(module, name):
        raise RecipeError(f"{where} has no {name!r}.{suggest(name, vars(module))}")
    return as_judge(getattr(module, name))


def _scripted(name: str) -> Judge:
    if name in _SCRIPTED:
        judge: Judge = getattr(scripted, name)()
        return judge
    from jrh_mlflow.judges.profiles import profile, published

    if name not in published():
        known = [*_SCRIPTED, *published()]
        raise RecipeError(f"Unknown scripted judge {name!r}.{suggest(name, known)} Known: {', '.join(known)}.")
    return profile(name)


def _module(name: str) -> ModuleType:
    sys.path.insert(0, str(Path.cwd()))
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise RecipeError(f"Module {name!r} cannot be imported: {error}.") from error
    finally:
        sys.path.pop(0)


def _module_from_file(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if not path.is_file() or spec is None or spec.loader is None:
        raise RecipeError(f"There is no Python file {path}.")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
