"""What a logged evaluation holds, for its page: as it was written, of this version or an earlier one."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jrh_mlflow.schema import metric_keys
from jrh_mlflow.suites.suite import MANIFEST_FILE, Suite, read_manifest, read_suite
from jrh_mlflow.tracking.runs import keys
from jrh_mlflow.tracking.runs.read import (
    check_evaluation,
    downloaded,
    experiment_names,
    find_run,
    finished_runs,
    read_calls,
)
from jrh_mlflow.tracking.runs.store import reading_client

if TYPE_CHECKING:
    import pandas as pd
    from mlflow import MlflowClient
    from mlflow.entities import Run

_MOST_OTHERS = 12
"""Other judges of the same suite, the newest ones."""
_TEXTS = ("rationale", "raw")
"""Columns of calls that no number and no worst item needs."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LoggedGate:
    """The newest gate of a run."""

    reason: str
    checks: list[dict[str, Any]]
    """None are known where the run of the gate is gone."""
    notes: list[str]
    run_id: str
    experiment_id: str
    """Empty where the run of the gate is gone."""
    started_ms: float | None


@dataclass(frozen=True, kw_only=True)
class LoggedEvaluation:
    """An evaluation as its run holds it."""

    run_id: str
    experiment_id: str
    tags: Mapping[str, str]
    seconds: float | None
    sheet: Mapping[str, Any]
    """`datasheet.json`."""
    judge: Mapping[str, Any]
    """`judge/judge.json`."""
    calls: pd.DataFrame
    """Without rationales and raw answers."""
    manifest: Mapping[str, Any]
    """Of the suite."""
    suite: Suite | None
    """Only of reliability tests, whose worst items are shown: it may be large."""
    until: Mapping[str, Any] | None
    gate: LoggedGate | None
    others: Mapping[str, str]
    """Other finished evaluations of the same suite: id to name."""


def logged_evaluation(tracking_uri: str, run_id: str) -> LoggedEvaluation:
    """Read a finished evaluation.

    Args:
        tracking_uri: The store.
        run_id: Whole, or the first eight or more digits.

    Raises:
        RecipeError: when there is no such run, it is no evaluation, or did not finish.
        TrackingError: when MLflow cannot be reached, or the artifacts cannot be read.
    """
    with reading_client(tracking_uri) as client, tempfile.TemporaryDirectory(prefix="jrh-") as folder:
        run = find_run(client, run_id, tracking_uri)
        check_evaluation(run, "shown")
        tags, sheet = run.data.tags, _json(client, run, keys.DATASHEET_JSON, folder)
        manifest, suite = _suite(client, run, folder, whole="scores" in sheet)
        return LoggedEvaluation(
            run_id=str(run.info.run_id),
            experiment_id=str(run.info.experiment_id),
            tags=dict(tags),
            seconds=run.data.metrics.get(metric_keys.SECONDS),
            sheet=sheet,
            judge=_json(client, run, keys.JUDGE_FILE, folder),
            calls=read_calls(client, run, folder, without=_TEXTS),
            manifest=manifest,
            suite=suite,
            until=_json(client, run, keys.UNTIL_JSON, folder) if keys.TAG_UNTIL in tags else None,
            gate=_gate(client, run, folder),
            others=_others(client, run),
        )


def _json(client: MlflowClient, run: Run, name: str, folder: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(downloaded(client, run, name, folder).read_text(encoding="utf-8"))
    return found


def _suite(client: MlflowClient, run: Run, folder: str, *, whole: bool) -> tuple[Mapping[str, Any], Suite | None]:
    if not whole:
        return read_manifest(downloaded(client, run, f"{keys.SUITE_FOLDER}/{MANIFEST_FILE}", folder)), None
    place = downloaded(client, run, keys.SUITE_FOLDER, folder)
    return read_manifest(place / MANIFEST_FILE), read_suite(place, hashes=True)


def _gate(client: MlflowClient, run: Run, folder: str) -> LoggedGate | None:
    reason, gate_id = run.data.tags.get(keys.TAG_GATE), run.data.tags.get(keys.TAG_GATE_RUN)
    if reason is None or gate_id is None:
        return None
    from mlflow.exceptions import MlflowException

    try:
        gate = client.get_run(gate_id)
        data = _json(client, gate, keys.GATE_JSON, folder)
    except (MlflowException, OSError):
        gone = ["The run of this gate is gone: its rules are not known."]
        return LoggedGate(reason=reason, checks=[], notes=gone, run_id=gate_id, experiment_id="", started_ms=None)
    return LoggedGate(
        reason=reason,
        checks=data["checks"],
        notes=data["notes"],
        run_id=gate_id,
        experiment_id=str(gate.info.experiment_id),
        started_ms=gate.info.start_time,
    )


def _others(client: MlflowClient, run: Run) -> dict[str, str]:
    sha256 = run.data.params.get(keys.PARAM_SUITE_SHA256, "")
    if not sha256.isalnum():
        return {}
    chosen = f"params.`{keys.PARAM_SUITE_SHA256}` = '{sha256}'"
    found = finished_runs(client, "evaluate", list(experiment_names(client)), most=_MOST_OTHERS + 1, chosen=chosen)
    others = [one for one in found if one.info.run_id != run.info.run_id][:_MOST_OTHERS]
    return {str(one.info.run_id): str(one.info.run_name) for one in others}
