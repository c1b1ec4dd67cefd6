"""Coefficients from sums are those of their definitions, and their intervals keep a width."""

from __future__ import annotations

import numpy as np
import pytest

from jrh_mlflow.stats import agreement
from jrh_mlflow.stats.agreement import item_intervals


def rated(seed, *, n=40, raters=4, k=4, missing=0.25, right=0.7):
    rng = np.random.default_rng(seed)
    truth = rng.integers(k, size=(n, 1))
    labels = np.where(rng.random((n, raters)) < right, truth, rng.integers(k, size=(n, raters))).astype(float)
    labels[rng.random((n, raters)) < missing] = np.nan
    return labels


def weighed(ratings):
    rows, counts = np.unique(ratings, axis=0, return_counts=True, equal_nan=True)
    return rows, counts.astype(float)


@pytest.mark.parametrize("level", ["nominal", "ordinal", "interval"])
def test_alpha_from_sums_is_krippendorffs(level):
    for seed in range(20):
        ratings = rated(seed, k=2 + seed % 4) + 1000.0
        coefficient = agreement.alpha(*weighed(ratings), scale=level)
        assert coefficient.value == pytest.approx(agreement.krippendorff_alpha(ratings, scale=level), abs=1e-9)


def test_ordinal_alpha_of_a_long_scale_is_krippendorffs():
    ratings = rated(3, n=200, k=30)
    coefficient = agreement.alpha(*weighed(ratings), scale="ordinal")
    assert coefficient.sums.shape[1] == 4
    assert coefficient.value == pytest.approx(agreement.krippendorff_alpha(ratings, scale="ordinal"), abs=1e-9)


def test_coefficients_of_two_raters_from_sums_are_those_of_their_definitions():
    for seed in range(20):
        k = 2 + seed % 4
        ratings = rated(seed, raters=2, k=k)
        rows, counts = weighed(ratings)
        x, y = rows.T
        expected = {
            agreement.kappa(x, y, counts, n_labels=k).value: agreement.cohen_kappa(*ratings.T),
            agreement.mean_quadratic_kappa(rows[:, :1], rows[:, 1:], counts).value: (
                agreement.quadratic_kappa(*ratings.T, n_labels=k)
            ),
        }
        paired = ratings[~np.isnan(ratings).any(axis=1)]
        ac1 = agreement.ac1(x, y, counts, n_labels=k).value
        assert ac1 == pytest.approx(agreement.gwet_ac1(paired, n_categories=k))
        for found, value in expected.items():
            assert found == pytest.approx(value, abs=1e-9)


def test_perfect_agreement_on_few_items_keeps_a_width_like_clopper_and_pearson():
    x = np.array([0.0, 1.0])
    for n in (5.0, 15.0, 50.0):
        counts = np.array([n, n])
        hits = agreement.mean_share(np.ones((2, 3)), counts)
        coefficients = [
            agreement.kappa(x, x, counts, n_labels=2),
            agreement.ac1(x, x, counts, n_labels=2),
            agreement.mean_quadratic_kappa(x[:, None], x[:, None], counts),
            agreement.alpha(np.repeat(x[:, None], 3, axis=1), counts, scale="nominal"),
            hits,
        ]
        intervals = item_intervals(coefficients)
        assert all((high == 1.0 and 1 - low / (1 - 4 / n) > 0.2) or low < 1 - 1 / n for low, high in intervals)
        low, _ = item_intervals([hits])[0]
        clopper_pearson = 0.025 ** (1 / (2 * n))
        assert low == pytest.approx(clopper_pearson, abs=1.2 / n)


def test_items_in_bundles_have_the_interval_of_single_items():
    ratings = rated(1, n=6000, raters=3, k=5, missing=0) + np.random.default_rng(0).normal(0, 0.1, (6000, 3))
    coefficient = agreement.alpha(ratings, np.ones(6000), scale="interval")
    low, high = item_intervals([coefficient])[0]
    rows = np.arange(6000)
    rng = np.random.default_rng(5)
    draws = [coefficient.sums[rng.choice(rows, 6000)].sum(axis=0) for _ in range(400)]
    single = np.quantile(coefficient.score(np.array(draws)), [0.025, 0.975])
    assert high - low == pytest.approx(single[1] - single[0], rel=0.15)
    assert low < coefficient.value < high


def test_what_is_undefined_in_most_draws_has_no_interval():
    one = np.zeros(3)
    assert item_intervals([agreement.mean_quadratic_kappa(one[:, None], one[:, None], np.ones(3))]) == [None]


def test_the_same_seed_gives_the_same_interval_and_another_one_hardly_another():
    rows, counts = weighed(rated(2, raters=3))
    alpha = agreement.alpha(rows, counts, scale="nominal")
    first, again, other = (item_intervals([alpha], seed=seed)[0] for seed in (0, 0, 1))
    assert first == again != other
    assert first == pytest.approx(other, abs=0.05)
