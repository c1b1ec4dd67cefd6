"""Count the package: `python -m tests.benchmarks.census [FOLDER]`.

Code lines are lines that hold a token which is neither a comment nor part of a docstring (a string that stands alone
as a statement, under a field too). Comments are lines with one, directives for tools (`noqa`, `type:`) left out.
A module's importers are the other modules of the package that name it in an import, wherever that stands.
"""

from __future__ import annotations

import ast
import io
import sys
import tokenize
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

PACKAGE = "jrh_mlflow"
_LAYOUT = (tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)


class Counted(NamedTuple):
    code: int
    comments: int


def counted(source: str) -> Counted:
    """Count code lines and comments of one file.

    >>> counted('"Text."\\n\\nx = 1  # why\\ny = 2  # noqa: E501\\n')
    Counted(code=2, comments=1)
    """
    prose = {
        line
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
    code: set[int] = set()
    comments = 0
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            comments += not token.string.startswith(("# noqa", "# type:"))
        elif token.type not in _LAYOUT:
            code.update(range(token.start[0], token.end[0] + 1))
    return Counted(len(code - prose), comments)


def imported(source: str) -> Iterator[str]:
    """Name what a file imports: modules, and modules' names, which may be modules too."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def module_name(file: Path, root: Path) -> str:
    return ".".join(file.relative_to(root).with_suffix("").parts).removesuffix(".__init__")


def main(root: Path) -> None:
    files = sorted((root / PACKAGE).rglob("*.py"))
    sources = {module_name(file, root): file.read_text(encoding="utf-8") for file in files}
    sizes = {name: counted(source) for name, source in sources.items()}
    importers: dict[str, set[str]] = defaultdict(set)
    for name, source in sources.items():
        for target in set(imported(source)) & sources.keys() - {name}:
            importers[target].add(name)
    code, comments = sum(size.code for size in sizes.values()), sum(size.comments for size in sizes.values())
    once = sum(len(importers[name]) == 1 for name in sources)
    print(
        f"{len(files)} files, {code} code lines, {100 * comments / code:.1f} comments per 100, {once} with one importer"
    )
    rooms: Counter[str] = Counter()
    for name, size in sizes.items():
        rooms[[*name.split("."), "(top)"][1]] += size.code
    for room, lines in sorted(rooms.items()):
        print(f"{lines:6d} {room}")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve())
