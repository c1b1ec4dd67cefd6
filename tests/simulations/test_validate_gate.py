"""Gates on simulated judges at the limit of their rule: seldom decided wrongly, and it would be seen if they were."""

from __future__ import annotations

import numpy as np
import pytest

from jrh_mlflow.decisions.axis_readings import share_ends
from jrh_mlflow.simulations import validate_gate
from jrh_mlflow.simulations.decision_checks import SimulationSize
from jrh_mlflow.simulations.validate_gate import AtTheLimit, check_gate
from jrh_mlflow.stats.proportions import newcombe, wilson

IN_SHORT = SimulationSize(n=1000, quick=True)


@pytest.fixture(scope="module")
def checks():
    return check_gate(IN_SHORT, map)


def test_a_judge_at_the_limit_is_decided_wrongly_in_at_most_five_of_a_hundred_runs(checks):
    assert [check.name.split()[0] for check in checks] == ["axis"] * 4 + ["difference"]
    assert all(check.verdict == "ok" for check in checks)
    assert all(check.measured > 0 for check in checks[:4])
    assert all(check.measured == max(check.beside.values()) for check in checks)


def test_intervals_that_take_calls_as_independent_would_be_seen_to_fail(monkeypatch):
    def by_call(counts):
        (a, n), (b, m) = ((int(hits.sum()), int(sizes.sum())) for hits, sizes in counts)
        return newcombe(b / m, wilson(b, m), a / n, wilson(a, n))

    monkeypatch.setattr(validate_gate, "share_ends", by_call)
    assert check_gate(IN_SHORT, map)[-1].fails


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
