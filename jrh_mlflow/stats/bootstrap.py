"""Cluster bootstrap: whole clusters are drawn with replacement, because calls on one item are not independent."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import lru_cache

import numpy as np
from scipy import special

from jrh_mlflow.stats import Array, Codes, Interval

Statistic = Callable[[Codes], float | None]

MAX_UNDEFINED = 0.2
"""Largest share of resamples without a value; past it the rest says too little of the statistic."""

_BLOCK = 1_000_000
"""Draws held in memory at a time."""


def cluster_bootstrap(
    statistic: Statistic, clusters: Codes, *, n_resamples: int = 1000, seed: int = 0, level: float = 0.95
) -> Interval | None:
    """Percentile interval of `statistic` over resamples of whole clusters.

    `clusters` names the cluster of each row; the statistic is given row indices, those of a cluster drawn twice
    twice. The percentiles are expanded for few clusters, see `expanded_tail`.

    Reference:
        Davison & Hinkley (1997), Bootstrap Methods and their Application, section 3.8.

    Returns:
        The interval over the resamples where the statistic is defined (not None, not NaN), or None with fewer than
        two clusters, when it is undefined in more than 20 % of the resamples, or when the interval has no width.

    Example:
        >>> values = np.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 9.0])
        >>> clusters = np.array([0, 0, 1, 1, 2, 2, 3, 3])
        >>> low, high = cluster_bootstrap(lambda rows: values[rows].mean(), clusters)
        >>> round(low, 2), round(high, 2)
        (1.56, 8.0)
    """
    _check(n_resamples=n_resamples, level=level)
    _, inverse, sizes = np.unique(clusters, return_inverse=True, return_counts=True)
    k = len(sizes)
    if k < 2:
        return None
    order = np.argsort(inverse, kind="stable")
    starts = np.cumsum(sizes) - sizes
    draws = (draw for block in _draws(k, n_resamples=n_resamples, seed=seed) for draw in block)
    resampled = (statistic(order[_positions(starts[draw], sizes[draw])]) for draw in draws)
    values = np.fromiter((np.nan if value is None else value for value in resampled), float, count=n_resamples)
    return percentile_interval(values, n_clusters=k, level=level)


def resampled_sums(sums: Array, *, n_resamples: int = 1000, seed: int = 0) -> Iterator[Array]:
    """Yield the totals of `sums` (clusters × features) over resampled clusters, in blocks of resamples × features.

    For statistics that are functions of sums: hand the values of all blocks to `percentile_interval`. The same seed
    draws the same clusters as `cluster_bootstrap`.

    Example:
        >>> [block.shape for block in resampled_sums(np.ones((4, 2)), n_resamples=10)]
        [(10, 2)]
    """
    k, n_features = sums.shape
    rows = max(1, _BLOCK // max(1, n_features))
    if n_resamples <= min(rows, _BLOCK // k):
        yield _all_weights(k, n_resamples, seed) @ sums
        return
    for draws in _draws(k, n_resamples=n_resamples, seed=seed):
        for start in range(0, len(draws), rows):
            yield _weights(draws[start : start + rows]) @ sums


def percentile_interval(values: Array, *, n_clusters: int, level: float = 0.95) -> Interval | None:
    """Interval of resampled `values` by the rules of `cluster_bootstrap`; what is not finite counts as undefined.

    Example:
        >>> [round(end, 2) for end in percentile_interval(np.arange(101.0), n_clusters=1000)]
        [2.48, 97.52]
    """
    defined = values[np.isfinite(values)]
    k = n_clusters
    if k < 2 or len(values) - len(defined) > MAX_UNDEFINED * len(values) or len(defined) == 0:
        return None
    tail = expanded_tail(k, level=level)
    low, high = (float(end) for end in np.quantile(defined, [tail, 1 - tail]))
    # Equal values can differ in the last bit when their rows come in another order.
    return None if math.isclose(low, high, rel_tol=1e-12, abs_tol=1e-12) else (low, high)


@lru_cache(maxsize=1024)
def expanded_tail(k: int, *, level: float) -> float:
    """Share of the resamples beyond each end, `Phi(-sqrt(k / (k - 1)) t_{k - 1})`, which tends to (1 - level) / 2.

    The plain percentile interval of k clusters is narrower than it should be by about sqrt((k - 1) / k) and ignores t.

    Reference:
        Hesterberg (2015), Am. Stat. 69:371-386, section 3.4.

    Example:
        >>> round(expanded_tail(10, level=0.95), 4), round(expanded_tail(10_000, level=0.95), 4)
        (0.0086, 0.025)
    """
    return float(special.ndtr(-math.sqrt(k / (k - 1)) * special.stdtrit(k - 1, (1 + level) / 2)))


def _check(*, n_resamples: int, level: float) -> None:
    if n_resamples < 1 or not 0 < level < 1:
        raise ValueError(f"`n_resamples >= 1` and `0 < level < 1` must hold, but got {n_resamples=}, {level=}.")


def _draws(k: int, *, n_resamples: int, seed: int) -> Iterator[Codes]:
    """Yield blocks of resamples, one row of k drawn clusters each."""
    rng = np.random.default_rng(seed)
    rows = max(1, _BLOCK // k)
    for start in range(0, n_resamples, rows):
        yield rng.integers(k, size=(min(rows, n_resamples - start), k), dtype=np.intp)


@lru_cache(maxsize=4)
def _all_weights(k: int, n_resamples: int, seed: int) -> Array:
    """Draw one block of resamples; every axis of a suite draws the same clusters, so the last few blocks are kept."""
    (draws,) = _draws(k, n_resamples=n_resamples, seed=seed)
    weights = _weights(draws)
    weights.flags.writeable = False
    return weights


def _positions(starts: Codes, sizes: Codes) -> Codes:
    """Return start, start + 1, … of each run, one run after the other, without a loop over runs."""
    ends = np.cumsum(sizes)
    return np.repeat(starts - (ends - sizes), sizes) + np.arange(ends[-1])


def _weights(draws: Codes) -> Array:
    """How often each resample (row) drew each cluster (column): a multinomial sample."""
    rows, k = draws.shape
    cells = draws + k * np.arange(rows)[:, None]
    return np.bincount(cells.ravel(), minlength=rows * k).reshape(rows, k).astype(float)
