"""The house has floors: imports point down only, and heavy libraries stay in the rooms that need them."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import jrh_mlflow

ROOT = Path(jrh_mlflow.__file__).parent
PACKAGE = "jrh_mlflow"

FLOORS: tuple[tuple[str, ...], ...] = (
    ("errors", "plugins"),
    ("text", "home", "schema"),
    ("options",),
    ("stats",),
    ("scoring",),
    ("perturb",),
    ("measures",),
    ("reports",),
    ("results",),
    ("suites",),
    ("models",),
    ("judges",),
    ("engine",),
    ("tracking",),
    ("resolve",),
    ("evaluation",),
    ("generation",),
    ("review",),
    ("recipe",),
    ("sweeps",),
    ("demo",),
    ("cli",),
)
"""From the ground up. Modules of one floor may know one another."""
FLOOR = {name: number for number, names in enumerate(FLOORS) for name in names}

HEAVY = ("mlflow", "litellm", "optuna", "matplotlib", "aiohttp", "ray", "sklearn", "jinja2", "xllamacpp", "inspect_ai")
"""Never imported while a module is loaded: `import jrh_mlflow` and `jrh --help` must stay quick."""
ONLY_IN = {
    "mlflow": "tracking/",
    "optuna": "sweeps/",
    "ray": "engine/ray_",
    "psycopg": "engine/journal/",
    "xllamacpp": "models/local/",
    "inspect_ai": "suites/transcripts/",
    "sklearn": "perturb/",
    "jinja2": "reports/",
    "matplotlib": "reports/figures/",
}
IMPURE = (
    "os",
    "pathlib",
    "io",
    "tempfile",
    "shutil",
    "time",
    "datetime",
    "random",
    "socket",
    "urllib",
    "subprocess",
    "asyncio",
)


@dataclass(frozen=True)
class Import:
    """One import statement of one file."""

    file: str
    line: int
    target: str
    """Dotted, absolute; for a name of the package the module that is meant."""
    at_load: bool
    """False inside a function or under TYPE_CHECKING."""

    def __str__(self) -> str:
        return f"{self.file}:{self.line} imports {self.target}"

    @property
    def top(self) -> str:
        return self.target.partition(".")[0]


def statements(node: ast.AST, *, at_load: bool) -> Iterator[tuple[ast.AST, bool]]:
    """Walk a tree and tell of each node whether it runs while the module is loaded."""
    yield node, at_load
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
        at_load = False
    if isinstance(node, ast.If) and ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING"):
        for child in node.body:
            yield from statements(child, at_load=False)
        for child in node.orelse:
            yield from statements(child, at_load=at_load)
        return
    for child in ast.iter_child_nodes(node):
        yield from statements(child, at_load=at_load)


def targets(node: ast.AST, package: str) -> list[str]:
    """Modules that a node imports, by statement or by name in `import_module("…")`."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        parts = package.split(".")[: 1 - node.level or None] if node.level else []
        base = ".".join([*parts, *([node.module] if node.module else [])])
        # `from jrh_mlflow import evaluation` means a module; `from jrh_mlflow.errors import JrhError` a name in one.
        return [f"{base}.{alias.name}" if base == PACKAGE else base for alias in node.names]
    if isinstance(node, ast.Call) and ast.unparse(node.func).endswith(("import_module", "__import__")):
        return [arg.value for arg in node.args[:1] if isinstance(arg, ast.Constant) and isinstance(arg.value, str)]
    return []


def imports_of(source: str, file: str) -> list[Import]:
    package = ".".join([PACKAGE, *Path(file).parts[:-1]])
    return [
        Import(file=file, line=getattr(node, "lineno", 0), target=target, at_load=at_load)
        for node, at_load in statements(ast.parse(source), at_load=True)
        for target in targets(node, package)
    ]


FILES = sorted(str(path.relative_to(ROOT).as_posix()) for path in ROOT.rglob("*.py"))
IMPORTS = {file: imports_of((ROOT / file).read_text(encoding="utf-8"), file) for file in FILES}
ALL = [one for found in IMPORTS.values() for one in found]


