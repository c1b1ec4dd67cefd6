"""Fenced blocks of README.md and of the pages in docs/, and which test runs them."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

from markdown_it import MarkdownIt

ROOT = Path(__file__).parents[2]
RUN = ("python", "sh", "yaml", "toml", "json")
"""Languages of blocks that are code; an output is `text`."""
DIRECTIVES = re.compile(r"\{(toctree|terms|options|click-commands)\}.*|\{eval-rst\}\n(\.\. auto\w+::.*\n( .*\n|\n)*)+")
"""Of the documentation's builder, that show no code of their own; `{code-block}` and others that do are refused."""


class Block(NamedTuple):
    """One fenced block."""

    page: str
    """Path from the root of the repository."""
    line: int
    """Where its first line of code stands, from 1."""
    language: str
    text: str
    heading: str
    """Under which it stands."""

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def pages() -> list[str]:
    """Every page that may hold code."""
    docs = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").rglob("*.md"))
    return ["README.md", *docs]


def blocks(page: str) -> list[Block]:
    """Every block of a page, in its order: fenced by either sign, in a list, in a quote, or indented.

    An indented block has no language, and a directive that may show code has one that nobody runs: both are refused.
    """
    text = (ROOT / page).read_text(encoding="utf-8")
    tokens = MarkdownIt("commonmark").enable("table").parse(text)
    found, heading = [], ""
    for place, token in enumerate(tokens):
        if token.type == "heading_open":
            heading = tokens[place + 1].content
        if token.type not in ("fence", "code_block") or token.map is None:
            continue
        language = token.info.strip()
        held = f"{language}\n{token.content}" if language == "{eval-rst}" else language
        if not DIRECTIVES.fullmatch(held):
            first = token.map[0] + (2 if token.type == "fence" else 1)
            found.append(Block(page, first, language, token.content, heading))
    return found


@cache
def claims() -> dict[str, Path]:
    """The pages that test modules run: by `Printed("docs/….md", …).run()`, or by a name at the top."""
    found: dict[str, Path] = {}
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        if "Printed(" not in (text := path.read_text(encoding="utf-8")):
            continue
        tree = ast.parse(text)
        named = {
            target.id: node.value.value
            for node in tree.body
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
            for target in node.targets
            if isinstance(target, ast.Name)
        }
        # `Printed(…).run()`, or the same by a name that the page's own words need.
        made = {
            node.targets[0].id: node.value
            for node in ast.walk(tree)
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
        }
        ran = [
            made.get(node.func.value.id) if isinstance(node.func.value, ast.Name) else node.func.value
            for node in ast.walk(tree)
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "run"
        ]
        runs = [node.args[0] for node in ran if isinstance(node, ast.Call) and ast.unparse(node.func) == "Printed"]
        for page in (str(named[run.id]) if isinstance(run, ast.Name) else ast.literal_eval(run) for run in runs):
            assert page not in found, f"{path.name} and {found[page].name} run one page."
            found[page] = path
    return found


def not_run(page: str) -> list[Block]:
    """Blocks that no test runs: in a language that nobody knows, or none, or of a page that no module claims."""
    return [
        block
        for block in blocks(page)
        if block.language not in (*RUN, "text") or (block.language in RUN and page not in claims())
    ]
