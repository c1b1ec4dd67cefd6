"""Step-down max-T over joint sign flips of clusters: p-values adjusted for a family of correlated paired differences.

Holm's adjustment takes the worst dependence: with ten clusters no sign-flip p is under .002, and 48 tests need .001.
Differences of the same judges on the same clusters are correlated; flipping the signs of whole clusters for all
hypotheses at once keeps that correlation, so the largest statistic is compared with the largest under each pattern.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from jrh_mlflow.stats import Array

TOLERANCE = 1e-9
"""Statistics this close are a tie, and a spread under it is what rounding left of no difference."""
_BLOCK = 1000
"""Patterns looked at together."""


@dataclass(frozen=True, kw_only=True, slots=True)
class MaxT:
    """A family of hypotheses, in the order given."""

    p: Array
    """Unadjusted two-sided sign-flip p-values; 1 where no cluster differs."""
    p_adjusted: Array
    """Reject where at most the level: the chance of any false rejection is then at most the level."""
    statistic: Array
    """`|sum_j d_j| / sqrt(sum_j d_j^2)`; 0 where no cluster differs."""
    critical: float | None
    """A statistic over this is told apart at the level in the first step. None: no sign pattern gives one, so nothing
    could be told apart whatever its direction: too few clusters differ."""
    n_patterns: int
    """Sign patterns, the observed one among them."""


def max_t(sums: Array, *, n_resamples: int = 9999, seed: int = 0, alpha: float = 0.05) -> MaxT:
    """Adjusted p-values of hypotheses h with the differences `d_hj`, summed over the units of cluster j.

    `T_h = |sum_j d_hj| / sqrt(sum_j d_hj^2)`, so no hypothesis speaks louder because of its unit or its number of
    calls. With the hypotheses ordered by T, the i-th gets the share of sign patterns whose largest statistic among
    i, i + 1, … is at least `T_(i)`, and no less than the one before it. A cluster that a hypothesis lacks is 0.

    Exact over all 2^k patterns of the k clusters that differ where these are fewer than the draws (up to 14); else
    Monte Carlo with the correction by 1. The family-wise error holds when the clusters' differences are symmetric
    around 0, as they are for judges with the same distribution of scores.

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
    return _step_down(sign_patterns(len(sums), n_resamples=n_resamples, seed=seed) @ scaled, alpha=alpha)


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
        flips[0] = 0
    return np.asarray(1.0 - 2.0 * flips)


def max_t_of_statistics(statistics: Array, *, alpha: float = 0.05) -> MaxT:
    """`max_t` from the differences under every pattern of `sign_patterns`: patterns × hypotheses.

    For what is no sum over clusters. Each hypothesis is divided by its root mean square over the patterns, which for
    sums over all patterns is `sqrt(sum_j d_j^2)`. A difference that is undefined (NaN) under a pattern counts as 0.
    """
    values = np.nan_to_num(statistics, nan=0.0)
    return _step_down(_scaled(values, np.sqrt((values**2).mean(axis=0))), alpha=alpha)


def _scaled(values: Array, scale: Array) -> Array:
    differs = scale > TOLERANCE
    return np.asarray(np.where(differs, values / np.where(differs, scale, 1.0), 0.0))


def _step_down(values: Array, *, alpha: float) -> MaxT:
    seen = np.abs(values[0])
    order = np.argsort(-seen, kind="stable")
    limit = seen[order] - TOLERANCE
    plain, joint, maxima = np.zeros(len(seen)), np.zeros(len(seen)), []
    for start in range(0, len(values), _BLOCK):
        block = np.abs(values[start : start + _BLOCK, order])
        # Largest among a hypothesis and those after it, pattern by pattern.
        largest = np.maximum.accumulate(block[:, ::-1], axis=1)[:, ::-1]
        plain += (block >= limit).sum(axis=0)
        joint += (largest >= limit).sum(axis=0)
        maxima.append(largest[:, :1])
    p, adjusted = np.empty(len(seen)), np.empty(len(seen))
    p[order] = plain / len(values)
    adjusted[order] = np.maximum.accumulate(joint) / len(values)
    return MaxT(
        p=p,
        p_adjusted=adjusted,
        statistic=seen,
        critical=_critical(np.concatenate(maxima).ravel(), alpha=alpha),
        n_patterns=len(values),
    )


def _critical(largest: Array, *, alpha: float) -> float | None:
    """Return the value that a share of at most alpha of the largest statistics is over; None when none is over it."""
    ranked = np.sort(largest)[::-1]
    if len(ranked) == 0:
        return None
    allowed = int(np.floor(alpha * len(ranked) + TOLERANCE))
    critical = ranked[min(allowed, len(ranked) - 1)]
    return float(critical) if ranked[0] > critical + TOLERANCE else None
