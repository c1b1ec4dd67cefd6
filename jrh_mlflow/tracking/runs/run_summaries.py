"""A run of any kind as its page shows it: what it is, its description, and the runs that belong to it."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable
from datetime import datetime, timezone
from itertools import islice
from typing import TYPE_CHECKING

from jrh_mlflow.show.run_overview import MOST_RELATED, RunFamily, RunSummary
from jrh_mlflow.tracking.runs import keys
from jrh_mlflow.tracking.runs.read import is_artifact, run_file
from jrh_mlflow.tracking.runs.store import own_text, paged, reading_client

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run

_MOST_NAMED = 24
"""Runs that params name and that are looked up one by one."""
_RUN_ID = re.compile("(?<![0-9a-f])[0-9a-f]{32}(?![0-9a-f])")


def run_summary(tracking_uri: str, run_id: str) -> RunSummary | None:
    """Return a run, or None when there is none.

    Raises:
        TrackingError: when MLflow cannot be reached.
    """
    with reading_client(tracking_uri) as client:
        run = _found(client, run_id)
    return None if run is None else _summary(run)


def run_family(tracking_uri: str, run: RunSummary) -> RunFamily:
    """Return what belongs to a run.

    Raises:
        TrackingError: when MLflow cannot be reached.
    """
    nested = f"tags.`{keys.TAG_PARENT}` = '{run.run_id}'"
    with reading_client(tracking_uri) as client:
        named = (_found(client, run_id) for run_id in run.named[:_MOST_NAMED])
        sources = tuple(_summary(one) for one in named if one is not None)
        found = paged(lambda token: client.search_runs([run.experiment_id], nested, page_token=token))
        children = tuple(_summary(one) for one in islice(found, MOST_RELATED))
        files = {file.path for file in client.list_artifacts(run.run_id)}
        has_calls = run.kind == "evaluate" and is_artifact(client, run.run_id, keys.CALLS_FILE)
    page = keys.LOGGED_PAGES.get(run.kind)
    shown = page if page in files else None
    return RunFamily(run=run, page=shown, has_calls=has_calls, sources=sources, children=children)


def logged_page(tracking_uri: str, run: RunSummary) -> bytes | None:
    """Return the page among a run's artifacts, or None where it has none; errors as of `run_file`."""
    name = keys.LOGGED_PAGES.get(run.kind)
    return None if name is None else run_file(tracking_uri, run.run_id, name)


def _found(client: MlflowClient, run_id: str) -> Run | None:
    from mlflow.exceptions import MlflowException

    try:
        return client.get_run(run_id)
    except MlflowException as error:
        if error.error_code != "RESOURCE_DOES_NOT_EXIST":
            raise
        return None


def _summary(run: Run) -> RunSummary:
    tags, info = run.data.tags, run.info
    started = datetime.fromtimestamp((info.start_time or 0) / 1000, timezone.utc)
    return RunSummary(
        run_id=str(info.run_id),
        name=str(info.run_name or info.run_id[:8]),
        kind=str(tags.get(keys.TAG_KIND, "")),
        status=str(info.status),
        started=f"{started:%Y-%m-%d %H:%M} UTC",
        experiment_id=str(info.experiment_id),
        description=own_text(str(tags.get(keys.TAG_NOTE, "")), str(info.run_id)),
        simulated=tags.get(keys.TAG_SIMULATED) == "true",
        recorded=tags.get(keys.TAG_RECORDED) == "true",
        truncated=tags.get(keys.TAG_TRUNCATED),
        named=_named(run),
        state=hashlib.sha256(json.dumps([info.status, info.end_time, sorted(tags.items())]).encode()).hexdigest(),
    )


def _named(run: Run) -> tuple[str, ...]:
    """Return the ids of other runs in params and in our own tags, in their order and each once."""
    texts: Iterable[str] = [run.data.tags.get(keys.TAG_PARENT, ""), *run.data.params.values()]
    ours = (value for key, value in run.data.tags.items() if key in keys.RUN_TAGS)
    ids = [run_id for text in (*texts, *ours) for run_id in _RUN_ID.findall(text)]
    return tuple(dict.fromkeys(run_id for run_id in ids if run_id != run.info.run_id))
