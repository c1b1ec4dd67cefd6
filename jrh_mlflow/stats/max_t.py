"""Step-down max-T over joint sign flips of clusters: p-values adjusted for a family of correlated paired differences.

Holm's adjustment takes the worst dependence: with ten clusters no sign-flip p is under .002, and 48 tests need .001.
Differences of the same judges on the same clusters are correlated; flipping the signs of whole clusters for all
hypotheses at once keeps that correlation, so the largest statistic is compared with the largest under each pattern.

Sign flips are right where differences are as likely to be x as -x. Two judges with one mean may differ unlike between
tasks: the one errs a little everywhere, the other always on one task in ten, and ten tasks without such a one show the
same sign nearly everywhere. No statistic of the differences sees what did not occur. `share_limit` does: it asks what
rates the counts of each judge allow for any correlation between the calls of a task, and what a difference may claim.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import special

from jrh_mlflow.stats import Array
from jrh_mlflow.stats.proportions import newcombe, rate_posterior, share_correlation

TOLERANCE = 1e-9
"""Statistics this close are a tie, and a spread under it is what rounding left of no difference."""
_TAIL = 0.025
"""One-sided error of a 95 % interval."""
_LEAST_ERROR = 1e-6
"""The grid of a posterior says nothing of smaller ones."""


@dataclass(frozen=True, kw_only=True, slots=True)
class MaxT:
    """A family of hypotheses, in the order given."""

    p: Array
    """Unadjusted two-sided sign-flip p-values, without any limit; 1 where no cluster differs."""
    p_adjusted: Array
    """Reject where at most the level: the chance of any false rejection is then at most the level."""
    statistic: Array
    """`|sum_j d_j| / sqrt(sum_j d_j^2)`, or its limit where that is less; 0 where no cluster differs."""
    critical: float | None
    """A statistic over this is told apart at the level in the first step. None: no sign pattern gives one, so nothing
    could be told apart whatever its direction: too few clusters differ."""
    n_patterns: int
    """Sign patterns, the observed one among them."""


def max_t(
    sums: Array, *, limits: Array | None = None, n_resamples: int = 9999, seed: int = 0, alpha: float = 0.05
) -> MaxT:
    """Adjusted p-values of hypotheses h with the differences `d_hj`, summed over the units of cluster j.

    `T_h = |sum_j d_hj| / sqrt(sum_j d_hj^2)`, so no hypothesis speaks louder because of its unit or its number of
    calls. With the hypotheses ordered by T, the i-th gets the share of sign patterns whose largest statistic among
    i, i + 1, … is at least `T_(i)`, and no less than the one before it. A cluster that a hypothesis lacks is 0.

    Exact over all 2^k patterns of the k clusters that differ where these are fewer than the draws (up to 14); else
    Monte Carlo with the correction by 1. The family-wise error holds when the clusters' differences are symmetric
    around 0, as they are for judges with the same distribution of scores. For shares of judges that may differ
    otherwise, give their `limits`: without them it reaches .8 (`make validate ONLY=decisions`).

    Args:
        sums: Clusters × hypotheses.
        limits: The largest statistic that each hypothesis may claim, see `share_limit`; None: no limit.
        n_resamples: Patterns drawn where there are more than these.
        seed: Of the draws.
        alpha: Level of `critical`.

    Reference:
        Westfall & Young (1993), Resampling-Based Multiple Testing, Algorithms 2.8 and 4.1; the correction by 1 as in
        Phipson & Smyth (2010), Stat. Appl. Genet. Mol. Biol. 9:39.

    Example:
        >>> sums = np.array([[12.0, 1.0], [12.0, -1.0], [12.0, 2.0], [12.0, 0.0], [11.0, 0.0], [12.0, -1.0]])
        >>> max_t(sums).p_adjusted
        array([0.03125, 1.     ])
    """
    if sums.ndim != 2 or not np.isfinite(sums).all():
        raise ValueError(f"A finite sum for clusters × hypotheses is needed, but got shape {sums.shape} or a NaN.")
    # A cluster of sum 0 is the same under both signs.
    sums = sums[(np.abs(sums) > TOLERANCE).any(axis=1)]
    scaled = _scaled(sums, np.sqrt((sums**2).sum(axis=0)))
    return _step_down(sign_patterns(len(sums), n_resamples=n_resamples, seed=seed) @ scaled, limits, alpha=alpha)


def sign_patterns(n_clusters: int, *, n_resamples: int = 9999, seed: int = 0) -> Array:
    """Rows of +1 and -1, one per pattern; the first is all +1, the data as observed.

    All patterns where they are no more than the draws. A pattern and its opposite give the same size of any
    difference between two judges, so the first cluster keeps its sign: 2^(k - 1) rows.

    Example:
        >>> sign_patterns(2)
        array([[ 1.,  1.],
               [ 1., -1.]])
    """
    if n_resamples < 1:
        raise ValueError(f"`n_resamples >= 1` must hold, but got {n_resamples=}.")
    if 2 ** max(n_clusters - 1, 0) <= n_resamples + 1:
        flips = np.arange(2 ** max(n_clusters - 1, 0))[:, None] >> np.arange(n_clusters)[::-1] & 1
    else:
        flips = np.random.default_rng(seed).integers(2, size=(1 + n_resamples, n_clusters))
        # The data as observed are one of the patterns: without them a p-value could be 0.
        flips[0] = 0
    return np.asarray(1.0 - 2.0 * flips)


def max_t_of_statistics(statistics: Array, *, limits: Array | None = None, alpha: float = 0.05) -> MaxT:
    """`max_t` from the differences under every pattern of `sign_patterns`: patterns × hypotheses.

    For what is no sum over clusters. Each hypothesis is divided by its root mean square over the patterns, which for
    sums over all patterns is `sqrt(sum_j d_j^2)`. A difference that is undefined (NaN) under a pattern counts as 0.
    """
    values = np.nan_to_num(statistics, nan=0.0)
    return _step_down(_scaled(values, np.sqrt((values**2).mean(axis=0))), limits, alpha=alpha)


def max_t_of_estimates(
    differences: Array, errors: Array, effects: Array, *, df: int, n_resamples: int = 9999, seed: int = 0
) -> MaxT:
    """`max_t` for estimates that are no sums of signs: `T_h = |d_h| / s_h` against draws of a multivariate t.

    The draws have the correlation of the estimates, `sum_i a_hi a_gi` over the roots of the squares. A hypothesis whose
    effects are not known (all 0) is drawn by itself, which is never less strict (Šidák 1967, JASA 62:626-633).

    Args:
        differences: One estimate for each hypothesis.
        errors: Their standard errors.
        effects: What each item adds to the estimate, hypotheses × items.
        df: Degrees of freedom.
        n_resamples: Draws.
        seed: Of the draws.

    Example:
        >>> max_t_of_estimates(np.array([5.0, 0.1]), np.ones(2), np.zeros((2, 1)), df=100).p_adjusted < 0.05
        array([ True, False])
    """
    rng, scaled = np.random.default_rng(seed), _scaled(effects.T, np.sqrt((effects**2).sum(axis=1)))
    together = scaled.T @ scaled
    np.fill_diagonal(together, 1.0)
    draws = rng.multivariate_normal(np.zeros(len(differences)), together, size=n_resamples, method="eigh")
    draws /= np.sqrt(rng.chisquare(df, n_resamples) / df)[:, None]
    return _step_down(np.vstack([differences / errors, draws]), None, alpha=0.05)


def share_limit(successes_a: Array, successes_b: Array, sizes: Array) -> float:
    """Largest statistic that the difference of two judges' shares may claim in `max_t`, one count per cluster.

    Let e be the one-sided error at which `newcombe`'s interval of the difference, from the two
    `beta_binomial_interval`s and `share_correlation`, just holds 0. The limit is the statistic that a t test with
    k - 1 degrees of freedom gives the two-sided p-value e: a level that the sign flips claim is granted where the
    interval's end errs no more often. Where the 95 % interval holds 0 the p-value is 2 e, which is over .05.

    Where the clusters of a judge are all hits or none, the counts cannot tell whether it answers each task alike (an
    ICC of 1): its end is then no nearer than that of Clopper and Pearson with clusters as units.

    With ten clusters of 12 calls, 4 judges × 8 axes, the family-wise error for an ICC of 0 against .6 falls from .7 to
    .01 or less; power for a difference of .5 from .68 to .65 (docs/reference/decisions_measured.md).

    Args:
        successes_a: Per cluster; fractions are allowed. Replicates collapsed, see `collapse_replicates`.
        successes_b: Of the other judge, on the same units.
        sizes: Units that both answered.

    Returns:
        The limit; infinite where that error is under one in a million, and with fewer than two clusters.

    Example:
        >>> everywhere, nowhere_yet = np.full(10, 1.0), np.zeros(10)
        >>> round(share_limit(everywhere, nowhere_yet, np.full(10, 12.0)), 2)
        0.22
        >>> round(share_limit(everywhere * 3, nowhere_yet, np.full(10, 12.0)), 2)
        1.57
    """
    k, total = int((sizes > 0).sum()), float(sizes.sum())
    if k < 2:
        return math.inf
    shares = float(successes_a.sum()) / total, float(successes_b.sum()) / total
    together = share_correlation(successes_a, sizes, successes_b, sizes)
    # The smaller share comes first: only the lower end of the difference matters, which rests on one end of each.
    (less, first), (more, second) = sorted(zip(shares, (successes_a, successes_b), strict=True), key=lambda x: x[0])
    below, above = rate_posterior(first, sizes), rate_posterior(second, sizes)
    all_below, all_above = (all_or_none(hits, sizes) for hits in (first, second))

    def excluded(tail: float) -> bool:
        high, low = below.high(tail), above.low(tail)
        # Nothing seen within a task speaks against a judge that answers a whole task alike: tasks are then the units.
        high = max(high, exact_end(less, k, tail)) if all_below else high
        low = min(low, 1 - exact_end(1 - more, k, tail)) if all_above else low
        ends = (less, max(less, high)), (min(more, low), more)
        return newcombe(less, ends[0], more, ends[1], correlation=together)[0] > 0

    if excluded(_LEAST_ERROR):
        return math.inf
    error = _error_at(excluded)
    t = -float(special.stdtrit(k - 1, error / 2 if error <= _TAIL else error))
    return math.sqrt(k * t * t / (k - 1 + t * t))


def all_or_none(successes: Array, sizes: Array) -> bool:
    """Whether every cluster is all hits or none, as those of a judge are that answers a whole task alike."""
    return bool((np.minimum(successes, sizes - successes) <= TOLERANCE).all())


def exact_end(share: float, n: int, tail: float) -> float:
    """Upper end of Clopper and Pearson for a share of n units; 1 where every unit is a hit.

    Example:
        >>> round(exact_end(0.0, 28, 0.025), 3)
        0.123
    """
    hits = min(share * n, float(n))
    return 1.0 if hits >= n - TOLERANCE else float(special.betainccinv(hits + 1, n - hits, tail))


def _error_at(excluded: Callable[[float], bool]) -> float:
    """Bisect for the smallest one-sided error at which 0 is excluded, on the scale of logarithms."""
    low, high = math.log(_LEAST_ERROR), math.log(0.5)
    for _ in range(16):
        middle = (low + high) / 2
        low, high = (low, middle) if excluded(math.exp(middle)) else (middle, high)
    return math.exp(high)


def _scaled(values: Array, scale: Array) -> Array:
    differs = scale > TOLERANCE
    return np.asarray(np.where(differs, values / np.where(differs, scale, 1.0), 0.0))


def _step_down(values: Array, limits: Array | None, *, alpha: float) -> MaxT:
    sizes = np.ascontiguousarray(np.abs(values).T)
    free = sizes[:, 0]
    # A limit caps what a hypothesis may claim, never what chance can reach: the patterns stay as they are.
    seen = free if limits is None else np.minimum(free, limits)
    p, adjusted, largest = np.empty(len(seen)), np.empty(len(seen)), np.zeros(len(values))
    order = np.argsort(-seen, kind="stable")
    # Step-down: from the smallest statistic upwards, so that each is compared with itself and the smaller ones only.
    # The larger ones were rejected before it, or it would not be looked at.
    for h in order[::-1]:
        # Largest among a hypothesis and those after it, pattern by pattern.
        np.maximum(largest, sizes[h], out=largest)
        p[h] = (sizes[h] >= free[h] - TOLERANCE).mean()
        adjusted[h] = (largest >= seen[h] - TOLERANCE).mean()
    # A hypothesis cannot be rejected before a clearer one: adjusted p-values never fall along the order.
    adjusted[order] = np.maximum.accumulate(adjusted[order])
    critical = _critical(largest, alpha=alpha)
    return MaxT(p=p, p_adjusted=adjusted, statistic=seen, critical=critical, n_patterns=len(values))


def _critical(largest: Array, *, alpha: float) -> float | None:
    """Return the value that a share of at most alpha of the largest statistics is over; None when none is over it."""
    ranked = np.sort(largest)[::-1]
    allowed = int(np.floor(alpha * len(ranked) + TOLERANCE))
    critical = ranked[min(allowed, len(ranked) - 1)]
    return float(critical) if ranked[0] > critical + TOLERANCE else None
