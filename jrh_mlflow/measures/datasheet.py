"""The datasheet of calls on pairs: every declared axis measured, and the one-line profile.

The profile is a sketch derived from the numbers by these rules:

| word | rule |
|---|---|
| vacuum-clean / vacuum-leaky / vacuum-active | dark current <= 0.05 / < 0.5 / >= 0.5 |
| equivalence-respecting | raw false preference on delta 0 <= 0.10 |
| presentation-conflicted | otherwise, at least 2/3 of it is positional |
| stable-preferring | otherwise, at least 2/3 of it is stable across orders |
| one-sided | otherwise, at least 1/2 of it comes from pairs that commit in one order only |
| mixed stable-positional | otherwise |
| resolves one step / 75 % at delta x / never reaches 75 % | threshold left-censored / x / right-censored |
| misses by tie | at the smallest step at least 1/4 of the calls are ties |
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from jrh_mlflow.measures.axes import Axis, Basis, by_step, declared, delta_key, stimuli_axes
from jrh_mlflow.measures.records import CallTable, PairTable, pair_table
from jrh_mlflow.schema.estimates import Estimate, Reading
from jrh_mlflow.scoring.ledger import Resampling

RULES = __doc__


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
            basis = Basis(calls=calls, what=axis.what(key), every=every, found=found, resampling=resampling)
            estimates[key] = found[axis.name] = replace(axis.derived(basis), statistic=axis.statistic)


def profile_line(estimates: Mapping[str, Reading]) -> str:
    """Describe a judge in one line; axes that were not measured leave no word."""
    parts = [_vacuum(estimates), _delta_0(estimates), _threshold(estimates), _misses(estimates), _natural(estimates)]
    return ", ".join(part for part in parts if part) or "not enough measured for a profile"


def _value(estimates: Mapping[str, Reading], axis: str) -> float | None:
    reading = estimates.get(declared(axis).name)
    return reading.value if isinstance(reading, Estimate) else None


def _vacuum(estimates: Mapping[str, Reading]) -> str | None:
    dark_current = _value(estimates, "dark_current")
    if dark_current is None:
        return None
    if dark_current <= 0.05:
        return "vacuum-clean"
    return "vacuum-leaky" if dark_current < 0.5 else "vacuum-active"


def _delta_0(estimates: Mapping[str, Reading]) -> str | None:
    raw = _value(estimates, "raw_false_preference")
    stable = _value(estimates, "stable_cross_sensitivity")
    positional = _value(estimates, "positional_false_preference")
    one_sided = _value(estimates, "one_sided_commit")
    if raw is None or stable is None or positional is None or one_sided is None:
        return None
    if raw <= 0.10:
        return "equivalence-respecting"
    if positional / raw >= 2 / 3:
        return "presentation-conflicted"
    if stable / raw >= 2 / 3:
        return "stable-preferring"
    return "one-sided" if one_sided / 2 / raw >= 1 / 2 else "mixed stable-positional"


def _threshold(estimates: Mapping[str, Reading]) -> str | None:
    reading = estimates.get("threshold_75")
    if not isinstance(reading, Estimate):
        return None
    if reading.censored == "right":
        return "never reaches 75 %"
    step = "one step" if reading.value == 1 else f"a step of {reading.value:g}"
    return f"resolves {step}" if reading.censored == "left" else f"75 % at delta {reading.value:.2g}"


def _misses(estimates: Mapping[str, Reading]) -> str | None:
    smallest = next(iter(by_step(estimates, "miss_by_tie").values()), None)
    return "misses by tie" if isinstance(smallest, Estimate) and smallest.value >= 0.25 else None


def _natural(estimates: Mapping[str, Reading]) -> str | None:
    accuracy, stable = _value(estimates, "natural/accuracy"), _value(estimates, "natural/stable_correct")
    if accuracy is None or stable is None:
        return None
    return f"natural pairs {accuracy:.0%} right, {stable:.0%} in both orders"
