"""Figure of a corrected rate: the judge alone, people alone and both together, with their intervals."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from jrh_mlflow.people.corrected_view import LABELS, level_text
from jrh_mlflow.schema.estimates import Estimate, Reading
from jrh_mlflow.show.figures.canvas import canvas, error_bars, label_inches, label_rows, marks, short, write_corners

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_SHOWN = ("corrected", "naive", "people_only")
_ROW = 0.5
"""Inches of a row."""


def corrected_figures(
    readings: Mapping[str, Reading], versions: Mapping[str, Mapping[str, Reading]], *, title: str, level: float
) -> dict[str, Figure]:
    """Draw every figure for which there is something to draw, by file name."""
    figures = {
        "corrected.png": _intervals({"": readings}, title=title, level=level),
        "versions.png": _intervals(versions, title=f"Versions: {title}", level=level),
    }
    return {name: figure for name, figure in figures.items() if figure is not None}


def _intervals(readings: Mapping[str, Mapping[str, Reading]], *, title: str, level: float) -> Figure | None:
    """Rates under one another; None where none has a number."""
    rows = {
        f"{version} {LABELS[name]}".strip(): (name, one)
        for version, own in readings.items()
        for name, one in own.items()
        if name in _SHOWN and isinstance(one, Estimate)
    }
    if not rows:
        return None
    left = label_inches(rows)
    figure, axes = canvas(left + 5.2, 1.5 + _ROW * len(rows), left=left, bottom=0.95, top=0.55)
    label_rows(axes, [short(label) for label in rows])
    for place, (name, one) in enumerate(rows.values()):
        axes.errorbar(
            [one.value], [place], xerr=error_bars([one]), capsize=4, linestyle="none", **marks(_SHOWN.index(name))
        )
        axes.annotate(
            f"{one.value:.3f}", (one.value, place), (0, 7), textcoords="offset points", ha="center", fontsize=9
        )
    signed = any(one.statistic == "value" for _, one in rows.values())
    axes.set_xlim(*((None, None) if signed else (0, 1)))
    axes.set_xlabel("difference of the rates" if signed else "rate")
    write_corners(figure, title=short(title, most=80), foot=f"{level_text(level)} intervals.")
    return figure
