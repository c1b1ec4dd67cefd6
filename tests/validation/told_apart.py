"""Judges of known rates told apart: by step-down max-T, and as `jrh.compare` reads differences.

A contest is some judges on tasks of twelve calls, on several axes. Judges are equal, or have equal
means but differ unlike between tasks (an intraclass correlation of 0 against .6), or one of them
is better by .5 on one axis. Sign flips alone, without the limits of `share_limit`, and Holm's are
shown beside. Where the error is not promised, it is shown.

A duel is two judges on one axis: on the same calls, so that they agree where their rates allow, or
each by itself. It says how often an interval holds the difference, and how often equivalence is
claimed falsely. Then a judge that loses its hits, and versions of an application before
`jrh.correct`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations, product

import numpy as np
from pandas import DataFrame

from jrh_mlflow.comparing.comparison import (
    MARGIN,
    decided,
    is_equivalent,
    mean_over_tests,
    paired_shares,
    whatever_was_lost,
)
from jrh_mlflow.measures.unit_scores import ScoreTable
from jrh_mlflow.people.correct import correct
from jrh_mlflow.scoring.ledger import Resampling
from jrh_mlflow.stats.max_t import max_t, share_limit
from jrh_mlflow.stats.paired import holm
from tests.validation.coverage import ICCS, JUDGED, Truth
from tests.validation.loop import ALPHA, LOW, Simulation, check_share, holds, simulate, task_rates

_BY_TASK = 0.06
"""Most false decisions where a judge answers each task alike."""
_PATTERNS = 599
"""Drawn where there are too many for all: the error holds with any number of them."""
_METHODS = ("max-T", "sign flips alone", "Holm")


@dataclass(frozen=True, kw_only=True)
class Contest:
    """Some judges on several axes."""

    n_judges: int
    n_tasks: int = 10
    n_axes: int = 8
    rate: float = 0.3
    """Of all judges on all axes."""
    iccs: tuple[float, float] = (0.3, 0.3)
    """Of every other judge."""
    shape: str = "beta"
    """How tasks differ, see `coverage.Truth`."""
    better: float = 0.0
    """What the first judge's rate is over the others' on the first axis; 0: all are equal."""
    n_calls: int = 12
    alike: float = 0.0
    """Share of calls that all judges answer by the same chance; then tasks do not differ."""

    def __str__(self):
        iccs = " and ".join(f"{icc:g}" for icc in dict.fromkeys(self.iccs))
        better = f", one +{self.better:g}" if self.better else ""
        kind = f"rate {self.rate:g}{better}, ICC {iccs}, {self.shape}"
        if self.alike:
            kind = f"× {self.n_calls} calls, rate {self.rate:g}{better}, {self.alike:g} alike"
        return f"{self.n_judges} judges, {self.n_tasks} tasks × {self.n_axes} axes, {kind}"

    @property
    def limit(self):
        """Most false decisions; None for an ICC near 1 and where some tasks always fail."""
        # Every other judge answers each task alike.
        if self.iccs[1] == 1:
            return _BY_TASK
        return ALPHA if self.shape in JUDGED and max(self.iccs) <= max(ICCS) else None


_UNLIKE = Contest(n_judges=2, iccs=(0.0, 0.6))


def _contests(base, **values):
    """Return the contest with every combination of these values."""
    return [
        replace(base, **dict(zip(values, each, strict=True))) for each in product(*values.values())
    ]


CONTESTS = (
    *_contests(Contest(n_judges=2), n_judges=(2, 3, 4, 6), n_tasks=(10, 28)),
    *_contests(
        _UNLIKE,
        n_judges=(2, 3, 4, 6),
        n_tasks=(10, 28),
        shape=("beta", "all or none"),
        rate=(0.1, 0.3, 0.5),
    ),
    *_contests(
        _UNLIKE, n_axes=(1,), n_tasks=(10, 28), shape=("beta", "all or none"), rate=(0.1, 0.3, 0.5)
    ),
    *_contests(_UNLIKE, shape=("0 or q",), n_axes=(1, 8), n_tasks=(10, 28), rate=(0.1, 0.3)),
    *_contests(_UNLIKE, shape=("0 or q",), n_judges=(4,), n_tasks=(10, 28), rate=(0.1, 0.3)),
    *_contests(_UNLIKE, shape=("q or 1",), n_tasks=(28,), rate=(0.1,), n_axes=(1, 8)),
    *_contests(_UNLIKE, iccs=((0.0, 0.8),), rate=(0.1,), n_tasks=(10, 28)),
    *_contests(
        replace(_UNLIKE, n_tasks=28, n_axes=5, n_calls=4, iccs=(0.0, 1.0), shape="all or none"),
        rate=(0.1, 0.2),
    ),
    *_contests(
        Contest(n_judges=2, n_tasks=40, n_axes=1, n_calls=3, rate=0.7, better=0.1),
        alike=(0.7, 0.95),
    ),
    *_contests(Contest(n_judges=2, rate=0.2, iccs=(0.2, 0.2), better=0.5), n_judges=(2, 3, 4, 6)),
    *_contests(Contest(n_judges=2, rate=0.1, better=0.5), n_judges=(2, 3, 4, 6)),
)
_QUICK_CONTESTS = (
    Contest(n_judges=4),
    replace(_UNLIKE, n_judges=4, rate=0.1),
    Contest(n_judges=4, rate=0.2, iccs=(0.2, 0.2), better=0.5),
)


def _run_contest(contest, batch):
    """Per run: what each method tells apart, falsely and (of a better judge) rightly."""
    rng = batch.rng(contest)
    pairs = list(combinations(range(contest.n_judges), 2))
    # What truly differs: the first judge from each other one, on the first axis.
    differs = np.zeros((len(pairs), contest.n_axes), dtype=bool)
    if contest.better:
        differs[: contest.n_judges - 1, 0] = True
    differs = differs.ravel()
    for _ in batch.runs:
        counts = draw_counts(contest, rng)
        sums = np.hstack([counts[a] - counts[b] for a, b in pairs])
        # The same patterns for both, so that they differ by the limits alone.
        seed = int(rng.integers(2**32))
        alone = max_t(sums, n_resamples=_PATTERNS, seed=seed)
        limited = alone
        needed = alone.p_adjusted <= ALPHA
        # Limits only where they can matter: what sign flips alone do not tell apart stays equal.
        if needed.any():
            limits = _limits(counts, pairs, needed, n_calls=contest.n_calls)
            limited = max_t(sums, limits=limits, n_resamples=_PATTERNS, seed=seed)
        run = {}
        p_values = (limited.p_adjusted, alone.p_adjusted, holm(alone.p.tolist()))
        for method, p in zip(_METHODS, p_values, strict=True):
            rejected = np.asarray(p) <= ALPHA
            run[f"falsely by {method}"] = bool(rejected[~differs].any())
            run[method] = bool(rejected[0]) if contest.better else run[f"falsely by {method}"]
        yield run


def _limits(counts, pairs, needed, *, n_calls):
    limits = np.full(len(needed), np.inf)
    _, n_tasks, n_axes = counts.shape
    sizes = np.full(n_tasks, n_calls)
    for at in np.flatnonzero(needed):
        a, b = pairs[at // n_axes]
        axis = at % n_axes
        limits[at] = share_limit(counts[a, :, axis], counts[b, :, axis], sizes)
    return limits


def draw_counts(contest, rng):
    """Draw the hits of judges × tasks × axes."""
    shape = (contest.n_judges, contest.n_tasks, contest.n_axes)
    if contest.alike:
        rates = np.full(shape, contest.rate)
        rates[0, :, 0] += contest.better
        calls = (*shape, contest.n_calls)
        alike = rng.random(calls) < contest.alike
        chances = np.where(alike, rng.random(calls[1:]), rng.random(calls))
        return (chances < rates[..., None]).sum(axis=-1).astype(float)
    counts = np.empty(shape)
    for judge in range(contest.n_judges):
        truth = Truth(rate=contest.rate, icc=contest.iccs[judge % 2], shape=contest.shape)
        counts[judge] = truth.draw(contest.n_calls, shape[1:], rng)
    if contest.better:
        truth = replace(truth, rate=contest.rate + contest.better, icc=contest.iccs[0])
        counts[0, :, 0] = truth.draw(contest.n_calls, (contest.n_tasks,), rng)
    return counts


def _contest_checks(contest, runs):
    """False decisions stay under 5 %, and right ones are no fewer than Holm's on the same data."""
    beside = ["sign flips alone", "Holm"]
    if not contest.better:
        limit = contest.limit
        yield check_share(
            "told apart falsely", contest, runs, "max-T", at_most=limit, beside=beside
        )
        return
    least = None if contest.alike else float(runs["Holm"].mean())
    error = float(runs["max-T"].std(ddof=0) / math.sqrt(len(runs)))
    yield check_share(
        "told apart rightly",
        contest,
        runs,
        "max-T",
        error=error,
        at_least=least,
        beside=[*beside, "falsely by max-T"],
    )


