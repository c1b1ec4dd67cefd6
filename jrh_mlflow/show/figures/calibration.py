"""The reliability diagram: how often a judge is right where it says how sure it is, with the counts behind it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from jrh_mlflow.measures.confidence import ConfidenceTable, confidence_table, has_confidence
from jrh_mlflow.measures.records import normalise
from jrh_mlflow.schema.estimates import Estimate, Reading
from jrh_mlflow.show.figures.canvas import PALETTE, Spot, canvas, hover, hover_spots, marks, reach, short, write_corners
from jrh_mlflow.show.numbers import short_interval
from jrh_mlflow.stats.calibration import Bin, bin_codes, reliability_bins
from jrh_mlflow.stats.proportions import cluster_interval, collapse_replicates, wilson

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_NAMES = {"brier": "Brier {:.3f}", "ece": "ECE {:.3f}", "accuracy_gap": "confidence − accuracy {:+.3f}"}


def calibration_figures(estimates: Mapping[str, Reading], calls: pd.DataFrame, judge: str) -> dict[str, Figure]:
    """Draw the diagram where there is a number for the calibration, by file name."""
    if not has_confidence(calls) or not isinstance(estimates.get("confidence/brier"), Estimate):
        return {}
    return {"calibration.png": calibration_diagram(estimates, calls, judge=judge)}


def calibration_diagram(estimates: Mapping[str, Reading], calls: pd.DataFrame, *, judge: str) -> Figure:
    """Accuracy against mean confidence in equally filled bins with intervals by task, and the counts below."""
    table = confidence_table(normalise(calls))
    judged = table.where(np.asarray(table.usable & (table.target != "")))
    bins = reliability_bins(judged.confidence, judged.right)
    figure, axes = canvas(6.6, 7.6, left=0.85, bottom=2.1, top=0.95)
    axes.plot([0, 1], [0, 1], color="#999999", linestyle=":", linewidth=1.2)
    axes.text(0.04, 0.075, "as sure as right", color="#777777", fontsize=9.5, rotation=45, rotation_mode="anchor")
    centres, shares = [each.confidence for each in bins], [each.accuracy for each in bins]
    bars = _bars(judged, bins)
    axes.errorbar(centres, shares, yerr=bars, linewidth=1.2, capsize=3, **marks(0))
    hover_spots(axes, [_spot(each, below, above) for each, below, above in zip(bins, *bars, strict=True)])
    axes.tick_params(labelbottom=False)
    axes.set(xlim=(-0.03, 1.03), ylim=(-0.03, 1.03), ylabel="share of right answers")
    axes.set_title(f"Calibration of {short(judge)}\n{_summary(estimates)}", loc="left", fontsize=11.5)
    _counts(figure, axes, judged, bins)
    return figure


def _spot(drawn: Bin, below: float, above: float) -> Spot:
    interval = short_interval(drawn.accuracy - below, drawn.accuracy + above)
    words = f"says {drawn.confidence:.2f}, is right: {drawn.accuracy:.2f} {interval}, n {drawn.n:,}"
    return Spot(x=drawn.confidence, y=drawn.accuracy, words=words)


def _bars(judged: ConfidenceTable, bins: Sequence[Bin]) -> list[list[float]]:
    """Return how far each bin's interval reaches below and above: by task, or on the counts where there is one task."""
    codes = bin_codes(judged.confidence)
    ends = []
    for code, drawn in zip(np.unique(codes), bins, strict=True):
        own = codes == code
        right = judged.right[own]
        by_task = collapse_replicates(right.astype(float), judged.presentation[own], judged.task[own])
        ends.append((drawn.accuracy, *(cluster_interval(*by_task) or wilson(int(right.sum()), drawn.n))))
    return reach(ends)


def _summary(estimates: Mapping[str, Reading]) -> str:
    found = {shown: estimates.get(f"confidence/{name}") for name, shown in _NAMES.items()}
    return ",  ".join(shown.format(reading.value) for shown, reading in found.items() if isinstance(reading, Estimate))


def _counts(figure: Figure, axes: Axes, judged: ConfidenceTable, bins: Sequence[Bin]) -> None:
    """Draw how many calls said how sure they are, under the diagram and on the same scale of confidence."""
    place = axes.get_position()
    height = figure.get_figheight()
    below = figure.add_axes((place.x0, 0.95 / height, place.width, 1.0 / height), sharex=axes)
    edges = np.linspace(0, 1, 21)
    wrong, right = (np.histogram(judged.confidence[mask], edges)[0] for mask in (~judged.right, judged.right))
    style: dict[str, Any] = {"width": 0.046, "edgecolor": "white", "linewidth": 0.5}
    of_right = below.bar(edges[:-1] + 0.025, right, color=PALETTE[0], label="right", **style)
    of_wrong = below.bar(edges[:-1] + 0.025, wrong, bottom=right, color=PALETTE[1], hatch="///", label="wrong", **style)
    for label, counts, bars in (("right", right, of_right), ("wrong", wrong, of_wrong)):
        for edge, count, bar in zip(edges, counts, bars, strict=False):
            hover(bar, f"{label}, confidence {edge:.2f} to {edge + 0.05:.2f}: {count:,} calls" if count else "")
    below.spines[["top", "right"]].set_visible(False)
    below.set(xlabel="confidence", ylabel="calls")
    below.legend(loc="upper left", frameon=False, fontsize=9.5)
    sizes = sorted({each.n for each in bins})
    each = f"{sizes[0]}" if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]}"
    calls = f"{len(judged.outcome)} calls with a known right answer"
    write_corners(figure, foot=f"{calls}; {each} in each of {len(bins)} bins; bars: 95 % by task")
