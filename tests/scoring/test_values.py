"""Every number counted a second time by scikit-learn, scipy and plain loops, on random records."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from sklearn import metrics

from jrh_mlflow.schema.estimates import Estimate
from jrh_mlflow.scoring.ledger import Resampling
from jrh_mlflow.scoring.readings import agreement_statistics, cell_statistics
from jrh_mlflow.stats.agreement import (
    concordance,
    disagreement,
    gwet_ac1,
    krippendorff_alpha,
    mean_absolute_error,
    pearson,
    spearman,
)
from jrh_mlflow.stats.bootstrap import cluster_bootstrap
from tests.measures.pointwise import NO_ANSWER, number, points, reading, report
from tests.readings import COSTLY_PROPERTY, PROPERTY

LEVELS = ("1", "2", "3", "4", "5")
both = st.tuples(st.sampled_from(LEVELS), st.sampled_from(LEVELS))


@COSTLY_PROPERTY
@given(st.lists(st.tuples(st.sampled_from(["no", "yes", *NO_ANSWER]), st.sampled_from(["no", "yes"])), min_size=1))
def test_binary_rates_are_those_of_a_confusion_matrix(said):
    usable = [one for one in said if one[0] not in ("unparsed", "error")]
    found = report(points("typos", said), labels=["no", "yes"])
    if not usable:
        assert not any(isinstance(one, Estimate) for one in found.estimates.values())
        return
    right = sum(given == expected for given, expected in usable)
    assert number(found, "typos/accuracy") == right / len(usable)
    assert number(found, "all/error_rate") == pytest.approx(1 - right / len(usable))
    for axis, expected, other in (("fpr", "no", "yes"), ("fnr", "yes", "no")):
        among = [given for given, label in usable if label == expected]
        if among:
            assert number(found, f"typos/{axis}") == among.count(other) / len(among)
    answered = [one for one in said if one[0] not in NO_ANSWER]
    one = found.estimates["typos/matthews"]
    if isinstance(one, Estimate):
        assert one.value == pytest.approx(metrics.matthews_corrcoef([e for _, e in answered], [g for g, _ in answered]))
        assert one.n == len(answered)


@COSTLY_PROPERTY
@given(st.lists(both, min_size=3, max_size=40))
def test_ordinal_values_are_those_of_scipy_and_scikit_learn(said):
    given, expected = (np.array([float(one[side]) for one in said]) for side in (0, 1))
    found = report(points("synthetic_ordinal", said), labels=LEVELS)
    assert number(found, "all/mae") == pytest.approx(metrics.mean_absolute_error(expected, given))
    assert number(found, "all/within_one") == pytest.approx(np.mean(np.abs(expected - given) <= 1))
    if np.ptp(given) and np.ptp(expected):
        assert number(found, "all/pearson") == pytest.approx(stats.pearsonr(expected, given).statistic)
        assert number(found, "all/spearman") == pytest.approx(stats.spearmanr(expected, given).statistic)
    if np.ptp(np.concatenate([given, expected])):
        kappa = metrics.cohen_kappa_score(expected, given, weights="quadratic", labels=[1, 2, 3, 4, 5])
        assert number(found, "all/qwk") == pytest.approx(kappa, abs=1e-9)
        assert number(found, "all/ccc") == pytest.approx(kappa, abs=1e-9)


@PROPERTY
@given(st.lists(both, min_size=3, max_size=40))
def test_resampled_values_are_computed_as_the_value_itself(said):
    """Weights of one on every call must give the published formula; so do the weights of any resample."""
    given, expected = (np.array([float(one[side]) for one in said]) for side in (0, 1))
    rows = np.random.default_rng(len(said)).integers(len(said), size=len(said))
    for drawn in (np.arange(len(said)), rows):
        x, y = expected[drawn], given[drawn]
        counts = np.bincount(drawn, minlength=len(said)).astype(float)[None, :]
        values = {name: one[0] for name, one in cell_statistics(expected, given)(counts).items()}
        assert values["mae"] == pytest.approx(mean_absolute_error(x, y))
        for name, formula in (("ccc", concordance), ("pearson", pearson), ("spearman", spearman)):
            wanted = formula(x, y)
            assert values[name] == pytest.approx(np.nan if wanted is None else wanted, nan_ok=True, abs=1e-9)


ratings = st.lists(
    st.lists(st.sampled_from([0.0, 1.0, 2.0, np.nan]), min_size=3, max_size=3).filter(
        lambda row: np.count_nonzero(~np.isnan(row)) >= 2
    ),
    min_size=1,
    max_size=12,
)


@PROPERTY
@given(ratings, st.sampled_from(["nominal", "ordinal"]))
def test_resampled_agreement_is_computed_as_agreement_itself(rows, level):
    table = np.array(rows)
    features, statistics = agreement_statistics(table, scale=level, n_labels=3, n_categories=3)
    values = {name: one[0] for name, one in statistics(features.sum(axis=0)[None, :]).items()}
    assert values["flip_rate"] == pytest.approx(disagreement(table).mean())
    assert values["gwet_ac1"] == pytest.approx(gwet_ac1(table, n_categories=3))
    alpha = krippendorff_alpha(table, scale=level)
    assert values["krippendorff_alpha"] == pytest.approx(np.nan if alpha is None else alpha, nan_ok=True, abs=1e-9)


def test_the_interval_of_a_value_is_that_of_the_general_cluster_bootstrap():
    rng = np.random.default_rng(1)
    expected = rng.integers(1, 6, 60).astype(float)
    given = np.clip(expected + rng.integers(-1, 2, 60), 1, 5)
    clusters = np.arange(60) // 3
    cells = np.eye(60)
    fast = Resampling(seed=3, n_resamples=300).intervals(cell_statistics(expected, given), cells, clusters)
    for name, formula in (("ccc", concordance), ("spearman", spearman), ("mae", mean_absolute_error)):
        slow = cluster_bootstrap(
            lambda rows, formula=formula: formula(expected[rows], given[rows]), clusters, n_resamples=300, seed=3
        )
        assert fast[name] == pytest.approx(slow)


def test_an_interval_covers_the_truth_about_as_often_as_it_says():
    """Two hundred worlds of 40 sources with one error size each: 95 % by source, within sampling error."""
    rng = np.random.default_rng(0)
    covered = 0
    for world in range(200):
        off = rng.random(40) < 0.3
        sums = np.column_stack([4.0 * off, np.full(40, 4.0)])
        ends = Resampling(seed=world, n_resamples=300).intervals(
            lambda drawn: {"mae": drawn[:, 0] / drawn[:, 1]}, sums, np.arange(40)
        )["mae"]
        assert ends is not None
        covered += ends[0] <= 0.3 <= ends[1]
    assert 180 <= covered <= 199


def test_calls_of_one_source_widen_the_interval_by_source_and_not_the_one_by_item():
    rows = []
    for source in range(20):
        said = "5" if source % 2 else "4"
        for test in ("a", "b", "c", "d"):
            rows += [
                one | {"task": f"s{source}", "suite_item": f"s{source}/{test}"} for one in points(test, [(said, "4")])
            ]
    one = reading(report(rows, labels=LEVELS, n_resamples=400), "all/mae")
    assert None not in (one.ci_low, one.ci_high, one.cluster_low, one.cluster_high)
    assert one.cluster_high - one.cluster_low > 1.5 * (one.ci_high - one.ci_low)
    assert one.cluster_low < one.value < one.cluster_high
    assert one.n_clusters == 20


def test_a_perfect_judge_has_no_interval_of_zero_width():
    found = report(points("typos", [(level, level) for level in LEVELS * 3]), labels=LEVELS)
    for axis in ("mae", "ccc", "spearman"):
        one = reading(found, f"typos/{axis}")
        assert (one.ci_low, one.ci_high, one.cluster_low, one.cluster_high) == (None, None, None, None)
        assert "no interval" in one.method
    accuracy = reading(found, "typos/accuracy")
    assert (accuracy.value, accuracy.cluster_high) == (1, 1)
    assert accuracy.cluster_low < 0.9


def test_answers_without_variation_have_no_correlation_and_say_so():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = report(points("typos", [("3", level) for level in LEVELS]), labels=LEVELS)
    for axis in ("pearson", "spearman"):
        one = found.estimates[f"typos/{axis}"]
        assert not isinstance(one, Estimate)
        assert one.reason.startswith("no variation")
    assert number(found, "typos/ccc") == 0
