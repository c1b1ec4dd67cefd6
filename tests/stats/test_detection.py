"""d' against print and against its definition."""

from __future__ import annotations

from statistics import NormalDist

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jrh_mlflow.stats.psychometrics import d_prime
from tests.readings import PROPERTY


def test_twenty_of_twenty_gives_the_printed_value():
    assert round(d_prime(20, 20), 4) == 3.3812


@pytest.mark.parametrize("n", [1, 7, 100])
def test_half_right_is_no_sensitivity(n):
    assert d_prime(n / 2, n) == pytest.approx(0, abs=1e-12)


@PROPERTY
@given(st.integers(1, 500).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_it_follows_its_definition_with_the_normal_quantile_of_the_standard_library(count):
    correct, n = count
    z = NormalDist().inv_cdf
    hit = (correct + 1) / (n + 2)
    assert d_prime(correct, n) == pytest.approx(z(hit) - z(1 - hit), abs=1e-8)


@PROPERTY
@given(st.integers(1, 300).flatmap(lambda n: st.tuples(st.integers(0, n - 1), st.just(n))))
def test_it_rises_with_the_correct_calls_and_is_odd_around_half(count):
    correct, n = count
    assert d_prime(correct, n) < d_prime(correct + 1, n)
    assert d_prime(correct, n) == pytest.approx(-d_prime(n - correct, n), abs=1e-9)


@pytest.mark.parametrize(("correct", "n"), [(-1, 5), (6, 5), (0, 0)])
def test_impossible_counts_are_a_programmers_mistake(correct, n):
    with pytest.raises(ValueError, match=f"correct={correct}, n={n}"):
        d_prime(correct, n)
