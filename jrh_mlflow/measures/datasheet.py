"""The datasheet: every declared axis measured, of calls on pairs or on single responses of known level.

Unlike a reliability report it needs no label: the better content, or the level of a content, is known by construction.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from jrh_mlflow.measures import axes as declarations
from jrh_mlflow.measures.axes import Axis, Basis, by_step, delta_key, gap_reading, stimuli_axes
from jrh_mlflow.measures.records import CallTable, PairTable, pair_table
from jrh_mlflow.measures.single_responses import ResponseTable, UnitScores
from jrh_mlflow.schema.estimates import Reading
from jrh_mlflow.scoring.ledger import Resampling
from jrh_mlflow.stats import Array


def datasheet_axes(calls: CallTable, resampling: Resampling) -> dict[str, Reading]:
    """Measure every axis that is declared for pairs.

    Stimuli that every datasheet has are said to be missing where they are; optional ones are not, and a table of
    nothing but optional ones (natural pairs) is no datasheet that lacks the others.
    """
    groups = stimuli_axes()
    calls_of = {stimuli: stimuli.among(calls.condition) for stimuli in groups}
    whole = any(own.any() for stimuli, own in calls_of.items() if not stimuli.optional)
    estimates: dict[str, Reading] = {}
    for stimuli, axes in groups.items():
        if not calls_of[stimuli].any() and (stimuli.optional or not whole):
            continue
        own = calls.where(calls_of[stimuli])
        stepwise = [axis for axis in axes if axis.by_step]
        for delta in np.unique(own.delta) if stepwise else ():
            every = calls.where(calls.delta == delta)
            _add(estimates, stepwise, own.where(own.delta == delta), f"/{delta_key(delta)}", resampling, every)
        _add(estimates, [axis for axis in axes if not axis.by_step], own, "", resampling, calls)
    return estimates


def _add(
    estimates: dict[str, Reading],
    axes: Sequence[Axis],
    calls: CallTable,
    step: str,
    resampling: Resampling,
    every: CallTable,
) -> None:
    """Measure shares first, then what is derived from them; `step` is the end of their keys."""
    tables: dict[str, CallTable | PairTable] = {"call": calls}
    if any(axis.unit == "pair" for axis in axes):
        tables["pair"] = pair_table(calls)
    for axis in axes:
        if axis.hits:
            key = f"{axis.name}{step}"
            estimates[key] = axis.share(tables[axis.unit], key)
    readings = {key.removesuffix(step): reading for key, reading in estimates.items()}
    # Derived axes read the shares of the same step, so all shares are measured before the first of them.
    for axis in axes:
        if axis.derived:
            key = f"{axis.name}{step}"
            basis = Basis(
                stimuli=axis.stimuli,
                calls=calls,
                what=axis.what(key),
                every=every,
                found=readings,
                resampling=resampling,
            )
            estimates[key] = readings[axis.name] = replace(axis.derived(basis), statistic=axis.statistic)


def response_axes(table: ResponseTable) -> dict[str, Reading]:
    """Measure every axis that is declared for single responses; of conditions that were not asked there is none."""
    estimates: dict[str, Reading] = {}
    units: dict[str, UnitScores] = {}
    for axis in declarations.AXES:
        if axis.counting and axis.stimuli.among(table.condition).any():
            counted = axis.counted(table)
            units |= counted
            estimates |= {key: axis.mean(table, key, scores) for key, scores in counted.items()}
        if axis.gap:
            estimates |= _gaps(axis, estimates, units, table.n_tasks)
    return estimates


def _gaps(axis: Axis, estimates: dict[str, Reading], units: dict[str, UnitScores], n_tasks: int) -> dict[str, Reading]:
    """Return the difference of two families at every step that both have."""
    assert axis.gap is not None
    ladder, matched = axis.gap
    gaps: dict[str, Reading] = {}
    for step, reading in by_step(estimates, matched).items():
        key, other = (f"{family}/{axis.step}_{step:g}" for family in (matched, ladder))
        if other in estimates:
            counts = [*_by_task(units[key], n_tasks), *_by_task(units[other], n_tasks)]
            gap = gap_reading(estimates[other], reading, counts)
            gaps[f"{axis.name}/{axis.step}_{step:g}"] = replace(gap, statistic=axis.statistic)
    return gaps


def _by_task(units: UnitScores, n_tasks: int) -> tuple[Array, Array]:
    """Return the sum of the scores and the number of units of each task."""
    known = np.isfinite(units.score)
    sums = np.bincount(units.task[known], weights=units.score[known], minlength=n_tasks)
    return sums.astype(float), np.bincount(units.task[known], minlength=n_tasks).astype(float)
