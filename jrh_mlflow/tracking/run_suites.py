"""Suites that runs of a tracking store hold."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from jrh_mlflow.tracking import keys
from jrh_mlflow.tracking.speaking import speaking

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
    with speaking(tracking_uri, problem="cannot be read", what_now="Nothing was changed."):
        found = [_run_suite(run) for run in _runs(tracking_uri, kind)]
    return [one for one in found if one is not None]


def _runs(tracking_uri: str, kind: str) -> Iterator[Any]:
    from mlflow import MlflowClient

    client = MlflowClient(tracking_uri=tracking_uri)
    experiments = [one.experiment_id for one in client.search_experiments()]
    chosen = f"tags.`{keys.TAG_KIND}` = '{kind}' and attributes.status = 'FINISHED'"
    token = None
    while experiments and token != "":
        page = client.search_runs(experiments, chosen, order_by=["attributes.start_time DESC"], page_token=token)
        yield from page
        token = page.token or ""


def _run_suite(run: Any) -> RunSuite | None:
    """Read a run's params; None where they are not what our own runs write, since anybody may log a run."""
    params, run_id = run.data.params, str(run.info.run_id)
    sha256, n_items = params.get("suite.sha256", ""), params.get("suite.n_items", "")
    if not (_SHA256.fullmatch(sha256) and _RUN_ID.fullmatch(run_id) and n_items.isascii() and n_items.isdigit()):
        return None
    name, experiment_id = str(params.get("suite.name", "suite")), str(run.info.experiment_id)
    return RunSuite(run_id=run_id, name=name, sha256=sha256, n_items=int(n_items), experiment_id=experiment_id)
