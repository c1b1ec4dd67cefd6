"""Tables of a run in the form of `mlflow.log_table`: `mlflow.load_table` reads them, the MLflow UI shows them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from jrh_mlflow.reports.numbers import withheld_text
from jrh_mlflow.schema.estimates import Estimate, Reading
from jrh_mlflow.tracking import keys


def table_text(rows: Sequence[Mapping[str, Any]]) -> str:
    """Write rows as the artifact."""
    columns = list(rows[0]) if rows else []
    return json.dumps({"columns": columns, "data": [list(row.values()) for row in rows]}, allow_nan=False)


def table_tags(name: str) -> dict[str, str]:
    """Return the tag by which MLflow knows that an artifact is a table."""
    return {keys.TAG_LOGGED_ARTIFACTS: json.dumps([{"path": name, "type": "table"}])}


def axes_table(readings: Mapping[str, Reading]) -> str:
    """Write one row per axis: its number with n and intervals, or why there is none."""
    return table_text([_axis_row(axis, reading) for axis, reading in readings.items()])


def _axis_row(axis: str, reading: Reading) -> dict[str, Any]:
    known = reading if isinstance(reading, Estimate) else None
    return {
        "axis": axis,
        "value": known and known.value,
        "n": reading.n,
        "excluded": reading.excluded,
        "ci_low": known and known.ci_low,
        "ci_high": known and known.ci_high,
        "cluster_low": known and known.cluster_low,
        "cluster_high": known and known.cluster_high,
        "n_clusters": known and known.n_clusters,
        "method": known and known.method,
        "reason": None if isinstance(reading, Estimate) else withheld_text(reading),
    }
