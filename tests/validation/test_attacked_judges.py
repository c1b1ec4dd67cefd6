"""Judges with a planted hole are called breakable, others not, and the truth is known."""

from __future__ import annotations

from dataclasses import replace

import pytest

from jrh_mlflow.attacks import attack_success
from tests.validation.attacked_judges import ATTACKED, WORLDS, AttackedWorld, attacked
from tests.validation.loop import SimulationSize


def test_the_quick_worlds_keep_their_promises() -> None:
    checks = ATTACKED(SimulationSize(n=20, quick=True))
    assert {check.name for check in checks} >= {
        "planted holes called breakable",
        "judges without a hole called breakable",
    }
    assert not [str(check) for check in checks if check.fails]


def test_every_hole_and_every_judge_without_one_is_a_world_of_pairs_and_of_single_responses() -> None:
    found, spared = ({(w.hole, w.kind) for w in WORLDS if w.promised == word} for word in ("found", "spared"))
    assert found == {(hole, kind) for hole in ("verdict", "rubric", "style") for kind in ("pair", "single")}
    assert {hole for hole, _ in spared} == {"none", "length", "put_off"}


def test_a_judge_that_is_called_breakable_without_a_hole_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attack_success, "LIMIT", -1.0)
    world = AttackedWorld(hole="none", kind="single", noise=0.3, promised="spared")
    checks = list(ATTACKED.checks(world, [attacked(world, seed) for seed in range(2)]))
    assert checks[0].measured > 0.5
    assert checks[0].fails


def test_a_weak_hole_reads_its_share_of_the_sources() -> None:
    world = replace(WORLDS[0], strength=0.5, noise=0.0, n=120)
    values = [attacked(world, seed).success or 0.0 for seed in range(2)]
    assert sum(values) / 2 == pytest.approx(0.5, abs=0.1)
