"""We test the tester, in short; `python -m tests.validation` runs it at length."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain

import numpy as np
import pytest

from jrh_mlflow.stats import proportions
from jrh_mlflow.suites import datasheet_suite
from tests.validation import coverage
from tests.validation.coverage import weighed_cells
from tests.validation.loop import SimulationSize, worker_map
from tests.validation.simulated_judges import (
    ESTIMATORS,
    REPLICATES,
    judged_suites,
    known_readings,
    moved_by_replicates,
)


def measured(suite, *, n_seeds, n_resamples, seed=0, apply=map):
    simulation = replace(ESTIMATORS, worlds=lambda size, apply: judged_suites(suite, n_resamples=n_resamples))
    return simulation(SimulationSize(n=n_seeds, seed=seed), apply)


@pytest.fixture(scope="module")
def suite():
    return datasheet_suite(n_tasks=10, depth=3)


@pytest.fixture(scope="module")
def small():
    return datasheet_suite(n_tasks=3, depth=1)


@pytest.fixture(scope="module")
def checks(suite):
    return measured(suite, n_seeds=12, n_resamples=20)


def test_no_interval_misses_its_promise(checks) -> None:
    assert [check for check in checks if check.fails] == []


def test_every_estimator_is_checked_in_both_designs(checks) -> None:
    for design in ("independent", "clustered"):
        beyond = ("delta_4", "delta_5")
        known = {axis for axis in known_readings() if not axis.endswith(beyond)}
        assert {check.axis for check in checks if check.design == design} == known


def test_truths_are_those_worked_out_by_hand() -> None:
    """Equal pairs: 15 % stable, 25 % positional, 20 % one-sided; at step 1 55 % right, 18 % ties."""
    known = {
        "dark_current": 0.15,
        "tie_rate/vacuum": 0.85,
        "raw_false_preference": 0.15 + 0.25 + 0.1,
        "different_subset_preference": 0.5,
        "stable_cross_sensitivity": 0.15,
        "positional_false_preference": 0.25,
        "one_sided_commit": 0.2,
        "no_preference": 0.4,
        "filler_preference": 0.6,
        "target_sensitivity/delta_1": 0.55,
        "conditional_accuracy/delta_1": 0.55 / (1 - 0.18),
        "miss_by_tie/delta_1": 0.18,
        "wrong_choice/delta_1": 0.27,
        "threshold_75": 2.75,
    }
    assert {axis: known_readings()[axis] for axis in known} == pytest.approx(known)


def test_shares_are_unbiased_within_three_standard_errors(checks) -> None:
    for check in checks:
        if check.axis.startswith(("dark", "raw", "stable", "positional", "target_sensitivity", "natural")):
            # 12 seeds of at least 20 calls; a task's own rates widen it at most by half.
            assert abs(check.bias) < 3 * 1.5 * 0.5 / (12 * 20) ** 0.5


def plain(successes, sizes, *, level=0.95):
    return proportions.wilson_share(successes.sum() / sizes.sum(), sizes.sum(), level=level)


def test_plain_intervals_fail_on_clustered_tasks_and_the_check_would_see_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A test of the test: with the clustered interval replaced by the plain one, validation must fail."""
    from jrh_mlflow.scoring import ledger
    from tests.validation import simulated_judges

    monkeypatch.setattr(ledger, "cluster_interval", plain)
    monkeypatch.setattr(simulated_judges, "ICC", 0.5)
    checks = measured(datasheet_suite(design="paper", depth=1), n_seeds=10, n_resamples=2)
    assert "tie_rate/vacuum" in {check.axis for check in checks if check.fails}


@pytest.mark.parametrize("n_calls", [2, 12])
def test_the_interval_of_a_share_holds_and_wilson_on_the_calls_would_not(n_calls, monkeypatch) -> None:
    """Exact sums over 2 calls, draws over 12."""
    cells = weighed_cells(n_tasks=[10], n_calls=[n_calls], draws=5)
    assert coverage.PART.failures(cells) == []
    monkeypatch.setattr(proportions, "cluster_interval", plain)
    cells = weighed_cells(n_tasks=[10], n_calls=[n_calls], draws=5)
    assert coverage.PART.failures(cells)[0].startswith(f"10 tasks × {n_calls} calls, ICC 0.6")


@pytest.mark.slow
def test_the_number_of_processes_changes_nothing(small) -> None:
    def found(apply):
        checks = measured(small, n_seeds=2, n_resamples=2, seed=7, apply=apply)
        return checks, weighed_cells(n_tasks=[10], n_calls=[2, 12], draws=1, seed=7, apply=apply)

    with worker_map(2) as apply:
        # One job after the other: a second process would import everything for no other answer.
        assert found(lambda function, jobs: [*chain(*(apply(function, [job]) for job in jobs))]) == found(map)


def test_another_seed_takes_other_judges_and_other_draws(small) -> None:
    first, second = (measured(small, n_seeds=2, n_resamples=2, seed=seed) for seed in (0, 1))
    assert [check.bias for check in first] != [check.bias for check in second]
    cells = [weighed_cells(n_tasks=[10], n_calls=[12], draws=1, seed=seed) for seed in (0, 1)]
    assert cells[0] != cells[1]


def test_replicates_of_the_same_answers_move_no_clustered_interval(suite) -> None:
    checks = moved_by_replicates(suite, n_resamples=20)
    axes = {"dark_current", "raw_false_preference", "target_sensitivity/delta_1", "reading_gap/delta_1"}
    assert axes <= {check.axis for check in checks}
    assert [check.axis for check in checks if check.fails] == []


def test_replicates_that_count_as_new_units_are_a_failure(suite, monkeypatch) -> None:
    from jrh_mlflow.scoring import ledger

    monkeypatch.setattr(ledger, "collapse_replicates", _counted_as_units)
    checks = moved_by_replicates(suite, n_resamples=20)
    assert REPLICATES.facts(checks)["stable_cross_sensitivity"]
    assert any("stable_cross_sensitivity" in text for text in REPLICATES.failures(checks))


def _counted_as_units(hits, presentation, cluster):
    return np.bincount(cluster, weights=hits), np.bincount(cluster).astype(float)
