"""Intervals for shares: Wilson on the counts, and Wilson on the effective n of a clustered sample."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from scipy import stats

from jrh_mlflow.stats import Array, Interval


@lru_cache(maxsize=65536)
def wilson(successes: int, n: int, *, level: float = 0.95) -> Interval:
    """Wilson score interval for `successes` among `n` independent units.

    Keeps a width at 0 and 1, where a bootstrap collapses to a point.

    Reference:
        Wilson (1927), J. Am. Stat. Assoc. 22:209-212.

    Example:
        >>> [round(x, 4) for x in wilson(80, 120)]
        [0.5783, 0.7447]
    """
    if not 0 <= successes <= n or n == 0:
        raise ValueError(f"`0 <= successes <= n` and `n > 0` must hold, but got {successes=}, {n=}.")
    interval = stats.binomtest(successes, n).proportion_ci(confidence_level=level, method="wilson")
    return float(interval.low), float(interval.high)


def wilson_share(share: float, n: float, *, level: float = 0.95) -> Interval:
    """Wilson interval for a share on an effective (not whole) n, for which scipy has no entry point.

    Equals `wilson` when `n` is whole; the ends are exact at 0 and 1.

    Example:
        >>> [round(x, 4) for x in wilson_share(80 / 120, 120)]
        [0.5783, 0.7447]
    """
    if not 0 <= share <= 1 or n <= 0:
        raise ValueError(f"`0 <= share <= 1` and `n > 0` must hold, but got {share=}, {n=}.")
    z = _normal_quantile(level)
    centre = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    low = 0.0 if share == 0 else max(0.0, centre - half)
    high = 1.0 if share == 1 else min(1.0, centre + half)
    return low, high


def design_effect(successes: Array, sizes: Array) -> float:
    """Variance of a clustered share over its variance under independence, at least 1.

    Ratio-estimator variance over clusters (Cochran 1977, section 11.8), with the k / (k - 1) correction:
    `deff = [k/(k-1) * sum_i (x_i - p m_i)^2 / M^2] / [p (1 - p) / M]`, M the number of units.
    Under independence its expectation is 1; values under 1 are noise and are not used to narrow an interval.
    At p = 0 or 1 the clusters show no spread to estimate it from and it is taken as 1.
    """
    used = sizes > 0
    x, m = successes[used], sizes[used]
    total, k = m.sum(), len(m)
    p = x.sum() / total
    if k < 2 or p in (0.0, 1.0):
        return 1.0
    clustered = k / (k - 1) * np.square(x - p * m).sum() / total**2
    return max(1.0, float(clustered / (p * (1 - p) / total)))


def cluster_wilson(successes: Array, sizes: Array, *, level: float = 0.95) -> Interval | None:
    """Wilson interval on the effective n `M / deff`, with the t quantile of k - 1 degrees of freedom.

    The t quantile enters as `n_eff * (z / t)^2` (Korn & Graubard 1998): with few clusters the design effect
    itself is uncertain. `jrh validate` prints the coverage.

    Returns:
        The interval, or None with fewer than two clusters: one task says nothing of the spread between tasks.
    """
    k = int((sizes > 0).sum())
    if k < 2:
        return None
    total = float(sizes.sum())
    shrink = (_normal_quantile(level) / _t_quantile(k - 1, level)) ** 2
    n_eff = total / design_effect(successes, sizes) * shrink
    return wilson_share(float(successes.sum()) / total, n_eff, level=level)


def newcombe(share_a: float, a: Interval, share_b: float, b: Interval) -> Interval:
    """Interval of `share_b - share_a` from the two shares' own intervals (square and add).

    Never of zero width. On the same items both shares tend to move together, so it is on the wide side.

    Reference:
        Newcombe (1998), Stat. Med. 17:873-890, method 10.
    """
    difference = share_b - share_a
    low = difference - math.hypot(share_b - b[0], a[1] - share_a)
    high = difference + math.hypot(b[1] - share_b, share_a - a[0])
    return max(-1.0, low), min(1.0, high)


@lru_cache
def _normal_quantile(level: float) -> float:
    return float(stats.norm.ppf((1 + level) / 2))


@lru_cache
def _t_quantile(df: int, level: float) -> float:
    return float(stats.t.ppf((1 + level) / 2, df))
