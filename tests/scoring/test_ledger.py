"""The denominator ledger on its own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jrh_mlflow.schema.estimates import Estimate, NotEstimable
from jrh_mlflow.scoring.ledger import MAX_EXCLUDED, Units, interval_method, mean_value, refuse, share
from jrh_mlflow.stats.proportions import cluster_interval, wilson
from tests.readings import PROPERTY

pytestmark = pytest.mark.quick


def units(usable: list[bool], **changes: Any) -> Units:
    lost = usable.count(False)
    fields: dict[str, Any] = {
        "what": "calls",
        "unit": "call",
        "usable": np.array(usable, bool),
        "clusters": np.arange(len(usable)) % 4,
        "n_codes": 4,
        "left_out": {"unparsed": lost, "error": 0},
    }
    return Units(**(fields | changes))


def test_the_default_limit_is_five_per_cent():
    assert MAX_EXCLUDED == 0.05


def test_no_units_are_not_estimable_and_not_withheld():
    assert share(units([]), np.array([], bool)) == NotEstimable(reason="no calls")


def test_all_units_unusable_are_withheld_even_under_the_widest_limit():
    reading = share(units([False] * 4, max_excluded=0.99), np.zeros(4, bool))
    assert isinstance(reading, NotEstimable)
    assert reading.withheld
    assert (reading.n, reading.excluded) == (0, 4)


def test_a_reason_names_only_the_outcomes_that_occurred():
    reading = refuse(units([True, False, False], left_out={"unparsed": 0, "error": 2}))
    assert reading is not None
    assert reading.reason == "2 of 3 calls gave no usable answer (error 2), over the limit of 5%"


def test_a_hit_on_an_unusable_unit_does_not_count():
    reading = share(units([True] * 20 + [False]), np.ones(21, bool))
    assert isinstance(reading, Estimate)
    assert (reading.numerator, reading.n, reading.excluded) == (20, 20, 1)


def test_a_share_among_some_units_keeps_the_excluded_ones_in_its_bounds():
    hits = np.array([True] * 5 + [False] * 16)
    among = np.array([True] * 10 + [False] * 11)
    reading = share(units([True] * 20 + [False]), hits, among=among)
    assert isinstance(reading, Estimate)
    assert (reading.value, reading.n, reading.excluded) == (0.5, 10, 1)
    assert (reading.bound_low, reading.bound_high) == (5 / 11, 6 / 11)


@PROPERTY
@given(st.lists(st.tuples(st.sampled_from([True, True, True, False]), st.booleans()), min_size=1, max_size=60))
def test_a_share_carries_counts_bounds_and_both_intervals(both):
    usable, hits = [one[0] for one in both], np.array([one[1] for one in both])
    reading = share(units(usable, max_excluded=0.98), hits)
    if not any(usable):
        assert isinstance(reading, NotEstimable)
        return
    k, n, lost = int((hits & np.array(usable)).sum()), sum(usable), usable.count(False)
    assert isinstance(reading, Estimate)
    assert (reading.numerator, reading.n, reading.excluded) == (k, n, lost)
    assert reading.value == k / n
    assert (reading.ci_low, reading.ci_high) == wilson(k, n)
    assert (reading.bound_low, reading.bound_high) == (k / len(both), (k + lost) / len(both))
    used = np.array(usable)
    by_task = np.bincount(np.arange(len(both))[used & hits] % 4, minlength=4).astype(float)
    sizes = np.bincount(np.arange(len(both))[used] % 4, minlength=4).astype(float)
    assert reading.n_clusters == int((sizes > 0).sum())
    expected = cluster_interval(by_task, sizes) or (None, None)
    assert (reading.cluster_low, reading.cluster_high) == expected


@pytest.mark.parametrize(
    ("n_clusters", "text"),
    [
        (1, "Wilson; one task, no clustered interval"),
        (2, "Wilson; clustered by task; few tasks (2)"),
        (29, "Wilson; clustered by task; few tasks (29)"),
        (30, "Wilson; clustered by task"),
    ],
)
def test_the_method_says_when_there_are_few_clusters(n_clusters, text):
    assert interval_method("Wilson", n_clusters) == text


def test_the_method_of_a_share_names_both_intervals():
    reading = share(units([True] * 20), np.ones(20, bool))
    assert isinstance(reading, Estimate)
    assert reading.method == "Wilson; hull of clustered Wilson and beta-binomial by task; few tasks (4)"


def asked_often(answers: list[bool], times: int) -> Units:
    """Units of 12 presentations on 4 tasks, each asked so many times."""
    codes = np.repeat(np.arange(len(answers)), times)
    return units([True] * len(codes), clusters=codes % 4, presentations=codes)


@pytest.mark.parametrize("answers", [[False] * 12, [True] * 12, [True, False, False] * 4, [True] * 5 + [False] * 7])
def test_five_equal_answers_to_one_presentation_tell_of_the_clusters_what_one_does(answers):
    once, often = (share(asked_often(answers, n), np.repeat(answers, n)) for n in (1, 5))
    assert isinstance(once, Estimate)
    assert isinstance(often, Estimate)
    assert (often.cluster_low, often.cluster_high) == (once.cluster_low, once.cluster_high)
    assert (often.n, often.numerator) == (5 * once.n, 5 * sum(answers)), "the counts stay as they are"
    assert (often.ci_low, often.ci_high) == wilson(5 * sum(answers), 60)


def test_units_without_a_presentation_are_all_of_their_own():
    plain, coded = (
        share(units([True] * 20, presentations=codes), np.arange(20) % 3 == 0) for codes in (None, np.arange(20))
    )
    assert plain == coded


@PROPERTY
@given(st.lists(st.tuples(st.integers(1, 5), st.integers(0, 3), st.booleans()), min_size=2, max_size=20))
def test_the_share_of_unevenly_replicated_units_lies_inside_an_interval_no_narrower_than_wilson(rows):
    """Each row: how often a presentation was asked, its task, and its one answer."""
    times, tasks, answers = (np.array(column) for column in zip(*rows, strict=True))
    codes = np.repeat(np.arange(len(rows)), times)
    reading = share(units([True] * len(codes), clusters=tasks[codes], presentations=codes), answers[codes])
    assert isinstance(reading, Estimate)
    if reading.cluster_interval is None:
        assert len(set(tasks)) == 1
        return
    low, high = wilson(int(answers[codes].sum()), len(codes))
    assert reading.cluster_interval[0] <= low + 1e-9
    assert reading.cluster_interval[1] >= high - 1e-9
    assert reading.value == pytest.approx(answers[codes].mean())


def test_a_mean_of_values_without_a_zero_has_intervals_whatever_its_counts():
    for n_above in range(29):
        values = np.where(np.arange(28) < n_above, 1.0, -1.0)
        reading = mean_value(units([True] * 28), values)
        assert isinstance(reading, Estimate)
        assert reading.value == pytest.approx(values.mean())
        assert reading.ci_low < reading.ci_high
