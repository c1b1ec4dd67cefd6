"""Figures as SVG: matplotlib draws each once, for the page that shows it and for the file that stands alone.

One pass over matplotlib's XML makes it an element of a page: no document type, style sheet or clashing ids; colours are
the variables of the page around it (light, dark, paper; `templates/style.css`), fonts are the page's, and each marked
part has a title that is shown on hover. A file has no page around it: it gets the light colours, a background, a font.
"""

from __future__ import annotations

import hashlib
import io
import re
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET
from xml.sax.saxutils import escape

from jrh_mlflow.show.figures.canvas import FIGURES_FOLDER, HOVER, PALETTE, SPOT, Figures, plain_texts
from jrh_mlflow.show.page import Drawing
from jrh_mlflow.text import xml_text

if TYPE_CHECKING:
    from markupsafe import Markup
    from matplotlib.figure import Figure

_SVG = "{http://www.w3.org/2000/svg}"
_LINK = "{http://www.w3.org/1999/xlink}href"
_GREYS = {
    "ink": ["#000000"],
    "soft": ["#444444", "#555555", "#666666", "#777777"],
    "mid": ["#888888", "#999999", "#aaaaaa"],
    "fill": ["#bbbbbb", "#cccccc", "#d9d9d9"],
    "line": ["#e5e5e5", "#eeeeee", "#f4f4f4"],
    "paper": ["#ffffff"],
}
"""The greys that figures use, by the variable of the page that takes their place."""
_VARIABLES = {colour.lower(): f"var(--fig-{number})" for number, colour in enumerate(PALETTE, 1)}
_VARIABLES |= {grey: f"var(--fig-{name})" for name, greys in _GREYS.items() for grey in greys}
_DECIMALS = re.compile(r"-?\d+\.\d+")
_MEASURES = ("d", "x", "y", "width", "height", "transform")
_REFERENCE = re.compile(r"(^#|url\(#)")
_TRANSLATED = re.compile(r"translate\((\S+) (\S+)\)")
_WIDE = 640.0
"""Points; wider figures are tables."""
_PAGE_FONT = "system-ui,-apple-system,'Segoe UI',Roboto,sans-serif"
_SPOT_RADIUS = "9"
"""Points around the middle of a point that count as the point for a pointer."""


def inline_svg(figure: Figure, *, title: str) -> Markup:
    """Draw a figure as an element of a page.

    The same figure gives the same bytes. Every text is escaped, and nothing in it runs or loads.

    Args:
        figure: With what its parts say when pointed at (`hover` and `hover_spots` of `canvas`).
        title: What those who do not see it are told. Figures of one page have different ones.
    """
    from markupsafe import Markup

    file = io.StringIO()
    # Without a salt of ours the ids are random, and the same figure would give other bytes each time.
    with plain_texts(figure, **{"svg.fonttype": "none", "svg.hashsalt": "jrh"}):
        figure.savefig(file, format="svg", transparent=True, metadata={"Date": None})
        drawn = xml_text(file.getvalue())
        root = ET.fromstring(drawn)  # noqa: S314 - written by matplotlib just now, every text in it escaped
        _strip(root)
        for group in root.iter("g"):
            _describe(group)
            _align(group.findall("text"))
    # With the title, because two equal drawings on one page need different ids.
    prefix = hashlib.sha256(f"{title} {drawn}".encode()).hexdigest()[:8]
    for element in root.iter():
        _restyle(element, prefix=f"f{prefix}-")
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
    if isinstance(drawings, Mapping):
        drawings = draw(drawings)
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
    head = re.sub(r' style="[^"]*"', "", head)
    head = head.replace('class="fig"', f'xmlns="http://www.w3.org/2000/svg" {size}')
    ink = colours["--fig-ink"]
    style = f"fill:{ink};stroke-linejoin:round;white-space:pre;font-family:{_PAGE_FONT}"
    title = escape(xml_text(drawing.caption))
    paper = f'<rect width="100%" height="100%" style="fill:{colours["--fig-paper"]}"/>'
    return f'{head} style="{style}"><title>{title}</title>{paper}{body}'


@cache
def _light_colours() -> dict[str, str]:
    """Read the variables of the light page where they are written: in the style sheet of pages."""
    style = files("jrh_mlflow.show").joinpath("templates/style.css").read_text(encoding="utf-8")
    # The first rule of the sheet is the light page; the dark one sets the same names below it.
    return dict(re.findall(r"(--fig-[a-z0-9]+): (#[0-9a-f]+)", style.partition("}")[0]))


