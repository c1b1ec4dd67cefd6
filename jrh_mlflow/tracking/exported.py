"""The door that registered scorers go through: their text names this module and `score`, so both keep their place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mlflow.entities import Feedback, Trace


def score(
    specification: str, *, inputs: Any = None, outputs: Any = None, expectations: Any = None, trace: Trace | None = None
) -> Feedback:
    """Judge one row: what an exported scorer does (`exporting/exported_scorers.py`)."""
    from jrh_mlflow.exporting.exported_scorers import row_feedback

    return row_feedback(specification, inputs=inputs, outputs=outputs, trace=trace)
