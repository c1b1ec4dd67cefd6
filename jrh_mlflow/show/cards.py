"""What a notebook shows of a result: a card in HTML, and the same in one line of text.

A card has no script and asks for nothing from outside; every text in it is escaped, and its colours are those of the
notebook around it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jrh_mlflow.measures.axes import AXES, declared
from jrh_mlflow.schema.estimates import Estimate, NotEstimable, Reading
from jrh_mlflow.show.datasheet_page import PageRow, axis_row, page_row
from jrh_mlflow.show.findings import finding_lines
from jrh_mlflow.show.html import render
from jrh_mlflow.show.markdown import axes_by_reason
from jrh_mlflow.show.names import axis_name, stimuli_name
from jrh_mlflow.show.numbers import bounds_ends, bounds_note, is_shown, reading_text, source_ends
from jrh_mlflow.show.tables import FilledTable
from jrh_mlflow.text import brief_name, clean_text

MOST = 8
"""Rows of a table that may be long: differences, configurations, examples."""
_LONGEST = 160
"""Characters of an example's text."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Whisker:
    """A share and its interval, or bounds alone, drawn between 0 and 1."""

    low: float
    high: float
    value: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class CardTable:
    """Rows of text; a cell may also be a whisker, or None where there is nothing to draw."""

    header: Sequence[str]
    rows: Sequence[Sequence[str | Whisker | None]]
    more: str = ""
    """What the table leaves out, and where it is."""
    words: bool = False
    """Cells are texts to read, not numbers."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Card:
    """What a notebook shows of one result."""

    title: str
    facts: Mapping[str, str]
    marks: Sequence[str] = ()
    """Beside the title: simulated, recorded, truncated."""
    profile: str = ""
    """The judge in one line."""
    tables: Sequence[CardTable | FilledTable[Any]] = ()
    notes: Sequence[str] = ()
    links: Sequence[str] = ()
    """Where the run can be looked at: addresses, or words where no server shows it."""

    def to_html(self) -> str:
        """Return the card as a fragment of a page."""
        tables = [table for table in self.tables if table.rows]
        shown = {name: getattr(self, name) for name in ("title", "facts", "marks", "profile", "notes", "links")}
        # A kernel sends it as JSON, which cannot hold half of a character.
        return clean_text(render("card.html", card={**shown, "tables": tables}))


def datasheet_table(estimates: Mapping[str, Reading]) -> CardTable:
    """Show the readings that sum a datasheet up."""
    rows = []
    for key, reading in main_readings(estimates).items():
        label, *cells = _cells(axis_row(key, reading), reading)
        rows.append([label, stimuli_name(declared(key)), *cells])
    return CardTable(header=["axis", "on", "reading", "95 % by task", "", "detectable", "n", "left out"], rows=rows)


def scores_table(scores: Mapping[str, Reading]) -> CardTable:
    """Show the score of each reliability test."""
    rows = [_cells(page_row(axis_name(test), reading), reading) for test, reading in scores.items()]
    return CardTable(header=["test", "score", "95 % by source", "", "detectable", "n", "left out"], rows=rows)


def _cells(row: PageRow, reading: Reading) -> list[str | Whisker | None]:
    """Spell a row of a page in the cells of a card; where the number is withheld, between what it lies."""
    value, interval = row.value, row.interval
    if isinstance(reading, NotEstimable) and reading.bounds is not None:
        value, interval = "withheld", f"between {bounds_ends(reading.bounds)}"
    return [row.label, value, interval, _whisker(reading), row.detectable, row.n, row.left_out]


def main_readings(estimates: Mapping[str, Reading]) -> dict[str, Reading]:
    """Return the readings that sum a datasheet up, where there is a number or bounds; of a threshold in any case."""
    keys = [axis.main_key for axis in AXES if axis.column or axis.figure]
    found = {key: estimates[key] for key in keys if key in estimates}
    return {key: one for key, one in found.items() if is_shown(one) or declared(key).unit == "curve"}


def finding_notes(estimates: Mapping[str, Reading]) -> list[str]:
    """Say which biases were found, and which would have been."""
    return [f"{head.capitalize()}: {line}." for head, line in finding_lines(estimates).items()]


def missing_notes(estimates: Mapping[str, Reading]) -> list[str]:
    """Say which readings are withheld and why, and what their bounds are."""
    groups = {reason: axes for (state, reason), axes in axes_by_reason(estimates).items() if state == "withheld"}
    notes = [f"Withheld: {_some(axes)}: {reason}." for reason, axes in list(groups.items())[:MOST]]
    notes += [f"Withheld for {len(groups) - MOST} further reasons: `to_frame()` has all."] if len(groups) > MOST else []
    return notes + [line for line in bounds_note(estimates.values()) if line and groups]


def _some(axes: Sequence[str]) -> str:
    more = f" and {len(axes) - 6} more" if len(axes) > 6 else ""
    return f"{', '.join(map(axis_name, axes[:6]))}{more}"


def _whisker(reading: Reading) -> Whisker | None:
    """Return where a share lies between 0 and 1; None of other numbers."""
    if reading.statistic != "rate":
        return None
    if isinstance(reading, NotEstimable):
        return None if reading.bounds is None else Whisker(low=reading.bounds.low, high=reading.bounds.high)
    low, high = (reading.value if end is None else end for end in source_ends(reading))
    inside = min(low, reading.value) >= 0 and max(high, reading.value) <= 1
    return Whisker(low=low, high=high, value=reading.value) if inside else None


def first_rows(table: CardTable, *, what: str) -> CardTable:
    """Return a table cut to a few rows that says how many there are."""
    return CardTable(header=table.header, rows=table.rows[:MOST], words=table.words, more=_more(len(table.rows), what))


def _more(count: int, what: str) -> str:
    return f"… and {count - MOST} more {what}: `to_frame()` has all." if count > MOST else ""


def examples_table(examples: Iterable[tuple[str, str, Sequence[str]]]) -> CardTable:
    """Show items by condition: id, condition, and the beginning of the texts that a judge would see."""
    rows = [[name, condition, "\n".join(map(_beginning, texts))] for name, condition, texts in examples]
    return CardTable(header=["example", "condition", "what a judge sees"], rows=rows, words=True)


def _beginning(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 1]}…"


def brief_sheet(estimates: Mapping[str, Reading]) -> str:
    """Write a datasheet in one line: `dark current 0.30 [0.16, 0.48], …`."""
    shown = {key: (declared(key), reading) for key, reading in main_readings(estimates).items()}
    named = {axis_name(key): one for key, (axis, one) in shown.items() if axis.column and axis.headline}
    n_withheld = sum(isinstance(one, NotEstimable) and one.withheld for one in estimates.values())
    return brief_readings(named, most=6) + (f", {n_withheld} withheld" if n_withheld else "")


def brief_readings(readings: Mapping[str, Reading], *, most: int = 3, signed: bool = False) -> str:
    """Write the first readings that have a number in one line, under names of any origin."""
    known = {name: reading for name, reading in readings.items() if isinstance(reading, Estimate)}
    told = [
        f"{brief_name(name)[1:-1]} {'+' if signed and one.value > 0 else ''}{reading_text(one, places=2)}"
        for name, one in list(known.items())[:most]
    ]
    told += ["…"] if len(known) > most else []
    return ", ".join(told) or "no reading has a number"


def brief_run(run_id: str | None) -> str:
    """Name a run in a line of text."""
    return "not logged" if run_id is None else f"run {run_id[:8]}"
