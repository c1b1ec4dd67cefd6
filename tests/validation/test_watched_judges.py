"""Watched judges, in small: a thousand judges over 500 looks take minutes."""

from __future__ import annotations

import numpy as np
import pytest

from jrh_mlflow.stats.drift import Bets, alarm_threshold, look_score
from tests.validation.watched_judges import (
    AXES,
    N_REFERENCE,
    Drift,
    WatchedJudges,
    first_alarms,
)


@pytest.mark.parametrize(("on", "noise"), [("raw_false_preference", 0.3), ("ability", 0.1)])
def test_a_change_is_as_large_as_its_world_says(on, noise):
    world = Drift(noise=noise, n_looks=1, jump=0.2, on=on)
    judges = WatchedJudges(world, 4000, np.random.default_rng(0))
    axis = next(axis for axis in AXES if axis.name == on)
    answers = [judges.ask(look)[:, axis.items] for look in (0, 1)]
    before, after = (axis.levels[0][answer].mean() / axis.width for answer in answers)
    assert abs(after - before) == pytest.approx(0.2, abs=0.01)


@pytest.mark.slow
def test_a_test_that_takes_the_first_answers_for_the_truth_alarms_by_itself():
    world = Drift(noise=0.3, n_looks=60)
    n = 100
    rng = np.random.default_rng(0)
    judges = WatchedJudges(world, n, rng)
    axis = AXES[2]
    counts = sum(np.eye(3)[judges.ask(0)] for _ in range(N_REFERENCE))
    bets = Bets(n, n_reference=N_REFERENCE)
    alarmed = np.zeros(n, dtype=bool)
    for look in range(1, world.n_looks + 1):
        newest = judges.ask(look)[:, axis.items]
        score = look_score(axis.levels[None], counts[:, axis.items], newest, rng.random(n))
        alarmed |= bets.bet(score.z) >= alarm_threshold(1)
    assert alarmed.mean() > 0.3
    assert (first_alarms(world, n, rng) > 0).mean() <= 0.05
