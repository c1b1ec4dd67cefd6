"""Fenced blocks of README.md and of the pages in docs/."""

from __future__ import annotations

import re
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
    found = []
    for token in tokens:
        if token.type not in ("fence", "code_block") or token.map is None:
            continue
        language = token.info.strip()
        held = f"{language}\n{token.content}" if language == "{eval-rst}" else language
        if not DIRECTIVES.fullmatch(held):
            first = token.map[0] + (2 if token.type == "fence" else 1)
            found.append(Block(page, first, language, token.content))
    return found
