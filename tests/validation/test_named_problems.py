"""Judges of known behaviour get their own problems, in small."""

from __future__ import annotations

import numpy as np
import pytest

from jrh_mlflow.measures import verdict
from jrh_mlflow.schema.estimates import Estimate
from jrh_mlflow.suites import datasheet_suite
from tests.validation import named_problems
from tests.validation.loop import Batch, DecisionCheck, SimulationSize
from tests.validation.named_problems import (
    AT_LIMITS,
    COVERAGES,
    EFFECTS,
    EXPECTED,
    NOISE,
    PART,
    DrawnJudge,
    DrawnSheet,
    Effect,
)
from tests.validation.parts import PARTS

IN_SHORT = SimulationSize(n=10, quick=True)


def in_short(*simulations: object) -> list[DecisionCheck]:
    return [check for simulation in simulations for check in simulation(IN_SHORT)]


@pytest.mark.parametrize("judge", sorted(EXPECTED))
def test_a_judge_gets_its_own_problems_and_no_others(judge: str) -> None:
    (problems,) = named_problems._problems_of(judge, Batch(seed=0, runs=range(1), number=None))
    assert problems == EXPECTED[judge]


@pytest.mark.slow
def test_few_problems_are_named_at_a_limit_and_large_ones_are_found() -> None:
    assert PART in PARTS
    checks = in_short(AT_LIMITS, EFFECTS, NOISE, COVERAGES)
    assert {check.promise for check in checks} == {"at most 0.05", "at least 0.9", "at least 0.93", "at least 0.98"}
    assert not any(check.fails for check in checks)


def test_findings_on_every_reading_beyond_its_limit_would_be_seen_to_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verdict, "holm", lambda p_values: [p / 10 for p in p_values])
    (check,) = in_short(AT_LIMITS)
    assert check.fails


def test_a_drawn_judge_reads_its_truth() -> None:
    sheet, rng = DrawnSheet(datasheet_suite(n_tasks=10)), np.random.default_rng(3)
    for key in ("slot_lean", "padding_lean", "positional_excess", "ability", "reading"):
        judge = Effect(key=key, icc=0.3).judge(0.7)
        readings = [sheet.readings(judge, (key,), rng)[key] for _ in range(20)]
        assert all(isinstance(reading, Estimate) for reading in readings)
        assert np.mean([reading.value for reading in readings]) == pytest.approx(judge.truth(key), abs=0.12)
        assert judge.truth(key) == pytest.approx(0.3 if key == "ability" else 0.7)
        assert judge.has(key)


def test_a_judge_at_its_limit_has_no_problem() -> None:
    judge = DrawnJudge(name="at", does=named_problems._AT_LIMITS["every limit"])
    assert not any(judge.has(key) for key in named_problems._KINDS)
