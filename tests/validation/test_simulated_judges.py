"""We test the tester, in short: estimators on judges of known rates, and replicates."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain

import numpy as np
import pytest

from jrh_mlflow.scoring import ledger
from jrh_mlflow.suites import datasheet_suite
from tests.validation import simulated_judges
from tests.validation.coverage import weighed_cells
from tests.validation.loop import SimulationSize, worker_map
from tests.validation.simulated_judges import (
    ESTIMATORS,
    judged_suites,
    known_readings,
    moved_by_replicates,
)
from tests.validation.test_coverage import plain


def measured(suite, *, n_seeds, n_resamples, seed=0, apply=map):
    worlds = judged_suites(suite, n_resamples=n_resamples)
    return replace(ESTIMATORS, worlds=worlds)(SimulationSize(n=n_seeds, seed=seed), apply)


@pytest.fixture(scope="module")
def suite():
    return datasheet_suite(n_tasks=10, depth=3)


@pytest.fixture(scope="module")
def small():
    return datasheet_suite(n_tasks=3, depth=1)


@pytest.fixture(scope="module")
def checks(suite):
    return measured(suite, n_seeds=12, n_resamples=20)


def test_no_interval_of_any_estimator_misses_its_promise(checks):
    assert [check for check in checks if check.fails] == []
    known = {axis for axis in known_readings() if not axis.endswith(("delta_4", "delta_5"))}
    for design in ("independent", "clustered"):
        designs = {check.design for check in checks}
        assert {axis for axis in known if f"{axis}, {design}" not in designs} == set()


def test_truths_are_those_worked_out_by_hand():
    """Equal pairs: 15 % stable, 25 % positional, 20 % one-sided; step 1: 55 % right, 18 % ties."""
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


def test_shares_are_unbiased_within_three_standard_errors(checks):
    shares = ("dark", "raw", "stable", "positional", "target_sensitivity", "natural")
    for check in checks:
        if check.design.startswith(shares):
            # 12 seeds of at least 20 calls; a task's own rates widen it at most by half.
            assert abs(check.beside["bias"]) < 3 * 1.5 * 0.5 / (12 * 20) ** 0.5


def test_plain_intervals_fail_on_clustered_tasks_and_the_check_would_see_it(monkeypatch):
    monkeypatch.setattr(ledger, "cluster_interval", plain)
    monkeypatch.setattr(simulated_judges, "ICC", 0.5)
    checks = measured(datasheet_suite(design="paper", depth=1), n_seeds=10, n_resamples=2)
    assert "tie_rate/vacuum, clustered" in {check.design for check in checks if check.fails}


@pytest.mark.slow
def test_the_number_of_processes_changes_nothing(small):
    def found(apply):
        checks = measured(small, n_seeds=2, n_resamples=2, seed=7, apply=apply)
        return checks, weighed_cells([10], [2, 12], draws=1, seed=7, apply=apply)

    with worker_map(2) as apply:
        # One job after the other: a second process would import everything for no other answer.
        one_by_one = chain.from_iterable
        assert found(lambda run, jobs: one_by_one(apply(run, [job]) for job in jobs)) == found(map)


def test_another_seed_takes_other_judges(small):
    first, second = (measured(small, n_seeds=2, n_resamples=2, seed=seed) for seed in (0, 1))
    assert [check.beside for check in first] != [check.beside for check in second]


def test_replicates_of_the_same_answers_move_no_clustered_interval(suite, monkeypatch):
    moved = moved_by_replicates(suite, n_resamples=20)
    axes = {"dark_current", "target_sensitivity/delta_1", "reading_gap/delta_1"}
    assert axes <= moved.keys()
    assert not any(moved.values())

    def counted_as_units(hits, presentation, cluster):
        return np.bincount(cluster, weights=hits), np.bincount(cluster).astype(float)

    monkeypatch.setattr(ledger, "collapse_replicates", counted_as_units)
    assert moved_by_replicates(suite, n_resamples=20)["stable_cross_sensitivity"]
