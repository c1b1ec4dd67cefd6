"""Judges of a known bias: how often a datasheet finds one of the size that it says it would find, and one of none.

The size is that of a datasheet on which nothing was found. A bias that is a share (dark current, a slot that wins
twice) is drawn at that share; a difference of two shares (the reading gap) at the mean size of unbiased judges.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from scipy import stats

from jrh_mlflow.simulations.coverage import Shape, Truth
from jrh_mlflow.simulations.decision_checks import DecisionCheck, SimulationSize, share_check
from jrh_mlflow.simulations.validate import Map
from jrh_mlflow.stats import Array
from jrh_mlflow.stats.power import POWER, detectable_from_interval, detectable_share
from jrh_mlflow.stats.proportions import cluster_interval, newcombe, share_correlation

ALPHA = 0.05
_LADDER_RATE = 0.7
"""Share of right choices around which gaps are drawn."""


@dataclass(frozen=True, kw_only=True, slots=True)
class BiasedTasks:
    """What is drawn."""

    n_tasks: int
    n_calls: int
    """Of a task; of a gap on each of its two ladders."""
    icc: float
    shape: Shape = "beta"

    def __str__(self) -> str:
        """Name tasks, calls and how calls of a task hang together."""
        return f"{self.n_tasks} tasks × {self.n_calls}, ICC {self.icc:g}, {self.shape}"


_CLUSTERED: tuple[tuple[float, Shape], ...] = (
    (0.0, "beta"),
    (0.3, "beta"),
    (0.6, "beta"),
    (0.6, "all or none"),
    (0.95, "all or none"),
)
_SHARES = tuple(
    BiasedTasks(n_tasks=tasks, n_calls=calls, icc=icc, shape=shape)
    for (tasks, calls), (icc, shape) in product(((10, 6), (28, 2), (28, 4)), _CLUSTERED)
)
_GAPS = tuple(BiasedTasks(n_tasks=28, n_calls=4, icc=icc) for icc in (0.0, 0.1, 0.3, 0.6))


def check_findings(size: SimulationSize, apply: Map) -> Sequence[DecisionCheck]:
    """Draw judges with a bias of the size that would be found, and gaps of judges without one."""
    shares, gaps = (_SHARES[:1], _GAPS[2:3]) if size.quick else (_SHARES, _GAPS)
    found = apply(_found_shares, [(design, size) for design in shares])
    checks = [_share_check(design, runs) for design, runs in zip(shares, found, strict=True)]
    without = list(apply(_drawn_gaps, [(design, 0.0, size) for design in gaps]))
    # The size that datasheets of unbiased judges tell, on average.
    sizes = [float(runs[:, 1].mean()) for runs in without]
    biased = apply(_drawn_gaps, [(design, gap, size) for design, gap in zip(gaps, sizes, strict=True)])
    for design, gap, false, right in zip(gaps, sizes, without, biased, strict=True):
        checks += _gap_checks(design, gap, int(false[:, 0].sum()), int(right[:, 0].sum()), n=len(false))
    return checks


def _share_check(design: BiasedTasks, found: Array) -> DecisionCheck:
    beside = {"size": detectable_share(design.n_tasks)}
    return share_check("bias found", str(design), int(found.sum()), len(found), at_least=POWER, beside=beside)


def _gap_checks(design: BiasedTasks, gap: float, falsely: int, rightly: int, *, n: int) -> list[DecisionCheck]:
    return [
        share_check("gap found where there is none", str(design), falsely, n, at_most=ALPHA),
        share_check("gap found", str(design), rightly, n, at_least=POWER, beside={"size": gap}),
    ]


def _found_shares(job: tuple[BiasedTasks, SimulationSize]) -> Array:
    """Per run: whether the interval by task excludes 0."""
    design, size = job
    truth = Truth(rate=detectable_share(design.n_tasks), icc=design.icc, shape=design.shape)
    chances = np.exp(truth.log_chances(design.n_calls))
    rng = np.random.default_rng([size.seed, zlib.crc32(str(design).encode())])
    drawn = rng.choice(design.n_calls + 1, size=(max(200, size.n // 5), design.n_tasks), p=chances / chances.sum())
    # Tasks are alike: runs with the same counts in another order have the same interval.
    cases, place = np.unique(np.sort(drawn, axis=1), axis=0, return_inverse=True)
    return np.array([_interval(case, design)[0] > 0 for case in cases])[place.ravel()]


def _drawn_gaps(job: tuple[BiasedTasks, float, SimulationSize]) -> Array:
    """Per run: whether the interval of the gap excludes 0, and the size that it says would be found."""
    design, gap, size = job
    rng = np.random.default_rng([size.seed, zlib.crc32(f"{design}, gap {gap:g}".encode())])
    n = max(60, size.n // 10)
    # One draw of each task for both ladders: a task that is hard on one is hard on the other.
    task = rng.random((n, design.n_tasks))
    ladder, matched = (
        rng.binomial(design.n_calls, _task_rates(task, rate, design.icc)).astype(float)
        for rate in (_LADDER_RATE + gap / 2, _LADDER_RATE - gap / 2)
    )
    return np.array([_gap(a, b, design) for a, b in zip(ladder, matched, strict=True)])


def _task_rates(task: Array, rate: float, icc: float) -> Array:
    if icc == 0:
        return np.full(task.shape, rate)
    scale = (1 - icc) / icc
    return np.asarray(stats.beta.ppf(task, rate * scale, (1 - rate) * scale))


def _gap(ladder: Array, matched: Array, design: BiasedTasks) -> tuple[bool, float]:
    sizes = np.full(design.n_tasks, float(design.n_calls))
    total = sizes.sum()
    together = share_correlation(matched, sizes, ladder, sizes)
    first, second = matched.sum() / total, ladder.sum() / total
    low, high = newcombe(first, _interval(matched, design), second, _interval(ladder, design), correlation=together)
    return not low <= 0 <= high, detectable_from_interval(second - first, low, high)


def _interval(hits: Array, design: BiasedTasks) -> tuple[float, float]:
    found = cluster_interval(np.asarray(hits, float), np.full(design.n_tasks, float(design.n_calls)))
    assert found is not None
    return found
