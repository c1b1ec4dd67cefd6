"""What all figures share: canvas, palette, labels, files. Colour-blind safe (Okabe and Ito), readable in MLflow."""

from __future__ import annotations

import io
import re
import textwrap
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias, cast
from urllib.parse import urlsplit

from jrh_mlflow.errors import CallsError, check_known
from jrh_mlflow.schema.estimates import Estimate, NotEstimable, Reading
from jrh_mlflow.show.numbers import hover_text, is_shown, source_ends
from jrh_mlflow.text import clean_text, shortened_name

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Figure  # noqa: PLC0414 - for those who only hand figures on

Figures: TypeAlias = "Mapping[str, Figure]"
"""File name to figure."""

FIGURES_FOLDER = "figures"
"""Of a run's artifacts."""
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#F0E442")
# As many as colours, so that a shape always goes with the same colour.
MARKERS = "osD^vPX*"
_HEAD = 16
"""Characters in a line of a column head."""
_CELL_WIDTH, _CELL_HEIGHT = 1.3, 0.62
"""Inches of a cell of a table."""
_LINE = 0.27
"""Inches of a line of the list under a figure."""
# An artist has one free text, its gid: `svg` reads there what is said on hover.
HOVER, SPOT = "hover:", "spot:"
"""How the gid of an artist begins that says something when pointed at, and of an invisible marker that does."""
CELL_BLACK, CELL_WHITE = "#000001", "#fffffe"
"""Inks on colours that a dark page leaves as they are: one step off, so that `svg` leaves them too."""


def plotted(figures: Figures, kind: str | None = None) -> Figure:
    """Return the figure of a name, or the first one, in a form that a notebook shows: pyplot never hears of it.

    Raises:
        RecipeError: when there is no figure of that name.
        CallsError: when there is nothing to draw.
    """
    known = {name.removesuffix(".png"): figure for name, figure in figures.items()}
    if not known:
        raise CallsError("There is nothing to draw: no reading of these calls has a number or bounds.")
    check_known("figure", kind or next(iter(known)), known)
    figure = known[kind or next(iter(known))]
    with plain_texts(figure):
        # Makes the labels of the ticks, which would otherwise be made by whoever draws it.
        figure.draw_without_rendering()
    # Notebooks ask an object for this method; matplotlib's own hook is there only once somebody has loaded pyplot.
    vars(figure)["_repr_png_"] = partial(png, figure)
    return figure


def png(figure: Figure) -> bytes:
    """Draw a figure as a PNG file."""
    import matplotlib as mpl

    drawn = io.BytesIO()
    # Hinting the glyphs takes a seventh of the time, and nobody sees it.
    with mpl.rc_context({"text.hinting": "none"}), plain_texts(figure):
        figure.savefig(drawn, dpi=100, facecolor="white", pil_kwargs={"compress_level": 3})
    return drawn.getvalue()


@contextmanager
def plain_texts(figure: Figure, **settings: Any) -> Iterator[None]:
    """Draw names as they are: `$x$` is no formula, and a letter that the font lacks is a box and no warning.

    More settings of matplotlib's hold as long.
    """
    import matplotlib as mpl
    from matplotlib.text import Text

    # Texts have taken the setting over when they were made; the context is for those made while drawing.
    for text in figure.findobj(Text):
        text.set_parse_math(False)
    drawn_with = {"text.parse_math": False, **settings}
    with mpl.rc_context(cast("Any", drawn_with)), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        yield


def hover(artist: Artist, words: str, *, address: str | None = None) -> None:
    """Let a part of a figure say something when it is pointed at, and lead somewhere; pictures show none of it.

    Args:
        artist: A bar, a cell, a line.
        words: What it says; nothing when empty.
        address: Where a click leads; nowhere unless it is relative or http(s).
    """
    if words:
        artist.set_gid(HOVER + " ".join(words.split()))
    # An address such as `javascript:` would run something.
    if address and _is_page_address(address):
        artist.set_url(address)


def _is_page_address(address: str) -> bool:
    plain = address.isprintable() and " " not in address
    return plain and urlsplit(address).scheme in ("", "http", "https")


@dataclass(frozen=True, kw_only=True, slots=True)
class Spot:
    """A place of a figure that says something when it is pointed at."""

    x: float
    y: float
    words: str


def hover_spots(axes: Axes, spots: Iterable[Spot]) -> None:
    """Let places of a figure say something when they are pointed at."""
    for spot in spots:
        # On top of all, larger than a point, and invisible.
        style: dict[str, Any] = {"marker": "o", "markersize": 16, "linestyle": "none", "alpha": 0, "zorder": 9}
        (marker,) = axes.plot([spot.x], [spot.y], **style)
        marker.set_gid(SPOT + " ".join(spot.words.split()))


