"""The README's five lines from a registered judge to its datasheet and back run as they are printed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import mlflow
import pytest

import jrh_mlflow as jrh
from jrh_mlflow.tracking.judge_registry import active_store
from tests.tracking.mlflow_chat import chatting, compare

README = Path(__file__).parents[1] / "README.md"


def first_lines() -> str:
    found = re.search(
        r"^### MLflow judges and scorers\n.*?```python\n(.*?)```", README.read_text(), re.MULTILINE | re.DOTALL
    )
    assert found is not None
    return found[1]


def test_five_lines_lead_from_a_registered_judge_to_its_datasheet_and_back(
    store_uri: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = first_lines()
    assert len([line for line in lines.splitlines() if line.strip()]) == 5
    with chatting(monkeypatch) as server, active_store(store_uri):
        experiment = mlflow.MlflowClient().create_experiment("support")
        compare(name="closer").register(experiment_id=experiment)
        names: dict[str, Any] = {}
        exec(lines, names)
        row = {"inputs": {"instruction": "Which?"}, "outputs": {"A": "this", "B": "that"}}
        feedback = names["closer"](**row)
    done: jrh.Evaluation = names["done"]
    assert len(server.bodies) > 128
    assert mlflow.MlflowClient(store_uri).get_run(done.run_id).data.params["judge.registered_name"] == "closer"
    assert done.metrics["dark_current/rate"] == 1.0, "the server always says A"
    shown = capsys.readouterr().out
    assert "dark_current" in shown
    assert done.link in shown
    assert feedback.metadata["jrh.datasheet_run_id"] == done.run_id
    assert feedback.metadata["jrh.status"] == "measured"
