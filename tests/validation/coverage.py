"""How often the clustered interval of a share holds the true rate, and how wide it is: exact sums, or shared draws.

A design is k tasks of m calls. Both intervals depend on the histogram of the counts only (how many tasks have 0, 1, … m
successes), whatever the order of the tasks: where the histograms are few every one is weighed with its multinomial
chance, and nothing is drawn. Where they are too many, the same number is drawn under each truth, and all draws serve
all truths, weighed by the balance heuristic of Veach & Guibas (1995, SIGGRAPH, 419-428): `p(x) / mean of p'(x)` over
the truths p' that were drawn from. No truth is known worse than from its own draws alone, most are known far better.

Rates over 1/2 are the mirror of those under it: the intervals mirror themselves (successes become failures), and so do
the shapes, `0 or q` into `q or 1`. The last is shown and not judged: some tasks fail always, the others seldom, and a
sample without one of the former (a tenth of all tasks is missing from one sample of 30 in 24) looks like one where
tasks do not differ. An interval that held there would be as wide wherever tasks are alike.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations_with_replacement, product
from statistics import mean
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt
from scipy import stats
from scipy.special import gammaln, logsumexp

from jrh_mlflow.show.tables import Column, Table
from jrh_mlflow.stats import Array, proportions
from tests.validation.loop import LOW, N_ERRORS, Map, Part, Rng, SimulationSize

Shape = Literal["beta", "all or none", "0 or q", "q or 1"]
"""How tasks differ at one mean and one intraclass correlation (ICC)."""
SHAPES: tuple[Shape, ...] = get_args(Shape)
JUDGED: tuple[Shape, ...] = ("beta", "all or none", "0 or q")
"""Shapes under which the interval must hold."""
ICCS = (0.0, 0.1, 0.3, 0.6)
RATES = (0.005, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5)
N_TASKS, N_CALLS = (10, 14, 28, 30), (2, 4, 12)
MOST_HISTOGRAMS = 50_000
"""Up to here every histogram is weighed: 30 tasks of 4 calls have 46,376, 10 tasks of 12 calls 646,646."""

Histograms = npt.NDArray[np.int64]
"""One row per histogram; column j says how many tasks have j successes."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Truth:
    """What the calls are drawn from."""

    rate: float
    icc: float
    shape: Shape

    def log_chances(self, n_calls: int) -> Array:
        """Log chance of 0, 1, … `n_calls` successes in one task.

        beta: the task's rate is Beta with mean p. all or none: with chance ICC all calls of a task agree, else they are
        independent. 0 or q: the task's rate is 0 or q = p + ICC (1 - p). q or 1: the mirror of that.
        """
        p, icc, j = self.rate, self.icc, np.arange(n_calls + 1)
        if self.shape == "q or 1":
            mirror = Truth(rate=1 - p, icc=icc, shape="0 or q")
            return mirror.log_chances(n_calls)[::-1]
        # Without correlation all shapes are the binomial.
        if icc == 0:
            return np.asarray(stats.binom.logpmf(j, n_calls, p))
        if self.shape == "beta":
            scale = (1 - icc) / icc
            return np.asarray(stats.betabinom.logpmf(j, n_calls, p * scale, (1 - p) * scale))
        if self.shape == "all or none":
            with np.errstate(divide="ignore"):  # at an ICC of 1 nothing else happens
                return np.asarray(np.log((1 - icc) * stats.binom.pmf(j, n_calls, p) + icc * _ends(n_calls, 1 - p, p)))
        q = p + icc * (1 - p)
        return np.asarray(np.log(p / q * stats.binom.pmf(j, n_calls, q) + _ends(n_calls, 1 - p / q, 0.0)))

    def draw(self, n_calls: int, shape: tuple[int, ...], rng: Rng) -> Array:
        """Draw the successes of tasks."""
        chances = np.exp(self.log_chances(n_calls))
        return rng.choice(n_calls + 1, size=shape, p=chances / chances.sum()).astype(np.float64)


def _ends(n_calls: int, none: float, every: float) -> Array:
    return np.concatenate([[none], np.zeros(n_calls - 1), [every]])


def truths(rates: Iterable[float], *, iccs: Iterable[float] = ICCS) -> list[Truth]:
    """Every rate with every ICC and shape; without correlation all shapes are one."""
    return [
        Truth(rate=rate, icc=icc, shape=shape)
        for icc, shape, rate in product(iccs, SHAPES, rates)
        if icc or shape == "beta"
    ]


