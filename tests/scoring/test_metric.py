"""Chosen metrics: the numbers are sklearn's, and the bootstrap's formulas are the same functions."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics

from jrh_mlflow.errors import RecipeError
from jrh_mlflow.scoring.metric import _CONFUSIONS, _MEANS, _MOMENTS, _functions, _resampled, find_metric

CELLS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 4)), min_size=1, max_size=12)


def drawn(cells: list[tuple[int, int, int]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    x, y, counts = (np.array(column, float) for column in zip(*cells, strict=True))
    return x, y, counts


@settings(max_examples=6, deadline=None)
@given(CELLS, st.booleans())
def test_resamples_are_scored_as_sklearn_scores_them(cells, binary) -> None:
    x, y, counts = drawn([(a % 2, b % 2, n) for a, b, n in cells] if binary else cells)
    for name in sorted(_functions().keys() & {*_CONFUSIONS, *_MEANS, *_MOMENTS}):
        metric = find_metric(name)
        expected = metric.score(x, y, counts, binary)
        found = _resampled(metric, x, y, binary=binary)(counts[None])[0]
        assert found == pytest.approx(expected, nan_ok=True, rel=1e-9, abs=1e-9), name


@pytest.mark.parametrize("name", sorted(_functions()))
def test_every_function_of_sklearn_is_taken_with_the_last_label_positive(name: str) -> None:
    metric = find_metric(name)
    if metric is None:
        assert name == "accuracy_score"
        return
    x, y, counts = drawn([(0, 0, 5), (0, 1, 2), (1, 0, 3), (1, 1, 4)])
    x, y = (x + 1, y + 1) if metric.needs else (x, y)  # levels of a scale, above 0
    rows = [np.repeat(side, counts.astype(int)) for side in (x, y)]
    assert metric.score(x, y, counts, not metric.needs) == pytest.approx(getattr(metrics, name)(*rows), abs=1e-12)
    assert metric.lower == (name.endswith(("_error", "_loss", "_deviance")))


def test_what_is_not_defined_is_no_number() -> None:
    ones, counts = np.ones(1), np.array([7.0])
    for name in ("matthews_corrcoef", "kappa", "r2_score"):
        assert math.isnan(find_metric(name).score(ones, ones, counts, True))
    assert math.isnan(find_metric("precision").score(ones, 0 * ones, counts, True))


def test_names_are_found_short_and_long_and_an_unknown_one_tells_the_nearest() -> None:
    assert find_metric(None) is find_metric("accuracy") is find_metric("accuracy_score") is None
    assert (find_metric("balanced_accuracy").name, find_metric("kappa").name) == ("balanced_accuracy_score", "kappa")
    assert (find_metric("kappa_quadratic").copies, find_metric("mae").lower) == ("qwk", True)
    for wrong, near in {"f1_scor": "f1_score", "mea": "mae", "log_loss": "", "roc_auc_score": ""}.items():
        with pytest.raises(RecipeError, match=f"Unknown metric '{wrong}'.*{near}"):
            find_metric(wrong)