def hover_readings(axes: Axes, readings: Mapping[float, tuple[str, Reading | None]], *, upright: bool) -> None:
    """Let the points of a series, and the bounds of what is withheld, say their name, value, interval and n.

    Args:
        axes: Where they are drawn.
        readings: Place to name and reading.
        upright: Whether a value is a height.
    """
    for place, (name, reading) in readings.items():
        if reading is not None and is_shown(reading):
            value = reading.value if isinstance(reading, Estimate) else _middle(reading)
            x, y = (place, value) if upright else (value, place)
            hover_spots(axes, [Spot(x=x, y=y, words=f"{name}: {hover_text(reading)}")])


def _middle(reading: NotEstimable) -> float:
    assert reading.bounds is not None
    return (reading.bounds.low + reading.bounds.high) / 2


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
    # By default matplotlib draws the grid over bars and cells.
    axes.set_axisbelow(True)
    return figure, axes


def label_inches(names: Iterable[str]) -> float:
    """Return the room that the longest of the names takes at the figures' text size."""
    # The mean width of a letter: to measure the text itself would need a renderer.
    return 0.35 + 0.088 * max(len(short(name)) for name in names)


def short(name: str, *, most: int = 34) -> str:
    """Keep a long judge name from squeezing its figure, and half of a character from ending it."""
    return shortened_name(clean_text(name), most=most)


def reach(points: Iterable[tuple[float, float | None, float | None]]) -> list[list[float]]:
    """Return how far the interval of each (value, low, high) reaches below and above the value; 0 where it is open."""
    known = list(points)
    # `errorbar` refuses negative lengths, which rounding can give.
    below = [0.0 if low is None else max(0.0, value - low) for value, low, _ in known]
    return [below, [0.0 if high is None else max(0.0, high - value) for value, _, high in known]]


def error_bars(points: Iterable[Estimate]) -> list[list[float]]:
    """Return the lengths of the intervals below and above each point, by task where there is such an interval."""
    return reach((point.value, *source_ends(point)) for point in points)


def draw_bounds(
    axes: Axes, readings: Mapping[float, Reading | None], *, upright: bool, colour: str, label: str | None = None
) -> None:
    """Draw the bounds of withheld readings as broken brackets, without a point because there is none."""
    withheld = {
        at: reading.bounds
        for at, reading in readings.items()
        if isinstance(reading, NotEstimable) and reading.bounds is not None
    }
    middles = [(bounds.low + bounds.high) / 2 for bounds in withheld.values()]
    halves = [(bounds.high - bounds.low) / 2 for bounds in withheld.values()]
    style: dict[str, Any] = {"fmt": "none", "ecolor": colour, "elinewidth": 1.4, "capsize": 6, "label": label}
    if not withheld:
        return
    if upright:
        drawn = axes.errorbar(list(withheld), middles, yerr=halves, **style)
    else:
        drawn = axes.errorbar(middles, list(withheld), xerr=halves, **style)
    # The line style of `errorbar` is that of the line through the points; the bars are the third part of its result.
    for bars in drawn[2]:
        bars.set_linestyle((0, (2, 2)))


def marks(index: int, *, size: int = 7) -> dict[str, Any]:
    """Return colour and shape of the points of one judge."""
    return {"color": PALETTE[index % len(PALETTE)], "marker": MARKERS[index % len(MARKERS)], "markersize": size}


def label_rows(axes: Axes, labels: Sequence[str], *, dark: int | None = None, fontsize: float = 11.5) -> None:
    """Give each label a row of its own, from above; `dark` is the row with a darker line above it."""
    axes.grid(visible=False, axis="y")
    axes.grid(axis="x", color="#EEEEEE")
    for row in range(1, len(labels)):
        axes.axhline(row - 0.5, color="#999999" if row == dark else "#E5E5E5", linewidth=1)
    axes.set_yticks(range(len(labels)), labels, fontsize=fontsize)
    axes.set_ylim(len(labels) - 0.5, -0.5)


def write_corners(figure: Figure, *, title: str | None = None, foot: str) -> None:
    """Write a title into the upper left corner of the page and a footnote into the lower one."""
    width, height = figure.get_size_inches()
    if title is not None:
        figure.text(0.12 / width, 1 - 0.12 / height, title, va="top", fontsize=12.5)
    figure.text(0.12 / width, 0.14 / height, foot, fontsize=9, color="#444444")


def cell_table(
    rows: Sequence[str], columns: Sequence[str], *, title: str, foot: str, least: float = 7.6
) -> tuple[Figure, Axes]:
    """Make a table for `write_cell`, with the names of rows and columns; a narrow one gets a margin, not wide cells."""
    heads, labels = [wrapped(short(name, most=42)) for name in columns], [short(name, most=30) for name in rows]
    top, left = 0.75 + 0.19 * max(head.count("\n") + 1 for head in heads), label_inches(labels)
    filled, bottom = left + _CELL_WIDTH * len(heads), 0.5
    width, height = max(filled + 0.25, least), top + _CELL_HEIGHT * len(labels) + bottom
    figure, axes = canvas(width, height, left=left, right=width - filled, top=top, bottom=bottom)
    label_cells(axes, heads, labels, range(len(labels)), fontsize=10)
    write_corners(figure, title=title, foot=foot)
    return figure, axes


