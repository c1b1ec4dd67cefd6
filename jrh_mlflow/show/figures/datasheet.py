"""Figures of datasheets: each takes the estimates of judges by name, so it draws one judge or a comparison.

The reliability diagram is of one judge: how often it is right where it says how sure it is, with the counts behind it.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from jrh_mlflow.measures import axes as declarations
from jrh_mlflow.measures.axes import VARIANCE, by_step
from jrh_mlflow.measures.confidence import ConfidenceTable, confidence_table, has_confidence
from jrh_mlflow.measures.records import normalise
from jrh_mlflow.schema.estimates import Estimate, Reading
from jrh_mlflow.show.figures.canvas import (
    CELL_BLACK,
    PALETTE,
    Spot,
    canvas,
    draw_bounds,
    error_bars,
    hover,
    hover_readings,
    hover_spots,
    label_inches,
    label_rows,
    marks,
    reach,
    short,
    write_corners,
)
from jrh_mlflow.show.names import axis_name
from jrh_mlflow.show.numbers import any_bounds, hover_text, interval_text, is_shown, threshold_text
from jrh_mlflow.stats.calibration import Bin, bin_codes, reliability_bins
from jrh_mlflow.stats.proportions import cluster_interval, collapse_replicates, wilson
from jrh_mlflow.text import two_places

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Sheets = Mapping[str, Mapping[str, Reading]]
"""Judge to its estimates."""
CallsOf = Callable[[str, str], str | None]
"""Judge and key of an axis to the address of the calls behind the reading, None where there is no such page."""

_STABLE = "stable_cross_sensitivity"
_MATCHED = "matched_sensitivity"
_CURVES = {"target_sensitivity": "threshold_75", _MATCHED: "matched_threshold_75"}
"""Families drawn as psychometric curves, each with its threshold."""


class _Ladders(NamedTuple):
    """A figure of both ladders: filled and solid, and the matched one hollow and broken."""

    families: tuple[str, str]
    title: str
    across: str
    up: str
    level: Mapping[float, str] = {}
    """Height to the name of a line across."""


_LADDERS = {
    "psychometric_curve": _Ladders(
        ("target_sensitivity", _MATCHED),
        "Psychometric curve (ties count as not correct; bars: 95 % by task)",
        "quality difference δ (requirements met)",
        "share of calls choosing the better",
        {0.75: "75 %", 0.5: "coin"},
    ),
    "answer_by_level": _Ladders(
        ("pointwise/mean_answer", "pointwise/matched_mean_answer"),
        "Answer by level (bars: 95 % by task)",
        "requirements met",
        "mean answer (0 lowest, 1 highest)",
    ),
    "separation": _Ladders(
        ("pointwise/separation", "pointwise/matched_separation"),
        "Separation, ties half (AUC; bars: 95 % by task)",
        "distance of the levels δ (requirements met)",
        "chance that the higher is answered better",
        {0.5: "coin"},
    ),
}
_HOLLOW = "hollow, matched: same words in both, facts assigned wrongly in the worse one"
_DECOMPOSITION = {
    _STABLE: ("stable: same content twice", "#0072B2", ""),
    "positional_false_preference": ("positional: same slot twice", "#D55E00", "//"),
    "one_sided_commit": ("one-sided: one order only", "#E69F00", "\\\\"),
    "no_preference": ("no preference", "#D9D9D9", ""),
}
_VARIATION = {
    f"{VARIANCE}task": ("task", "#0072B2", ""),
    f"{VARIANCE}wording": ("wording: another content or prompt of the task", "#E69F00", "\\\\"),
    f"{VARIANCE}order": ("order: which stands first", "#D55E00", "//"),
    f"{VARIANCE}repeat": ("repeat: the same asked again", "#56B4E9", "||"),
    f"{VARIANCE}asking_again": ("not known: ask twice", "#D9D9D9", ""),
}

_SHARE_INKS = {
    "#0072B2": "white",
    "#D55E00": "white",
    # Black on orange and on light blue is read on any page; the other bars change with it.
    "#E69F00": CELL_BLACK,
    "#56B4E9": CELL_BLACK,
    "#D9D9D9": "black",
}
"""Colour of a part to that of the share written on it."""


def no_calls(_judge: str, _key: str) -> None:
    """Lead nowhere: a file has no pages beside it."""


def datasheet_figures(sheets: Sheets) -> dict[str, Figure]:
    """Draw every figure for which there is something to draw, by file name."""
    figures = {
        "psychometric_curve.png": psychometric(sheets),
        "delta_0_decomposition.png": decomposition(sheets),
        "answer_by_level.png": answer_by_level(sheets),
        "separation.png": separation(sheets),
        "axes_map.png": axes_map(sheets),
        "variation.png": variation(sheets),
    }
    return {name: figure for name, figure in figures.items() if figure is not None}


def _step_name(family: str) -> str:
    step = next(declared.step for declared in declarations.AXES if declared.name == family)
    return "δ" if step == "delta" else str(step)


def psychometric(sheets: Sheets) -> Figure | None:
    """Share of calls choosing the better content against the step of either ladder, with intervals by task.

    A judge's matched ladder has its colour and shape, hollow and with a broken line.
    """
    curves = {
        (name, axis): own
        for name, estimates in sheets.items()
        for axis in _CURVES
        if any(map(is_shown, (own := by_step(estimates, axis)).values()))
    }
    if not curves:
        return None
    judges = list(dict.fromkeys(name for name, _ in curves))
    # Two curves of a judge leave no corner free: then the names stand below.
    n_lines = sum(2 if any_bounds(own.values()) else 1 for own in curves.values())
    below = 0.4 + 0.22 * n_lines if any(axis == _MATCHED for _, axis in curves) else 0.0
    figure, axes = canvas(8, 4.8 + below, left=0.85, right=0.65, bottom=0.65 + below)
    for place, ((name, axis), own) in enumerate(curves.items()):
        # Side by side around the step, so that the bars of two curves do not cover one another.
        shift = 0.06 * (place - (len(curves) - 1) / 2)
        threshold = threshold_text(sheets[name][_CURVES[axis]])
        hollow = axis == _MATCHED
        label = f"{short(name)}{', matched' if hollow else ''}   Δ75 {threshold}"
        _draw_curve(axes, own, index=judges.index(name), shift=shift, label=label, hollow=hollow)
        _hover_steps(axes, own, axis, judge=name, shift=shift, alone=len(judges) == 1)
    # Named in the margin: inside the axes a bar can stand anywhere.
    margin = axes.get_yaxis_transform()
    axes.axhline(0.75, color="#555555", linewidth=1, linestyle="--")
    axes.axhline(0.5, color="#999999", linewidth=1, linestyle=":")
    ladders = _LADDERS["psychometric_curve"]
    for share, label in ladders.level.items():
        axes.text(1.01, share, label, transform=margin, ha="left", va="center", color="#666666")
    axes.set_xticks(sorted({step for own in curves.values() for step, reading in own.items() if is_shown(reading)}))
    axes.set(xlabel=ladders.across, ylabel=ladders.up)
    axes.set(ylim=(-0.02, 1.03), yticks=(0, 0.25, 0.5, 0.75, 1))
    axes.set_title(ladders.title, loc="left", y=1)
    if below:
        figure.legend(loc="lower center", title=_HOLLOW, frameon=False, fontsize=10, title_fontsize=10)
    else:
        axes.legend(loc="lower right", frameon=True)
    return figure


def _draw_curve(
    axes: Axes, own: Mapping[float, Reading], *, index: int, shift: float, label: str, hollow: bool
) -> None:
    """Draw the steps of one judge on one ladder: points with intervals, and the bounds of what is withheld."""
    points = {step: reading for step, reading in own.items() if isinstance(reading, Estimate)}
    if points:
        values, bars = [reading.value for reading in points.values()], error_bars(points.values())
        # Dotted where a step is missing: nothing was measured between the points.
        line = ":" if max(np.diff(list(points)), default=0) > 1 else "--" if hollow else "-"
        style = marks(index) | ({"markerfacecolor": "white", "markeredgewidth": 1.8} if hollow else {})
        places = [step + shift for step in points]
        drawn = axes.errorbar(places, values, bars, linewidth=2, linestyle=line, label=label, capsize=4, **style)
        hover(drawn[0], " ".join(label.split()))
    # Three spaces part the name from its threshold, which the legend says once.
    name, _, threshold = label.partition("   ")
    label = f"{name}: bounds (withheld)" + (f"\n{threshold}" if threshold and not points else "")
    shifted = {step + shift: reading for step, reading in own.items()}
    draw_bounds(axes, shifted, upright=True, colour=marks(index)["color"], label=label)


def _hover_steps(
    axes: Axes, own: Mapping[float, Reading], family: str, *, judge: str, shift: float, alone: bool
) -> None:
    """Let each step say its reading."""
    step_name = _step_name(family)
    before = "" if alone else f"{short(judge)}, "
    named = {step + shift: (f"{before}{step_name} {step:g}", reading) for step, reading in own.items()}
    hover_readings(axes, named, upright=True)


def answer_by_level(sheets: Sheets) -> Figure | None:
    """What a judge of one response answers at each level of the two ladders."""
    return _both_ladders(sheets, _LADDERS["answer_by_level"])


def separation(sheets: Sheets) -> Figure | None:
    """How well a judge of one response tells two levels apart, on both ladders."""
    return _both_ladders(sheets, _LADDERS["separation"])


def _both_ladders(sheets: Sheets, ladders: _Ladders) -> Figure | None:
    """Draw two families over the same steps: the ladder filled and solid, the matched ladder hollow and dashed."""
    families = ladders.families
    curves = [
        (index, name, family, own)
        for index, (name, estimates) in enumerate(sheets.items())
        for family in families
        if any(map(is_shown, (own := by_step(estimates, family)).values()))
    ]
    if not curves:
        return None
    labels = [_ladder_label(name, family == families[1], alone=len(sheets) == 1) for _, name, family, _ in curves]
    right = 1.1 + 0.088 * max(map(len, labels))
    figure, axes = canvas(7.35 + right, 4.8, left=0.85, right=right)
    for place, (label, (index, name, family, own)) in enumerate(zip(labels, curves, strict=True)):
        shift = 0.07 * (place - (len(curves) - 1) / 2)
        _draw_curve(axes, own, index=index, shift=shift, label=label, hollow=family == families[1])
        _hover_steps(axes, own, family, judge=name, shift=shift, alone=len(sheets) == 1)
    axes.set_xticks(sorted({step for *_, own in curves for step, reading in own.items() if is_shown(reading)}))
    for share, label in ladders.level.items():
        axes.axhline(share, color="#999999", linewidth=1, linestyle=":")
        axes.text(1.01, share, label, transform=axes.get_yaxis_transform(), ha="left", va="center", color="#777777")
    axes.set(xlabel=ladders.across, ylabel=ladders.up)
    axes.set_ylim(-0.02, 1.03)
    axes.set_title(ladders.title, loc="left", y=1)
    axes.legend(loc="upper left", bbox_to_anchor=(1.07, 1.0), frameon=False)
    return figure


def _ladder_label(name: str, matched: bool, *, alone: bool) -> str:
    ladder = "matched ladder" if matched else "ladder"
    return ladder if alone else f"{short(name)}: {ladder}"


def decomposition(sheets: Sheets) -> Figure | None:
    """How the two orders of equal-quality pairs combine, as one stacked bar per judge."""
    bars = _decomposition_bars(sheets)
    return _stacked(bars) if bars else None


@dataclass(frozen=True, kw_only=True)
class _Bars:
    """One bar of parts for each judge."""

    rows: Mapping[str, Sequence[tuple[float, str]]]
    """Judge to its parts: width, and what it says when pointed at."""
    styles: Mapping[str, tuple[str, str, str]]
    """Part to label, colour and hatching."""
    names: Sequence[str]
    """What stands beside each bar, in lines."""
    xlabel: str
    title: str


def _decomposition_bars(sheets: Sheets) -> _Bars | None:
    rows = {
        name: [estimates.get(axis) for axis in _DECOMPOSITION]
        for name, estimates in sheets.items()
        if isinstance(estimates.get("no_preference"), Estimate)
    }
    if not rows:
        return None
    pairs = [next(reading.n for reading in readings if isinstance(reading, Estimate)) for readings in rows.values()]
    return _Bars(
        rows={short(judge): [_share_of(reading) for reading in readings] for judge, readings in rows.items()},
        styles=_DECOMPOSITION,
        names=[f"{short(name)}\nn = {n}" for name, n in zip(rows, pairs, strict=True)],
        xlabel="share of equal-quality pairs",
        title="What a judge does when both answers are equally good",
    )


def variation(sheets: Sheets) -> Figure | None:
    """What the scores of each judge vary with, as one stacked bar; none where no judge was asked twice."""
    bars = _variation_bars(sheets)
    return _stacked(bars) if bars else None


def _variation_bars(sheets: Sheets) -> _Bars | None:
    tasks = {name: estimates.get(f"{VARIANCE}task") for name, estimates in sheets.items()}
    known = {name: reading for name, reading in tasks.items() if isinstance(reading, Estimate)}
    if not any(isinstance(sheets[name].get(f"{VARIANCE}repeat"), Estimate) for name in known):
        return None
    rows = {name: [_share_of(sheets[name].get(key)) for key in _VARIATION] for name in known}
    for parts in rows.values():
        rest = 1 - sum(width for width, _ in parts[:-1])
        parts[-1] = (rest if rest > 1e-9 else 0.0, f"{max(rest, 0.0):.0%}")
    used = [place for place in range(len(_VARIATION)) if any(parts[place][0] > 1e-9 for parts in rows.values())]
    styles = list(_VARIATION.items())
    return _Bars(
        rows={short(name): [parts[place] for place in used] for name, parts in rows.items()},
        styles=dict(styles[place] for place in used),
        names=[f"{short(name)}\nn = {reading.n:,}" for name, reading in known.items()],
        xlabel="share of the variation of scores (n: calls with a score)",
        title="What the scores vary with",
    )


def _share_of(reading: Reading | None) -> tuple[float, str]:
    """Return the width of a part and what it says when pointed at."""
    return (reading.value if isinstance(reading, Estimate) else 0.0), "" if reading is None else hover_text(reading)


def _stacked(bars: _Bars) -> Figure:
    """Draw a bar of parts for each judge."""
    rows, styles, names = bars.rows, bars.styles, bars.names
    left = label_inches(line for name in names for line in name.splitlines())
    figure, axes = canvas(8, 2.0 + 0.62 * len(rows), left=left, bottom=1.2)
    for index, (label, colour, hatch) in enumerate(styles.values()):
        for position, (judge, parts) in enumerate(rows.items()):
            left, (width, words) = sum(part for part, _ in parts[:index]), parts[index]
            name = label if position == 0 else None
            style: dict[str, Any] = {"height": 0.62, "color": colour, "hatch": hatch, "edgecolor": "white"}
            (bar,) = axes.barh(position, width, left=left, label=name, **style)
            hover(bar, f"{judge}, {label}: {words}")
            # A narrower part has no room for its percentage.
            if width >= 0.05:
                # Without a box the hatching of the bar would cross the digits.
                box = {"facecolor": colour, "edgecolor": "none", "pad": 1.5}
                style = {"ha": "center", "va": "center", "color": _SHARE_INKS[colour], "bbox": box}
                axes.text(left + width / 2, position, f"{width:.0%}", **style)
    axes.set_yticks(range(len(rows)), names)
    axes.invert_yaxis()
    # The parts say their shares.
    axes.set(xlim=(0, 1), xticks=(0, 0.5, 1), xlabel=bars.xlabel)
    axes.set_title(bars.title, loc="left", y=1)
    figure.legend(loc="lower center", ncol=2, frameon=False)
    axes.grid(visible=False)
    return figure


def _main_axes(sheets: Sheets) -> list[str]:
    """Return the main axes that one of the judges has a number or bounds of."""
    main = [axis.main_key for axis in declarations.AXES if axis.figure]
    return [key for key in main if any(is_shown(own[key]) for own in sheets.values() if key in own)]


def axes_map(sheets: Sheets) -> Figure | None:
    """The main axes of each judge as points with intervals on one scale from 0 to 1."""
    shown = {key: _wrapped(axis_name(key)) for key in _main_axes(sheets)}
    if not shown:
        return None
    with_legend = len(sheets) > 1
    right = label_inches(sheets) + 0.5 if with_legend else 0.2
    withheld = any_bounds(own.get(key) for own in sheets.values() for key in shown)
    bottom = 0.85 if withheld else 0.65
    figure, axes = canvas(6.6 + right, 0.75 + bottom + 0.6 * len(shown), left=2.45, right=right, bottom=bottom)
    gap = min(0.17, 0.7 / len(sheets))
    for index, (name, estimates) in enumerate(sheets.items()):
        offset = (index - (len(sheets) - 1) / 2) * gap
        readings = {row + offset: estimates.get(axis) for row, axis in enumerate(shown)}
        points = {row: reading for row, reading in readings.items() if isinstance(reading, Estimate)}
        values, bars = [reading.value for reading in points.values()], error_bars(points.values())
        axes.errorbar(values, list(points), xerr=bars, linestyle="none", label=short(name), capsize=4, **marks(index))
        draw_bounds(axes, readings, upright=False, colour=marks(index)["color"])
        before = f"{short(name)}, " if with_legend else ""
        named = zip(shown.values(), readings.items(), strict=True)
        hover_readings(axes, {row: (f"{before}{label}", reading) for label, (row, reading) in named}, upright=False)
    label_rows(axes, list(shown.values()))
    broken = "\n(broken, without a point: bounds of a withheld share)" if withheld else ""
    axes.set(xlim=(-0.02, 1.02), xlabel=f"share (bars: 95 % by task){broken}")
    axes.set_title(
        "Metrology axes" if with_legend else f"Metrology axes of {short(next(iter(sheets)))}", loc="left", y=1
    )
    if with_legend:
        figure.legend(loc="upper right", frameon=False)
    return figure


def planes(sheets: Sheets) -> dict[str, Figure | None]:
    """Draw judges by what they prefer without a reason: Figures 1 and 5 of the Datasheet paper, by file name."""
    across = {"dark_current": "dark_current", "positional": "positional_false_preference"}
    return {f"{name}_by_stable.png": _plane(sheets, axis, _STABLE) for name, axis in across.items()}


def _plane(sheets: Sheets, across: str, along: str) -> Figure | None:
    """Two axes of several judges against each other, with intervals by task; None of fewer than two judges."""
    points = _on_both(sheets, across, along)
    if len(points) < 2:
        return None
    right = label_inches(points) + 0.4
    figure, axes = canvas(5.9 + right, 5.4, left=0.85, right=right)
    _draw_points(axes, points, (axis_name(across), axis_name(along)), {name: short(name) for name in points})
    axes.set(xlabel=axis_name(across), ylabel=axis_name(along))
    title = f"{axis_name(across).capitalize()} and {axis_name(along)} (bars: 95 % by task)"
    axes.set_title(title, loc="left")
    # Below the title, which is wider than the axes.
    figure.legend(loc="upper right", bbox_to_anchor=(1, 0.92), frameon=False)
    return figure


def _on_both(sheets: Sheets, across: str, along: str) -> dict[str, tuple[Estimate, Estimate]]:
    """Return the readings on two axes of those that have both."""
    return {
        name: (x, y)
        for name, own in sheets.items()
        if isinstance(x := own.get(across), Estimate) and isinstance(y := own.get(along), Estimate)
    }


def _draw_points(
    axes: Axes, points: Mapping[str, tuple[Estimate, Estimate]], names: tuple[str, str], labels: Mapping[str, str]
) -> None:
    """Draw readings on two axes from 0 to 1, with intervals both ways; `names` are those of the axes on hover."""
    for index, (name, (x, y)) in enumerate(points.items()):
        style = {"xerr": error_bars([x]), "yerr": error_bars([y]), "capsize": 4, **marks(index, size=8)}
        axes.errorbar([x.value], [y.value], label=labels[name], linestyle="none", **style)
        words = f"{name}: {names[0]} {hover_text(x)}; {names[1]} {hover_text(y)}"
        hover_spots(axes, [Spot(x=x.value, y=y.value, words=words)])
    axes.set(xlim=(-0.03, 1.03), ylim=(-0.03, 1.03))


def _wrapped(name: str) -> str:
    """Break a name into the lines of a row's label, never inside `δ = 1`."""
    # textwrap breaks at ASCII blanks only, so a no-break space holds the parts together.
    return textwrap.fill(name.replace(" = ", "\u00a0=\u00a0"), 24).replace("\u00a0", " ")


