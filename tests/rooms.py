"""Rooms of the package and the tests that look at them: `python -m tests.rooms [BASE]` prints what `make changed` runs.

A room is a folder or a module directly in the package. Its tests are those of the same name in `tests/`, and its own
doctests. A change is looked at by the tests of its room and of the rooms that import that room.
"""

from __future__ import annotations

import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path, PurePosixPath

from tests.test_layers import PACKAGE, Import, all_imports, imports_of, room

ROOT = Path(__file__).parent.parent
ALWAYS = ("tests/test_layers.py", "tests/test_public.py", "tests/test_habits.py")
"""They look at the whole package and take seconds."""
VALIDATION = "tests/validation"
"""Simulations of known truth, put to several rooms."""
EVERYTHING = ("pyproject.toml", "Makefile", "tests/conftest.py")
"""A change of one of these is a change of how every test runs."""


@cache
def importers() -> dict[str, set[str]]:
    """Rooms that import a room, by room; `(top)` is the package itself, which imports the verbs."""
    rooms: dict[str, set[str]] = defaultdict(set)
    for line in all_imports():
        for imported in _rooms_of([line]):
            rooms[imported].add(room(line.file))
    return rooms


@cache
def validated() -> set[str]:
    """Rooms that `tests/validation` puts to the test."""
    files = (ROOT / VALIDATION).glob("*.py")
    return {name for file in files for name in _rooms_of(imports_of(file.read_text(encoding="utf-8"), file.name))}


def _rooms_of(lines: Iterable[Import]) -> set[str]:
    targets = [line.target.split(".") for line in lines]
    return {parts[1] for parts in targets if parts[0] == PACKAGE and len(parts) > 1}


def paths_of(name: str) -> list[str]:
    """Paths of a room's tests, and of the room itself for its doctests.

    >>> paths_of("stats")
    ['tests/stats', 'jrh_mlflow/stats']
    >>> paths_of("recipe")
    ['tests/test_recipe.py', 'jrh_mlflow/recipe.py']
    """
    places = (f"tests/{name}", f"tests/test_{name}.py", f"{PACKAGE}/{name}", f"{PACKAGE}/{name}.py")
    return [place for place in places if (ROOT / place).exists()]


def paths_of_change(files: Iterable[str]) -> list[str]:
    """Paths of the tests that look at changed files, nearest first; `["tests", "jrh_mlflow"]` for all of them."""
    files = sorted(files)
    if any(file in EVERYTHING for file in files):
        return ["tests", PACKAGE]
    rooms = {room(file.removeprefix(f"{PACKAGE}/")) for file in files if file.startswith(f"{PACKAGE}/")}
    further = {name for changed in rooms for name in importers()[changed]} - rooms
    paths = [path for name in (*sorted(rooms), *sorted(further)) for path in paths_of(name)]
    simulations = [VALIDATION] if rooms & validated() else []
    return list(dict.fromkeys([*paths, *simulations, *_beside(files), *ALWAYS]))


def _beside(files: Iterable[str]) -> Iterator[str]:
    """Tests of changed files that lie outside the package."""
    for file in files:
        path = PurePosixPath(file)
        if path.parts[0] == "tests" and len(path.parts) > 1:
            yield from _of_test_file(path)
        elif path.parts[0] in ("docs", "README.md", "CHANGELOG.md", "CONTRIBUTING.md"):
            yield "tests/docs"
        elif path.parts[0] == "recipes":
            yield from (f"tests/{name}" for name in ("test_recipes.py", "test_recipes_reliability.py"))


def _of_test_file(path: PurePosixPath) -> Iterator[str]:
    """A file of tests is its own test; a helper is tried by the files that import it."""
    if not (ROOT / path).exists():
        return
    if path.name.startswith("test_") and path.suffix == ".py":
        yield str(path)
        return
    module = ".".join(path.with_suffix("").parts)
    names = (f"import {module}", f"from {module} import", f"from {module.rpartition('.')[0]} import {path.stem}")
    for file in sorted((ROOT / "tests").rglob("test_*.py")):
        if any(name in file.read_text(encoding="utf-8") for name in names):
            yield file.relative_to(ROOT).as_posix()


def changed_files(base: str) -> list[str]:
    """Files that differ from a commit, uncommitted and untracked ones too."""
    point = _git("merge-base", base, "HEAD").strip()
    return [*_git("diff", "--name-only", point).split(), *_git("ls-files", "--others", "--exclude-standard").split()]


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True).stdout


if __name__ == "__main__":
    print("\n".join(paths_of_change(changed_files(sys.argv[1] if len(sys.argv) > 1 else "origin/main"))))
