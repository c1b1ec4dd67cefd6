"""Judges of known rates told apart by step-down max-T: how often falsely, how often rightly, and Holm's beside.

A design is some judges on tasks of twelve calls, on several axes. Judges are equal, or have equal means but differ
unlike between tasks (an intraclass correlation of 0 against .6), or one of them is better by .5 on one axis.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, product

import numpy as np

from jrh_mlflow.evaluation.decision_checks import DecisionCheck, SimulationSize, share_check
from jrh_mlflow.evaluation.validate import Map
from jrh_mlflow.stats import Array
from jrh_mlflow.stats.coverage import Shape, Truth
from jrh_mlflow.stats.max_t import max_t
from jrh_mlflow.stats.paired import holm

ALPHA = 0.05
_N_CALLS = 12
_CHUNK = 100
"""Runs that one process draws one after the other."""
_PATTERNS = 999
"""Drawn where there are too many for all: the error holds with any number of them."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Contest:
    """What is drawn."""

    n_judges: int
    n_tasks: int = 10
    n_axes: int = 8
    rate: float = 0.3
    """Of all judges on all axes."""
    iccs: tuple[float, float] = (0.3, 0.3)
    """Of every other judge."""
    shape: Shape = "beta"
    """How tasks differ, see `stats.coverage`."""
    better: float = 0.0
    """What the first judge's rate is over the others' on the first axis."""

    def __str__(self) -> str:
        """Name judges, tasks and rates."""
        iccs = " and ".join(f"{icc:g}" for icc in dict.fromkeys(self.iccs))
        kind = f"rate {self.rate:g}{f', one +{self.better:g}' if self.better else ''}, ICC {iccs}, {self.shape}"
        return f"{self.n_judges} judges, {self.n_tasks} tasks × {self.n_axes} axes, {kind}"


def check_max_t(size: SimulationSize, apply: Map) -> Sequence[DecisionCheck]:
    """Draw every contest; false rejections must stay under 5 %, and right ones be no fewer than Holm's."""
    n = size.n // 2
    contests = QUICK if size.quick else CONTESTS
    sizes = [min(_CHUNK, n - start) for start in range(0, n, _CHUNK)]
    jobs = [(contest, [size.seed, at], length) for contest in contests for at, length in enumerate(sizes)]
    found = list(apply(_told_apart, jobs))
    return [
        _checked(contest, np.concatenate(found[start : start + len(sizes)]))
        for contest, start in zip(contests, range(0, len(found), len(sizes)), strict=True)
    ]


QUICK = (
    Contest(n_judges=4),
    Contest(n_judges=4, better=0.5),
)
CONTESTS = (
    *(Contest(n_judges=judges, n_tasks=tasks) for judges, tasks in product((2, 3, 4, 6), (10, 28))),
    *(Contest(n_judges=judges, better=0.5) for judges in (2, 3, 4, 6)),
)


def _told_apart(job: tuple[Contest, Sequence[int], int]) -> Array:
    """Per run: falsely by max-T and by Holm's, and the right one by each."""
    contest, seed, length = job
    rng = np.random.default_rng([*seed, zlib.crc32(str(contest).encode())])
    return np.array([_one_run(contest, rng) for _ in range(length)])


def _one_run(contest: Contest, rng: np.random.Generator) -> list[bool]:
    counts = draw_counts(contest, rng)
    pairs = list(combinations(range(contest.n_judges), 2))
    sums = np.hstack([counts[a] - counts[b] for a, b in pairs])
    found = max_t(sums, n_resamples=_PATTERNS, seed=int(rng.integers(2**32)))
    differs = np.array([a == 0 and axis == 0 for a, _ in pairs for axis in range(contest.n_axes)]) & (
        contest.better > 0
    )
    by_max_t, by_holm = found.p_adjusted <= ALPHA, np.array(holm(found.p.tolist())) <= ALPHA
    return [bool(part.any()) for part in (by_max_t[~differs], by_holm[~differs], by_max_t[differs], by_holm[differs])]


def draw_counts(contest: Contest, rng: np.random.Generator) -> Array:
    """Draw the hits of judges × tasks × axes, of twelve calls each."""
    counts = np.empty((contest.n_judges, contest.n_tasks, contest.n_axes))
    for judge in range(contest.n_judges):
        truth = Truth(rate=contest.rate, icc=contest.iccs[judge % 2], shape=contest.shape)
        counts[judge] = _draw(truth, counts[judge].shape, rng)
    if contest.better:
        truth = Truth(rate=contest.rate + contest.better, icc=contest.iccs[0], shape=contest.shape)
        counts[0, :, 0] = _draw(truth, (contest.n_tasks,), rng)
    return counts


def _draw(truth: Truth, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    chances = np.exp(truth.log_chances(_N_CALLS))
    return rng.choice(_N_CALLS + 1, size=shape, p=chances / chances.sum()).astype(np.float64)


def _checked(contest: Contest, runs: Array) -> DecisionCheck:
    false, false_holm, right, right_holm = runs.sum(axis=0)
    if contest.better:
        beside = {"Holm": right_holm / len(runs), "falsely": false / len(runs)}
        return share_check("told apart rightly", str(contest), int(right), len(runs), beside=beside)
    beside = {"Holm": false_holm / len(runs)}
    return share_check("told apart falsely", str(contest), int(false), len(runs), at_most=ALPHA, beside=beside)
