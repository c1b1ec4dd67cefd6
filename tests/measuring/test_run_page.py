"""The page of a logged run: what was logged, and usable by everybody on any screen."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mlflow import MlflowClient

import jrh_mlflow as jrh
from jrh_mlflow.decisions.gate_result import gate_sections
from jrh_mlflow.errors import RecipeError
from jrh_mlflow.measuring.run_page import run_page
from jrh_mlflow.show.html import Addresses
from tests.comparing.test_compare import always_no, pointwise_suite
from tests.finished import FinishedRuns
from tests.review.browser import chromium, looks, violations

pytestmark = pytest.mark.drawn


ADDRESSES = Addresses("../")


def longer(shown: jrh.Presentation) -> bool:
    return len(shown.response or "") > 20


@pytest.fixture(scope="module")
def runs(store_uri: str) -> dict[str, str]:
    """Run ids: of pairs, with withheld numbers, stopped early and gated, of single responses, of reliability tests."""
    pairs = jrh.datasheet_suite(n_tasks=3, depth=2, seed=31)
    judged: dict[str, tuple[object, jrh.Suite, dict[str, Any]]] = {
        "pairs": (jrh.scripted.Noisy(seed=3), pairs, {}),
        "withheld": (jrh.scripted.Noisy(unparsed=0.1, seed=2), pairs, {}),
        "stopped": (jrh.scripted.AlwaysFirst(), pairs, {"stop": jrh.until("dark_current <= 0.1")}),
        "levels": (longer, jrh.datasheet_suite(design="pointwise", n_tasks=2, depth=2), {}),
        "reliability": (always_no, pointwise_suite(tests=("typos", "stochastic_stability")), {}),
    }
    options: dict[str, Any] = {"experiment": "pages", "tracking_uri": store_uri, "progress": False, "traces": "none"}
    return {name: jrh.evaluate(judge, suite, **options, **more).run_id for name, (judge, suite, more) in judged.items()}


def without_drawings(page: str) -> str:
    """Tests draw a figure once."""
    return re.sub(r'<svg class="fig".*?</svg>', "", page, flags=re.DOTALL)


@pytest.mark.parametrize("name", ["pairs", "withheld", "stopped", "levels", "reliability"])
def test_the_page_of_a_run_is_the_one_that_was_logged(runs: dict[str, str], store_uri: str, name: str) -> None:
    logged = Path(MlflowClient(store_uri).download_artifacts(runs[name], "datasheet.html")).read_text(encoding="utf-8")
    assert without_drawings(run_page(store_uri, runs[name], addresses=None)) == without_drawings(logged)


def test_a_served_page_shows_the_newest_gate_and_leads_to_it_to_calls_and_to_other_judges(
    runs: dict[str, str], store_uri: str
) -> None:
    gate = jrh.gate(runs["pairs"], ["dark_current <= 0.9"], tracking_uri=store_uri)
    page = run_page(store_uri, runs["pairs"], addresses=ADDRESSES, decided=gate_sections)
    assert "dark current ≤ 0.9</th>" in page
    assert ">dark_current &lt;= 0.9</td>" in page
    assert f"/runs/{gate.run_id}" in page
    assert f'href="../calls/{runs["pairs"]}?axis=dark_current"' in page
    assert f'href="../compare?run={runs["pairs"]}&amp;run={runs["withheld"]}"' in page
    assert runs["levels"] not in page, "another suite"


def test_a_run_that_is_no_evaluation_is_refused(finished: FinishedRuns) -> None:
    with pytest.raises(RecipeError, match="is of kind gate"):
        run_page(finished.uri, finished["gate"], addresses=ADDRESSES)


@pytest.fixture(scope="module")
def pages(runs: dict[str, str], store_uri: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("pages")
    (folder / "logged").mkdir()
    for name, run_id in runs.items():
        (folder / f"{name}.html").write_text(
            run_page(store_uri, run_id, addresses=ADDRESSES, decided=gate_sections), encoding="utf-8"
        )
    # What was logged has the drawings.
    logged = MlflowClient(store_uri).download_artifacts(runs["pairs"], "datasheet.html", str(folder / "logged"))
    return {name: (folder / f"{name}.html").as_uri() for name in runs} | {"logged": Path(logged).as_uri()}


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as found:
        yield found


@pytest.mark.slow
def test_every_page_is_accessible_and_never_wider_than_its_window(browser: Any, pages: dict[str, str]) -> None:
    page = browser.new_page(bypass_csp=True)
    # What a run of pairs has, the logged page of it has too.
    for name in pages.keys() - {"pairs"}:
        page.goto(pages[name])
        page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
        for width in looks(page):
            assert page.evaluate("document.documentElement.scrollWidth") <= width, name
            assert violations(page) == [], (name, width)
    page.close()


def test_a_term_says_its_sentence_when_it_has_the_focus(browser: Any, pages: dict[str, str]) -> None:
    page = browser.new_page()
    page.goto(pages["pairs"])
    term = page.locator("a.term", has_text="detectable").first
    before = term.evaluate("one => getComputedStyle(one, '::after').content")
    page.keyboard.press("Tab")
    term.focus()
    after = term.evaluate("one => getComputedStyle(one, '::after').content")
    place = term.get_attribute("href")
    assert (before, "in four of five" in after) == ("none", True)
    assert page.locator(f"dt{place}").inner_text() == "detectable"
    page.close()
