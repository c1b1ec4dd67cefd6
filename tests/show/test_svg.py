"""Figures inside pages: the page's colours, texts as texts, what a point says, and nothing that runs or loads."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from importlib.resources import files
from xml.etree import ElementTree

import pytest
from markupsafe import Markup
from matplotlib.figure import Figure

import jrh_mlflow as jrh
from jrh_mlflow.measures.axes import by_step
from jrh_mlflow.schema.estimates import Estimate, Reading
from jrh_mlflow.show.figures import svg
from jrh_mlflow.show.figures.canvas import CELL_BLACK, canvas, hover
from jrh_mlflow.show.figures.datasheet import datasheet_figures, psychometric
from jrh_mlflow.show.figures.reliability import heatmap
from jrh_mlflow.show.figures.svg import draw, figure_files, inline_svg
from jrh_mlflow.show.html import Addresses
from jrh_mlflow.show.numbers import hover_text
from tests.comparing.test_comparison_page import HOSTILE, comparison, read
from tests.readings import asked

STYLE = files("jrh_mlflow.show").joinpath("templates/style.css").read_text(encoding="utf-8")
TAGS = {"svg", "g", "a", "path", "use", "defs", "text", "title", "circle", "clippath", "rect", "pattern"}

Sheet = Mapping[str, Reading]
Drawings = dict[str, Markup]


@pytest.fixture(scope="module")
def sheet() -> Sheet:
    return jrh.measure(asked(jrh.scripted.Noisy(seed=2), jrh.datasheet_suite(n_tasks=6)), n_resamples=20).estimates


@pytest.fixture(scope="module")
def one_judge(sheet: Sheet) -> Drawings:
    return drawings({"judge": sheet})


def drawings(sheets: Mapping[str, Sheet]) -> Drawings:
    figures = datasheet_figures(sheets)
    return {drawing.caption: drawing.svg for drawing in draw(figures, {name: name for name in figures})}


def titles(drawing: str) -> list[str]:
    return [str(Markup(text).unescape()) for text in re.findall(r"<title>(.*?)</title>", drawing)]


def test_every_point_of_the_curve_says_its_step_value_interval_and_n(sheet: Sheet, one_judge: Drawings) -> None:
    said = titles(one_judge["psychometric_curve.png"])
    for family in ("target_sensitivity", "matched_sensitivity"):
        for step, reading in by_step(sheet, family).items():
            assert isinstance(reading, Estimate)
            assert f"δ {step:g}: {hover_text(reading)}" in said


def test_bars_cells_and_rows_say_what_they_are(sheet: Sheet) -> None:
    drawn = drawings({"one": sheet, "two": sheet})
    bars = titles(drawn["delta_0_decomposition.png"])
    assert f"two, no preference: {hover_text(sheet['no_preference'])}" in bars
    rows = titles(drawn["axes_map.png"])
    assert any(text.startswith("one, dark current") for text in rows)
    found = comparison()
    said = titles(inline_svg(heatmap(found.cells), title="cells"))  # type: ignore[arg-type]
    assert len(said) == sum(len(row) for row in found.cells.values())
    assert f"typos, two: {hover_text(found.cells['typos']['two'])}" in said


def test_cells_lead_to_their_calls_and_say_so_to_those_who_do_not_see(one_judge: Drawings) -> None:
    addresses = Addresses("../")
    found = comparison()
    figure = heatmap(found.cells, calls_of=lambda judge, key: addresses.calls(judge, axis=key))
    drawn = inline_svg(figure, title="cells")  # type: ignore[arg-type]
    links = {one["href"]: one for tag, one in read(drawn).tags if tag == "a"}
    assert links["../calls/two?axis=typos"]["aria-label"].startswith("typos, two: ")
    assert len(links) == sum(len(row) for row in found.cells.values())
    assert 'role="group"' in drawn, "what is inside an image cannot be reached"
    assert all('role="img"' in svg for svg in one_judge.values())


@pytest.mark.parametrize(
    "address", ["javascript:alert(1)", "JaVaScript:alert(1)", "data:text/html,x", "java\nscript:x"]
)
def test_an_address_that_is_no_page_is_no_link(address: str) -> None:
    figure, axes = canvas(4, 3, left=0.5)
    (bar,) = axes.barh([0], [1])
    hover(bar, "a bar", address=address)
    svg = inline_svg(figure, title="bar")
    assert "<a" not in svg
    assert titles(svg) == ["a bar"]


def test_hostile_names_stay_text_and_nothing_runs_loads_or_leaks(sheet: Sheet) -> None:
    names = [*HOSTILE, "\x00\x1b[31m\ud83d", "]]>", "&#x41;", "\u202eright to left", "$x$"]
    for caption, drawn in drawings(dict.fromkeys(names, sheet)).items():
        drawn.encode()
        found = read(drawn)
        assert {tag for tag, _ in found.tags} <= TAGS, caption
        for tag, attributes in found.tags:
            assert not [key for key in attributes if key.startswith("on") or key in ("src", "xlink:href")]
            assert attributes.get("href", "#").startswith("#"), tag
            assert not re.search(r"url\((?!#f)|@import|expression", attributes.get("style") or "")
        assert not re.search(r"<!|<\?|xmlns|<style|<script", drawn)
        assert HOSTILE[0] in "".join(found.text)


def test_a_hostile_caption_is_the_accessible_name(sheet: Sheet) -> None:
    figure = psychometric({"judge": sheet})
    assert figure is not None
    ((tag, attributes), *_) = read(inline_svg(figure, title=HOSTILE[2] + "\x00")).tags
    assert (tag, attributes["aria-label"]) == ("svg", HOSTILE[2] + "\ufffd")


def test_the_same_figure_is_the_same_bytes_and_is_left_as_it_was(sheet: Sheet, one_judge: Drawings) -> None:
    assert drawings({"judge": sheet}) == one_judge
    figure = psychometric({"judge": sheet})
    assert figure is not None
    marks = [artist.get_gid() for artist in figure.findobj()]
    assert inline_svg(figure, title="x") == inline_svg(figure, title="x")
    assert [artist.get_gid() for artist in figure.findobj()][: len(marks)] == marks


def test_no_id_stands_twice_on_a_page_and_every_reference_is_answered(sheet: Sheet, one_judge: Drawings) -> None:
    page = "".join([*one_judge.values(), *drawings({"other": sheet}).values()])
    ids = re.findall(r' id="([^"]+)"', page)
    assert [name for name, count in Counter(ids).items() if count > 1] == []
    assert set(re.findall(r'href="#([^"]+)"', page)) | set(re.findall(r"url\(#([^)]+)\)", page)) == set(ids)


def test_colours_are_those_of_the_page_but_for_cells_on_a_scale(sheet: Sheet) -> None:
    page = "".join(drawings({f"judge {number}": sheet for number in range(8)}).values())
    assert set(re.findall(r":(#[0-9a-f]{6})", page)) == {CELL_BLACK}, "black on orange is read on any page"
    used = set(re.findall(r"var\((--fig-[a-z0-9]+)\)", page))
    assert used >= {"--fig-ink", "--fig-line", "--fig-paper", "--fig-1", "--fig-8"}
    for theme in themes().values():
        assert used <= set(theme)


def test_a_file_stands_alone_with_the_colours_of_the_light_page(sheet: Sheet) -> None:
    found = comparison()
    figures = datasheet_figures({HOSTILE[0]: sheet}) | {"heatmap.png": heatmap(found.cells)}
    names = [f"figures/{name.removesuffix('.png')}.svg" for name in figures]
    files_of_run = figure_files(figures)  # type: ignore[arg-type]
    assert list(files_of_run) == names
    for content in files_of_run.values():
        root = ElementTree.fromstring(content)
        assert root.tag == "{http://www.w3.org/2000/svg}svg"
        title, background = root[0], root[1]
        assert (title.tag, title.text) == ("{http://www.w3.org/2000/svg}title", root.attrib["aria-label"])
        assert background.attrib == {"width": "100%", "height": "100%", "style": "fill:#ffffff"}
        assert 300 < int(root.attrib["width"]) < 1400
        assert "font-family" in root.attrib["style"]
        assert "var(" not in content, "no page around it has variables"
        assert not re.search(r'class="fig"|<style|<script|<!|<\?| on[a-z]+=', content)
        spots = [circle for circle in root.iter() if circle.get("class") == "spot"]
        assert all(spot.get("fill") == "none" for spot in spots), "a place to point at is not seen"


def test_figures_are_drawn_once_for_page_and_file(sheet: Sheet, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[str] = []

    def counted(figure: Figure, *, title: str) -> Markup:
        drawn.append(title)
        return inline_svg(figure, title=title)

    monkeypatch.setattr(svg, "inline_svg", counted)
    drawings = draw(datasheet_figures({"judge": sheet}))
    page, run = [drawing.svg for drawing in drawings], figure_files(drawings)
    assert len(drawn) == len(page) == len(run) == 3
    assert [drawing.caption for drawing in drawings] == [
        "Psychometric curve",
        "Delta 0 decomposition",
        "Axes map",
    ]


def themes() -> dict[str, dict[str, str]]:
    """The variables of the light page, the dark page and paper."""
    blocks = re.findall(r":root \{(.*?)\}", STYLE, flags=re.DOTALL)
    found = [dict(re.findall(r"(--[a-z0-9-]+): (#[0-9a-f]+)", block)) for block in blocks]
    return dict(zip(("light", "dark", "print"), found, strict=True))


@pytest.mark.parametrize("theme", ["light", "dark", "print"])
def test_lines_and_words_stand_out_from_the_page(theme: str) -> None:
    colours = themes()[theme]
    page = colours["--back"] if len(colours["--back"]) == 7 else "#ffffff"
    assert colours["--fig-paper"] == page
    for name, least in {"ink": 7, "soft": 4.5, "mid": 3, **dict.fromkeys("1234568", 3.0)}.items():
        assert contrast(colours[f"--fig-{name}"], page) >= least, name
    # Shares are written on these bars in the colour of the page, on grey in ink.
    assert min(contrast(colours[f"--fig-{name}"], page) for name in "12") >= 4.5
    assert contrast(colours["--fig-ink"], colours["--fig-fill"]) >= 4.5
    assert contrast("#000000", colours["--fig-5"]) >= 4.5


def contrast(one: str, other: str) -> float:
    """Contrast of WCAG 2."""
    high, low = sorted(map(_luminance, (one, other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def _luminance(colour: str) -> float:
    channels = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in channels)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
