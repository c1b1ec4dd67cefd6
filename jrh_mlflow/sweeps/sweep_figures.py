"""Figures of a sweep: the map of reliability against cost, and the criterion curve."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from jrh_mlflow.comparing.criterion import OperatingPoint, curve
from jrh_mlflow.show.figures.canvas import MARKERS, PALETTE, canvas, reach, short
from jrh_mlflow.sweeps.sweep_view import Dot, steps_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MOST_NAMED = 8


def sweep_figures(dots: Sequence[Dot], points: Sequence[OperatingPoint], *, title: str) -> dict[str, Figure]:
    """Draw every figure for which there is something to draw, by file name."""
    figures: Mapping[str, Figure | None] = {
        "pareto.png": pareto_map(dots, title=title),
        "criterion_curve.png": criterion_curve(points),
    }
    return {name: figure for name, figure in figures.items() if figure is not None}


def pareto_map(dots: Sequence[Dot], *, title: str) -> Figure | None:
    """Held-out reliability against dollars per 1,000 judgments, with intervals by task, and the front as searched."""
    if not dots:
        return None
    front = sorted((dot for dot in dots if dot.on_front), key=lambda dot: dot.usd)
    named = front[:_MOST_NAMED]
    figure, axes = canvas(8.6, 4.9 + 0.27 * len(named), left=0.85, bottom=0.75 + 0.27 * len(named))
    for dot in dots:
        _draw(axes, dot)
    if front:
        steps = [dot.usd for dot in front], steps_of(front)
        axes.step(*steps, where="post", color=PALETTE[0], linestyle="--")
    for number, dot in enumerate(named, 1):
        offset: dict[str, Any] = {"xytext": (7, 7), "textcoords": "offset points"}
        axes.annotate(str(number), (dot.usd, dot.value), fontweight="bold", color=PALETTE[0], **offset)
        line = f"{number}  {short(dot.label, most=90)}   {dot.value:.3f} for ${dot.usd:.3g}"
        figure.text(0.02, (0.1 + 0.27 * (len(named) - number)) / figure.get_figheight(), line, fontsize=10)
    prices = [dot.usd for dot in dots]
    if min(prices) > 0 and max(prices) / min(prices) > 5:
        axes.set_xscale("log")
    axes.xaxis.set_major_formatter(lambda usd, _: f"${usd:g}")
    legend = "bars: 95 % by task; filled, dashed: front of the searched half; orange: tied with the best"
    axes.set(xlabel=f"dollars per 1,000 judgments   ({legend})", ylabel="reliability")
    axes.set_title(title, loc="left")
    return figure


def criterion_curve(points: Sequence[OperatingPoint]) -> Figure | None:
    """Sensitivity one step apart against false preference between equals, for every criterion of every judge."""
    if len({point.criterion for point in points}) < 2:
        return None
    prompts = sorted({point.prompt for point in points})
    figure, axes = canvas(8, 6.4, left=0.85)
    for index, judge in enumerate(dict.fromkeys(point.judge for point in points)):
        own = [point for point in points if point.judge == judge]
        steps = curve(own)
        colour = PALETTE[index % len(PALETTE)]
        axes.plot([x for x, _ in steps], [y for _, y in steps], color=colour, linewidth=1.2, alpha=0.6)
        for place, prompt in enumerate(prompts):
            same_prompt = [point for point in own if point.prompt == prompt]
            if same_prompt:
                _points(axes, same_prompt, colour=colour, marker=MARKERS[place % len(MARKERS)])
    axes.plot([0, 1], [0, 1], color="#999999", linestyle=":", linewidth=1)
    axes.set(xlim=(-0.03, 1.03), xlabel="false preference between equals (Δ0)")
    axes.set(ylim=(-0.03, 1.03), ylabel="chooses the better, one step apart")
    axes.set_title("Criterion curve (lines: rising fit per judge; bars: 95 % by task)", loc="left")
    axes.legend(loc="lower right", frameon=True, fontsize=9)
    return figure


def _draw(axes: Axes, dot: Dot) -> None:
    colour = PALETTE[0] if dot.on_front else "#888888"
    face, edge = colour if dot.on_front else "white", PALETTE[1] if dot.tied else colour
    marker: dict[str, Any] = {"markerfacecolor": face, "markeredgecolor": edge, "markeredgewidth": 2, "markersize": 8}
    bars = reach([(dot.value, dot.low, dot.high)])
    axes.errorbar([dot.usd], [dot.value], yerr=bars, color=colour, marker="o", capsize=3, **marker)


def _points(axes: Axes, points: Sequence[OperatingPoint], *, colour: str, marker: str) -> None:
    label = f"{short(points[0].judge)}, {short(points[0].prompt, most=20)}"
    for index, point in enumerate(points):
        of_false, of_hits = point.intervals
        x, y = point.false_preference, point.sensitivity
        across = None if of_false is None else reach([(x, *of_false)])
        along = None if of_hits is None else reach([(y, *of_hits)])
        style: dict[str, Any] = {"color": colour, "marker": marker, "markersize": 8, "linewidth": 0, "elinewidth": 0.8}
        axes.errorbar([x], [y], xerr=across, yerr=along, label=label if index == 0 else None, **style)
        beside: dict[str, Any] = {"xytext": (6, -11), "textcoords": "offset points"}
        axes.annotate(short(point.criterion, most=14), (x, y), fontsize=8.5, **beside)
