"""We test the tester, in short; `jrh validate` runs it at length."""

from __future__ import annotations

import pytest

from jrh_mlflow.evaluation.validate import truths, validate


@pytest.fixture(scope="module")
def checks():
    return validate(n_seeds=80, n_resamples=60)


def test_no_interval_misses_its_promise(checks) -> None:
    assert [check for check in checks if check.fails] == []


def test_every_estimator_is_checked_in_both_designs(checks) -> None:
    for design in ("independent", "clustered"):
        assert {check.axis for check in checks if check.design == design} == set(truths())


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
    assert {axis: truths()[axis] for axis in known} == pytest.approx(known)


def test_shares_are_unbiased_within_three_standard_errors(checks) -> None:
    for check in checks:
        if check.axis.startswith(("dark", "raw", "stable", "positional", "target_sensitivity", "natural")):
            # 80 seeds of at least 20 calls; a task's own rates widen it at most by half.
            assert abs(check.bias) < 3 * 1.5 * 0.5 / (80 * 20) ** 0.5


def test_plain_intervals_fail_on_clustered_tasks_and_the_check_would_see_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A test of the test: with the clustered interval replaced by the plain one, validation must fail."""
    from jrh_mlflow.scoring import ledger
    from jrh_mlflow.stats.proportions import wilson_share

    def plain(successes, sizes, *, level=0.95):
        return wilson_share(successes.sum() / sizes.sum(), sizes.sum(), level=level)

    monkeypatch.setattr(ledger, "cluster_wilson", plain)
    checks = validate(n_seeds=60, n_resamples=20)
    failing = {check.axis for check in checks if check.fails}
    assert {"dark_current", "different_subset_preference"} & failing
