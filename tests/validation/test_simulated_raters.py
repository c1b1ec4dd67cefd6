"""The simulation of agreement with people: its truths, its verdicts, and that it sees a fault."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from jrh_mlflow.stats import agreement
from tests.validation import simulated_raters
from tests.validation.loop import SimulationSize
from tests.validation.simulated_raters import (
    RATERS,
    RatingDesign,
    alike_in_clusters,
    rating_patterns,
    true_readings,
)

SHORT = (
    RatingDesign(n_items=40, rates=(0.9, 0.1), missing=0.2),
    RatingDesign(n_items=60, rates=(0.3, 0.4, 0.3), kind="ordinal", people=0.95, judge=0.97),
)


def checked(designs, *, n_seeds):
    return replace(RATERS, worlds=designs)(SimulationSize(n=n_seeds))


@pytest.fixture(scope="module", autouse=True)
def _twenty_thousand_items_stand_for_infinitely_many():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(simulated_raters, "_VERY_MANY", 20_000)
        yield
    simulated_raters._population.cache_clear()


def test_no_interval_and_no_test_misses_its_promise():
    checks = checked(SHORT, n_seeds=10)
    assert [check for check in checks if check.fails] == []
    assert len({check.design.split(",")[0] for check in checks}) == 11


def test_clusters_are_drawn_as_alike_as_they_are_said_to_be():
    design = RatingDesign(n_items=40_000, sizes=(2,) * 20_000, icc=0.3)
    patterns = rating_patterns(design)[0][alike_in_clusters(design, np.random.default_rng(1))]
    right = (patterns[:, 0] == patterns[:, 3]).reshape(-1, 2)
    assert np.corrcoef(right.T)[0, 1] == pytest.approx(0.3, abs=0.03)


def test_people_with_too_few_items_for_the_test_have_no_size():
    checks = checked([RatingDesign(n_items=20, judge=0.7)], n_seeds=2)
    assert checks
    assert "nobody wrongly won" not in {check.name for check in checks}


def test_truths_are_those_worked_out_by_hand():
    """One person who is never wrong is the reference; the judge is right in 80 % of both kinds."""
    known = true_readings(RatingDesign(n_items=1, rates=(0.9, 0.1), people=1.0, judge=0.8))
    chance = 0.9 * 0.74 + 0.1 * 0.26
    expected = {
        "agreement/accuracy": 0.8,
        "agreement/kappa": (0.8 - chance) / (1 - chance),
        "agreement/sensitivity": 0.8,
        "agreement/judge_on_ceiling": 0.8,
        "agreement/human_ceiling": 1.0,
        "agreement/human_alpha": 1.0,
        "alt_test/advantage_probability": 0.8,
    }
    assert {axis: known[axis] for axis in expected} == pytest.approx(expected)


def test_truths_with_errors_and_missing_labels_are_those_worked_out_by_hand():
    """Two people are right in 90 %, the judge in 80 %, and a fifth of all labels is missing."""
    design = RatingDesign(n_items=1, people=0.9, judge=0.8, missing=0.2, n_people=2)
    known = true_readings(design)
    # The majority of two is there where both say the same, or where only one of them says anything.
    right = 0.64 * 0.81 + 0.32 * 0.9
    wrong = 0.64 * 0.01 + 0.32 * 0.1
    accuracy = (right * 0.8 + wrong * 0.2) / (right + wrong)
    assert known["agreement/accuracy"] == pytest.approx(accuracy, abs=0.002)
    # Against the other person alone.
    assert known["agreement/human_ceiling"] == pytest.approx(0.82, abs=0.002)
    assert known["agreement/judge_on_ceiling"] == pytest.approx(0.74, abs=0.002)
    # Labels of both kinds are as frequent: alpha is twice what people agree beyond one half.
    assert known["agreement/human_alpha"] == pytest.approx(0.64, abs=0.002)
    # The judge is at least as near to the other person: both right or wrong, or it alone is right.
    alike = 0.9 * 0.8 + 0.1 * 0.2
    alone = (0.1 * 0.8) * 0.9 + (0.9 * 0.2) * 0.1
    assert known["alt_test/advantage_probability"] == pytest.approx(alike + alone, abs=0.002)


def test_without_imagined_items_high_agreement_would_fail(monkeypatch):
    monkeypatch.setattr(agreement, "_HEAVY", 1e-12)
    monkeypatch.setattr(agreement, "_LIGHT", 1e-12)
    checks = checked([replace(SHORT[1], n_items=30)], n_seeds=20)
    assert "agreement/kappa" in {check.design.split(",")[0] for check in checks if check.fails}
