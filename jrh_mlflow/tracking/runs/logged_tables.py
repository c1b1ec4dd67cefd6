"""Tables of a run in the form of `mlflow.log_table`: `mlflow.load_table` reads them, the MLflow UI shows them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from jrh_mlflow.schema.estimates import Reading
from jrh_mlflow.show.frames import reading_columns
from jrh_mlflow.tracking.runs import keys


def table_text(rows: Sequence[Mapping[str, Any]]) -> str:
    """Write rows as the artifact."""
    columns = list(rows[0]) if rows else []
    return json.dumps({"columns": columns, "data": [list(row.values()) for row in rows]}, allow_nan=False)


def table_tags(name: str) -> dict[str, str]:
    """Return the tag by which MLflow knows that an artifact is a table."""
    return {keys.TAG_LOGGED_ARTIFACTS: json.dumps([{"path": name, "type": "table"}])}


def axes_table(readings: Mapping[str, Reading]) -> str:
    """Write one row per axis: its number with n and intervals, or why there is none."""
    return table_text([{"axis": axis, **reading_columns(reading, axis=axis)} for axis, reading in readings.items()])