MAX_T = Simulation(
    worlds=CONTESTS,
    quick=_QUICK_CONTESTS,
    run=_run_contest,
    checks=_contest_checks,
    part=5,
    batch=100,
)


# --- two judges, as `jrh.compare` reads them

_AXIS = "axis"
_BATCH = 40
_RESAMPLING = Resampling(n_resamples=400)


@dataclass(frozen=True, kw_only=True)
class Duel:
    """Two judges on one axis."""

    rates: tuple[float, float]
    icc: float
    together: bool
    """Whether both err on the same calls; otherwise independently."""
    n_tasks: int = 10
    n_calls: int = 12

    def __str__(self):
        how = "on the same calls" if self.together else "independently"
        sizes = f"{self.n_tasks} tasks × {self.n_calls}"
        return f"rates {self.rates[0]:g} and {self.rates[1]:g} {how}, {sizes}, ICC {self.icc:g}"


DUELS = tuple(
    Duel(rates=rates, icc=icc, together=together)
    for rates, icc, together in product(
        ((0.1, 0.02), (0.2, 0.1), (0.5, 0.4), (0.9, 0.4)), (0.0, 0.3, 0.6), (True, False)
    )
)
_QUICK_DUELS = (Duel(rates=(0.1, 0.02), icc=0.6, together=False),)
AT_THE_MARGIN = tuple(
    Duel(rates=(0.2, 0.2 - MARGIN), icc=icc, together=together, n_tasks=60, n_calls=4)
    for icc, together in product((0.0, 0.3), (True, False))
)
EQUAL = tuple(
    Duel(rates=(rate, rate), icc=icc, together=False, n_tasks=tasks, n_calls=calls)
    for (rate, icc), (tasks, calls) in product(
        ((0.1, 0.2), (0.3, 0.2), (0.3, 0.5)), ((10, 12), (28, 4))
    )
)


