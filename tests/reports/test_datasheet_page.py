"""The HTML of a datasheet: every number that was measured, every reason, and hostile text stays text."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

import jrh_mlflow as jrh
from jrh_mlflow.measures.reliability import WorstItem
from jrh_mlflow.reports.datasheet_page import axis_sections, datasheet_page, report_sections
from jrh_mlflow.results import Datasheet, ReliabilityReport
from jrh_mlflow.schema.estimates import Estimate, NotEstimable
from tests.measures.comparing_tools import LABELS, oracle, point_calls
from tests.reports.test_comparison_page import DRAWING, HOSTILE, Reader, read


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
    sections = (
        axis_sections(found.estimates)
        if isinstance(found, Datasheet)
        else report_sections(found.estimates, found.scores, found.categories)
    )
    facts = {name: getattr(found, name) for name in ("profile", "estimates", "outcomes", "max_excluded")}
    return datasheet_page(sections, **facts, **options)


def cells(html: str) -> dict[str, list[str]]:
    """Label of each row to its other cells."""
    rows = re.findall(r'<th scope="row">(.*?)</th>(.*?)</tr>', html, re.DOTALL)
    return {
        label: [re.sub(r"<[^>]+>", "", cell).strip() for cell in re.findall(r"<td[^>]*>(.*?)</td>", rest, re.DOTALL)]
        for label, rest in rows
    }


def test_a_number_stands_beside_its_interval_by_task_its_n_and_what_was_left_out() -> None:
    html = page(sheet(dark_current=estimate()))
    assert cells(html)["dark current"] == ["0.250", "[0.11, 0.42]", "0.126", "120 calls", "7 (unparsed 5, error 2)"]
    assert 'style="width:25.0%"' in html
    assert "$0.12" in html
    assert cells(html)["error"] == ["7", "7.0&nbsp;%"]


def test_without_an_interval_by_task_the_plain_one_is_shown() -> None:
    assert cells(page(sheet(dark_current=estimate(cluster_low=None, cluster_high=None))))["dark current"][1] == (
        "[0.18, 0.33]"
    )


def test_what_is_no_share_gets_no_bar() -> None:
    html = page(sheet(**{"d_prime/delta_1": estimate(0.547, numerator=None)}))
    assert cells(html)["d′ (δ = 1)"][0] == "0.547"
    assert 'class="bar"' not in html


def test_a_censored_threshold_says_so() -> None:
    reading = estimate(5.0, censored="right", unit="curve", numerator=None)
    decided = page(sheet(threshold_75=replace(reading, not_reached_at=5.0)))
    assert cells(decided)["threshold Δ75"][0] == "&gt; 5"
    open_one = page(sheet(threshold_75=replace(reading, not_reached_at=4.0)))
    assert cells(open_one)["threshold Δ75"][0] == "&gt; 5, not decided"


def test_an_axis_that_no_section_knows_is_shown_all_the_same() -> None:
    assert cells(page(sheet(**{"brand_new/axis": estimate()})))["brand new: axis"][0] == "0.250"


def test_what_was_not_measured_is_named_with_its_reason_and_never_a_number() -> None:
    html = page(
        sheet(dark_current=NotEstimable(reason="no vacuum items"), other=NotEstimable(reason="no vacuum items"))
    )
    assert cells(html) == {
        "no vacuum items": ["dark_current, other"],
        "verdict": ["93", "93.0&nbsp;%"],
        "error": ["7", "7.0&nbsp;%"],
        "model": ["a/b"],
    }


def test_a_report_shows_every_axis_of_every_test() -> None:
    report = jrh.measure(point_calls(oracle), labels=LABELS)
    assert isinstance(report, ReliabilityReport)
    html = page(report)
    measured = [one for one in (*report.estimates.values(), *report.scores.values()) if isinstance(one, Estimate)]
    baseline = isinstance(report.estimates.get("baseline/accuracy"), Estimate)
    assert html.count("<td><b>") == len(measured) + baseline
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
    return read(page(found, figures={text: DRAWING}, **options))


def test_hostile_text_is_shown_and_makes_nothing(hostile: Reader) -> None:
    assert {tag for tag, _ in hostile.tags}.isdisjoint({"script", "iframe", "img", "a", "link", "base", "object"})
    assert not [name for _, attributes in hostile.tags for name in attributes if name.startswith("on")]
    assert HOSTILE[0] in "".join(hostile.text)
    assert next(one["content"] for _, one in hostile.tags if one.get("http-equiv")).startswith("default-src 'none'")
