"""Suites that runs of a tracking store hold."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from jrh_mlflow.tracking import keys
from jrh_mlflow.tracking.speaking import speaking

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run

_PAGE = 200
"""Runs asked for at once: each comes with all its metrics."""
_EXPERIMENTS_AT_ONCE = 500
"""Databases take only so many values in one query."""
_SHA256 = re.compile("[0-9a-f]{64}")
_RUN_ID = re.compile("[0-9a-f]{32}")


@dataclass(frozen=True, kw_only=True, slots=True)
class RunSuite:
    """A suite as the params of the run that made it tell of it."""

    run_id: str
    name: str
    sha256: str
    n_items: int
    experiment_id: str


def active_uri() -> str:
    """Return the active store."""
    import mlflow

    return str(mlflow.get_tracking_uri())


def suites_in_runs(tracking_uri: str, *, kind: str = "generate") -> list[RunSuite]:
    """Return the suites of all finished runs of one kind, newest first.

    Raises:
        TrackingError: when MLflow cannot be reached.
    """
    from mlflow import MlflowClient

    with speaking(tracking_uri, problem="cannot be read", what_now="Nothing was changed."):
        client = MlflowClient(tracking_uri=tracking_uri)
        found = [_run_suite(run) for run in finished_runs(client, kind, list(experiment_names(client)))]
    return [one for one in found if one is not None]


def experiment_names(client: MlflowClient) -> dict[str, str]:
    """Return the names of all experiments by id."""
    found: dict[str, str] = {}
    token = None
    while token != "":
        page = client.search_experiments(page_token=token)
        found |= {str(one.experiment_id): str(one.name) for one in page}
        token = page.token or ""
    return found


def finished_runs(client: MlflowClient, kind: str, experiments: Sequence[str], *, most: int | None = None) -> list[Run]:
    """Return the finished runs of one kind, newest first: all of them, or the newest `most`."""
    found = [
        run
        for start in range(0, len(experiments), _EXPERIMENTS_AT_ONCE)
        for run in _runs(client, kind, experiments[start : start + _EXPERIMENTS_AT_ONCE], most)
    ]
    return sorted(found, key=lambda run: -(run.info.start_time or 0))[:most]


def _runs(client: MlflowClient, kind: str, experiments: Sequence[str], most: int | None) -> list[Run]:
    chosen = f"tags.`{keys.TAG_KIND}` = '{kind}' and attributes.status = 'FINISHED'"
    newest = ["attributes.start_time DESC"]
    found: list[Run] = []
    token = None
    while token != "" and (most is None or len(found) < most):
        page = client.search_runs(list(experiments), chosen, order_by=newest, max_results=_PAGE, page_token=token)
        found += page
        token = page.token or ""
    return found


def _run_suite(run: Run) -> RunSuite | None:
    """Read a run's params; None where they are not what our own runs write, since anybody may log a run."""
    params, run_id = run.data.params, str(run.info.run_id)
    sha256, n_items = params.get("suite.sha256", ""), params.get("suite.n_items", "")
    if not (_SHA256.fullmatch(sha256) and _RUN_ID.fullmatch(run_id) and n_items.isascii() and n_items.isdigit()):
        return None
    name, experiment_id = str(params.get("suite.name", "suite")), str(run.info.experiment_id)
    return RunSuite(run_id=run_id, name=name, sha256=sha256, n_items=int(n_items), experiment_id=experiment_id)
