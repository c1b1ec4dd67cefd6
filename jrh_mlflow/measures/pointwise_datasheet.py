"""The datasheet of a judge of one response: every axis that is declared for single responses of known level.

Unlike a reliability report it needs no label: the level of every content is known by construction.

Its profile says first what the answers are, then the words that the 95 % intervals by task support; where an interval
holds the limit, it says that this is not decided.

| word | rule |
|---|---|
| vacuum-clean / vacuum-leaky / vacuum-active | dark current, as in `measures.profile` |
| separates the levels / does not | separation at the largest distance is at least 0.75 / below it |
| the same of the matched levels | the same on the matched ladder |
| leans on words | it separates the levels, and the reading gap at the distance in the middle is at least 0.25 |
| monotone / not monotone | monotonicity is at least 0.90 / below it |
| repeats agree / repeats differ | repeat agreement is at least 0.90 / below it |
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

import numpy as np

from jrh_mlflow.measures import axes
from jrh_mlflow.measures.axes import AGREES, LEANS, SEPARATES, Axis, by_step, gap_reading
from jrh_mlflow.measures.levels import GradeScale, LevelTable, UnitScores
from jrh_mlflow.measures.profile import line_of, side_words, vacuum_words
from jrh_mlflow.schema.estimates import Reading
from jrh_mlflow.stats import Array


def level_axes(table: LevelTable) -> dict[str, Reading]:
    """Measure every axis that is declared for single responses; of conditions that were not asked there is none."""
    estimates: dict[str, Reading] = {}
    units: dict[str, UnitScores] = {}
    for axis in axes.AXES:
        if axis.counting and axis.stimuli.among(table.condition).any():
            found = axis.counted(table)
            units |= found
            estimates |= {key: axis.mean(table, key, scores) for key, scores in found.items()}
        if axis.gap:
            estimates |= _gaps(axis, estimates, units, table.n_tasks)
    return estimates


def _gaps(axis: Axis, estimates: dict[str, Reading], units: dict[str, UnitScores], n_tasks: int) -> dict[str, Reading]:
    """Return the difference of two families at every step that both have."""
    assert axis.gap is not None
    ladder, matched = axis.gap
    found: dict[str, Reading] = {}
    for step, reading in by_step(estimates, matched).items():
        key, other = (f"{family}/{axis.step}_{step:g}" for family in (matched, ladder))
        if other in estimates:
            counts = [*_by_task(units[key], n_tasks), *_by_task(units[other], n_tasks)]
            gap = gap_reading(estimates[other], reading, counts)
            found[f"{axis.name}/{axis.step}_{step:g}"] = replace(gap, statistic=axis.statistic)
    return found


def _by_task(units: UnitScores, n_tasks: int) -> tuple[Array, Array]:
    """Return the sum of the scores and the number of units of each task."""
    known = np.isfinite(units.score)
    sums = np.bincount(units.task[known], weights=units.score[known], minlength=n_tasks)
    return sums.astype(float), np.bincount(units.task[known], minlength=n_tasks).astype(float)


def level_profile(estimates: Mapping[str, Reading], scale: GradeScale) -> str:
    """Describe a judge of one response in one line; axes that were not measured leave no word."""
    separated, matched = (_at(estimates, f"pointwise/{name}", 1.0) for name in ("separation", "matched_separation"))
    gap = _at(estimates, "pointwise/reading_gap", 0.5)
    said = partial(side_words, limit=SEPARATES)
    found = [
        vacuum_words(estimates.get("pointwise/dark_current")),
        said("separation", separated, above="separates the levels", below="does not separate the levels"),
        said("matched separation", matched, above="separates matched levels", below="does not separate matched levels"),
    ]
    if found[1].decided == "separates the levels":
        # Where no level is told from another there is nothing that words could have told.
        found.append(side_words("reading gap", gap, LEANS, above="leans on words", below=None))
    for name, word, other in (
        ("monotonicity", "monotone", "not monotone"),
        ("repeat_agreement", "repeats agree", "repeats differ"),
    ):
        what, reading = name.replace("_", " "), estimates.get(f"pointwise/{name}")
        found.append(side_words(what, reading, AGREES, above=word, below=other))
    return f"{scale}; {line_of(found) or 'not enough measured for a profile'}"


def _at(estimates: Mapping[str, Reading], name: str, place: float) -> Reading | None:
    """Return the reading of a family at a place between its smallest step (0) and its largest (1)."""
    readings = list(by_step(estimates, name).values())
    return readings[round(place * (len(readings) - 1))] if readings else None
