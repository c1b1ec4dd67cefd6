"""What others add: entry points of installed packages (`jrh.tests`, `jrh.transports`), and functions by their place."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType
from typing import Any

from jrh_mlflow.errors import RecipeError, suggest

TESTS = "jrh.tests"
"""Reliability tests: a `ReliabilityTest`, or its class."""
TRANSPORTS = "jrh.transports"
"""Ways to reach a model: a `Transport` class."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Plugin:
    """One entry point: what it holds, or why it cannot be loaded."""

    name: str
    distribution: str
    """The package that declares it, with its version: `jrh-emoji 0.1`."""
    value: Any = None
    error: str | None = None
    """One line that names the package; None when it was loaded."""


@cache
def plugins(group: str) -> tuple[Plugin, ...]:
    """Load the entry points of a group, in order of their names; a broken one is told, and stops no other.

    Read once per process: what is installed while it runs is seen by the next.
    """
    return tuple(_loaded(entry) for entry in sorted(entry_points(group=group), key=lambda entry: entry.name))


def _loaded(entry: EntryPoint) -> Plugin:
    owner = f"{entry.dist.name} {entry.dist.version}" if entry.dist else "an unknown package"
    try:
        return Plugin(name=entry.name, distribution=owner, value=entry.load())
    except (Exception, SystemExit) as error:  # other people's code may raise anything when it is imported
        why = " ".join(f"{type(error).__name__}: {error}".split())
        said = f"{entry.group} entry {entry.name!r} of {owner} ({entry.value}) cannot be loaded: {why}"
        return Plugin(name=entry.name, distribution=owner, error=said)


def function_from_text(text: str) -> Any:
    """Import what `package.module:name` or `path/to/file.py:name` names.

    Raises:
        RecipeError: when there is no such file, module or name, or importing it fails.
    """
    where, _, name = text.rpartition(":")
    module = _module_from_file(Path(where)) if where.endswith(".py") else _module(where)
    if not hasattr(module, name):
        raise RecipeError(f"{where} has no {name!r}.{suggest(name, vars(module))}")
    return getattr(module, name)


def function_name(function: object) -> str:
    """Return what a function of the user's is called in suites and reports."""
    return str(getattr(function, "__qualname__", type(function).__qualname__)).rpartition("<locals>.")[2]


def _module(name: str) -> ModuleType:
    sys.path.insert(0, str(Path.cwd()))
    try:
        return importlib.import_module(name)
    except Exception as error:  # other people's code may raise anything when it is imported
        raise RecipeError(f"Module {name!r} cannot be imported: {_one_line(error)}.") from error
    finally:
        sys.path.pop(0)


def _module_from_file(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if not path.is_file() or spec is None or spec.loader is None:
        raise RecipeError(f"There is no Python file {path}.")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise RecipeError(f"{path} cannot be imported: {_one_line(error)}.") from error
    return module


def _one_line(error: Exception) -> str:
    said = " ".join(str(error).split())
    return said if isinstance(error, ImportError) else f"{type(error).__name__}: {said}"
