"""Judges of known rates told apart by step-down max-T: how often falsely, how often rightly, and Holm's beside.

A design is some judges on tasks of twelve calls, on several axes. Judges are equal, or have equal means but differ
unlike between tasks (an intraclass correlation of 0 against .6), or one of them is better by .5 on one axis. Sign flips
alone, without the limits of `share_limit`, are shown beside. Where the error is not promised, it is shown.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations, product

import numpy as np

from jrh_mlflow.simulations.coverage import ICCS, JUDGED, Shape, Truth
from jrh_mlflow.simulations.decision_checks import DecisionCheck, SimulationSize, number_check, share_check
from jrh_mlflow.simulations.validate import Map
from jrh_mlflow.stats import Array, Mask
from jrh_mlflow.stats.max_t import max_t, share_limit
from jrh_mlflow.stats.paired import holm

ALPHA = 0.05
_CHUNK = 100
"""Runs that one process draws one after the other."""
_PATTERNS = 599
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
    """What the first judge's rate is over the others' on the first axis; 0: all are equal on average."""
    n_calls: int = 12
    alike: float = 0.0
    """Share of calls that all judges answer by the same chance; then tasks do not differ."""

    def __str__(self) -> str:
        """Name judges, tasks and rates."""
        iccs = " and ".join(f"{icc:g}" for icc in dict.fromkeys(self.iccs))
        kind = f"rate {self.rate:g}{f', one +{self.better:g}' if self.better else ''}, ICC {iccs}, {self.shape}"
        if self.alike:
            kind = f"× {self.n_calls} calls, rate {self.rate:g}, one +{self.better:g}, {self.alike:g} alike"
        return f"{self.n_judges} judges, {self.n_tasks} tasks × {self.n_axes} axes, {kind}"

    @property
    def judged(self) -> bool:
        """Whether an error of 5 % is promised: not for an ICC near 1 nor where some tasks always fail."""
        return self.shape in JUDGED and max(self.iccs) <= max(ICCS)


def check_max_t(size: SimulationSize, apply: Map) -> Sequence[DecisionCheck]:
    """Draw every contest: false decisions stay under 5 %, and right ones are no fewer than Holm's on the same data."""
    n = size.n // 5
    contests = QUICK if size.quick else CONTESTS
    sizes = [min(_CHUNK, n - start) for start in range(0, n, _CHUNK)]
    jobs = [(contest, [size.seed, at], length) for contest in contests for at, length in enumerate(sizes)]
    found = list(apply(_told_apart, jobs))
    return [
        _checked(contest, np.concatenate(found[start : start + len(sizes)]))
        for contest, start in zip(contests, range(0, len(found), len(sizes)), strict=True)
    ]


_UNLIKE = Contest(n_judges=2, iccs=(0.0, 0.6))
QUICK = (
    Contest(n_judges=4),
    replace(_UNLIKE, n_judges=4, rate=0.1),
    Contest(n_judges=4, rate=0.2, iccs=(0.2, 0.2), better=0.5),
)
_SHAPES: tuple[Shape, ...] = ("beta", "all or none")
CONTESTS = (
    *(Contest(n_judges=judges, n_tasks=tasks) for judges, tasks in product((2, 3, 4, 6), (10, 28))),
    *(
        replace(_UNLIKE, n_judges=judges, n_tasks=tasks, rate=rate, shape=shape)
        for judges, tasks, shape, rate in product((2, 3, 4, 6), (10, 28), _SHAPES, (0.1, 0.3, 0.5))
    ),
    *(
        replace(_UNLIKE, n_tasks=tasks, n_axes=1, rate=rate, shape=shape)
        for tasks, shape, rate in product((10, 28), _SHAPES, (0.1, 0.3, 0.5))
    ),
    *(
        replace(_UNLIKE, n_judges=judges, n_tasks=tasks, n_axes=axes, rate=rate, shape="0 or q")
        for (judges, axes), tasks, rate in product(((2, 1), (2, 8), (4, 8)), (10, 28), (0.1, 0.3))
    ),
    *(replace(_UNLIKE, n_tasks=28, n_axes=axes, rate=0.1, shape="q or 1") for axes in (1, 8)),
    *(replace(_UNLIKE, n_tasks=tasks, rate=0.1, iccs=(0.0, 0.8)) for tasks in (10, 28)),
    *(Contest(n_judges=2, n_tasks=40, n_axes=1, n_calls=3, rate=0.7, alike=alike, better=0.1) for alike in (0.7, 0.95)),
    *(
        Contest(n_judges=judges, rate=rate, iccs=(icc, icc), better=0.5)
        for (rate, icc), judges in product(((0.2, 0.2), (0.1, 0.3)), (2, 3, 4, 6))
    ),
)


