"""Fronts: membership and area against brute force, and how sure the resampled ones are."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jrh_mlflow.stats.bootstrap import percentile_interval, resampled_sums
from jrh_mlflow.sweeps.front import front_probability, hypervolume, hypervolume_interval, pareto
from tests.readings import PROPERTY

pytestmark = pytest.mark.quick

DIRECTIONS = st.lists(st.sampled_from([1, -1]), min_size=1, max_size=3)
TWO = st.tuples(*[st.sampled_from([1, -1])] * 2)
GRID = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=8).map(lambda rows: as_points(rows, 2))
"""Small whole numbers: many ties and duplicates."""


def as_points(rows: list[tuple[int, ...]], width: int) -> np.ndarray:
    return np.array(rows, float).reshape(len(rows), width)


@st.composite
def directed_points(draw: st.DrawFn) -> tuple[np.ndarray, list[int]]:
    directions = draw(DIRECTIONS)
    rows = draw(st.lists(st.tuples(*[st.integers(0, 3)] * len(directions)), max_size=12))
    return as_points(rows, len(directions)), directions


def counted_cells(points: np.ndarray, directions: tuple[int, int], reference: tuple[int, int]) -> float:
    """Area by counting the unit cells of a grid that lie between the reference and some point."""
    cells = 0
    for x, y in product(np.arange(-1, 8) + 0.5, repeat=2):
        centre = np.array([x, y])
        beyond_reference = ((centre - reference) * directions > 0).all()
        cells += bool(beyond_reference and (((points - centre) * directions) > 0).all(axis=1).any())
    return float(cells)


def optuna_area(points: np.ndarray, directions: tuple[int, int], reference: tuple[int, int]) -> float:
    from optuna._hypervolume import compute_hypervolume

    losses, end = -points * directions, -np.array(reference, float) * directions
    kept = losses[(losses <= end).all(axis=1)]
    return float(compute_hypervolume(kept, end)) if len(kept) else 0.0


AREAS: list[Callable[..., float]] = [counted_cells]
if importlib.util.find_spec("optuna"):
    AREAS.append(optuna_area)


@PROPERTY
@given(directed_points())
def test_a_point_is_on_the_front_unless_another_is_as_good_everywhere_and_better_somewhere(case):
    points, directions = case
    expected = []
    for one in points.tolist():
        beaten = False
        for other in points.tolist():
            gains = [d * (b - a) for a, b, d in zip(one, other, directions, strict=True)]
            beaten |= min(gains) >= 0 and max(gains) > 0
        expected.append(not beaten)
    assert pareto(points, directions).tolist() == expected


@PROPERTY
@given(directed_points(), st.randoms(use_true_random=False))
def test_the_front_ignores_the_order_of_points_their_scale_and_a_flip_of_sign_with_its_direction(case, random):
    points, directions = case
    members = pareto(points, directions)
    order = list(range(len(points)))
    random.shuffle(order)
    assert pareto(points[order], directions).tolist() == members[order].tolist()
    assert pareto(np.exp(points) * 100, directions).tolist() == members.tolist()
    assert pareto(-points, [-direction for direction in directions]).tolist() == members.tolist()


def test_duplicates_of_a_member_are_members_and_a_dearer_copy_is_not():
    points = np.array([[0.9, 5.0], [0.9, 5.0], [0.9, 6.0], [0.5, 1.0]])
    assert pareto(points, (1, -1)).tolist() == [True, True, False, True]
    assert pareto(points, (1, 1)).tolist() == [False, False, True, False]


@pytest.mark.parametrize("area", AREAS, ids=lambda area: area.__name__)
def test_the_area_is_what_other_ways_to_compute_it_say(area):
    @PROPERTY
    @given(GRID, TWO, st.tuples(st.integers(0, 6), st.integers(0, 6)))
    def check(points, directions, reference):
        assert hypervolume(points, directions, reference) == pytest.approx(area(points, directions, reference))

    check()


@PROPERTY
@given(GRID, TWO)
def test_the_front_alone_has_the_whole_area_and_the_axes_may_be_swapped_or_turned(points, directions):
    reference = (3.0, 2.0)
    area = hypervolume(points, directions, reference)
    assert hypervolume(points[pareto(points, directions)], directions, reference) == area
    assert hypervolume(points[:, ::-1], directions[::-1], reference[::-1]) == pytest.approx(area)
    turned = (-directions[0], directions[1])
    assert hypervolume(points * [-1, 1], turned, (-3.0, 2.0)) == pytest.approx(area)


def test_the_area_of_three_known_steps_and_points_beyond_the_reference():
    points = np.array([[0.6, 1.0], [0.8, 2.0], [0.9, 4.0]])
    area = 0.1 * 1 + 0.3 * 2 + 0.4 * 6
    assert hypervolume(points, (1, -1), (0.5, 10.0)) == pytest.approx(area)
    beyond = np.array([[0.4, 0.1], [1.0, 10.0], [1.0, 50.0], [0.5, 1.0]])
    assert hypervolume(np.vstack([points, beyond]), (1, -1), (0.5, 10.0)) == pytest.approx(area)
    assert hypervolume(beyond, (1, -1), (0.5, 10.0)) == 0.0


def judged(rng: np.random.Generator, rates: np.ndarray, *, n_tasks: int) -> np.ndarray:
    """Scores of configurations on tasks of 10 calls; a task is easy or hard for all of them."""
    ease = np.clip(rng.normal(0, 0.1, size=n_tasks), -0.1, 0.1)
    return rng.binomial(10, rates[:, None] + ease) / 10


def coverage(rates: np.ndarray, costs: np.ndarray, *, runs: int = 200) -> float:
    rng = np.random.default_rng(3)
    reference = (0.0, 12.0)
    truth = hypervolume(np.column_stack([rates, costs]), (1, -1), reference)
    covered = 0
    for seed in range(runs):
        scores = judged(rng, rates, n_tasks=30)
        low, high = hypervolume_interval(scores, np.ones(30), costs, reference=reference, n_resamples=200, seed=seed)
        covered += low <= truth <= high
    return covered / runs


def test_the_interval_covers_the_area_of_a_clear_front_as_often_as_it_says():
    assert 0.9 <= coverage(np.array([0.5, 0.6, 0.7, 0.8]), np.array([1.0, 2.0, 5.0, 10.0])) <= 0.99


def test_the_interval_of_many_tied_configurations_is_reflected_against_the_luck_of_the_best():
    # Percentiles that are not reflected cover less than a tenth here.
    assert coverage(np.full(15, 0.7), np.linspace(1.0, 2.0, 15)) > 0.6


def test_the_interval_of_one_configuration_is_that_of_its_weighted_mean():
    rng = np.random.default_rng(4)
    weights = rng.integers(1, 6, size=12).astype(float)
    scores = rng.uniform(size=12)
    totals = np.concatenate(list(resampled_sums(np.column_stack([scores * weights, weights]), seed=5)))
    low, high = percentile_interval(totals[:, 0] / totals[:, 1], n_clusters=12)
    mean = np.average(scores, weights=weights)
    found = hypervolume_interval(scores[None, :], weights, np.array([3.0]), reference=(0.0, 5.0), seed=5)
    assert found == pytest.approx((2 * (2 * mean - high), 2 * (2 * mean - low)))


def test_weights_may_differ_by_configuration_and_scores_of_weight_zero_are_not_read():
    scores = np.array([[0.2, 0.4, 0.9, 0.5], [0.6, np.nan, 0.8, 0.3]])
    weights = np.array([[2.0, 1.0, 1.0, 3.0], [1.0, 0.0, 2.0, 1.0]])
    costs = np.array([1.0, 2.0])
    first = hypervolume_interval(scores, weights, costs, reference=(0.0, 4.0))
    again = hypervolume_interval(np.nan_to_num(scores, nan=99.0), weights, costs, reference=(0.0, 4.0))
    assert first is not None
    assert first == again
    shared = hypervolume_interval(scores[:1], weights[0], costs[:1], reference=(0.0, 4.0))
    assert shared == hypervolume_interval(scores[:1], weights[:1], costs[:1], reference=(0.0, 4.0))


def test_there_is_no_interval_with_one_cluster_without_spread_or_when_nothing_counts():
    costs = np.array([1.0, 2.0])
    assert hypervolume_interval(np.array([[0.5], [0.6]]), np.ones(1), costs, reference=(0.0, 4.0)) is None
    assert hypervolume_interval(np.full((2, 5), 0.7), np.ones(5), costs, reference=(0.0, 4.0)) is None
    spread = np.array([[0.1, 0.2, 0.3], [0.2, 0.3, 0.4]])
    assert hypervolume_interval(spread, np.ones(3), costs, reference=(0.0, 0.5)) is None
    one_measured = np.array([1.0, 0.0, 0.0])
    assert hypervolume_interval(spread, one_measured, costs, reference=(0.0, 4.0)) is None


def test_membership_is_certain_where_all_tasks_agree_and_open_between_two_that_trade_wins():
    wins = np.tile([1.0, 0.0], 20)
    scores = np.vstack([np.full(40, 0.2), wins, 1 - wins, np.full(40, 0.1)])
    shares = front_probability(scores, np.ones(40), np.array([1.0, 2.0, 2.0, 3.0]), n_resamples=2000)
    assert shares[0] == 1.0
    assert shares[3] == 0.0
    # A resample draws as many of both kinds in one of eight cases, and then both are members.
    assert shares[1:3].sum() == pytest.approx(1.125, abs=0.03)
    assert shares[1] == pytest.approx(0.5627, abs=0.04)


@PROPERTY
@given(st.integers(0, 10_000), st.integers(1, 6), st.integers(2, 4))
def test_membership_is_that_of_the_fronts_of_all_possible_resamples(seed, n_configs, n_clusters):
    rng = np.random.default_rng(seed)
    scores = rng.integers(0, 3, size=(n_configs, n_clusters)).astype(float)
    costs = rng.integers(0, 3, size=n_configs).astype(float)
    draws = product(range(n_clusters), repeat=n_clusters)
    fronts = [pareto(np.column_stack([scores[:, list(draw)].sum(axis=1), costs]), (1, -1)) for draw in draws]
    shares = front_probability(scores / 7, np.ones(n_clusters), costs, n_resamples=2000, seed=seed)
    assert shares == pytest.approx(np.mean(fronts, axis=0), abs=0.06)


def test_a_copy_of_a_configuration_has_exactly_its_share_and_the_seed_decides_all():
    rng = np.random.default_rng(6)
    scores = rng.uniform(size=(9, 37))
    scores[8] = scores[0]
    costs = np.append(rng.uniform(size=8), 0.0)
    costs[8] = costs[0]
    weights = rng.uniform(1, 3, size=37)
    shares = front_probability(scores, weights, costs, seed=1)
    assert shares[8] == shares[0]
    assert shares.tolist() == front_probability(scores, weights, costs, seed=1).tolist()
    assert shares.tolist() == front_probability(scores * 1000, weights, costs, seed=1).tolist()
    assert shares.tolist() != front_probability(scores, weights, costs, seed=2).tolist()


def test_a_configuration_stopped_early_is_counted_only_where_it_was_drawn():
    scores = np.array([[0.9, 0.0, 0.0, 0.0], [0.5, 0.5, 0.5, 0.5]])
    weights = np.array([[1.0, 0.0, 0.0, 0.0], [1.0, 1.0, 1.0, 1.0]])
    shares = front_probability(scores, weights, np.array([1.0, 1.0]), n_resamples=4000)
    assert shares[0] == 1.0
    assert shares[1] == pytest.approx(0.75**4, abs=0.03)


BAD_CALLS = [
    (lambda: pareto(np.ones((2, 2)), (1,)), "One column per direction"),
    (lambda: pareto(np.ones(2), (1, 1)), "One column per direction"),
    (lambda: pareto(np.ones((2, 2)), (1, 0)), "1 .maximise. or -1"),
    (lambda: pareto(np.array([[1.0, np.nan]]), (1, 1)), "finite"),
    (lambda: hypervolume(np.ones((2, 3)), (1, 1, 1), (0.0, 0.0)), "two objectives"),
    (lambda: hypervolume(np.ones((2, 2)), (1, 1), (0.0, -np.inf)), "finite"),
    (lambda: front_probability(np.ones((2, 3)), np.ones(2), np.ones(2)), "shapes"),
    (lambda: front_probability(np.ones((2, 3)), np.ones(3), np.ones(3)), "shapes"),
    (lambda: front_probability(np.ones((2, 3)), -np.ones(3), np.ones(2)), "0 or more"),
    (lambda: front_probability(np.ones((2, 3)), np.ones(3), np.array([1.0, np.inf])), "costs finite"),
    (lambda: front_probability(np.full((2, 3), np.nan), np.ones(3), np.ones(2)), "where the weight is positive"),
    (lambda: front_probability(np.ones((2, 3)), np.zeros(3), np.ones(2)), "needs a measured cluster"),
    (lambda: front_probability(np.ones((0, 3)), np.ones(3), np.ones(0)), "needs a measured cluster"),
    (lambda: front_probability(np.ones((2, 3)), np.ones(3), np.ones(2), n_resamples=0), "n_resamples >= 1"),
    (lambda: hypervolume_interval(np.ones((1, 3)), np.ones(3), np.ones(1), reference=(0.0, np.inf)), "reference"),
    (lambda: hypervolume_interval(np.ones((1, 3)), np.ones(3), np.ones(1), reference=(0.0, 2.0), level=1.0), "level"),
]


@pytest.mark.parametrize(("call", "rule"), BAD_CALLS)
def test_what_cannot_be_computed_is_refused_with_the_rule(call, rule):
    with pytest.raises(ValueError, match=rule):
        call()
