"""Paired tests against print and by enumeration, Holm against the procedure, letters against what they must mean."""

from __future__ import annotations

import re
from fractions import Fraction
from itertools import combinations, product
from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special, stats

from jrh_mlflow.stats.paired import (
    cluster_sign_p,
    holm,
    letters,
    mcnemar_midp,
    paired_share_interval,
)
from tests.readings import PROPERTY

NA = np.nan


def by_enumeration(sums: list[float]) -> float:
    totals = [abs(sum(s * d for s, d in zip(signs, sums, strict=True))) for signs in product((1, -1), repeat=len(sums))]
    return float(np.mean([total >= abs(sum(sums)) - 1e-9 for total in totals]))


def sign_p(sums, **settings):
    """The test on one unit per cluster with these differences."""
    values = np.array(sums, float)
    return cluster_sign_p(values, np.zeros(len(values)), np.arange(len(values)), **settings)


def shares_a_letter(found: dict[str, str], one: str, other: str) -> bool:
    tokens = [set(re.findall(r"[a-zA-Z]\d*", found[name])) for name in (one, other)]
    return bool(tokens[0] & tokens[1])


def test_mid_p_of_the_published_example_is_the_printed_one():
    """Fagerland et al. (2013), Table 1: 21 children, discordant 1 and 7. 2 (1 + 8) / 256 - 8 / 256 = 10 / 256."""
    assert mcnemar_midp(1, 7) == pytest.approx(10 / 256)
    assert round(mcnemar_midp(1, 7), 3) == 0.039


@PROPERTY
@given(st.integers(0, 60), st.integers(0, 60))
def test_mid_p_counts_what_is_further_out_in_full_and_what_is_as_far_by_half(b, c):
    n = b + c
    further = sum(comb(n, k) for k in range(n + 1) if abs(2 * k - n) > abs(b - c))
    as_far = sum(comb(n, k) for k in range(n + 1) if abs(2 * k - n) == abs(b - c))
    expected = Fraction(2 * further + as_far, 2 ** (n + 1)) if n else 1
    assert mcnemar_midp(b, c) == pytest.approx(float(expected))
    assert mcnemar_midp(c, b) == pytest.approx(mcnemar_midp(b, c))
    assert mcnemar_midp(b, c) <= stats.binomtest(b, n).pvalue + 1e-12 if n else True


def test_mid_p_without_a_discordant_unit_is_one_and_negative_counts_are_refused():
    assert mcnemar_midp(0, 0) == 1.0
    with pytest.raises(ValueError, match="b=-1, c=3"):
        mcnemar_midp(-1, 3)


def test_holm_adjusts_by_hand():
    """Sorted 0.005, 0.01, 0.03, 0.04 times 4, 3, 2, 1 is 0.02, 0.03, 0.06, 0.04; the last may not fall under 0.06."""
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.6, 0.7]) == [1.0, 1.0]
    assert holm([0.02]) == [0.02]
    assert holm([]) == []


@PROPERTY
@given(st.lists(st.integers(0, 1024), max_size=12), st.integers(1, 1023))
def test_what_holm_adjusts_to_the_level_is_what_his_procedure_rejects(numerators, alpha):
    """In 1024ths, so that every product is exact."""
    rejected, m = set(), len(numerators)
    for step, index in enumerate(sorted(range(m), key=lambda i: numerators[i])):
        if numerators[index] * (m - step) > alpha:
            break
        rejected.add(index)
    adjusted = holm([k / 1024 for k in numerators])
    assert {i for i, p in enumerate(adjusted) if p <= alpha / 1024} == rejected
    assert all(k / 1024 <= p <= 1 for k, p in zip(numerators, adjusted, strict=True))


@pytest.mark.parametrize("wrong", [-0.1, 1.1, NA])
def test_holm_refuses_what_is_no_p_value(wrong):
    with pytest.raises(ValueError, match=r"P-values must lie in 0 … 1"):
        holm([0.5, wrong])


def test_judges_without_a_common_unit_have_no_difference():
    a, b = np.array([1.0, NA]), np.array([NA, 0.0])
    assert cluster_sign_p(a, b, np.arange(2)) == 1.0


