"""Confidence sequences: the chance of losing the truth at any moment, computed exactly, and what each narrows to."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from jrh_mlflow.stats import Interval
from jrh_mlflow.stats.proportions import suite_bounds, suite_ends, wilson_share
from tests.readings import PROPERTY

COUNTS = st.integers(1, 120).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))
LEVELS = st.sampled_from([0.2, 0.05, 0.001])
SUITES = st.tuples(st.integers(0, 40), st.integers(0, 40), st.integers(0, 60)).filter(sum)
"""Successes, failures and units not seen yet."""


def chance_to_lose(bounds: Callable[[int, int], Interval], truth: float, *, steps: int, size: int | None) -> float:
    """Exact chance that the truth leaves the bounds at some moment up to `steps`, over all orders of units."""
    staying = np.array([1.0])
    for n in range(1, steps + 1):
        seen = np.arange(n)
        rate = truth if size is None else np.clip((round(truth * size) - seen) / (size - n + 1), 0, 1)
        staying = np.append(staying * (1 - rate), 0.0) + np.insert(staying * rate, 0, 0.0)
        ends = np.array([bounds(x, n) for x in range(n + 1)])
        staying[(truth < ends[:, 0] - 1e-12) | (truth > ends[:, 1] + 1e-12)] = 0.0
    return 1 - float(staying.sum())


def test_an_interval_for_one_moment_loses_the_rate_when_looked_at_after_every_call():
    lost = chance_to_lose(lambda x, n: wilson_share(x / n, n), 0.3, steps=150, size=None)
    assert lost > 0.25


@pytest.mark.parametrize("alpha", [0.05, 0.2])
@pytest.mark.parametrize("successes", [0, 1, 24, 40, 76, 80])
def test_the_share_of_a_suite_leaves_its_bounds_as_seldom_as_promised_up_to_the_last_unit(successes, alpha):
    def bounds(x: int, n: int) -> Interval:
        return suite_bounds(x, n, 80, alpha=alpha)

    lost = chance_to_lose(bounds, successes / 80, steps=80, size=80)
    assert lost <= alpha
    assert lost > alpha / 10 or successes in (0, 1, 76, 80)


def lost_runs(*, whole_tasks: bool, runs: int = 300) -> float:
    """Share of runs that lose the truth, on 20 tasks of 10 calls that all succeed or all fail."""
    rng = np.random.default_rng(7)
    suite = np.repeat(np.arange(20) % 2, 10)
    lost = 0
    for _ in range(runs):
        order = (rng.permutation(20)[:, None] * 10 + np.arange(10)).ravel() if whole_tasks else rng.permutation(200)
        seen = np.cumsum(suite[order])
        ends = np.array([suite_bounds(int(x), n, 200) for n, x in enumerate(seen, start=1)])
        lost += bool(((ends[:, 0] > 0.5) | (ends[:, 1] < 0.5)).any())
    return lost / runs


def test_clustered_units_in_random_order_are_covered_and_whole_tasks_one_after_the_other_are_not():
    error = 2 * np.sqrt(0.05 * 0.95 / 300)
    assert lost_runs(whole_tasks=False) <= 0.05 + error
    assert lost_runs(whole_tasks=True) > 0.5


@PROPERTY
@given(COUNTS, LEVELS)
def test_failures_mirror_successes(counts, alpha):
    successes, n = counts
    low, high = suite_bounds(successes, n, n + 30, alpha=alpha)
    assert suite_bounds(n - successes, n, n + 30, alpha=alpha) == pytest.approx((1 - high, 1 - low), abs=1e-12)


@PROPERTY
@given(SUITES, LEVELS)
def test_the_suite_bounds_hold_the_counts_whose_prior_is_less_than_their_posterior_over_alpha(suite, alpha):
    successes, failures, unseen = suite
    n, size = successes + failures, sum(suite)
    counts = np.arange(size + 1)
    prior = stats.betabinom.pmf(counts, size, 1, 1)
    posterior = stats.betabinom.pmf(counts - successes, unseen, 1 + successes, 1 + failures)
    inside = counts[prior < posterior / alpha * (1 - 1e-9)]
    assert suite_bounds(successes, n, size, alpha=alpha) == (inside[0] / size, inside[-1] / size)


@PROPERTY
@given(SUITES, LEVELS)
def test_the_bounds_hold_the_share_seen_and_widen_with_confidence(suite, alpha):
    successes, n, size = suite[0], suite[0] + suite[1], sum(suite)
    wide, narrow = suite_bounds(successes, n, size, alpha=alpha / 2), suite_bounds(successes, n, size, alpha=alpha)
    # On few units the nearest whole count lies within one unit of the share.
    assert narrow[0] - 1 / size <= (successes / n if n else 0.5) <= narrow[1] + 1 / size
    assert wide[0] <= narrow[0] <= narrow[1] <= wide[1]


def test_the_suite_bounds_are_narrower_near_the_end_and_the_exact_share_at_the_end():
    def width(ends: Interval) -> float:
        return ends[1] - ends[0]

    widths = [width(suite_bounds(4 * n // 5, n, 500)) for n in (50, 250, 450)]
    assert widths[0] > 2 * widths[1] > 4 * widths[2]
    assert suite_bounds(400, 500, 500) == (0.8, 0.8)


def test_nothing_seen_says_nothing():
    assert suite_bounds(0, 0, 500) == (0.0, 1.0)


def test_only_successes_leave_the_upper_end_at_one():
    assert suite_bounds(50, 50, 60)[1] == 1.0


@pytest.mark.parametrize("bad", [(-1, 5), (6, 5), (0, -1)])
def test_counts_that_cannot_be_are_refused_with_the_rule(bad):
    with pytest.raises(ValueError, match="0 <= successes <= n"):
        suite_bounds(*bad, 10)


@pytest.mark.parametrize("alpha", [0.0, 1.0, float("nan")])
def test_a_level_outside_zero_to_one_is_refused(alpha):
    with pytest.raises(ValueError, match="0 < alpha < 1"):
        suite_bounds(1, 2, 3, alpha=alpha)


def test_more_units_than_the_suite_has_and_an_empty_suite_are_refused():
    with pytest.raises(ValueError, match="n <= size"):
        suite_bounds(1, 11, 10)
    with pytest.raises(ValueError, match="size >= 1"):
        suite_bounds(0, 0, 0)


@pytest.mark.parametrize("successes", [0, 1, 8, 24, 40, 79])
def test_either_end_of_a_suites_share_is_wrong_at_any_moment_as_seldom_as_promised(successes):
    lost = [
        chance_to_lose(lambda x, n, side=side: side(suite_ends(x, n, 80)), successes / 80, steps=80, size=80)
        for side in (lambda ends: (ends[0], 1.0), lambda ends: (0.0, ends[1]))
    ]
    assert max(lost) <= 0.05 + 1e-9
    assert max(lost) > 0.02 or successes in (0, 1, 79)


@PROPERTY
@given(SUITES, LEVELS)
def test_the_upper_end_is_the_largest_count_that_smaller_ones_do_not_outweigh(suite, alpha):
    successes, failures, _unseen = suite
    n, size = successes + failures, sum(suite)
    chance = stats.hypergeom.pmf(successes, size, np.arange(size + 1), n)
    mean_below = np.concatenate([[0.0], np.cumsum(chance)[:-1] / np.arange(1, size + 1)])
    kept = [count for count in range(successes, size - failures + 1) if chance[count] > alpha * mean_below[count]]
    low, high = suite_ends(successes, n, size, alpha=alpha)
    assert high == kept[-1] / size
    assert low == pytest.approx(1 - suite_ends(failures, n, size, alpha=alpha)[1], abs=1e-12)
    assert low <= (successes / n if n else 0.5) <= high


def test_the_ends_of_a_suites_share_are_nothing_known_at_first_and_the_share_at_last():
    assert suite_ends(0, 0, 500) == (0.0, 1.0)
    assert suite_ends(400, 500, 500) == (0.8, 0.8)
    assert suite_ends(0, 33, 120)[1] == 0.1 < suite_bounds(0, 33, 120, alpha=0.1)[1]
    with pytest.raises(ValueError, match="n <= size"):
        suite_ends(1, 11, 10)
