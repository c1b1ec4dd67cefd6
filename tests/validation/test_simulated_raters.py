"""The simulation of agreement with people: its truths, its verdicts, and that it sees a fault."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from jrh_mlflow.stats import agreement
from tests.validation import simulated_raters
from tests.validation.agreement_by_definition import readings_by_definition
from tests.validation.loop import SimulationSize, listed
from tests.validation.simulated_raters import (
    CLUSTERS,
    DESIGNS,
    RATERS,
    RatingDesign,
    _alike_in_clusters,
    rating_patterns,
    true_readings,
)

SHORT = (
    RatingDesign(n_items=40, rates=(0.9, 0.1), missing=0.2),
    RatingDesign(n_items=60, rates=(0.3, 0.4, 0.3), kind="ordinal", people=0.95, judge=0.97),
)


def checked(designs, *, n_seeds):
    return replace(RATERS, worlds=listed(designs, quick=()))(SimulationSize(n=n_seeds))


@pytest.fixture(scope="module", autouse=True)
def _twenty_thousand_items_stand_for_infinitely_many() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(simulated_raters, "_VERY_MANY", 20_000)
        yield
    simulated_raters._population.cache_clear()


@pytest.fixture(scope="module")
def checks():
    return checked(SHORT, n_seeds=10)


def test_no_interval_and_no_test_misses_its_promise(checks):
    assert [check for check in checks if check.fails] == []


def test_every_axis_is_checked(checks):
    axes = {check.axis for check in checks}
    assert len(axes) == 11
    assert {check.interval for check in checks if check.axis == "agreement/accuracy"} == {"plain", "by item"}
    assert {check.interval for check in checks if check.axis == "alt_test/winning_rate"} == {"size"}


def test_the_designs_hold_rates_near_0_and_1_missing_labels_and_every_kind_of_label():
    assert {design.kind for design in DESIGNS} == {"nominal", "ordinal", "numeric"}
    assert any(design.missing for design in DESIGNS)
    assert min(min(design.rates) for design in DESIGNS) < 0.05
    assert max(design.judge for design in DESIGNS) > 0.98


def test_clusters_are_drawn_as_alike_as_they_are_said_to_be():
    assert {max(design.icc for design in CLUSTERS), min(design.icc for design in CLUSTERS)} == {0.6, 0.0}
    assert {min(min(design.sizes) for design in CLUSTERS), max(max(design.sizes) for design in CLUSTERS)} == {2, 20}
    design = RatingDesign(n_items=40_000, sizes=(2,) * 20_000, icc=0.3)
    patterns = rating_patterns(design)[0][_alike_in_clusters(design, np.random.default_rng(1))]
    right = (patterns[:, 0] == patterns[:, 3]).reshape(-1, 2)
    assert np.corrcoef(right.T)[0, 1] == pytest.approx(0.3, abs=0.03)


def test_people_with_too_few_items_for_the_test_have_no_size():
    checks = checked([RatingDesign(n_items=20, judge=0.7)], n_seeds=2)
    assert checks
    assert "alt_test/winning_rate" not in {check.axis for check in checks}


def test_truths_are_those_worked_out_by_hand():
    """One person who is never wrong is the reference; the judge is right in 80 % of both kinds."""
    sure = RatingDesign(n_items=1, rates=(0.9, 0.1), people=1.0, judge=0.8)
    known = true_readings(sure)
    chance = 0.9 * 0.74 + 0.1 * 0.26
    assert known["agreement/accuracy"] == pytest.approx(0.8)
    assert known["agreement/kappa"] == pytest.approx((0.8 - chance) / (1 - chance))
    assert [known["agreement/sensitivity"], known["agreement/judge_on_ceiling"]] == pytest.approx([0.8, 0.8])
    assert [known["agreement/human_ceiling"], known["agreement/human_alpha"]] == pytest.approx([1.0, 1.0])
    assert known["alt_test/advantage_probability"] == pytest.approx(0.8)


@pytest.mark.parametrize("kind", ["nominal", "ordinal", "numeric"])
def test_the_truths_are_those_of_the_definitions(kind):
    design = RatingDesign(n_items=1, rates=(0.3, 0.5, 0.2), missing=0.25, kind=kind)
    assert true_readings(design) == pytest.approx(readings_by_definition(design), abs=0.002)


def test_without_imagined_items_high_agreement_would_fail(monkeypatch):
    monkeypatch.setattr(agreement, "_HEAVY", 1e-12)
    monkeypatch.setattr(agreement, "_LIGHT", 1e-12)
    checks = checked([replace(SHORT[1], n_items=30)], n_seeds=20)
    assert "agreement/kappa" in {check.axis for check in checks if check.fails}