def operating_points(arms: Sheets, *, judge: str) -> Figure | None:
    """The tie criterion's arms of one judge: false preference at equal quality against sensitivity one step apart."""
    points = _on_both(arms, "raw_false_preference", "target_sensitivity/delta_1")
    if not points:
        return None
    figure, axes = canvas(6.6, 5.4, left=0.85, top=0.7)
    places = list(points.values())
    axes.plot([f.value for f, _ in places], [r.value for _, r in places], color="#777777", linewidth=1.5, zorder=1)
    labels = {name: f"{name}  ({false.value:.2f}, {right.value:.2f})" for name, (false, right) in points.items()}
    _draw_points(axes, points, ("false preference", "chooses the better"), labels)
    axes.set_xlabel("false preference at equal quality (δ = 0); left is better")
    axes.set_ylabel("chooses the better, one step apart (δ = 1); up is better")
    axes.set_title(f"Operating points of {judge}\n(tie criteria; bars: 95 % by task)", loc="left")
    axes.legend(loc="lower right", frameon=True, title="tie criterion")
    return figure


_NAMES = {"brier": "Brier {:.2f}", "ece": "ECE {:.2f}", "accuracy_gap": "confidence − accuracy {:+.2f}"}


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
    centres, shares = [drawn.confidence for drawn in bins], [drawn.accuracy for drawn in bins]
    bars = _bars(judged, bins)
    axes.errorbar(centres, shares, yerr=bars, linewidth=1.2, capsize=3, **marks(0))
    hover_spots(axes, [_spot(drawn, below, above) for drawn, below, above in zip(bins, *bars, strict=True)])
    axes.tick_params(labelbottom=False)
    axes.set(xlim=(-0.03, 1.03), ylim=(-0.03, 1.03), ylabel="share of right answers")
    axes.set_title(f"Calibration of {short(judge)}\n{_summary(estimates)}", loc="left", fontsize=11.5)
    _counts(figure, axes, judged, bins)
    return figure


