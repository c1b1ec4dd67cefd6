"""What tests read of logged runs."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from mlflow import MlflowClient


def json_of(store_uri: str, run_id: str, name: str) -> Any:
    """Read a JSON artifact of a run."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(MlflowClient(tracking_uri=store_uri).download_artifacts(run_id, name, folder))
        return json.loads(path.read_text(encoding="utf-8"))


def numbers_of(store_uri: str, run_id: str) -> dict[str, float]:
    """Every number of an evaluation by its key, whether it is a metric of the run or not."""
    found: dict[str, float] = json_of(store_uri, run_id, "datasheet.json")["metrics"]
    return found
