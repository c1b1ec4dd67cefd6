"""The front door of the measures."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pandas as pd

from jrh_mlflow.measures.records import is_pointwise, normalise
from jrh_mlflow.results.datasheet import Datasheet, datasheet
from jrh_mlflow.results.reliability import ReliabilityReport, reliability_report
from jrh_mlflow.scoring.ledger import MAX_EXCLUDED


def measure(
    calls: pd.DataFrame | Iterable[object],
    *,
    max_excluded: float = MAX_EXCLUDED,
    seed: int = 0,
    n_resamples: int = 1000,
    labels: Sequence[str] | None = None,
) -> Datasheet | ReliabilityReport:
    """Measure call records: numbers in, numbers out, no MLflow and no network.

    Args:
        calls: One record per call with the columns of `schema.items.REQUIRED_COLUMNS`; others are ignored.
        max_excluded: Withhold an axis when more than this share of its calls, pairs or items gave no usable answer.
        seed: Of the bootstrap behind the intervals of thresholds and other values that are no shares.
        n_resamples: Of that bootstrap.
        labels: What a pointwise judge may answer, low to high, the label to be detected last; inferred when None.

    Returns:
        A `Datasheet` for pairs, a `ReliabilityReport` for pointwise records.

    Raises:
        CallsError: when the records break a rule of the protocol.
    """
    if not 0 <= max_excluded < 1:
        raise ValueError(f"`0 <= max_excluded < 1` must hold, but got {max_excluded=}.")
    frame = normalise(calls)
    if is_pointwise(frame):
        return reliability_report(frame, labels=labels, max_excluded=max_excluded, seed=seed, n_resamples=n_resamples)
    if labels is not None:
        raise ValueError("`labels` are those of pointwise records, but these are of pairs.")
    return datasheet(frame, max_excluded=max_excluded, seed=seed, n_resamples=n_resamples)