def _spot(drawn: Bin, below: float, above: float) -> Spot:
    interval = interval_text(drawn.accuracy - below, drawn.accuracy + above)
    words = f"says {drawn.confidence:.2f}, is right: {two_places(drawn.accuracy)} {interval}, n {drawn.n:,}"
    return Spot(x=drawn.confidence, y=drawn.accuracy, words=words)


def _bars(judged: ConfidenceTable, bins: Sequence[Bin]) -> list[list[float]]:
    """Return how far each bin's interval reaches below and above: by task, or on the counts where there is one task."""
    codes = bin_codes(judged.confidence)
    ends = []
    # The bins come in the order of their codes, and none of them is empty.
    for code, drawn in zip(np.unique(codes), bins, strict=True):
        own = codes == code
        right = judged.right[own]
        by_task = collapse_replicates(right.astype(float), judged.presentation[own], judged.task[own])
        ends.append((drawn.accuracy, *(cluster_interval(*by_task) or wilson(int(right.sum()), drawn.n))))
    return reach(ends)


def _summary(estimates: Mapping[str, Reading]) -> str:
    readings = {shown: estimates.get(f"confidence/{name}") for name, shown in _NAMES.items()}
    return ",  ".join(
        shown.format(reading.value) for shown, reading in readings.items() if isinstance(reading, Estimate)
    )


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
        # There is one edge more than there are bars.
        for edge, count, bar in zip(edges, counts, bars, strict=False):
            hover(bar, f"{label}, confidence {edge:.2f} to {edge + 0.05:.2f}: {count:,} calls" if count else "")
    below.spines[["top", "right"]].set_visible(False)
    below.set(xlabel="confidence", ylabel="calls")
    below.legend(loc="upper left", frameon=False, fontsize=9.5)
    sizes = sorted({each.n for each in bins})
    each = f"{sizes[0]}" if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]}"
    calls = f"{len(judged.outcome)} calls with a known right answer"
    write_corners(figure, foot=f"{calls}; {each} in each of {len(bins)} bins; bars: 95 % by task")
