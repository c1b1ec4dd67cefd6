"""Agreement coefficients against print, against their definitions spelled out pair by pair, and their invariances."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import cohen_kappa_score
from statsmodels.stats.inter_rater import cohens_kappa

from jrh_mlflow.stats.agreement import (
    cohen_kappa,
    concordance,
    disagreement,
    gwet_ac1,
    krippendorff_alpha,
    quadratic_kappa,
    unanimous,
)
from tests.readings import PROPERTY

NA = np.nan

FOUR_CODERS = np.array(
    [
        [1, 1, NA, 1],
        [2, 2, 3, 2],
        [3, 3, 3, 3],
        [3, 3, 3, 3],
        [2, 2, 2, 2],
        [1, 2, 3, 4],
        [4, 4, 4, 4],
        [1, 1, 2, 1],
        [2, 2, 2, 2],
        [NA, 5, 5, 5],
        [NA, NA, 1, 1],
        [NA, NA, 3, NA],
    ]
)
"""Krippendorff (2011), section C: four observers, twelve units, missing data. Also Gwet's `cac.raw4raters`."""

SIX_PSYCHIATRISTS = np.array(
    [
        [0, 0, 0, 6, 0],
        [0, 3, 0, 0, 3],
        [0, 1, 4, 0, 1],
        [0, 0, 0, 0, 6],
        [0, 3, 0, 3, 0],
        [2, 0, 4, 0, 0],
        [0, 0, 4, 0, 2],
        [2, 0, 3, 1, 0],
        [2, 0, 0, 4, 0],
        [0, 0, 0, 0, 6],
        [1, 0, 0, 5, 0],
        [1, 1, 0, 4, 0],
        [0, 3, 3, 0, 0],
        [1, 0, 0, 5, 0],
        [0, 2, 0, 3, 1],
    ]
)
"""Raters per diagnosis for 15 patients: `distrib.6raters`, printed with its coefficients in Gwet's irrCAC manual."""

LEVELS = ("nominal", "ordinal", "interval")


def spelled_out(counts: np.ndarray) -> np.ndarray:
    """Ratings with the given number of raters per category."""
    return np.array([np.repeat(np.arange(len(row)), row) for row in counts], float)


def crossed(table: list[list[int]]) -> np.ndarray:
    """Two raters' ratings with the given contingency table."""
    return np.array([(i, j) for i, row in enumerate(table) for j, n in enumerate(row) for _ in range(n)], float)


@st.composite
def matrices(draw: st.DrawFn) -> np.ndarray:
    width = draw(st.integers(1, 5))
    rating = st.sampled_from([0.0, 1.0, 2.0, 5.0, NA])
    return np.array(draw(st.lists(st.lists(rating, min_size=width, max_size=width), min_size=1, max_size=10)))


@st.composite
def graded(draw: st.DrawFn, n_levels: int = 6) -> tuple[np.ndarray, np.ndarray]:
    pairs = draw(
        st.lists(st.tuples(st.integers(0, n_levels - 1), st.integers(0, n_levels - 1)), min_size=2, max_size=40)
    )
    x, y = zip(*pairs, strict=True)
    return np.array(x, float), np.array(y, float)


def alpha_by_pairs(ratings: np.ndarray, level: str) -> float | None:
    """The definition with a loop over every ordered pair of values."""
    units = [[v for v in row if not np.isnan(v)] for row in ratings]
    units = [unit for unit in units if len(unit) >= 2]
    pooled = [v for unit in units for v in unit]

    def distance(c, k):
        if level == "nominal":
            return float(c != k)
        if level == "interval":
            return (c - k) ** 2
        low, high = min(c, k), max(c, k)
        between = sum(low <= v <= high for v in pooled)
        return (between - (pooled.count(low) + pooled.count(high)) / 2) ** 2 if c != k else 0.0

    n = len(pooled)
    observed = sum(sum(distance(c, k) for c, k in permutations(unit, 2)) / (len(unit) - 1) for unit in units)
    expected = sum(distance(c, k) for c, k in permutations(pooled, 2))
    return 1 - (n - 1) * observed / expected if expected else None


@pytest.mark.parametrize(("level", "printed"), [("nominal", 0.743), ("ordinal", 0.815), ("interval", 0.849)])
def test_alpha_of_the_four_coders_is_the_printed_one(level, printed):
    assert round(krippendorff_alpha(FOUR_CODERS, scale=level), 3) == printed


def test_alpha_of_gwets_other_examples_is_the_printed_one():
    assert round(krippendorff_alpha(spelled_out(SIX_PSYCHIATRISTS), scale="nominal"), 7) == 0.4204384
    abstractors = crossed([[13, 0, 0], [0, 20, 7], [0, 4, 56]])
    assert round(krippendorff_alpha(abstractors, scale="nominal"), 7) == 0.7972585