def label_cells(
    axes: Axes, heads: Sequence[str], labels: Sequence[str], tops: Sequence[float], *, fontsize: float
) -> None:
    """Turn axes into a table: heads above the columns, a label beside each row, which begins at its top."""
    axes.set(xlim=(0, len(heads)), ylim=(tops[-1] + 1, 0))
    axes.set_xticks([column + 0.5 for column in range(len(heads))], heads, fontsize=fontsize)
    axes.xaxis.tick_top()
    axes.set_yticks([top + 0.5 for top in tops], labels, fontsize=fontsize)
    axes.tick_params(length=0)
    axes.grid(visible=False)
    axes.spines[:].set_visible(False)


def write_cell(
    axes: Axes,
    column: int,
    top: float,
    *,
    scale: str,
    place: float,
    value: str,
    below: str,
    words: str,
    at: float = 0.36,
    address: str | None = None,
) -> None:
    """Fill a cell of a table with a colour, a value and a line below it.

    Args:
        axes: A table (`label_cells`).
        column: From 0.
        top: Where its row begins.
        scale: Colours of matplotlib by name, the same on any page.
        place: Of the cell on the scale, from 0 to 1; what lies beyond has the colour of the end.
        value: Its number.
        below: The line below the number.
        words: What it says when pointed at.
        at: How far below the top the number stands.
        address: Where a click leads.
    """
    from matplotlib import colormaps
    from matplotlib.patches import Rectangle

    colour = colormaps[scale](min(1.0, max(0.0, place)))
    cell = axes.add_patch(Rectangle((column + 0.015, top + 0.03), 0.97, 0.94, facecolor=colour, linewidth=0))
    hover(cell, words, address=address)
    style: dict[str, Any] = {"ha": "center", "va": "center", "color": _ink(colour)}
    axes.text(column + 0.5, top + at, value, fontsize=11.5, fontweight="bold", **style)
    axes.text(column + 0.5, top + 0.74, below, fontsize=8.5, **style)


def _ink(colour: tuple[float, ...]) -> str:
    """Black or white, whichever stands out more on a colour (relative luminance of WCAG 2)."""
    red, green, blue = (c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in colour[:3])
    return CELL_BLACK if 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.179 else CELL_WHITE


def spread_prices(axes: Axes, *, wide: bool | None = None) -> None:
    """Write dollars under what is drawn; prices more than 5 times apart, or `wide` ones, share a logarithmic axis."""
    from matplotlib.ticker import LogLocator, NullFormatter

    cheapest, dearest = axes.dataLim.x0, axes.dataLim.x1
    # What was free has no place on a logarithmic axis.
    if wide or (wide is None and cheapest > 0 and dearest > 5 * cheapest):
        span = dearest / axes.dataLim.minposx
        axes.set_xscale("log")
        steps = (1.0, 2.0, 5.0) if span < 20 else (1.0, 3.0) if span < 500 else (1.0,)
        axes.xaxis.set_major_locator(LogLocator(subs=steps))
        # The ticks between would be labelled with formulas, which are drawn as they are written.
        axes.xaxis.set_minor_formatter(NullFormatter())
    axes.xaxis.set_major_formatter(lambda usd, _: f"${Decimal(f'{usd:.6g}'):,f}")


def list_lines(entries: Iterable[str]) -> tuple[list[str], float]:
    """Break the entries of a list under a figure into lines, nothing cut; return them and the inches they take."""
    texts = ["\n".join(textwrap.wrap(clean_text(entry), 104, subsequent_indent="    ")) for entry in entries]
    return texts, sum(_LINE * (text.count("\n") + 1) for text in texts)


def write_list(figure: Figure, texts: Sequence[str], colours: Sequence[str]) -> None:
    """Write a list (`list_lines`) into the foot of a figure, from above."""
    height = 0.1
    for text, colour in zip(reversed(texts), reversed(colours), strict=True):
        figure.text(0.02, height / figure.get_figheight(), text, fontsize=10, color=colour, va="bottom")
        height += _LINE * (text.count("\n") + 1)


def wrapped(name: str) -> str:
    """Break a judge's name into the lines of a column head: at spaces, and after slashes where a word is too long.

    Example:
        >>> wrapped("coder strict 1/2 (recorded)").splitlines()
        ['coder strict 1/2', '(recorded)']
        >>> wrapped("provider/model-of-2026").splitlines()
        ['provider/', 'model-of-2026']
    """
    # textwrap would cut a long word anywhere, so its slashes become line breaks first.
    parts = re.sub(rf"\S{{{_HEAD + 1},}}", lambda word: word[0].replace("/", "/\n"), name).split("\n")
    return "\n".join(textwrap.fill(part, _HEAD) for part in parts)
