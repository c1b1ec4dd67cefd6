"""Agreement coefficients as functions of sums over items, and their intervals, which resample items.

Rows stand for items that were rated alike; `counts` says for how many. Missing labels are NaN.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from jrh_mlflow.stats import Array, Interval
from jrh_mlflow.stats.agreement import Level
from jrh_mlflow.stats.bootstrap import MAX_UNDEFINED

N_DRAWS = 2000
_BLOCK = 2_000_000
"""Weights held in memory at a time."""
_AGAINST, _IN_FAVOUR = 0.9, 0.1
"""Weight of an imagined item for and against agreement at the lower end; exchanged at the upper end."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Coefficient:
    """A coefficient of agreement, as a function of what is summed over items."""

    sums: Array
    """Rows × features."""
    score: Callable[[Array], Array]
    """Value of each row of totals; NaN where it is undefined."""
    against: Array
    """Features of an item on which nobody agrees."""
    in_favour: Array
    """Features of an item on which all agree."""


def item_intervals(
    coefficients: Sequence[Coefficient], counts: Array, *, level: float = 0.95, seed: int = 0, n_draws: int = N_DRAWS
) -> list[Interval | None]:
    """Intervals of coefficients by a Bayesian bootstrap of items with one imagined item at each end.

    Items are weighted by independent Gamma(1) draws instead of whole numbers, so that none is lost. To the lower end
    an imagined item of disagreement is added with weight Gamma(0.9), and one of agreement with Gamma(0.1); to the
    upper end the other way round. Of a share this is the posterior of `beta_binomial_interval` for independent items,
    near Clopper and Pearson's: perfect agreement on few items keeps a width.

    Reference:
        Rubin (1981), Ann. Stat. 9:130-134; Gaffke (2005), Math. Methods Stat. 14 (an imagined worst item).

    Returns:
        An interval for each; None where it is undefined in more than 20 % of the draws.
    """
    rng = np.random.default_rng(seed)
    features = np.hstack([one.sums for one in coefficients])
    blocks = []
    rows = max(1, _BLOCK // max(1, len(counts)))
    for start in range(0, n_draws, rows):
        weights = rng.standard_gamma(counts, size=(min(rows, n_draws - start), len(counts)))
        blocks.append(weights @ features)
    totals = np.concatenate(blocks)
    heavy, light = (rng.standard_gamma(shape, size=(n_draws, 1)) for shape in (_AGAINST, _IN_FAVOUR))
    tail = (1 - level) / 2
    found: list[Interval | None] = []
    at = 0
    for one in coefficients:
        own = totals[:, at : at + one.sums.shape[1]]
        at += one.sums.shape[1]
        lower = one.score(own + heavy * one.against + light * one.in_favour)
        upper = one.score(own + heavy * one.in_favour + light * one.against)
        ends = _quantile(lower, tail), _quantile(upper, 1 - tail)
        found.append(None if ends[0] is None or ends[1] is None else (ends[0], ends[1]))
    return found


def _quantile(values: Array, at: float) -> float | None:
    defined = values[np.isfinite(values)]
    if len(values) - len(defined) > MAX_UNDEFINED * len(values) or not len(defined):
        return None
    return float(np.quantile(defined, at))


def kappa(x: Array, y: Array, counts: Array, *, n_levels: int) -> Coefficient:
    """`cohen_kappa` of level codes 0 … n_levels - 1."""
    return _of_two(x, y, counts, n_levels, _kappa_score)


def ac1(x: Array, y: Array, counts: Array, *, n_levels: int) -> Coefficient:
    """`gwet_ac1` of two raters on level codes 0 … n_levels - 1."""
    return _of_two(x, y, counts, n_levels, _ac1_score)


def _of_two(x: Array, y: Array, counts: Array, n_levels: int, score: Callable[[Array], Array]) -> Coefficient:
    """Features: equal or not, the level of x, the level of y."""
    both = ~(np.isnan(x) | np.isnan(y))
    sums = np.zeros((len(x), 1 + 2 * n_levels))
    rows = np.flatnonzero(both)
    sums[rows, 0] = x[rows] == y[rows]
    sums[rows, 1 + x[rows].astype(int)] = 1
    sums[rows, 1 + n_levels + y[rows].astype(int)] = 1
    mean = counts @ sums / max(1.0, counts[rows].sum())
    pooled = (mean[1 : 1 + n_levels] + mean[1 + n_levels :]) / 2
    against = np.concatenate([[0.0], mean[1:]])
    return Coefficient(sums=sums, score=score, against=against, in_favour=np.concatenate([[1.0], pooled, pooled]))


def _shares(totals: Array) -> tuple[Array, Array, Array]:
    n_levels = (totals.shape[1] - 1) // 2
    x, y = totals[:, 1 : 1 + n_levels], totals[:, 1 + n_levels :]
    n = x.sum(axis=1, keepdims=True)
    return totals[:, 0] / n[:, 0], x / n, y / n


def _kappa_score(totals: Array) -> Array:
    with np.errstate(invalid="ignore", divide="ignore"):
        same, x, y = _shares(totals)
        chance = (x * y).sum(axis=1)
        value: Array = (same - chance) / (1 - chance)
    return value


def _ac1_score(totals: Array) -> Array:
    with np.errstate(invalid="ignore", divide="ignore"):
        same, x, y = _shares(totals)
        pooled = (x + y) / 2
        chance = (pooled * (1 - pooled)).sum(axis=1) / (max(2, x.shape[1]) - 1)
        value: Array = (same - chance) / (1 - chance)
    return value


def mean_quadratic_kappa(x: Array, y: Array, counts: Array) -> Coefficient:
    """Mean over columns of the `concordance` of x and y, rows × columns; of level codes it is `quadratic_kappa`."""
    both = ~(np.isnan(x) | np.isnan(y))
    x, y = np.where(both, x, 0.0), np.where(both, y, 0.0)
    parts = np.stack([both.astype(float), x, y, x * x, y * y, x * y])
    n = np.maximum(1.0, counts @ parts[0])
    _, mx, my, mxx, myy, _ = (counts @ part / n for part in parts)
    one, m, q = np.ones(x.shape[1]), (mx + my) / 2, (mxx + myy) / 2
    return Coefficient(
        sums=np.hstack(list(parts)),
        score=_mean_concordance,
        against=np.concatenate([one, mx, my, mxx, myy, mx * my]),
        in_favour=np.concatenate([one, m, m, q, q, q]),
    )


def _mean_concordance(totals: Array) -> Array:
    n, x, y, xx, yy, xy = np.split(totals, 6, axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        spread = xx / n + yy / n - 2 * x * y / n**2
        values = np.where(spread > 1e-12, 2 * (xy / n - x * y / n**2) / spread, np.nan)
    return _row_means(values)


def mean_share(hits: Array, counts: Array) -> Coefficient:
    """Mean over columns of the share of `hits` (1, 0 or NaN) in each."""
    used = (counts @ ~np.isnan(hits)) > 0
    given = ~np.isnan(hits[:, used])
    one, none = np.ones(given.shape[1]), np.zeros(given.shape[1])
    return Coefficient(
        sums=np.hstack([np.where(given, hits[:, used], 0.0), given.astype(float)]),
        score=_mean_share_score,
        against=np.concatenate([none, one]),
        in_favour=np.concatenate([one, one]),
    )


def _mean_share_score(totals: Array) -> Array:
    hits, n = np.split(totals, 2, axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        return _row_means(hits / n)


def _row_means(values: Array) -> Array:
    """Mean of what is defined in each row."""
    defined = np.isfinite(values)
    with np.errstate(invalid="ignore", divide="ignore"):
        means: Array = np.where(defined, values, 0.0).sum(axis=1) / defined.sum(axis=1)
    return means


def alpha(ratings: Array, counts: Array, *, level: Level) -> Coefficient:
    """`krippendorff_alpha`: its features are the coincidences of an item and its values.

    An interval scale needs moments alone, names the pairs that agree alone; ordinal distances depend on all totals.
    """
    given = ~np.isnan(ratings)
    size = given.sum(axis=1)
    pairable = size >= 2
    weight = np.where(pairable, 1 / np.maximum(1, size - 1), 0.0)
    if level == "interval":
        return _interval_alpha(np.where(given, ratings, 0.0), size * pairable, weight, counts)
    values, codes = np.unique(ratings[given], return_inverse=True)
    k = len(values)
    cells = np.zeros((len(ratings), k))
    np.add.at(cells, (np.nonzero(given)[0], codes.ravel()), 1.0)
    cells *= pairable[:, None]
    mean = counts @ cells
    shares = mean / max(1.0, mean.sum())
    m = mean.sum() / max(1.0, counts @ pairable)
    if level == "nominal":
        observed = ((cells * (cells.sum(axis=1, keepdims=True) - cells)).sum(axis=1) * weight)[:, None]
        return Coefficient(
            sums=np.hstack([observed, cells]),
            score=_nominal_alpha,
            against=np.concatenate([[m], m * shares]),
            in_favour=np.concatenate([[0.0], m * shares]),
        )
    pairs = np.einsum("ui,uj,u->uij", cells, cells, weight).reshape(len(cells), k * k)
    apart = np.outer(shares, shares) * (1 - np.eye(k))
    apart *= m / max(1e-300, apart.sum())
    return Coefficient(
        sums=np.hstack([pairs, cells]),
        score=_ordinal_alpha,
        against=np.concatenate([apart.ravel(), m * shares]),
        in_favour=np.concatenate([m * np.diag(shares).ravel(), m * shares]),
    )


def _nominal_alpha(totals: Array) -> Array:
    cells = totals[:, 1:]
    n = cells.sum(axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        expected = n * n - np.square(cells).sum(axis=1)
        value: Array = np.where(expected > 1e-9 * n * n, 1 - (n - 1) * totals[:, 0] / expected, np.nan)
    return value


def _ordinal_alpha(totals: Array) -> Array:
    k = round((np.sqrt(1 + 4 * totals.shape[1]) - 1) / 2)
    cells, pairs = totals[:, k * k :], totals[:, : k * k].reshape(-1, k, k)
    ranks = np.cumsum(cells, axis=1) - cells / 2
    distances = np.square(ranks[:, :, None] - ranks[:, None, :])
    observed = (pairs * distances).sum(axis=(1, 2))
    expected = (cells[:, :, None] * cells[:, None, :] * distances).sum(axis=(1, 2))
    with np.errstate(invalid="ignore", divide="ignore"):
        n = cells.sum(axis=1)
        value: Array = np.where(expected > 1e-9 * n**4, 1 - (n - 1) * observed / expected, np.nan)
    return value


def _interval_alpha(ratings: Array, size: Array, weight: Array, counts: Array) -> Coefficient:
    first, second = ratings.sum(axis=1) * (weight > 0), np.square(ratings).sum(axis=1) * (weight > 0)
    observed = 2 * (size * second - first**2) * weight
    sums = np.column_stack([observed, size, first, second])
    mean = counts @ sums / max(1.0, counts @ (weight > 0))
    spread = 2 * (mean[3] - mean[2] ** 2 / max(1e-300, mean[1]))
    return Coefficient(
        sums=sums,
        score=_moments_alpha,
        against=np.array([spread, *mean[1:]]),
        in_favour=np.array([0.0, *mean[1:]]),
    )


def _moments_alpha(totals: Array) -> Array:
    observed, n, first, second = totals.T
    with np.errstate(invalid="ignore", divide="ignore"):
        expected = 2 * (n * second - first**2)
        value: Array = np.where(expected > 1e-12 * n * second, 1 - (n - 1) * observed / expected, np.nan)
    return value
