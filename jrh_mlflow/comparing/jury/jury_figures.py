"""Figures of a jury: who agrees with whom, and accuracy against cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from jrh_mlflow.comparing.jury.jury_report import Cascade, JuryReport
from jrh_mlflow.comparing.jury.panels import BestPanel
from jrh_mlflow.comparing.jury.votes import PairAgreement
from jrh_mlflow.schema.estimates import Estimate
from jrh_mlflow.show.figures.canvas import (
    Spot,
    canvas,
    ends_kept,
    error_bars,
    hover_spots,
    label_cells,
    label_inches,
    marks,
    short,
    wrapped,
    write_cell,
    write_corners,
)
from jrh_mlflow.show.numbers import hover_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_CELL_WIDTH, _CELL_HEIGHT = 1.25, 0.62
_LINE = 0.27
"""Inches of a line of the list under the map of costs."""


def jury_figures(report: JuryReport, *, title: str) -> dict[str, Figure]:
    """Draw every figure for which there is something to draw, by file name."""
    figures: Mapping[str, Figure | None] = {
        "agreement.png": agreement_heatmap(report.agreements, report.judges, title=f"Agreement: {title}"),
        "cost.png": cost_map(report),
    }
    return {name: figure for name, figure in figures.items() if figure is not None}


def agreement_heatmap(pairs: Sequence[PairAgreement], judges: Sequence[str], *, title: str) -> Figure | None:
    """Judges × judges: agreement below the diagonal, correlation of errors above it."""
    if not any(isinstance(one.agreement, Estimate) for one in pairs):
        return None
    heads = [wrapped(ends_kept(name)) for name in judges]
    top = 0.75 + 0.19 * max(head.count("\n") + 1 for head in heads)
    left, right, bottom, n = label_inches(judges), 0.25, 0.5, len(judges)
    size = (max(left + _CELL_WIDTH * n + right, 7.6), top + _CELL_HEIGHT * n + bottom)
    figure, axes = canvas(*size, left=left, right=size[0] - left - _CELL_WIDTH * n, top=top, bottom=bottom)
    for one in pairs:
        column, row = judges.index(one.a), judges.index(one.b)
        if isinstance(one.agreement, Estimate):
            ac1 = "" if one.ac1 is None else f"AC1 {one.ac1:.2f}  "
            words = f"{one.a} and {one.b}, equal answers: {hover_text(one.agreement)}"
            _cell(axes, column, row, one.agreement.value, f"{ac1}n {one.agreement.n}", "cividis", low=0.0, words=words)
        if one.error_correlation is not None:
            words = f"{one.a} and {one.b}, correlation of errors: {one.error_correlation:.2f}"
            _cell(axes, row, column, one.error_correlation, "errors", "RdBu_r", low=-1.0, words=words)
    labels = [ends_kept(name, most=30) for name in judges]
    label_cells(axes, heads, labels, range(n), fontsize=10)
    foot = "below the diagonal: share of equal answers; above it: correlation of errors (blank: none)"
    write_corners(figure, title=short(title, most=90), foot=foot)
    return figure


def cost_map(report: JuryReport) -> Figure | None:
    """Accuracy against dollars per 1,000 judgments: judges, all panels of the search, the best one, jury, cascade."""
    dots = _dots(report)
    if not dots:
        return None
    listed = _LINE * len(dots)
    figure, axes = canvas(8.6, 5.3 + listed, left=0.85, bottom=0.8 + listed)
    panels = report.best.points if isinstance(report.best, BestPanel) else ()
    priced = [(one.usd_per_1k, one.accuracy) for one in panels if one.usd_per_1k is not None]
    if priced:
        place, value = zip(*priced, strict=True)
        axes.plot(place, value, linestyle="none", marker=".", color="#AAAAAA", zorder=1)
    offset: dict[str, Any] = {"xytext": (7, 6), "textcoords": "offset points"}
    for number, (label, reading, usd, kind) in enumerate(dots, 1):
        style = marks(kind, size=8)
        bars = error_bars([reading])
        axes.errorbar([usd], [reading.value], yerr=bars, capsize=3, zorder=2, **style)
        hover_spots(axes, [Spot(x=usd, y=reading.value, words=f"{label}: {hover_text(reading)}, ${usd:.3g}")])
        axes.annotate(str(number), (usd, reading.value), fontweight="bold", color=style["color"], **offset)
        line = f"{number}  {reading.value:.3f} for ${usd:.3g}, n {reading.n}   {label}"
        height = (0.1 + _LINE * (len(dots) - number)) / figure.get_figheight()
        figure.text(0.02, height, short(line, most=110), fontsize=10, color=style["color"])
    prices = [usd for _, _, usd, _ in dots] + [usd for usd, _ in priced]
    if min(prices) > 0 and max(prices) / min(prices) > 5:
        _logarithmic(axes)
    axes.set(xlabel="dollars per 1,000 judgments", ylabel="accuracy (bars: 95 % by source)")
    grey = f"; grey: every panel of {report.best.size}, in sample" if isinstance(report.best, BestPanel) else ""
    axes.set_title(f"Accuracy against cost{grey if priced else ''}", loc="left")
    return figure


def _logarithmic(axes: Axes) -> None:
    """Spread cheap and dear judges over a logarithmic axis with plain numbers at 1, 2, 5, 10 …."""
    from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())


def _dots(report: JuryReport) -> list[tuple[str, Estimate, float, int]]:
    """Label, accuracy, price and kind (judge, jury, best panel, cascade) of what has both numbers."""
    rows = [(name, seat.readings["accuracy"], seat.usd_per_1k, 0) for name, seat in report.seats.items()]
    jury = f"jury of all {len(report.judges)} ({report.rule.vote})"
    rows.append((jury, report.readings["accuracy"], report.usd_per_1k, 1))
    if isinstance(report.best, BestPanel):
        best = f"best panel of {report.best.size}, read where it was not chosen: {', '.join(report.best.panel)}"
        rows.append((best, report.best.accuracy, report.best.usd_per_1k, 2))
    if isinstance(report.cascade, Cascade):
        steps = f"cascade {' + '.join(report.cascade.cheap)} → {report.cascade.strong}"
        rows.append((steps, report.cascade.accuracy, report.cascade.usd_per_1k, 3))
    return [
        (label, reading, usd, kind)
        for label, reading, usd, kind in rows
        if isinstance(reading, Estimate) and usd is not None
    ]


def _cell(axes: Axes, column: int, row: int, value: float, below: str, colours: str, *, low: float, words: str) -> None:
    from matplotlib import colormaps

    colour = colormaps[colours](min(1.0, max(0.0, (value - low) / (1 - low))))
    red, green, blue = colour[:3]
    ink = "black" if 0.3 * red + 0.59 * green + 0.11 * blue > 0.5 else "white"
    write_cell(axes, column, row, colour=colour, ink=ink, value=f"{value:.2f}", at=0.36, below=below, words=words)
