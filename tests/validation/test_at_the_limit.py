"""Judges at the limit: seldom decided wrongly, and a bad interval or rule would be seen."""

from __future__ import annotations

import numpy as np
import pytest

from jrh_mlflow.measures.rules import share_ends
from jrh_mlflow.stats.proportions import newcombe, wilson
from tests.validation import at_the_limit
from tests.validation.at_the_limit import (
    BASELINES,
    GATES,
    LOOKS,
    LOSSES,
    AtTheLimit,
)
from tests.validation.loop import DecisionCheck, SimulationSize
from tests.validation.parts import DECISIONS

IN_SHORT = SimulationSize(n=1000, quick=True)


@pytest.fixture(scope="module")
def checks() -> list[DecisionCheck]:
    return [check for simulation in GATES for check in simulation(IN_SHORT, map)]


def test_a_judge_at_the_limit_is_decided_wrongly_in_at_most_five_of_a_hundred_runs(checks):
    assert [check.name.split()[0] for check in checks] == ["axis"] * 4 + ["difference", "holds", "decided"]
    assert all(check.verdict == "ok" for check in checks)
    assert all(check.measured > 0 for check in checks[:4])
    assert all(check.measured == max(check.beside[state] for state in ("holds", "fails")) for check in checks[:5])


def test_intervals_that_take_calls_as_independent_would_be_seen_to_fail(monkeypatch):
    def by_call(counts):
        (a, n), (b, m) = ((int(hits.sum()), int(sizes.sum())) for hits, sizes in counts)
        return newcombe(b / m, wilson(b, m), a / n, wilson(a, n))

    monkeypatch.setattr(at_the_limit, "share_ends", by_call)
    (check,) = BASELINES(IN_SHORT, map)
    assert check.fails


def test_judges_are_drawn_at_their_rates_and_go_together_as_said():
    for together in (-1, 0, 1):
        pair = AtTheLimit(rate=0.5, baseline=0.3, n_tasks=10, iccs=(0.6, 0.6), together=together)
        judge, baseline = pair.drawn(np.random.default_rng(1), 500)
        assert judge.mean() / 6 == pytest.approx(0.5, abs=0.02)
        assert baseline.mean() / 6 == pytest.approx(0.3, abs=0.02)
        assert np.corrcoef(judge.ravel(), baseline.ravel())[0, 1] * (together or 1) > (0.6 if together else -0.1)


def test_the_interval_of_the_gate_is_the_one_that_is_validated():
    counts = [(np.array([1.0, 2, 0]), np.full(3, 4.0)), (np.array([2.0, 2, 1]), np.full(3, 4.0))]
    low, high = share_ends(counts)
    back = share_ends(counts[::-1])
    assert (low, high) == pytest.approx((-back[1], -back[0]))


def test_it_is_part_of_the_decisions_that_are_validated() -> None:
    assert set(GATES) <= set(DECISIONS.simulations)


def test_a_judge_that_loses_its_hits_does_not_hold_and_looks_keep_their_error() -> None:
    rows = [row for simulation in (LOSSES, LOOKS) for row in simulation(SimulationSize(n=200, seed=5, quick=True))]
    assert [row.promise for row in rows] == ["at most 0.05"] * 2
    assert not any(row.fails for row in rows)
    assert rows[1].beside["at 95 % each time"] >= rows[1].measured
