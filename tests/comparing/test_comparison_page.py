"""The HTML of a comparison: one file, no script, no request, and hostile text stays text."""

from __future__ import annotations

import io
import re
from functools import cache
from html import unescape
from html.parser import HTMLParser

import pandas as pd
import pytest
from markupsafe import Markup

from jrh_mlflow.comparing.comparison import Contrasts, compare_calls
from jrh_mlflow.comparing.comparison_view import JudgeCard, comparison_page, comparison_tables
from jrh_mlflow.measures.reliability import WorstItem
from jrh_mlflow.outputs import csv_text
from jrh_mlflow.show.figures.reliability import heatmap
from jrh_mlflow.show.figures.svg import inline_svg
from jrh_mlflow.show.page import Drawing
from tests.comparing.comparing_tools import LABELS, oracle, point_calls

pytestmark = pytest.mark.drawn


HOSTILE = (
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    '"><svg onload=alert(1)>',
    "' onmouseover='alert(1)",
    "<a href=javascript:alert(1)>x</a>",
    "<link rel=stylesheet href=https://evil.example/x.css>",
    "</style><style>@import url(https://evil.example/y.css)</style>",
    "</pre><iframe src=//evil.example></iframe>",
    "{{ 7 * 7 }}{% raw %}",
    "<!-- --><base href=//evil.example/>",
)
MARKED = ("<img src=x onerror=alert(1)>", "[x](javascript:alert(1))", "`code`", "red\x1b[31m")
"""What Markdown or a terminal would act on."""
DRAWING = Markup('<svg class="fig"></svg>')


