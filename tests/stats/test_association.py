"""Correlations and errors against scipy and scikit-learn, by hand, and where they are not defined."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from sklearn import metrics

from jrh_mlflow.stats.agreement import concordance, matthews, mean_absolute_error, pearson, spearman
from tests.readings import PROPERTY

CORRELATIONS = (concordance, pearson, spearman)


@st.composite
def pairs(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    """Numbers with ties, some of them large and some not whole."""
    number = st.integers(-40, 40).map(lambda k: k / 4) | st.floats(-1e6, 1e6).map(lambda v: round(v, 3))
    drawn = draw(st.lists(st.tuples(number, number), min_size=3, max_size=30))
    x, y = zip(*drawn, strict=True)
    return np.array(x), np.array(y)


def by_scipy(test, x, y):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", stats.ConstantInputWarning)
        return test(x, y).statistic


@PROPERTY
@given(pairs())
@pytest.mark.parametrize(("ours", "theirs"), [(pearson, stats.pearsonr), (spearman, stats.spearmanr)])
def test_correlations_equal_scipys_and_have_no_value_where_scipy_has_nan(ours, theirs, pair):
    expected = by_scipy(theirs, *pair)
    if np.isnan(expected):
        assert ours(*pair) is None
    else:
        assert ours(*pair) == pytest.approx(expected, abs=1e-9)
        assert -1 <= ours(*pair) <= 1


@PROPERTY
@given(pairs())
def test_concordance_is_its_formula_with_population_moments_and_never_past_pearson(pair):
    x, y = pair
    spread = np.var(x) + np.var(y) + (x.mean() - y.mean()) ** 2
    if np.ptp(np.concatenate(pair)) == 0:
        assert concordance(x, y) is None
        return
    assert concordance(x, y) == pytest.approx(1 - np.square(x - y).mean() / spread, abs=1e-9)
    assert abs(concordance(x, y)) <= abs(pearson(x, y) or 0) + 1e-9


@PROPERTY
@given(pairs(), st.floats(0.1, 9), st.floats(-50, 50))
def test_concordance_is_the_same_both_ways_and_on_any_common_scale(pair, factor, shift):
    x, y = pair
    found = concordance(x, y)
    assert concordance(y, x) == (None if found is None else pytest.approx(found, abs=1e-9))
    moved = concordance(factor * x + shift, factor * y + shift)
    assert moved == (None if found is None else pytest.approx(found, abs=1e-6))


def test_concordance_is_lowered_by_a_shift_and_by_another_spread_while_pearson_is_not():
    x = np.array([1.0, 2.0, 3.0])
    assert concordance(x, x) == pytest.approx(1)
    # s_x^2 = s_xy = 2/3, shift 1: 2 (2/3) / (2/3 + 2/3 + 1) = 4/7.
    assert concordance(x, x + 1) == pytest.approx(4 / 7)
    # s_xy = 4/3, s_y^2 = 8/3, shift 2: (8/3) / (2/3 + 8/3 + 4) = 4/11.
    assert concordance(x, 2 * x) == pytest.approx(4 / 11)
    assert concordance(x, -x) == pytest.approx(-(4 / 3) / (4 / 3 + 16))
    assert pearson(x, 2 * x + 1) == pytest.approx(1)


def test_concordance_is_zero_when_just_one_side_varies_or_both_stand_apart():
    x = np.array([1.0, 2.0, 3.0])
    assert concordance(x, np.full(3, 2.0)) == 0
    assert concordance(np.full(3, 1.0), np.full(3, 2.0)) == 0


@pytest.mark.parametrize("function", CORRELATIONS)
def test_a_correlation_needs_variation_whatever_the_last_bit_says(function):
    assert function(np.full(10, 0.1), np.full(10, 0.1)) is None
    assert function(np.array([]), np.array([])) is None


@pytest.mark.parametrize("function", [pearson, spearman])
def test_two_points_have_no_correlation(function):
    assert function(np.array([1.0, 2.0, np.nan]), np.array([1.0, 5.0, 3.0])) is None
    assert function(np.array([1.0, 2.0, 3.0]), np.full(3, 0.1)) is None


def test_one_pair_has_no_concordance_and_two_have():
    assert concordance(np.array([1.0]), np.array([2.0])) is None
    assert concordance(np.array([1.0, 2.0]), np.array([1.0, 2.0])) == pytest.approx(1)


@pytest.mark.parametrize("function", CORRELATIONS)
@pytest.mark.parametrize("scale", [1e-200, 1e150])
def test_very_small_and_very_large_numbers_correlate_as_any_other(function, scale):
    x, y = np.array([1.0, 2.0, 3.0, 5.0]), np.array([2.0, 1.0, 4.0, 5.0])
    assert function(x * scale, y * scale) == pytest.approx(function(x, y))


@pytest.mark.parametrize("function", [*CORRELATIONS, mean_absolute_error])
def test_a_pair_with_a_missing_value_is_left_out(function):
    x, y = np.array([1.0, 2.0, 3.0, np.nan, 9.0]), np.array([1.0, 3.0, 2.0, 7.0, np.nan])
    assert function(x, y) == pytest.approx(function(x[:3], y[:3]))


@PROPERTY
@given(pairs())
def test_the_mean_absolute_error_equals_scikit_learns(pair):
    assert mean_absolute_error(*pair) == pytest.approx(metrics.mean_absolute_error(*pair))


def test_the_mean_absolute_error_of_nothing_is_not_zero():
    assert mean_absolute_error(np.array([np.nan]), np.array([1.0])) is None


@PROPERTY
@given(st.tuples(*[st.integers(0, 30)] * 4))
def test_matthews_equals_scikit_learns_and_has_no_value_with_an_empty_margin(table):
    tp, fp, fn, tn = table
    found = matthews(*table)
    if 0 in (tp + fp, tp + fn, tn + fp, tn + fn):
        assert found is None
    else:
        truth = np.repeat([1, 0, 1, 0], table)
        answer = np.repeat([1, 1, 0, 0], table)
        assert found == pytest.approx(metrics.matthews_corrcoef(truth, answer), abs=1e-12)


def test_matthews_tells_an_inverted_judge_from_a_right_one():
    assert matthews(5, 0, 0, 7) == pytest.approx(1)
    assert matthews(0, 5, 7, 0) == pytest.approx(-1)
    assert matthews(6, 1, 2, 3) == pytest.approx(16 / math.sqrt(7 * 8 * 4 * 5))


def test_impossible_input_is_a_programmers_mistake():
    with pytest.raises(ValueError, match="fn=-1"):
        matthews(1, 1, -1, 1)
    with pytest.raises(ValueError, match=r"shapes \(2,\) and \(3,\)"):
        pearson(np.ones(2), np.ones(3))
    with pytest.raises(ValueError, match="infinity"):
        mean_absolute_error(np.array([np.inf]), np.array([1.0]))
