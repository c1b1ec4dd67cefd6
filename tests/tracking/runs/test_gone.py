"""An MLflow server that goes away in mid-run: said soon, nothing of the user's settings changed, nothing lost."""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path

import pytest

import jrh_mlflow as jrh
from jrh_mlflow.errors import TrackingError
from tests.servers import free_port, running_server

SUITE = jrh.Suite(name="gone", items=jrh.datasheet_suite(n_tasks=2, depth=1).items[:4])


@pytest.mark.slow
def test_a_server_that_is_gone_is_named_and_the_error_carries_the_evaluation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "2")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR", "1")
    monkeypatch.setattr("jrh_mlflow.tracking.runs.store.GONE_AFTER_S", 0.2)
    with ExitStack() as server:
        url = server.enter_context(running_server(tmp_path / "store", port=free_port()))

        def judge(_: object) -> str:
            server.close()
            return "tie"

        with pytest.raises(TrackingError) as lost:
            jrh.evaluate(judge, SUITE, tracking_uri=url, concurrency=1, traces="none")
    assert len(lost.value.evaluation.calls) == 8
    assert lost.value.evaluation.metrics["calls/tie"] == 8
    assert "MLFLOW_HTTP_REQUEST_MAX_RETRIES" in capsys.readouterr().err
    assert os.environ["MLFLOW_HTTP_REQUEST_MAX_RETRIES"] == "2"