def draw_duel(duel, rng):
    """Draw the calls of both judges."""
    task = rng.random((2, duel.n_tasks))
    call = rng.random((2, duel.n_tasks, duel.n_calls))
    scores = {}
    for at, name in enumerate("ab"):
        # With the same chances both err on the same calls as far as their rates allow.
        row = 0 if duel.together else at
        rates = task_rates(task[row], duel.rates[at], duel.icc)
        scores[name] = (call[row] < rates[:, None]).astype(float).ravel()
    return _score_table(duel, scores)


def _score_table(duel, scores, **more):
    n = duel.n_tasks * duel.n_calls
    return ScoreTable(
        axis=np.full(n, _AXIS, dtype=object),
        cluster=np.repeat(np.arange(duel.n_tasks), duel.n_calls),
        n_codes=duel.n_tasks,
        scores=scores,
        **more,
    )


def _paired(table):
    return paired_shares(table, _AXIS, "a", "b", _RESAMPLING)


def _decide(pairs, *, n_tasks):
    return decided(pairs, n_clusters=n_tasks, primary={_AXIS}, alpha=ALPHA, margin=MARGIN, seed=0)


def _run_intervals(duel, batch):
    """Per run: whether the intervals hold the truth, and whether the judges are called equal."""
    rng = batch.rng(duel)
    truth = duel.rates[0] - duel.rates[1]
    for _ in batch.runs:
        table = draw_duel(duel, rng)
        difference = _paired(table).difference
        scores = table.scores["a"] - table.scores["b"]
        _, bootstrap = mean_over_tests(table, scores, _RESAMPLING)
        yield {
            "covered": holds((difference.low, difference.high), truth),
            "bootstrap alone": None if bootstrap is None else holds(bootstrap, truth),
            "equivalent": is_equivalent(difference.equivalence, MARGIN),
        }


