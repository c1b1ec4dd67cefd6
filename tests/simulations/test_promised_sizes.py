"""Plans, and what datasheets say would have been found: kept on simulated judges, and told where it is not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from jrh_mlflow.decisions import planning
from jrh_mlflow.simulations import DECISIONS, promised_sizes
from jrh_mlflow.simulations.loop import DecisionCheck, Simulation, SimulationSize, listed
from jrh_mlflow.simulations.promised_sizes import BIASES, GAPS, PLANS, BiasedTasks


def named(simulations: tuple[Simulation, ...], size: SimulationSize) -> dict[str, DecisionCheck]:
    return {check.name: check for simulation in simulations for check in simulation(size)}


def test_planned_widths_are_met_and_planned_differences_found() -> None:
    assert set(PLANS) <= set(DECISIONS.simulations)
    checks = named(PLANS, SimulationSize(n=5000, quick=True))
    assert list(checks) == ["width off by", "limit decided", "told apart as planned"]
    assert not any(check.fails for check in checks.values())
    assert checks["told apart as planned"].measured < 0.95


def test_a_plan_with_too_few_tasks_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning, "tasks_for_width", lambda *_, **__: 12)
    monkeypatch.setattr(planning, "tasks_for_difference", lambda *_, **__: 7)
    monkeypatch.setattr(planning, "simulated_power", lambda *_, **__: 1.0)
    checks = named(PLANS, SimulationSize(n=5000, quick=True))
    assert checks["width off by"].fails
    assert checks["told apart as planned"].fails


def test_a_bias_of_the_size_that_would_be_found_is_found_in_four_of_five_runs_and_no_gap_where_there_is_none() -> None:
    checks = named((BIASES, GAPS), SimulationSize(n=200, quick=True))
    assert list(checks) == ["bias found", "gap found where there is none", "gap found"]
    assert not any(check.fails for check in checks.values())
    assert 0.1 < checks["gap found"].beside["size"] < 0.3


def test_a_size_that_promises_too_much_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = BiasedTasks(n_tasks=10, n_calls=6, icc=0.95, shape="all or none")
    simulation = replace(BIASES, worlds=listed([whole], quick=()))
    (kept,) = simulation(SimulationSize(n=2000))
    assert not kept.fails
    monkeypatch.setattr(promised_sizes, "detectable_share", lambda n_tasks: 0.05)
    (broken,) = simulation(SimulationSize(n=2000))
    assert broken.verdict == "FAILS: under 0.8"
