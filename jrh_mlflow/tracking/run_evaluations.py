"""Evaluations that runs of a tracking store hold, and the page that each of them wrote."""

from __future__ import annotations

import re
import tempfile
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING

from jrh_mlflow.errors import TrackingError
from jrh_mlflow.pages.evaluations import EvaluationRow
from jrh_mlflow.tracking import keys
from jrh_mlflow.tracking.run_suites import experiment_names, finished_runs
from jrh_mlflow.tracking.speaking import speaking

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run

DATASHEET = "datasheet.html"
MOST_BYTES = 64 * 2**20
"""Of a page: ours hold a few figures, but anybody may log a run."""
_RUN_ID = re.compile("[0-9a-f]{32}")
_NOTHING_CHANGED = "Nothing was changed."


def evaluations_in_runs(tracking_uri: str, *, most: int) -> list[EvaluationRow]:
    """Return the newest finished evaluations of all experiments, at most `most`.

    Raises:
        TrackingError: when MLflow cannot be reached.
    """
    from mlflow import MlflowClient

    with speaking(tracking_uri, problem="cannot be read", what_now=_NOTHING_CHANGED):
        client = MlflowClient(tracking_uri=tracking_uri)
        experiments = experiment_names(client)
        found = finished_runs(client, "evaluate", list(experiments), most=most)
    return [_row(run, experiments[run.info.experiment_id]) for run in found if _RUN_ID.fullmatch(run.info.run_id)]


def datasheet_html(tracking_uri: str, run_id: str) -> bytes | None:
    """Return the page that an evaluation wrote, or None when there is no such run, or it has none.

    Raises:
        ValueError: when `run_id` cannot be one.
        TrackingError: when MLflow cannot be reached, or the page is too large to be one of ours.
    """
    from mlflow import MlflowClient

    if not _RUN_ID.fullmatch(run_id):
        raise ValueError(f"A run id has 32 hexadecimal digits, but got {run_id!r}.")
    with speaking(tracking_uri, problem="cannot be read", what_now=_NOTHING_CHANGED):
        client = MlflowClient(tracking_uri=tracking_uri)
        size = _size(client, run_id)
        if size is None:
            return None
        if size > MOST_BYTES:
            raise TrackingError(
                f"{DATASHEET} of run {run_id} has {size:,} bytes: more than {MOST_BYTES:,} are not shown."
            )
        with tempfile.TemporaryDirectory(prefix="jrh-") as folder:
            return Path(client.download_artifacts(run_id, DATASHEET, folder)).read_bytes()


def _size(client: MlflowClient, run_id: str) -> int | None:
    """Bytes of a run's page, or None when there is none."""
    from mlflow.exceptions import MlflowException

    try:
        files = client.list_artifacts(run_id)
    except MlflowException as error:
        if error.error_code == "RESOURCE_DOES_NOT_EXIST":
            return None
        raise
    return next((int(file.file_size or 0) for file in files if file.path == DATASHEET and not file.is_dir), None)


def _row(run: Run, experiment: str) -> EvaluationRow:
    params, tags = run.data.params, run.data.tags
    started = datetime.fromtimestamp((run.info.start_time or 0) / 1000, timezone.utc)
    name = str(run.info.run_name or run.info.run_id[:8])
    return EvaluationRow(
        run_id=str(run.info.run_id),
        name=name,
        judge=str(params.get("judge.model", name)),
        suite=str(params.get("suite.name", "")),
        sha256=str(params.get("suite.sha256", "")),
        profile=str(tags.get(keys.TAG_PROFILE, "")),
        simulated=tags.get(keys.TAG_SIMULATED) == "true",
        truncated=tags.get(keys.TAG_TRUNCATED),
        experiment=experiment,
        experiment_id=str(run.info.experiment_id),
        started=f"{started:%Y-%m-%d %H:%M} UTC",
    )