@PROPERTY
@given(matrices(), st.sampled_from(LEVELS))
def test_alpha_is_what_its_definition_gives_pair_by_pair(ratings, level):
    expected = alpha_by_pairs(ratings, level)
    if expected is None:
        assert krippendorff_alpha(ratings, scale=level) is None
    else:
        assert krippendorff_alpha(ratings, scale=level) == pytest.approx(expected, abs=1e-12)


@PROPERTY
@given(st.randoms(use_true_random=False), st.sampled_from(LEVELS))
def test_alpha_does_not_depend_on_the_order_of_units_or_replicates(random, level):
    rows = random.sample(range(12), 12)
    shuffled = np.array([random.sample(list(row), 4) for row in FOUR_CODERS[rows]])
    assert krippendorff_alpha(shuffled, scale=level) == pytest.approx(krippendorff_alpha(FOUR_CODERS, scale=level))


@PROPERTY
@given(st.permutations([1.0, 2.0, 3.0, 4.0, 5.0]))
def test_only_nominal_agreement_ignores_what_the_categories_are_called(names):
    renamed = np.where(np.isnan(FOUR_CODERS), NA, np.array(names)[np.nan_to_num(FOUR_CODERS, nan=1).astype(int) - 1])
    assert krippendorff_alpha(renamed, scale="nominal") == pytest.approx(0.743421, abs=1e-6)
    assert gwet_ac1(renamed, n_categories=5) == pytest.approx(gwet_ac1(FOUR_CODERS, n_categories=5))
    np.testing.assert_array_equal(disagreement(renamed), disagreement(FOUR_CODERS))


def test_ordinal_alpha_needs_the_order_only_and_interval_alpha_the_distances():
    squared = FOUR_CODERS**2
    assert krippendorff_alpha(squared, scale="ordinal") == pytest.approx(0.815388, abs=1e-6)
    assert abs(krippendorff_alpha(squared, scale="interval") - 0.849107) > 0.01
    assert krippendorff_alpha(3 * FOUR_CODERS - 7, scale="interval") == pytest.approx(0.849107, abs=1e-6)


def test_replicates_that_never_agree_have_an_alpha_under_zero():
    assert krippendorff_alpha(np.array([[0.0, 1.0], [1.0, 0.0]]), scale="nominal") == pytest.approx(-0.5)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(
    "ratings",
    [
        np.full((3, 2), 4.0),
        np.full((3, 2), NA),
        np.array([[1.0, NA], [NA, 2.0]]),
        np.array([[1.0, 1.0], [2.0, NA]]),
        np.empty((0, 3)),
    ],
    ids=["no variation", "nothing given", "no pair", "variation outside the pairs only", "no units"],
)
def test_alpha_is_not_given_a_number_without_pairs_or_variation(ratings, level):
    assert krippendorff_alpha(ratings, scale=level) is None


def test_ac1_of_gwets_examples_is_the_printed_one():
    assert round(gwet_ac1(FOUR_CODERS, n_categories=5), 5) == 0.77544
    assert round(gwet_ac1(spelled_out(SIX_PSYCHIATRISTS), n_categories=5), 7) == 0.4448007
    assert round(gwet_ac1(crossed([[13, 0, 0], [0, 20, 7], [0, 4, 56]]), n_categories=3), 7) == 0.8493305


def test_ac1_stays_high_where_kappa_collapses():
    """118 of 125 pairs agree and one category is rare: pi = 0.972, p_e = 2 pi (1 - pi), (0.944 - p_e) / (1 - p_e)."""
    skewed = crossed([[118, 5], [2, 0]])
    share = (120 / 125 + 123 / 125) / 2
    chance = 2 * share * (1 - share)
    assert gwet_ac1(skewed, n_categories=2) == pytest.approx((118 / 125 - chance) / (1 - chance))
    assert gwet_ac1(skewed, n_categories=2) > 0.9
    assert cohen_kappa_score(skewed[:, 0], skewed[:, 1]) < 0


def test_ac1_takes_its_chance_from_the_categories_of_the_question():
    """One pair in two agrees, shares 3/4 and 1/4: p_e = 3/8 over (q - 1)."""
    ratings = np.array([[0.0, 0.0], [0.0, 1.0]])
    for q in (2, 3, 5):
        chance = 3 / 8 / (q - 1)
        assert gwet_ac1(ratings, n_categories=q) == pytest.approx((0.5 - chance) / (1 - chance))


