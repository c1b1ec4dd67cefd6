"""What a design can find: distances from a limit, differences of two judges."""

from __future__ import annotations

import math

import numpy as np
import pytest

from jrh_mlflow.stats.paired import cluster_sign_p
from jrh_mlflow.stats.power import (
    FEWEST_TO_TELL_APART,
    detectable_difference,
    detectable_from_interval,
    sign_flip_critical,
    sign_flip_power,
)


def test_the_longer_arm_of_an_interval_says_how_far_a_limit_must_be() -> None:
    # 1.95996 and 0.84162 are the normal quantiles of .975 and .8.
    assert detectable_from_interval(0.5, 0.4, 0.58) == pytest.approx(0.1 * (1.95996 + 0.84162) / 1.95996, rel=1e-5)
    assert detectable_from_interval(0.5, 0.42, 0.6) == detectable_from_interval(0.5, 0.4, 0.58)


def test_more_power_needs_more_distance_and_half_the_power_needs_the_arm_alone() -> None:
    assert detectable_from_interval(0.2, 0.1, 0.35, power=0.5) == pytest.approx(0.15)
    assert detectable_from_interval(0.2, 0.1, 0.35, power=0.9) > detectable_from_interval(0.2, 0.1, 0.35)


@pytest.mark.parametrize("arguments", [{"power": 0.0}, {"power": 1.0}, {"level": 1.0}])
def test_an_impossible_power_or_level_is_refused(arguments: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="must hold"):
        detectable_from_interval(0.5, 0.4, 0.6, **arguments)


def test_a_value_outside_its_interval_is_refused() -> None:
    with pytest.raises(ValueError, match="low <= value <= high"):
        detectable_from_interval(0.7, 0.4, 0.6)


@pytest.mark.parametrize("n_clusters", [8, 12])
def test_the_sign_flip_finds_the_detectable_difference_with_the_power_asked_for(n_clusters: int) -> None:
    spread = 0.2
    error = spread / math.sqrt(n_clusters)
    found = detectable_difference(error, n_clusters, critical=sign_flip_critical(n_clusters), n_units=10_000)
    assert found is not None
    rng = np.random.default_rng(1)
    tasks = np.arange(n_clusters)
    draws = rng.normal(found, spread, size=(600, n_clusters))
    power = np.mean([cluster_sign_p(draw, np.zeros(n_clusters), tasks) <= 0.05 for draw in draws])
    assert power == pytest.approx(0.8, abs=0.06)


def test_the_power_at_the_detectable_difference_is_the_power_asked_for() -> None:
    found = detectable_difference(0.05, 28, critical=2.4, power=0.9, n_units=336)
    assert found is not None
    assert sign_flip_power(found, 0.05, 28, critical=2.4) == pytest.approx(0.9, abs=1e-4)
    assert sign_flip_power(-found, 0.05, 28, critical=2.4) == pytest.approx(0.9, abs=1e-4)


def test_with_too_few_clusters_nothing_is_detectable() -> None:
    for n_clusters in range(1, FEWEST_TO_TELL_APART):
        critical = sign_flip_critical(n_clusters)
        assert detectable_difference(0.001, n_clusters, critical=critical) is None
    assert detectable_difference(0.01, 6, critical=sign_flip_critical(6)) is not None


def test_a_difference_over_the_largest_possible_is_not_detectable() -> None:
    assert detectable_difference(0.6, 28, critical=1.94) is None
    assert detectable_difference(0.6, 28, critical=1.94, largest=4.0) == pytest.approx(1.745, abs=0.01)


def test_judges_that_agreed_everywhere_do_not_make_every_difference_detectable() -> None:
    found = detectable_difference(0.0, 28, critical=1.94, n_units=336)
    assert found is not None
    assert 0.02 < found < 0.05
    assert found < (detectable_difference(0.0, 28, critical=1.94) or 0.0)


def test_far_from_zero_a_difference_is_found_for_sure() -> None:
    assert sign_flip_power(0.9, 1e-9, 28, critical=1.94) == 1.0
    assert sign_flip_power(0.0, 0.0, 28, critical=1.94) == 0.0
    assert sign_flip_power(0.4, 0.0, 28, critical=1.94) == 1.0