def _interval_checks(duel, runs):
    name = "difference in its interval"
    yield check_share(name, duel, runs, "covered", at_least=LOW, beside=["bootstrap alone"])


def _margin_checks(duel, runs):
    yield check_share("equivalent falsely", duel, runs, "equivalent", at_most=ALPHA)


def _run_decisions(duel, batch):
    """Per run: what is detectable, 1 where nothing is, and whether the two are told apart."""
    rng = batch.rng(duel)
    for _ in batch.runs:
        (row,) = _decide([_paired(draw_duel(duel, rng))], n_tasks=duel.n_tasks)
        detectable = 1.0 if row.detectable is None else row.detectable
        yield {"detectable": detectable, "told apart": row.told_apart}


def _apart_as_detectable(size, apply):
    """Return judges that differ by what equal ones, in the median, say is detectable."""
    if size.quick:
        return []
    runs = simulate(_run_decisions, EQUAL, n=_BATCH, batch=_BATCH, seed=size.seed, apply=apply)
    duels = []
    for duel, runs_of_duel in zip(EQUAL, runs, strict=True):
        # The median: what a reader of one such comparison would typically be told.
        detectable = float(np.median([run["detectable"] for run in runs_of_duel]))
        rate = round(min(1.0, duel.rates[0] + detectable), 2)
        duels.append(replace(duel, rates=(rate, duel.rates[1])))
    return duels


def _power_checks(duel, runs):
    yield check_share("told apart at what is detectable", duel, runs, "told apart")


@dataclass(frozen=True, kw_only=True)
class LosingDuel:
    """Two judges of one rate, of which the second loses hits."""

    rate: float
    lost: tuple[float, float]
    """Share of its hits that are lost, and of its other calls."""
    n_tasks: int = 200
    n_calls: int = 4

    def __str__(self):
        losses = f"one loses {self.lost[0]:g} of its hits and {self.lost[1]:g} of the others"
        return f"both at {self.rate:g}, {losses}, {self.n_tasks} tasks × {self.n_calls}"

    def drawn(self, rng):
        """Draw the calls of both."""
        n = self.n_tasks * self.n_calls
        first, second = (rng.random((2, n)) < self.rate).astype(float)
        gone = rng.random(n) < np.where(second > 0, *self.lost)
        worst_and_best = (np.where(gone, 0.0, second), np.where(gone, 1.0, second))
        return _score_table(
            self,
            {"a": first, "b": np.where(gone, np.nan, second)},
            extremes={"a": (first, first), "b": worst_and_best},
        )


LOSING_DUELS = (
    LosingDuel(rate=0.1, lost=(0.4, 0.005)),
    LosingDuel(rate=0.05, lost=(0.99, 0.0), n_tasks=100),
)


