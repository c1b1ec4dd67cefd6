"""Findings in words, the same on page, card, description and screen: each under its state, with its number."""

from __future__ import annotations

import re
from typing import Any

import pytest

import jrh_mlflow as jrh
from jrh_mlflow.measures.verdict import JudgeContext, findings
from jrh_mlflow.show.cards import finding_notes
from jrh_mlflow.show.glossary import TERMS
from jrh_mlflow.show.names import axis_name
from jrh_mlflow.show.readings import finding_lines
from jrh_mlflow.show.results import Datasheet
from jrh_mlflow.show.sheets import profile_sentences, states_of
from tests.measures.pointwise import points, report
from tests.readings import asked
from tests.show.test_datasheet_page import cells, estimate, page

HOSTILE = "<b>typos"


@pytest.fixture(scope="module")
def first() -> Datasheet:
    measured = jrh.measure(asked(jrh.scripted.AlwaysFirst(), jrh.datasheet_suite(n_tasks=20)), n_resamples=20)
    assert isinstance(measured, Datasheet)
    return measured


def texts_of(html: str) -> str:
    return re.sub("<[^>]*>", "", html)  # words may be explained on hover


def test_a_problem_stands_with_its_interval_and_never_as_one_that_holds_0() -> None:
    rare = estimate(0.31, cluster_low=0.20058, cluster_high=0.5)
    lines = finding_lines(findings({"dark_current": rare, "filler_preference": estimate(0.25)}))
    assert lines == {"problem": "dark current 0.31 [0.20, 0.50]"}


def test_what_is_ok_or_by_design_is_named_without_a_number(first: Datasheet) -> None:
    lines = finding_lines(findings(first.estimates, JudgeContext(offers_tie=False)))
    assert lines["by design"].startswith(f"{axis_name('dark_current')}, ")
    assert axis_name("padding_lean") in lines["ok"] + lines.get("cannot tell", "")
    assert not re.search(r"[0-9.]{3}", lines["by design"])


def test_the_verdict_comes_first_on_page_card_and_description(first: Datasheet) -> None:
    sentence = first.verdict.sentences[0]
    card, markdown = first.card(title="x").to_html(), first.to_markdown(title="x")
    html = page(first)
    for shown in (html, card):
        assert texts_of(shown).index(sentence) < texts_of(shown).index(axis_name("raw_false_preference"))
    assert markdown.startswith(f"# x\n\n**{sentence}**")


def test_a_page_names_every_state_with_its_advice_and_explains_it(first: Datasheet) -> None:
    html = page(first)
    for finding in first.verdict.findings:
        assert finding.advice in texts_of(html).replace("&#39;", "'")
    states = states_of(first)
    assert states["slot_lean"] == "problem"
    for state in set(states.values()):
        assert f'class="state {state.replace(" ", "-")}"' in html
        assert state in TERMS


def test_both_profiles_stand_below_with_their_rules(first: Datasheet) -> None:
    own, paper = profile_sentences(first)
    shown = texts_of(page(first))
    assert first.profile in own
    assert first.paper_profile in paper
    assert shown.index(first.verdict.sentences[0]) < shown.index(own) < shown.index(paper)


def test_the_data_of_a_datasheet_and_its_table_say_what_is_detectable(first: Datasheet) -> None:
    data, frame = first.to_dict()["estimates"], first.to_frame().set_index("axis")
    assert data["dark_current"]["detectable"] == frame.loc["dark_current", "detectable"] > 0
    assert cells(page(first))["dark current"][2] == f"{data['dark_current']['detectable']:.2f}"
    assert all("detectable" in one for one in data.values() if one["kind"] == "estimate")


def many_tests() -> Any:
    sources = [("yes", "yes")] * 60 + [("no", "no")] * 60
    rows = [row for number in range(14) for row in points(f"test_{number}", sources)]
    return report(rows + points("baseline", sources), labels=("no", "yes"))


def test_a_suite_of_many_tests_names_the_first_and_counts_the_others() -> None:
    found = many_tests().verdict.findings
    lines = finding_lines(found)
    n_ok = sum(one.state == "ok" for one in found)
    assert lines["ok"].count("lost accuracy") <= 10 < n_ok
    assert lines["ok"].endswith(f"{n_ok - 10} more")


def test_readings_without_a_number_are_counted() -> None:
    found = many_tests().verdict.findings
    n_without = sum(one.axis.startswith("noise_excess/") for one in found)
    assert finding_lines(found)["cannot tell"] == f"{n_without} without a number"


def test_names_of_tests_are_text() -> None:
    sources = [("yes", "yes")] * 60 + [("no", "no")] * 60
    found = report(points("baseline", sources) + points(HOSTILE, sources), labels=("no", "yes"))
    assert any(HOSTILE in note for note in finding_notes(found.verdict.findings))
    for shown in (page(found), found.card(title="x").to_html(), found.to_markdown()):
        assert HOSTILE not in shown
