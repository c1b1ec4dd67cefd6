"""Figure of an alignment: what changed on the held-out traces, beside nothing and the loss that must be excluded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jrh_mlflow.people.alignment.held_out import AlignmentReport, PairedReadings
from jrh_mlflow.schema.estimates import Estimate
from jrh_mlflow.show.figures.canvas import canvas, error_bars, label_rows, marks, short, write_corners

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_ROW = 0.75
"""Inches."""


def alignment_figures(report: AlignmentReport, *, title: str) -> dict[str, Figure]:
    """Draw the differences after aligning, by file name; nothing where none is known."""
    named = {"agrees with people": report.agreement, "same verdict,\nother layout": report.suite}
    rows = {name: read for name, read in named.items() if read and isinstance(read.difference, Estimate)}
    return {"difference.png": _differences(report, rows, title)} if rows else {}


def _differences(report: AlignmentReport, rows: dict[str, PairedReadings], title: str) -> Figure:
    figure, axes = canvas(8.6, 1.75 + _ROW * len(rows), left=1.9, bottom=0.95, top=0.5)
    for place, read in enumerate(rows.values()):
        point = read.difference
        assert isinstance(point, Estimate)
        axes.errorbar([point.value], [place], xerr=error_bars([point]), capsize=4, **marks(place, size=8))
        axes.annotate(
            f"{_share(read, 'before')} → {_share(read, 'after')}, n {point.n}",
            (point.value, place),
            xytext=(0, 9),
            textcoords="offset points",
            ha="center",
            fontsize=10,
        )
    label_rows(axes, list(rows))
    axes.axvline(0, color="#444444", linewidth=1)
    axes.axvline(-report.margin, color="#D55E00", linewidth=1.2, linestyle=(0, (4, 3)))
    axes.set_xlabel(f"difference, after minus before (broken line: a loss of {report.margin:g})")
    write_corners(figure, title=short(f"{title}: {report.decision}", most=90), foot="bars: 95 %, paired by trace")
    return figure


def _share(read: PairedReadings, side: str) -> str:
    reading = getattr(read, side)
    return f"{reading.value:.3f}" if isinstance(reading, Estimate) else "n/a"
