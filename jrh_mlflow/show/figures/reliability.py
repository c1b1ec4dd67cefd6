"""Figures of reliability: scores of one judge, tests × judges, score against dollars."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from jrh_mlflow.measures.axes import lower_is_better
from jrh_mlflow.measures.reliability import OVERALL, CostPoint, ReliabilityReadings, cost_points, scored_by
from jrh_mlflow.schema.estimates import Bounds, Estimate, Reading
from jrh_mlflow.schema.items import BASELINE
from jrh_mlflow.scoring.metric import DEFAULT
from jrh_mlflow.show.figures import canvas
from jrh_mlflow.show.figures.datasheet import CallsOf, no_calls, variation
from jrh_mlflow.show.names import axis_name
from jrh_mlflow.show.numbers import any_bounds, bounds_ends, hover_text, interval_text, is_shown, source_ends
from jrh_mlflow.text import two_places

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_CELL_WIDTH, _CELL_HEIGHT = 1.35, 0.56
_APART = 0.3
"""Gap, in cells, that sets the baseline and the mean over tests apart from the tests."""
_SERIES = {
    "score": ("score", canvas.marks(0)),
    "consistency": ("same answer as its own baseline", canvas.marks(1)),
    "moved": ("another answer than its own baseline, as it should", {**canvas.marks(2), "markerfacecolor": "white"}),
}


def report_figures(report: ReliabilityReadings, calls: pd.DataFrame, judge: str) -> dict[str, Figure]:
    """Draw what there is to draw of one judge, by file name."""
    figures = {
        "reliability.png": score_chart(report, judge=judge),
        "cost_curve.png": cost_curve({judge: calls}),
        "variation.png": variation({judge: report.estimates}),
    }
    return {name: figure for name, figure in figures.items() if figure is not None}


def heatmap(
    cells: Mapping[str, Mapping[str, Reading]],
    *,
    letters: Mapping[str, Mapping[str, str]] | None = None,
    title: str = "Reliability: tests × judges",
    calls_of: CallsOf = no_calls,
) -> Figure | None:
    """Tests in rows, judges in columns; each cell with its value, 95 % interval by source and n.

    The baseline stands apart above the tests and the mean over tests below them. Colour is goodness: on axes of
    false preference, marked ↓, a low share is the bright one.
    """
    axes_names, judges = list(cells), list(next(iter(cells.values()), {}))
    if not any(is_shown(reading) for row in cells.values() for reading in row.values()):
        return None
    heads = [canvas.wrapped(canvas.short(name, most=42)) for name in judges]
    tops = _tops(axes_names)
    top = 0.55 + 0.2 * max(head.count("\n") + 1 for head in heads)
    labels = [_row_label(axis) for axis in axes_names]
    left, right, bottom = canvas.label_inches(labels), 0.85, 0.55
    size = (left + _CELL_WIDTH * len(judges) + right, top + _CELL_HEIGHT * (tops[-1] + 1) + bottom)
    # Title and footnote need 5.5 inches: a narrow table gets a wider margin, not wider cells.
    figure, axes = canvas.canvas(max(size[0], 5.5), size[1], left=left, right=right + max(0.0, 5.5 - size[0]), top=top)
    for axis, row_top in zip(axes_names, tops, strict=True):
        for column, name in enumerate(judges):
            letter = (letters or {}).get(axis, {}).get(name, "")
            words = f"{_row_label(axis)}, {name}: {hover_text(cells[axis][name])}"
            about = {"words": words, "address": calls_of(name, axis)}
            if isinstance(reading := cells[axis][name], Estimate):
                _draw_cell(axes, column, row_top, reading, letter=letter, inverse=lower_is_better(axis), about=about)
            else:
                _draw_missing(axes, column, row_top, reading.bounds, about=about)
    canvas.label_cells(axes, heads, labels, tops, fontsize=10.5)
    shared = "; same letter: no significant difference" if letters else ""
    withheld = any_bounds(one for row in cells.values() for one in row.values())
    shared += "; between: bounds, withheld" if withheld else ""
    canvas.write_corners(figure, title=title, foot=f"value, [95 % by source], n{shared}")
    _colour_bar(figure, axes, inverse=any(lower_is_better(axis) for axis in axes_names))
    return figure


def cost_curve(calls: Mapping[str, pd.DataFrame]) -> Figure | None:
    """Share of right answers so far against dollars spent so far, one line per judge whose costs are known."""
    curves = {name: cost_points(frame) for name, frame in calls.items() if _is_paid(frame)}
    curves = {name: points for name, points in curves.items() if points and points[-1].usd > 0}
    if not curves:
        return None
    totals = [points[-1].usd for points in curves.values()]
    # Dear and cheap judges in one figure: on a plain axis the cheap one would be a dot.
    wide = max(totals) > 20 * min(totals)
    figure, axes = canvas.canvas(8.2, 4.8, left=0.85, right=0.45)
    for index, (name, points) in enumerate(curves.items()):
        # A logarithmic axis has no place for what was free.
        _cost_line(axes, name, [point for point in points if point.usd > 0 or not wide], index)
    canvas.spread_prices(axes, wide=wide)
    axes.set(ylim=(-0.02, 1.03), ylabel="share of right answers so far")
    axes.set_xlabel("dollars spent so far" + (" (logarithmic)" if wide else ""))
    axes.set_title("Reliability against cost", loc="left")
    axes.legend(loc="lower right", frameon=True)
    return figure


def _is_paid(calls: pd.DataFrame) -> bool:
    """Whether there is a cost to draw; looked at first, because running shares take long."""
    costs = calls["cost_usd"] if "cost_usd" in calls.columns else None
    # One unknown cost would make every later point of the curve too cheap.
    return costs is not None and bool(costs.notna().all()) and bool((costs > 0).any())


def score_chart(report: ReliabilityReadings, *, judge: str) -> Figure | None:
    """Scores of each test with intervals, beside how often the judge stays with its own baseline answer."""
    rows = _chart_rows(report)
    if not rows:
        return None
    labels = [_test_label(test, report.definitions) for test in rows]
    left = max(canvas.label_inches(label.split("\n")) for label in labels)
    series = _series(report, rows)
    legend = 0.25 * (len(series) + any_bounds(rows.values()))
    size = (6.2 + left, 1.95 + legend + 0.56 * len(rows))
    figure, axes = canvas.canvas(*size, left=left, right=0.75, bottom=0.8 + legend, top=0.65)
    stays = {row for row, _ in series.get("consistency", [])}
    for name, points in series.items():
        label, style = _SERIES[name]
        values, bars = [point.value for _, point in points], canvas.error_bars(point for _, point in points)
        heights = [row + _offset(name, row in stays) for row, _ in points]
        axes.errorbar(values, heights, xerr=bars, linestyle="none", capsize=3, label=label, **style)
        _hover_scores(axes, list(rows), name, dict(zip(heights, points, strict=True)))
    places = {row + _offset("score", stays=False): score for row, score in enumerate(rows.values())}
    withheld = {
        place: (row, reading)
        for row, (place, reading) in enumerate(places.items())
        if not isinstance(reading, Estimate)
    }
    _hover_scores(axes, list(rows), "score", withheld)
    canvas.draw_bounds(axes, places, upright=False, colour=canvas.marks(0)["color"], label="bounds of a withheld score")
    _dress_chart(axes, report, rows, labels)
    axes.set_title(f"Reliability of {canvas.short(judge)}", loc="left", pad=18)
    figure.legend(loc="lower left", frameon=False, fontsize=10, bbox_to_anchor=(0.1 / figure.get_figwidth(), 0.0))
    return figure


def _chart_rows(report: ReliabilityReadings) -> dict[str, Reading]:
    base = report.estimates.get(f"{BASELINE}/{report.metric}")
    scores = ({} if base is None else {BASELINE: base}) | dict(report.scores)
    return {test: score for test, score in scores.items() if is_shown(score)}


def _hover_scores(axes: Axes, tests: Sequence[str], series: str, points: Mapping[float, tuple[int, Reading]]) -> None:
    """Let the points of a series, height to row and reading, say what they are."""
    label = _SERIES[series][0]
    named = {height: (f"{tests[row]}, {label}", point) for height, (row, point) in points.items()}
    canvas.hover_readings(axes, named, upright=False)


def _offset(name: str, stays: bool) -> float:
    """Keep the points of a row apart: the score above, what is read against the baseline below."""
    return -0.14 if name == "score" else 0.32 if name == "moved" and stays else 0.12


def _dress_chart(axes: Axes, report: ReliabilityReadings, rows: Mapping[str, Reading], labels: Sequence[str]) -> None:
    mean = report.summary.get("mean")
    if mean is not None:
        axes.axvline(mean, color="#777777", linewidth=1, linestyle="--", zorder=0)
        # Above the frame, clear of every point.
        frame = axes.get_xaxis_transform()
        axes.text(mean, 1.0, f"mean {mean:.2f}", transform=frame, ha="center", va="bottom", fontsize=9)
    margin = axes.get_yaxis_transform()
    for row, score in enumerate(rows.values()):
        axes.text(1.02, row, f"n {score.n}", transform=margin, va="center", fontsize=9, color="#444444")
    canvas.label_rows(axes, labels, dark=1 if BASELINE in rows else None, fontsize=10.5)
    if report.metric == DEFAULT:
        axes.set(xlim=(-0.03, 1.03), xlabel="share (bars: 95 % by source)")
    else:
        # Errors in levels and correlations may leave the span of shares.
        low, high = axes.get_xlim()
        axes.set(
            xlim=(min(low, -0.03), max(high, 1.03)), xlabel=f"{report.metric_text}, or a share (bars: 95 % by source)"
        )


def _series(report: ReliabilityReadings, rows: Mapping[str, Reading]) -> dict[str, list[tuple[int, Estimate]]]:
    further = {
        name: [
            (row, reading)
            for row, test in enumerate(rows)
            if isinstance(reading := report.estimates.get(f"{test}/{name}"), Estimate)
        ]
        for name in ("consistency", "moved")
    }
    scores = [(row, score) for row, score in enumerate(rows.values()) if isinstance(score, Estimate)]
    series = {"score": scores, **further}
    return {name: points for name, points in series.items() if points}


def _draw_cell(
    axes: Axes, column: int, top: float, reading: Estimate, *, letter: str, inverse: bool, about: dict[str, Any]
) -> None:
    """Draw a judge on an axis; with `inverse` a low value is the good one."""
    canvas.write_cell(
        axes,
        column,
        top,
        scale="cividis",
        # A correlation can be below 0, and an error in levels above 1.
        place=1 - reading.value if inverse else reading.value,
        value=f"{two_places(reading.value)}  {letter}".strip(),
        at=0.34,
        below=f"{interval_text(*source_ends(reading))}  n {reading.n}",
        **about,
    )


def _draw_missing(axes: Axes, column: int, top: float, bounds: Bounds | None, *, about: dict[str, Any]) -> None:
    from matplotlib.patches import Rectangle

    style: dict[str, Any] = {"facecolor": "#F4F4F4", "edgecolor": "#BBBBBB", "hatch": "////", "linewidth": 0}
    hatched = axes.add_patch(Rectangle((column + 0.015, top + 0.03), 0.97, 0.94, **style))
    canvas.hover(hatched, **about)
    backing = {"facecolor": "#F4F4F4", "edgecolor": "none", "pad": 2}
    text = f"between\n{bounds_ends(bounds)}" if bounds else "n/a"
    size = 9 if bounds else 10
    axes.text(column + 0.5, top + 0.5, text, ha="center", va="center", color="#444444", fontsize=size, bbox=backing)


def _colour_bar(figure: Figure, axes: Axes, *, inverse: bool) -> None:
    from matplotlib import colormaps
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize

    place = axes.get_position()
    width = figure.get_figwidth()
    beside = figure.add_axes((place.x1 + 0.12 / width, place.y0, 0.12 / width, place.height))
    # Few enough colours to be drawn as cells; more would be a picture inside the drawing.
    colours = colormaps["cividis"].resampled(32)
    bar = figure.colorbar(ScalarMappable(norm=Normalize(0, 1), cmap=colours), cax=beside, ticks=[0, 0.5, 1])
    bar.outline.set_visible(False)
    # With an axis on which low is good a colour stands for no value any more, only for how good it is.
    ticks = ["worst", "", "best"] if inverse else ["0", "0.5", "1"]
    bar.ax.set_yticklabels(ticks, fontsize=9)


def _tops(axes_names: Sequence[str]) -> list[float]:
    """Where each row begins, in cells from above."""
    tops = [0.0]
    for before, axis in pairwise(axes_names):
        tops.append(tops[-1] + 1.0 + (_APART if before == BASELINE or axis == OVERALL else 0.0))
    return tops


def _row_label(axis: str) -> str:
    return f"{axis_name(axis)} ↓" if lower_is_better(axis) else axis_name(axis)


def _test_label(test: str, definitions: str) -> str:
    note = scored_by(test, definitions).note
    return f"{axis_name(test)}\n({note})" if note else axis_name(test)


def _cost_line(axes: Axes, name: str, points: Sequence[CostPoint], index: int) -> None:
    style = canvas.marks(index, size=9)
    # More points than these are not seen, and each makes the drawing larger.
    step = max(1, math.ceil(len(points) / 2000))
    drawn = [*points[::step], points[-1]]
    places = [point.usd for point in drawn], [point.score for point in drawn]
    (line,) = axes.plot(*places, color=style["color"], linewidth=1.8)
    last = points[-1]
    label = f"{canvas.short(name, most=42)}   {last.score:.2f} for ${last.usd:.3g}, n {last.n}"
    # One point has no line, but its line style makes the legend show one beside the marker.
    axes.plot([last.usd], [last.score], linestyle="-", label=label, **style)
    canvas.hover(line, label)
    canvas.hover_spots(axes, [canvas.Spot(x=last.usd, y=last.score, words=label)])