@dataclass(frozen=True, kw_only=True, slots=True)
class CountTable:
    """Histograms of the counts of a design."""

    n_tasks: int
    n_calls: int
    truths: tuple[Truth, ...]
    """What the intervals are scored under, and what was drawn from, equally often each."""
    histograms: Histograms
    times: Array | None = None
    """How often each was drawn; None: all there are, nothing is drawn."""

    @property
    def n_draws(self) -> int | None:
        """Of all truths together."""
        return None if self.times is None else int(self.times.sum())

    def log_chances(self, truth: Truth) -> Array:
        """Log chance of each histogram, but for the number of orders of its tasks."""
        return np.asarray(self.histograms @ truth.log_chances(self.n_calls))

    def log_ways(self) -> Array:
        """Log of what turns those chances into weights: the number of orders, or what the draws came with."""
        if self.times is None:
            return np.asarray(gammaln(self.n_tasks + 1) - gammaln(self.histograms + 1).sum(axis=1))
        # Importance weights: a histogram is drawn under every truth and weighed by its chance under one of them.
        drawn_with = logsumexp([self.log_chances(truth) for truth in self.truths], axis=0)
        return np.asarray(math.log(len(self.truths)) - drawn_with)


def count_table(n_tasks: int, n_calls: int, *, draws: int, seed: int, iccs: Sequence[float] = ICCS) -> CountTable:
    """Return all histograms of a design, or those of `draws` simulations of every truth where they are too many."""
    # Coverage is worst just past the end of an interval, so that rate is scored besides the round ones.
    scored = tuple(truths((*RATES, trough(n_tasks, n_calls)), iccs=iccs))
    if is_exact(n_tasks, n_calls):
        counts = np.array(list(combinations_with_replacement(range(n_calls + 1), n_tasks)))
        every = np.stack([(counts == j).sum(axis=1) for j in range(n_calls + 1)], axis=1)
        return CountTable(n_tasks=n_tasks, n_calls=n_calls, truths=scored, histograms=every)
    rng = np.random.default_rng([seed, n_tasks, n_calls])
    chances = [np.exp(truth.log_chances(n_calls)) for truth in scored]
    drawn = np.concatenate([rng.multinomial(n_tasks, chance / chance.sum(), size=draws) for chance in chances])
    rows, times = np.unique(drawn, axis=0, return_counts=True)
    return CountTable(n_tasks=n_tasks, n_calls=n_calls, truths=scored, histograms=rows, times=times.astype(np.float64))


def is_exact(n_tasks: int, n_calls: int) -> bool:
    """Whether a design has so few histograms that none need be drawn."""
    return math.comb(n_tasks + n_calls, n_calls) <= MOST_HISTOGRAMS


def trough(n_tasks: int, n_calls: int) -> float:
    """Rate just over the upper end of no success at all, where that sample begins to miss."""
    interval = proportions.cluster_interval(np.zeros(n_tasks), np.full(n_tasks, float(n_calls)))
    assert interval is not None
    return interval[1] * 1.0005


def interval_ends(table: CountTable, *, replicates: int = 1, apply: Map = map, chunk: int = 200) -> Array:
    """Ends of the former and of the present interval of each histogram: four columns.

    With `replicates` so many calls of a task are one unit, their mean. Of a histogram and its mirror only one is
    computed.
    """
    histograms = table.histograms
    # Successes and failures exchanged give the mirrored interval: half of the work is saved.
    mirrors = histograms[:, ::-1]
    first = (histograms != mirrors).argmax(axis=1)[:, None]
    turned = np.take_along_axis(histograms < mirrors, first, axis=1)
    unique, at = np.unique(np.where(turned, mirrors, histograms), axis=0, return_inverse=True)
    chunks = np.array_split(unique, math.ceil(len(unique) / chunk))
    ends = np.concatenate(list(apply(partial(both_intervals, replicates=replicates), chunks)))[at.ravel()]
    return np.asarray(np.where(turned, 1 - ends[:, [1, 0, 3, 2]], ends))


