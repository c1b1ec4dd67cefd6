"""Optimisers of known worth on 400 simulated splits: nothing is seldom called better, memorising is sent back."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from jrh_mlflow.people.alignment.held_out import BETTER, NOT_WORSE, SENT_BACK
from tests.validation import optimisers
from tests.validation.loop import SimulationSize, listed
from tests.validation.optimisers import ALIGNMENTS, MEMORISING, SplitCheck, Splits


def checked(**splits: object) -> list[SplitCheck]:
    return replace(ALIGNMENTS, worlds=listed([Splits(**splits)], quick=()))(SimulationSize())


@pytest.fixture(scope="module")
def checks() -> list[SplitCheck]:
    return checked(traces=(100, 200), accuracies=(0.7, 0.9))


def of(checks: list[SplitCheck], name: str) -> list[SplitCheck]:
    return [check for check in checks if check.optimiser.startswith(name)]


def test_an_optimiser_that_does_nothing_is_called_better_in_at_most_five_percent_of_400_splits(checks):
    nothing = of(checks, "does nothing")
    assert len(nothing) == 8
    assert {check.splits for check in nothing} == {400}
    assert all(check.shares["better"] <= 0.05 and not check.fails for check in nothing)
    assert any(check.shares["better"] > 0 for check in nothing), "noise is drawn"


def test_one_that_memorises_is_sent_back_though_it_shines_where_it_learned(checks):
    for check in of(checks, MEMORISING):
        assert check.in_training > 0.09
        assert check.truth < -0.15
        assert check.shares["sent back"] > 0.99


def test_one_that_is_truly_better_is_mostly_found_and_oftener_with_more_traces(checks):
    few, many = (check for check in of(checks, "mends") if check.accuracy == 0.7)
    assert (few.held_out, many.held_out) == (50, 100)
    assert 0.3 < few.shares["better"] < many.shares["better"]
    assert many.shares["better"] > 0.8
    assert many.shares["sent back"] < 0.05


def test_a_decision_by_the_sign_of_the_difference_would_be_caught(monkeypatch):
    def by_sign(gains, losses, n, *, margin):
        return np.where(gains > losses, BETTER, np.where(gains == losses, NOT_WORSE, SENT_BACK))

    monkeypatch.setattr(optimisers, "align_decisions", by_sign)
    noisy = of(checked(traces=(200,), accuracies=(0.7,)), "does nothing, the judge is noisy")
    assert noisy[0].fails
    assert "does nothing, the judge is noisy, judge 0.7, 100 held out: better 0.4" in str(noisy[0])


def test_a_few_splits_suffice_to_run() -> None:
    checks = checked(splits=100, traces=(200,), accuracies=(0.8,))
    assert [check.fails for check in checks] == [False, False, False, False]
