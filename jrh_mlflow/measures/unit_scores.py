"""The units behind each number: their scores side by side for several judges, and by task for plans and gates.

A score is 1 or 0, and each unit has a name that all judges share:

| records | axis | unit | score is 1 when |
|---|---|---|---|
| pointwise | the test, or `baseline` | item and replicate, item, or source | as the test's expectation says |
| single responses | every `comparable` axis | two contents, call or item | see `single_responses`; also in fractions |
| pairs | every `comparable` axis | call | it is a hit of the axis, which is the bad end where lower is better |

The mean score of an axis is its number in the judge's own report.

A plan needs of calls yet to be asked how many units each task will have, and of a pilot how they vary; a gate needs
hits and units by task, of means over units that the judge chooses too: `axis_units` and `every_axis_units`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pandas as pd

from jrh_mlflow.errors import RecipeError, suggest
from jrh_mlflow.measures import axes as declarations
from jrh_mlflow.measures.axes import Axis, find
from jrh_mlflow.measures.records import PairTable, call_table, has_steps, is_pointwise, pair_table
from jrh_mlflow.measures.reliability import ALL, scored_tests
from jrh_mlflow.measures.single_responses import response_table
from jrh_mlflow.perturb.registry import score_name
from jrh_mlflow.schema.items import BASELINE, VACUUM
from jrh_mlflow.scoring.ledger import Extremes
from jrh_mlflow.scoring.pointwise import point_table
from jrh_mlflow.stats import Array, Codes, Texts
from jrh_mlflow.stats.proportions import collapse_replicates

COLUMNS = ("axis", "unit", "presentation", "cluster", "score", "least", "most")
_SCORES = COLUMNS[-3:]


def unit_scores(calls: pd.DataFrame, *, labels: Sequence[str] | None = None) -> pd.DataFrame:
    """Return one row per axis and unit of normalised records: axis, unit, presentation, cluster, score, least, most.

    Units of one presentation are replicates. The score is NaN where the unit has no usable answer; it is then what lost
    calls can make of it, at the `least` and at the `most`. The cluster is the
    source item or task: units of one cluster are not independent.

    Args:
        calls: Records as `normalise` returns them.
        labels: What a pointwise judge may answer, low to high; inferred when None.
    """
    comparable = [axis for axis in declarations.AXES if axis.comparable]
    tasks = np.unique(calls["task"].to_numpy(object))
    every = _units_of(calls, labels, comparable)
    return score_rows(every.items(), tasks)


@dataclass(frozen=True, kw_only=True)
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
    extremes: Mapping[str, Extremes] | None = None
    """Scores with every lost call at its least and at its most, by judge. None: nothing is lost."""

    @cached_property
    def axis_codes(self) -> Codes:
        """Of each unit, the place of its axis among those here, sorted by name."""
        return np.unique(self.axis, return_inverse=True)[1]

    def completed(self, least: str, most: str) -> ScoreTable:
        """Return two judges with every lost call answered: those of one at their least, of the other at their most."""
        if self.extremes is None:
            return self
        return replace(self, scores={least: self.extremes[least][0], most: self.extremes[most][1]}, extremes=None)

    def has_lost(self, *judges: str) -> bool:
        """Whether a unit that a lost call could change is behind the scores of these judges."""
        known = self.extremes or {}
        return any(not np.array_equal(*known[judge], equal_nan=True) for judge in judges if judge in known)

    def of(self, axes: Sequence[str]) -> ScoreTable:
        """Return the units of some axes."""
        rows = np.isin(self.axis, np.array(axes, dtype=object))
        scores = {judge: values[rows] for judge, values in self.scores.items()}
        shown = None if self.presentation is None else self.presentation[rows]
        extremes = self.extremes and {
            judge: (least[rows], most[rows]) for judge, (least, most) in self.extremes.items()
        }
        return replace(
            self,
            axis=self.axis[rows],
            cluster=self.cluster[rows],
            scores=scores,
            presentation=shown,
            extremes=extremes,
        )


def score_table(scores: Mapping[str, pd.DataFrame], clusters: Texts) -> ScoreTable:
    """Lay the unit scores of several judges side by side; a unit that a judge lacks is NaN.

    Args:
        scores: Judge to its scores.
        clusters: Names of all clusters, sorted: their places are the codes.
    """
    # Units of two judges are the same where axis and name are: places differ as soon as one lost a call.
    by_unit = {judge: frame.set_index(["axis", "unit"]) for judge, frame in scores.items()}
    units = pd.concat([frame[["cluster", "presentation"]] for frame in by_unit.values()])
    # Judges may have answered different units; every unit that anybody has is a row, in an order of names.
    units = units[~units.index.duplicated()].sort_index()

    def side_by_side(frame: pd.DataFrame, column: str) -> Array:
        return frame[column].reindex(units.index).to_numpy(float)

    return ScoreTable(
        axis=units.index.get_level_values("axis").to_numpy(object),
        cluster=np.searchsorted(clusters, units["cluster"].to_numpy(object)),
        n_codes=len(clusters),
        presentation=pd.factorize(units["presentation"])[0],
        scores={judge: side_by_side(frame, "score") for judge, frame in by_unit.items()},
        extremes={
            judge: (side_by_side(frame, "least"), side_by_side(frame, "most")) for judge, frame in by_unit.items()
        },
    )


# --- Units of one judge's axes, by task

_ACROSS_TESTS = (ALL, "reliability")
"""Numbers of a reliability report that no single test gives."""
_STEP = re.compile(r"/(delta|level)_[0-9.]+$")


@dataclass(frozen=True, kw_only=True, slots=True)
class AxisUnits:
    """Calls, pairs or items that a share is taken of."""

    task: Codes
    """Of each unit; codes are the places of the tasks of all records, sorted by name."""
    presentation: Codes
    """Units that share one are replicates."""
    score: Array
    """From 0 to 1; NaN where the unit has no usable answer."""
    items: frozenset[str]
    """Ids of the suite's items that they are about."""
    n_tasks: int
    """Tasks of all records, with units of this axis or without."""
    names: Texts
    """Of the units, the same for every judge."""
    shown: Texts
    """Names of what they present."""
    test: str = ""
    """Of a reliability suite; it names the units, by whatever it is scored."""
    extremes: Extremes | None = None
    """Scores with every lost call at its least and at its most; None: nothing is lost."""

    @property
    def task_counts(self) -> tuple[Array, Array]:
        """Hits and units by task, those without a usable answer left out."""
        return self._counts(self.score)

    @property
    def completed_counts(self) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
        """The same with every lost call at its least, and at its most."""
        least, most = self.extremes or (self.score, self.score)
        return self._counts(least), self._counts(most)

    def _counts(self, score: Array) -> tuple[Array, Array]:
        used = np.isfinite(score)
        return collapse_replicates(score[used], self.presentation[used], self.task[used], n_clusters=self.n_tasks)


