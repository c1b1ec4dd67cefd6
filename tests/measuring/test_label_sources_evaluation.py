"""A suite with labels that are no ground truth: from its items to the call records, the run and its page."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from mlflow import MlflowClient
from mlflow.artifacts import download_artifacts

import jrh_mlflow as jrh
from tests.logged_runs import numbers_of

ROWS = [
    {"id": f"r{n}", "instruction": "Explain.", "response": f"Answer {n} says a few words here.", "label": "yes"}
    for n in range(12)
]


@pytest.fixture(scope="module")
def suite(store_uri) -> jrh.Suite:
    options = {"rubric": "Good?", "labels": ("no", "yes"), "tracking_uri": store_uri}
    made = jrh.generate(ROWS, tests=["typos"], **options)
    items = [
        replace(item, meta={**item.meta, "label_source": "model"}) if item.task in ("r0", "r1", "r2") else item
        for item in made.items
    ]
    return jrh.Suite(name=made.name, items=items, origin=made.origin)


@pytest.fixture(scope="module")
def judged(suite, store_uri) -> jrh.Evaluation:
    right = {item.response: "no" if item.label_source else "yes" for item in suite.items}

    def judge(shown: jrh.Presentation) -> str:
        return right[shown.response or ""]

    return jrh.evaluate(judge, suite, tracking_uri=store_uri, experiment="tests", progress=False)


def test_the_column_is_written_where_it_is_set_and_the_numbers_stay_apart(suite, judged):
    sources = judged.calls.set_index("suite_item")["label_source"]
    assert sources.to_dict() == {item.id: item.label_source for item in suite.items}
    metrics = judged.metrics
    assert (metrics["typos/accuracy/rate"], metrics["typos/accuracy/n"]) == (1, 9)
    assert (metrics["typos/agreement_model/rate"], metrics["typos/agreement_model/n"]) == (0, 3)
    assert metrics["typos/consistency/n"] == 12
    assert metrics["reliability/mean"] == metrics["reliability/min"] == 1
    assert judged.report.to_dict() == jrh.measure(judged.calls, labels=("no", "yes")).to_dict()


def test_the_run_is_tagged_and_gets_the_agreement_as_a_headline_metric(judged, store_uri):
    run = MlflowClient(store_uri).get_run(judged.run_id)
    assert run.data.tags["jrh.label_source"] == "model"
    assert run.data.metrics["typos/agreement_model/rate"] == 0
    assert numbers_of(store_uri, judged.run_id)["typos/agreement_model/n"] == 3
    assert "no accuracy" in run.data.tags["mlflow.note.content"]
    assert "Of 24 calls 6 with a label that a model wrote count in no accuracy" in run.data.tags["mlflow.note.content"]
    page = Path(download_artifacts(run_id=judged.run_id, artifact_path="datasheet.html", tracking_uri=store_uri))
    sections = re.split("<h2|<summary", page.read_text(encoding="utf-8"))
    (apart,) = [section for section in sections if "no accuracy" in section[:200]]
    assert "typos: agreement with model labels" in apart
    assert sum("typos: agreement with model labels" in section for section in sections) == 1


def test_without_such_labels_neither_column_nor_tag_is_there(suite, store_uri):
    known = jrh.Suite(name="known", items=[item for item in suite.items if not item.label_source])
    judged = jrh.evaluate(jrh.scripted.Oracle(), known, tracking_uri=store_uri, experiment="tests", progress=False)
    assert "label_source" not in judged.calls
    assert "jrh.label_source" not in MlflowClient(store_uri).get_run(judged.run_id).data.tags


def test_records_that_went_through_a_csv_file_read_the_same(judged, tmp_path):
    path = tmp_path / "calls.csv"
    judged.calls.to_csv(path, index=False)
    again = jrh.measure(pd.read_csv(path), labels=("no", "yes"))
    assert again.to_dict()["estimates"] == judged.report.to_dict()["estimates"]