@PROPERTY
@given(st.lists(st.integers(-4, 4), min_size=1, max_size=9))
def test_whole_differences_have_the_p_value_of_all_sign_patterns(sums):
    assert sign_p(sums) == pytest.approx(by_enumeration(sums))


@PROPERTY
@given(st.lists(st.integers(-9, 9).map(lambda k: k / 3), min_size=1, max_size=9))
def test_fractional_differences_of_few_clusters_have_it_too(sums):
    assert sign_p(sums) == pytest.approx(by_enumeration(sums))


@PROPERTY
@given(st.integers(0, 40), st.integers(0, 40))
def test_one_unit_per_cluster_is_mcnemars_exact_test(b, c):
    expected = stats.binomtest(b, b + c).pvalue if b + c else 1.0
    assert sign_p([1] * b + [-1] * c + [0] * 3) == pytest.approx(expected)


def test_sampled_signs_come_close_to_the_exact_p_value_and_never_reach_zero():
    sums = np.array([3, -1, 2, 2, -2, 1, 4, -1, 1, 2, -3, 1, 2, 1, -2, 3])
    exact = sign_p(sums)
    # An eighth makes the sums fractional, and the ratios of their totals stay what they were.
    assert sign_p(sums / 8, n_resamples=20_000) == pytest.approx(exact, abs=0.01)
    assert sign_p(sums / 8, n_resamples=500, seed=1) == sign_p(sums / 8, n_resamples=500, seed=1)
    assert sign_p(np.full(30, 0.3), n_resamples=99) == 1 / 100


def test_clusters_where_the_judges_tie_change_nothing():
    sums = [0.3, 0.5, -0.2, 0.7]
    assert sign_p([*sums, *[0.0] * 20]) == sign_p(sums)
    # 0.1 + 0.2 - 0.3 is a trace of rounding, not a difference.
    a, b = np.array([0.1, 0.2, 0.0, 0.5]), np.array([0.0, 0.0, 0.3, 0.0])
    assert cluster_sign_p(a, b, np.array([0, 0, 0, 1])) == 1.0


def test_units_that_move_together_fool_mcnemar_and_not_the_cluster_test():
    """No true difference; ten perturbations of an item are won by the same judge eight times in ten."""
    rng = np.random.default_rng(3)
    clusters = np.repeat(np.arange(20), 10)
    rejected = {"mcnemar": 0, "cluster": 0}
    for _ in range(200):
        favours_a = rng.random(20) < 0.5
        a = (rng.random(200) < np.where(favours_a, 0.8, 0.2)[clusters]).astype(float)
        rejected["mcnemar"] += mcnemar_midp(int(a.sum()), int((1 - a).sum())) <= 0.05
        rejected["cluster"] += cluster_sign_p(a, 1 - a, clusters) <= 0.05
    assert rejected["mcnemar"] / 200 > 0.25
    assert 0.01 < rejected["cluster"] / 200 < 0.09


def test_five_clusters_never_reach_five_percent_and_six_do():
    assert sign_p([2] * 5) == pytest.approx(1 / 16)
    assert sign_p([2] * 6) == pytest.approx(1 / 32)


def test_impossible_pairs_are_a_programmers_mistake():
    with pytest.raises(ValueError, match="One a, b and cluster per unit"):
        cluster_sign_p(np.ones(3), np.ones(3), np.arange(2))
    with pytest.raises(ValueError, match="infinity"):
        cluster_sign_p(np.array([np.inf]), np.zeros(1), np.arange(1))
    with pytest.raises(ValueError, match="n_resamples=0"):
        sign_p([1.0], n_resamples=0)


