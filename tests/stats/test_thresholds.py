"""Thresholds: the isotonic fit held against scikit-learn, censoring, and intervals that never shrink to a point."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import isotonic_regression
from sklearn.isotonic import IsotonicRegression

from jrh_mlflow.stats.proportions import cluster_interval
from jrh_mlflow.stats.psychometrics import (
    Crossing,
    _crossings,
    _isotonic,
    band_crossing,
    crossing,
    crossing_interval,
    decided_steps,
)
from tests.readings import PROPERTY

STEPS = np.arange(1.0, 6.0)
SIZES = np.tile([10.0, 8.0, 6.0, 4.0, 2.0], (10, 1))
"""Calls per task and step on the default suite."""


@st.composite
def curves(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    gaps = draw(st.lists(st.sampled_from([0.5, 1.0]), min_size=1, max_size=7))
    n = [draw(st.integers(1, 60)) for _ in gaps]
    correct = [draw(st.integers(0, size)) for size in n]
    return np.cumsum(gaps), np.array(correct, float), np.array(n, float)


def first_reached(steps: np.ndarray, fitted: np.ndarray, target: float) -> Crossing:
    """The protocol's definition, walked along the curve."""
    for index, (step, height) in enumerate(zip(steps, fitted, strict=True)):
        if height >= target - 1e-9:
            if index == 0:
                return Crossing(value=float(step), censored="left")
            start, below = steps[index - 1], fitted[index - 1]
            slope = (height - below) / (step - start)
            return Crossing(value=float(min(step, start + (target - below) / slope)), censored=None)
    return Crossing(value=float(steps[-1]), censored="right")


@PROPERTY
@given(curves(), st.sampled_from([0.5, 0.75, 0.9]))
def test_the_crossing_is_that_of_scikit_learns_isotonic_fit(curve, target):
    steps, correct, n = curve
    fitted = IsotonicRegression().fit(steps, correct / n, sample_weight=n).predict(steps)
    expected, found = first_reached(steps, fitted, target), crossing(steps, correct, n, target=target)
    assert found.censored == expected.censored
    assert found.value == pytest.approx(expected.value, abs=1e-6)


def test_a_rising_curve_is_crossed_between_two_steps():
    assert crossing(STEPS, np.array([5.0, 6, 7, 8, 9]), np.full(5, 10.0)) == Crossing(value=3.5, censored=None)


def test_a_step_that_reaches_exactly_the_target_is_the_crossing():
    """Llama8B's published curve: 0.75 first at step 4."""
    assert crossing(STEPS, np.array([61.0, 52, 43, 30, 20]), np.array([100.0, 80, 60, 40, 20])).value == 4.0


def test_a_curve_that_starts_above_the_target_is_left_censored_at_the_smallest_step():
    assert crossing(STEPS, np.full(5, 8.0), np.full(5, 10.0)) == Crossing(value=1.0, censored="left")
    assert crossing(STEPS, np.full(5, 75.0), np.full(5, 100.0)) == Crossing(value=1.0, censored="left")


def test_a_curve_that_never_reaches_the_target_is_right_censored_at_the_largest_step():
    assert crossing(STEPS, np.full(5, 5.0), np.full(5, 10.0)) == Crossing(value=5.0, censored="right")


def test_a_dip_is_pooled_by_its_weight():
    """Steps 2 and 3 (9 of 10, 27 of 40) pool to 36 of 50 = 0.72, under the target although step 2 alone is over it."""
    found = crossing(np.array([1.0, 2, 3, 4]), np.array([5.0, 9, 27, 10]), np.array([10.0, 10, 40, 10]))
    assert found.value == pytest.approx(3 + (0.75 - 0.72) / (1 - 0.72))


@PROPERTY
@given(curves())
def test_more_correct_calls_never_raise_the_threshold(curve):
    steps, correct, n = curve
    place = {"left": -math.inf, "right": math.inf}
    before, after = crossing(steps, correct, n), crossing(steps, np.minimum(correct + 1, n), n)
    assert place.get(str(after.censored), after.value) <= place.get(str(before.censored), before.value) + 1e-9


def tasks(*shares: float) -> np.ndarray:
    """The same shares on every task: nothing for a bootstrap to vary."""
    return SIZES * np.array(shares)


def interval(correct: np.ndarray, *, seed: int = 0, n: np.ndarray = SIZES):
    found = crossing_interval(STEPS, correct, n, rng=np.random.default_rng(seed), n_resamples=300)
    assert found is not None
    return found


def test_a_bootstrap_that_is_all_left_censored_has_no_ends_and_says_so():
    found = interval(tasks(1, 1, 1, 1, 1))
    assert (found.low, found.high, found.left_share, found.right_share) == (None, None, 1.0, 0.0)


def test_a_bootstrap_that_is_all_right_censored_has_no_ends_and_says_so():
    found = interval(tasks(0.5, 0.5, 0.5, 0.5, 0.5))
    assert (found.low, found.high, found.left_share, found.right_share) == (None, None, 0.0, 1.0)


def test_an_end_beyond_the_measured_steps_is_none_and_the_other_one_stays():
    correct = np.where(np.arange(10)[:, None] < 6, SIZES, SIZES * 0.5)
    found = interval(correct)
    assert found.low is None
    assert found.left_share > 0.5
    assert found.right_share > 0
    # Tasks of steps 1 to 3 at one half, of steps 4 and 5 right: no resample is censored.
    inner = interval(tasks(0.5, 0.5, 0.5, 1, 1))
    assert (inner.left_share, inner.right_share) == (0.0, 0.0)


