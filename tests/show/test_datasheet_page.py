"""The HTML of a datasheet: every number that was measured, every reason, and hostile text stays text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from urllib.parse import urlencode

import pytest

import jrh_mlflow as jrh
from jrh_mlflow.measures.reliability import WorstItem
from jrh_mlflow.schema.estimates import Bounds, Estimate, NotEstimable
from jrh_mlflow.show.glossary import TERMS, term_id
from jrh_mlflow.show.html import Addresses
from jrh_mlflow.show.names import axis_guide, axis_meaning, axis_name
from jrh_mlflow.show.page import Drawing
from jrh_mlflow.show.results import Datasheet, ReliabilityReport
from jrh_mlflow.show.sheets import PageLinks, sheet_page
from tests.comparing.comparing_tools import LABELS, oracle, point_calls
from tests.comparing.test_comparison_page import DRAWING, HOSTILE, Reader, read
from tests.review.browser import chromium


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as browser:
        yield browser


def estimate(value: float = 0.25, **changes) -> Estimate:
    facts = {
        "value": value,
        "n": 120,
        "excluded": 7,
        "ci_low": 0.18,
        "ci_high": 0.33,
        "cluster_low": 0.11,
        "cluster_high": 0.42,
        "n_clusters": 12,
        "method": "wilson",
        "numerator": value * 120,
        "left_out": {"unparsed": 5, "error": 2},
    }
    return Estimate(**{**facts, **changes})


def sheet(**estimates) -> Datasheet:
    return Datasheet(estimates=estimates, outcomes={"verdict": 93, "error": 7}, profile="calm", max_excluded=0.05)


def page(found: Datasheet | ReliabilityReport, **options) -> str:
    options = {"title": "A judge", "facts": {"cost": "$0.12"}, "judge": {"model": "a/b"}} | options
    return sheet_page(found, **options).to_html()


def cells(html: str) -> dict[str, list[str]]:
    """Label of each row to its other cells."""
    rows = re.findall(r'<th scope="row">(?:<span class="name">)?(.*?)<(?:/span|/th)>(.*?)</tr>', html, re.DOTALL)
    return {
        label: [re.sub(r"<[^>]+>", "", cell).strip() for cell in re.findall(r"<td[^>]*>(.*?)</td>", rest, re.DOTALL)]
        for label, rest in rows
    }


def test_a_number_stands_beside_its_interval_by_task_its_n_and_what_was_left_out() -> None:
    html = page(sheet(dark_current=estimate()))
    assert cells(html)["dark current"] == ["0.25", "[0.11, 0.42]", "0.24", "120 calls", "7 (unparsed 5, error 2)"]
    assert '<i style="left:11.0%;width:31.0%"></i><b style="left:25.0%">' in html
    assert "$0.12" in html
    assert cells(html)["error"] == ["7", "7.0\u00a0%"]


def test_without_an_interval_by_task_the_plain_one_is_shown() -> None:
    assert cells(page(sheet(dark_current=estimate(cluster_low=None, cluster_high=None))))["dark current"][1] == (
        "[0.18, 0.33]"
    )


def test_what_is_no_share_gets_no_bar() -> None:
    html = page(sheet(**{"confidence/brier": estimate(0.547, numerator=None, statistic="value")}))
    assert cells(html)["Brier score"][0] == "0.55"
    assert 'class="bar"' not in html


def test_a_censored_threshold_says_so() -> None:
    reading = estimate(5.0, censored="right", unit="curve", numerator=None)
    decided = page(sheet(threshold_75=replace(reading, not_reached_at=5.0)))
    assert cells(decided)["threshold Δ75"][0] == "&gt; 5"
    open_one = page(sheet(threshold_75=replace(reading, not_reached_at=4.0)))
    assert cells(open_one)["threshold Δ75"][0] == "&gt; 5, not decided"


def test_an_axis_that_no_section_knows_is_shown_all_the_same() -> None:
    assert cells(page(sheet(**{"brand_new/axis": estimate()})))["brand new: axis"][0] == "0.25"


def test_what_was_not_measured_is_named_with_its_reason_and_never_a_number() -> None:
    html = page(
        sheet(dark_current=NotEstimable(reason="no vacuum items"), other=NotEstimable(reason="no vacuum items"))
    )
    assert cells(html) == {
        "no vacuum items": ["dark current, other"],
        "verdict": ["93", "93.0\u00a0%"],
        "error": ["7", "7.0\u00a0%"],
        "model": ["a/b"],
    }


def test_a_report_shows_every_axis_of_every_test() -> None:
    report = jrh.measure(point_calls(oracle), labels=LABELS)
    assert isinstance(report, ReliabilityReport)
    html = page(report)
    measured = [one for one in (*report.estimates.values(), *report.scores.values()) if isinstance(one, Estimate)]
    baseline = isinstance(report.estimates.get("baseline/accuracy"), Estimate)
    assert html.count('<td data-head="reading"><b>') == len(measured) + baseline
    for test in report.tests:
        assert test.replace("_", " ") in html


@pytest.fixture(scope="module")
def hostile() -> Reader:
    text = "\n".join(HOSTILE)
    found = sheet(**{f"{one}/axis": estimate(left_out={one: 1}) for one in HOSTILE}, gone=NotEstimable(reason=text))
    worst = WorstItem(
        item=text, test=text, source=text, original=text, perturbed=text, expected=text, given=text, error_size=1.0
    )
    options = {"title": text, "facts": {text: text}, "judge": {text: text}, "notes": [text], "worst": [worst]}
    return read(page(found, drawings=[Drawing(text, DRAWING)], **options))


def test_hostile_text_is_shown_and_makes_nothing(hostile: Reader) -> None:
    assert {tag for tag, _ in hostile.tags}.isdisjoint({"script", "iframe", "img", "link", "base", "object"})
    assert {one["href"].partition("-")[0] for tag, one in hostile.tags if tag == "a"} <= {"#term"}
    assert not [name for _, attributes in hostile.tags for name in attributes if name.startswith("on")]
    assert HOSTILE[0] in "".join(hostile.text)
    assert next(one["content"] for _, one in hostile.tags if one.get("http-equiv")).startswith("default-src 'none'")


LADDER = {
    f"{family}/delta_{step:g}": estimate(step / 10, numerator=step * 12)
    for family in ("target_sensitivity", "conditional_accuracy", "tie_rate", "miss_by_tie", "wrong_choice")
    for step in (1, 2, 3, 4, 5)
}
LINKS = PageLinks(addresses=Addresses("../"), run_id="a" * 32, experiment_id="7", others={"b" * 32: "another judge"})


def matrix(html: str) -> list[list[str]]:
    """Head and rows of the first matrix, each cell as its texts in one line."""
    found = re.search(r'<table class="matrix">(.*?)</table>', html, re.DOTALL)
    assert found is not None
    rows = re.findall(r"<tr>(.*?)</tr>", found[1], re.DOTALL)
    cells_of = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.DOTALL) for row in rows]
    return [[" ".join(re.sub(r"<[^>]+>", " ", cell).split()) for cell in row] for row in cells_of]


def test_the_ladder_is_a_matrix_of_steps_with_interval_and_n_in_every_cell() -> None:
    head, *rows = matrix(page(sheet(**LADDER)))
    assert head == ["δ", "chooses the better", "right when it chooses", "tie rate", "misses by tie", "wrong choice"]
    assert [row[0] for row in rows] == [f"δ = {step}" for step in (1, 2, 3, 4, 5)]
    assert rows[2][1] == "0.30 [0.11, 0.42] n 120 calls (−7)"
    assert 'title="left out 7 (unparsed 5, error 2)"' in page(sheet(**LADDER))


def test_a_ladder_with_lost_calls_is_not_cut_on_a_desk_and_keeps_its_steps_in_sight_on_a_phone(browser) -> None:
    more = {f"d_prime/delta_{step}": estimate(1.2, numerator=None, statistic="value") for step in (1, 2, 3, 4, 5)}
    ladder = {key: replace(one, n=12345, excluded=1234) for key, one in {**LADDER, **more}.items()}
    cut = "all => all.filter(one => one.scrollWidth > one.clientWidth).map(one => one.getAttribute('aria-label'))"
    shown = browser.new_page(viewport={"width": 1280, "height": 800})
    shown.set_content(page(sheet(**ladder)))
    assert shown.locator(".matrix thead th").count() == 7
    assert shown.eval_on_selector_all(".scroll", cut) == []
    shown.set_viewport_size({"width": 390, "height": 800})
    box, step = shown.locator(".boxed").first, shown.locator(".matrix tbody th").first
    place = step.bounding_box()
    box.evaluate("one => one.scrollLeft = 300")
    assert box.evaluate("one => one.scrollLeft") == 300
    assert step.bounding_box() == place


def test_a_printed_datasheet_is_no_wider_than_the_paper(browser) -> None:
    more = {f"d_prime/delta_{step}": estimate(1.2, numerator=None, statistic="value") for step in (1, 2, 3, 4, 5)}
    shown = browser.new_page(viewport={"width": 718, "height": 1000})  # A4 with Chromium's margins
    shown.emulate_media(media="print")
    shown.set_content(page(sheet(**LADDER, **more)))
    assert shown.locator(".matrix thead th").count() == 7
    assert shown.evaluate("document.documentElement.scrollWidth") <= 718


def test_half_steps_make_more_rows_and_what_is_withheld_stands_with_its_bounds() -> None:
    lost = NotEstimable(
        reason="lost", withheld=True, excluded=9, bounds=Bounds(low=0.2, high=0.6, asked=20, lost={"error": 9})
    )
    more = {"target_sensitivity/delta_0.5": estimate(0.05), "wrong_choice/delta_2": lost}
    _, *rows = matrix(page(sheet(**{**LADDER, **more})))
    assert [row[0] for row in rows][:2] == ["δ = 0.5", "δ = 1"]
    assert rows[0][2:] == ["–"] * 4
    assert rows[2][5] == "between 0.20 and 0.60 (45 % of 20 calls lost: withheld)"


def test_the_headline_comes_before_every_table_with_verdict_and_meaning() -> None:
    found = sheet(dark_current=estimate(), positional_false_preference=estimate(0.01, cluster_low=0.0), **LADDER)
    top, _, _ = page(found).partition("<table")
    for key in ("dark_current", "positional_false_preference", "target_sensitivity/delta_1"):
        assert f"<h3>{axis_name(key)}</h3>" in top
        assert axis_meaning(key) in top
    assert top.index(">problem<") < top.index("<!-- decisions -->")


def test_every_axis_says_what_it_means_what_is_good_and_what_to_type() -> None:
    html = page(sheet(dark_current=estimate()))
    guide = axis_guide("dark_current")
    assert guide is not None
    for text in (
        axis_meaning("dark_current"),
        f"Good: {guide.good}.",
        f"Bad: {guide.bad}.",
        "<code>dark_current</code>",
    ):
        assert text in html


def test_terms_say_their_sentence_on_hover_and_focus_and_lead_to_the_glossary() -> None:
    html = page(sheet(dark_current=estimate()))
    for term in ("detectable", "left out"):
        place = term_id(term)
        assert f'<a class="term" href="#{place}" data-tip="{TERMS[term]}">{term}</a>' in html
        assert f'<dt id="{place}">{term}</dt><dd>{TERMS[term]}</dd>' in html


def test_a_served_page_leads_from_every_number_to_its_calls_and_a_file_nowhere() -> None:
    found = sheet(dark_current=estimate(), **LADDER)
    worst = WorstItem(
        item="s0/x", test="typos", source="s0", original="", perturbed="", expected="1", given="2", error_size=1.0
    )
    served = page(found, links=LINKS, worst=[worst])
    for key in found.estimates:
        assert f'href="../calls/{LINKS.run_id}?{urlencode({"axis": key})}"' in served
    for address in ("?outcome=error", "?item=s0%2Fx&amp;open=s0%2Fx"):
        assert f'href="../calls/{LINKS.run_id}{address}"' in served
    assert f'href="../../#/experiments/7/runs/{LINKS.run_id}?workflowType=machine_learning"' in served
    assert f'href="../compare?run={LINKS.run_id}&amp;run={"b" * 32}"' in served
    assert "../" not in page(found, worst=[worst])


def test_what_hides_in_the_texts_of_the_worst_items_is_shown_by_its_number() -> None:
    texts = {"original": "a\u202eb", "perturbed": "\x1b[31m", "expected": "\u2066y", "given": "n\u00ad"}
    worst = WorstItem(item="s\u200b0", test="typos", source="s0", error_size=1.0, **texts)
    shown = page(sheet(dark_current=estimate()), worst=[worst])
    for text in ("s‹U+200B›0", "a‹U+202E›b", "‹U+001B›[31m", "‹U+2066›y", "n‹U+00AD›"):
        assert text in shown
    assert not re.search("[\u202e\x1b\u2066\u200b\u00ad]", shown)


def test_a_score_of_a_reliability_test_leads_to_its_calls_under_the_name_of_the_test() -> None:
    report = jrh.measure(point_calls(oracle), labels=LABELS)
    assert isinstance(report, ReliabilityReport)
    html = page(report, links=LINKS)
    for test in report.scores:
        assert axis_name(test) in cells(html)
        assert f"axis={test}%2F" in html
