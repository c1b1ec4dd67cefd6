"""What a reader of a comparison must know before the numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd

from jrh_mlflow.measures.comparison.differences import OVERALL, Difference, ScoreTable
from jrh_mlflow.measures.ledger import FEW_CLUSTERS
from jrh_mlflow.schema.estimates import NotEstimable, Reading


def comparison_notes(
    given: Mapping[str, pd.DataFrame],
    calls: Mapping[str, pd.DataFrame],
    cells: Mapping[str, Mapping[str, Reading]],
    differences: Sequence[Difference],
    *,
    table: ScoreTable,
    tests: Sequence[str],
    common: Sequence[str],
    alpha: float,
) -> tuple[str, ...]:
    """Say what was left out of the comparison, and what its size cannot show."""
    notes = [*_left_out(given, calls), *_without(cells)]
    missing = [test for test in tests if test not in common]
    if missing and common:
        notes.append(f"The mean over tests leaves out {', '.join(missing)}: not every judge has a number there.")
    grid = [one for one in differences if one.axis != OVERALL]
    return (*notes, *_power(grid, table, alpha=alpha))


def _left_out(given: Mapping[str, pd.DataFrame], calls: Mapping[str, pd.DataFrame]) -> list[str]:
    """Runs differ in length when one was truncated, or asked with other replicates."""
    kept = len(next(iter(calls.values())))
    longer = [f"{name} {len(frame)}" for name, frame in given.items() if len(frame) > kept]
    if not longer:
        return []
    return [f"Compared on the {kept} calls that every run has; calls of its own: {', '.join(longer)}."]


def _without(cells: Mapping[str, Mapping[str, Reading]]) -> list[str]:
    return [
        f"{axis} has no number for {name}: {reading.reason}."
        for axis, row in cells.items()
        for name, reading in row.items()
        if isinstance(reading, NotEstimable)
    ]


def _power(grid: Sequence[Difference], table: ScoreTable, *, alpha: float) -> list[str]:
    """A sign-flip test on k clusters gives no p under 2^(1 - k): with few of them nothing can be told apart."""
    if not grid:
        return ["No axis has a number for two judges: nothing can be compared."]
    most = max(table.n_clusters(axis) for axis in {one.axis for one in grid})
    if 2.0 ** (1 - most) * len(grid) > alpha:
        return [
            f"{most} independent sources are too few for {len(grid)} comparisons: the smallest p-value they can give "
            f"is {2.0 ** (1 - most):.2g}, and Holm asks for {alpha / len(grid):.2g} at first. Judges that share a "
            "letter may still differ: look at the intervals, or compare on a suite with more sources."
        ]
    if most < FEW_CLUSTERS:
        return [f"Few independent sources ({most}): intervals are wide, and sharing a letter is weak evidence."]
    return []