def _told_apart(job: tuple[Contest, Sequence[int], int]) -> Array:
    """One row per run, see `_one_run`."""
    contest, seed, length = job
    rng = np.random.default_rng([*seed, zlib.crc32(str(contest).encode())])
    return np.array([_one_run(contest, rng) for _ in range(length)])


def _one_run(contest: Contest, rng: np.random.Generator) -> list[bool]:
    """Whether anything is told apart falsely, by max-T, by sign flips alone, by Holm's; then the first two judges."""
    counts = draw_counts(contest, rng)
    pairs = list(combinations(range(contest.n_judges), 2))
    sums = np.hstack([counts[a] - counts[b] for a, b in pairs])
    seed = int(rng.integers(2**32))
    alone = max_t(sums, n_resamples=_PATTERNS, seed=seed)
    needed, found = alone.p_adjusted <= ALPHA, alone
    if needed.any():
        found = max_t(
            sums, limits=_limits(counts, pairs, needed, n_calls=contest.n_calls), n_resamples=_PATTERNS, seed=seed
        )
    told = [np.asarray(p) <= ALPHA for p in (found.p_adjusted, alone.p_adjusted, holm(alone.p.tolist()))]
    differs = np.array([bool(contest.better) and a == axis == 0 for a, _ in pairs for axis in range(contest.n_axes)])
    return [bool(each[~differs].any()) for each in told] + [bool(each[0]) for each in told]


def _limits(counts: Array, pairs: Sequence[tuple[int, int]], needed: Mask, *, n_calls: float) -> Array:
    """Limits where they can matter: what sign flips alone do not tell apart, limits do not either."""
    limits = np.full(len(needed), np.inf)
    _, n_tasks, n_axes = counts.shape
    for at in np.flatnonzero(needed):
        (a, b), axis = pairs[at // n_axes], at % n_axes
        limits[at] = share_limit(counts[a, :, axis], counts[b, :, axis], np.full(n_tasks, n_calls))
    return limits


def draw_counts(contest: Contest, rng: np.random.Generator) -> Array:
    """Draw the hits of judges × tasks × axes."""
    counts = np.empty((contest.n_judges, contest.n_tasks, contest.n_axes))
    if contest.alike:
        return _draw_alike(contest, rng)
    for judge in range(contest.n_judges):
        truth = Truth(rate=contest.rate, icc=contest.iccs[judge % 2], shape=contest.shape)
        counts[judge] = _draw(truth, counts[judge].shape, contest.n_calls, rng)
    if contest.better:
        truth = Truth(rate=contest.rate + contest.better, icc=contest.iccs[0], shape=contest.shape)
        counts[0, :, 0] = _draw(truth, (contest.n_tasks,), contest.n_calls, rng)
    return counts


def _draw(truth: Truth, shape: tuple[int, ...], n_calls: int, rng: np.random.Generator) -> Array:
    chances = np.exp(truth.log_chances(n_calls))
    return rng.choice(n_calls + 1, size=shape, p=chances / chances.sum()).astype(np.float64)


def _draw_alike(contest: Contest, rng: np.random.Generator) -> Array:
    shape = (contest.n_judges, contest.n_tasks, contest.n_axes, contest.n_calls)
    rates = np.full(shape[:3], contest.rate)
    rates[0, :, 0] += contest.better
    chances = np.where(rng.random(shape) < contest.alike, rng.random(shape[1:]), rng.random(shape))
    return np.asarray((chances < rates[..., None]).sum(axis=-1), float)


def _checked(contest: Contest, runs: Array) -> DecisionCheck:
    false, right = np.split(runs.mean(axis=0), 2)
    n, told = len(runs), right if contest.better else false
    beside = {"sign flips alone": float(told[1]), "Holm": float(told[2])}
    if not contest.better:
        limit = ALPHA if contest.judged else None
        return share_check("told apart falsely", str(contest), int(runs[:, 0].sum()), n, at_most=limit, beside=beside)
    power, error = float(told[0]), float(runs[:, 3].std() / np.sqrt(n))
    beside |= {"falsely": float(false[0])}
    return number_check(
        "told apart rightly",
        str(contest),
        power,
        error,
        n,
        at_least=None if contest.alike else beside["Holm"],
        beside=beside,
    )
