"""Judges of known rates told apart: by step-down max-T, and as `jrh.compare` reads their differences.

A contest is some judges on tasks of twelve calls, on several axes. Judges are equal, or have equal means but differ
unlike between tasks (an intraclass correlation of 0 against .6), or one of them is better by .5 on one axis. Sign flips
alone, without the limits of `share_limit`, and Holm's are shown beside. Where the error is not promised, it is shown.

A duel is two judges on one axis: on the same calls, so that they agree where their rates allow, or each by itself. It
says how often an interval holds the difference, and how often equivalence is claimed falsely.

Versions of an application that pass alike are put before `jrh.correct`, which compares all pairs.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations, product
from typing import Any

import numpy as np
from pandas import DataFrame

from jrh_mlflow.comparing.comparison import (
    MARGIN,
    Paired,
    decided,
    is_equivalent,
    mean_over_tests,
    paired_shares,
    whatever_was_lost,
)
from jrh_mlflow.measures.unit_scores import ScoreTable
from jrh_mlflow.people.correct import correct
from jrh_mlflow.people.corrected import Sampling
from jrh_mlflow.scoring.ledger import Resampling
from jrh_mlflow.stats import Array, Mask
from jrh_mlflow.stats.max_t import max_t, share_limit
from jrh_mlflow.stats.paired import holm
from tests.validation.coverage import ICCS, JUDGED, Shape, Truth
from tests.validation.loop import (
    ALPHA,
    LOW,
    Batch,
    DecisionCheck,
    Map,
    Rng,
    Simulation,
    SimulationSize,
    decision_check,
    listed,
    simulate,
    task_rates,
)

_BY_TASK = 0.06
"""Most false decisions where a judge answers each task alike."""
_PATTERNS = 599
"""Drawn where there are too many for all: the error holds with any number of them."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Contest:
    """Some judges on several axes."""

    n_judges: int
    n_tasks: int = 10
    n_axes: int = 8
    rate: float = 0.3
    """Of all judges on all axes."""
    iccs: tuple[float, float] = (0.3, 0.3)
    """Of every other judge."""
    shape: Shape = "beta"
    """How tasks differ, see `coverage.Truth`."""
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
        return self.shape in JUDGED and (max(self.iccs) <= max(ICCS) or self.by_task)

    @property
    def by_task(self) -> bool:
        """Whether every other judge answers each task alike."""
        return self.iccs[1] == 1


_UNLIKE = Contest(n_judges=2, iccs=(0.0, 0.6))
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
    *(
        replace(_UNLIKE, n_tasks=28, n_axes=5, n_calls=4, rate=rate, iccs=(0.0, 1.0), shape="all or none")
        for rate in (0.1, 0.2)
    ),
    *(Contest(n_judges=2, n_tasks=40, n_axes=1, n_calls=3, rate=0.7, alike=alike, better=0.1) for alike in (0.7, 0.95)),
    *(
        Contest(n_judges=judges, rate=rate, iccs=(icc, icc), better=0.5)
        for (rate, icc), judges in product(((0.2, 0.2), (0.1, 0.3)), (2, 3, 4, 6))
    ),
)
_QUICK_CONTESTS = (
    Contest(n_judges=4),
    replace(_UNLIKE, n_judges=4, rate=0.1),
    Contest(n_judges=4, rate=0.2, iccs=(0.2, 0.2), better=0.5),
)


def _contested(contest: Contest, batch: Batch) -> Iterator[list[bool]]:
    """Per run: whether anything is told apart falsely, by max-T, sign flips alone and Holm's; then the first pair."""
    rng = batch.rng(contest)
    pairs = list(combinations(range(contest.n_judges), 2))
    # What truly differs: the first judge from each other one, on the first axis. All else is a false rejection.
    differs = np.array([bool(contest.better) and a == axis == 0 for a, _ in pairs for axis in range(contest.n_axes)])
    for _ in batch.runs:
        counts = draw_counts(contest, rng)
        sums = np.hstack([counts[a] - counts[b] for a, b in pairs])
        # The same patterns for both, so that they differ by the limits alone.
        seed = int(rng.integers(2**32))
        alone = max_t(sums, n_resamples=_PATTERNS, seed=seed)
        needed, limited = alone.p_adjusted <= ALPHA, alone
        # Limits only where they can matter: what sign flips alone do not tell apart, limits do not either.
        if needed.any():
            limits = _limits(counts, pairs, needed, n_calls=contest.n_calls)
            limited = max_t(sums, limits=limits, n_resamples=_PATTERNS, seed=seed)
        apart = [np.asarray(p) <= ALPHA for p in (limited.p_adjusted, alone.p_adjusted, holm(alone.p.tolist()))]
        yield [bool(rejected[~differs].any()) for rejected in apart] + [bool(rejected[0]) for rejected in apart]


