"""Results as data frames: one row per axis, difference or item; what is missing is an empty cell, never 0."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from jrh_mlflow.measures.findings import detectable
from jrh_mlflow.measures.rules import RuleCheck
from jrh_mlflow.schema.estimates import Estimate, Reading
from jrh_mlflow.show.numbers import withheld_text

if TYPE_CHECKING:
    import pandas as pd

_ENDS = ("ci_low", "ci_high", "cluster_low", "cluster_high", "n_clusters", "method")


def reading_columns(reading: Reading, *, axis: str = "") -> dict[str, Any]:
    """Spell a reading as columns: value, n, what was left out, both intervals and the method; or why there is none.

    Under the name of its axis a bias says how large it must be to be found; see `measures.findings.detectable`.
    """
    known = reading if isinstance(reading, Estimate) else None
    return {
        "value": known and known.value,
        "n": reading.n,
        "excluded": reading.excluded,
        **{name: known and getattr(known, name) for name in _ENDS},
        "detectable": detectable(axis, reading),
        "reason": None if isinstance(reading, Estimate) else withheld_text(reading),
    }


def readings_frame(readings: Mapping[str, Reading]) -> pd.DataFrame:
    """Return one row per axis, in the order of the readings."""
    return _frame([{"axis": axis, **reading_columns(reading, axis=axis)} for axis, reading in readings.items()])


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
