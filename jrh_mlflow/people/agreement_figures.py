"""Figures of an agreement: judge and people against the same references, and the confusion matrix."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jrh_mlflow.people.agreement import AgreementReport
from jrh_mlflow.people.agreement_view import ACCURACY, CEILING, ON_CEILING
from jrh_mlflow.schema.estimates import Estimate, Reading
from jrh_mlflow.show.figures.canvas import (
    Spot,
    canvas,
    ends_kept,
    hover_spots,
    label_cells,
    label_inches,
    label_rows,
    marks,
    reach,
    short,
    wrapped,
    write_cell,
    write_corners,
)
from jrh_mlflow.show.numbers import short_interval, source_ends
from jrh_mlflow.show.tables import frame_rows

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MOST_LEVELS = 12
"""Of a heatmap that can be read; the table has all."""
_MOST_PEOPLE = 20
_ROW = 0.62
_CELL_WIDTH, _CELL_HEIGHT = 1.25, 0.62
_JUDGE, _PEOPLE = 0, 1
"""Places in the palette."""

Ends = tuple[float, float | None, float | None]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Row:
    """Judge and people, or one person, against the same references."""

    label: str
    judge: Ends | None
    people: Ends | None


def agreement_figures(report: AgreementReport, *, title: str) -> dict[str, Figure]:
    """Draw every figure for which there is something to draw, by file name."""
    figures: Mapping[str, Figure | None] = {
        "ceiling.png": ceiling_chart(report, title=title),
        "confusion.png": confusion_heatmap(report.confusion),
    }
    return {name: figure for name, figure in figures.items() if figure is not None}


def ceiling_chart(report: AgreementReport, *, title: str) -> Figure | None:
    """Judge beside people, all and one by one, each against the label of the others, with intervals over items."""
    rows = _rows(report)
    if not rows:
        return None
    left = 0.15 + label_inches([row.label for row in rows])
    width = max(left + 5.2, 7.0)
    figure, axes = canvas(width, 1.75 + _ROW * len(rows), left=left, bottom=0.95, top=0.8)
    for place, row in enumerate(rows):
        for kind, ends, side in ((_JUDGE, row.judge, -0.13), (_PEOPLE, row.people, 0.13)):
            if ends is not None:
                _dot(axes, ends, place + side, kind, words=f"{row.label}, {('judge', 'people')[kind]}")
    label_rows(axes, [short(row.label) for row in rows], dark=1)
    lowest = [end for row in rows for ends in (row.judge, row.people) if ends for end in ends if end is not None]
    axes.set_xlim(min(0.0, *lowest), 1.03)
    share = "share of items with the label of the others"
    axes.set_xlabel(share if report.kind == "nominal" else "quadratic kappa against the others")
    handles = [_key(axes, kind, label) for kind, label in ((_JUDGE, "judge"), (_PEOPLE, "people"))]
    axes.legend(handles=handles, loc="lower right", bbox_to_anchor=(1, 1), ncols=2, frameon=False, fontsize=10)
    write_corners(figure, title=short(title, most=60), foot="bars: 95 % over items")
    return figure


def _rows(report: AgreementReport) -> list[_Row]:
    judge, people = (_ends(report.estimates.get(axis)) for axis in (ON_CEILING, CEILING))
    if people is None:
        judge = _ends(report.estimates[ACCURACY])
        return [] if judge is None else [_Row(label=f"{len(report.people_names)} person", judge=judge, people=None)]
    first = _Row(label=f"all {len(report.people_names)} people", judge=judge, people=people)
    # One by one people are read by the share of equal labels, which is no kappa.
    each = frame_rows(report.people.head(_MOST_PEOPLE)) if report.kind == "nominal" else []
    return [first, *(_person(row) for row in each)]


def _person(row: Mapping[str, Any]) -> _Row:
    judge, own = (
        None if row[name] is None else (row[name], row[f"{name}_low"], row[f"{name}_high"])
        for name in ("judge_accuracy", "accuracy")
    )
    return _Row(label=ends_kept(str(row["person"]), most=30), judge=judge, people=own)


def _ends(reading: Reading | None) -> Ends | None:
    return (reading.value, *source_ends(reading)) if isinstance(reading, Estimate) else None


def _dot(axes: Axes, ends: Ends, place: float, kind: int, *, words: str) -> None:
    words = f"{words}: {ends[0]:.2f} {short_interval(*ends[1:])}"
    hover_spots(axes, [Spot(x=ends[0], y=place, words=words)])
    axes.errorbar([ends[0]], [place], xerr=reach([ends]), capsize=3, linestyle="none", **marks(kind))


def _key(axes: Axes, kind: int, label: str) -> Any:
    (line,) = axes.plot([], [], linestyle="none", label=label, **marks(kind))
    return line


def confusion_heatmap(confusion: pd.DataFrame) -> Figure | None:
    """Labels of the people × labels of the judge: items, and the share of the row."""
    levels, counts = [str(level) for level in confusion.index], confusion.to_numpy()
    if not counts.sum() or len(levels) > _MOST_LEVELS:
        return None
    heads = [wrapped(ends_kept(level, most=30)) for level in levels]
    top = 0.6 + 0.19 * max(head.count("\n") + 1 for head in heads)
    labels = [ends_kept(level, most=30) for level in levels]
    left, bottom, n = label_inches(labels), 0.5, len(levels)
    width = max(left + _CELL_WIDTH * n + 0.25, 5.0)
    right = width - left - _CELL_WIDTH * n
    figure, axes = canvas(width, top + _CELL_HEIGHT * n + bottom, left=left, right=right, top=top, bottom=bottom)
    for row, cells in enumerate(counts.tolist()):
        for column, cell in enumerate(cells):
            words = f"people say {levels[row]}, the judge says {levels[column]}"
            _cell(axes, column, row, cell, of=sum(cells), words=words)
    label_cells(axes, heads, labels, range(n), fontsize=10)
    write_corners(figure, title="People say (rows), the judge says (columns)", foot="items, and share of the row")
    return figure


def _cell(axes: Axes, column: int, row: int, n: int, *, of: int, words: str) -> None:
    from matplotlib import colormaps

    share = n / of if of else 0.0
    colour = colormaps["Blues" if column == row else "Oranges"](0.05 + 0.75 * share)
    ink = "white" if share > 0.65 else "black"
    below = f"{100 * share:.0f} %" if of else ""
    words = f"{words}: {n:,} of {of:,} items"
    write_cell(axes, column, row, colour=colour, ink=ink, value=f"{n:,}", at=0.36, below=below, words=words)
