"""The cluster bootstrap: coverage by simulation, its two paths held together, and when there is no interval."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from jrh_mlflow.stats.bootstrap import cluster_bootstrap, percentile_interval, resampled_sums
from tests.readings import PROPERTY


def clustered_sample(rng: np.random.Generator, *, n_clusters: int, size: int) -> np.ndarray:
    """Normal values of mean 0 and variance 1, a third of it between clusters."""
    between = rng.normal(scale=np.sqrt(1 / 3), size=(n_clusters, 1))
    return (between + rng.normal(scale=np.sqrt(2 / 3), size=(n_clusters, size))).ravel()


def mean_of(values: np.ndarray):
    return lambda rows: float(values[rows].mean())


@st.composite
def clustered(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    rows = draw(st.lists(st.tuples(st.integers(0, 6), st.integers(-5, 5)), min_size=1, max_size=40))
    clusters, values = zip(*rows, strict=True)
    return np.array(clusters), np.array(values, float)


def ratio_bootstrap(sums, sizes, *, n_resamples, seed=0):
    """`cluster_bootstrap` of a mean, from the sum and the size of each cluster."""
    totals = resampled_sums(np.column_stack([sums, sizes]), n_resamples=n_resamples, seed=seed)
    v, n = np.concatenate(list(totals)).T
    return percentile_interval(v / n, n_clusters=len(sums))


@pytest.mark.parametrize("n_clusters", [8, 20])
def test_the_interval_covers_a_clustered_mean_as_often_as_it_says_and_resampled_rows_do_not(n_clusters):
    rng = np.random.default_rng(1)
    covered, covered_by_rows = 0, 0
    for seed in range(250):
        values = clustered_sample(rng, n_clusters=n_clusters, size=10)
        sums = values.reshape(n_clusters, 10).sum(axis=1)
        low, high = ratio_bootstrap(sums, np.full(n_clusters, 10.0), n_resamples=250, seed=seed)
        covered += low <= 0 <= high
        low, high = ratio_bootstrap(values, np.ones(len(values)), n_resamples=250, seed=seed)
        covered_by_rows += low <= 0 <= high
    assert 0.91 <= covered / 250 <= 0.985
    assert covered_by_rows / 250 < 0.8


def test_the_interval_of_a_mean_is_the_normal_one_where_there_are_many_clusters():
    rng = np.random.default_rng(2)
    values = rng.normal(5, 2, size=400)
    low, high = cluster_bootstrap(mean_of(values), np.arange(400), n_resamples=4000)
    half = stats.norm.ppf(0.975) * values.std() / np.sqrt(400)
    assert low == pytest.approx(values.mean() - half, abs=half / 10)
    assert high == pytest.approx(values.mean() + half, abs=half / 10)


@PROPERTY
@given(clustered(), st.integers(0, 5))
def test_sums_per_cluster_give_the_same_interval_as_rows(sample, seed):
    clusters, values = sample
    _, inverse, sizes = np.unique(clusters, return_inverse=True, return_counts=True)
    sums = np.bincount(inverse, weights=values)
    by_rows = cluster_bootstrap(mean_of(values), clusters, n_resamples=60, seed=seed)
    by_sums = ratio_bootstrap(sums, sizes.astype(float), n_resamples=60, seed=seed)
    assert by_sums == (None if by_rows is None else pytest.approx(by_rows))


def test_any_function_of_sums_has_the_interval_of_the_same_function_of_rows():
    """A variance from the sums of 1, v and v^2."""
    rng = np.random.default_rng(4)
    values, clusters = rng.normal(size=50), np.arange(50) // 5
    sums = np.add.reduceat(np.column_stack([np.ones(50), values, values**2]), np.arange(0, 50, 5))
    n, v, v2 = np.concatenate(list(resampled_sums(sums, n_resamples=200, seed=7))).T
    by_sums = percentile_interval(v2 / n - (v / n) ** 2, n_clusters=10)
    by_rows = cluster_bootstrap(lambda rows: float(values[rows].var()), clusters, n_resamples=200, seed=7)
    assert by_sums == pytest.approx(by_rows)


def test_values_of_one_cluster_or_none_at_all_have_no_interval():
    assert percentile_interval(np.arange(9.0), n_clusters=1) is None
    assert percentile_interval(np.array([]), n_clusters=5) is None


@PROPERTY
@given(clustered())
def test_each_resample_holds_as_many_clusters_as_there_are_and_each_of_them_whole(sample):
    clusters, _ = sample
    _, sizes = np.unique(clusters, return_counts=True)
    seen = []

    def look(rows):
        seen.append(np.bincount(rows, minlength=len(clusters)))
        return 1.0

    cluster_bootstrap(look, clusters, n_resamples=20)
    assert len(seen) == (20 if len(sizes) > 1 else 0)
    for times in seen:
        per_cluster = {int(c): set(times[clusters == c].tolist()) for c in np.unique(clusters)}
        assert all(len(counts) == 1 for counts in per_cluster.values())
        assert sum(counts.pop() for counts in per_cluster.values()) == len(sizes)


def test_names_and_order_of_the_clusters_do_not_matter():
    values = np.array([1.0, 4.0, 2.0, 8.0, 5.0, 7.0])
    interval = cluster_bootstrap(mean_of(values), np.array([0, 0, 1, 1, 2, 2]))
    assert cluster_bootstrap(mean_of(values), np.array([10, 10, 77, 77, 300, 300])) == pytest.approx(interval)
    mixed = np.array([0, 2, 4, 1, 3, 5])
    assert cluster_bootstrap(mean_of(values[mixed]), np.array([0, 1, 2, 0, 1, 2])) == pytest.approx(interval)


def test_the_seed_decides_the_interval():
    values, clusters = np.arange(30.0) ** 2, np.arange(30) // 3
    one, again, other = (cluster_bootstrap(mean_of(values), clusters, seed=seed) for seed in (3, 3, 4))
    assert one == again
    assert one != other


def test_a_higher_level_and_fewer_clusters_widen_the_interval():
    values = np.arange(40.0)
    widths = [
        np.diff(cluster_bootstrap(mean_of(values), clusters, level=level)).item()
        for clusters, level in [(np.arange(40), 0.8), (np.arange(40), 0.95), (np.arange(40) // 10, 0.95)]
    ]
    assert widths == sorted(widths)


def test_one_cluster_or_none_has_no_interval():
    assert cluster_bootstrap(mean_of(np.arange(5.0)), np.zeros(5, int)) is None
    assert cluster_bootstrap(mean_of(np.array([])), np.array([], int)) is None


def test_an_interval_without_width_is_not_given():
    values = np.full(12, 0.1)
    assert cluster_bootstrap(mean_of(values), np.arange(12) // 2) is None


@pytest.mark.parametrize("nothing", [None, np.nan, np.inf])
def test_resamples_without_a_value_are_left_out_up_to_a_fifth_of_them(nothing):
    def undefined_in(n_times):
        calls = iter(range(100))
        values = np.arange(10.0)
        return lambda rows: nothing if next(calls) < n_times else float(values[rows].mean())

    plain = cluster_bootstrap(undefined_in(0), np.arange(10), n_resamples=100)
    low, high = cluster_bootstrap(undefined_in(20), np.arange(10), n_resamples=100)
    assert plain[0] - 1 < low < high < plain[1] + 1
    assert cluster_bootstrap(undefined_in(21), np.arange(10), n_resamples=100) is None


def test_many_clusters_are_drawn_in_blocks_and_still_give_one_interval():
    n_clusters = 30_000
    sums = np.arange(n_clusters) % 2 * 1.0
    low, high = ratio_bootstrap(sums, np.ones(n_clusters), n_resamples=100)
    half = 1.96 * 0.5 / np.sqrt(n_clusters)
    assert (high - low) / 2 == pytest.approx(half, rel=0.25)
    assert low < 0.5 < high


@pytest.mark.parametrize("wrong", [{"n_resamples": 0}, {"level": 1.0}, {"level": 0.0}])
def test_impossible_settings_are_a_programmers_mistake(wrong):
    with pytest.raises(ValueError, match="must hold"):
        cluster_bootstrap(mean_of(np.arange(4.0)), np.arange(4), **wrong)
