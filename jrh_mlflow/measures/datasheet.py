"""The datasheet of calls on pairs: every declared axis measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from jrh_mlflow.measures.axes import Axis, Basis, delta_key, stimuli_axes
from jrh_mlflow.measures.records import CallTable, PairTable, pair_table
from jrh_mlflow.schema.estimates import Reading
from jrh_mlflow.scoring.ledger import Resampling


def datasheet_axes(calls: CallTable, resampling: Resampling) -> dict[str, Reading]:
    """Measure every axis that is declared for pairs.

    Stimuli that every datasheet has are said to be missing where they are; optional ones are not, and a table of
    nothing but optional ones (natural pairs) is no datasheet that lacks the others.
    """
    groups = stimuli_axes()
    asked = {stimuli: stimuli.among(calls.condition) for stimuli in groups}
    whole = any(own.any() for stimuli, own in asked.items() if not stimuli.optional)
    estimates: dict[str, Reading] = {}
    for stimuli, axes in groups.items():
        if not asked[stimuli].any() and (stimuli.optional or not whole):
            continue
        own = calls.where(asked[stimuli])
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
    found = {key.removesuffix(step): reading for key, reading in estimates.items()}
    for axis in axes:
        if axis.derived:
            key = f"{axis.name}{step}"
            basis = Basis(
                stimuli=axis.stimuli,
                calls=calls,
                what=axis.what(key),
                every=every,
                found=found,
                resampling=resampling,
            )
            estimates[key] = found[axis.name] = replace(axis.derived(basis), statistic=axis.statistic)