@PROPERTY
@given(st.integers(1, 7).flatmap(lambda n: st.tuples(st.just(n), st.sets(st.sampled_from(range(n * n))))))
def test_names_share_a_letter_exactly_when_they_cannot_be_told_apart(drawn):
    n, cells = drawn
    names = [f"judge {i}" for i in range(n)]
    differ = {frozenset((names[cell // n], names[cell % n])) for cell in cells if cell // n != cell % n}
    found = letters(names, lambda one, other: frozenset((one, other)) in differ)
    assert list(found) == names
    assert found[names[0]].startswith("a")
    assert all(found.values())
    for one, other in combinations(names, 2):
        assert shares_a_letter(found, one, other) == (frozenset((one, other)) not in differ)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([9, 9, 9], ["a", "a", "a"]),
        ([9, 6, 3], ["a", "b", "c"]),
        ([9, 8, 7, 6], ["a", "ab", "bc", "c"]),
        ([9, 8.5, 8, 3], ["a", "a", "a", "b"]),
    ],
)
def test_letters_follow_the_order_of_the_names(values, expected):
    score = dict(zip("pqrs", values, strict=False))
    assert list(letters(list(score), lambda x, y: abs(score[x] - score[y]) > 1).values()) == expected


def test_more_groups_than_letters_stay_apart():
    """Four triples, different inside a triple only: 3^4 = 81 groups of four."""
    names = [f"{triple}{member}" for triple in range(4) for member in range(3)]
    found = letters(names, lambda one, other: one[0] == other[0])
    tokens = {token for text in found.values() for token in re.findall(r"[a-zA-Z]\d*", text)}
    assert len(tokens) == 81
    for one, other in combinations(names, 2):
        assert shares_a_letter(found, one, other) == (one[0] != other[0])


def test_letters_need_unique_names_and_none_is_fine():
    assert letters([], lambda _one, _other: True) == {}
    with pytest.raises(ValueError, match="unique"):
        letters(["x", "x"], lambda _one, _other: True)


def outcomes(n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """All gains and losses that n pairs can have, and how many are alike then."""
    gains, losses = (each.ravel() for each in np.indices((n + 1, n + 1)))
    gains, losses = gains[gains + losses <= n], losses[gains + losses <= n]
    return gains, losses, n - gains - losses


@pytest.mark.parametrize("n", [8, 25, 60, 120])
def test_each_end_of_the_interval_of_paired_shares_misses_the_truth_no_oftener_than_it_says(n):
    """By exact sums, also where few pairs differ: the bootstrap misses a difference of 0 there by one side in 6 %."""
    gains, losses, same = outcomes(n)
    low, high = paired_share_interval(gains, losses, n)
    ways = special.gammaln(n + 1) - special.gammaln([gains + 1, losses + 1, same + 1]).sum(axis=0)
    for difference, apart in product((-0.1, -0.05, 0.0, 0.05), (0.1, 0.15, 0.3, 0.6, 0.95)):
        gain, loss = (apart + difference) / 2, (apart - difference) / 2
        chances = np.exp(ways + sum(map(special.xlogy, (gains, losses, same), (gain, loss, 1 - apart))))
        over, under = chances[low > difference].sum(), chances[high < difference].sum()
        # All that differ differ one way: the end on that side is that of a single share.
        most = 0.031 if abs(difference) == apart else 0.0265
        assert max(over, under) < most, (difference, apart)


@given(st.integers(0, 40), st.integers(0, 40), st.integers(1, 40))
@PROPERTY
def test_the_interval_of_paired_shares_lies_above_zero_only_where_mcnemars_exact_test_rejects(gains, losses, same):
    n = gains + losses + same
    low, high = paired_share_interval(np.array([gains]), np.array([losses]), n)
    assert -1 <= low[0] < (gains - losses) / n < high[0] <= 1
    if low[0] > 0:
        assert stats.binomtest(gains, gains + losses, alternative="greater").pvalue < 0.025
    turned = paired_share_interval(np.array([losses]), np.array([gains]), n)
    assert np.allclose([low, high], [-turned[1], -turned[0]], atol=1e-9)


def test_pairs_that_never_differ_leave_a_width_that_shrinks_with_their_number():
    low, high = paired_share_interval(np.array([0, 0]), np.array([0, 0]), np.array([50, 500]))
    z = stats.norm.ppf(0.975) ** 2
    assert np.allclose(low, [-z / (50 + z), -z / (500 + z)])
    assert np.allclose(high, -low)


@pytest.mark.parametrize(("gains", "losses", "n"), [(-1, 0, 5), (3, 3, 5), (0, 0, 0)])
def test_impossible_counts_of_paired_shares_are_a_programmers_mistake(gains, losses, n):
    with pytest.raises(ValueError, match="must hold"):
        paired_share_interval(np.array([gains]), np.array([losses]), n)