def score_rows(every: Iterable[tuple[str, AxisUnits]], tasks: Texts) -> pd.DataFrame:
    """Return units as rows of `unit_scores`, under their keys."""
    rows = [
        (np.full(len(own.score), own.test or key, dtype=object), own.names, own.shown, tasks[own.task], own.score)
        + (own.extremes or (own.score, own.score))
        for key, own in every
        if len(own.score)
    ]
    nothing = [np.array([], dtype=float if column in _SCORES else object) for column in COLUMNS]
    columns = [np.concatenate(parts) for parts in zip(*rows, strict=True)] or nothing
    frame: pd.DataFrame = pd.DataFrame(dict(zip(COLUMNS, columns, strict=True)))
    return frame


def axis_units(
    frame: pd.DataFrame, key: str, *, labels: Sequence[str] | None = None, source: str = "The suite"
) -> AxisUnits:
    """Return the units of one axis of normalised records; `source` names where they are from in a refusal.

    Raises:
        RecipeError: when there is no such axis, it is no share over units, or these records do not measure it.
    """
    known = every_axis_units(frame, labels=labels)
    if key in known:
        return known[key]
    # One name per family: a ladder has a key for every step.
    families = dict.fromkeys(_STEP.sub(r"/\1_k", name) for name in known)
    can = f"Can be planned here: {', '.join(families)}."
    axis = find(key)
    if axis is None and key in {family.name for family in declarations.AXES if family.by_step}:
        steps = [name for name in known if name.startswith(f"{key}/")]
        raise RecipeError(f"Axis {key!r} has a number for each step: name one of {', '.join(steps) or 'them'}. {can}")
    if key.partition("/")[0] in _ACROSS_TESTS:
        why = "is over several tests of a reliability suite, so its size cannot be planned: plan one of them"
        raise RecipeError(f"{key!r} {why}. {can}")
    if axis is None:
        keys = [*known, *(declaration.main_key for declaration in declarations.AXES)]
        raise RecipeError(f"Unknown axis {key!r}.{suggest(key, keys)} {can}")
    if not _is_share(axis):
        raise RecipeError(f"{key!r} is no share of calls or pairs, so its size cannot be planned ({axis.label}). {can}")
    if has_steps(frame) and key in axis.counted(response_table(frame, labels=labels)):
        why = "it is over what the judge answers differently, which is not known before it has answered"
        raise RecipeError(f"The size of {key!r} cannot be planned: {why}. {can}")
    raise RecipeError(f"{source} does not measure {key!r}: it has no {axis.what(key)}.{suggest(key, known)} {can}")


def every_axis_units(
    frame: pd.DataFrame, *, labels: Sequence[str] | None = None, any_mean: bool = False, leans: bool = False
) -> dict[str, AxisUnits]:
    """Return the units of every axis that is a share of units, by the key of its estimate.

    Args:
        frame: Normalised records.
        labels: What a pointwise judge may answer; inferred when None.
        any_mean: Those of other means too, and of shares among units that the judge chooses: the rest has no score.
        leans: Those of effects with a direction too; a value x from -1 to 1 has the score (1 + x) / 2.
    """
    # Which units a judge chooses is not known before it has answered, so their number cannot be planned.
    chosen = [
        axis
        for axis in declarations.AXES
        if _is_share(axis) or (any_mean and (axis.hits or axis.counting)) or (leans and axis.signed)
    ]
    every = _units_of(frame, labels, chosen)
    # A share over what the judge answers differently has no units before it has answered.
    return {key: units for key, units in every.items() if np.isfinite(units.score).any()} if has_steps(frame) else every


