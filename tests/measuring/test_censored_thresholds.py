"""A threshold that is censored has no value: its bound has a key of its own, and the side is in tag and JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from mlflow import MlflowClient

import jrh_mlflow as jrh

AXES = ("threshold_75", "matched_threshold_75")


@pytest.fixture(scope="module")
def suite() -> jrh.Suite:
    return jrh.datasheet_suite(n_tasks=12, depth=2)


@pytest.fixture(scope="module")
def left(suite: jrh.Suite, store_uri: str) -> jrh.Evaluation:
    return jrh.evaluate(jrh.scripted.Oracle(), suite, experiment="tests", tracking_uri=store_uri, traces="none")


@pytest.fixture(scope="module")
def right(suite: jrh.Suite, store_uri: str) -> jrh.Evaluation:
    return jrh.evaluate(jrh.scripted.AlwaysFirst(), suite, experiment="tests", tracking_uri=store_uri, traces="none")


@pytest.mark.parametrize("axis", AXES)
def test_a_bound_is_logged_under_the_key_of_its_side_and_there_is_no_value(
    axis: str, left: jrh.Evaluation, right: jrh.Evaluation
) -> None:
    own = [
        {key.removeprefix(f"{axis}/"): value for key, value in done.metrics.items() if key.startswith(f"{axis}/")}
        for done in (left, right)
    ]
    assert [read.get("value") for read in own] == [None, None]
    assert [read.get("at_most") for read in own] == [1.0, None]
    assert [read.get("at_least") for read in own] == [None, 2.0]


def test_the_headline_has_the_bound(left: jrh.Evaluation, right: jrh.Evaluation) -> None:
    assert [key for key in left.logged if key.startswith("threshold_75/")] == ["threshold_75/at_most"]
    assert [key for key in right.logged if key.startswith("threshold_75/")] == ["threshold_75/at_least"]


@pytest.mark.parametrize("axis", AXES)
def test_a_tag_and_the_json_say_on_which_side(
    axis: str, left: jrh.Evaluation, right: jrh.Evaluation, store_uri: str, tmp_path: Path
) -> None:
    client = MlflowClient(tracking_uri=store_uri)
    for done, text, side in ((left, "≤ 1", "left"), (right, "> 2", "right")):
        assert client.get_run(done.run_id).data.tags[f"jrh.{axis}"] == text
        file = client.download_artifacts(done.run_id, "datasheet.json", str(tmp_path))
        reading = json.loads(Path(file).read_text(encoding="utf-8"))["estimates"][axis]
        assert reading["censored"] == side
        assert (reading["reached_by"], reading["not_reached_at"]) == ((1.0, None) if side == "left" else (None, 2.0))
