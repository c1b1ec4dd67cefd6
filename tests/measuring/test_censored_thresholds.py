"""A threshold that is censored is logged alike on either side: its bound as the number, the side in tag and JSON."""

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
def test_either_side_logs_its_bound_and_the_same_keys(axis: str, left: jrh.Evaluation, right: jrh.Evaluation) -> None:
    assert left.metrics[f"{axis}/value"] == 1.0
    assert right.metrics[f"{axis}/value"] == 2.0
    own = [{key for key in done.metrics if key.startswith(f"{axis}/")} for done in (left, right)]
    assert own[0] == own[1]


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
