"""Judges and people on a real MLflow store of 300 traces, three people and one judge, from labels to numbers.

Every number is computed again here, from what was written into the store.
"""

from __future__ import annotations

import pandas as pd

from jrh_mlflow.tracking.assessments import rated_traces
from tests.people.rated_store import JUDGE, RatedStore


def _labels(frame: pd.DataFrame) -> set[tuple[object, ...]]:
    return set(frame[["item", "rater", "label", "is_judge"]].itertuples(index=False, name=None))


def test_labels_are_those_of_people_and_the_verdicts_those_of_the_model(rated: RatedStore) -> None:
    read = rated_traces(rated.source, tracking_uri=rated.uri, group="category")
    assert read.judge == JUDGE
    assert _labels(read.frame) == _labels(rated.labels)
    category = rated.traces.set_index("item")["category"]
    assert read.frame["group"].tolist() == category[read.frame["item"]].tolist()
