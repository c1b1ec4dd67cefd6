"""What all figures share: canvas, palette, labels, files. Colour-blind safe (Okabe and Ito), readable in MLflow."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, TypeAlias

from jrh_mlflow.reports.numbers import source_ends
from jrh_mlflow.schema.estimates import Estimate

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Figures: TypeAlias = "Mapping[str, Figure]"
"""File name to figure."""

FIGURES_FOLDER = "figures"
"""Of a run's artifacts."""
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#F0E442")
MARKERS = "osD^vPX*"


def figure_files(figures: Figures) -> dict[str, bytes]:
    """Draw figures as the PNG files of a run: `figures/<name>` to bytes."""
    return {f"{FIGURES_FOLDER}/{name}": png(figure) for name, figure in figures.items()}


def png(figure: Figure) -> bytes:
    """Draw a figure as a PNG file."""
    drawn = io.BytesIO()
    figure.savefig(drawn, dpi=100, facecolor="white", pil_kwargs={"compress_level": 3})
    return drawn.getvalue()


def canvas(
    width: float, height: float, *, left: float, right: float = 0.2, bottom: float = 0.65, top: float = 0.45
) -> tuple[Figure, Axes]:
    """Make a figure without pyplot: no global state, no display. Everything is in inches.

    Margins are given, not searched for: a layout engine draws every figure twice.
    """
    import matplotlib as mpl
    from matplotlib.figure import Figure as NewFigure

    with mpl.rc_context({"font.size": 11.5, "axes.titlesize": 12.5}):
        figure = NewFigure(figsize=(width, height))
        axes = figure.add_axes(
            (left / width, bottom / height, (width - left - right) / width, 1 - (bottom + top) / height)
        )
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color="#EEEEEE")
    axes.set_axisbelow(True)
    return figure, axes


def label_inches(names: Iterable[str]) -> float:
    """Return the room that the longest of the names takes at the figures' text size."""
    return 0.35 + 0.088 * max(len(short(name)) for name in names)


def short(name: str, *, most: int = 30) -> str:
    """Keep a long judge name from squeezing its figure."""
    return name if len(name) <= most else f"{name[: most - 1]}…"


def error_bars(points: list[Estimate]) -> list[list[float]]:
    """Return the lengths of the intervals below and above each point, by task where there is such an interval."""
    below, above = [], []
    for point in points:
        low, high = source_ends(point)
        below.append(0.0 if low is None else max(0.0, point.value - low))
        above.append(0.0 if high is None else max(0.0, high - point.value))
    return [below, above]


def ends_kept(name: str, *, most: int = 42) -> str:
    """Shorten a long name in its middle: judges often differ in the last characters only."""
    return name if len(name) <= most else f"{name[: most - 17]}…{name[-16:]}"


def wrapped(name: str) -> str:
    """Break a judge's name into the lines of a column head, after slashes first."""
    parts = name.replace("/", "/\n").split("\n")
    return "\n".join(textwrap.fill(part, 16) for part in parts)
