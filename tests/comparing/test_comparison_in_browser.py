"""The comparison page in a real browser: eight judges and more at any width, in light and dark, by rule and by eye."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jrh_mlflow.comparing.comparison import compare_calls
from jrh_mlflow.comparing.comparison_view import JudgeCard, JudgeLinks, comparison_page
from jrh_mlflow.measures.reliability import WorstItem
from jrh_mlflow.show.figures.reliability import heatmap
from jrh_mlflow.show.figures.svg import inline_svg
from jrh_mlflow.show.html import Addresses
from jrh_mlflow.show.page import Drawing
from tests.comparing.comparing_tools import LABELS, point_calls
from tests.comparing.test_comparison_page import HOSTILE
from tests.review.browser import chromium, looks, violations

pytestmark = pytest.mark.drawn


TESTS = ("typos", "markdown")
NAMES = [f"provider/a-judge-with-a-long-name-2026-{number:02d}-preview (run {number:08x})" for number in range(12)]


def judge(share: float, seed: int, *, deaf: bool = False) -> Any:
    random = np.random.default_rng(seed)

    def answer(source: str, condition: str, replicate: int) -> str | None:
        if deaf and condition == "typos" and random.random() < 0.4:
            return None
        right = int(source[1:]) % 5
        return LABELS[right if random.random() < share else (right + 1) % 5]

    return answer


def page(n_judges: int, *, baseline: str | None = None, names: list[str] = NAMES) -> str:
    calls = {
        name: point_calls(judge(0.95 - 0.08 * number, number, deaf=number == 1), tests=TESTS, n_sources=16)
        for number, name in enumerate(names[:n_judges])
    }
    found = compare_calls(calls, n_resamples=50, labels=LABELS, baseline=baseline)
    cards = [
        JudgeCard(name=name, run_id=f"{number:032x}", n_calls=48, experiment_id="1", truncated="budget")
        for number, name in enumerate(calls)
    ]
    addresses = Addresses("")
    links = JudgeLinks(addresses, cards, found.n_calls)
    text = "\n".join(HOSTILE)
    worst = WorstItem(
        item="s1/typos", test="typos", source="s1", original=text, perturbed=text, expected="2", given="5", error_size=3
    )
    figure = heatmap(found.cells, letters=found.letters, calls_of=links.calls)
    assert figure is not None
    return comparison_page(
        found,
        title=f"Comparison of {n_judges} judges",
        suite={"suite": "hand", "items": "96"},
        judges=cards,
        figures=[Drawing("Scores", inline_svg(figure, title="Scores"))],
        worst={cards[0].name: [worst]},
        addresses=addresses,
    ).to_html()


@pytest.fixture(scope="module")
def tab() -> Iterator[Any]:
    with chromium() as browser:
        yield browser.new_page(viewport={"width": 1280, "height": 800})


@pytest.fixture(scope="module")
def texts() -> dict[str, str]:
    hostile = [HOSTILE[0], HOSTILE[2], "x" * 200, "评审" * 30]
    return {
        "eight": page(8),
        "twelve, one the baseline": page(12, baseline=NAMES[2]),
        "hostile": page(4, names=hostile),
    }


@pytest.fixture(scope="module")
def pages(texts: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("pages")
    for name, text in texts.items():
        Path(folder, f"{name}.html").write_text(text, encoding="utf-8")
    return {name: f"file://{folder}/{name}.html" for name in texts}


@pytest.mark.slow
def test_the_page_breaks_no_rule_of_accessibility_and_never_scrolls_sideways(
    tab: Any, pages: dict[str, str], texts: dict[str, str]
) -> None:
    for number, (name, address) in enumerate(pages.items()):
        # In the place of the page that is open, where axe is loaded and warm.
        tab.set_content(texts[name]) if number else tab.goto(address)
        for width in looks(tab):
            assert tab.evaluate("document.documentElement.scrollWidth") <= width, name
            assert name.startswith("twelve") or violations(tab) == [], (name, width)


def test_axis_and_judge_stay_in_sight_while_the_table_is_scrolled(tab: Any, pages: dict[str, str]) -> None:
    tab.set_viewport_size({"width": 390, "height": 500})
    tab.goto(pages["twelve, one the baseline"])
    box = tab.locator(".grid-box")
    box.scroll_into_view_if_needed()
    row, head = tab.locator(".grid tbody tr:not(.group) th").first, tab.locator(".grid thead th").nth(1)
    left, top = row.bounding_box()["x"], head.bounding_box()["y"]
    box.evaluate("box => box.scrollBy(500, 150)")
    assert row.bounding_box()["x"] == left
    assert head.bounding_box()["y"] == top
    assert head.get_attribute("title") == NAMES[0]


def test_eight_judges_fit_a_desk_and_every_number_leads_to_its_calls_in_the_table_and_in_the_figure(
    tab: Any, pages: dict[str, str]
) -> None:
    tab.set_viewport_size({"width": 1280, "height": 800})
    tab.goto(pages["eight"])
    assert tab.locator(".grid-box").evaluate("box => box.scrollWidth - box.clientWidth") == 0
    cells = tab.locator(".grid tbody tr:not(.group) td")
    assert cells.count() == cells.locator("a[href^='calls/']").count() == 8 * 3
    drawn = tab.locator(".fig a").evaluate_all("links => links.map(link => link.getAttribute('href'))")
    listed = cells.locator("a").evaluate_all("links => links.map(link => link.getAttribute('href'))")
    assert sorted(drawn) == sorted(listed)
    assert f"calls/{0:032x}?axis=typos%2Faccuracy" in drawn
    assert tab.locator(".grid thead a").first.get_attribute("href") == f"datasheet/{0:032x}"
    assert tab.locator("a[href='../#/experiments/1/runs/" + f"{3:032x}?workflowType=machine_learning']").count() == 1


def test_a_figure_is_drawn_in_the_colours_of_the_page(tab: Any, pages: dict[str, str]) -> None:
    tab.goto(pages["eight"])
    ink = tab.locator(".fig text").first
    assert [ink.evaluate("text => getComputedStyle(text).fill") for _ in looks(tab)] == [
        "rgb(28, 31, 36)",
        "rgb(231, 233, 236)",
    ]