def _units_of(frame: pd.DataFrame, labels: Sequence[str] | None, chosen: Sequence[Axis]) -> dict[str, AxisUnits]:
    if has_steps(frame):
        return _of_responses(frame, labels, chosen)
    return _of_tests(frame, labels) if is_pointwise(frame) else _of_pairs(frame, chosen)


def _is_share(axis: Axis) -> bool:
    """Whether it is a mean over units that the suite decides: not one over those that the judge chooses."""
    return axis.statistic == "rate" and axis.among is None and bool(axis.hits or axis.counting)


def _of_pairs(frame: pd.DataFrame, chosen: Sequence[Axis]) -> dict[str, AxisUnits]:
    calls, items = call_table(frame), frame["suite_item"].to_numpy(object)
    shown = np.where(frame["condition"].isin(VACUUM), items, items + "#" + frame["order"].to_numpy(object))
    names = (frame["suite_item"] + "#" + frame["order"] + "#" + frame["replicate"].astype(str)).to_numpy(object)
    by_key = {}
    for axis in chosen:
        event = axis.hits or axis.signed
        cells = axis.where(calls.condition, calls.delta) if event else {}
        for key, own in cells.items():
            if not own.any() or event is None:
                continue
            table = pair_table(calls.where(own)) if axis.unit == "pair" else calls.where(own)
            units, hits = table.units(key), np.asarray(event(*table.seen), dtype=float)
            extremes = None if units.usable.all() else axis.extremes(table)
            if axis.signed:
                hits, extremes = (1 + hits) / 2, extremes and ((1 + extremes[0]) / 2, (1 + extremes[1]) / 2)
            # A share among units that the judge chooses (ties left out): the others have no score here.
            used = units.usable if axis.among is None else units.usable & axis.among(*table.seen)
            # A pair goes by the name of its first call.
            row = table.calls.row[table.rows[:, 0]] if isinstance(table, PairTable) else table.row
            assert units.presentations is not None
            by_key[key] = AxisUnits(
                task=units.clusters,
                presentation=units.presentations,
                score=np.where(used, hits, np.nan),
                items=frozenset(items[own]),
                n_tasks=calls.n_tasks,
                names=names[row],
                shown=shown[row],
                extremes=extremes,
            )
    return by_key


def _of_responses(frame: pd.DataFrame, labels: Sequence[str] | None, chosen: Sequence[Axis]) -> dict[str, AxisUnits]:
    table = response_table(frame, labels=labels)
    by_key = {}
    for axis in chosen:
        for key, units in axis.counted(table).items():
            apart = np.arange(len(units.score))
            by_key[key] = AxisUnits(
                task=units.task,
                presentation=apart if units.presentation is None else units.presentation,
                score=units.score,
                items=frozenset(table.name[units.calls]),
                n_tasks=table.n_tasks,
                names=np.array(units.names, dtype=object),
                # Replicates of a call are named by their item; what is compared or repeated has none.
                shown=np.array([name.partition("#")[0] for name in units.names], dtype=object),
                extremes=(units.least, units.most),
            )
    return by_key


def _of_tests(frame: pd.DataFrame, labels: Sequence[str] | None) -> dict[str, AxisUnits]:
    table = point_table(frame, labels=labels)
    items, sources = (np.unique(frame[column].to_numpy(object)) for column in ("suite_item", "task"))
    tests = sorted(set(table.test) - {BASELINE})
    by_key = {}
    for test in scored_tests(table, (BASELINE, *tests)):
        if test.counted is None or not len(test.counted.hits):
            continue
        units = test.counted.units
        shown = sources[units.clusters] if test.counted.items is None else items[test.counted.items]
        if test.counted.rubrics is not None and (test.counted.rubrics != "").any():
            shown = _joined(shown, "@", test.counted.rubrics)
        replicates = test.counted.replicates
        by_key[test.axis] = AxisUnits(
            task=units.clusters,
            presentation=np.arange(len(units.usable)) if units.presentations is None else units.presentations,
            score=np.where(units.usable, test.counted.hits.astype(float), np.nan),
            # One score may stand for several conditions of a test.
            items=frozenset(frame.loc[frame["condition"].map(score_name) == test.name, "suite_item"]),
            n_tasks=table.n_sources,
            # Units are named by item and replicate, by item, or by source and rubric.
            names=shown if replicates is None else _joined(shown, "#", replicates),
            shown=shown,
            test=test.name,
            extremes=test.counted.can_be.extremes,
        )
    return by_key


def _joined(names: Texts, mark: str, others: Iterable[object]) -> Texts:
    return np.array([f"{name}{mark}{other}" for name, other in zip(names, others, strict=True)], dtype=object)
