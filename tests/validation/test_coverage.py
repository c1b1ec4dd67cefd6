"""Coverage of the clustered intervals: what the sums and draws stand on."""

from __future__ import annotations

import numpy as np
import pytest

from jrh_mlflow.stats import proportions
from tests.validation import coverage
from tests.validation.coverage import (
    RATES,
    Truth,
    both_intervals,
    cells,
    count_table,
    interval_ends,
    truths,
    weighed_cells,
)

TRUTHS = truths(RATES)


def plain(successes, sizes, *, level=0.95):
    return proportions.wilson_share(successes.sum() / sizes.sum(), sizes.sum(), level=level)


@pytest.mark.parametrize("truth", TRUTHS, ids=str)
def test_tasks_have_the_mean_and_the_correlation_that_a_truth_names(truth):
    """The variance of a count is m p (1 - p) (1 + (m - 1) ICC), whatever the shape."""
    chances = np.exp(truth.log_chances(12))
    counts = np.arange(13)
    mean = chances @ counts
    variance = 12 * truth.rate * (1 - truth.rate) * (1 + 11 * truth.icc)
    expected = pytest.approx([1, 12 * truth.rate, variance])
    assert [chances.sum(), mean, chances @ (counts - mean) ** 2] == expected


def test_rates_over_a_half_need_no_sum_of_their_own():
    """Shapes mirror themselves, and so do both intervals."""
    other = {"0 or q": "q or 1", "q or 1": "0 or q"}
    for truth in TRUTHS:
        mirror = Truth(
            rate=1 - truth.rate, icc=truth.icc, shape=other.get(truth.shape, truth.shape)
        )
        np.testing.assert_allclose(mirror.log_chances(4), truth.log_chances(4)[::-1], rtol=1e-9)
    histograms = count_table(10, 2, draws=0, seed=0).histograms
    mirrored = 1 - both_intervals(histograms)[:, [1, 0, 3, 2]]
    np.testing.assert_allclose(both_intervals(histograms[:, ::-1]), mirrored, atol=1e-9)


def test_ends_come_back_in_the_order_of_the_histograms_wherever_they_are_computed():
    table = count_table(10, 2, draws=0, seed=0)
    ends = interval_ends(table, chunk=7)
    np.testing.assert_allclose(ends, both_intervals(table.histograms), atol=1e-9)


@pytest.fixture(scope="module")
def exact():
    table = count_table(10, 4, draws=0, seed=0)
    return table, interval_ends(table)


def scored(table, ends):
    return [*cells(table, ends), *coverage.between_rates(table, ends)]


def test_an_exact_design_holds_all_the_chance_there_is(exact):
    table, ends = exact
    assert table.n_draws is None
    assert len(table.histograms) == 1001
    for truth in table.truths:
        assert np.exp(table.log_chances(truth) + table.log_ways()).sum() == pytest.approx(1)
    for cell in cells(table, ends):
        assert cell.error == 0
        assert cell.too_low + cell.too_high == pytest.approx(1 - cell.coverage)


def test_draws_agree_with_the_exact_sums_within_the_error_they_state(exact, monkeypatch):
    """The same design, once summed and once drawn; 4.5 standard errors over some 100 truths."""
    monkeypatch.setattr(coverage, "MOST_HISTOGRAMS", 0)
    table, ends = exact
    drawn = count_table(10, 4, draws=300, seed=3)
    at = {tuple(row): place for place, row in enumerate(table.histograms)}
    known = ends[[at[tuple(row)] for row in drawn.histograms]]
    assert drawn.n_draws == 300 * len(drawn.truths)
    errors = []
    for truth, guess in zip(cells(table, ends), cells(drawn, known), strict=True):
        assert abs(truth.coverage - guess.coverage) <= 4.5 * guess.error + 1e-3
        assert truth.width == pytest.approx(guess.width, rel=0.1)
        errors.append(guess.error)
    # Its own draws alone would know a coverage of 95 % to .0126.
    assert np.median(errors) < 0.003


def test_the_present_interval_holds_where_the_former_fell(exact):
    judged = [cell for cell in scored(*exact) if cell.icc and cell.judged]
    assert min(cell.coverage for cell in judged) >= 0.94
    assert min(cell.old["coverage"] for cell in judged) < 0.85
    assert not any(cell.fails for cell in judged)


def test_replicates_that_disagree_enter_as_fractions_and_the_interval_holds(exact):
    """Ten tasks of two presentations, each asked twice by a judge whose answers differ."""
    table, _ = exact
    judged = [cell for cell in scored(table, interval_ends(table, replicates=2)) if cell.judged]
    assert min(cell.coverage for cell in judged) == pytest.approx(0.965, abs=5e-4)


@pytest.mark.parametrize("n_calls", [2, 12])
def test_the_interval_of_a_share_holds_and_wilson_on_the_calls_would_not(n_calls, monkeypatch):
    """Exact sums over 2 calls, draws over 12; no interval can see where tasks always fail."""

    def failing():
        return [cell for cell in weighed_cells([10], [n_calls], draws=5) if cell.fails]

    assert failing() == []
    monkeypatch.setattr(proportions, "cluster_interval", plain)
    assert {0.3, 0.6} <= {cell.icc for cell in failing()}
    assert {cell.shape for cell in failing()} <= set(coverage.JUDGED)


def test_draws_are_those_of_the_seed():
    first, again, other = (count_table(10, 12, draws=5, seed=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first.histograms, again.histograms)
    assert not np.array_equal(first.histograms, other.histograms)
