"""Step-down max-T against plain enumeration, and what it must not depend on."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from jrh_mlflow.stats import Array
from jrh_mlflow.stats.max_t import MaxT, exact_end, max_t, max_t_of_statistics, share_limit, sign_patterns
from jrh_mlflow.stats.paired import cluster_sign_p, holm
from jrh_mlflow.stats.proportions import beta_binomial_interval, newcombe, share_correlation
from tests.readings import COSTLY_PROPERTY, PROPERTY

TABLES = st.tuples(st.integers(1, 7), st.integers(1, 5)).flatmap(
    lambda shape: arrays(np.float64, shape, elements=st.integers(-4, 4).map(float))
)


def by_enumeration(sums: Array) -> tuple[list[float], list[float]]:
    """Westfall & Young, Algorithm 2.8, word by word over all 2^k sign patterns."""
    rows = [np.array(signs) @ sums for signs in product((1, -1), repeat=len(sums))]
    scale = np.sqrt((sums**2).sum(axis=0))
    scaled = [[abs(v) / s if s else 0.0 for v, s in zip(row, scale, strict=True)] for row in rows]
    seen = scaled[0]
    order = sorted(range(len(seen)), key=lambda h: -seen[h])
    adjusted, floor = [0.0] * len(seen), 0.0
    for rank, h in enumerate(order):
        hits = sum(max(row[other] for other in order[rank:]) >= seen[h] - 1e-9 for row in scaled)
        floor = max(floor, hits / len(rows))
        adjusted[h] = floor
    plain = [sum(row[h] >= seen[h] - 1e-9 for row in scaled) / len(rows) for h in range(len(seen))]
    return plain, adjusted


@given(TABLES)
@COSTLY_PROPERTY
def test_it_is_the_procedure_of_the_book_over_all_sign_patterns(sums: Array) -> None:
    found = max_t(sums)
    plain, adjusted = by_enumeration(sums)
    np.testing.assert_allclose(found.p, plain)
    np.testing.assert_allclose(found.p_adjusted, adjusted)


@given(TABLES)
@PROPERTY
def test_adjusted_is_never_smaller_and_keeps_the_order_of_the_statistics(sums: Array) -> None:
    found = max_t(sums)
    assert (found.p_adjusted >= found.p - 1e-12).all()
    assert (found.p_adjusted <= 1).all()
    order = np.argsort(-found.statistic, kind="stable")
    assert (np.diff(found.p_adjusted[order]) >= -1e-12).all()


@given(TABLES, st.data())
@COSTLY_PROPERTY
def test_neither_scale_nor_direction_nor_order_of_hypotheses_or_clusters_matters(
    sums: Array, data: st.DataObject
) -> None:
    factors = np.array([data.draw(st.sampled_from([0.001, -0.5, 3.0, -1.0, 1000.0])) for _ in sums.T])
    hypotheses = np.array(data.draw(st.permutations(range(sums.shape[1]))))
    clusters = np.array(data.draw(st.permutations(range(len(sums)))))
    found, changed = max_t(sums), max_t((sums * factors)[clusters][:, hypotheses])
    np.testing.assert_allclose(changed.p, found.p[hypotheses])
    np.testing.assert_allclose(changed.p_adjusted, found.p_adjusted[hypotheses])
    assert changed.critical == pytest.approx(found.critical)


@given(TABLES)
@PROPERTY
def test_a_statistic_over_the_critical_value_is_what_the_first_step_rejects(sums: Array) -> None:
    found = max_t(sums, alpha=0.25)
    first = found.statistic.max()
    rejected = found.p_adjusted[found.statistic.argmax()] <= 0.25
    assert rejected == (found.critical is not None and bool(first > found.critical + 1e-9))


@given(TABLES)
@PROPERTY
def test_unadjusted_it_is_the_sign_flip_test_and_a_repeated_hypothesis_costs_nothing(sums: Array) -> None:
    rows = np.arange(len(sums))
    plain = [cluster_sign_p(column, np.zeros(len(sums)), rows) for column in sums.T]
    np.testing.assert_allclose(max_t(sums).p, plain)
    np.testing.assert_allclose(max_t(np.repeat(sums[:, :1], 20, axis=1)).p_adjusted, plain[0])


def four_judges() -> Array:
    """Dark current 0, 0, 1, 0 on ten tasks of twelve calls; seven more axes on which nobody differs."""
    rates = np.array([0.0, 0.0, 1.0, 0.0])
    pairs = [(a, b) for a in range(4) for b in range(a + 1, 4)]
    dark = np.array([[12 * (rates[a] - rates[b]) for a, b in pairs]] * 10)
    return np.hstack([dark, np.zeros((10, 42))])


def test_four_judges_with_dark_current_0_0_1_0_on_ten_tasks_are_told_apart() -> None:
    found = max_t(four_judges())
    told = np.array([False, True, False, True, False, True])
    np.testing.assert_allclose(found.p_adjusted[:6][told], 2**-9)
    assert (found.p_adjusted[:6][~told] == 1).all()
    assert (found.p_adjusted[6:] == 1).all()
    assert min(holm(found.p.tolist())) > 0.05


def test_a_judge_that_differs_is_told_apart_among_axes_that_only_jitter() -> None:
    rng = np.random.default_rng(0)
    sums = four_judges()
    sums[:, 6:] = rng.integers(-2, 3, size=(10, 42))
    found = max_t(sums)
    assert (found.p_adjusted[[1, 3, 5]] < 0.05).all()
    assert (found.p_adjusted[6:] > 0.05).all()
    assert min(holm(found.p.tolist())) > 0.05


@pytest.mark.parametrize("n_clusters", [1, 2, 3, 4, 5])
def test_with_five_clusters_or_fewer_nothing_can_be_told_apart_and_critical_says_so(n_clusters: int) -> None:
    found = max_t(np.full((n_clusters, 3), 12.0))
    assert found.critical is None
    assert found.p_adjusted.min() == pytest.approx(2 ** (1 - n_clusters))


def test_with_six_clusters_something_can_be() -> None:
    found = max_t(np.full((6, 3), 12.0))
    assert found.critical is not None
    assert found.p_adjusted.max() == pytest.approx(2**-5)


def test_clusters_in_which_nobody_differs_add_nothing() -> None:
    sums = np.random.default_rng(1).integers(-3, 4, size=(5, 3)).astype(float)
    padded = np.vstack([sums, np.zeros((40, 3))])
    np.testing.assert_allclose(max_t(padded).p_adjusted, max_t(sums).p_adjusted)
    assert max_t(padded).critical is None


def test_what_rounding_leaves_of_equal_scores_is_no_difference() -> None:
    sums = np.full((10, 2), 0.1 + 0.2 - 0.3)
    assert (sums != 0).all()
    found = max_t(sums)
    assert found.p.tolist() == found.p_adjusted.tolist() == [1.0, 1.0]
    assert found.critical is None


def close(one: MaxT, other: MaxT) -> None:
    np.testing.assert_allclose(one.p, other.p, atol=0.02)
    np.testing.assert_allclose(one.p_adjusted, other.p_adjusted, atol=0.02)
    assert one.critical == pytest.approx(other.critical, abs=0.05)


def test_drawn_patterns_agree_with_all_patterns() -> None:
    rng = np.random.default_rng(3)
    sums = rng.normal(size=(12, 6)) + np.array([0, 0.4, 0.8, 1.2, 0, 0])
    exact = max_t(sums)
    drawn = [max_t(sums, n_resamples=1999, seed=seed) for seed in (0, 1)]
    assert exact.n_patterns == 2**11
    for each in drawn:
        assert each.n_patterns == 2000
        close(each, exact)
    assert drawn[0].p_adjusted.tolist() != drawn[1].p_adjusted.tolist()
    assert max_t(sums, n_resamples=1999, seed=0).p_adjusted.tolist() == drawn[0].p_adjusted.tolist()


def test_a_drawn_p_value_is_never_zero() -> None:
    found = max_t(np.ones((60, 2)), n_resamples=999)
    assert found.p.tolist() == found.p_adjusted.tolist() == [0.001, 0.001]


def test_other_statistics_join_the_family_under_the_same_patterns() -> None:
    sums = np.random.default_rng(4).integers(-3, 5, size=(8, 3)).astype(float)
    signs = sign_patterns(8)
    # A statistic that is a multiple of a sum is that sum, whatever its unit.
    family = max_t_of_statistics(np.hstack([signs @ sums, (signs @ sums[:, :1]) / 7]))
    alone = max_t(sums)
    np.testing.assert_allclose(family.p_adjusted, [*alone.p_adjusted, alone.p_adjusted[0]])
    np.testing.assert_allclose(family.statistic[3], family.statistic[0])


def test_a_statistic_that_a_pattern_leaves_undefined_counts_there_as_no_difference() -> None:
    statistics = np.array([[3.0, np.nan], [1.0, 1.0], [-1.0, np.nan], [-3.0, 2.0]])
    found = max_t_of_statistics(statistics)
    assert found.p.tolist() == [0.5, 1.0]


def test_no_hypothesis_gives_no_p_value() -> None:
    found = max_t(np.zeros((10, 0)))
    assert found.p.shape == found.p_adjusted.shape == (0,)
    assert found.critical is None


@pytest.mark.parametrize("bad", [np.zeros(3), np.array([[np.nan]]), np.array([[np.inf]])])
def test_what_is_no_table_of_finite_sums_is_refused(bad: Array) -> None:
    with pytest.raises(ValueError, match="clusters × hypotheses"):
        max_t(bad)


@given(TABLES, st.data())
@COSTLY_PROPERTY
def test_limits_only_take_away_and_leave_the_unadjusted_p_alone(sums: Array, data: st.DataObject) -> None:
    limits = np.array([data.draw(st.sampled_from([0.0, 0.7, 1.4, math.inf])) for _ in sums.T])
    free, limited = max_t(sums), max_t(sums, limits=limits)
    np.testing.assert_allclose(limited.p, free.p)
    assert (limited.p_adjusted >= free.p_adjusted - 1e-12).all()
    assert (limited.p_adjusted[limits == 0] == 1).all()
    assert limited.critical == free.critical
    np.testing.assert_allclose(max_t(sums, limits=np.full(sums.shape[1], math.inf)).p_adjusted, free.p_adjusted)


TWELVE = np.full(10, 12.0)
COUNTS = arrays(np.float64, 10, elements=st.integers(0, 12).map(float))


@given(COUNTS, COUNTS, st.permutations(range(10)))
@COSTLY_PROPERTY
def test_a_limit_does_not_depend_on_which_judge_is_first_on_the_order_of_tasks_or_on_what_is_called_a_hit(
    a: Array, b: Array, order: list[int]
) -> None:
    limit = pytest.approx(share_limit(a, b, TWELVE), rel=1e-3)
    assert share_limit(b, a, TWELVE) == limit
    assert share_limit(a[order], b[order], TWELVE) == limit
    assert share_limit(TWELVE - a, TWELVE - b, TWELVE) == limit


def test_a_limit_is_where_the_one_sided_error_of_the_interval_is_the_two_sided_p_of_a_t_test() -> None:
    a, b = np.array([0, 0, 1, 2, 0, 3, 1, 0, 2, 1.0]), np.array([3, 9, 8, 11, 2, 6, 12, 5, 8, 7.0])
    limit = share_limit(a, b, TWELVE)
    error = 2 * stats.t.sf(limit * math.sqrt(9 / (10 - limit**2)), 9)
    assert 1e-5 < error < 0.05
    ends = [beta_binomial_interval(counts, TWELVE, level=1 - 2 * error) for counts in (a, b)]
    together = share_correlation(a, TWELVE, b, TWELVE)
    low, _ = newcombe(a.sum() / 120, ends[0], b.sum() / 120, ends[1], correlation=together)
    assert low == pytest.approx(0, abs=1e-3)


def test_a_limit_claims_no_5_percent_where_the_95_percent_interval_holds_0() -> None:
    none = np.zeros(10)
    # No task that is neither all hits nor none: for all that is known the judge answers each task alike.
    nowhere = 0.0, exact_end(0.0, 10, 0.025)
    for misses in np.linspace(0.5, 6, 26):
        often = np.full(10, misses)
        ends = nowhere, beta_binomial_interval(often, TWELVE)
        low, _ = newcombe(0.0, ends[0], misses / 12, ends[1])
        limit = share_limit(often, none, TWELVE)
        p = 2 * stats.t.sf(limit * math.sqrt(9 / (10 - limit**2)), 9)
        assert (p <= 0.05) == (low > 0)


def test_one_miss_in_every_task_against_none_yet_is_not_told_apart_but_half_of_all_is() -> None:
    """Ten tasks may lack the one in ten on which the other judge always misses."""
    none = np.zeros(10)
    for misses, told in ((1.0, False), (6.0, True), (12.0, True)):
        sums = np.full((10, 1), misses)
        limit = np.array([share_limit(np.full(10, misses), none, TWELVE)])
        assert max_t(sums).p_adjusted[0] == pytest.approx(2**-9)
        assert (max_t(sums, limits=limit).p_adjusted[0] < 0.05) == told


def test_a_judge_that_answers_each_task_alike_is_not_told_from_one_that_errs_as_often() -> None:
    """Five axes, 28 tasks of four calls: one errs in a tenth of all calls, one always on a tenth of the tasks."""
    rng, sizes, wrong, alone = np.random.default_rng(11), np.full(28, 4.0), 0, 0
    for _ in range(60):
        everywhere, by_task = rng.binomial(4, 0.1, (28, 5)).astype(float), 4.0 * (rng.random((28, 5)) < 0.1)
        flips = max_t(everywhere - by_task, n_resamples=399).p_adjusted <= 0.05
        limits = np.array([share_limit(everywhere[:, at], by_task[:, at], sizes) for at in range(5)])
        apart = max_t(everywhere - by_task, limits=limits, n_resamples=399).p_adjusted <= 0.05
        alone, wrong = alone + flips.any(), wrong + apart.any()
    assert alone >= 8
    assert wrong <= 5


def test_more_tasks_lift_the_limit() -> None:
    limits = [share_limit(np.ones(k), np.zeros(k), np.full(k, 12.0)) for k in (5, 10, 28, 60)]
    assert limits == sorted(limits)
    assert limits[-1] > 2.5


def test_one_cluster_has_no_limit_and_tells_nothing_apart() -> None:
    assert share_limit(np.array([12.0]), np.array([0.0]), np.array([12.0])) == math.inf
    assert share_limit(np.array([12.0, 0]), np.array([0.0, 0]), np.array([12.0, 0])) == math.inf
