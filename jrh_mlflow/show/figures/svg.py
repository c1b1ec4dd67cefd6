"""Figures as SVG, drawn once: an element of a page, and the same drawing as a file that stands alone.

matplotlib draws; one pass over its XML takes out what a page must not have (document type, style sheet, metadata, ids
that clash) and puts in what it needs: text as text, colours of the page around it (light, dark, paper), what a point is
on hover. `templates/style.css` holds the variables and what happens on hover. A file has no page around it, so it gets
the colours of the light page, a background and a font.
"""

from __future__ import annotations

import hashlib
import io
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from xml.etree import ElementTree as ET
from xml.sax.saxutils import escape

from jrh_mlflow.show.figures.canvas import AS_DRAWN, FIGURES_FOLDER, HOVER, PALETTE, Figures, plain_texts
from jrh_mlflow.show.page import Drawing
from jrh_mlflow.text import xml_text

if TYPE_CHECKING:
    from markupsafe import Markup
    from matplotlib.artist import Artist
    from matplotlib.figure import Figure
    from matplotlib.text import Text

_SVG, _XLINK = "{http://www.w3.org/2000/svg}", "{http://www.w3.org/1999/xlink}"
_DECIMALS = re.compile(r"-?\d+\.\d+(?:e-?\d+)?")
_MEASURES = ("d", "x", "y", "width", "height", "transform")
_REFERENCE = re.compile(r"url\(#([^)]+)\)")
_FONT = re.compile(r"(?:(?P<weight>\d+) )?(?P<size>[\d.]+)px")
_GREYS = ((0x2B, "ink"), (0x7F, "soft"), (0xAB, "mid"), (0xDD, "fill"), (0xF9, "line"), (0xFF, "paper"))
"""The brightest grey that becomes each variable."""
_WIDE = 640.0
"""Points; wider figures are tables."""
_PAGE_FONT = "system-ui,-apple-system,'Segoe UI',Roboto,sans-serif"
_REACH = "9"
"""Points around the middle of a point that are the point, for a pointer."""


def inline_svg(figure: Figure, *, title: str) -> Markup:
    """Draw a figure as an element of a page.

    The same figure gives the same bytes. Every text is escaped; nothing in it runs or loads, and links (`set_url`) are
    kept when they are relative or http(s).

    Args:
        figure: With what its parts say when pointed at (`hover` and `hover_spots` of `canvas`).
        title: What those who do not see it are told. Figures of one page have different ones.
    """
    from markupsafe import Markup

    for axes in figure.axes:
        # Makes the labels of the ticks, without the cost of a whole drawing.
        axes.xaxis.get_ticklabels(), axes.yaxis.get_ticklabels()
    # Without a salt of ours the ids are random, and the same figure would give other bytes each time.
    with (
        plain_texts(figure, **{"svg.fonttype": "none", "svg.hashsalt": "jrh"}) as artists,
        _marked(artists) as marked,
    ):
        drawn = _drawn(figure)
        root = ET.fromstring(drawn)  # noqa: S314 - written by matplotlib just now, every text in it escaped
        _plain_names(root)
        groups = {group.get("id"): group for group in root.iter("g")}
        for key, (artist, mark) in marked.items():
            # What has no place in the axes is not drawn.
            if key in groups:
                _dress(groups[key], artist, mark or "")
    _restyle(root)
    # With the title, because two equal drawings on one page need different ids.
    _rename(root, prefix=f"f{hashlib.sha256(f'{title} {drawn}'.encode()).hexdigest()[:8]}")
    _flatten(root)
    return Markup(ET.tostring(_framed(root, title), encoding="unicode"))  # noqa: S704 - escaped by the serialiser


def draw(figures: Figures, captions: Mapping[str, str] = MappingProxyType({})) -> list[Drawing]:
    """Draw figures once each, for pages (`Drawing.svg`) and for the files of a run (`figure_files`).

    Args:
        figures: File name to figure.
        captions: File name to caption, in the order of the page. Empty: all figures, each called as its file is.
    """
    captions = captions or {name: _stem(name).replace("_", " ").capitalize() for name in figures}
    return [
        Drawing(caption, inline_svg(figures[name], title=caption), name=_stem(name))
        for name, caption in captions.items()
        if name in figures
    ]


