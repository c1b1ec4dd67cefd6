"""Figures of a jury: who agrees with whom, and accuracy against cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from jrh_mlflow.measures.jury.cascade import Cascade
from jrh_mlflow.measures.jury.jury import JuryReport
from jrh_mlflow.measures.jury.panels import BestPanel
from jrh_mlflow.measures.jury.votes import PairAgreement
from jrh_mlflow.reports.figures.canvas import PALETTE, canvas, ends_kept, error_bars, label_inches, short, wrapped
from jrh_mlflow.schema.estimates import Estimate

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
            _cell(axes, column, row, one.agreement.value, f"{ac1}n {one.agreement.n}", "cividis", low=0.0)
        if one.error_correlation is not None:
            _cell(axes, row, column, one.error_correlation, "errors", "RdBu_r", low=-1.0)
    axes.set_xlim(0, n)
    axes.set_ylim(n, 0)
    axes.set_xticks([place + 0.5 for place in range(n)], heads, fontsize=10)
    axes.xaxis.tick_top()
    axes.set_yticks([place + 0.5 for place in range(n)], [ends_kept(name, most=30) for name in judges], fontsize=10)
    axes.tick_params(length=0)
    axes.grid(visible=False)
    axes.spines[:].set_visible(False)
    figure.text(0.12 / size[0], 1 - 0.12 / size[1], short(title, most=90), va="top", fontsize=12.5)
    foot = "below the diagonal: share of equal answers; above it: correlation of errors (blank: none)"
    figure.text(0.12 / size[0], 0.14 / size[1], foot, fontsize=9, color="#444444")
    return figure


@dataclass(frozen=True, kw_only=True, slots=True)
class _Dot:
    label: str
    reading: Estimate
    usd: float
    colour: str
    marker: str


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
    for number, dot in enumerate(dots, 1):
        _draw(axes, dot, number)
        line = f"{number}  {dot.reading.value:.3f} for ${dot.usd:.3g}, n {dot.reading.n}   {dot.label}"
        height = (0.1 + _LINE * (len(dots) - number)) / figure.get_figheight()
        figure.text(0.02, height, short(line, most=110), fontsize=10, color=dot.colour)
    prices = [dot.usd for dot in dots] + [usd for usd, _ in priced]
    if min(prices) > 0 and max(prices) / min(prices) > 5:
        _logarithmic(axes)
    axes.set_xlabel("dollars per 1,000 judgments")
    axes.set_ylabel("accuracy (bars: 95 % by source)")
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


def _dots(report: JuryReport) -> list[_Dot]:
    seats = report.seats.items()
    rows = [(name, seat.readings["accuracy"], seat.usd_per_1k, 0, "o") for name, seat in seats]
    jury = f"jury of all {len(report.judges)} ({report.rule.vote})"
    rows.append((jury, report.readings["accuracy"], report.usd_per_1k, 1, "s"))
    if isinstance(report.best, BestPanel):
        best = f"best panel of {report.best.size}, read where it was not chosen: {', '.join(report.best.panel)}"
        rows.append((best, report.best.accuracy, report.best.usd_per_1k, 2, "D"))
    if isinstance(report.cascade, Cascade):
        steps = f"cascade {' + '.join(report.cascade.cheap)} → {report.cascade.strong}"
        rows.append((steps, report.cascade.accuracy, report.cascade.usd_per_1k, 3, "^"))
    return [
        _Dot(label=label, reading=reading, usd=usd, colour=PALETTE[colour], marker=marker)
        for label, reading, usd, colour, marker in rows
        if isinstance(reading, Estimate) and usd is not None
    ]


def _draw(axes: Axes, dot: _Dot, number: int) -> None:
    x, y, colour = dot.usd, dot.reading.value, dot.colour
    bars = error_bars([dot.reading])
    axes.errorbar([x], [y], yerr=bars, color=colour, marker=dot.marker, markersize=8, capsize=3, zorder=2)
    offset = (7, 6)
    axes.annotate(str(number), (x, y), offset, textcoords="offset points", fontweight="bold", color=colour)


def _cell(axes: Axes, column: int, row: int, value: float, below: str, colours: str, *, low: float) -> None:
    from matplotlib import colormaps
    from matplotlib.patches import Rectangle

    colour = colormaps[colours](min(1.0, max(0.0, (value - low) / (1 - low))))
    axes.add_patch(Rectangle((column + 0.015, row + 0.03), 0.97, 0.94, facecolor=colour, linewidth=0))
    red, green, blue = colour[:3]
    ink = "black" if 0.3 * red + 0.59 * green + 0.11 * blue > 0.5 else "white"
    middle = column + 0.5
    axes.text(middle, row + 0.36, f"{value:.2f}", ha="center", va="center", color=ink, fontsize=11.5, fontweight="bold")
    axes.text(middle, row + 0.74, below, ha="center", va="center", color=ink, fontsize=8.5)
