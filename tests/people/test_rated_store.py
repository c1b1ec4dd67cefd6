"""The store of rated traces holds what it says, as MLflow itself reads it."""

from __future__ import annotations

from collections import defaultdict

import pandas as pd
import pytest
from mlflow import MlflowClient
from mlflow.entities import Trace

from tests.people.rated_store import CODE, EXPECTING, JUDGE, NAME, PEOPLE, RatedStore, rate_traces
from tests.tracking.traces.trace_tools import rated_traces


@pytest.fixture(scope="module")
def traces(rated: RatedStore) -> list[Trace]:
    client = MlflowClient(tracking_uri=rated.uri)
    return list(client.search_traces(locations=[rated.experiment_id], max_results=500))


def test_every_trace_is_one_question_and_its_answer(rated: RatedStore, traces: list[Trace]) -> None:
    read = {one.info.trace_id: (one.data.spans[0].inputs, one.data.spans[0].outputs) for one in traces}
    written = rated.traces.set_index("item")
    assert len(read) == len(written) == 160
    assert written["question"].is_unique
    for item, row in written.iterrows():
        assert read[str(item)] == ({"question": row["question"]}, row["answer"])


def test_labels_are_what_mlflow_holds_as_the_newest_valid_word_of_each_rater(
    rated: RatedStore, traces: list[Trace]
) -> None:
    newest: dict[tuple[str, str], tuple[int, object]] = {}
    replaced = defaultdict(int)
    for trace in traces:
        for one in trace.info.assessments:
            if one.source.source_id == CODE or getattr(one, "error", None) or one.name != NAME:
                continue
            key = (trace.info.trace_id, str(one.source.source_id))
            replaced[key[1], one.valid is not False] += key in newest
            if one.valid is not False:
                newest[key] = max(newest.get(key, (0, False)), (one.create_time_ms, one.value))
    told = {(row.item, row.rater): row.label for row in rated.labels.itertuples()}
    assert {key: label for key, (_, label) in newest.items()} == told
    assert replaced["bob@example.com", True] == 0  # what bob changed is marked as overridden
    assert replaced["cem@example.com", True] > 3


def test_people_and_judge_err_as_often_as_asked(rated: RatedStore) -> None:
    right = rated.traces.set_index("item")["truth"]
    for who, rater in PEOPLE.items():
        given = rated.people[who].dropna()
        assert (given == right[given.index]).mean() == pytest.approx(rater.accuracy, abs=0.06)
        assert len(given) / 160 == pytest.approx(1 - rater.missing, abs=0.06)
    said = rated.judge.astype(bool)
    assert len(said) == 157  # three of its calls failed
    assert said[right[said.index]].mean() == pytest.approx(0.9, abs=0.06)
    assert said[~right[said.index]].mean() == pytest.approx(0.3, abs=0.1)


def test_traces_that_the_judge_alone_has_seen_can_be_asked_for(store_uri: str) -> None:
    rated = rate_traces(store_uri, "unlabelled", n=12, unlabelled=20, sensitivity=1.0, specificity=0.0)
    assert set(rated.judge) == {"yes"}
    assert set(rated.people.index) <= set(rated.traces["item"][rated.traces["rated"]])
    assert len(rated.judge) == 29


def test_the_majority_leaves_out_what_is_even(rated: RatedStore) -> None:
    labels = rated.people
    votes = pd.DataFrame({value: (labels == value).sum(axis=1) for value in (False, True)})
    even = votes.index[votes[False] == votes[True]]
    assert len(even) > 0
    assert set(rated.majority.index) == set(labels.index) - set(even)
    assert set(rated.majority.index[rated.majority.astype(bool)]) == set(votes.index[votes[True] > votes[False]])
    assert {JUDGE} == set(rated.labels.loc[rated.labels["is_judge"], "rater"])
    assert EXPECTING in labels.columns


def test_words_and_another_name_of_the_judge_can_be_asked_for(store_uri: str) -> None:
    rated = rate_traces(store_uri, "words", n=12, judge_name="correctness")
    client = MlflowClient(tracking_uri=rated.uri)
    found = client.search_traces(locations=[rated.experiment_id], max_results=20)
    names = {(one.name, one.source.source_type) for trace in found for one in trace.info.assessments}
    assert {("correctness", "LLM_JUDGE"), (NAME, "HUMAN")} <= names
    assert set(rated.labels["label"]) == {"no", "yes"}


def test_what_was_written_is_what_rated_traces_reads(rated: RatedStore) -> None:
    read = rated_traces(rated.source, tracking_uri=rated.uri, group="category")
    order = ["item", "rater"]
    columns = [*order, "label", "is_judge"]
    pd.testing.assert_frame_equal(
        read.frame.assign(is_judge=read.frame["kind"] != "person")[columns].sort_values(order, ignore_index=True),
        rated.labels[columns].sort_values(order, ignore_index=True),
        check_dtype=False,
    )
    assert (read.name, read.judge, read.left_out["failed"]) == (NAME, JUDGE, 3)
    assert dict(zip(read.frame["item"], read.frame["group"], strict=True)) == dict(
        zip(rated.traces["item"], rated.traces["category"], strict=True)
    )