def test_ac1_is_one_when_everybody_gives_one_category_and_undefined_without_a_pair():
    assert gwet_ac1(np.ones((4, 3)), n_categories=2) == 1
    assert gwet_ac1(np.array([[1.0, NA], [NA, 0.0]]), n_categories=2) is None
    assert gwet_ac1(np.empty((0, 2)), n_categories=2) is None


def test_ac1_refuses_more_categories_than_the_question_has():
    with pytest.raises(ValueError, match="At most 4 categories may occur, but got 5"):
        gwet_ac1(FOUR_CODERS, n_categories=4)
    with pytest.raises(ValueError, match="n_categories=1"):
        gwet_ac1(np.ones((2, 2)), n_categories=1)


@PROPERTY
@given(matrices())
def test_disagreement_is_the_share_of_pairs_that_differ_and_unanimity_its_zero(ratings):
    found, same = disagreement(ratings), unanimous(ratings)
    for row, share, agreed in zip(ratings, found, same, strict=True):
        pairs = list(permutations(row[~np.isnan(row)], 2))
        if pairs:
            assert share == pytest.approx(np.mean([c != k for c, k in pairs]))
            assert agreed == (share == 0)
        else:
            assert np.isnan(share)
            assert not agreed


@PROPERTY
@given(graded())
def test_quadratic_kappa_equals_scikit_learns_on_the_whole_scale_and_the_concordance(pair):
    x, y = pair
    found = quadratic_kappa(x, y, n_labels=6)
    if found is None:
        assert np.ptp(np.concatenate(pair)) == 0
    else:
        assert found == pytest.approx(cohen_kappa_score(x, y, labels=range(6), weights="quadratic"), abs=1e-12)
        assert found == pytest.approx(concordance(x, y), abs=1e-12)


def test_levels_nobody_used_keep_their_distance():
    """Grades 0, 1 and 5 only; numbered 0, 1, 2 as they are seen, the far miss would look like a near one."""
    x, y = np.array([0.0, 1.0, 5.0, 5.0]), np.array([0.0, 1.0, 5.0, 1.0])
    assert quadratic_kappa(x, y, n_labels=6) != pytest.approx(cohen_kappa_score(x, y, weights="quadratic"))


def test_kappa_leaves_out_missing_pairs_and_refuses_what_is_no_level():
    x, y = np.array([0.0, 1.0, 2.0, NA, 1.0]), np.array([1.0, 2.0, 3.0, 0.0, NA])
    assert quadratic_kappa(x, y, n_labels=4) == pytest.approx(4 / 7)
    assert quadratic_kappa(x[3:], y[3:], n_labels=4) is None
    for wrong in (-1.0, 4.0, 0.5):
        with pytest.raises(ValueError, match=f"whole and 0 … 3, but got {wrong}"):
            quadratic_kappa(np.array([wrong]), np.array([0.0]), n_labels=4)
    with pytest.raises(ValueError, match="n_labels=1"):
        quadratic_kappa(x, y, n_labels=1)


@pytest.mark.parametrize("ratings", [np.ones(3), np.array([[1.0, np.inf]])])
def test_ratings_that_are_no_finite_matrix_are_a_programmers_mistake(ratings):
    for function in (disagreement, unanimous):
        with pytest.raises(ValueError, match="units × replicates"):
            function(ratings)


def test_kappas_are_those_of_statsmodels_on_many_tables():
    rng = np.random.default_rng(0)
    compared = 0
    for _ in range(200):
        k = int(rng.integers(2, 6))
        table = rng.multinomial(rng.integers(5, 80), rng.dirichlet(np.full(k * k, 0.4))).reshape(k, k)
        x, y = crossed(table.tolist()).T
        if len(np.unique([x, y])) < 2:
            continue
        assert cohen_kappa(x, y) == pytest.approx(cohens_kappa(table, return_results=False), abs=1e-12)
        weighted = cohens_kappa(table, wt="quadratic", return_results=False)
        assert quadratic_kappa(x, y, n_labels=k) == pytest.approx(weighted, abs=1e-12)
        compared += 1
    assert compared > 150


def test_kappa_leaves_out_pairs_with_a_missing_label():
    x, y = np.array([0.0, 1.0, 1.0, NA, 0.0]), np.array([0.0, 1.0, 0.0, 1.0, NA])
    assert cohen_kappa(x, y) == pytest.approx(cohen_kappa_score([0, 1, 1], [0, 1, 0]))


def test_kappa_of_one_label_throughout_or_of_nothing_is_undefined():
    assert cohen_kappa(np.ones(5), np.ones(5)) is None
    assert cohen_kappa(np.array([]), np.array([])) is None
    assert cohen_kappa(np.zeros(5), np.ones(5)) == 0