class Reader(HTMLParser):
    """Collects what a browser would act on, and the text it would show."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.text.append(data)


def wrong(source, condition, replicate):
    return LABELS[(int(source[1:]) + 1) % 5]


@cache
def comparison(names=("one", "two"), **options) -> Contrasts:
    judges = dict(zip(names, (point_calls(oracle, **options), point_calls(wrong, **options)), strict=True))
    return compare_calls(judges, n_resamples=100, labels=LABELS)


def page(found: Contrasts, **options) -> str:
    cards = [JudgeCard(name=name, run_id=f"{index:032x}", n_calls=24) for index, name in enumerate(found.judges)]
    figures = [Drawing("Figure", DRAWING)]
    options = {"title": "Judges", "suite": {"suite": "hand"}, "judges": cards, "figures": figures} | options
    return comparison_page(found, **options).to_html()


def read(html: str) -> Reader:
    reader = Reader()
    reader.feed(html)
    return reader


@pytest.fixture(scope="module")
def hostile() -> str:
    names = (HOSTILE[0] + HOSTILE[2], "".join(HOSTILE[3:6]))
    text = "\n".join(HOSTILE)
    worst = WorstItem(
        item=HOSTILE[3],
        test=HOSTILE[1],
        source="s",
        original=text,
        perturbed=text,
        expected=text,
        given=text,
        error_size=1,
    )
    found = comparison(names, tests=(HOSTILE[1], HOSTILE[6]))
    drawing = inline_svg(heatmap(found.cells, calls_of=lambda _judge, _key: "javascript:alert(1)"), title=HOSTILE[2])
    return page(
        found,
        title=text,
        suite={HOSTILE[0]: text},
        figures=[Drawing(HOSTILE[2], drawing)],
        worst={names[0]: [worst], HOSTILE[5]: [worst]},
        notes=[text],
    )


def test_hostile_text_makes_no_element_and_no_attribute(hostile):
    harmless = comparison(tests=("x", "y"))
    harmless = page(harmless, figures=[Drawing("f", inline_svg(heatmap(harmless.cells), title="f"))])
    allowed = {tag for tag, _ in read(harmless).tags} | {"article", "h3", "h4", "pre", "details", "pattern"}
    for tag, attributes in read(hostile).tags:
        assert tag in allowed
        assert not [name for name in attributes if name.startswith("on") or name in ("srcset", "action")]
        assert str(attributes.get("href", "#")).startswith("#")
    # All of it is there to be read.
    shown = "".join(read(hostile).text)
    assert all(text in shown for text in HOSTILE)


def test_there_is_no_script_and_nothing_to_fetch(hostile):
    for html in (hostile, page(comparison())):
        tags = read(html).tags
        assert not {"script", "link", "iframe", "base", "object", "form"} & {tag for tag, _ in tags}
        # A file leads nowhere but to its own terms.
        assert all(str(attributes["href"]).startswith("#term-") for tag, attributes in tags if tag == "a")
        assert not [attributes["src"] for _, attributes in tags if "src" in attributes]
        assert all(attributes.get("href", "#").startswith("#") for _, attributes in tags)
        style = "".join(re.findall(r"<style>(.*?)</style>", html, flags=re.DOTALL))
        assert style.count("{") > 20
        assert not re.search(r"url\(|@import|https?:|//", style)


def test_without_hostile_text_no_address_stands_anywhere():
    assert not re.search(r"https?://|javascript:", page(comparison()))


def test_the_browser_is_told_to_load_nothing():
    policy = next(
        attributes["content"]
        for tag, attributes in read(page(comparison())).tags
        if tag == "meta" and attributes.get("http-equiv") == "Content-Security-Policy"
    )
    assert policy.startswith("default-src 'none'; img-src data:; style-src 'unsafe-inline'")
    assert "script-src" not in policy


def test_figures_are_inside_the_file():
    html = page(comparison())
    assert html.count(DRAWING) == 1
    assert "<figcaption>Figure</figcaption>" in html


def test_every_cell_has_value_interval_and_n_and_a_missing_one_its_reason():
    def deaf(source, condition, replicate):
        return None if condition == "typos" else oracle(source, condition, replicate)

    found = compare_calls(
        {
            "deaf": point_calls(deaf, tests=("typos", "markdown")),
            "wrong": point_calls(wrong, tests=("typos", "markdown")),
        },
        n_resamples=100,
        labels=LABELS,
    )
    html = page(found)
    reading = found.cells["markdown"]["deaf"]
    assert f"<b>{reading.value:.2f}</b>" in html
    assert f"[{reading.cluster_low:.2f}, {reading.cluster_high:.2f}]</small><small>n&nbsp;{reading.n}<" in html
    assert "no usable answer" in html
    assert html.count(">n/a<") >= 1


def test_the_page_can_be_read_in_the_dark_and_printed():
    html = page(comparison())
    assert "prefers-color-scheme: dark" in html
    assert "@media print" in html


def test_pairs_have_a_page_without_a_mean_over_tests():
    import jrh_mlflow as jrh
    from jrh_mlflow.measures.records import normalise
    from tests.readings import asked

    suite = jrh.datasheet_suite(n_tasks=2, depth=1)
    judges = {"first": jrh.scripted.AlwaysFirst(), "tie": jrh.scripted.AlwaysTie()}
    found = compare_calls({name: normalise(asked(judge, suite)) for name, judge in judges.items()}, n_resamples=100)
    html = page(found)
    assert "mean over tests" not in html
    assert "dark current (lower is better)" in html


def test_names_of_judges_and_tests_do_nothing_in_markdown():
    names = ("".join(MARKED), f"=1+1 {MARKED[1]}")
    found = comparison(names, tests=MARKED[:2])
    text = comparison_page(found, title=names[0], notes=[names[1]]).to_markdown()
    assert not [mark for mark in ("<img", "[x]", "`code`", "\x1b") if mark in text]
    assert unescape(text).count("[x](javascript:alert(1))") > 10


def test_ordinary_names_stand_in_markdown_as_they_are():
    names = ("openai/gpt-4o_mini", "Llama8B (simulated) *")
    text = comparison_page(comparison(names), title="Judges: gpt-4o-mini, it's 100 %").to_markdown()
    assert text.startswith("# Judges: gpt-4o-mini, it's 100 %\n")
    assert f"| axis | {names[0]} | {names[1]} | n |" in text
    assert "&" not in text


def test_tables_of_a_comparison_run_no_formula_and_move_no_cursor():
    names = ("=HYPERLINK(1)", "red\x1b[31m")
    written = {name: csv_text(frame) for name, frame in comparison_tables(comparison(names)).items()}
    assert "\x1b" not in "".join(written.values())
    differences = pd.read_csv(io.StringIO(written["differences"]))
    assert set(differences[["a", "b"]].to_numpy().ravel()) == {"'=HYPERLINK(1)", "red\ufffd[31m"}
    assert differences["difference"].dtype == float
