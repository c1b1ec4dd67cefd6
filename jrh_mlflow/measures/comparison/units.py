"""Scores of single units, 1 or 0: what is compared between judges, each unit under a name that all judges share.

| records | axis | unit | score is 1 when |
|---|---|---|---|
| pointwise | the test, or `baseline` | item and replicate | the answer is the expected one |
| pointwise | `stochastic_stability…` | item | all its replicates are the same answer |
| pointwise | `error_injection` | source | the answers fall with the dose |
| pairs | `dark_current`, `raw_false_preference` | call | a side is preferred, which is the bad end |
| pairs | `filler_preference` | call | the padded content is preferred, which is the bad end |
| pairs | `target_sensitivity/delta_k`, `natural/accuracy` | call | the better content is chosen |

The mean score of an axis is its number in the judge's own report.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd

from jrh_mlflow.measures.datasheet.calls import CallTable, call_table
from jrh_mlflow.measures.datasheet.readings import delta_key
from jrh_mlflow.measures.records import is_pointwise
from jrh_mlflow.measures.reliability.summary import Scored, scored_tests
from jrh_mlflow.schema.calls import USABLE
from jrh_mlflow.schema.items import BASELINE, DELTA_0_SAME, FILLER, LADDER, NATURAL, VACUUM
from jrh_mlflow.scoring.accuracy import Counted, accuracy
from jrh_mlflow.scoring.answers import PointTable, point_table
from jrh_mlflow.scoring.ledger import Mask
from jrh_mlflow.scoring.stability import repeated

COLUMNS = ("axis", "unit", "cluster", "score")
LOWER_IS_BETTER = ("dark_current", "raw_false_preference", "filler_preference")
"""Axes on which a good judge scores 0; on all others it scores 1."""

Texts = npt.NDArray[np.object_]


def unit_scores(calls: pd.DataFrame, *, labels: Sequence[str] | None = None) -> pd.DataFrame:
    """Return one row per axis and unit of normalised records: axis, unit, cluster, score.

    The score is NaN where the unit has no usable answer. The cluster is the source item or task: units of one
    cluster are not independent.

    Args:
        calls: Records as `normalise` returns them.
        labels: What a pointwise judge may answer, low to high; inferred when None.
    """
    parts = _point_scores(calls, labels) if is_pointwise(calls) else _pair_scores(calls)
    nothing = pd.DataFrame({column: pd.Series(dtype=float if column == "score" else object) for column in COLUMNS})
    frame: pd.DataFrame = pd.concat(parts, ignore_index=True) if parts else nothing
    return frame


def lower_is_better(axis: str) -> bool:
    """Tell the axes of false preference from those of right answers."""
    return axis in LOWER_IS_BETTER


def _point_scores(frame: pd.DataFrame, labels: Sequence[str] | None) -> list[pd.DataFrame]:
    table = point_table(frame, labels=labels)
    items, sources = (np.unique(frame[column].to_numpy(object)) for column in ("suite_item", "task"))
    base = table.of(BASELINE)
    scored = [Scored(test=BASELINE, axis=f"{BASELINE}/accuracy", counted=accuracy(base, BASELINE))]
    scored += scored_tests(table, tuple(sorted(set(table.test) - {BASELINE})))
    return [
        _counted_frame(one.test, one.counted, _unit_names(table, one, items, sources), sources)
        for one in scored
        if one.counted is not None and len(one.counted.hits)
    ]


def _unit_names(table: PointTable, one: Scored, items: Texts, sources: Texts) -> list[str]:
    """Name the units of a test in the order in which it counts them."""
    statistic = one.axis.rpartition("/")[2]
    calls = table.of(one.test)
    if statistic == "unanimity":
        return [str(items[code]) for code in np.unique(repeated(calls).item)]
    if statistic == "monotone":
        assert one.counted is not None
        return [str(sources[code]) for code in one.counted.units.clusters]
    judged = calls.where(calls.expected != "")
    return [f"{items[code]}#{replicate}" for code, replicate in zip(judged.item, judged.replicate, strict=True)]


def _counted_frame(axis: str, counted: Counted, names: list[str], sources: Texts) -> pd.DataFrame:
    score = np.where(counted.units.usable, counted.hits.astype(float), np.nan)
    return _frame(axis, np.array(names, dtype=object), sources[counted.units.clusters], score)


def _pair_scores(frame: pd.DataFrame) -> list[pd.DataFrame]:
    table = call_table(frame)
    names = frame["suite_item"] + "#" + frame["order"] + "#" + frame["replicate"].astype(str)
    unit, cluster = names.to_numpy(object), frame["task"].to_numpy(object)
    usable = np.isin(table.outcome, USABLE)
    return [
        _frame(axis, unit[among], cluster[among], np.where(usable, hits.astype(float), np.nan)[among])
        for axis, (among, hits) in _pair_axes(table).items()
        if among.any()
    ]


def _pair_axes(table: CallTable) -> dict[str, tuple[Mask, Mask]]:
    """Axis to the calls that it counts and those of them that score 1; definitions as in `measures.datasheet.axes`."""
    ladder = table.condition == LADDER
    steps = {
        f"target_sensitivity/{delta_key(float(delta))}": (ladder & (table.delta == delta), table.correct)
        for delta in np.unique(table.delta[ladder])
    }
    return {
        "dark_current": (np.isin(table.condition, VACUUM), table.prefers),
        "raw_false_preference": (table.condition == DELTA_0_SAME, table.outcome != "tie"),
        **steps,
        "filler_preference": (table.condition == FILLER, table.content == "v"),
        "natural/accuracy": (table.condition == NATURAL, table.correct),
    }


def _frame(axis: str, unit: Texts, cluster: Texts, score: npt.NDArray[np.float64]) -> pd.DataFrame:
    frame: pd.DataFrame = pd.DataFrame({"axis": axis, "unit": unit, "cluster": cluster, "score": score})
    return frame
