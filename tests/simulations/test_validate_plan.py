"""Simulated suites of planned sizes: plans keep what they promise, and one that does not is named."""

from __future__ import annotations

import pytest

from jrh_mlflow.decisions import planning
from jrh_mlflow.simulations.decision_checks import SimulationSize
from jrh_mlflow.simulations.validate_decisions import SIMULATIONS
from jrh_mlflow.simulations.validate_plan import check_plan

QUICK = SimulationSize(n=5000, quick=True)


def test_planned_widths_are_met_and_planned_differences_found() -> None:
    assert check_plan in SIMULATIONS
    checks = {check.name: check for check in check_plan(QUICK, map)}
    assert list(checks) == ["width off by", "limit decided", "told apart as planned"]
    assert not any(check.fails for check in checks.values())
    assert checks["told apart as planned"].measured < 0.95


def test_a_plan_with_too_few_tasks_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning, "tasks_for_width", lambda *_, **__: 12)
    monkeypatch.setattr(planning, "tasks_for_difference", lambda *_, **__: 7)
    monkeypatch.setattr(planning, "simulated_power", lambda *_, **__: 1.0)
    checks = {check.name: check for check in check_plan(QUICK, map)}
    assert checks["width off by"].fails
    assert checks["told apart as planned"].fails
