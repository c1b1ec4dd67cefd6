"""A page as a run keeps it: read again it says the same, and what anybody wrote into the file does nothing."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import pytest

from jrh_mlflow.show.html import FROM_RUN, Addresses
from jrh_mlflow.show.page import Drawing, Facts, Page, Section
from jrh_mlflow.show.run_overview import RunFamily, RunSummary, run_overview_page
from jrh_mlflow.show.tables import Cell, Column, Table, Whisker
from jrh_mlflow.text import clean_text

RUN = "0a" * 16
HOSTILE = '<script>alert(1)</script>"><img src=x onerror=alert(2)> label_flip [0.42, 0.5]'
TABLE = Table[str].of(
    Column("judge", lambda row: row, link=lambda row: FROM_RUN.calls(RUN, axis="label_flip/accuracy")),
    Column("accuracy", lambda row: Cell("0.42", whisker=Whisker(low=0.3, high=0.5, value=0.42), below=("n 12",))),
    Column("terminal", lambda row: "only there", media=("text",)),
)
PAGE = Page(
    title=f"Jury {HOSTILE}",
    lead="Use it.",
    sentences=[lambda named: f"It beats {named(HOSTILE)}."],
    notes=[HOSTILE],
    facts={"calls": 12},
    sections=[
        Section(heading="Judges", blocks=[TABLE([HOSTILE, "b"], tone=lambda row: "told", more="and more"), "How."]),
        Section(heading="Figures", blocks=[[Drawing("Map", "", name="map")]], media=("html",)),  # type: ignore[list-item,arg-type]
        Section(heading="Settings", blocks=[Facts({"model": HOSTILE})]),
        Section(heading="Terminal", blocks=["not here"], media=("text",), always=True),
    ],
)


def family(shown: bytes | None, **of_run: Any) -> RunFamily:
    run = RunSummary(
        **dict.fromkeys(("experiment_id", "judge", "model", "suite", "sha256", "gate", "state", "started"), ""),
        run_id=RUN,
        name="a run",
        kind="jury",
        status="FINISHED",
        simulated=True,
        recorded=False,
        truncated=None,
        named=(),
        verdict="Use none.",
        description="| a | b |",
    )
    own = {"page": "jury.html", "has_calls": False, "children": ()}
    others = replace(run, run_id="0b" * 16, name="member", kind="evaluate")
    return RunFamily(run=replace(run, **of_run), sources=(others,), shown=shown, figures={"map": b"<svg/>"}, **own)


def shown(page: dict[str, Any] | bytes | None) -> str:
    content = json.dumps(page).encode() if isinstance(page, dict) else page
    return clean_text(run_overview_page(family(content), Addresses("../")))


def test_the_page_of_a_run_is_what_its_verb_made_with_links_bars_figures_and_its_relatives():
    page = shown(PAGE.to_dict())
    assert f'href="../calls/{RUN}?axis=label_flip%2Faccuracy"' in page
    assert page.count('class="bar"') == 2
    assert "data:image/svg+xml;base64,PHN2Zy8+" in page
    assert f'href="../run/{"0b" * 16}"' in page
    assert f'href="../logged/{RUN}"' in page
    assert "label_flip [0.42, 0.5]" in page
    assert page.index("Use it.") < page.index("Judges")
    assert not [part for part in ("<script", "<img src", "<pre", "| a |", "only there", "not here") if part in page]


def test_a_run_without_a_kept_page_shows_its_verdict_and_its_description():
    page = shown(None)
    assert "<pre" in page
    assert page.index("Use none.") < page.index("| a | b |")


@pytest.mark.parametrize("junk", [b"", b"[]", b"{}", b'{"title": 3}', b"\xff", b'{"sections": [{"blocks": [7]}]}'])
def test_a_kept_page_that_cannot_be_read_leaves_the_description(junk):
    assert "| a | b |" in shown(junk)


@pytest.mark.parametrize(
    "address",
    ["javascript:alert(1)", "//evil.example", "../review/?token=x", "../calls/1", f"../run/{RUN}/../../x", "data:,x"],
)
def test_a_kept_page_leads_to_pages_of_runs_and_to_whole_addresses_only(address):
    page = PAGE.to_dict()
    page["sections"][0]["blocks"][0]["table"]["rows"][0][0]["links"] = [["judge", address]]
    assert address not in shown(page)


def test_a_kept_page_says_the_same_when_it_is_read_again():
    kept = json.loads(json.dumps(PAGE.to_dict()))
    again = Page.from_dict(kept, {"map": b"<svg/>"})
    assert again.to_html().count("<tr") == PAGE.to_html().count("<tr")
    assert json.loads(json.dumps(replace(again, sections=again.sections[:1]).to_dict())) == {
        **kept,
        "sections": kept["sections"][:1],
    }


def test_every_term_that_a_page_leads_to_is_on_it_also_from_parts_that_are_markup():
    part = Table[str].of(Column("95 % by task", lambda row: row))(["a"]).to_html()
    page = Page(title="t", sections=[Section(heading="h", blocks=[part], always=True)]).to_html()
    (to,) = set(re.findall(r'href="#(term-\d+)"', page))
    assert f'id="{to}"' in page


@pytest.mark.parametrize(("name", "value"), [("lead", {"a": 1}), ("sentences", 3), ("facts", []), ("notes", [{}, 7])])
def test_a_kept_page_of_other_types_is_shown_or_leaves_the_description(name, value):
    assert "What belongs to it" in shown({**PAGE.to_dict(), name: value})
