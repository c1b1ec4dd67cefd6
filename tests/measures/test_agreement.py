"""Agreement of a judge with people: readings of made ratings, left-out items, refusals."""

from __future__ import annotations

import pandas as pd
import pytest

from jrh_mlflow.errors import RecipeError
from jrh_mlflow.measures.agreement import measure_agreement, read_ratings
from jrh_mlflow.schema.estimates import Estimate, NotEstimable


def long(table, **columns):
    """Rater to the labels of items 0, 1, …; None: no label."""
    rows = [
        {"item": item, "rater": rater, "label": label, **{name: cells[item] for name, cells in columns.items()}}
        for rater, labels in table.items()
        for item, label in enumerate(labels)
        if label is not None
    ]
    return pd.DataFrame(rows)


THREE = {
    "ann": ["a", "a", "b", "b", "a", "a"],
    "bob": ["a", "a", "b", "a", "b", None],
    "cy": ["a", "b", "b", "b", None, None],
    "gpt": ["a", "b", "b", "b", "a", "a"],
}


def test_the_reference_is_the_majority_and_items_without_one_are_counted():
    report = measure_agreement(read_ratings(long(THREE), judge="gpt"))
    accuracy = report.estimates["agreement/accuracy"]
    assert isinstance(accuracy, Estimate)
    assert (accuracy.numerator, accuracy.n, accuracy.excluded) == (4, 5, 1)
    assert report.counts == {"items": 6, "compared": 5, "no majority": 1}
    assert report.confusion.to_numpy().tolist() == [[2, 1], [0, 2]]
    assert report.disagreements[["item", "judge", "reference", "ann"]].to_numpy().tolist() == [["1", "b", "a", "a"]]


def test_one_person_has_no_ceiling():
    report = measure_agreement(read_ratings(long({"ann": ["a", "b"], "gpt": ["a", "b"]}), judge="gpt"))
    for axis in ("agreement/human_ceiling", "agreement/human_alpha", "alt_test/winning_rate"):
        assert isinstance(report.estimates[axis], NotEstimable)


def test_one_rater_is_refused():
    with pytest.raises(RecipeError, match="two raters"):
        read_ratings(long({"ann": ["a", "b"]}))
