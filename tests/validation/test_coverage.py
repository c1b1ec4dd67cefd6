"""Coverage of the clustered intervals: what the sums and draws stand on."""

from __future__ import annotations

import numpy as np
import pytest

from jrh_mlflow.stats import proportions
from tests.validation import coverage
from tests.validation.coverage import (
    ICCS,
    RATES,
    SHAPES,
    Truth,
    both_intervals,
    cells,
    count_table,
    interval_ends,
)

TRUTHS = [Truth(rate=rate, icc=icc, shape=shape) for rate in RATES for icc in ICCS for shape in SHAPES]


@pytest.mark.parametrize("truth", TRUTHS, ids=str)
def test_tasks_have_the_mean_and_the_correlation_that_a_truth_names(truth):
    """The variance of a count is m p (1 - p) (1 + (m - 1) ICC), whatever the shape."""
    chances, counts = np.exp(truth.log_chances(12)), np.arange(13)
    mean = chances @ counts
    spread = 12 * truth.rate * (1 - truth.rate) * (1 + 11 * truth.icc)
    assert [chances.sum(), mean, chances @ (counts - mean) ** 2] == pytest.approx([1, 12 * truth.rate, spread])


def test_shapes_mirror_themselves():
    other = {"0 or q": "q or 1", "q or 1": "0 or q"}
    for truth in TRUTHS:
        mirror = Truth(rate=1 - truth.rate, icc=truth.icc, shape=other.get(truth.shape, truth.shape))
        np.testing.assert_allclose(mirror.log_chances(4), truth.log_chances(4)[::-1], rtol=1e-9)


def test_both_intervals_mirror_themselves_so_rates_over_a_half_need_no_sum_of_their_own():
    histograms = count_table(10, 2, draws=0, seed=0).histograms
    ends = both_intervals(histograms)
    np.testing.assert_allclose(both_intervals(histograms[:, ::-1]), 1 - ends[:, [1, 0, 3, 2]], atol=1e-9)


def test_ends_come_back_in_the_order_of_the_histograms_wherever_they_are_computed():
    table = count_table(10, 2, draws=0, seed=0)
    np.testing.assert_allclose(interval_ends(table, chunk=7), both_intervals(table.histograms), atol=1e-9)


@pytest.fixture(scope="module")
def exact():
    table = count_table(10, 4, draws=0, seed=0)
    return table, interval_ends(table)


def test_an_exact_design_holds_all_the_chance_there_is(exact):
    table, ends = exact
    assert table.n_draws is None
    assert len(table.histograms) == 1001
    for truth in table.truths:
        assert np.exp(table.log_chances(truth) + table.log_ways()).sum() == pytest.approx(1)
    for cell in cells(table, ends):
        assert cell.new.error == 0
        assert cell.new.too_low + cell.new.too_high == pytest.approx(1 - cell.new.coverage)


def test_draws_agree_with_the_exact_sums_within_the_error_they_state(exact, monkeypatch):
    """Both designs the same, once summed and once drawn; 4.5 standard errors over some 200 comparisons."""
    monkeypatch.setattr(coverage, "MOST_HISTOGRAMS", 0)
    table, ends = exact
    drawn = count_table(10, 4, draws=300, seed=3)
    at = {tuple(row): place for place, row in enumerate(table.histograms)}
    known = ends[[at[tuple(row)] for row in drawn.histograms]]
    assert drawn.n_draws == 300 * len(drawn.truths)
    errors = []
    for truth, guess in zip(cells(table, ends), cells(drawn, known), strict=True):
        for one, other in ((truth.old, guess.old), (truth.new, guess.new)):
            assert abs(one.coverage - other.coverage) <= 4.5 * other.error + 1e-3
            assert one.width == pytest.approx(other.width, rel=0.1)
        errors.append(guess.new.error)
    # Its own draws alone would know a coverage of 95 % to .0126.
    assert np.median(errors) < 0.003


def test_draws_are_those_of_the_seed():
    first, again, other = (count_table(10, 12, draws=5, seed=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first.histograms, again.histograms)
    assert first.histograms.shape != other.histograms.shape or (first.histograms != other.histograms).any()


def test_the_present_interval_holds_where_the_former_fell(exact):
    table, ends = exact
    judged = [cell for cell in (*cells(table, ends), *coverage.between_rates(table, ends)) if cell.truth.icc]
    assert min(cell.new.coverage for cell in judged if cell.truth.shape in coverage.JUDGED) >= 0.94
    assert min(cell.old.coverage for cell in judged) < 0.85
    assert not any(cell.fails for cell in judged)


def test_replicates_that_disagree_enter_as_fractions_and_the_interval_holds(exact):
    """Ten tasks of two presentations, each asked twice by a judge whose answers differ as much as two presentations."""
    table, _ = exact
    ends = interval_ends(table, replicates=2)
    judged = [cell for cell in (*cells(table, ends), *coverage.between_rates(table, ends)) if cell.judged]
    assert min(cell.new.coverage for cell in judged) == pytest.approx(0.965, abs=5e-4)


def test_an_interval_that_takes_calls_for_independent_fails(exact, monkeypatch):
    def plain(successes, sizes, *, level=0.95):
        return proportions.wilson_share(successes.sum() / sizes.sum(), sizes.sum(), level=level)

    monkeypatch.setattr(proportions, "cluster_interval", plain)
    table, _ = exact
    failing = {cell.truth.icc for cell in cells(table, interval_ends(table)) if cell.fails}
    assert {0.3, 0.6} <= failing


def test_a_shape_that_no_interval_can_see_is_shown_and_not_judged():
    score = coverage.IntervalScore(coverage=0.9, error=0.0, too_low=0.1, too_high=0.0, width=0.2)
    facts = {"n_tasks": 10, "n_calls": 4, "n_draws": None, "old": score, "new": score}
    fails = {
        shape: coverage.IntervalCell(truth=Truth(rate=0.1, icc=0.3, shape=shape), **facts).fails
        for shape in coverage.SHAPES
    }
    assert fails == {"beta": True, "all or none": True, "0 or q": True, "q or 1": False}
