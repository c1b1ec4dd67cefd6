"""Markdown tables of lists of texts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from jrh_mlflow.show.plain_text import (
    MAX_DESCRIPTION,
    shortened,
)
from jrh_mlflow.show.readings import axes_by_reason


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Render a Markdown table; cells are escaped, so that text from a model cannot break out of one."""

    def line(cells: Sequence[str]) -> str:
        return f"| {' | '.join(cell.replace('|', chr(92) + '|').replace(chr(10), ' ') for cell in cells)} |"

    return [line(header), line(["---"] * len(header)), *(line(row) for row in rows)]


__all__ = ["MAX_DESCRIPTION", "axes_by_reason", "shortened", "table"]
