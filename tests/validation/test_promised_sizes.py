"""Plans, and what datasheets say would have been found: too small a plan is named."""

from __future__ import annotations

from dataclasses import replace

from jrh_mlflow.stats import power
from tests.validation.loop import SimulationSize
from tests.validation.promised_sizes import DIFFERENCES, GAPS, WIDTHS

SIZE = SimulationSize(n=5000, quick=True)


def test_planned_widths_are_met_and_planned_differences_found():
    width, limit = WIDTHS(SIZE)
    (difference,) = DIFFERENCES(SIZE)
    assert not any(check.fails for check in (width, limit, difference))
    assert difference.measured < 0.95


def test_a_plan_with_too_few_tasks_is_named(monkeypatch):
    monkeypatch.setattr(power, "tasks_for_width", lambda *_, **__: 12)
    monkeypatch.setattr(power, "tasks_for_difference", lambda *_, **__: 7)
    monkeypatch.setattr(power, "simulated_power", lambda *_, **__: 1.0)
    for simulation in (WIDTHS, DIFFERENCES):
        # A copy has no plan yet.
        planned = replace(simulation, quick=[replace(wish) for wish in simulation.quick])
        assert planned(SIZE)[0].fails


def test_a_gap_is_found_at_the_size_that_would_be_found_and_not_where_there_is_none():
    falsely, rightly = GAPS(SimulationSize(n=200, quick=True))
    assert not falsely.fails
    assert not rightly.fails
    assert 0.1 < rightly.beside["size"] < 0.3
