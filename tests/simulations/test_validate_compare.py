"""Simulated differences: what `jrh validate --only decisions` says of intervals and equivalence, in small."""

from __future__ import annotations

import numpy as np
import pytest

from jrh_mlflow.simulations import validate_compare
from jrh_mlflow.simulations.decision_checks import SimulationSize
from jrh_mlflow.simulations.validate_compare import AT_THE_MARGIN, DUELS, Duel, check_compare, draw_duel


def quick() -> dict[str, object]:
    return {check.name: check for check in check_compare(SimulationSize(n=100, quick=True), map)}


def test_intervals_cover_where_a_bootstrap_of_ten_tasks_does_not():
    found = quick()["difference in its interval"]
    assert found.verdict == "ok"
    assert found.beside["bootstrap alone"] < 0.93


def test_judges_that_differ_by_the_margin_are_not_called_equivalent():
    assert quick()["equivalent falsely"].measured <= 0.05


def test_an_equivalence_that_asks_for_nothing_is_seen_to_fail(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(validate_compare, "is_equivalent", lambda ends, margin: True)
    assert quick()["equivalent falsely"].fails


@pytest.mark.parametrize("duel", [*DUELS[:2], AT_THE_MARGIN[3]], ids=str)
def test_duels_have_the_rates_they_state(duel: Duel):
    rng = np.random.default_rng(0)
    shares = np.mean([[draw_duel(duel, rng).scores[name].mean() for name in "ab"] for _ in range(300)], axis=0)
    assert shares == pytest.approx(duel.rates, abs=0.02)