def _strip(root: ET.Element) -> None:
    """Take away namespaces, metadata, the style sheet and white space between elements."""
    for parent in list(root.iter()):
        parent.tag = parent.tag.removeprefix(_SVG)
        parent.tail = None
        if parent.tag != "text":
            parent.text = None
        if _LINK in parent.attrib:
            parent.set("href", parent.attrib.pop(_LINK))
        # Children come after their parent, so they still have the namespace here.
        for child in [*parent.findall(f"{_SVG}metadata"), *parent.findall(f"{_SVG}style")]:
            parent.remove(child)


def _describe(group: ET.Element) -> None:
    """Give a marked part its text on hover, and make an invisible marker a round place to point at.

    matplotlib writes the mark of an artist (`canvas.hover`, `canvas.hover_spots`) as the id of its group.
    """
    mark = group.attrib.pop("id", "")
    if not mark.startswith((HOVER, SPOT)):
        return
    words = mark.removeprefix(HOVER).removeprefix(SPOT)
    if mark.startswith(SPOT):
        marker = group.find(".//use")
        for child in list(group):
            group.remove(child)
        if marker is None:
            # Outside the axes: nothing was drawn.
            return
        place = {"cx": marker.get("x", ""), "cy": marker.get("y", ""), "r": _SPOT_RADIUS}
        ET.SubElement(group, "circle", {"class": "spot", **place})
    group.set("class", "hover")
    link = group.find(".//a")
    if link is not None:
        # A link is named by what it holds, and here that is only a shape.
        link.set("aria-label", words)
        link.attrib.pop("target", None)
    title = ET.Element("title")
    title.text = words
    group.insert(0, title)


def _align(lines: list[ET.Element]) -> None:
    """Anchor the lines of one text at their common end or middle.

    matplotlib places each line by its left end, as wide as it is in matplotlib's font; the page's font is narrower.
    """
    places = [_TRANSLATED.fullmatch(line.get("transform", "")) for line in lines]
    starts = [float(place[1]) for place in places if place]
    if len(starts) < 2 or len(starts) < len(lines) or _equal(starts):
        return
    widths = [_width(line) for line in lines]
    ends = [start + width for start, width in zip(starts, widths, strict=True)]
    anchor = "end" if _equal(ends) else "middle"
    for line, place, start, end in zip(lines, places, starts, ends, strict=True):
        assert place
        del line.attrib["transform"]
        line.set("x", f"{end if anchor == 'end' else (start + end) / 2:.2f}")
        line.set("y", place[2])
        line.set("style", f"{line.get('style')}; text-anchor: {anchor}")


def _equal(places: list[float]) -> bool:
    return max(places) - min(places) < 0.5


def _width(line: ET.Element) -> float:
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import text_to_path

    style = _style(line)
    weight = int(style.get("font-weight", "400"))
    font = FontProperties(size=float(style["font-size"].removesuffix("px")), weight=weight)
    width, _, _ = text_to_path.get_text_width_height_descent(line.text or "", font, ismath=False)
    return float(width)


def _style(element: ET.Element) -> dict[str, str]:
    return dict(part.split(": ", 1) for part in element.get("style", "").split("; ") if part)


def _restyle(element: ET.Element, *, prefix: str) -> None:
    """Make colours variables of the page, fonts its own and ids those of this figure; shorten numbers."""
    style = _style(element)
    style.pop("font-family", None)
    for name in ("fill", "stroke"):
        colour = style.get(name) or element.attrib.pop(name, None)
        if colour:
            style[name] = _VARIABLES.get(colour, colour)
            if element.tag == "text" and colour.upper() in PALETTE:
                # Lines may be light on the page, letters may not.
                style[name] = "var(--fig-ink)"
    if style:
        element.set("style", ";".join(f"{name}:{value}" for name, value in style.items()))
    for name in ("href", "clip-path", "style"):
        if element.tag != "a" and name in element.attrib:
            element.set(name, _REFERENCE.sub(rf"\g<1>{prefix}", element.attrib[name]))
    if "id" in element.attrib:
        element.set("id", f"{prefix}{element.attrib['id']}")
    for name in _MEASURES:
        if name in element.attrib:
            element.set(name, _DECIMALS.sub(_two_decimals, element.attrib[name]))


def _two_decimals(number: re.Match[str]) -> str:
    # A hundredth of a point is less than anybody sees. Adding 0.0 turns -0.0 into 0.
    return f"{round(float(number[0]), 2) + 0.0:g}"


def _framed(root: ET.Element, title: str) -> ET.Element:
    """Return the drawing as an element that fills its box, and is an image unless it holds links."""
    width = float(root.attrib["viewBox"].split()[2])
    # What is smaller than this cannot be read: it scrolls in its own box. Tables have the smallest letters.
    least = width if width > _WIDE else 0.8 * width
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
