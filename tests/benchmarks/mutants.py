"""A mutation check: `python -m tests.benchmarks.mutants [--only FILE] [--list]`.

Makes the same 40 small changes in ten core files, one at a time in a copy of the tree: a comparison turned, a sign, a
number, an `and` for an `or`. Each is tried by the tests of its room and of the rooms that import it, which stop at the
first failure and after three minutes. A change that no test notices in that time survives.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.rooms import ROOT, importers, paths_of

SEED = 20261117
EACH = 4
PATIENCE_S = 180
CORE = (
    "stats/proportions.py",
    "stats/paired.py",
    "scoring/ledger.py",
    "scoring/expectations.py",
    "measures/rules.py",
    "measures/reliability.py",
    "engine/budget.py",
    "engine/retries.py",
    "judges/parsing.py",
    "judges/answer_text.py",
    "suites/labels.py",
)
COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
SIGNS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
}


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """One change of one expression."""

    file: str
    line: int
    before: str
    after: str
    source: str
    """The whole file with the change."""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}  {self.before}  →  {self.after}"


def changed(node: ast.AST) -> ast.expr | None:
    """Return what stands in place of a node, or None where it stays as it is."""
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        return ast.Compare(left=node.left, ops=[COMPARISONS[type(node.ops[0])]()], comparators=node.comparators)
    if isinstance(node, ast.BinOp) and type(node.op) in SIGNS and not _of_text(node):
        return ast.BinOp(left=node.left, op=SIGNS[type(node.op)](), right=node.right)
    if isinstance(node, ast.BoolOp):
        return ast.BoolOp(op=ast.Or() if isinstance(node.op, ast.And) else ast.And(), values=node.values)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return node.operand
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        return ast.Constant(value=node.value + 1)
    return None


def _of_text(node: ast.BinOp) -> bool:
    return any(
        isinstance(side, ast.JoinedStr | ast.Constant) and not _is_number(side) for side in (node.left, node.right)
    )


def _is_number(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, int | float)


def mutants_of(source: str, file: str) -> Iterator[Mutant]:
    """Make every change of a file that the operators know, inside functions.

    >>> [str(mutant) for mutant in mutants_of("def f(x):\\n    return x > 2\\n", "f.py")]
    ['f.py:2  x > 2  →  x >= 2', 'f.py:2  2  →  3']
    """
    lines = source.splitlines(keepends=True)
    functions = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef)]
    nodes = {
        (node.lineno, node.col_offset, type(node).__name__): node
        for function in functions
        for statement in function.body
        for node in ast.walk(statement)
        if isinstance(node, ast.expr) and node.lineno == node.end_lineno
    }
    for node in nodes.values():
        new = changed(node)
        if new is None or node.end_col_offset is None:
            continue
        text = lines[node.lineno - 1].encode()
        before = text[node.col_offset : node.end_col_offset].decode()
        after = ast.unparse(new)
        mended = text[: node.col_offset] + f"({after})".encode() + text[node.end_col_offset :]
        whole = "".join([*lines[: node.lineno - 1], mended.decode(), *lines[node.lineno :]])
        yield Mutant(file=file, line=node.lineno, before=before, after=after, source=whole)


def compiles(source: str) -> bool:
    """Whether a change left a program: a number inside an f-string may not stand in parentheses."""
    try:
        ast.parse(source)
    except SyntaxError:
        return False
    return True


def chosen() -> list[Mutant]:
    """Draw the changes: the same ones for the same files."""
    drawn: list[Mutant] = []
    for file in CORE:
        source = (ROOT / "jrh_mlflow" / file).read_text(encoding="utf-8")
        all_of_file = [mutant for mutant in mutants_of(source, file) if compiles(mutant.source)]
        drawn += random.Random(f"{SEED} {file}").sample(all_of_file, EACH)
    return drawn


def arguments_for(file: str) -> tuple[list[str], list[str]]:
    """What pytest is told to try a change with: the tests that name its module, then all others.

    Both are of the file's room and of the rooms that import it.
    """
    room, stem = file.partition("/")[0], Path(file).stem
    places = [path for name in (room, *sorted(importers()[room] - {room})) for path in paths_of(name)]
    imported = f"from jrh_mlflow.{file.removesuffix('.py').replace('/', '.')} import"

    def is_near(path: Path) -> bool:
        return path.stem.startswith(f"test_{stem}") or imported in path.read_text(encoding="utf-8")

    files = [path for place in places if place.startswith("tests/") for path in _test_files(ROOT / place)]
    near = [str(path.relative_to(ROOT)) for path in files if is_near(path)]
    return [f"jrh_mlflow/{file}", *near], [*places, *(f"--ignore={path}" for path in near)]


def _test_files(place: Path) -> list[Path]:
    return sorted(place.rglob("test_*.py")) if place.is_dir() else [place]


def killer(mutant: Mutant, tree: Path) -> tuple[str, float]:
    """Try one change in a copy of the tree; return the test that failed, or "", and after how many seconds.

    The nearest tests first: they notice most changes, and all others take a minute to collect.
    """
    place = tree / "jrh_mlflow" / mutant.file
    original = place.read_text(encoding="utf-8")
    place.write_text(mutant.source, encoding="utf-8")
    begun = time.monotonic()
    try:
        near, others = arguments_for(mutant.file)
        failed = first_failure(near, tree, begun + PATIENCE_S) or first_failure(others, tree, begun + PATIENCE_S)
    finally:
        place.write_text(original, encoding="utf-8")
    return failed, time.monotonic() - begun


def first_failure(arguments: list[str], tree: Path, until: float) -> str:
    """Run tests of a tree until one fails; "" where none does before a moment of the monotonic clock."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-m", "not slow", "-p", "no:cacheprovider", *arguments]
    # Programs that tests start elsewhere import the changed package too.
    env = {**os.environ, "PYTHONPATH": str(tree)}
    with tempfile.TemporaryFile("w+", encoding="utf-8") as said:
        tried = subprocess.Popen(
            command, cwd=tree, env=env, start_new_session=True, stdout=said, stderr=subprocess.DEVNULL
        )
        try:
            status = tried.wait(until - time.monotonic())
        except subprocess.TimeoutExpired:
            # The workers and what they started are of the same session.
            os.killpg(tried.pid, signal.SIGKILL)
            tried.wait()
            return ""
        said.seek(0)
        named = re.search(r"^(?:FAILED|ERROR) (\S+)", said.read(), re.MULTILINE)
    return (named[1] if named else "collection") if status in (1, 2) else ""


def main() -> None:
    """Try every change and print which ones survive."""
    parser = argparse.ArgumentParser(description="Forty small changes, and whether the tests notice them.")
    parser.add_argument("--only", default="", help="changes of files whose path begins like this")
    parser.add_argument("--list", action="store_true", help="print the changes and try none")
    options = parser.parse_args()
    mutants = [mutant for mutant in chosen() if mutant.file.startswith(options.only)]
    if options.list:
        print(*mutants, sep="\n")
        return
    n_killed = 0
    with tempfile.TemporaryDirectory(prefix="jrh-mutants-") as folder:
        ignored = shutil.ignore_patterns(".git", ".venv*", "__pycache__", ".mypy_cache", "build", "dist")
        tree = shutil.copytree(ROOT, Path(folder) / "tree", ignore=ignored)
        for mutant in mutants:
            failed, seconds = killer(mutant, tree)
            n_killed += bool(failed)
            print(f"{'killed  ' if failed else 'SURVIVED'} {seconds:4.0f} s  {mutant}  {failed}".rstrip(), flush=True)
    print(f"{n_killed} of {len(mutants)} killed")


if __name__ == "__main__":
    main()
