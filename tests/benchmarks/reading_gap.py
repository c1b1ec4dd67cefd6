"""Coverage of the interval by task of `reading_gap`, simulated: `python -m tests.benchmarks.reading_gap`.

Each task has a rate of its own on each ladder (beta, with the given mean and intraclass correlation), drawn apart or
as one (the same quantile on both ladders), and four calls per ladder.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from jrh_mlflow.measures.axes import gap_reading
from jrh_mlflow.schema.estimates import Estimate
from jrh_mlflow.scoring.ledger import Units, estimate_share

Array = npt.NDArray[np.float64]
CALLS = 4
"""Of a task on one ladder, as at step 1 of the built-in suite."""


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One simulated judge and design."""

    icc: float
    rate: float
    """On the ladder."""
    gap: float
    paired: bool
    """Whether a task that is hard on one ladder is as hard on the other."""
    n_tasks: int = 28


CELLS = [
    Cell(icc=icc, rate=rate, gap=gap, paired=paired, n_tasks=n_tasks)
    for n_tasks in (28, 12)
    for icc in (0.0, 0.1, 0.3, 0.6)
    for rate, gap in ((0.6, 0.0), (0.8, 0.2), (0.98, 0.0), (0.98, 0.48))
    for paired in (False, True)
    if icc > 0 or not paired
]


def coverage(cell: Cell, *, n_runs: int, seed: int = 0) -> tuple[float, float]:
    """Return the share of runs whose interval by task holds the true gap, and the mean width."""
    rng = np.random.default_rng(seed)
    held, widths = 0, []
    for _ in range(n_runs):
        reading = _gap(cell, rng)
        assert reading.cluster_low is not None
        assert reading.cluster_high is not None
        held += reading.cluster_low <= cell.gap <= reading.cluster_high
        widths.append(reading.cluster_high - reading.cluster_low)
    return held / n_runs, float(np.mean(widths))


def _gap(cell: Cell, rng: np.random.Generator) -> Estimate:
    quantiles = rng.uniform(size=(2, cell.n_tasks))
    shown = (quantiles[0], quantiles[0] if cell.paired else quantiles[1])
    hits = [
        rng.uniform(size=(cell.n_tasks, CALLS)) < _rates(mean, cell.icc, own)[:, None]
        for mean, own in zip((cell.rate, cell.rate - cell.gap), shown, strict=True)
    ]
    usable = np.ones(cell.n_tasks * CALLS, dtype=bool)
    units = Units(
        what="calls",
        unit="call",
        usable=usable,
        clusters=np.repeat(np.arange(cell.n_tasks), CALLS),
        n_codes=cell.n_tasks,
        left_out={},
    )
    ladder, matched = (estimate_share(units, own.ravel(), among=usable) for own in hits)
    sizes = units.sizes(usable)
    reading = gap_reading(ladder, matched, [hits[1].sum(axis=1), sizes, hits[0].sum(axis=1), sizes])
    assert isinstance(reading, Estimate)
    return reading


def _rates(mean: float, icc: float, quantiles: Array) -> Array:
    from scipy.special import betaincinv

    if icc == 0:
        return np.full(len(quantiles), mean)
    both = (1 - icc) / icc
    return np.asarray(betaincinv(mean * both, (1 - mean) * both, quantiles))


if __name__ == "__main__":
    heads = ("tasks", "ICC", "ladder", "gap", "tasks alike", "coverage", "mean width")
    print(f"| {' | '.join(heads)} |\n|{' --- |' * len(heads)}")
    for cell in CELLS:
        covered, width = coverage(cell, n_runs=1000)
        alike = "yes" if cell.paired else "no"
        given = [f"{one:g}" for one in (cell.n_tasks, cell.icc, cell.rate, cell.gap)]
        print(f"| {' | '.join([*given, alike, f'{covered:.3f}', f'{width:.2f}'])} |")
