"""How much there is to read in a package, and how dense it is.

Usage: python -m tests.reading_load [PACKAGE] [--rooms] [--worst]     (PACKAGE: a folder)
       python -m tests.reading_load --lower

A room is a folder directly in the package. `tests/reading_load.json` holds a limit for every room of
`jrh_mlflow`, and for the tests; `tests/test_reading_load.py` fails above it. `--lower` writes today's
figures where they are lower, and raises none.

nodes        nodes of the syntax tree: the size of the code, however it is broken into lines
/line        nodes per code line: how much one line asks of a reader
ifexp        conditional expressions per 100 code lines
a,b=         assignments of the form `a, b = x, y` per 100 code lines
long %       lines over 100 characters
loose %      local names that are a participle or a filler (told, given, own, place, beside …)
one-word %   module-level functions whose name is one word
params       parameters of functions, the largest number
"""

from __future__ import annotations

import argparse
import ast
import io
import json
import sys
import tokenize
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parent.parent
LIMITS = Path(__file__).with_suffix(".json")
LOOSE = {
    *("own", "done", "told", "shown", "given", "known", "kept", "asked", "asking", "apart", "chosen"),
    *("whole", "named", "place", "among", "beside", "made", "said", "what", "found", "wanted", "held"),
    *("drawn", "judged", "counted", "left", "more", "others", "both", "each", "far", "way", "how"),
    *("who", "side", "old", "new", "one"),
}
LONG = 100
_LAYOUT = (
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
    tokenize.STRING,
)
"""A line of these alone is no code line."""
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_PARAMETERS = "params"


def count_source(source):
    """Count one file.

    >>> count_source("one, two = 1, 2  # a comment\\n")["nodes"]
    12
    """
    tree = ast.parse(source)
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    counts = Counter(files=1)
    counts["lines"] = len({token.start[0] for token in tokens if token.type not in _LAYOUT})
    lines = source.splitlines()
    counts["text"] = sum(bool(line.strip()) for line in lines)
    counts["long"] = sum(len(line) > LONG for line in lines)
    for node in ast.walk(tree):
        counts["nodes"] += 1
        counts["ifexp"] += isinstance(node, ast.IfExp)
        counts["spread"] += _is_spread(node)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            counts["names"] += 1
            counts["loose"] += node.id in LOOSE
        if isinstance(node, _FUNCTIONS):
            arguments = node.args
            n = len(arguments.posonlyargs) + len(arguments.args) + len(arguments.kwonlyargs)
            counts[_PARAMETERS] = max(counts[_PARAMETERS], n)
    functions = [node.name for node in tree.body if isinstance(node, _FUNCTIONS)]
    counts["functions"] = len(functions)
    counts["one_word"] = sum("_" not in name.strip("_") for name in functions)
    return counts


def _is_spread(node):
    """Whether a statement assigns several values to several names."""
    if not isinstance(node, ast.Assign):
        return False
    return isinstance(node.value, ast.Tuple) and isinstance(node.targets[0], ast.Tuple)


def count_files(package):
    """Count every file of a package, by its path in it."""
    files = sorted(package.rglob("*.py"))
    texts = {file.relative_to(package).as_posix(): file.read_text("utf-8") for file in files}
    return {name: count_source(text) for name, text in texts.items()}


def total(parts):
    """Add up counts; of parameters the largest number is taken."""
    parts = list(parts)
    sums = Counter()
    for counts in parts:
        sums.update(counts)
    sums[_PARAMETERS] = max((counts[_PARAMETERS] for counts in parts), default=0)
    return sums


def by_room(files):
    """Add up the files of each room; those directly in the package are `(top)`."""
    rooms = {}
    for name, counts in files.items():
        room = name.split("/")[0] if "/" in name else "(top)"
        rooms.setdefault(room, []).append(counts)
    return {room: total(parts) for room, parts in sorted(rooms.items())}


