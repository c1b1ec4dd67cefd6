"""Optimisers of known worth on 400 simulated splits: nothing is seldom called better."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from jrh_mlflow.people.alignment.held_out import BETTER, NOT_WORSE, SENT_BACK
from tests.validation import optimisers
from tests.validation.loop import SimulationSize
from tests.validation.optimisers import ALIGNMENTS, MEMORISING, MENDING, NOISE, NOTHING, Splits


def checked(**splits):
    return replace(ALIGNMENTS, worlds=[Splits(**splits)])(SimulationSize())


@pytest.fixture(scope="module")
def checks():
    return checked(traces=(100, 200), accuracies=(0.7, 0.9))


def of(checks, name):
    return [check for check in checks if check.design.startswith(name)]


def test_an_optimiser_that_does_nothing_is_called_better_in_at_most_five_percent(checks):
    nothing = of(checks, NOTHING)
    assert len(nothing) == 8
    assert {check.n for check in nothing} == {400}
    assert all(check.measured <= 0.05 and not check.fails for check in nothing)
    assert any(check.measured > 0 for check in nothing), "noise is drawn"


def test_one_that_memorises_is_sent_back_though_it_shines_where_it_learned(checks):
    for check in of(checks, MEMORISING):
        assert check.beside["in training"] > 0.09
        assert check.beside["held-out truth"] < -0.15
        assert check.measured > 0.99


def test_one_that_is_truly_better_is_mostly_found_and_oftener_with_more_traces(checks):
    few, many = (check for check in of(checks, MENDING) if "judge 0.7" in check.design)
    assert 0.3 < few.measured < many.measured
    assert many.measured > 0.8
    assert many.beside[SENT_BACK] < 0.05


def test_a_decision_by_the_sign_of_the_difference_would_be_caught(monkeypatch):
    def by_sign(gains, losses, n, *, margin):
        no_gain = np.where(gains == losses, NOT_WORSE, SENT_BACK)
        return np.where(gains > losses, BETTER, no_gain)

    monkeypatch.setattr(optimisers, "align_decisions", by_sign)
    (noisy,) = of(checked(traces=(200,), accuracies=(0.7,)), NOISE)
    assert noisy.fails
    assert noisy.measured > 0.4
