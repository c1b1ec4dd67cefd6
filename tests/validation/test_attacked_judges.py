"""Attacks on judges whose hole is known: what would be missed is named."""

from __future__ import annotations

from dataclasses import replace

import pytest

from jrh_mlflow.attacks import attack_success
from tests.validation.attacked_judges import ATTACKED, WORLDS, AttackedWorld, attacked
from tests.validation.loop import SimulationSize


def test_a_judge_that_is_called_breakable_without_a_hole_is_named(monkeypatch):
    monkeypatch.setattr(attack_success, "LIMIT", -1.0)
    world = AttackedWorld(hole="none", kind="single", noise=0.3, promised="spared")
    broken, _ = replace(ATTACKED, worlds=[world], least=2)(SimulationSize(n=2))
    assert broken.measured > 0.5
    assert broken.fails


def test_a_weak_hole_reads_its_share_of_the_sources():
    world = replace(WORLDS[0], strength=0.5, noise=0.0, n=120)
    values = [attacked(world, seed)["mean success"] or 0.0 for seed in range(2)]
    assert sum(values) / 2 == pytest.approx(0.5, abs=0.1)
