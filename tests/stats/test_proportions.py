"""Intervals of shares against print, against scipy, and against what must hold of any interval."""

from __future__ import annotations

import math
from collections import Counter
from functools import cache
from itertools import combinations_with_replacement

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special, stats

from jrh_mlflow.stats.proportions import (
    beta_binomial_interval,
    cluster_interval,
    cluster_wilson,
    collapse_replicates,
    design_effect,
    newcombe,
    wilson,
    wilson_share,
)
from tests.readings import PROPERTY

pytestmark = pytest.mark.quick


@st.composite
def counts(draw: st.DrawFn) -> tuple[int, int]:
    n = draw(st.integers(1, 2000))
    return draw(st.integers(0, n)), n


@st.composite
def clustered(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    sizes = draw(
        st.lists(st.integers(0, 20), min_size=2, max_size=12).filter(lambda all_: sum(n > 0 for n in all_) > 1)
    )
    hits = [draw(st.integers(0, size)) for size in sizes]
    return np.array(hits, float), np.array(sizes, float)


@pytest.mark.parametrize(
    ("successes", "n", "low", "high"),
    [
        (80, 120, 0.5783, 0.7447),  # Judge Datasheet, Table 3
        (81, 263, 0.2553, 0.3662),  # Newcombe (1998), Stat. Med. 17:857-872, Table I, method 3
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0, 0.1611),
        (1, 29, 0.0061, 0.1718),
    ],
)
def test_wilson_gives_the_printed_intervals(successes, n, low, high):
    assert [round(end, 4) for end in wilson(successes, n)] == [low, high]


@PROPERTY
@given(counts(), st.sampled_from([0.8, 0.9, 0.95, 0.99]))
def test_the_interval_on_an_effective_n_equals_wilson_when_n_is_whole(count, level):
    successes, n = count
    assert wilson_share(successes / n, n, level=level) == pytest.approx(wilson(successes, n, level=level), abs=1e-12)


@PROPERTY
@given(counts())
def test_the_ends_of_wilson_are_where_the_score_test_just_rejects(count):
    """The definition, solved by no formula: |p - p0| = z sqrt(p0 (1 - p0) / n) at both ends."""
    successes, n = count
    p, z = successes / n, stats.norm.ppf(0.975)
    for end in wilson(successes, n):
        if 0 < end < 1:
            assert abs(p - end) == pytest.approx(z * math.sqrt(end * (1 - end) / n), rel=1e-6)


@PROPERTY
@given(counts(), st.floats(1, 50))
def test_an_interval_contains_its_share_stays_in_the_unit_range_and_has_a_width(count, effect):
    share = count[0] / count[1]
    low, high = wilson_share(share, count[1] / effect)
    assert 0 <= low <= share <= high <= 1
    assert high > low


@PROPERTY
@given(st.floats(0, 1), st.floats(0.5, 500), st.floats(1, 20))
def test_a_smaller_effective_n_never_narrows_an_interval(share, n, factor):
    low, high = wilson_share(share, n)
    wider = wilson_share(share, n / factor)
    assert wider[0] <= low + 1e-12
    assert wider[1] >= high - 1e-12


@pytest.mark.parametrize(("successes", "n"), [(-1, 10), (11, 10), (0, 0)])
def test_impossible_counts_are_a_programmers_mistake(successes, n):
    with pytest.raises(ValueError, match=f"successes={successes}, n={n}"):
        wilson(successes, n)


@pytest.mark.parametrize(("share", "n"), [(-0.1, 10), (1.1, 10), (0.5, 0)])
def test_impossible_shares_are_a_programmers_mistake(share, n):
    with pytest.raises(ValueError, match="must hold"):
        wilson_share(share, n)


@pytest.mark.parametrize("n_clusters", [2, 5, 10, 40])
@pytest.mark.parametrize("size", [1, 12, 30])
def test_clusters_that_are_all_or_nothing_have_a_design_effect_of_their_size(n_clusters, size):
    """Half of the clusters all hits, half none: every call repeats its cluster, so deff = size * k / (k - 1)."""
    sizes = np.full(n_clusters, float(size))
    hits = np.where(np.arange(n_clusters) < n_clusters / 2, sizes, 0.0)
    p = hits.sum() / sizes.sum()
    between = np.square(hits / size - p).mean() / (p * (1 - p))
    assert design_effect(hits, sizes) == pytest.approx(max(1, size * between * n_clusters / (n_clusters - 1)))
    if n_clusters % 2 == 0:
        assert design_effect(hits, sizes) == pytest.approx(size * n_clusters / (n_clusters - 1))


def test_the_design_effect_of_unequal_clusters_follows_the_ratio_estimator():
    sizes = np.array([2.0, 4.0, 10.0])
    # x = 0, 4, 4: p = 1/2, residuals -1, 2, -1, so deff = (3/2 * 6 / 16^2) / (1/4 / 16) = 2.25.
    assert design_effect(np.array([0.0, 4.0, 4.0]), sizes) == pytest.approx(2.25)
    # x = 1, 3, 4: residuals 0, 1, -1 would give 0.75; noise never narrows an interval.
    assert design_effect(np.array([1.0, 3.0, 4.0]), sizes) == 1.0


