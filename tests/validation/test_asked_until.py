"""Decisions while asking: what is counted as wrong, and that a wrong order would be seen."""

from __future__ import annotations

from dataclasses import replace

import pytest

import jrh_mlflow as jrh
from jrh_mlflow.measuring.recorded.answers import (
    RecordedJudge,
    llmbar_records,
    recorded_records,
)
from tests.validation.asked_until import DESIGNS, GRID, LLMBAR_AXES, llmbar, made_up, play


def test_a_sorted_suite_asked_as_it_stands_is_decided_wrongly_and_in_random_order_rightly():
    sorted_suite = made_up("all hits first", "dark_current <= 0.3", vacuum=20)
    assert play(sorted_suite, None)["wrong"]
    assert not any(play(sorted_suite, str(seed))["wrong"] for seed in range(20))


def test_far_from_the_limit_few_calls_decide_and_on_it_nearly_all():
    far = play(made_up("clean", "dark_current <= 0.3"), "0")
    near = play(made_up("on the limit", "dark_current <= 0.1", vacuum=12), "0")
    assert not far["wrong"]
    assert not far["undecided"]
    assert not near["undecided"]
    assert far["share of calls"] < 0.2 < 0.7 < near["share of calls"]


def test_every_design_has_its_limit_on_the_whole_suites_reading_or_right_beside_it():
    assert len({design.name for design in DESIGNS}) == len(DESIGNS)
    for design in DESIGNS:
        for rule in design.rules:
            assert play(replace(design, rules=(rule,)), "3")["share of calls"] > 0.1


@pytest.mark.parametrize(("criterion", "n_lost"), [("forced", 12), ("allowed", 35)])
def test_the_recorded_answers_to_llmbar_are_records_that_can_be_measured(criterion, n_lost):
    records = llmbar_records(criterion)
    assert len(records) == 2 * 419
    sheet = jrh.measure(records)
    assert sheet.outcomes["unparsed"] == n_lost
    assert (sheet.outcomes["tie"] > 0) == (criterion == "allowed")
    assert set(LLMBAR_AXES) <= set(sheet.estimates)


def test_what_the_whole_suite_decides_is_what_measure_reads():
    read = jrh.measure(llmbar_records("forced")).estimates["natural/accuracy"].value
    assert 0.4 < read < 0.45
    for limit in GRID:
        played = play(llmbar("forced", f"natural/accuracy <= {limit}"), "1")
        assert not played["wrong"], limit
        assert not played["undecided"], limit


def test_the_recorded_datasheet_judges_answer_without_a_journal():
    sheet = jrh.measure(recorded_records(RecordedJudge("forced"), "datasheet-paper"))
    assert sheet.estimates["dark_current"].value == 1.0
