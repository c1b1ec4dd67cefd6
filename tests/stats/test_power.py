"""What a design can find: distances from a limit, differences of two judges."""

from __future__ import annotations

import math

import numpy as np
import pytest

from jrh_mlflow.stats.paired import cluster_sign_p
from jrh_mlflow.stats.power import (
    FEWEST_FOR_WIDTH,
    FEWEST_TO_TELL_APART,
    Layout,
    Spread,
    detectable_difference,
    detectable_from_interval,
    estimated_spread,
    expected_interval,
    shared_spread,
    sign_flip_critical,
    sign_flip_power,
    simulated_power,
    tasks_for_difference,
    tasks_for_width,
)
from jrh_mlflow.stats.proportions import cluster_interval, collapse_replicates


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
    draws = rng.normal(found, spread, size=(300, n_clusters))
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


TWELVE, TWO_OF_THREE = Layout(((1,) * 12,)), Layout(((2, 2, 2),))


def width_by_hand(spread: Spread, layout: Layout, n_tasks: int, *, draws: int = 20) -> float:
    """Mean width of the interval that a datasheet reports, of suites drawn call by call."""
    rng, widths = np.random.default_rng(7), []
    for _ in range(draws):
        hits, shown, tasks = [], [], []
        for task in range(n_tasks):
            rate = drawn_rate(rng, spread.rate, spread.icc)
            for repeats in layout.repeats[task % len(layout.repeats)]:
                own = drawn_rate(rng, rate, spread.repeat)
                hits += (rng.random(repeats) < own).tolist()
                shown += [shown[-1] + 1 if shown else 0] * repeats
                tasks += [task] * repeats
        interval = cluster_interval(*collapse_replicates(np.array(hits, float), np.array(shown), np.array(tasks)))
        assert interval is not None
        widths.append(interval[1] - interval[0])
    return float(np.mean(widths))


def drawn_rate(rng: np.random.Generator, rate: float, correlation: float) -> float:
    if correlation == 0 or not 0 < rate < 1:
        return rate
    scale = (1 - correlation) / correlation
    return float(rng.beta(rate * scale, (1 - rate) * scale))


@pytest.mark.parametrize(
    ("rate", "icc", "width", "layout"),
    [
        (0.1, 0.0, 0.12, TWELVE),
        (0.3, 0.3, 0.3, TWO_OF_THREE),
        (0.5, 0.6, 0.3, Layout(((1, 1),))),
        (0.5, 0.3, 0.4, Layout(((), (1, 1, 1)))),
    ],
)
def test_the_planned_width_is_met_within_a_tenth(rate: float, icc: float, width: float, layout: Layout) -> None:
    spread = Spread(rate=rate, icc=icc, repeat=0.5)
    n_tasks = tasks_for_width(width, spread, layout)
    assert layout.n_with_units(n_tasks) > FEWEST_FOR_WIDTH
    assert width_by_hand(spread, layout, n_tasks) == pytest.approx(width, rel=0.1)


def test_a_width_that_ten_tasks_give_already_is_planned_with_ten() -> None:
    spread = Spread(rate=0.5, icc=0.0, repeat=0.5)
    assert tasks_for_width(0.9, spread, TWELVE) == FEWEST_FOR_WIDTH
    # One task in two has something for the axis.
    assert tasks_for_width(0.9, spread, Layout(((), (1,) * 12))) == 2 * FEWEST_FOR_WIDTH


def test_a_very_small_width_is_extrapolated_by_the_root_of_the_tasks() -> None:
    spread = Spread(rate=0.5, icc=0.3, repeat=0.5)
    wide, narrow = (tasks_for_width(width, spread, TWELVE) for width in (0.1, 0.01))
    assert narrow == pytest.approx(100 * wide, rel=0.05)