def room(file: str) -> str:
    """Folder or module under the package: `reports/figures/datasheet.py` is in `reports`."""
    return Path(file).parts[0].removesuffix(".py")


def problems(found: list[Import]) -> list[str]:
    """Imports that point up, or past the floors."""
    wrong = []
    for one in found:
        if one.top != PACKAGE:
            continue
        name = one.target.split(".")[1] if "." in one.target else ""
        if name not in FLOOR:
            wrong.append(f"{one}, which has no floor: give it one in FLOORS, or import from where the name lives")
        elif FLOOR[name] > FLOOR[room(one.file)]:
            wrong.append(f"{one}, which is a floor above")
    return wrong


@pytest.mark.parametrize("file", [file for file in FILES if file != "__init__.py"])
def test_imports_point_down(file):
    assert room(file) in FLOOR, f"{file} has no floor: give it one in FLOORS."
    assert problems(IMPORTS[file]) == []


def test_the_front_door_loads_nothing_of_the_house():
    assert [str(one) for one in IMPORTS["__init__.py"] if one.at_load and one.top not in sys.stdlib_module_names] == []


def test_heavy_libraries_are_imported_where_they_are_used_and_never_while_loading():
    assert [str(one) for one in ALL if one.top in HEAVY and one.at_load] == []


@pytest.mark.parametrize("library", ONLY_IN)
def test_a_library_stays_in_its_room(library):
    assert [str(one) for one in ALL if one.top == library and not one.file.startswith(ONLY_IN[library])] == []


def test_errors_and_schema_need_the_standard_library_only():
    ground = [one for one in ALL if room(one.file) in ("errors", "schema") and one.top != PACKAGE]
    found = {one.top for one in ground if one.top not in sys.stdlib_module_names} - {"typing_extensions"}
    assert found == set()


def test_statistics_need_numpy_and_scipy_only():
    found = {one.top for one in ALL if room(one.file) == "stats"}
    assert {name for name in found if name not in sys.stdlib_module_names} <= {PACKAGE, "numpy", "scipy"}


@pytest.mark.parametrize("name", ["stats", "scoring", "measures"])
def test_pure_floors_touch_no_file_clock_network_or_global_random_state(name):
    assert [str(one) for one in ALL if room(one.file) == name and one.top in IMPURE] == []


# The reader of imports is itself put to the test: a checker that sees nothing would pass everything.


@pytest.mark.parametrize(
    "line",
    [
        "from jrh_mlflow.judges import Judge",
        "from jrh_mlflow import judges",
        "import jrh_mlflow.judges.scripted",
        "from ..judges import Judge",
        "def f():\n    from jrh_mlflow.judges import Judge",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from jrh_mlflow.judges import Judge",
        "from importlib import import_module\nimport_module('jrh_mlflow.judges')",
        "import jrh_mlflow",
        "from jrh_mlflow import measure",
        "from jrh_mlflow.nowhere import x",
    ],
)
def test_an_import_that_points_up_is_seen_however_it_is_written(line):
    assert len(problems(imports_of(line, "stats/new.py"))) == 1


@pytest.mark.parametrize(
    "line",
    [
        "from jrh_mlflow.errors import JrhError",
        "from . import proportions",
        "from ..schema.items import Item",
        "import os",
    ],
)
def test_an_import_that_points_down_or_outside_is_not(line):
    assert problems(imports_of(line, "stats/new.py")) == []


@pytest.mark.parametrize(
    ("source", "at_load"),
    [
        ("import mlflow", True),
        ("try:\n    import mlflow\nexcept ImportError:\n    pass", True),
        ("class A:\n    import mlflow", True),
        ("if TYPE_CHECKING:\n    pass\nelse:\n    import mlflow", True),
        ("if TYPE_CHECKING:\n    import mlflow", False),
        ("async def f():\n    import mlflow", False),
    ],
)
def test_what_runs_while_loading_is_told_from_what_runs_later(source, at_load):
    assert [one.at_load for one in imports_of(source, "stats/new.py") if one.top == "mlflow"] == [at_load]
