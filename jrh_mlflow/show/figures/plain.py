"""Figures that every run has, written as SVG: loading and running matplotlib would take most of a run's own time.

Intervals in rows, bars of parts, curves with intervals. They look as those of matplotlib do and say the same when
pointed at; colours are the variables of the page around them (`svg.standalone_svg` fills them in for files).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from markupsafe import Markup, escape

from jrh_mlflow.schema.estimates import Estimate, Reading
from jrh_mlflow.show.figures.canvas import PALETTE
from jrh_mlflow.show.numbers import any_bounds, hover_text, source_ends
from jrh_mlflow.show.page import Drawing
from jrh_mlflow.text import xml_text

_LETTER = 6.6
"""Points that a letter of the usual size takes, in whatever font the page has."""
_FIRST, _ROW, _SCALE = 40.0, 30.0, 380.0
"""Points above what is drawn, of a row, and of a scale from 0 to 1."""
_SHARES = (0, 0.25, 0.5, 0.75, 1)
_BROKEN = "broken, without a point: bounds of what is withheld"
_TURNS = {"//": 45, "\\\\": -45, "||": 0}
"""Hatching as matplotlib writes it to the degrees by which its lines are turned."""


class _Plot:
    """Shapes and texts in the order in which they are drawn."""

    def __init__(self) -> None:
        self.parts: list[Markup | str] = []

    def text(
        self, x: float, y: float, words: str, *, anchor: str = "start", size: float = 11.5, fill: str = "ink"
    ) -> None:
        style = f"text-anchor:{anchor};font-size:{size}px;fill:{_colour(fill)}"
        self.parts.append(f'<text x="{x:.5g}" y="{y:.5g}" style="{style}">{escape(words)}</text>')

    def line(self, path: str, colour: str = "ink", *, width: float = 0.8, dashes: str = "") -> None:
        self.parts.append(_line(path, colour, width=width, dashes=dashes))

    def hover(self, words: str, *shapes: str) -> None:
        """Add shapes that say something when they are pointed at."""
        self.parts.append(f'<g class="hover"><title>{escape(words)}</title>{"".join(shapes)}</g>')

    def drawing(self, name: str, width: float, height: float) -> Drawing:
        """Return what was drawn, called as its file is."""
        caption = name.replace("_", " ").capitalize()
        head = f'<svg class="fig" viewBox="0 0 {math.ceil(width)} {math.ceil(height)}" role="img"'
        style = f'aria-label="{caption}" style="min-width:{0.8 * width:.0f}px;max-width:768px"'
        drawn = xml_text("".join([f"{head} {style}>", *self.parts, "</svg>"]))
        return Drawing(caption, Markup(drawn), name=name)  # noqa: S704 - every text in it is escaped


def _colour(name: str) -> str:
    return name if name.startswith(("#", "url(", "none")) else f"var(--fig-{name})"


def _line(path: str, colour: str, *, width: float, dashes: str = "") -> str:
    style = f"fill:none;stroke:{_colour(colour)};stroke-width:{width}{f';stroke-dasharray:{dashes}' if dashes else ''}"
    return f'<path d="{path}" style="{style}"/>'


def _box(x: float, y: float, width: float, height: float, fill: str, *, edge: str = "paper") -> str:
    place = f'x="{x:.5g}" y="{y:.5g}" width="{width:.5g}" height="{height:.5g}"'
    return f'<rect {place} style="fill:{_colour(fill)};stroke:{_colour(edge)}"/>'


def _dot(x: float, y: float, colour: str, *, hollow: bool = False) -> str:
    face = "paper" if hollow else colour
    return (
        f'<circle cx="{x:.5g}" cy="{y:.5g}" r="4.5" '
        f'style="fill:{_colour(face)};stroke:{_colour(colour)};stroke-width:1.8"/>'
    )


def _spot(x: float, y: float) -> str:
    """Return a place to point at, larger than a point."""
    return f'<circle class="spot" cx="{x:.5g}" cy="{y:.5g}" r="9"/>'


def _reach(reading: Reading) -> tuple[float | None, float, float]:
    """Return value and interval of a reading; of a withheld one no value, and its bounds."""
    if isinstance(reading, Estimate):
        low, high = (reading.value if end is None else end for end in source_ends(reading))
        return reading.value, low, high
    assert reading.bounds is not None
    return None, reading.bounds.low, reading.bounds.high


def interval_rows(name: str, rows: Mapping[str, Reading], *, title: str, across: str) -> Drawing:
    """Draw a reading per row as a point with its interval, on one scale from 0 to 1; withheld ones as their bounds."""
    plot, left, foot = _Plot(), 24 + _LETTER * max(map(len, rows)), _FIRST + _ROW * len(rows)
    plot.text(left, 24, title, size=12.5)
    for share in _SHARES:
        at = left + _SCALE * share
        plot.line(f"M{at:.5g} {_FIRST}V{foot}", "line")
        plot.text(at, foot + 17, f"{share:g}", anchor="middle")
    for row, (label, reading) in enumerate(rows.items()):
        y, (value, *ends) = _FIRST + _ROW * (row + 0.5), _reach(reading)
        low, high = (left + _SCALE * end for end in ends)
        plot.text(left - 9, y + 4, label, anchor="end")
        line = _line(f"M{low:.5g} {y}H{high:.5g}", "1", width=2, dashes="" if value is not None else "4 3")
        middle = (low + high) / 2 if value is None else left + _SCALE * value
        point = "" if value is None else _dot(middle, y, "1")
        plot.hover(f"{label}: {hover_text(reading)}", line, point, _spot(middle, y))
    plot.text(left, foot + 36, across)
    if any_bounds(rows.values()):
        plot.text(left, foot + 53, _BROKEN)
    return plot.drawing(name, left + _SCALE + 24, foot + 63)


@dataclass(frozen=True, kw_only=True)
class Bars:
    """One bar of parts for each judge."""

    rows: Mapping[str, Sequence[tuple[float, str]]]
    """Judge to its parts: width, and what it says when pointed at."""
    styles: Mapping[str, tuple[str, str, str]]
    """Part to label, colour and hatching."""
    names: Sequence[str]
    """What stands beside each bar, in lines."""
    xlabel: str
    title: str


def stacked_bars(name: str, bars: Bars) -> Drawing:
    """Draw a bar of parts for each judge: each with its share where it has room, and a legend below."""
    plot, left = _Plot(), 24 + _LETTER * max(len(line) for label in bars.names for line in label.splitlines())
    step, width = 74.0, 480.0
    foot, fills = _FIRST + step * len(bars.rows), []
    plot.text(left, 24, bars.title, size=12.5)
    for index, (_, colour, hatch) in enumerate(bars.styles.values()):
        plain = str(PALETTE.index(colour) + 1) if colour in PALETTE else "fill"
        fills.append((plain, f"url(#{name}-{index})" if hatch else plain))
        if hatch:
            tile = f'<rect width="8" height="8" style="fill:{_colour(plain)}"/>{_line("M4 0V8", "paper", width=1)}'
            turned = f'patternUnits="userSpaceOnUse" width="8" height="8" patternTransform="rotate({_TURNS[hatch]})"'
            plot.parts.append(f'<defs><pattern id="{name}-{index}" {turned}>{tile}</pattern></defs>')
    for row, ((judge, parts), beside) in enumerate(zip(bars.rows.items(), bars.names, strict=True)):
        top, at, lines = _FIRST + step * row, left, beside.splitlines()
        for place, line in enumerate(lines):
            plot.text(left - 9, top + 41 + 14 * (place - (len(lines) - 1) / 2), line, anchor="end")
        for (share, words), (label, *_), (plain, fill) in zip(parts, bars.styles.values(), fills, strict=True):
            plot.hover(f"{judge}, {label}: {words}", _box(at, top + 6, width * share, 62, fill))
            # A narrower part has no room for its percentage.
            if share >= 0.05:
                # Without a box the hatching would cross the digits; black on orange and light blue is read on any page.
                plot.parts.append(_box(at + width * share / 2 - 15, top + 29, 30, 16, plain, edge="none"))
                ink = "paper" if plain in ("1", "2") else "ink" if plain == "fill" else "#000000"
                plot.text(at + width * share / 2, top + 41, f"{share:.0%}", anchor="middle", size=10, fill=ink)
            at += width * share
    plot.line(f"M{left:.5g} {_FIRST}V{foot}H{left + width:.5g}")
    for share in (0, 0.5, 1):
        plot.line(f"M{left + width * share:.5g} {foot}v4")
        plot.text(left + width * share, foot + 17, f"{share:g}", anchor="middle")
    plot.text(left + width / 2, foot + 36, bars.xlabel, anchor="middle")
    for index, ((label, *_), (_, fill)) in enumerate(zip(bars.styles.values(), fills, strict=True)):
        y = foot + 58 + 16 * index
        plot.parts.append(_box(left, y - 9, 22, 10, fill))
        plot.text(left + 30, y, label, size=10)
    return plot.drawing(name, left + width + 24, foot + 60 + 16 * len(bars.styles))


@dataclass(frozen=True, kw_only=True)
class Curve:
    """The readings of a judge by step."""

    label: str
    readings: Mapping[float, Reading]
    step_name: str
    hollow: bool
    """Of the matched ladder: hollow points, a broken line."""


def ladder_curves(
    name: str, drawn: Sequence[Curve], *, title: str, labels: tuple[str, str], level: Mapping[float, str], note: str
) -> Drawing:
    """Draw shares by step with intervals, curves side by side; withheld steps as their bounds.

    Args:
        name: Of its file.
        drawn: One or two curves.
        title: Above it.
        labels: Below it, and beside it.
        level: Height to the name of a line across.
        note: Above the legend; empty: none.
    """
    plot, left, width, height = _Plot(), 62.0, 450.0, 250.0
    foot = _FIRST + height
    steps = sorted({step for curve in drawn for step in curve.readings})

    def across(step: float, place: float = 0.0) -> float:
        return left + width * (step - steps[0] + 0.5 + place) / (steps[-1] - steps[0] + 1)

    def up(share: float) -> float:
        return foot - 4 - (height - 12) * share

    plot.text(left, 24, title, size=12.5)
    for share in _SHARES:
        plot.line(f"M{left} {up(share):.5g}H{left + width}", "line")
        plot.line(f"M{left - 4} {up(share):.5g}h4")
        plot.text(left - 7, up(share) + 4, f"{share:.2f}", anchor="end")
    for share, label in level.items():
        plot.line(f"M{left} {up(share):.5g}H{left + width}", "soft", dashes="4 3" if share > 0.5 else "1.5 2")
        plot.text(left + width + 6, up(share) + 4, label, fill="soft")
    for step in steps:
        plot.line(f"M{across(step):.5g} {foot}v4")
        plot.text(across(step), foot + 17, f"{step:g}", anchor="middle")
    plot.line(f"M{left} {_FIRST}V{foot}H{left + width}")
    plot.text(left + width / 2, foot + 36, labels[0], anchor="middle")
    middle = _FIRST + height / 2
    plot.parts.append(f'<g transform="rotate(-90 16 {middle:g})">')
    plot.text(16, middle, labels[1], anchor="middle")
    plot.parts.append("</g>")
    for index, curve in enumerate(drawn):
        # Side by side around the step, so that the bars of two curves do not cover one another.
        place = 0.1 * (index - (len(drawn) - 1) / 2)
        points = {step: _reach(reading) for step, reading in curve.readings.items()}
        known = {step: value for step, (value, *_) in points.items() if value is not None}
        # Dotted where a step is missing: nothing was measured between the points.
        gaps = max((b - a for a, b in pairwise(known)), default=1) > 1
        path = "L".join(f"{across(step, place):.5g} {up(value):.5g}" for step, value in known.items())
        if known:
            plot.line(f"M{path}", "1", width=2, dashes="1.5 3" if gaps else "6 4" if curve.hollow else "")
        for step, (value, low, high) in points.items():
            x, style = across(step, place), "" if value is not None else "4 3"
            caps = f"M{x - 4:.5g} {up(low):.5g}h8M{x - 4:.5g} {up(high):.5g}h8"
            bar = _line(f"M{x:.5g} {up(low):.5g}V{up(high):.5g}{caps}", "1", width=1.6, dashes=style)
            y = up((low + high) / 2 if value is None else value)
            point = "" if value is None else _dot(x, y, "1", hollow=curve.hollow)
            words = f"{curve.step_name} {step:g}: {hover_text(curve.readings[step])}"
            plot.hover(words, bar, point, _spot(x, y))
    y = foot + 58
    if note:
        plot.text(left, y, note, size=10)
        y += 17
    for curve in drawn:
        plot.line(f"M{left} {y - 4:.5g}h30", "1", width=2, dashes="6 4" if curve.hollow else "")
        plot.parts.append(_dot(left + 15, y - 4, "1", hollow=curve.hollow))
        plot.text(left + 40, y, curve.label, size=10)
        y += 17
    if any(any_bounds(curve.readings.values()) for curve in drawn):
        plot.text(left + 40, y, _BROKEN, size=10)
        y += 17
    return plot.drawing(name, left + width + 60, y - 4)