def _stem(name: str) -> str:
    return name.rpartition(".")[0] or name


def figure_files(drawings: Figures | Iterable[Drawing]) -> dict[str, str]:
    """Return the files of a run that show figures: `figures/<name>.svg` to its content."""
    drawings = draw(drawings) if isinstance(drawings, Mapping) else drawings
    return {f"{FIGURES_FOLDER}/{drawing.name}.svg": standalone_svg(drawing) for drawing in drawings}


def standalone_svg(drawing: Drawing) -> str:
    """Return a drawing as a file: with namespace, size, title, background, font, and its colours written out.

    It is white on dark pages, too: MLflow shows it as an image, which does not know the colours around it.
    """
    colours = _light_colours()
    svg = re.sub(r"var\((--fig-[a-z0-9]+)\)", lambda variable: colours[variable[1]], drawing.svg)
    # On a page the style sheet does this; an image has none.
    svg = svg.replace('<circle class="spot"', '<circle class="spot" fill="none" pointer-events="all"')
    head, _, body = svg.partition(">")
    width, height = re.findall(r"[\d.]+", head.partition("viewBox=")[2])[2:4]
    # matplotlib counts in points, 72 to an inch; a browser counts in pixels, 96 to an inch.
    size = f'width="{4 / 3 * float(width):.0f}" height="{4 / 3 * float(height):.0f}"'
    head = re.sub(r' style="[^"]*"', "", head).replace('class="fig"', f'xmlns="http://www.w3.org/2000/svg" {size}')
    style = f"fill:{colours['--fig-ink']};stroke-linejoin:round;white-space:pre;font-family:{_PAGE_FONT}"
    paper = f'<rect width="100%" height="100%" style="fill:{colours["--fig-paper"]}"/>'
    return f'{head} style="{style}"><title>{escape(xml_text(drawing.caption))}</title>{paper}{body}'


@cache
def _light_colours() -> dict[str, str]:
    """Read the variables of the light page where they are written: in the style sheet of pages."""
    style = files("jrh_mlflow.show").joinpath("templates/style.css").read_text(encoding="utf-8")
    # The first rule of the sheet is the light page; the dark one sets the same names below it.
    return dict(re.findall(r"(--fig-[a-z0-9]+): (#[0-9a-f]+)", style.partition("}")[0]))


@contextmanager
def _marked(artists: Iterable[Artist]) -> Iterator[dict[str, tuple[Artist, str | None]]]:
    """Give each artist that must be found again an id of its own for the time of a drawing."""
    from matplotlib.text import Text

    found = [one for one in artists if one.get_gid() or (isinstance(one, Text) and "\n" in one.get_text())]
    marked = {f"jrh{index}": (artist, artist.get_gid()) for index, artist in enumerate(dict.fromkeys(found))}
    for key, (artist, _) in marked.items():
        artist.set_gid(key)
    try:
        yield marked
    finally:
        for artist, mark in marked.values():
            artist.set_gid(mark)


def _drawn(figure: Figure) -> str:
    sink = io.StringIO()
    figure.savefig(sink, format="svg", transparent=True, metadata={"Date": None})
    return xml_text(sink.getvalue())


def _plain_names(root: ET.Element) -> None:
    """Take namespaces, metadata and style sheets away: a page has none, and one style sheet of its own."""
    for parent in root.iter():
        parent.tag = parent.tag.removeprefix(_SVG)
        parent.text = parent.text if parent.tag in ("text", "tspan") else None
        parent.tail = None
        if f"{_XLINK}href" in parent.attrib:
            parent.set("href", parent.attrib.pop(f"{_XLINK}href"))
        # Children are visited after their parent, so they still have the namespace here.
        for child in [element for element in parent if element.tag in (f"{_SVG}metadata", f"{_SVG}style")]:
            parent.remove(child)
        if parent.tag == "a":
            _link(parent, parent.attrib.pop("href"))


