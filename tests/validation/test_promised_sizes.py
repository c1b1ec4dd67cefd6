"""Plans, and what datasheets say would have been found: kept on simulated judges, and told where it is not."""

from __future__ import annotations

import pytest

from jrh_mlflow.stats import power
from tests.validation.loop import DecisionCheck, Simulation, SimulationSize
from tests.validation.parts import DECISIONS
from tests.validation.promised_sizes import GAPS, PLANS


def named(simulations: tuple[Simulation, ...], size: SimulationSize) -> dict[str, DecisionCheck]:
    return {check.name: check for simulation in simulations for check in simulation(size)}


def test_planned_widths_are_met_and_planned_differences_found() -> None:
    assert set(PLANS) <= set(DECISIONS.simulations)
    checks = named(PLANS, SimulationSize(n=5000, quick=True))
    assert list(checks) == ["width off by", "limit decided", "told apart as planned"]
    assert not any(check.fails for check in checks.values())
    assert checks["told apart as planned"].measured < 0.95


def test_a_plan_with_too_few_tasks_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(power, "tasks_for_width", lambda *_, **__: 12)
    monkeypatch.setattr(power, "tasks_for_difference", lambda *_, **__: 7)
    monkeypatch.setattr(power, "simulated_power", lambda *_, **__: 1.0)
    checks = named(PLANS, SimulationSize(n=5000, quick=True))
    assert checks["width off by"].fails
    assert checks["told apart as planned"].fails


def test_a_gap_of_the_size_that_would_be_found_is_found_in_four_of_five_runs_and_none_where_there_is_none() -> None:
    checks = named((GAPS,), SimulationSize(n=200, quick=True))
    assert list(checks) == ["gap found where there is none", "gap found"]
    assert not any(check.fails for check in checks.values())
    assert 0.1 < checks["gap found"].beside["size"] < 0.3
