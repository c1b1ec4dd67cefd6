"""Calibration on values worked by hand, and on judges whose calibration is known."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jrh_mlflow.stats.calibration import (
    bin_codes,
    ece_if_calibrated,
    mirrored_interval,
    reliability_bins,
)
from tests.readings import PROPERTY

EMPTY = np.array([]), np.array([], bool)
answers = st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=10, max_size=60)


def arrays(rows):
    return np.array([row[0] for row in rows]), np.array([row[1] for row in rows], bool)


def simulated(n: int, *, over: float, seed: int = 0):
    """Answers that are right with probability `confidence - over`."""
    rng = np.random.default_rng(seed)
    confidence = rng.uniform(0.5, 1, n)
    return confidence, rng.random(n) < confidence - over


@PROPERTY
@given(answers)
def test_bins_part_the_answers_and_keep_equal_confidences_together(rows):
    confidence, correct = arrays(rows)
    bins = reliability_bins(confidence, correct)
    assert sum(one.n for one in bins) == len(rows)
    assert all(before.high < after.low for before, after in pairwise(bins))
    assert len(bins) <= 10


def test_bins_are_equally_filled():
    confidence = np.linspace(0, 1, 101)[:-1] ** 3
    assert np.bincount(bin_codes(confidence)).tolist() == [10] * 10


def test_a_confidence_on_a_cut_is_of_the_upper_bin():
    # Eleven confidences a tenth apart: each of the nine cuts is one of them.
    assert bin_codes(np.arange(11) / 10).tolist() == [*range(10), 9]


def error(confidence, correct):
    bins = reliability_bins(confidence, correct)
    return sum(one.n * abs(one.confidence - one.accuracy) for one in bins) / len(confidence)


def test_a_calibrated_judge_reads_close_to_zero_and_an_overconfident_one_its_gap():
    assert error(*simulated(40_000, over=0)) < 0.01
    assert error(*simulated(40_000, over=0.2)) == pytest.approx(0.2, abs=0.01)


def test_the_error_of_a_calibrated_judge_is_the_one_foretold():
    """The bias note, seen: over 300 runs of 200 answers the mean is the foretold one and nowhere near 0."""
    runs = [simulated(200, over=0, seed=seed) for seed in range(300)]
    mean = np.mean([error(*run) for run in runs])
    assert mean == pytest.approx(np.mean([ece_if_calibrated(run[0]) for run in runs]), rel=0.05)
    assert mean > 0.05


def test_equal_confidences_are_one_bin_and_the_error_is_the_gap():
    confidence, correct = np.full(20, 0.8), np.arange(20) < 10
    assert len(reliability_bins(confidence, correct)) == 1
    assert error(confidence, correct) == pytest.approx(0.3)


def test_too_few_answers_have_no_error_and_no_answer_has_no_bin():
    assert ece_if_calibrated(np.full(9, 0.5)) is None
    assert reliability_bins(*EMPTY) == ()


def test_a_mirrored_interval_reaches_as_far_down_as_up_and_never_below_zero():
    assert mirrored_interval(0.2, (0.15, 0.22)) == pytest.approx((0.15, 0.25))
    assert mirrored_interval(0.02, (0.02, 0.09)) == pytest.approx((0.0, 0.09))
    assert mirrored_interval(0.2, None) is None


@pytest.mark.parametrize("confidence", [[-0.1], [1.1], [np.nan], [0.5, 0.5], [[0.5]]])
def test_what_is_no_probability_is_refused(confidence):
    with pytest.raises(ValueError, match=r"probability from 0 to 1|one length"):
        reliability_bins(np.array(confidence), np.array([True]))