def _link(element: ET.Element, address: str) -> None:
    """Let an element lead to an address, if that is one of a page."""
    element.tag = "g"
    element.attrib.pop("target", None)
    # An address such as `javascript:` would run something: the group stays, without its link.
    if address.isprintable() and " " not in address and urlsplit(address).scheme in ("", "http", "https"):
        element.tag = "a"
        element.set("href", address)


def _dress(group: ET.Element, artist: Artist, mark: str) -> None:
    """Give the group of an artist what its mark says: a text on hover, colours that stay; lines their alignment."""
    from matplotlib.lines import Line2D
    from matplotlib.text import Text

    if mark.startswith(AS_DRAWN):
        # The box behind a text is as the bar it lies on.
        for part in group.iter("text") if isinstance(artist, Text) else (group,):
            part.set("kept", "")
    words = mark.removeprefix(AS_DRAWN).removeprefix(HOVER)
    if isinstance(artist, Line2D) and artist.get_alpha() == 0:
        _spots(group)
    if words:
        link = next(group.iter("a"), None)
        link = group if link is None else link
        if link.tag == "a":
            # A link is named by what it holds, and here that is only a shape.
            link.set("aria-label", words)
        group.set("class", "hover")
        title = ET.Element("title")
        title.text = words
        group.insert(0, title)
    if group.find(".//text") is not None:
        _align(group, artist)


def _spots(group: ET.Element) -> None:
    """Make the markers of an invisible line round places to point at."""
    for definitions in group.findall("defs"):
        group.remove(definitions)
    for parent in list(group.iter()):
        # Clipped at the frame, a point on the edge would be only half there for a pointer.
        parent.attrib.pop("clip-path", None)
        for index, marker in enumerate(parent):
            if marker.tag == "use":
                spot = {"class": "spot", "cx": marker.get("x", ""), "cy": marker.get("y", ""), "r": _REACH}
                parent[index] = ET.Element("circle", spot)


def _align(group: ET.Element, text: Any) -> None:
    """Place lines of one text by their middle or end: the page's font is not as wide as the one they were set in."""
    lines = group.findall(".//text")
    side = _alignment(text)
    if len(lines) < 2 or side == "left":
        return
    for line in lines:
        width = _width(line.text or "", text)
        place = re.match(r"translate\(([\d.-]+) ([\d.-]+)\)", line.attrib.pop("transform", ""))
        if place:
            line.set("x", f"{float(place[1]) + (width / 2 if side == 'center' else width):.2f}")
            line.set("y", place[2])
            line.set("style", f"{line.get('style')}; text-anchor: {'middle' if side == 'center' else 'end'}")


def _alignment(text: Text) -> str:
    """Return how the lines of a text stand under one another: as said, else as the whole stands to its place."""
    # matplotlib has a public setter for it and no public getter.
    return str(getattr(text, "_multialignment", None) or text.get_horizontalalignment())


def _width(line: str, text: Text) -> float:
    from matplotlib.textpath import text_to_path

    return float(text_to_path.get_text_width_height_descent(line, text.get_fontproperties(), ismath=False)[0])


def _restyle(element: ET.Element, *, kept: bool = False) -> None:
    """Make colours variables of the page and fonts its own, and shorten numbers."""
    kept = kept or element.attrib.pop("kept", None) is not None
    style = dict(part.split(": ", 1) for part in element.attrib.pop("style", "").split("; ") if part)
    style |= {name: element.attrib.pop(name) for name in ("fill", "stroke") if name in element.attrib}
    if element.tag == "text":
        style = _font(style)
        if kept:
            # matplotlib writes no fill for black text, which would then take the page's colour.
            style.setdefault("fill", "#000000")
    if not kept:
        style |= {
            name: _variable(style[name], text=element.tag == "text") for name in ("fill", "stroke") if name in style
        }
    if style:
        element.set("style", ";".join(f"{name}:{value}" for name, value in style.items()))
    # matplotlib writes a turn by nothing around a place for each text that is level.
    if element.get("transform", "").startswith("rotate(-0 "):
        del element.attrib["transform"]
    for name in _MEASURES:
        if name in element.attrib:
            element.set(name, _shorter(element.attrib[name]))
    for child in element:
        _restyle(child, kept=kept)


