"""The same readings by category: accuracy and errors of the calls on items of each group."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from jrh_mlflow.measures.records import is_pointwise, normalise
from jrh_mlflow.measures.reliability import label_axes
from jrh_mlflow.results.datasheet import Datasheet
from jrh_mlflow.results.reliability import ReliabilityReport
from jrh_mlflow.schema.estimates import Reading
from jrh_mlflow.schema.items import BASELINE
from jrh_mlflow.scoring.accuracy import accuracy, error_axes
from jrh_mlflow.scoring.ledger import MAX_EXCLUDED
from jrh_mlflow.scoring.pointwise import PointTable, point_table
from jrh_mlflow.scoring.values import Resampling


def by_category(
    calls: pd.DataFrame | Iterable[object],
    groups: Mapping[str, str],
    *,
    labels: Sequence[str] | None = None,
    max_excluded: float = MAX_EXCLUDED,
    seed: int = 0,
    n_resamples: int = 1000,
) -> dict[str, dict[str, Reading]]:
    """Measure the calls on the items of each group: all tests pooled, or the baselines where there is no test.

    Args:
        calls: Call records of a pointwise judge, as for `measure`.
        groups: Item id to its group; calls on items without one are in no category.
        labels: What the judge may answer, the label to be detected last; inferred from all calls when None.
        max_excluded: As for `measure`, in each group by itself.
        seed: Of the bootstrap behind the intervals of values that are no shares.
        n_resamples: Of that bootstrap.

    Returns:
        Group, in order of name, to axis (`accuracy`, `error_rate`; of two labels `fpr`, `fnr`, `matthews`; of a scale
        `mae`, `within_one`, …) to reading. Empty for pairs.
    """
    frame = normalise(calls)
    if not groups or not is_pointwise(frame):
        return {}
    names = np.array([groups.get(item, "") for item in sorted(set(frame["suite_item"]))], dtype=object)
    table = point_table(frame, labels=labels, max_excluded=max_excluded)
    expecting = np.asarray(table.expected != "")
    tested = np.asarray(expecting & (table.test != BASELINE))
    used = table.where(tested if tested.any() else expecting)
    # Items are coded in order of their ids.
    group = names[used.item]
    resampling = Resampling(seed=seed, n_resamples=n_resamples)
    return {name: _axes(used.where(group == name), name, resampling) for name in sorted(set(names) - {""})}


def categorised(
    sheet: Datasheet | ReliabilityReport, calls: pd.DataFrame, groups: Mapping[str, str], *, seed: int = 0
) -> Datasheet | ReliabilityReport:
    """Return a report with its categories; a datasheet has none."""
    if isinstance(sheet, Datasheet) or not groups:
        return sheet
    found = by_category(calls, groups, labels=sheet.labels, max_excluded=sheet.max_excluded, seed=seed)
    return replace(sheet, categories=found)


def _axes(calls: PointTable, name: str, resampling: Resampling) -> dict[str, Reading]:
    axes = {f"{name}/accuracy": accuracy(calls, name).reading} | error_axes(calls, name)
    axes |= label_axes(calls, name, resampling)
    return {axis.removeprefix(f"{name}/"): reading for axis, reading in axes.items()}