def figures(counts):
    """Return the columns that are printed."""
    lines = counts["lines"] or 1
    return {
        "files": counts["files"],
        "lines": counts["lines"],
        "nodes": counts["nodes"],
        "/line": round(counts["nodes"] / lines, 1),
        "ifexp": round(100 * counts["ifexp"] / lines, 1),
        "a,b=": round(100 * counts["spread"] / lines, 2),
        "long %": round(100 * counts["long"] / (counts["text"] or 1), 1),
        "loose %": round(100 * counts["loose"] / (counts["names"] or 1), 1),
        "one-word %": round(100 * counts["one_word"] / (counts["functions"] or 1)),
        _PARAMETERS: counts[_PARAMETERS],
    }


def limited_figures():
    """Return today's figures of what has a limit: rooms of the package, and the tests."""
    limited = {}
    for room, counts in by_room(count_files(ROOT / "jrh_mlflow")).items():
        limited[room] = {
            "nodes": counts["nodes"],
            "/line": round(counts["nodes"] / (counts["lines"] or 1), 2),
            "loose %": round(100 * counts["loose"] / (counts["names"] or 1), 2),
            "long %": round(100 * counts["long"] / (counts["text"] or 1), 2),
        }
    files = count_files(ROOT / "tests")
    validation = [counts for name, counts in files.items() if name.startswith("validation/")]
    n_validation = total(validation)["nodes"]
    limited["tests without tests/validation"] = {"nodes": total(files.values())["nodes"] - n_validation}
    limited["tests/validation"] = {"nodes": n_validation}
    return limited


def read_limits():
    """Read the limits; `why` says why one was raised."""
    return json.loads(LIMITS.read_text(encoding="utf-8"))


def lowered(limits, today):
    """Return the lower of limit and figure; what has no limit yet gets today's figures."""
    lower = {}
    for room, figures_of_room in today.items():
        before = limits.get(room, {})
        after = {}
        for name, figure in figures_of_room.items():
            after[name] = min(figure, before.get(name, figure))
        if "why" in before:
            after["why"] = before["why"]
        lower[room] = after
    return lower


def problems(limits, today):
    """List the figures that are above their limit."""
    found = []
    for room, figures_of_room in today.items():
        if room not in limits:
            found.append(f"{room} has no limit: python -m tests.reading_load --lower writes one.")
            continue
        for name, figure in figures_of_room.items():
            limit = limits[room][name]
            if figure > limit:
                found.append(f"{room}: {name} is {figure:,}, and its limit {limit:,}. {_ADVICE}")
    return found


_ADVICE = 'Make it smaller, or raise the limit in tests/reading_load.json with a line "why" in that room that says why.'


def main():
    """Print the table, or lower the limits."""
    parser = argparse.ArgumentParser(
        "python -m tests.reading_load",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("package", nargs="?", default=ROOT / "jrh_mlflow", type=Path)
    parser.add_argument("--rooms", action="store_true", help="a line for each folder")
    parser.add_argument("--worst", action="store_true", help="the 30 densest files")
    parser.add_argument("--lower", action="store_true", help="lower the limits to today's figures")
    options = parser.parse_args()
    if options.lower:
        lower = lowered(read_limits(), limited_figures())
        LIMITS.write_text(json.dumps(lower, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        return 0
    files = count_files(options.package)
    rows = {options.package.name: total(files.values())}
    if options.rooms:
        rows |= by_room(files)
    if options.worst:
        large = {name: counts for name, counts in files.items() if counts["lines"] > 40}
        densest = sorted(large, key=lambda name: -large[name]["nodes"] / large[name]["lines"])
        rows |= {name: large[name] for name in densest[:30]}
    width = max(map(len, rows))
    print(" " * width + "".join(f"{head:>12}" for head in figures(Counter())))
    for name, counts in rows.items():
        print(f"{name:<{width}}" + "".join(f"{value:>12,}" for value in figures(counts).values()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
