"""Results as data frames; what is missing is an empty cell, never 0."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jrh_mlflow.show.readings import (
    reading_columns,
    readings_frame,
)

if TYPE_CHECKING:
    import pandas as pd


def frame_rows(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Return a frame as JSON-ready rows: a missing cell is None, a number of numpy a plain one."""
    import pandas as pd

    cells = {str(name): [None if pd.isna(cell) else cell for cell in frame[name].tolist()] for name in frame.columns}
    return [dict(zip(cells, row, strict=True)) for row in zip(*cells.values(), strict=True)]


__all__ = ["frame_rows", "reading_columns", "readings_frame"]
