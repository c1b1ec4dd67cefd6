"""The house has floors: imports point down only, files know no circle, and each name means one thing.

Every file is read, also inside a folder, and every import counts, inside functions and under TYPE_CHECKING too.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path, PurePosixPath

import pytest

import jrh_mlflow
from jrh_mlflow.collector import calm_collector

pytestmark = pytest.mark.quick

ROOT = Path(jrh_mlflow.__file__).parent
PACKAGE = "jrh_mlflow"

FLOORS: tuple[tuple[str, ...], ...] = (
    ("collector", "errors", "plugins"),
    ("text", "home", "outputs", "progress", "schema", "yaml_files"),
    ("options",),
    ("stats",),
    ("scoring",),
    ("perturb",),
    ("measures",),
    ("show",),
    ("suites",),
    ("models",),
    ("judges",),
    ("engine",),
    ("tracking",),
    ("measuring",),
    ("comparing", "decisions", "people", "sweeps", "exporting", "generation", "review", "watching", "attacks"),
    ("recipe",),
    ("pages",),
    ("demo", "workflow"),
    ("cli",),
)
"""From the ground up. Modules of one floor may know one another, in no circle; wings as `CONTRIBUTING.md` lists."""
FLOOR = {name: number for number, names in enumerate(FLOORS) for name in names}
WINGS = ("comparing", "decisions", "people", "sweeps", "exporting", "generation", "review", "watching", "attacks")
"""One idea each: a wing imports floors, and no other wing but for the pairs that `CONTRIBUTING.md` lists."""

MOST_PAIRS = 5
"""Of wings that know one another; issues that add a wing may raise it to 8."""
MOST_FILES = 20
"""Directly in one folder."""
FILE_PER_ENTRY = ("cli", "perturb")
"""Folders in which a file is a command or a test."""

HEAVY = (
    "mlflow",
    "litellm",
    "optuna",
    "matplotlib",
    "aiohttp",
    "ray",
    "sklearn",
    "jinja2",
    "inspect_ai",
    "openpyxl",
    "sqlalchemy",
    "psycopg",
)
"""Never imported while a module is loaded: `import jrh_mlflow` and `jrh --help` must stay quick."""
LATE = (
    "engine/journal/sqlite.py",
    "engine/journal/postgres.py",
    "engine/journal/tables.py",
    "people/alignment/optimizer.py",
)
"""Loaded themselves when a journal is opened, or `CheckedOptimizer` is asked for.

