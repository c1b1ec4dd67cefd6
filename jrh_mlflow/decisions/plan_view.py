"""A plan as one page: the size, the spread behind it, dollars and minutes per model, what to know."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jrh_mlflow.show.numbers import money_text
from jrh_mlflow.show.page import Page, Section
from jrh_mlflow.show.tables import Column, FilledTable, Table

_SPREAD = {
    "rate": "rate",
    "icc": "ICC (answers within a task)",
    "repeat": "repeat (answers to one presentation)",
}
MODELS: Table[Mapping[str, Any]] = Table.of(
    Column("model", lambda cost: cost["model"]),
    Column("this axis", lambda cost: money_text(cost["usd"])),
    Column("minutes", lambda cost: minutes_text(cost["minutes"])),
    Column("whole suite", lambda cost: money_text(cost["suite_usd"])),
    Column("minutes", lambda cost: minutes_text(cost["suite_minutes"])),
    Column("dollars by", lambda cost: cost["basis"]),
)
"""Dollars and minutes per model; unknown is a word, never 0."""


def size_table(plan: Mapping[str, Any]) -> FilledTable[tuple[str, str, str]]:
    """Show how much is asked, of the axis and of the whole suite, and what it shows."""
    wide, chance = plan["width"] is not None, f"{plan['power']:.0%}"
    expected = "expected width" if wide else "chance to tell them apart"
    detectable = f"distance of a limit decided with a chance of {chance}" if wide else f"difference found in {chance}"
    spread, basis = plan["spread"], plan["spread"]["basis"]
    rows = [
        ("tasks", f"{plan['tasks']:,}", f"{plan['tasks']:,}"),
        ("items", f"{plan['items']:,}", f"{plan['suite_items']:,}"),
        ("replicates", str(plan["replicates"]), str(plan["replicates"])),
        ("calls", f"{plan['calls']:,}", f"{plan['suite_calls']:,}"),
        (expected, f"{plan['expected']:.3f}", ""),
        (detectable, f"{plan['detectable']:.3f}", ""),
        *((label, f"{spread[name]:.2f} ({basis[name]})", "") for name, label in _SPREAD.items()),
    ]
    columns: Table[tuple[str, str, str]] = Table.of(
        Column("size", lambda row: row[0]),
        Column("this axis", lambda row: row[1]),
        Column(f"whole suite ({plan['suite']})", lambda row: row[2]),
    )
    return columns(rows)


def minutes_text(minutes: float) -> str:
    """Write minutes, short times to two digits."""
    return f"{minutes:.0f}" if minutes >= 10 else f"{minutes:.2g}"


def plan_page(plan: Mapping[str, Any], *, title: str, headline: str) -> Page:
    """Return the headline, the size, the models and what a reader must know."""
    return Page(
        title=title,
        lead=headline,
        sections=[
            Section(heading="How much", blocks=[size_table(plan)]),
            Section(heading="What it costs", blocks=[MODELS(plan["models"])]),
        ],
        notes=plan["notes"],
    )
