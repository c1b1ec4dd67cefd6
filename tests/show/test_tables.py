"""A column that is declared once is in every medium, and nothing in a cell comes to life in any of them."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from jrh_mlflow.show.page import Facts, Page, Section
from jrh_mlflow.show.tables import Cell, Column, Table, Whisker

pytestmark = pytest.mark.quick


@dataclass
class Difference:
    axis: str
    value: float
    low: float
    high: float


TABLE = Table.of(
    Column("axis", lambda d: d.axis, value=lambda d: d.axis, brief=True),
    Column("difference", lambda d: f"{d.value:+.3f}", value=lambda d: d.value, brief=True),
    Column("95 % by task", lambda d: f"[{d.low:.2f}, {d.high:.2f}]", brief=True),
    Column("why", lambda d: "few tasks"),
    Column("low", value=lambda d: d.low),
)
ROWS = [Difference("dark current", 0.25, 0.1, 0.4), Difference("padding", -0.5, -0.75, -0.2)]
HOSTILE = "<script>alert(1)</script> [x](javascript:y) | `z` \x1b[31m\nnext"


def test_every_medium_has_the_heads_and_cells_that_are_declared():
    filled = TABLE(ROWS)
    assert filled.to_markdown().splitlines()[0] == "| axis | difference | 95 % by task | why |"
    assert "| dark current | +0.250 | [0.10, 0.40] | few tasks |" in filled.to_markdown()
    assert filled.to_text().splitlines()[0].split("  ")[0] == "axis"
    for shown in (filled.to_text(), filled.to_card()):
        assert "95 % by task" in shown
        assert "[0.10, 0.40]" in shown
        assert "few tasks" not in shown
    assert "few tasks" in filled.to_html()
    assert list(filled.to_frame()) == ["axis", "difference", "low"]
    assert filled.to_frame()["low"].tolist() == [0.1, -0.75]


def test_a_new_column_is_in_every_medium_at_once():
    table = Table((*TABLE.columns, Column("n", lambda _: "60 calls", value=lambda _: 60, brief=True)))
    filled = table(ROWS)
    media = [filled.to_markdown(), filled.to_text(), filled.to_card(), filled.to_html()]
    assert all("60 calls" in shown for shown in media)
    assert filled.to_frame()["n"].tolist() == [60, 60]


@pytest.mark.parametrize("as_code", [True, False])
def test_nothing_in_a_cell_comes_to_life(as_code):
    filled = Table.of(Column("judge", lambda row: row, as_code=as_code), Column("n", lambda _: "1"))([HOSTILE])
    markdown = filled.to_markdown()
    assert len(markdown.splitlines()) == 3
    assert "<script" not in markdown or as_code
    assert "](javascript" not in markdown.replace("&#91;x](javascript", "") or as_code
    assert markdown.splitlines()[2].replace("\\|", "").count("|") == 3
    assert "\x1b" not in filled.to_text()
    for page in (filled.to_html(), filled.to_card()):
        assert "<script" not in page


def test_intervals_stay_readable_and_links_do_not():
    filled = Table.of(Column("x", lambda row: row))(["0.3 [0.1, 0.5]", "< 0.001", "[0.1](http://x)", "<b>"])
    rows = filled.to_markdown().splitlines()[2:]
    assert rows == ["| 0.3 [0.1, 0.5] |", "| < 0.001 |", "| &#91;0.1](http://x) |", "| &lt;b> |"]


def test_what_leads_somewhere_does_so_on_pages_and_by_whole_addresses_in_markdown():
    linked = Table.of(Column("run", lambda row: row[0], link=lambda row: row[1]))
    html = linked([("a", "../calls/1"), ("b", "https://host/run"), ("c", None)]).to_html()
    assert html.count("<a ") == 2
    assert 'href="../calls/1"' in html
    markdown = linked([("a", "../calls/1"), ("b", "https://host/run")]).to_markdown()
    assert markdown.count("](") == 1
    assert "[b](https://host/run)" in markdown


def test_a_table_that_is_cut_says_how_many_rows_there_are():
    filled = Table.of(Column("x", str))(range(12)).first(8, what="numbers")
    assert len(filled.rows) == 8
    assert "4 more numbers" in filled.to_text()
    assert "4 more numbers" in filled.to_markdown()


def test_a_cell_of_several_lines_is_one_line_where_there_is_no_room():
    cell = Cell("0.30", below=("[0.16, 0.48]", "n 60"), whisker=Whisker(low=0.16, high=0.48, value=0.3))
    filled = Table.of(Column("axis", str), Column("reading", lambda _: cell))(["dark current"])
    assert "0.30 [0.16, 0.48] n 60" in filled.to_text()
    assert "<small>n 60</small>" in filled.to_html()
    assert 'class="bar"' in filled.to_html()


def test_one_page_is_html_markdown_and_text():
    page = Page(
        title="Agreement <b>",
        lead=lambda named: f"{named('judge `x`')} agrees.",
        notes=["simulated"],
        sections=[
            Section(heading="Readings", blocks=[TABLE(ROWS), "Intervals are 95 %."]),
            Section(heading="Nothing", blocks=[TABLE([]), "About nothing."]),
            Section(heading="Judge", blocks=[Facts({"model": "m"})], media=("html", "markdown")),
        ],
    )
    html, markdown, text = page.to_html(), page.to_markdown(), "\n".join(page.to_text())
    for shown in (html, markdown, text):
        assert "dark current" in shown
        assert "Intervals are 95" in shown
        assert "About nothing" not in shown
    assert "<b>" not in html.split("<header>")[1].split("</h1>")[0]
    assert "`judge ˋxˋ` agrees." in markdown
    assert "judge `x` agrees." in text
    assert "Judge" not in text