def _limits(counts: Array, pairs: Sequence[tuple[int, int]], needed: Mask, *, n_calls: float) -> Array:
    limits = np.full(len(needed), np.inf)
    _, n_tasks, n_axes = counts.shape
    for at in np.flatnonzero(needed):
        (a, b), axis = pairs[at // n_axes], at % n_axes
        limits[at] = share_limit(counts[a, :, axis], counts[b, :, axis], np.full(n_tasks, n_calls))
    return limits


def draw_counts(contest: Contest, rng: Rng) -> Array:
    """Draw the hits of judges × tasks × axes."""
    if contest.alike:
        return _draw_alike(contest, rng)
    counts = np.empty((contest.n_judges, contest.n_tasks, contest.n_axes))
    for judge in range(contest.n_judges):
        truth = Truth(rate=contest.rate, icc=contest.iccs[judge % 2], shape=contest.shape)
        counts[judge] = truth.draw(contest.n_calls, counts[judge].shape, rng)
    if contest.better:
        truth = Truth(rate=contest.rate + contest.better, icc=contest.iccs[0], shape=contest.shape)
        counts[0, :, 0] = truth.draw(contest.n_calls, (contest.n_tasks,), rng)
    return counts


def _draw_alike(contest: Contest, rng: Rng) -> Array:
    shape = (contest.n_judges, contest.n_tasks, contest.n_axes, contest.n_calls)
    rates = np.full(shape[:3], contest.rate)
    rates[0, :, 0] += contest.better
    chances = np.where(rng.random(shape) < contest.alike, rng.random(shape[1:]), rng.random(shape))
    return np.asarray((chances < rates[..., None]).sum(axis=-1), float)


def _contest_check(contest: Contest, runs: Sequence[list[bool]]) -> Iterator[DecisionCheck]:
    """False decisions stay under 5 %, and right ones are no fewer than Holm's on the same data."""
    n, shares = len(runs), np.mean(runs, axis=0)
    measured, flips, holms = (float(share) for share in (shares[3:] if contest.better else shares[:3]))
    beside = {"sign flips alone": flips, "Holm": holms}
    if not contest.better:
        limit = (_BY_TASK if contest.by_task else ALPHA) if contest.judged else None
        yield decision_check("told apart falsely", contest, measured, n, at_most=limit, beside=beside)
        return
    beside["falsely"] = float(shares[0])
    error = float(np.array(runs)[:, 3].std() / np.sqrt(n))
    least = None if contest.alike else holms
    yield decision_check("told apart rightly", contest, measured, n, error=error, at_least=least, beside=beside)


MAX_T = Simulation(
    worlds=listed(CONTESTS, quick=_QUICK_CONTESTS), ask=_contested, checks=_contest_check, part=5, batch=100
)


# --- two judges, as `jrh.compare` reads them

_AXIS = "axis"
_BATCH = 40
_RESAMPLING = Resampling(n_resamples=400)


@dataclass(frozen=True, kw_only=True, slots=True)
class Duel:
    """Two judges on one axis."""

    rates: tuple[float, float]
    icc: float
    together: bool
    """Whether both err on the same calls; otherwise independently."""
    n_tasks: int = 10
    n_calls: int = 12

    def __str__(self) -> str:
        """Name rates and sizes."""
        how = "on the same calls" if self.together else "independently"
        sizes = f"{self.n_tasks} tasks × {self.n_calls}"
        return f"rates {self.rates[0]:g} and {self.rates[1]:g} {how}, {sizes}, ICC {self.icc:g}"


_PAIRS = ((0.1, 0.02), (0.2, 0.1), (0.5, 0.4), (0.9, 0.4))
DUELS = tuple(
    Duel(rates=rates, icc=icc, together=together)
    for rates, icc, together in product(_PAIRS, (0.0, 0.3, 0.6), (True, False))
)
_QUICK_DUELS = (Duel(rates=(0.1, 0.02), icc=0.6, together=False),)
AT_THE_MARGIN = tuple(
    Duel(rates=(0.2, 0.2 - MARGIN), icc=icc, together=together, n_tasks=60, n_calls=4)
    for icc, together in product((0.0, 0.3), (True, False))
)
EQUAL = tuple(
    Duel(rates=(rate, rate), icc=icc, together=False, n_tasks=tasks, n_calls=calls)
    for (rate, icc), (tasks, calls) in product(((0.1, 0.2), (0.3, 0.2), (0.3, 0.5)), ((10, 12), (28, 4)))
)


def draw_duel(duel: Duel, rng: Rng) -> ScoreTable:
    """Draw the calls of both judges."""
    shape = (duel.n_tasks, duel.n_calls)
    task, call = rng.random((2, duel.n_tasks)), rng.random((2, *shape))
    if duel.together:
        # The same chances for both: they err on the same calls as far as their rates allow.
        task[1], call[1] = task[0], call[0]
    scores = {
        name: (call[at] < task_rates(task[at], rate, duel.icc)[:, None]).astype(float).ravel()
        for at, (name, rate) in enumerate(zip("ab", duel.rates, strict=True))
    }
    n = duel.n_tasks * duel.n_calls
    clusters = np.repeat(np.arange(duel.n_tasks), duel.n_calls)
    return ScoreTable(axis=np.full(n, _AXIS, dtype=object), cluster=clusters, n_codes=duel.n_tasks, scores=scores)


def _intervals(duel: Duel, batch: Batch) -> Iterator[list[float]]:
    """Per run: whether the interval holds the truth, whether the bootstrap alone does, and whether they are equal."""
    rng, truth = batch.rng(duel), duel.rates[0] - duel.rates[1]
    for _ in batch.runs:
        table = draw_duel(duel, rng)
        difference = _paired(table).difference
        _, alone = mean_over_tests(table, table.scores["a"] - table.scores["b"], _RESAMPLING)
        by_bootstrap = math.nan if alone is None else float(_holds(*alone, truth))
        assert difference.low is not None
        assert difference.high is not None
        equivalent = is_equivalent(difference.equivalence, MARGIN)
        yield [_holds(difference.low, difference.high, truth), by_bootstrap, equivalent]


def _paired(table: ScoreTable) -> Paired:
    paired = paired_shares(table, _AXIS, "a", "b", _RESAMPLING)
    assert paired is not None
    return paired


def _holds(low: float, high: float, truth: float) -> bool:
    return low - 1e-9 <= truth <= high + 1e-9


def _coverage_check(duel: Duel, runs: Sequence[list[float]]) -> Iterator[DecisionCheck]:
    covered, alone, _ = np.array(runs, float).T
    beside = {"bootstrap alone": float(np.nanmean(alone))}
    yield decision_check(
        "difference in its interval", duel, float(covered.mean()), len(runs), at_least=LOW, beside=beside
    )


def _margin_check(duel: Duel, runs: Sequence[list[float]]) -> Iterator[DecisionCheck]:
    equivalent = float(np.mean([run[2] for run in runs]))
    yield decision_check("equivalent falsely", duel, equivalent, len(runs), at_most=ALPHA)


def _decisions(duel: Duel, batch: Batch) -> Iterator[list[float]]:
    """Per run: what is detectable, 1 where nothing is, and whether the two are told apart."""
    rng = batch.rng(duel)
    for _ in batch.runs:
        paired = [_paired(draw_duel(duel, rng))]
        (row,) = decided(paired, n_clusters=duel.n_tasks, primary={_AXIS}, alpha=ALPHA, margin=MARGIN, seed=0)
        yield [1.0 if row.detectable is None else row.detectable, row.told_apart]


def _apart_as_detectable(size: SimulationSize, apply: Map) -> list[Duel]:
    """Return judges that differ by what equal ones, in the median, say is detectable."""
    equal = () if size.quick else EQUAL
    runs = simulate(_decisions, equal, n=_BATCH, batch=_BATCH, seed=size.seed, apply=apply)
    # The median over equal judges: what a reader of one such comparison would typically be told is detectable.
    better = [
        min(1.0, duel.rates[0] + float(np.median([run[0] for run in own])))
        for duel, own in zip(equal, runs, strict=True)
    ]
    return [replace(duel, rates=(round(rate, 2), duel.rates[1])) for duel, rate in zip(equal, better, strict=True)]


def _power_check(duel: Duel, runs: Sequence[list[float]]) -> Iterator[DecisionCheck]:
    apart = float(np.mean([run[1] for run in runs]))
    yield decision_check("told apart at what is detectable", duel, apart, len(runs))


@dataclass(frozen=True, kw_only=True, slots=True)
class LosingDuel:
    """Two judges of one rate, of which the second loses hits."""

    rate: float
    lost: tuple[float, float]
    """Share of its hits that are lost, and of its other calls."""
    n_tasks: int = 200
    n_calls: int = 4

    def __str__(self) -> str:
        """Name rate, losses and tasks."""
        losses = f"one loses {self.lost[0]:g} of its hits and {self.lost[1]:g} of the others"
        return f"both at {self.rate:g}, {losses}, {self.n_tasks} tasks × {self.n_calls}"

    def drawn(self, rng: Rng) -> ScoreTable:
        """Draw the calls of both."""
        n = self.n_tasks * self.n_calls
        hits = (rng.random((2, n)) < self.rate).astype(float)
        gone = rng.random(n) < np.where(hits[1] > 0, *self.lost)
        return ScoreTable(
            axis=np.full(n, _AXIS, dtype=object),
            cluster=np.repeat(np.arange(self.n_tasks), self.n_calls),
            n_codes=self.n_tasks,
            scores={"a": hits[0], "b": np.where(gone, np.nan, hits[1])},
            extremes={"a": (hits[0], hits[0]), "b": (np.where(gone, 0.0, hits[1]), np.where(gone, 1.0, hits[1]))},
        )


LOSING_DUELS = (LosingDuel(rate=0.1, lost=(0.4, 0.005)), LosingDuel(rate=0.05, lost=(0.99, 0.0), n_tasks=100))


def _losing(duel: LosingDuel, batch: Batch) -> Iterator[list[float]]:
    """Per run: whether equal judges are told apart, and whether they would be by the answers that came."""
    rng = batch.rng(duel)
    decide = partial(decided, n_clusters=duel.n_tasks, primary={_AXIS}, alpha=ALPHA, margin=MARGIN, seed=0)
    for _ in batch.runs:
        table = duel.drawn(rng)
        alone = decide([_paired(table)])
        both = [[_paired(table.completed(*order))] for order in ("ab", "ba")]
        yield [row.told_apart for rows in (whatever_was_lost(alone, both, decide), alone) for row in rows]


def _losing_check(duel: LosingDuel, runs: Sequence[list[float]]) -> Iterator[DecisionCheck]:
    apart, alone = (float(part) for part in np.mean(runs, axis=0))
    beside = {"by the answers that came": alone}
    yield decision_check("told apart falsely with lost calls", duel, apart, len(runs), at_most=ALPHA, beside=beside)


@dataclass(frozen=True, kw_only=True, slots=True)
class EqualVersions:
    """Versions of an application that pass alike, each with labels of its own on the same items."""

    sampling: Sampling | None
    """What `jrh.correct` is told of the labels, which are drawn at random."""
    n_versions: int = 5
    rate: float = 0.7
    judge: tuple[float, float] = (0.9, 0.8)
    """Sensitivity and specificity."""
    n_items: int = 400
    n_labels: int = 100

    def __str__(self) -> str:
        """Name versions, judge and labels."""
        told = "labels of unknown origin" if self.sampling is None else f"labels {self.sampling}"
        judge = f"rate {self.rate:g}, se {self.judge[0]:g}, sp {self.judge[1]:g}"
        return f"{self.n_versions} versions, {judge}, {self.n_labels} {told} of {self.n_items}"

    def drawn(self, rng: Rng) -> tuple[dict[str, Any], dict[str, Any]]:
        """Draw verdicts and labels of every version: on seven of ten items what is easy for one is easy for all."""
        shape, items = (self.n_versions, self.n_items), np.arange(self.n_items).astype(str)
        chances = np.where(rng.random(shape) < 0.7, rng.random(self.n_items), rng.random(shape))
        human, error = chances < self.rate, rng.random(shape)
        judge, labelled = np.where(human, error < self.judge[0], error >= self.judge[1]), slice(self.n_labels)
        verdicts = {f"v{at}": {"item": items, "judge": judge[at]} for at in range(self.n_versions)}
        labels = {
            name: {"item": items[labelled], "judge": judge[at, labelled], "human": human[at, labelled]}
            for at, name in enumerate(verdicts)
        }
        return verdicts, labels


EQUAL_VERSIONS = (EqualVersions(sampling="random"), EqualVersions(sampling=None))


def _versions(world: EqualVersions, batch: Batch) -> Iterator[bool]:
    """Per run: whether any two versions are told apart."""
    rng = batch.rng(world)
    for _ in batch.runs:
        verdicts, labels = ({name: DataFrame(part) for name, part in parts.items()} for parts in world.drawn(rng))
        done = correct(verdicts, labels, sampling=world.sampling)
        yield any(pair.told_apart for pair in done.of_pairs)


def _versions_check(world: EqualVersions, runs: Sequence[bool]) -> Iterator[DecisionCheck]:
    yield decision_check("versions told apart falsely", world, float(np.mean(runs)), len(runs), at_most=ALPHA)


VERSIONS = Simulation(worlds=listed(EQUAL_VERSIONS, quick=()), ask=_versions, checks=_versions_check, part=40, batch=10)
_duels = partial(Simulation[Duel, list[float]], part=25, least=_BATCH, batch=_BATCH)
SIMULATIONS = (
    MAX_T,
    VERSIONS,
    _duels(worlds=listed(DUELS, quick=_QUICK_DUELS), ask=_intervals, checks=_coverage_check),
    _duels(worlds=listed(AT_THE_MARGIN, quick=AT_THE_MARGIN[:1]), ask=_intervals, checks=_margin_check),
    _duels(worlds=_apart_as_detectable, ask=_decisions, checks=_power_check),
    Simulation(
        worlds=listed(LOSING_DUELS, quick=LOSING_DUELS[:1]), ask=_losing, checks=_losing_check, part=25, batch=_BATCH
    ),
)
