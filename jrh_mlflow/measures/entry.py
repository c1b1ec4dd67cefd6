"""The front door of the measures."""

from __future__ import annotations

from collections.abc import Iterable

import pandas as pd

from jrh_mlflow.measures.datasheet import Datasheet, datasheet
from jrh_mlflow.measures.ledger import MAX_EXCLUDED
from jrh_mlflow.measures.records import normalise


def measure(
    calls: pd.DataFrame | Iterable[object],
    *,
    max_excluded: float = MAX_EXCLUDED,
    seed: int = 0,
    n_resamples: int = 1000,
) -> Datasheet:
    """Measure call records: numbers in, numbers out, no MLflow and no network.

    Args:
        calls: One record per call with the columns of `schema.calls.REQUIRED_COLUMNS`; others are ignored.
        max_excluded: Withhold an axis when more than this share of its calls or pairs gave no usable answer.
        seed: Of the bootstrap behind the threshold's interval.
        n_resamples: Of that bootstrap.

    Raises:
        CallsError: when the records break a rule of the protocol.
    """
    if not 0 <= max_excluded < 1:
        raise ValueError(f"`0 <= max_excluded < 1` must hold, but got {max_excluded=}.")
    return datasheet(normalise(calls), max_excluded=max_excluded, seed=seed, n_resamples=n_resamples)
