"""Watched judges, in small: `python -m tests.validation --only watch` runs a thousand judges over 500 looks."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from jrh_mlflow.stats.drift import Bets, alarm_threshold, look_score
from tests.validation.loop import SimulationSize
from tests.validation.watched_judges import (
    AXES,
    CHANGED,
    MOVED,
    N_REFERENCE,
    PART,
    SHARED,
    UNCHANGED,
    Drift,
    _Judges,
    first_alarms,
)


def test_the_quick_part_keeps_its_promises() -> None:
    rows = PART.rows(SimulationSize(n=30, quick=True))
    assert len({row.name for row in rows}) == 4
    assert not PART.failures(rows)


def test_every_stated_world_is_in_the_full_run() -> None:
    assert {world.noise for world in UNCHANGED} >= {0.0, 0.1, 0.3}
    assert {world.n_looks for world in (*UNCHANGED, *SHARED)} == {500}
    jumps = {(world.at, world.noise) for world in CHANGED if world.jump == 0.2 and world.within == 20}
    assert jumps == set(product((1, 10, 50), (0.0, 0.1, 0.3)))
    assert {world.noise for world in CHANGED if world.slow == 0.02 and world.within == 40} == {0.0, 0.1, 0.3}
    assert {(bool(world.judge), bool(world.application)) for world in MOVED} == set(product((True, False), repeat=2))


def test_a_change_is_as_large_as_its_world_says() -> None:
    for world in (Drift(noise=0.3, n_looks=1, jump=0.2), Drift(noise=0.1, n_looks=1, jump=0.2, on="ability")):
        judges = _Judges(world, 4000, np.random.default_rng(0))
        axis = next(axis for axis in AXES if axis.name == world.on)
        assert axis.levels is not None
        scores = [axis.levels[0][judges.ask(look)[:, axis.items]].mean() / axis.width for look in (0, 1)]
        assert abs(abs(scores[1] - scores[0]) - 0.2) < 0.01


@pytest.mark.slow
def test_a_test_that_takes_the_first_answers_for_the_truth_alarms_by_itself() -> None:
    world, n, rng = Drift(noise=0.3, n_looks=60), 100, np.random.default_rng(0)
    judges, axis = _Judges(world, n, rng), AXES[2]
    assert axis.levels is not None
    counts = sum(np.eye(3)[judges.ask(0)] for _ in range(N_REFERENCE))
    bets, alarmed = Bets(n, n_reference=N_REFERENCE), np.zeros(n, dtype=bool)
    for look in range(1, world.n_looks + 1):
        newest = judges.ask(look)[:, axis.items]
        score = look_score(axis.levels[None], counts[:, axis.items], newest, rng.random(n))
        alarmed |= bets.bet(score.z) >= alarm_threshold(1)
    assert alarmed.mean() > 0.3
    assert (first_alarms(world, n, rng) > 0).mean() <= 0.05
