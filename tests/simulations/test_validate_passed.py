"""Applications of a known failure rate before a judge that errs: what the rule makes of them; a bad rule is seen."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom

from jrh_mlflow.simulations import validate_passed
from jrh_mlflow.simulations.decision_checks import DecisionCheck, SimulationSize
from jrh_mlflow.simulations.validate_decisions import SIMULATIONS
from jrh_mlflow.simulations.validate_passed import Verdicts, best_power, check_passed
from jrh_mlflow.stats import Mask
from jrh_mlflow.stats.failure_rates import FailureCounts


def checks(n: int = 500) -> dict[str, DecisionCheck]:
    return {check.name: check for check in check_passed(SimulationSize(n=n, quick=True), map)}


def test_a_perfect_application_passes_and_one_at_the_limit_does_not() -> None:
    found = checks()
    assert [check.name for check in found.values() if check.fails] == []
    assert found["passed at the limit"].measured <= 0.05 + 3 * found["passed at the limit"].error
    assert found["failed at the limit"].measured <= 0.05 + 3 * found["failed at the limit"].error
    perfect = found["perfect application passed"]
    assert perfect.measured >= 0.95
    assert perfect.beside["every row passed"] == pytest.approx(0.95**50, abs=0.03)


def test_a_rule_that_takes_the_judge_at_its_word_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def by_the_judge_alone(theta: float, counts: FailureCounts) -> Mask:
        return np.asarray(counts.failed) / counts.rows <= theta

    monkeypatch.setattr(validate_passed, "too_few", by_the_judge_alone)
    assert {name for name, check in checks(200).items() if check.fails} == {
        "passed at the limit",
        "failed at the limit",
    }


@pytest.mark.parametrize("drawn", ["at random", "within labels"])
def test_labels_are_drawn_at_random_or_as_many_of_each_kind(drawn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kinds = []

    def note(theta: float, counts: FailureCounts) -> Mask:
        kinds.append(counts.failures if theta < 0.5 else counts.passes)
        return np.zeros(np.shape(counts.failed), dtype=bool)

    monkeypatch.setattr(validate_passed, "too_few", note)
    monkeypatch.setattr(validate_passed, "_QUICK", (Verdicts(found=0.9, drawn=drawn),))
    checks(50)
    assert (len(set(kinds)) > 5) == (drawn == "at random")
    assert np.mean(kinds) == pytest.approx(100, abs=5)


def test_it_is_part_of_the_decisions_that_are_validated() -> None:
    assert check_passed in SIMULATIONS


def test_what_no_rule_can_reach_falls_with_fewer_labels_and_is_what_a_known_judge_allows() -> None:
    few, more = (best_power(Verdicts(found=0.8, failing=failing)) for failing in (0.05, 0.1))
    # Neyman and Pearson's test where the judge is known: at most 5 failed rows of 50, and some of those with 6.
    at_limit, perfect = (binom(50, rate) for rate in (0.2, 0.05))
    known = perfect.cdf(5) + (0.05 - at_limit.cdf(5)) / at_limit.pmf(6) * perfect.pmf(6)
    assert few < 0.95 < more < known