def _font(style: dict[str, str]) -> dict[str, str]:
    """Keep size and weight of a text, in the page's font."""
    font = _FONT.search(style.pop("font", "") or style.pop("font-size", ""))
    style.pop("font-family", None)
    if font:
        style["font-size"] = f"{font['size']}px"
        style |= {"font-weight": font["weight"]} if font["weight"] else {}
    return style


def _variable(colour: str, *, text: bool) -> str:
    """Return the variable of a fixed colour of the figures; any other colour, such as a cell's, stays.

    Example:
        >>> _variable("#0072b2", text=False), _variable("#eeeeee", text=False), _variable("#384350", text=False)
        ('var(--fig-1)', 'var(--fig-line)', '#384350')
    """
    known = [ink.lower() for ink in PALETTE]
    if not re.fullmatch("#[0-9a-f]{6}", colour):
        return colour
    if colour[1:3] == colour[3:5] == colour[5:]:
        name = next(name for brightest, name in _GREYS if int(colour[1:3], 16) <= brightest)
        # Lines may be faint, letters may not.
        return f"var(--fig-{'soft' if text and name in ('mid', 'fill') else name})"
    if colour in known:
        return "var(--fig-ink)" if text else f"var(--fig-{known.index(colour) + 1})"
    return colour


def _shorter(measures: str) -> str:
    r"""Keep two decimals: a hundredth of a point is less than anybody sees.

    Example:
        >>> _shorter("M 57.6 241.200001 \nL 417.633333 -0.0001")
        'M57.6 241.2L417.63 0'
    """
    # Adding 0.0 turns -0.0 into 0.
    rounded = _DECIMALS.sub(lambda match: f"{round(float(match[0]), 2) + 0.0:g}", measures)
    return re.sub(r"\s*([A-Za-z])\s+(?=[\d.-])", r"\1", " ".join(rounded.split()))


def _rename(root: ET.Element, *, prefix: str) -> None:
    """Keep the ids that something refers to, under names of this figure."""
    # A label is anybody's text, and may look like a reference.
    words = [value for element in root.iter() for name, value in element.attrib.items() if name != "aria-label"]
    used = {match for value in words for match in _REFERENCE.findall(value)}
    used |= {value[1:] for value in words if value.startswith("#")}
    names = {name: f"{prefix}-{index}" for index, name in enumerate(sorted(used))}
    for element in root.iter():
        name = element.attrib.pop("id", "")
        if name in names:
            element.set("id", names[name])
        if element.tag == "use":
            element.set("href", f"#{names[element.attrib['href'][1:]]}")
        for key in ("style", "clip-path"):
            if key in element.attrib:
                value = _REFERENCE.sub(lambda match: f"url(#{names[match[1]]})", element.attrib[key])
                element.set(key, value)


def _flatten(element: ET.Element) -> None:
    """Take groups away that say nothing, and what nobody sees."""
    children: list[ET.Element] = []
    for child in list(element):
        _flatten(child)
        element.remove(child)
        unseen = child.tag == "path" and child.get("style") in ("fill:none", "fill:none;opacity:0", "opacity:0")
        if child.tag in ("g", "defs") and len(child) == 0:
            continue
        if child.tag == "g" and not child.attrib:
            children += child
        elif not unseen:
            children.append(child)
    element.extend(children)


def _framed(root: ET.Element, title: str) -> ET.Element:
    """Return the drawing as an element that fills its box, and is an image unless it holds links."""
    width = float(root.attrib["viewBox"].split()[2])
    # What is smaller than this cannot be read: it scrolls in its own box. Tables have the smallest letters.
    least = width * (1.0 if width > _WIDE else 0.8)
    frame = ET.Element(
        "svg",
        {
            "class": "fig",
            "viewBox": root.attrib["viewBox"],
            # What is inside an image is not read out, nor reached by the keyboard: links would be lost.
            "role": "img" if root.find(".//a") is None else "group",
            "aria-label": xml_text(title),
            "style": f"min-width:{least:.0f}px;max-width:{width * 4 / 3:.0f}px",
        },
    )
    frame.extend(root)
    return frame