@pytest.mark.parametrize("hits", [np.zeros(4), np.full(4, 6.0), np.full(4, 3.0)])
def test_clusters_that_agree_have_a_design_effect_of_one(hits):
    assert design_effect(hits, np.full(4, 6.0)) == 1.0


def test_empty_clusters_do_not_count():
    hits, sizes = np.array([0.0, 4.0, 1.0, 3.0]), np.full(4, 5.0)
    padded = np.insert(hits, [1, 4], 0.0), np.insert(sizes, [1, 4], 0.0)
    assert design_effect(*padded) == design_effect(hits, sizes)
    assert cluster_wilson(*padded) == cluster_wilson(hits, sizes)


@PROPERTY
@given(clustered())
def test_the_clustered_interval_holds_the_plain_one_and_has_a_width(sample):
    hits, sizes = sample
    interval = cluster_wilson(hits, sizes)
    plain = wilson(int(hits.sum()), int(sizes.sum()))
    assert interval is not None
    assert interval[0] <= plain[0] + 1e-12
    assert interval[1] >= plain[1] - 1e-12
    assert interval[1] > interval[0]


def test_tasks_that_differ_widen_the_clustered_interval():
    sizes = np.full(10, 12.0)
    alike, apart = np.full(10, 6.0), np.tile([0.0, 12.0], 5)
    plain, even, uneven = wilson(60, 120), cluster_wilson(alike, sizes), cluster_wilson(apart, sizes)
    assert even is not None
    assert uneven is not None
    # Few clusters cost something even when they agree; clusters that differ cost much more.
    assert plain[1] - plain[0] < even[1] - even[0] < 0.4 * (uneven[1] - uneven[0])


def test_the_clustered_interval_takes_the_t_quantile_of_the_clusters():
    """Ten clusters of 12 that agree: n_eff = 120 (z / t_9)^2."""
    n_eff = 120 * (stats.norm.ppf(0.975) / stats.t.ppf(0.975, 9)) ** 2
    found = cluster_wilson(np.full(10, 8.0), np.full(10, 12.0))
    assert found == pytest.approx(wilson_share(80 / 120, n_eff))


def test_one_cluster_has_no_clustered_interval():
    assert cluster_wilson(np.array([3.0, 0.0]), np.array([5.0, 0.0])) is None


@pytest.mark.parametrize(
    ("b", "a", "low", "high"),
    [  # Newcombe (1998), Stat. Med. 17:873-890, Table II, method 10: b - a
        ((56, 70), (48, 80), 0.0524, 0.3339),
        ((9, 10), (3, 10), 0.1705, 0.8090),
        ((6, 7), (2, 7), 0.0582, 0.8062),
        ((5, 56), (0, 29), -0.0381, 0.1926),
        ((0, 10), (0, 20), -0.1611, 0.2775),
        ((0, 10), (0, 10), -0.2775, 0.2775),
        ((10, 10), (0, 20), 0.6791, 1.0),
        ((10, 10), (0, 10), 0.6075, 1.0),
    ],
)
def test_newcombe_gives_the_printed_differences(a, b, low, high):
    found = newcombe(a[0] / a[1], wilson(*a), b[0] / b[1], wilson(*b))
    assert [round(end, 4) for end in found] == [low, high]


@PROPERTY
@given(counts(), counts())
def test_a_difference_lies_in_its_interval_and_turns_with_its_sides(a, b):
    share_a, share_b = a[0] / a[1], b[0] / b[1]
    low, high = newcombe(share_a, wilson(*a), share_b, wilson(*b))
    assert -1 <= low <= share_b - share_a <= high <= 1
    assert low < high
    assert newcombe(share_b, wilson(*b), share_a, wilson(*a)) == pytest.approx((-high, -low))


@PROPERTY
@given(clustered())
def test_the_hull_holds_the_clustered_wilson_interval_and_mirrors_itself(sample):
    hits, sizes = sample
    interval, wider = cluster_wilson(hits, sizes), cluster_interval(hits, sizes)
    mirrored = cluster_interval(sizes - hits, sizes)
    assert interval is not None
    assert wider is not None
    assert mirrored is not None
    assert 0 <= wider[0] <= interval[0] < interval[1] <= wider[1] <= 1
    assert mirrored == pytest.approx((1 - wider[1], 1 - wider[0]), abs=1e-9)


def test_one_cluster_has_no_hull_either():
    assert cluster_interval(np.array([3.0, 0.0]), np.array([5.0, 0.0])) is None


def test_clusters_of_one_make_the_posterior_that_of_a_binomial():
    """The correlation drops out: Beta(0.1 + x, 0.9 + n - x) for the lower end, Beta(0.9 + x, 0.1 + n - x) above."""
    low, high = beta_binomial_interval(np.repeat([0.0, 1.0], [25, 5]), np.ones(30))
    assert low == pytest.approx(stats.beta.ppf(0.025, 5.1, 25.9), abs=1e-3)
    assert high == pytest.approx(stats.beta.ppf(0.975, 5.9, 25.1), abs=1e-3)