def both_intervals(histograms: Histograms, *, replicates: int = 1) -> Array:
    """Ends of `cluster_wilson` and of `cluster_interval` of each histogram."""
    values = np.arange(histograms.shape[1]) / replicates
    rows = [np.repeat(values, histogram) for histogram in histograms]
    sizes = np.full(len(rows[0]), values[-1])
    return np.array(
        [(*proportions.cluster_wilson(row, sizes), *proportions.cluster_interval(row, sizes)) for row in rows]  # type: ignore[misc]  # there are several tasks
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class IntervalScore:
    """One interval under one truth."""

    coverage: float
    error: float
    """Standard error of the coverage; 0 where nothing was drawn."""
    too_low: float
    """Share of intervals that lie wholly under the truth."""
    too_high: float
    width: float


@dataclass(frozen=True, kw_only=True, slots=True)
class IntervalCell:
    """Both intervals in one design under one truth."""

    n_tasks: int
    n_calls: int
    truth: Truth
    n_draws: int | None
    """Of the design, shared by its cells; None: exact."""
    old: IntervalScore
    """`cluster_wilson`."""
    new: IntervalScore
    """`cluster_interval`."""

    @property
    def fails(self) -> bool:
        """Whether the present interval covers less than the floor, beyond the error of the simulation."""
        return self.judged and self.new.coverage < LOW - N_ERRORS * self.new.error

    @property
    def judged(self) -> bool:
        """Whether the interval promises to hold there."""
        return self.truth.shape in JUDGED

    @property
    def name(self) -> str:
        """Design and truth."""
        truth = self.truth
        return f"{self.n_tasks} tasks × {self.n_calls} calls, ICC {truth.icc:g}, rate {truth.rate:.4g}, {truth.shape}"

    def __str__(self) -> str:
        """Name it with the coverage of the present interval."""
        return f"{self.name}: {self.new.coverage:.3f} ± {self.new.error:.3f}"


def cells(table: CountTable, ends: Array, *, under: Sequence[Truth] = ()) -> Iterator[IntervalCell]:
    """Score both intervals under these truths, or under those of the table."""
    ways = table.log_ways()
    for truth in under or table.truths:
        weights = np.exp(table.log_chances(truth) + ways)
        old, new = (_score(table, weights, ends[:, at : at + 2], truth.rate) for at in (0, 2))
        facts: dict[str, Any] = {"n_tasks": table.n_tasks, "n_calls": table.n_calls, "n_draws": table.n_draws}
        yield IntervalCell(**facts, truth=truth, old=old, new=new)


def _score(table: CountTable, weights: Array, ends: Array, rate: float) -> IntervalScore:
    n = table.n_draws
    shares = weights if n is None or table.times is None else weights * table.times / n
    # An end that is the rate itself holds it, whatever the last digit.
    under, over = ends[:, 1] < rate - 1e-12, ends[:, 0] > rate + 1e-12
    too_low, too_high = float(shares[under].sum()), float(shares[over].sum())
    missed = too_low + too_high
    # The spread of the draws' terms, each the weight where the interval misses and 0 elsewhere.
    spread = 0.0 if n is None else max(0.0, float((shares * weights)[under | over].sum()) - missed**2) / n
    return IntervalScore(
        coverage=1 - missed,
        error=math.sqrt(spread),
        too_low=too_low,
        too_high=too_high,
        width=float(shares @ (ends[:, 1] - ends[:, 0]) / shares.sum()),
    )


def between_rates(table: CountTable, ends: Array) -> list[IntervalCell]:
    """Score both intervals at rates in small steps; in exact designs only.

    Draws at the listed rates know little of a rate far from all of them.
    """
    if table.times is not None:
        return []
    steps = np.round([*np.geomspace(0.005, 0.1, 31), *np.linspace(0.1, 0.5, 21)], 5).tolist()
    iccs = dict.fromkeys(truth.icc for truth in table.truths)
    return list(cells(table, ends, under=truths(sorted({*steps} - {*RATES}), iccs=iccs)))


def weighed_cells(
    n_tasks: Sequence[int] = N_TASKS,
    n_calls: Sequence[int] = N_CALLS,
    *,
    iccs: Sequence[float] = ICCS,
    draws: int = 1000,
    seed: int = 0,
    apply: Map = map,
) -> list[IntervalCell]:
    """Score both intervals in every design of `n_tasks` tasks with `n_calls` calls each.

    Args:
        n_tasks: Numbers of tasks.
        n_calls: Numbers of calls per task.
        iccs: Intraclass correlations of the tasks.
        draws: Simulations per truth in designs too large to sum; 0 leaves those out.
        seed: Of the draws, which are made here and not where intervals are computed.
        apply: `map`, or that of `worker_map`; the result is the same.
    """
    scored: list[IntervalCell] = []
    for m, k in product(n_calls, n_tasks):
        if draws or is_exact(k, m):
            table = count_table(k, m, draws=draws, seed=seed, iccs=iccs)
            ends = interval_ends(table, apply=apply)
            scored += [*cells(table, ends), *between_rates(table, ends)]
    return scored


def check_intervals(size: SimulationSize, apply: Map) -> list[IntervalCell]:
    """Weigh the designs of the size."""
    n_tasks = N_TASKS[:1] if size.quick else N_TASKS
    return weighed_cells(n_tasks, iccs=size.iccs or ICCS, draws=size.draws, seed=size.seed, apply=apply)


class DesignCells:
    """All rates and shapes of one design at one ICC: a row of the printed table."""

    def __init__(self, cells: Sequence[IntervalCell]) -> None:
        self.judged = [cell for cell in cells if cell.judged]
        self.not_judged = [cell for cell in cells if not cell.judged]
        self.listed = [cell for cell in self.judged if cell.truth.rate in RATES]
        self.beta = [cell for cell in self.listed if cell.truth.shape == "beta"]
        self.shapes = [cell for cell in self.listed if cell.truth.shape != "beta"]
        self.first = min(self.beta, key=lambda cell: cell.new.coverage)


def _least(cells: Sequence[IntervalCell], interval: str) -> str:
    """Least coverage of the old or of the new interval."""
    return f"{min(getattr(cell, interval).coverage for cell in cells):.3f}" if cells else ""


def _most(cells: Sequence[IntervalCell], field: str) -> str:
    return f"{max(getattr(cell.new, field) for cell in cells):.3f}"


def _mean_width(cells: Sequence[IntervalCell], interval: str) -> str:
    return f"{mean(getattr(cell, interval).width for cell in cells):.3f}"


INTERVALS: Table[DesignCells] = Table.of(
    Column("tasks × calls", lambda row: f"{row.first.n_tasks} × {row.first.n_calls}"),
    Column("ICC", lambda row: f"{row.first.truth.icc:g}"),
    Column("coverage: old", lambda row: _least(row.beta, "old")),
    Column("new", lambda row: _least(row.beta, "new")),
    Column("at rate", lambda row: f"{row.first.truth.rate:g}"),
    Column("shapes: old", lambda row: _least(row.shapes, "old")),
    Column("new", lambda row: _least(row.shapes, "new")),
    Column("any rate: old", lambda row: _least(row.judged, "old")),
    Column("new", lambda row: _least(row.judged, "new")),
    Column("q or 1", lambda row: _least(row.not_judged, "new")),
    Column("under", lambda row: _most(row.listed, "too_low")),
    Column("over", lambda row: _most(row.listed, "too_high")),
    Column("± s.e.", lambda row: _most(row.listed, "error")),
    Column("width: old", lambda row: _mean_width(row.beta, "old")),
    Column("new", lambda row: _mean_width(row.beta, "new")),
)
_LEGEND = """
Intervals of nominal 95 %; old: Wilson on the effective n, new: its hull with a beta-binomial posterior interval.
coverage, width: the least, and the mean, over seven rates from .005 to .5 (rates over .5 are their mirror), tasks
beta-distributed. shapes: the least where tasks are all-or-none, or have a rate of 0 or q. any rate: the least of these
and of the rate just over the upper end of no success, in exact designs also of rates in small steps. New only: q or 1
is not judged (docs/statistics.md); under, over: the largest share of intervals wholly under or over the truth.
"""


def intervals_text(cells: Sequence[IntervalCell]) -> str:
    """Return a row per design and ICC, the legend, and the cell that is covered least."""
    rows: dict[tuple[int, int, float], list[IntervalCell]] = {}
    for cell in cells:
        rows.setdefault((cell.n_tasks, cell.n_calls, cell.truth.icc), []).append(cell)
    drawn = dict.fromkeys(f"{cell.n_tasks} × {cell.n_calls}: {cell.n_draws:,} draws" for cell in cells if cell.n_draws)
    judged = [cell for cell in cells if cell.judged]
    least = min(judged, key=lambda cell: cell.new.coverage)
    failing = sum(cell.fails for cell in judged)
    return "\n".join(
        [
            INTERVALS(map(DesignCells, rows.values())).to_text(),
            _LEGEND,
            f"{len(judged):,} cells, {failing} under 93 %; exact but for {', '.join(drawn) or 'none'}.",
            f"Least coverage {least.new.coverage:.3f} ± {least.new.error:.3f}: {least.name}.",
        ]
    )


PART = Part(
    word="intervals",
    key="intervals",
    simulations=(check_intervals,),
    text=intervals_text,
    by_seeds=False,
    severity=lambda cell: -float(cell.new.coverage),
)
