"""Judges at the limit of a gate: seldom decided wrongly, and a bad interval would be seen."""

from __future__ import annotations

import numpy as np
import pytest

from jrh_mlflow.stats.proportions import newcombe, wilson
from tests.validation import at_the_limit
from tests.validation.at_the_limit import BASELINES, LOOKS, LOSSES, AtTheLimit, check_axis_rules
from tests.validation.loop import SimulationSize

IN_SHORT = SimulationSize(n=1000, quick=True)


def test_a_judge_at_the_limit_is_decided_wrongly_in_at_most_five_of_a_hundred_runs():
    of_axes = check_axis_rules(IN_SHORT, map)
    assert len(of_axes) == 4
    checks = [*of_axes, *BASELINES(IN_SHORT), *LOOKS(IN_SHORT)]
    assert all(check.verdict == "ok" for check in checks)
    assert all(check.measured > 0 for check in of_axes)
    for check in checks:
        assert check.measured == max(check.beside["holds"], check.beside["fails"])


def test_a_judge_that_loses_its_hits_does_not_hold_and_looks_keep_their_error():
    size = SimulationSize(n=200, seed=5, quick=True)
    losses, looks = [*LOSSES(size), *LOOKS(size)]
    assert not losses.fails
    assert not looks.fails
    assert looks.beside["fails at 95 % each time"] >= looks.beside["fails"]


def test_intervals_that_take_calls_as_independent_would_be_seen_to_fail(monkeypatch):
    def by_call(counts):
        (a, n), (b, m) = ((int(hits.sum()), int(sizes.sum())) for hits, sizes in counts)
        return newcombe(b / m, wilson(b, m), a / n, wilson(a, n))

    monkeypatch.setattr(at_the_limit, "share_ends", by_call)
    (check,) = BASELINES(IN_SHORT)
    assert check.fails


@pytest.mark.parametrize("together", [-1, 0, 1])
def test_judges_are_drawn_at_their_rates_and_go_together_as_said(together):
    pair = AtTheLimit(rate=0.5, baseline=0.3, n_tasks=10, iccs=(0.6, 0.6), together=together)
    judge, baseline = pair.drawn(np.random.default_rng(1), 500)
    assert [judge.mean() / 6, baseline.mean() / 6] == pytest.approx([0.5, 0.3], abs=0.02)
    correlation = np.corrcoef(judge.ravel(), baseline.ravel())[0, 1]
    assert abs(correlation - 0.8 * together) < 0.2
