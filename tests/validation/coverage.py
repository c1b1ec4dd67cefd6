"""How often the clustered interval of a share holds the true rate, and how wide it is.

A design is k tasks of m calls. Both intervals depend on the histogram of the counts only (how many
tasks have 0, 1, … m successes): where the histograms are few every one is weighed with its
multinomial chance, and nothing is drawn. Where they are too many, the same number is drawn under
each truth, and all draws serve all truths, weighed by the balance heuristic of Veach & Guibas
(1995, SIGGRAPH, 419-428): `p(x) / mean of p'(x)` over the truths p' that were drawn from. No truth
is known worse than from its own draws alone, most are known far better.

Rates over 1/2 are the mirror of those under it: the intervals mirror themselves (successes become
failures), and so do the shapes, `0 or q` into `q or 1`. The last is shown and not judged: some
tasks fail always, the others seldom, and a sample without one of the former (a tenth of all tasks
is missing from one sample of 30 in 24) looks like one where tasks do not differ. An interval that
held there would be as wide wherever tasks are alike.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from itertools import combinations_with_replacement, product
from typing import Any

import numpy as np
from scipy import stats
from scipy.special import gammaln, logsumexp

from jrh_mlflow.stats import proportions
from tests.validation.loop import LOW, N_ERRORS, Part, table_text

SHAPES = ("beta", "all or none", "0 or q", "q or 1")
"""How tasks differ at one mean and one intraclass correlation (ICC)."""
JUDGED = ("beta", "all or none", "0 or q")
"""Shapes under which the interval must hold."""
ICCS = (0.0, 0.1, 0.3, 0.6)
RATES = (0.005, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5)
N_TASKS = (10, 14, 28, 30)
N_CALLS = (2, 4, 12)
MOST_HISTOGRAMS = 50_000
"""Up to here all are weighed: 30 tasks of 4 calls have 46,376, 10 tasks of 12 calls 646,646."""


@dataclass(frozen=True, kw_only=True)
class Truth:
    """What the calls are drawn from."""

    rate: float
    icc: float
    shape: str

    def log_chances(self, n_calls):
        """Log chance of 0, 1, … `n_calls` successes in one task.

        beta: the task's rate is Beta with mean p. all or none: with chance ICC all calls of a task
        agree, else they are independent. 0 or q: the task's rate is 0 or q = p + ICC (1 - p). q or
        1: the mirror of that.
        """
        p = self.rate
        icc = self.icc
        counts = np.arange(n_calls + 1)
        if self.shape == "q or 1":
            mirror = Truth(rate=1 - p, icc=icc, shape="0 or q")
            return mirror.log_chances(n_calls)[::-1]
        # Without correlation all shapes are the binomial.
        if icc == 0:
            return stats.binom.logpmf(counts, n_calls, p)
        if self.shape == "beta":
            scale = (1 - icc) / icc
            return stats.betabinom.logpmf(counts, n_calls, p * scale, (1 - p) * scale)
        if self.shape == "all or none":
            chances = (1 - icc) * stats.binom.pmf(counts, n_calls, p)
            chances[[0, -1]] += icc * np.array([1 - p, p])
        else:
            q = p + icc * (1 - p)
            chances = p / q * stats.binom.pmf(counts, n_calls, q)
            chances[0] += 1 - p / q
        with np.errstate(divide="ignore"):  # at an ICC of 1 nothing else happens
            return np.log(chances)

    def draw(self, n_calls, shape, rng):
        """Draw the successes of tasks."""
        chances = np.exp(self.log_chances(n_calls))
        return rng.choice(n_calls + 1, size=shape, p=chances / chances.sum()).astype(np.float64)


def truths(rates, *, iccs=ICCS):
    """Every rate with every ICC and shape; without correlation all shapes are one."""
    return [
        Truth(rate=rate, icc=icc, shape=shape)
        for icc, shape, rate in product(iccs, SHAPES, rates)
        if icc or shape == "beta"
    ]


@dataclass(frozen=True, kw_only=True)
class CountTable:
    """Histograms of the counts of a design."""

    n_tasks: int
    n_calls: int
    truths: list[Truth]
    """What the intervals are scored under, and what was drawn from, equally often each."""
    histograms: np.ndarray
    """One row per histogram; column j says how many tasks have j successes."""
    times: np.ndarray | None = None
    """How often each was drawn; None: all there are, nothing is drawn."""

    @property
    def n_draws(self):
        """Of all truths together."""
        return None if self.times is None else int(self.times.sum())

    def log_chances(self, truth):
        """Log chance of each histogram, but for the number of orders of its tasks."""
        return self.histograms @ truth.log_chances(self.n_calls)

    def log_ways(self):
        """Log of what turns chances into weights: the number of orders, or that of the draws."""
        if self.times is None:
            return gammaln(self.n_tasks + 1) - gammaln(self.histograms + 1).sum(axis=1)
        # Drawn under every truth, a histogram is weighed by its chance under one of them.
        drawn_with = logsumexp([self.log_chances(truth) for truth in self.truths], axis=0)
        return math.log(len(self.truths)) - drawn_with


def count_table(n_tasks, n_calls, *, draws, seed, iccs=ICCS):
    """Return all histograms of a design, or those of `draws` simulations of every truth."""
    # Coverage is worst just past the end of an interval: that rate is scored, too.
    scored = truths((*RATES, trough(n_tasks, n_calls)), iccs=iccs)
    facts = {"n_tasks": n_tasks, "n_calls": n_calls, "truths": scored}
    if is_exact(n_tasks, n_calls):
        counts = np.array(list(combinations_with_replacement(range(n_calls + 1), n_tasks)))
        columns = [(counts == count).sum(axis=1) for count in range(n_calls + 1)]
        return CountTable(**facts, histograms=np.stack(columns, axis=1))
    rng = np.random.default_rng([seed, n_tasks, n_calls])
    chances = [np.exp(truth.log_chances(n_calls)) for truth in scored]
    drawn = [rng.multinomial(n_tasks, chance / chance.sum(), size=draws) for chance in chances]
    rows, times = np.unique(np.concatenate(drawn), axis=0, return_counts=True)
    return CountTable(**facts, histograms=rows, times=times.astype(np.float64))


def is_exact(n_tasks, n_calls):
    """Whether a design has so few histograms that none need be drawn."""
    return math.comb(n_tasks + n_calls, n_calls) <= MOST_HISTOGRAMS


def trough(n_tasks, n_calls):
    """Rate just over the upper end of no success at all, where that sample begins to miss."""
    none = proportions.cluster_interval(np.zeros(n_tasks), np.full(n_tasks, float(n_calls)))
    return none[1] * 1.0005


def interval_ends(table, *, replicates=1, apply=map, chunk=200):
    """Ends of the former and of the present interval of each histogram: four columns.

    With `replicates` so many calls of a task are one unit, their mean. Of a histogram and its
    mirror only one is computed.
    """
    histograms = table.histograms
    # Successes and failures exchanged give the mirrored interval: half of the work is saved.
    mirrors = histograms[:, ::-1]
    first = (histograms != mirrors).argmax(axis=1)[:, None]
    turned = np.take_along_axis(histograms < mirrors, first, axis=1)
    unique, at = np.unique(np.where(turned, mirrors, histograms), axis=0, return_inverse=True)
    chunks = np.array_split(unique, math.ceil(len(unique) / chunk))
    computed = apply(partial(both_intervals, replicates=replicates), chunks)
    ends = np.concatenate(list(computed))[at.ravel()]
    return np.where(turned, 1 - ends[:, [1, 0, 3, 2]], ends)


def both_intervals(histograms, *, replicates=1):
    """Ends of `cluster_wilson` and of `cluster_interval` of each histogram."""
    values = np.arange(histograms.shape[1]) / replicates
    sizes = np.full(histograms[0].sum(), values[-1])
    ends = []
    for histogram in histograms:
        hits = np.repeat(values, histogram)
        old = proportions.cluster_wilson(hits, sizes)
        ends.append([*old, *proportions.cluster_interval(hits, sizes)])
    return np.array(ends)


@dataclass(frozen=True, kw_only=True)
class IntervalCell:
    """Both intervals in one design under one truth: `cluster_interval` and the former one."""

    n_tasks: int
    n_calls: int
    rate: float
    icc: float
    shape: str
    n_draws: int | None
    """Of the design, shared by its cells; None: exact."""
    coverage: float
    error: float
    """Standard error of the coverage; 0 where nothing was drawn."""
    too_low: float
    """Share of intervals that lie wholly under the truth."""
    too_high: float
    width: float
    old: dict[str, Any]
    """Coverage, misses and width of `cluster_wilson`."""

    @property
    def fails(self):
        """Whether the interval covers less than the floor, beyond the error of the draws."""
        return self.judged and self.coverage < LOW - N_ERRORS * self.error

    @property
    def judged(self):
        """Whether the interval promises to hold there."""
        return self.shape in JUDGED

    @property
    def name(self):
        """Design and truth."""
        design = f"{self.n_tasks} tasks × {self.n_calls} calls"
        return f"{design}, ICC {self.icc:g}, rate {self.rate:.4g}, {self.shape}"

    def __str__(self):
        return f"{self.name}: {self.coverage:.3f} ± {self.error:.3f}"


def cells(table, ends, *, under=()):
    """Score both intervals under these truths, or under those of the table."""
    ways = table.log_ways()
    for truth in under or table.truths:
        weights = np.exp(table.log_chances(truth) + ways)
        yield IntervalCell(
            n_tasks=table.n_tasks,
            n_calls=table.n_calls,
            rate=truth.rate,
            icc=truth.icc,
            shape=truth.shape,
            n_draws=table.n_draws,
            **_score(table, weights, ends[:, 2:], truth.rate),
            old=_score(table, weights, ends[:, :2], truth.rate),
        )


def _score(table, weights, ends, rate):
    n = table.n_draws
    shares = weights if n is None else weights * table.times / n
    # An end that is the rate itself holds it, whatever the last digit.
    under = ends[:, 1] < rate - 1e-12
    over = ends[:, 0] > rate + 1e-12
    missed = float(shares[under | over].sum())
    variance = 0.0
    if n is not None:
        # The spread of the draws' terms: the weight where the interval misses, 0 elsewhere.
        variance = max(0.0, float((shares * weights)[under | over].sum()) - missed**2) / n
    return {
        "coverage": 1 - missed,
        "error": math.sqrt(variance),
        "too_low": float(shares[under].sum()),
        "too_high": float(shares[over].sum()),
        "width": float(shares @ (ends[:, 1] - ends[:, 0]) / shares.sum()),
    }


def between_rates(table, ends):
    """Score both intervals at rates in small steps; in exact designs only.

    Draws at the listed rates know little of a rate far from all of them.
    """
    if table.times is not None:
        return []
    steps = np.round([*np.geomspace(0.005, 0.1, 31), *np.linspace(0.1, 0.5, 21)], 5).tolist()
    iccs = dict.fromkeys(truth.icc for truth in table.truths)
    return list(cells(table, ends, under=truths(sorted({*steps} - {*RATES}), iccs=iccs)))


def weighed_cells(n_tasks=N_TASKS, n_calls=N_CALLS, *, iccs=ICCS, draws=1000, seed=0, apply=map):
    """Score both intervals in every design of `n_tasks` tasks with `n_calls` calls each.

    `draws` are simulations per truth in designs too large to sum; 0 leaves those out. They are made
    here, and not where intervals are computed: the number of processes changes nothing.
    """
    scored = []
    for calls, tasks in product(n_calls, n_tasks):
        if draws or is_exact(tasks, calls):
            table = count_table(tasks, calls, draws=draws, seed=seed, iccs=iccs)
            ends = interval_ends(table, apply=apply)
            scored += [*cells(table, ends), *between_rates(table, ends)]
    return scored


def check_intervals(size, apply):
    """Weigh the designs of the size."""
    n_tasks = N_TASKS[:1] if size.quick else N_TASKS
    iccs = size.iccs or ICCS
    return weighed_cells(n_tasks, iccs=iccs, draws=size.draws, seed=size.seed, apply=apply)


_LEGEND = """
Intervals of nominal 95 %; old: Wilson on the effective n, new: its hull with a beta-binomial
posterior interval. coverage, width: the least, and the mean, over seven rates from .005 to .5
(rates over .5 are their mirror), tasks beta-distributed. shapes: the least where tasks are
all-or-none, or have a rate of 0 or q. any rate: the least of these and of the rate just over the
upper end of no success, in exact designs also of rates in small steps. New only: q or 1 is not
judged (docs/statistics.md); under, over: the largest share of intervals wholly under or over the
truth.
"""


def _design_row(cells_of_design):
    """Print all rates and shapes of one design at one ICC."""
    judged = [cell for cell in cells_of_design if cell.judged]
    listed = [cell for cell in judged if cell.rate in RATES]
    beta = [cell for cell in listed if cell.shape == "beta"]
    first = min(beta, key=lambda cell: cell.coverage)
    row = {
        "tasks × calls": f"{first.n_tasks} × {first.n_calls}",
        "ICC": f"{first.icc:g}",
        "coverage: old": _least_old(beta),
        "coverage: new": _least(beta),
        "at rate": f"{first.rate:g}",
        "shapes: old": _least_old(cell for cell in listed if cell.shape != "beta"),
        "shapes: new": _least(cell for cell in listed if cell.shape != "beta"),
        "any rate: old": _least_old(judged),
        "any rate: new": _least(judged),
        "q or 1": _least(cell for cell in cells_of_design if not cell.judged),
    }
    for head, field in {"under": "too_low", "over": "too_high", "± s.e.": "error"}.items():
        row[head] = f"{max(getattr(cell, field) for cell in listed):.3f}"
    row["width: old"] = f"{np.mean([cell.old['width'] for cell in beta]):.3f}"
    row["width: new"] = f"{np.mean([cell.width for cell in beta]):.3f}"
    return row


def _least(chosen):
    coverages = [cell.coverage for cell in chosen]
    return f"{min(coverages):.3f}" if coverages else ""


def _least_old(chosen):
    coverages = [cell.old["coverage"] for cell in chosen]
    return f"{min(coverages):.3f}" if coverages else ""


def intervals_text(scored):
    """Return a row per design and ICC, the legend, and the cell that is covered least."""
    designs = {}
    drawn = {}
    for cell in scored:
        designs.setdefault((cell.n_tasks, cell.n_calls, cell.icc), []).append(cell)
        if cell.n_draws:
            drawn[f"{cell.n_tasks} × {cell.n_calls}: {cell.n_draws:,} draws"] = True
    judged = [cell for cell in scored if cell.judged]
    least = min(judged, key=lambda cell: cell.coverage)
    failing = sum(cell.fails for cell in judged)
    exact = f"exact but for {', '.join(drawn) or 'none'}"
    return "\n".join(
        [
            table_text([_design_row(design) for design in designs.values()]) + _LEGEND,
            f"{len(judged):,} cells, {failing} under 93 %; {exact}.",
            f"Least coverage {least.coverage:.3f} ± {least.error:.3f}: {least.name}.\n",
        ]
    )


PART = Part(word="intervals", simulations=(check_intervals,), text=intervals_text, by_seeds=False)