def _run_losses(duel, batch):
    """Per run: whether equal judges are told apart, and would be by the answers that came."""
    rng = batch.rng(duel)
    decide = partial(_decide, n_tasks=duel.n_tasks)
    for _ in batch.runs:
        table = duel.drawn(rng)
        alone = decide([_paired(table)])
        both = [[_paired(table.completed(*order))] for order in ("ab", "ba")]
        (robust,) = whatever_was_lost(alone, both, decide)
        yield {"told apart": robust.told_apart, "by the answers that came": alone[0].told_apart}


def _losses_checks(duel, runs):
    name = "told apart falsely with lost calls"
    beside = ["by the answers that came"]
    yield check_share(name, duel, runs, "told apart", at_most=ALPHA, beside=beside)


# --- versions of an application, as `jrh.correct` compares them


@dataclass(frozen=True, kw_only=True)
class EqualVersions:
    """Versions of an application that pass alike, each with labels of its own on the same items."""

    sampling: str | None
    """What `jrh.correct` is told of the labels, which are drawn at random."""
    n_versions: int = 5
    rate: float = 0.7
    judge: tuple[float, float] = (0.9, 0.8)
    """Sensitivity and specificity."""
    n_items: int = 400
    n_labels: int = 100

    def __str__(self):
        labels = "labels of unknown origin" if self.sampling is None else f"labels {self.sampling}"
        judge = f"rate {self.rate:g}, se {self.judge[0]:g}, sp {self.judge[1]:g}"
        return f"{self.n_versions} versions, {judge}, {self.n_labels} {labels} of {self.n_items}"

    def drawn(self, rng):
        """Draw verdicts and labels of every version.

        On seven of ten items what is easy for one version is easy for all.
        """
        shape = (self.n_versions, self.n_items)
        items = np.arange(self.n_items).astype(str)
        shared = rng.random(shape) < 0.7
        chances = np.where(shared, rng.random(self.n_items), rng.random(shape))
        human = chances < self.rate
        error = rng.random(shape)
        judge = np.where(human, error < self.judge[0], error >= self.judge[1])
        verdicts = {}
        labels = {}
        for at in range(self.n_versions):
            table = DataFrame({"item": items, "judge": judge[at], "human": human[at]})
            verdicts[f"v{at}"] = table[["item", "judge"]]
            labels[f"v{at}"] = table[: self.n_labels]
        return verdicts, labels


EQUAL_VERSIONS = (EqualVersions(sampling="random"), EqualVersions(sampling=None))


def _run_versions(world, batch):
    rng = batch.rng(world)
    for _ in batch.runs:
        result = correct(*world.drawn(rng), sampling=world.sampling)
        yield {"told apart": any(pair.told_apart for pair in result.of_pairs)}


def _versions_checks(world, runs):
    yield check_share("versions told apart falsely", world, runs, "told apart", at_most=ALPHA)


VERSIONS = Simulation(
    worlds=EQUAL_VERSIONS, run=_run_versions, checks=_versions_checks, part=40, batch=10
)
_duels = partial(Simulation, part=25, least=_BATCH, batch=_BATCH)
COVERAGE = _duels(worlds=DUELS, quick=_QUICK_DUELS, run=_run_intervals, checks=_interval_checks)
MARGINS = _duels(
    worlds=AT_THE_MARGIN, quick=AT_THE_MARGIN[:1], run=_run_intervals, checks=_margin_checks
)
POWER = _duels(worlds=_apart_as_detectable, run=_run_decisions, checks=_power_checks)
LOSSES = Simulation(
    worlds=LOSING_DUELS,
    quick=LOSING_DUELS[:1],
    run=_run_losses,
    checks=_losses_checks,
    part=25,
    batch=_BATCH,
)
SIMULATIONS = (MAX_T, VERSIONS, COVERAGE, MARGINS, POWER, LOSSES)