def test_the_same_seed_gives_the_same_interval():
    rng = np.random.default_rng(3)
    correct = rng.binomial(SIZES.astype(int), [0.55, 0.65, 0.7, 0.85, 0.9]).astype(float)
    assert interval(correct, seed=1) == interval(correct, seed=1)


@pytest.mark.parametrize("seed", range(20))
def test_the_interval_holds_the_estimate(seed):
    rng = np.random.default_rng(seed)
    correct = rng.binomial(SIZES.astype(int), np.sort(rng.uniform(0.3, 1, 5))).astype(float)
    found, point = interval(correct), crossing(STEPS, correct.sum(axis=0), SIZES.sum(axis=0))
    place = {"left": -math.inf, "right": math.inf}.get(str(point.censored), point.value)
    assert (-math.inf if found.low is None else found.low) <= place <= (math.inf if found.high is None else found.high)


def test_tasks_that_differ_widen_the_interval():
    apart = np.where(np.arange(10)[:, None] % 2 == 0, tasks(0.5, 1, 1, 1, 1), tasks(0.5, 0.5, 0.5, 0.5, 1))
    alike, uneven = interval(tasks(0.5, 0.75, 1, 1, 1)), interval(apart)
    assert alike.low == alike.high == 2.0
    assert uneven.low is not None
    assert uneven.high is not None
    assert uneven.high > uneven.low


def test_a_task_without_calls_at_a_step_can_be_resampled():
    n = SIZES.copy()
    n[1:, 4] = 0  # only one task measured step 5: most resamples of few tasks lack it
    found = interval(np.minimum(tasks(0.5, 0.5, 0.5, 0.5, 1), n), n=n)
    assert found.right_share > 0.2
    assert found.left_share == 0


@pytest.mark.parametrize("n_tasks", [0, 1])
def test_fewer_than_two_tasks_have_no_interval(n_tasks):
    one = SIZES[:n_tasks]
    assert crossing_interval(STEPS, one, one, rng=np.random.default_rng(0)) is None


def test_the_band_has_a_width_where_the_bootstrap_collapses_to_a_point():
    correct = tasks(0.5, 0.5, 0.5, 0.75, 1)
    collapsed = interval(correct)
    assert collapsed.low == collapsed.high == 4.0
    low, high = band_crossing(STEPS, correct, SIZES)
    assert low is not None
    assert low < 4.0
    assert high is None or high > 4.0


def test_the_band_crosses_where_the_edges_of_the_clustered_intervals_do():
    correct = tasks(0.5, 0.5, 1, 1, 1)
    edges = [cluster_interval(correct[:, step], SIZES[:, step]) for step in range(5)]
    lower, upper = (
        IsotonicRegression().fit_transform(STEPS, [edge[side] for edge in edges if edge]) for side in (0, 1)
    )
    low, high = band_crossing(STEPS, correct, SIZES)
    assert low == pytest.approx(first_reached(STEPS, upper, 0.75).value)
    assert high == pytest.approx(first_reached(STEPS, lower, 0.75).value)
    assert low is not None
    assert high is not None
    assert low < crossing(STEPS, correct.sum(axis=0), SIZES.sum(axis=0)).value < high


def test_fits_of_many_curves_at_once_are_those_of_one_at_a_time() -> None:
    rng = np.random.default_rng(0)
    for n_steps in range(1, 9):
        n = rng.integers(1, 30, (50, n_steps)).astype(float)
        correct = np.floor(rng.random(n.shape) * (n + 1))
        single = [isotonic_regression(row / size, weights=size).x for row, size in zip(correct, n, strict=True)]
        np.testing.assert_allclose(_isotonic(correct, n), single, atol=1e-12)
        steps, censored = np.arange(n_steps) + 1.0, {"left": -np.inf, "right": np.inf}
        found = [crossing(steps, row, size) for row, size in zip(correct, n, strict=True)]
        wanted = [one.value if one.censored is None else censored[one.censored] for one in found]
        np.testing.assert_allclose(_crossings(steps, correct, n, target=0.75), wanted, atol=1e-12)


LOW, OPEN, HIGH = (0.2, 0.7), (0.6, 0.9), (0.8, 1.0)


@pytest.mark.parametrize(
    ("curve", "decided"),
    [
        ((HIGH, HIGH, HIGH), (None, 1.0)),
        ((LOW, LOW, LOW), (3.0, None)),
        ((LOW, OPEN, HIGH), (1.0, 3.0)),
        ((OPEN, OPEN, OPEN), (None, None)),
        # A lucky step in the middle decides nothing: the chain from the largest one breaks before it.
        ((OPEN, HIGH, OPEN), (None, None)),
        ((HIGH, LOW, HIGH), (None, 3.0)),
        (((None, None), HIGH, HIGH), (None, 2.0)),
        ((LOW, (None, None), (None, None)), (1.0, None)),
        (((0.1, 0.75), HIGH, (0.75, 1.0)), (None, 2.0)),
        ((), (None, None)),
    ],
)
def test_steps_are_decided_in_a_chain_from_either_end(curve, decided):
    assert decided_steps({index + 1.0: ends for index, ends in enumerate(curve)}) == decided


def test_however_many_steps_there_are_a_curve_below_the_target_is_said_to_reach_it_in_few_runs():
    """Just below 75 % at every step, the worst case: any step at all would claim it in up to 5 x 2.5 % of runs."""
    rng = np.random.default_rng(3)
    sizes, claims, runs = np.full(28, 2.0), 0, 200
    for _ in range(runs):
        hits = rng.binomial(2, 0.749, size=(5, 28)).astype(float)
        ends = [cluster_interval(row, sizes) or (None, None) for row in hits]
        claims += decided_steps(dict(enumerate(ends)))[1] is not None
    assert claims / runs <= 0.05