def test_more_tasks_tell_more_than_more_calls_on_each() -> None:
    spread = Spread(rate=0.3, icc=0.3, repeat=0.5)
    once, again, more = (
        expected_interval(spread, layout, n_tasks).width
        for layout, n_tasks in ((TWO_OF_THREE, 20), (TWO_OF_THREE.repeated(2), 20), (TWO_OF_THREE, 40))
    )
    assert more < again < once


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rates", "icc", "layout"),
    [((0.1, 0.5), 0.0, Layout(((1, 1),))), ((0.9, 0.5), 0.6, TWO_OF_THREE)],
)
def test_the_planned_tasks_tell_two_judges_apart_with_the_power_asked_for(
    rates: tuple[float, float], icc: float, layout: Layout
) -> None:
    a, b = (Spread(rate=rate, icc=icc, repeat=0.5) for rate in rates)
    n_tasks = tasks_for_difference(a, b, layout)
    rng, told = np.random.default_rng(5), 0
    tasks = np.arange(n_tasks)
    for _ in range(250):
        drawn = [spread.draw(layout, n_tasks, n=1, rng=rng)[0] for spread in (a, b)]
        told += cluster_sign_p(drawn[1], drawn[0], tasks) <= 0.05
    assert told / 250 == pytest.approx(0.8, abs=0.06)
    assert simulated_power(a, b, layout, n_tasks - 1) < 0.83


@pytest.mark.slow
def test_a_small_difference_of_many_tasks_is_planned_too() -> None:
    a, b = (Spread(rate=rate, icc=0.3, repeat=0.5) for rate in (0.5, 0.4))
    n_tasks = tasks_for_difference(a, b, TWELVE)
    assert simulated_power(a, b, TWELVE, n_tasks, seed=3) == pytest.approx(0.8, abs=0.04)
    tiny = tasks_for_difference(a, Spread(rate=0.499, icc=0.3, repeat=0.5), TWELVE)
    assert tiny == pytest.approx(10_000 * n_tasks, rel=0.1)


def test_equal_judges_are_never_planned_apart_and_hardly_ever_found_so() -> None:
    a = Spread(rate=0.3, icc=0.3, repeat=0.5)
    with pytest.raises(ValueError, match="rates must differ"):
        tasks_for_difference(a, a, TWELVE)
    found = simulated_power(a, Spread(rate=0.3000001, icc=0.3, repeat=0.5), TWELVE, 20)
    assert found < 0.04


@pytest.mark.parametrize(("rate", "icc", "repeat"), [(0.3, 0.4, 0.8), (0.5, 0.0, 0.0), (0.2, 0.2, 0.5)])
def test_a_pilot_shows_the_spread_that_its_calls_were_drawn_with(rate: float, icc: float, repeat: float) -> None:
    rng, found = np.random.default_rng(2), []
    task, presentation = np.arange(480) // 12, np.arange(480) // 3
    for _ in range(30):
        rates = [drawn_rate(rng, rate, icc) for _ in range(40)]
        own = [drawn_rate(rng, each, repeat) for each in np.repeat(rates, 4)]
        score = (rng.random(480) < np.repeat(own, 3)).astype(float)
        found.append(estimated_spread(score, task, presentation))
    means = np.array(found, dtype=float).mean(axis=0)
    assert means == pytest.approx([rate, icc, repeat], abs=0.05)


def test_what_a_pilot_cannot_tell_is_none_and_never_a_rate_of_zero() -> None:
    none = estimated_spread(np.zeros(30), np.arange(30) // 3, np.arange(30))
    assert none == (pytest.approx(0.5 / 31), None, None)
    one_each = estimated_spread(np.array([0.0, 1.0, 1.0]), np.arange(3), np.arange(3))
    assert one_each[1:] == (None, None)
    one_task = estimated_spread(np.array([0.0, 1.0, 1.0]), np.zeros(3, dtype=int), np.arange(3))
    assert one_task[1:] == (None, None)


def test_judges_that_go_together_need_fewer_tasks() -> None:
    rng = np.random.default_rng(0)
    a, b, sizes = rng.binomial(6, 0.4, 200).astype(float), rng.binomial(6, 0.6, 200).astype(float), np.full(200, 6.0)
    assert shared_spread(a, sizes, b, sizes) == pytest.approx(1.0, abs=0.15)
    assert shared_spread(a, sizes, a, sizes) < 0.01
    assert shared_spread(np.zeros(3), np.ones(3), np.zeros(3), np.ones(3)) == 1.0


@pytest.mark.parametrize("name", ["rate", "icc", "repeat"])
def test_a_spread_outside_0_and_1_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=name):
        Spread(**{**{"rate": 0.5, "icc": 0.3, "repeat": 0.5}, name: 1.2})


def test_a_layout_without_a_unit_is_refused() -> None:
    with pytest.raises(ValueError, match="Some task must have a unit"):
        Layout(((), ()))
