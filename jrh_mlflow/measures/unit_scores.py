"""Scores of single units, the same units for every judge, and several judges' scores side by side.

A score is 1 or 0, and each unit has a name that all judges share:

| records | axis | unit | score is 1 when |
|---|---|---|---|
| pointwise | the test, or `baseline` | item and replicate, item, or source | as the test's expectation says |
| single responses | every `comparable` axis | two contents, call or item | `measures.levels`; also in fractions |
| pairs | every `comparable` axis | call | it is a hit of the axis, which is the bad end where lower is better |

The mean score of an axis is its number in the judge's own report.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from jrh_mlflow.measures import axes
from jrh_mlflow.measures.levels import level_table
from jrh_mlflow.measures.records import call_table, has_levels, is_pointwise
from jrh_mlflow.measures.reliability import scored_tests
from jrh_mlflow.schema.items import BASELINE, VACUUM
from jrh_mlflow.scoring.pointwise import Counted, point_table
from jrh_mlflow.stats import Array, Codes, Texts

COLUMNS = ("axis", "unit", "presentation", "cluster", "score")


def unit_scores(calls: pd.DataFrame, *, labels: Sequence[str] | None = None) -> pd.DataFrame:
    """Return one row per axis and unit of normalised records: axis, unit, presentation, cluster, score.

    Units of one presentation are replicates. The score is NaN where the unit has no usable answer. The cluster is the
    source item or task: units of one cluster are not independent.

    Args:
        calls: Records as `normalise` returns them.
        labels: What a pointwise judge may answer, low to high; inferred when None.
    """
    if has_levels(calls):
        parts = _level_scores(calls, labels)
    else:
        parts = _point_scores(calls, labels) if is_pointwise(calls) else _pair_scores(calls)
    nothing = pd.DataFrame({column: pd.Series(dtype=float if column == "score" else object) for column in COLUMNS})
    frame: pd.DataFrame = pd.concat(parts, ignore_index=True) if parts else nothing
    return frame


def _point_scores(frame: pd.DataFrame, labels: Sequence[str] | None) -> list[pd.DataFrame]:
    table = point_table(frame, labels=labels)
    items, sources = (np.unique(frame[column].to_numpy(object)) for column in ("suite_item", "task"))
    return [
        _counted_frame(test.name, test.counted, items, sources)
        for test in scored_tests(table, (BASELINE, *sorted(set(table.test) - {BASELINE})))
        if test.counted is not None and len(test.counted.hits)
    ]


def _counted_frame(axis: str, counted: Counted, items: Texts, sources: Texts) -> pd.DataFrame:
    score = np.where(counted.units.usable, counted.hits.astype(float), np.nan)
    clusters = sources[counted.units.clusters]
    # Units are named by item and replicate, by item, or by source and rubric.
    names = clusters if counted.items is None else items[counted.items]
    if counted.rubrics is not None and (counted.rubrics != "").any():
        names = np.array([f"{name}@{rubric}" for name, rubric in zip(names, counted.rubrics, strict=True)], object)
    units = names
    if counted.replicates is not None:
        units = np.array([f"{name}#{nth}" for name, nth in zip(names, counted.replicates, strict=True)], dtype=object)
    return _frame(axis, units, names, clusters, score)


def _level_scores(frame: pd.DataFrame, labels: Sequence[str] | None) -> list[pd.DataFrame]:
    table, tasks = level_table(frame, labels=labels), np.unique(frame["task"].to_numpy(object))
    parts = []
    for axis in axes.AXES:
        for key, found in axis.counted(table).items() if axis.comparable else ():
            units = np.array(found.names, dtype=object)
            # Replicates of a call are named by their item; what is compared or repeated has none.
            shown = np.array([name.partition("#")[0] for name in units], dtype=object)
            parts += [_frame(key, units, shown, tasks[found.task], found.score)] if len(units) else []
    return parts


def _pair_scores(frame: pd.DataFrame) -> list[pd.DataFrame]:
    table = call_table(frame)
    names = frame["suite_item"] + "#" + frame["order"] + "#" + frame["replicate"].astype(str)
    unit, cluster = names.to_numpy(object), frame["task"].to_numpy(object)
    # Names, because several judges' units are laid side by side.
    shown = np.where(frame["condition"].isin(VACUUM), frame["suite_item"], frame["suite_item"] + "#" + frame["order"])
    parts = []
    for axis in axes.AXES:
        if axis.comparable and axis.hits:
            scores = np.where(table.usable, axis.hits(*table.seen).astype(float), np.nan)
            cells = axis.where(table.condition, table.delta)
            parts += [
                _frame(key, unit[own], shown[own], cluster[own], scores[own]) for key, own in cells.items() if own.any()
            ]
    return parts


def _frame(axis: str, unit: Texts, presentation: Texts, cluster: Texts, score: Array) -> pd.DataFrame:
    columns = (axis, unit, presentation, cluster, score)
    frame: pd.DataFrame = pd.DataFrame(dict(zip(COLUMNS, columns, strict=True)))
    return frame


@dataclass(frozen=True, kw_only=True, slots=True)
class ScoreTable:
    """Units as parallel arrays, one column of scores per judge."""

    axis: Texts
    cluster: Codes
    """0 … n_codes - 1."""
    n_codes: int
    """Clusters of the suite, also those without a unit here."""
    scores: Mapping[str, Array]
    presentation: Codes | None = None
    """Units of an axis that share one are replicates. None: all differ."""

    def of(self, axes: Sequence[str]) -> ScoreTable:
        """Return the units of some axes."""
        rows = np.isin(self.axis, np.array(axes, dtype=object))
        scores = {judge: values[rows] for judge, values in self.scores.items()}
        shown = None if self.presentation is None else self.presentation[rows]
        return replace(self, axis=self.axis[rows], cluster=self.cluster[rows], scores=scores, presentation=shown)

    def n_clusters(self, axis: str) -> int:
        """Count the clusters of an axis."""
        return len(np.unique(self.cluster[self.axis == axis]))


def score_table(scores: Mapping[str, pd.DataFrame], clusters: Texts) -> ScoreTable:
    """Lay the unit scores of several judges side by side; a unit that a judge lacks is NaN.

    Args:
        scores: Judge to its scores.
        clusters: Names of all clusters, sorted: their places are the codes.
    """
    by_unit = {judge: frame.set_index(["axis", "unit"]) for judge, frame in scores.items()}
    units = pd.concat([frame[["cluster", "presentation"]] for frame in by_unit.values()])
    units = units[~units.index.duplicated()].sort_index()
    return ScoreTable(
        axis=units.index.get_level_values("axis").to_numpy(object),
        cluster=np.searchsorted(clusters, units["cluster"].to_numpy(object)),
        n_codes=len(clusters),
        presentation=pd.factorize(units["presentation"])[0],
        scores={judge: frame["score"].reindex(units.index).to_numpy(float) for judge, frame in by_unit.items()},
    )
