"""Results as data frames: one row per axis, difference or item; what is missing is an empty cell, never 0."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from jrh_mlflow.comparing.contrasts import Difference
from jrh_mlflow.measures.findings import detectable
from jrh_mlflow.measures.rules import RuleCheck
from jrh_mlflow.schema.estimates import Estimate, Reading
from jrh_mlflow.show.numbers import withheld_text

if TYPE_CHECKING:
    import pandas as pd

_ENDS = ("ci_low", "ci_high", "cluster_low", "cluster_high", "n_clusters", "method")
_DECIDED = ("low", "high", "p", "p_adjusted", "told_apart", "n", "n_clusters", "family", "p_mcnemar", "detectable")
"""Fields of a difference that a table calls the same."""


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


def shifts_frame(shifts: Mapping[str, Mapping[str, Reading]]) -> pd.DataFrame:
    """Return one row per criterion and axis."""
    return _frame(
        [
            {"criterion": arm, "axis": axis, **reading_columns(reading)}
            for arm, readings in shifts.items()
            for axis, reading in readings.items()
        ]
    )


def differences_frame(
    differences: Sequence[Difference], names: Mapping[str, str] = MappingProxyType({})
) -> pd.DataFrame:
    """Return one row per axis and pair of judges: a minus b, its interval, p-values, and whether it is told apart.

    Args:
        differences: Of a comparison.
        names: What judges are called in the table, where not as in the comparison.
    """
    return _frame([_difference_row(one, names) for one in differences])


def _difference_row(one: Difference, names: Mapping[str, str]) -> dict[str, Any]:
    low, high = one.equivalence or (None, None)
    return {
        "axis": one.axis,
        "a": names.get(one.a, one.a),
        "b": names.get(one.b, one.b),
        "difference": one.value,
        **{name: getattr(one, name) for name in _DECIDED},
        "equivalent": one.equivalent,
        "equivalence_low": low,
        "equivalence_high": high,
        "method": one.method,
    }


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
