"""Markdown of ours as plain text."""

from __future__ import annotations

import html
import re
import textwrap
from collections.abc import Sequence

from jrh_mlflow.show.plain_text import WIDTH, aligned, plain, wrapped_line

wrapped = wrapped_line


def text_of(markdown: str, *, without: Sequence[str] = ()) -> list[str]:
    """Return a page of ours as plain text: tables aligned, sentences broken, some sections left out.

    Args:
        markdown: As the reports write it.
        without: Headings of the sections that are left out.
    """
    lines: list[str] = []
    kept, table = True, list[list[str]]()
    for line in [*markdown.splitlines(), ""]:
        if line.startswith("#"):
            kept = line.lstrip("# ") not in without
        if not kept:
            continue
        if line.startswith("|"):
            table.append([_unmarked(cell) for cell in re.split(r"(?<!\\)\|", line.strip())[1:-1]])
            continue
        lines += aligned(table[0], table[2:]) if table else []
        table = []
        if line or (lines and lines[-1]):  # one empty line, never two
            lines += _broken(line.lstrip("#> ")) or [""]
    return lines


def _broken(text: str) -> list[str]:
    return textwrap.wrap(_unmarked(text), WIDTH)


def _unmarked(text: str) -> str:
    return plain(html.unescape(text.replace("**", "").replace("\\|", "|").replace("`", "")))


__all__ = ["text_of", "wrapped"]
