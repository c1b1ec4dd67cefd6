"""Fenced blocks of README.md and of the pages in docs/."""

from __future__ import annotations

import re
from pathlib import Path
from textwrap import dedent
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
RUN = ("python", "sh", "yaml", "toml", "json")
"""Languages of blocks that are code; an output is `text`."""
_FENCE = re.compile(r"^( *)(`{3,})([^\n`]*)\n(.*?)^\1\2`* *$", re.MULTILINE | re.DOTALL)


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
    """Every fenced block of a page, in its order; directives of the documentation's builder are none."""
    text = (ROOT / page).read_text(encoding="utf-8")
    found = [
        Block(page, text.count("\n", 0, match.start(4)) + 1, match[3].strip(), dedent(match[4]))
        for match in _FENCE.finditer(text)
    ]
    return [block for block in found if not block.language.startswith("{")]
