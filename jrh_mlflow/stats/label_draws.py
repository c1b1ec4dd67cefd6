"""Items to label: how many of each stratum, how wide the corrected rate then is, and how many labels a width needs."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from jrh_mlflow.stats import Array, Codes

_Z = 1.959963984540054
FEWEST_LABELS = 20
"""A plan for fewer would rest on an interval that is not known to hold."""
_LEAST = 2
"""Labels of each stratum: one tells nothing of the spread."""
_LEAST_SPREAD = 0.15
"""Of a stratum: even a sure score is wrong at times, and no weight is to be very large."""


def allocated(sizes: Array, spreads: Array, n: int) -> Codes:
    """Divide `n` labels over strata, in proportion to size times spread (Neyman), at least 2 and at most all of each.

    Reference:
        Neyman (1934), J. R. Stat. Soc. 97:558-625.

    Example:
        >>> allocated(np.array([900.0, 100.0]), np.array([0.1, 0.5]), 50)
        array([32, 18])
    """
    if not 0 < n <= sizes.sum():
        raise ValueError(f"`0 < n <= items` must hold, but got {n=}, items={sizes.sum():g}.")
    wanted, least = sizes * spreads, np.minimum(_LEAST, sizes)
    if n <= least.sum():
        least = np.zeros(len(sizes))
    # The total rises in straight lines between the shares at which a stratum leaves its least or has all it has.
    shares = np.sort([0.0, *(least / wanted), *(sizes / wanted)])
    totals = np.clip(np.outer(shares, wanted), least, sizes).sum(axis=1)
    exact = np.clip(float(np.interp(n, totals, shares)) * wanted, least, sizes)
    given = np.floor(exact + 1e-9)
    rest = np.where(given < sizes, exact - given, -1.0)
    given[np.argsort(-rest.round(9), kind="stable")[: n - int(given.sum())]] += 1
    return given.astype(np.intp)


def score_strata(scores: Array, *, most: int = 5) -> tuple[Codes, Array]:
    """Cut scores in 0 … 1 into strata of about equal size; return the stratum of each, and the spread of strata.

    A score is taken as the chance of a pass, so the spread is the root of p (1 - p): most where the judge is not sure.
    """
    edges = np.unique(np.quantile(scores, np.linspace(0, 1, most + 1)[1:-1], method="higher"))
    _, strata = np.unique(np.searchsorted(edges, scores, side="right"), return_inverse=True)
    means = np.bincount(strata.ravel(), weights=scores) / np.bincount(strata.ravel())
    return strata.ravel().astype(np.intp), np.maximum(_LEAST_SPREAD, np.sqrt(means * (1 - means)))


def random_width(sizes: Array, rates: Array, n: int) -> float:
    """Width of the 95 % interval of PPI++ from `n` random labels, by the variance of large samples.

    `(var(human) - cov^2 / ((1 + n / rest) var(judge))) / n`, the judge's verdicts being the strata, `rates` what people
    pass of each. All items labelled: that of people alone.
    """
    total = sizes.sum()
    shares = sizes / total
    rate = float(shares @ rates)
    explained = float(shares @ np.square(rates - rate))
    rest = total - n
    left = rate * (1 - rate) - (explained / (1 + n / rest) if rest > 0 else 0.0)
    return 2 * _Z * math.sqrt(left / n)


def stratified_width(sizes: Array, rates: Array, drawn: Array) -> float:
    """Width of the 95 % interval from `drawn` labels of each stratum, by the variance of large samples.

    `sum(W^2 r (1 - r) / n_h)`, and what the shares of the strata leave open, `sum(W (r - rate)^2) / items`.
    """
    shares = sizes / sizes.sum()
    rate = float(shares @ rates)
    within = float((shares**2 * rates * (1 - rates) / np.maximum(drawn, 1)).sum())
    return 2 * _Z * math.sqrt(within + float(shares @ np.square(rates - rate)) / sizes.sum())


def likeness(values: Array, clusters: Codes) -> float | None:
    """Correlation of two values of one cluster around 0, in 0 … 1: mean product of pairs over the mean square.

    Returns:
        None where no two values are of one cluster, or all are 0.

    Example:
        >>> likeness(np.array([1.0, 1, -1, -1]), np.array([0, 0, 1, 1]))
        1.0
    """
    sums, squares, sizes = (np.bincount(clusters, weights=part) for part in (values, values**2, np.ones(len(values))))
    pairs, square = float((sizes * (sizes - 1)).sum()), float(squares.sum()) / len(values)
    if pairs == 0 or square == 0:
        return None
    return min(1.0, max(0.0, float((sums**2 - squares).sum()) / pairs / square))


def cluster_width_factor(clusters: Codes, likeness: float, n: int) -> float:
    """How many times as wide the interval of `n` items drawn one by one is where those of one cluster are alike.

    `sqrt(1 + ρ (m - 1) n / items)`, m the mean size of the cluster that an item is of: as many more items of its
    cluster are drawn with it (Kish 1965).
    """
    sizes = np.bincount(clusters)
    more = float((sizes**2).sum()) / len(clusters) - 1
    return math.sqrt(1 + likeness * more * n / len(clusters))


def labels_for_width(width_at: Callable[[int], float], items: int, width: float) -> int | None:
    """Fewest labels, at least 20, with which an interval is no wider than wanted; None where no number does it."""
    if width_at(items) > width:
        return None
    low, high = min(FEWEST_LABELS, items) - 1, items
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if width_at(middle) <= width else (middle, high)
    return high
