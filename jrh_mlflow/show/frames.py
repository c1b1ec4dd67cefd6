"""Results as data frames; what is missing is an empty cell, never 0."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from jrh_mlflow.measures.rules import RuleCheck
from jrh_mlflow.show.readings import (
    reading_columns,
    readings_frame,
)

if TYPE_CHECKING:
    import pandas as pd

_CHECK = {"rule": "str", "state": "str", **dict.fromkeys(("estimate", "low", "high"), "float64")}
_CHECK |= {**dict.fromkeys(("further_tasks", "n", "n_clusters"), "Int64"), "reason": "str", "censored": "str"}
"""Columns of the checks of a gate and their types: a count that is missing is no NaN."""


def checks_frame(checks: Sequence[RuleCheck]) -> pd.DataFrame:
    """Return one row per rule of a gate: its state, what decided it, and what would."""
    frame: pd.DataFrame = _frame([check.to_dict() for check in checks], columns=list(_CHECK)).astype(_CHECK)
    return frame


def frame_rows(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Return a frame as JSON-ready rows: a missing cell is None, a number of numpy a plain one."""
    import pandas as pd

    cells = {str(name): [None if pd.isna(cell) else cell for cell in frame[name].tolist()] for name in frame.columns}
    return [dict(zip(cells, row, strict=True)) for row in zip(*cells.values(), strict=True)]


def _frame(rows: Sequence[Mapping[str, Any]], columns: Sequence[str] | None = None) -> pd.DataFrame:
    import pandas as pd

    frame: pd.DataFrame = pd.DataFrame(list(rows), columns=list(columns) if columns else None)
    return frame


__all__ = ["checks_frame", "frame_rows", "reading_columns", "readings_frame"]
