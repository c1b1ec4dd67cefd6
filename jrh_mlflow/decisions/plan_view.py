"""A plan as tables and Markdown: the size, the spread behind it, dollars and minutes per model, what to know."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jrh_mlflow.show.cards import CardTable
from jrh_mlflow.show.markdown import table
from jrh_mlflow.show.numbers import money_text
from jrh_mlflow.show.plain_text import line_text

_SPREAD = {
    "rate": "rate",
    "icc": "ICC (answers within a task)",
    "repeat": "repeat (answers to one presentation)",
}


def size_cells(plan: Mapping[str, Any]) -> CardTable:
    """Show how much is asked, of the axis and of the whole suite, and what it shows."""
    wide, chance = plan["width"] is not None, f"{plan['power']:.0%}"
    shown = "expected width" if wide else "chance to tell them apart"
    found = f"distance of a limit decided with a chance of {chance}" if wide else f"difference found in {chance}"
    rows = [
        ["tasks", f"{plan['tasks']:,}", f"{plan['tasks']:,}"],
        ["items", f"{plan['items']:,}", f"{plan['suite_items']:,}"],
        ["replicates", str(plan["replicates"]), str(plan["replicates"])],
        ["calls", f"{plan['calls']:,}", f"{plan['suite_calls']:,}"],
        [shown, f"{plan['expected']:.3f}", ""],
        [found, f"{plan['detectable']:.3f}", ""],
    ]
    rows += [[_SPREAD[name], f"{plan['spread'][name]:.2f} ({plan['spread']['basis'][name]})", ""] for name in _SPREAD]
    return CardTable(header=["", "this axis", f"whole suite ({plan['suite']})"], rows=rows)


def model_cells(plan: Mapping[str, Any]) -> CardTable:
    """Show dollars and minutes per model; unknown is a word, never 0."""
    rows = [
        [
            each["model"],
            money_text(each["usd"]),
            minutes_text(each["minutes"]),
            money_text(each["suite_usd"]),
            minutes_text(each["suite_minutes"]),
            each["basis"],
        ]
        for each in plan["models"]
    ]
    header = ["model", "this axis", "minutes", "whole suite", "minutes", "dollars by"]
    return CardTable(header=header, rows=rows)


def minutes_text(minutes: float) -> str:
    """Write minutes, short times to two digits."""
    return f"{minutes:.0f}" if minutes >= 10 else f"{minutes:.2g}"


def plan_markdown(plan: Mapping[str, Any], *, title: str, headline: str) -> str:
    """Render the headline, the size, the models and what a reader must know."""
    lines = [f"# {_line(title)}", "", f"**{_line(headline)}**", ""]
    for cells in (size_cells(plan), model_cells(plan)):
        if cells.rows:
            rows = [[_line(str(cell)) for cell in row] for row in cells.rows]
            lines += [*table([_line(name) for name in cells.header], rows), ""]
    return "\n".join([*lines, *(f"- {_line(note)}" for note in plan["notes"]), ""])


def _line(text: str) -> str:
    """Put a text of any origin on one line, its tags and links dead; backticks are our own."""
    return line_text(text).replace("&#96;", "`")