They may load their library at once, and nobody may load them.
"""
ONLY_IN: dict[str, tuple[str, ...]] = {
    "mlflow": (
        "tracking/",
        "exporting/",
        "people/alignment/optimizer.py",
    ),
    "optuna": ("sweeps/",),
    "ray": ("engine/ray_",),
    "psycopg": ("engine/journal/",),
    "sqlalchemy": ("engine/journal/", "sweeps/study.py", "tracking/runs/store.py"),
    "inspect_ai": ("suites/transcripts/", "judges/other_tools.py"),
    "openpyxl": ("suites/spreadsheets.py",),
    "sklearn": ("perturb/", "scoring/metric.py"),
    "jinja2": ("show/",),
    "matplotlib": (
        "show/",
        "comparing/jury/jury.py",
        "comparing/self_preference.py",
        "people/agreement_view.py",
        "people/corrected_view.py",
        "sweeps/sweep_view.py",
        "watching/watch_view.py",
    ),
    "litellm": ("models/",),
    "aiohttp": ("models/transports/", "engine/"),
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

VIEWS = ("cli", "pages", "show")
"""Floors that show what another floor holds: there a file may have the name of the thing it shows."""
ANY_FOLDER = ("__init__", "_base")
SAME_THING = {
    "agreement": "stats: the coefficients; people: what judges and people agree on",
    "datasheet": "suites: what is asked; measures: what is read from the answers",
    "items": "schema: what an item is; suites/transcripts: items made of transcripts",
    "tables": "engine/journal: tables of its database; people/labels: labels that lie in tables",
}
"""File names that two floors share because both are about that one thing."""


@dataclass(frozen=True)
class Import:
    """One imported module or name of one file."""

    file: str
    line: int
    target: str
    """Dotted, absolute; for a name of the package the module that is meant."""
    name: str
    """What is taken from the target; empty for the module itself."""
    at_load: bool
    """False inside a function or under TYPE_CHECKING."""

    def __str__(self) -> str:
        return f"{self.file}:{self.line} imports {self.target}{f' ({self.name})' if self.name else ''}"

    @property
    def top(self) -> str:
        return self.target.partition(".")[0]


def module_of(file: str) -> str:
    """Dotted name of a file: `suites/__init__.py` is `jrh_mlflow.suites`."""
    parts = PurePosixPath(file).with_suffix("").parts
    return ".".join([PACKAGE, *(parts[:-1] if parts[-1] == "__init__" else parts)])


FILES = sorted(str(path.relative_to(ROOT).as_posix()) for path in ROOT.rglob("*.py"))
MODULES = {module_of(file): file for file in FILES}


@cache
def statements(source: str) -> list[tuple[ast.AST, bool]]:
    """Walk a file, calls too where one may import, and tell of each node whether it runs while the module is loaded."""
    ahead: list[tuple[ast.AST, bool]] = [(ast.parse(source), True)]
    leaves = () if re.search("import_module|__import__", source) else ast.expr
    found = []
    while ahead:
        node, at_load = ahead.pop()
        found.append((node, at_load))
        at_load = at_load and not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        # No other condition is written down: that would take as long as to parse the files.
        of_types = (
            isinstance(node, ast.If)
            and isinstance(node.test, ast.Name | ast.Attribute)
            and ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING")
        )
        never = node.body if of_types else ()
        children = (child for child in ast.iter_child_nodes(node) if not isinstance(child, leaves))
        ahead += [(child, at_load and child not in never) for child in children]
    return found


def targets(node: ast.AST, package: str) -> list[tuple[str, str]]:
    """Modules that a node imports, each with the name taken from it, by statement or by `import_module("…")`."""
    if isinstance(node, ast.Import):
        return [(alias.name, "") for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        parts = package.split(".")[: 1 - node.level or None] if node.level else []
        base = ".".join([*parts, *([node.module] if node.module else [])])
        return [_module_or_name(base, alias.name) for alias in node.names]
    if isinstance(node, ast.Call) and _called(node).endswith(("import_module", "__import__")):
        return [
            (arg.value, "") for arg in node.args[:1] if isinstance(arg, ast.Constant) and isinstance(arg.value, str)
        ]
    return []


def _called(node: ast.Call) -> str:
    """Last name of what is called; none where that has no name."""
    return str(getattr(node.func, "attr", getattr(node.func, "id", "")))


def _module_or_name(base: str, name: str) -> tuple[str, str]:
    # `from jrh_mlflow import evaluation` means a module; `from jrh_mlflow.errors import JrhError` a name in one.
    is_module = base == PACKAGE or f"{base}.{name}" in MODULES
    return (f"{base}.{name}", "") if is_module else (base, name)


def imports_of(source: str, file: str) -> list[Import]:
    package = ".".join([PACKAGE, *PurePosixPath(file).parts[:-1]])
    return [
        Import(file=file, line=getattr(node, "lineno", 0), target=target, name=name, at_load=at_load)
        for node, at_load in statements(source)
        for target, name in targets(node, package)
    ]


@cache
def sources() -> dict[str, str]:
    return {file: (ROOT / file).read_text(encoding="utf-8") for file in FILES}


@cache
def imports() -> dict[str, list[Import]]:
    """Imports of every file; made when a test asks, since every worker of the tests loads this file."""
    with calm_collector():
        return {file: imports_of(source, file) for file, source in sources().items()}


def all_imports() -> list[Import]:
    return [one for found in imports().values() for one in found]


def room(file: str) -> str:
    """Folder or module under the package: `comparing/jury/votes.py` is in `comparing`."""
    return PurePosixPath(file).parts[0].removesuffix(".py")


def problems(found: Iterable[Import]) -> list[str]:
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


def wing_pairs(found: Iterable[Import]) -> dict[str, list[str]]:
    """Imports of one wing by another, by `importing → imported`."""
    pairs: dict[str, list[str]] = defaultdict(list)
    for each in found:
        parts = each.target.split(".")
        wing, other = room(each.file), parts[1] if each.top == PACKAGE and len(parts) > 1 else ""
        if wing in WINGS and other in WINGS and wing != other:
            pairs[f"{wing} → {other}"].append(str(each))
    return pairs


def listed_pairs(contributing: str) -> dict[str, str]:
    """Pairs of wings that `CONTRIBUTING.md` lists under *Wings*, each with its reason."""
    section = contributing.partition("\n## Wings\n")[2].partition("\n## ")[0]
    lines = (line[2:] for line in section.splitlines() if line.startswith("- ") and "→" in line)
    return {pair.strip(): why.strip() for pair, _, why in (line.partition(":") for line in lines)}


def circles(found: Iterable[Import]) -> list[str]:
    """Files that import one another, straight or over others; each circle once, as one line."""
    edges: dict[str, set[str]] = defaultdict(set)
    for one in found:
        target = MODULES.get(one.target)
        if target is not None and target != one.file:
            edges[one.file].add(target)
    reached = {file: _reached(file, edges) for file in list(edges)}
    groups = {
        tuple(sorted(other for other in reached[file] if file in reached.get(other, ())))
        for file in reached
        if file in reached[file]
    }
    return [" ↔ ".join(group) for group in sorted(groups)]


def _reached(file: str, edges: Mapping[str, Collection[str]]) -> set[str]:
    seen: set[str] = set()
    ahead = list(edges.get(file, ()))
    while ahead:
        other = ahead.pop()
        if other not in seen:
            seen.add(other)
            ahead += edges.get(other, ())
    return seen


def weights(found: Iterable[Import]) -> list[str]:
    """Imports that would load a heavy library with the package: of one, or of a file that is to be loaded late."""
    outside = [one for one in found if one.at_load and one.file not in LATE]
    return [str(one) for one in outside if one.top in HEAVY or MODULES.get(one.target) in LATE]


def strangers(found: Iterable[Import]) -> list[str]:
    """Imports of what a leading underscore keeps private to another folder."""
    return [str(one) for one in found if _private_folder(one) not in (None, *_folders(one.file))]


def _private_folder(one: Import) -> str | None:
    """Return the folder that a private module or name belongs to; None for what is public."""
    if one.top != PACKAGE:
        return None
    parts = one.target.split(".")[1:]
    for place, part in enumerate(parts):
        if part.startswith("_"):
            return "/".join(parts[:place])
    if one.name.startswith("_") and not one.name.startswith("__"):
        file = MODULES.get(one.target, "")
        return str(PurePosixPath(file).parent) if file else None
    return None


def _folders(file: str) -> list[str]:
    """Return the folder of a file and those around it."""
    return [str(folder) for folder in PurePosixPath(file).parents]


def classes(sources: Mapping[str, str]) -> dict[str, list[str]]:
    """Class name to the files that define one of it."""
    found: dict[str, list[str]] = defaultdict(list)
    for file, source in sources.items():
        for node, _ in statements(source):
            if isinstance(node, ast.ClassDef):
                found[node.name].append(file)
    return found


def shared_names(files: Iterable[str]) -> dict[str, list[str]]:
    """File names that stand for two things: in two folders that are no view of one another."""
    found: dict[str, list[str]] = defaultdict(list)
    for file in files:
        if room(file) not in VIEWS or len(PurePosixPath(file).parts) == 1:
            found[PurePosixPath(file).stem].append(file)
    return {stem: where for stem, where in found.items() if len(where) > 1 and stem not in (*ANY_FOLDER, *SAME_THING)}


def test_imports_point_down():
    inside = [file for file in FILES if file != "__init__.py"]
    assert [file for file in inside if room(file) not in FLOOR] == [], "give it a floor in FLOORS"
    assert problems(each for file in inside for each in imports()[file]) == []


def test_a_wing_imports_no_other_wing_but_for_the_listed_pairs():
    listed = listed_pairs((ROOT.parent / "CONTRIBUTING.md").read_text(encoding="utf-8"))
    found = wing_pairs(all_imports())
    assert {pair: lines for pair, lines in found.items() if pair not in listed} == {}
    assert set(listed) == set(found), "a pair that is listed is one that is used"
    assert all(listed.values()), "every pair has its reason"
    assert len(listed) <= MOST_PAIRS


def test_no_folder_is_a_hall():
    counts = Counter(str(PurePosixPath(file).parent) for file in FILES)
    assert {folder: n for folder, n in counts.items() if n > MOST_FILES and folder not in FILE_PER_ENTRY} == {}


def test_no_files_import_one_another():
    assert circles(one for one in all_imports() if one.file != "__init__.py") == []


def test_what_is_private_is_imported_inside_its_folder_only():
    assert strangers(all_imports()) == []


def test_a_class_name_means_one_class():
    assert {name: files for name, files in classes(sources()).items() if len(files) > 1} == {}


def test_a_file_name_means_one_thing():
    assert shared_names(FILES) == {}


def test_the_front_door_loads_nothing_of_the_house():
    door = imports()["__init__.py"]
    assert [str(one) for one in door if one.at_load and one.top not in sys.stdlib_module_names] == []


def test_heavy_libraries_are_imported_where_they_are_used_and_never_while_loading():
    assert weights(all_imports()) == []


@pytest.mark.parametrize("library", ONLY_IN)
def test_a_library_stays_in_its_room(library):
    assert [str(one) for one in all_imports() if one.top == library and not one.file.startswith(ONLY_IN[library])] == []


def test_errors_and_schema_need_the_standard_library_only():
    ground = [one for one in all_imports() if room(one.file) in ("errors", "schema") and one.top != PACKAGE]
    found = {one.top for one in ground if one.top not in sys.stdlib_module_names} - {"typing_extensions"}
    assert found == set()


def test_statistics_need_numpy_and_scipy_only():
    found = {one.top for one in all_imports() if room(one.file) == "stats"}
    assert {name for name in found if name not in sys.stdlib_module_names} <= {PACKAGE, "numpy", "scipy"}


@pytest.mark.parametrize("name", ["stats", "scoring", "measures"])
def test_pure_floors_touch_no_file_clock_network_or_global_random_state(name):
    assert [str(one) for one in all_imports() if room(one.file) == name and one.top in IMPURE] == []


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


def test_an_import_of_another_wing_is_seen_however_it_is_written():
    for line in ("from jrh_mlflow.comparing.compare import compare", "def f():\n    from jrh_mlflow import comparing"):
        assert list(wing_pairs(imports_of(line, "people/agree.py"))) == ["people → comparing"]
        assert list(wing_pairs(imports_of(line, "comparing/jury/jury.py"))) == []
        assert list(wing_pairs(imports_of(line, "pages/runs.py"))) == []
    assert listed_pairs("x\n## Wings\n\n- a → b: why\n\n## Next\n- c → d: no") == {"a → b": "why"}


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


def test_a_file_that_loads_a_heavy_library_is_loaded_late():
    late = LATE[0]
    assert weights(imports_of("import sqlalchemy", late)) == []
    assert len(weights(imports_of("import sqlalchemy", "engine/runner.py"))) == 1
    assert len(weights(imports_of(f"import {module_of(late)}", "engine/runner.py"))) == 1
    assert weights(imports_of(f"def f():\n    import {module_of(late)}", "engine/runner.py")) == []


@pytest.mark.parametrize(
    "back",
    [
        "from jrh_mlflow.suites.responses import natural_suite",
        "from jrh_mlflow.suites import natural_suite",
        "def f():\n    from jrh_mlflow.suites import responses",
        "if TYPE_CHECKING:\n    from .responses import natural_suite",
    ],
)
def test_a_circle_is_seen_in_one_folder_and_however_late_it_closes(back):
    door = imports_of("from jrh_mlflow.suites.responses import natural_suite", "suites/__init__.py")
    there = imports_of("from jrh_mlflow.suites.suite import Suite", "suites/responses.py")
    (circle,) = circles([*door, *there, *imports_of(back, "suites/suite.py")])
    assert {"suites/responses.py", "suites/suite.py"} <= set(circle.split(" ↔ "))
    assert circles([*door, *there]) == []


@pytest.mark.parametrize(
    ("line", "file", "n"),
    [
        ("from jrh_mlflow.judges._base import Judge", "engine/runner.py", 1),
        ("from jrh_mlflow.judges import _base", "engine/runner.py", 1),
        ("from jrh_mlflow.judges.parsing import _read", "engine/runner.py", 1),
        ("from jrh_mlflow.judges._base import Judge", "judges/scripted.py", 0),
        ("from jrh_mlflow.suites.suite import _read", "suites/transcripts/items.py", 0),
        ("from jrh_mlflow.judges import __doc__", "engine/runner.py", 0),
        ("from os import _exit", "engine/runner.py", 0),
    ],
)
def test_what_is_private_to_another_folder_is_seen(line, file, n):
    assert len(strangers(imports_of(line, file))) == n


def test_names_that_mean_two_things_are_seen():
    assert classes({"a.py": "class A: ...", "b/c.py": "def f():\n    class A: ..."})["A"] == ["a.py", "b/c.py"]
    files = ["suites/lists.py", "engine/lists.py", "cli/sweep.py", "sweeps/sweep.py", "sweeps/sweep_view.py"]
    assert list(shared_names(files)) == ["lists"]
