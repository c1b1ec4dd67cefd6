"""Judges of known behaviour get their own problems, in small."""

from __future__ import annotations

import numpy as np
import pytest

from jrh_mlflow.measures import verdict
from jrh_mlflow.suites import datasheet_suite
from tests.validation.loop import SimulationSize
from tests.validation.named_problems import (
    AT_LIMITS,
    COVERAGES,
    EFFECTS,
    JUDGES,
    LIMITED,
    NOISE,
    DrawnSheet,
    Effect,
)

IN_SHORT = SimulationSize(n=10, quick=True)


@pytest.mark.parametrize("judge", JUDGES, ids=str)
def test_a_judge_gets_its_own_problems_and_no_others(judge):
    assert judge.problems_of(0) == set(judge.problems)


@pytest.mark.slow
def test_few_problems_are_named_at_a_limit_and_large_ones_are_found():
    simulations = (AT_LIMITS, EFFECTS, NOISE, COVERAGES)
    checks = [check for simulation in simulations for check in simulation(IN_SHORT)]
    promises = {"at most 0.05", "at least 0.9", "at least 0.93", "at least 0.98"}
    assert {check.promise for check in checks} == promises
    assert not any(check.fails for check in checks)


def test_findings_on_every_reading_beyond_its_limit_would_be_seen_to_fail(monkeypatch):
    monkeypatch.setattr(verdict, "holm", lambda p_values: [p / 10 for p in p_values])
    (check,) = AT_LIMITS(IN_SHORT)
    assert check.fails


def test_a_drawn_judge_reads_its_truth_and_has_the_problem():
    sheet = DrawnSheet(datasheet_suite(n_tasks=10))
    rng = np.random.default_rng(3)
    for key in ("slot_lean", "padding_lean", "positional_excess", "ability", "reading"):
        judge = Effect(key=key, icc=0.3).judge(0.7)
        values = [sheet.readings(judge, (key,), rng)[key].value for _ in range(20)]
        assert np.mean(values) == pytest.approx(judge.truth(key), abs=0.12)
        assert judge.truth(key) == pytest.approx(0.3 if key == "ability" else 0.7)
        assert key in judge.problems


def test_a_judge_at_its_limit_has_no_problem():
    assert [judge.problems for judge in LIMITED if judge.name == "every limit"] == [set()] * 3