@pytest.mark.parametrize(
    ("hits", "sizes"),
    [([0, 0, 1, 4, 2, 0], [4, 4, 4, 4, 4, 4]), ([1, 0, 3, 11, 2], [1, 2, 5, 12, 9]), ([12, 0, 0, 0], [12, 12, 12, 12])],
)
def test_the_posterior_is_the_integral_of_the_beta_binomial_likelihood(hits, sizes):
    """scipy's own pmf, on a grid five times finer in both directions."""
    angles = (np.arange(800) + 0.5) / 800 * np.pi / 2
    roots = (np.arange(100) + 0.5) / 100
    rates, iccs = np.sin(angles)[:, None] ** 2, roots[None, :] ** 2
    a, b = rates * (1 - iccs) / iccs, (1 - rates) * (1 - iccs) / iccs
    times = Counter(zip(hits, sizes, strict=True))
    likelihood = np.exp(sum(n * stats.betabinom.logpmf(x, m, a, b) for (x, m), n in times.items()))
    prior = roots * iccs ** (1.5 * np.abs(1 - 2 * rates) - 0.5) * np.sqrt(1 - iccs)
    weight = (likelihood * prior / prior.sum(axis=1, keepdims=True)).sum(axis=1)
    expected = []
    for power, at in ((-0.4, 0.025), (0.4, 0.975)):
        below = np.cumsum(weight * (rates / (1 - rates))[:, 0] ** power)
        expected.append(rates[np.searchsorted(below, at * below[-1]), 0])
    assert beta_binomial_interval(np.array(hits, float), np.array(sizes, float)) == pytest.approx(expected, abs=4e-3)


def test_a_fraction_of_a_success_lies_between_the_whole_ones():
    sizes = np.full(12, 4.0)
    ends = [beta_binomial_interval(np.array([x, *[1.0] * 11]), sizes) for x in (1.0, 1.5, 2.0)]
    assert ends[0][0] < ends[1][0] < ends[2][0]
    assert ends[0][1] < ends[1][1] < ends[2][1]


def test_replicates_that_agree_change_nothing():
    """28 tasks of four presentations, each asked once or five times by a judge without noise."""
    answers = np.tile([0.0, 0.0, 1.0, 0.0], 28)
    presentation, task = np.arange(112), np.repeat(np.arange(28), 4)
    once = collapse_replicates(answers, presentation, task)
    often = collapse_replicates(*(np.repeat(each, 5) for each in (answers, presentation, task)))
    np.testing.assert_array_equal(once, often)
    np.testing.assert_array_equal(once[1], np.full(28, 4.0))


def test_a_task_without_answers_keeps_its_place():
    successes, sizes = collapse_replicates(np.array([1.0, 0.0]), np.array([0, 3]), np.array([0, 2]))
    np.testing.assert_array_equal(successes, [1.0, 0.0, 0.0])
    np.testing.assert_array_equal(sizes, [1.0, 0.0, 1.0])


def test_impossible_counts_are_refused():
    with pytest.raises(ValueError, match="0 <= successes <= sizes"):
        beta_binomial_interval(np.array([3.0, 1.0]), np.array([2.0, 2.0]))


@pytest.mark.parametrize(("n_tasks", "size"), [(10, 2), (30, 2), (10, 4)])
@pytest.mark.parametrize("rate", [0.005, 0.02, 0.05, 0.1, 0.3, 0.5])
def test_the_hull_covers_at_every_correlation(n_tasks, size, rate):
    """Exact: every histogram of counts over the tasks, with its multinomial probability."""
    histograms, ends = _all_intervals(n_tasks, size)
    inside = (ends[:, 0] <= rate) & (rate <= ends[:, 1])
    ways = special.gammaln(n_tasks + 1) - special.gammaln(histograms + 1).sum(axis=1)
    for icc in (1e-6, 0.1, 0.3, 0.6):
        scale = (1 - icc) / icc
        log_pmf = stats.betabinom.logpmf(np.arange(size + 1), size, rate * scale, (1 - rate) * scale)
        assert np.exp(ways + histograms @ log_pmf)[inside].sum() >= 0.94


@cache
def _all_intervals(n_tasks: int, size: int) -> tuple[np.ndarray, np.ndarray]:
    tasks = combinations_with_replacement(range(size + 1), n_tasks)
    hits = np.array(list(tasks), float)
    sizes = np.full(n_tasks, float(size))
    histograms = (hits[:, :, None] == np.arange(size + 1)).sum(axis=1)
    # An interval of misses is that of hits, mirrored: half of them are enough.
    known = {each.tobytes(): cluster_interval(each, sizes) for each in hits if each.sum() <= sizes.sum() / 2}
    mirrored = [known.get(np.sort(size - each).tobytes()) for each in hits]
    return histograms, np.array(
        [known.get(each.tobytes()) or (1 - other[1], 1 - other[0]) for each, other in zip(hits, mirrored, strict=True)]
    )
