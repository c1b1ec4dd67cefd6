"""Biases in words, the same on every page: found with their numbers, none found with what would have been."""

from __future__ import annotations

import re

import pytest

import jrh_mlflow as jrh
from jrh_mlflow.show.readings import finding_lines
from jrh_mlflow.show.results import Datasheet
from tests.measures.pointwise import points, report
from tests.readings import asked
from tests.show.test_datasheet_page import cells, estimate, page, sheet

HOSTILE = "<b>typos"


@pytest.fixture(scope="module")
def tie() -> Datasheet:
    found = jrh.measure(asked(jrh.scripted.AlwaysTie(), jrh.datasheet_suite(n_tasks=10)), n_resamples=20)
    assert isinstance(found, Datasheet)
    return found


def test_none_found_says_how_large_one_would_have_had_to_be(tie: Datasheet) -> None:
    lines = finding_lines(tie.estimates)
    assert list(lines) == ["no bias found"]
    assert lines["no bias found"].startswith("dark current, raw false preference, stable")
    assert "one of 0.15 or more" in lines["no bias found"]
    assert lines["no bias found"].endswith("would have been found in 4 of 5 cases")


def test_a_bias_that_was_found_stands_with_its_interval_and_never_as_one_that_holds_0() -> None:
    rare = estimate(1 / 112, cluster_low=0.00058, cluster_high=0.1)
    lines = finding_lines({"dark_current": rare, "filler_preference": estimate(0.25)})
    assert lines["bias found"] == "dark current 0.01 [0.0006, 0.10], prefers padding 0.25 [0.11, 0.42]"


def test_found_and_none_found_differ_on_page_description_screen_and_card(tie: Datasheet) -> None:
    html, card = page(tie), tie.card(title="x").to_html()
    for shown in (re.sub("<[^>]*>", "", html), card, tie.to_markdown()):  # words may be explained on hover
        assert "No bias found" in shown
        assert "would have been found in 4 of 5 cases" in shown
    assert cells(html)["dark current"][2] == "0.149"
    assert ">Bias found<" in page(sheet(dark_current=estimate()))


def test_the_data_of_a_datasheet_and_its_table_say_what_is_detectable(tie: Datasheet) -> None:
    data, frame = tie.to_dict()["estimates"], tie.to_frame().set_index("axis")
    assert (
        data["dark_current"]["detectable"] == frame.loc["dark_current", "detectable"] == pytest.approx(0.1487, abs=1e-4)
    )
    assert data["target_sensitivity/delta_1"]["detectable"] > 0
    assert all("detectable" in one for one in data.values() if one["kind"] == "estimate")


def test_a_suite_of_many_tests_names_the_first_and_counts_the_others() -> None:
    sources = [("yes", "yes")] * 6
    rows = [row for number in range(14) for row in points(f"test_{number}", sources)] + points("baseline", sources)
    line = finding_lines(report(rows, labels=("no", "yes")).estimates)["no bias found"]
    assert "and 4 more" in line
    assert line.count("consistency") == 10


def test_names_of_tests_are_text() -> None:
    sources = [("yes", "yes")] * 6
    found = report(points("baseline", sources) + points(HOSTILE, sources), labels=("no", "yes"))
    assert HOSTILE in finding_lines(found.estimates)["no bias found"]
    for shown in (page(found), found.card(title="x").to_html(), found.to_markdown()):
        assert HOSTILE not in shown
