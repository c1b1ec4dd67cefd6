"""What datasheets say would have been found, on simulated judges: kept, and told where it is not."""

from __future__ import annotations

import pytest

from jrh_mlflow.simulations import validate_findings
from jrh_mlflow.simulations.decision_checks import SimulationSize
from jrh_mlflow.simulations.validate_findings import BiasedTasks, check_findings

QUICK = SimulationSize(n=200, quick=True)


def test_a_bias_of_the_size_that_would_be_found_is_found_in_four_of_five_runs_and_no_gap_where_there_is_none() -> None:
    checks = {check.name: check for check in check_findings(QUICK, map)}
    assert list(checks) == ["bias found", "gap found where there is none", "gap found"]
    assert not any(check.fails for check in checks.values())
    assert 0.1 < checks["gap found"].beside["size"] < 0.3


def test_a_size_that_promises_too_much_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = BiasedTasks(n_tasks=10, n_calls=6, icc=0.95, shape="all or none")
    monkeypatch.setattr(validate_findings, "_SHARES", (whole,))
    monkeypatch.setattr(validate_findings, "_GAPS", ())
    (kept,) = check_findings(SimulationSize(n=2000), map)
    assert not kept.fails
    monkeypatch.setattr(validate_findings, "detectable_share", lambda n_tasks: 0.05)
    (broken,) = check_findings(SimulationSize(n=2000), map)
    assert broken.verdict == "FAILS: under 0.8"
