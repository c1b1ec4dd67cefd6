"""Agreement coefficients as functions of sums over items, and their intervals, which resample items.

Rows stand for items that were rated alike; `counts` says for how many. Missing labels are NaN.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from jrh_mlflow.stats import Array, Interval, Mask
from jrh_mlflow.stats.agreement import Level
from jrh_mlflow.stats.bootstrap import MAX_UNDEFINED

N_DRAWS = 2000
_MOST_ROWS, _N_BUNDLES = 4000, 2000
"""Of more rows than this the items are put into so many bundles, whose spread tells that of the items."""
_HEAVY, _LIGHT = 0.9, 0.1
"""Weights of the imagined items: against agreement and in favour of it at the lower end, exchanged at the upper end."""
_MOST_CROSSED = 12
"""Levels of a scale past which the distances of ordinal alpha stay those of the sample."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Coefficient:
    """A coefficient of agreement, as a function of what is summed over items."""

    sums: Array
    """Rows × features."""
    counts: Array
    """Items of each row."""
    score: Callable[[Array], Array]
    """Value of each row of totals; NaN where it is undefined."""
    against: Array
    """Features of an item on which nobody agrees."""
    in_favour: Array
    """Features of an item on which all agree."""

    @property
    def value(self) -> float | None:
        """The coefficient itself; None where it is undefined."""
        value = float(self.score((self.counts @ self.sums)[None])[0])
        return value if math.isfinite(value) else None


def item_intervals(
    coefficients: Sequence[Coefficient], *, level: float = 0.95, seed: int = 0, n_draws: int = N_DRAWS
) -> list[Interval | None]:
    """Intervals of coefficients by a Bayesian bootstrap of items with an imagined item for and one against agreement.

    Items are weighted by independent Gamma(1) draws instead of whole numbers, so that none is lost. For the lower end
    an item on which nobody agrees is added with weight Gamma(0.9), and one on which all agree, on a rare label, with
    Gamma(0.1); for the upper end the other way round. Of a share these are the posteriors under Beta(0.1, 0.9) and
    Beta(0.9, 0.1) that `beta_binomial_interval` takes, near Clopper and Pearson's: perfect agreement on few items
    keeps a width, where resampling whole items would give none. `jrh validate` prints the coverage.

    Reference:
        Rubin (1981), Ann. Stat. 9:130-134; Gaffke (2005), Math. Methods Stat. 14 (an imagined worst item).

    Returns:
        An interval for each; None where it is undefined in more than 20 % of the draws.

    Example:
        >>> same = mean_share(np.array([[1.0]]), np.array([10.0]))
        >>> [round(end, 1) for end in item_intervals([same])[0]]
        [0.7, 1.0]
    """
    rng = np.random.default_rng(seed)
    found: dict[int, Interval | None] = {}
    # Those with the same rows share the draws.
    for key in dict.fromkeys(id(one.counts) for one in coefficients):
        alike = [(place, one) for place, one in enumerate(coefficients) if id(one.counts) == key]
        totals = _drawn_totals(np.hstack([one.sums for _, one in alike]), alike[0][1].counts, n_draws, rng)
        heavy, light = (rng.standard_gamma(shape, size=(n_draws, 1)) for shape in (_HEAVY, _LIGHT))
        starts = np.cumsum([0, *(one.sums.shape[1] for _, one in alike)])
        for (place, one), start, stop in zip(alike, starts[:-1], starts[1:], strict=True):
            found[place] = _ends(one, totals[:, start:stop], heavy, light, level)
    return [found[place] for place in range(len(coefficients))]


def _drawn_totals(sums: Array, counts: Array, n_draws: int, rng: np.random.Generator) -> Array:
    """Totals of the features over weighted items, draws × features."""
    if len(counts) > _MOST_ROWS:
        sums, counts = _bundled(sums, counts, rng), np.ones(_N_BUNDLES)
    return np.asarray(rng.standard_gamma(counts, size=(n_draws, len(counts))) @ sums)


def _bundled(sums: Array, counts: Array, rng: np.random.Generator) -> Array:
    """Sums over bundles of items that are put together at random, as even as can be.

    Weighting bundles is the same bootstrap with the spread estimated from 2,000 units, which is enough.
    """
    items = np.repeat(np.arange(len(counts)), counts.astype(int))
    bundles = rng.permutation(len(items)) % _N_BUNDLES
    together = sparse.coo_matrix((np.ones(len(items)), (bundles, items)), shape=(_N_BUNDLES, len(counts)))
    return np.asarray(together.tocsr() @ sums)


def _ends(one: Coefficient, totals: Array, heavy: Array, light: Array, level: float) -> Interval | None:
    tail = (1 - level) / 2
    low = _quantile(one.score(totals + heavy * one.against + light * one.in_favour), tail)
    high = _quantile(one.score(totals + heavy * one.in_favour + light * one.against), 1 - tail)
    return None if low is None or high is None else (low, high)


def _quantile(values: Array, at: float) -> float | None:
    defined = values[np.isfinite(values)]
    if len(values) - len(defined) > MAX_UNDEFINED * len(values) or not len(defined):
        return None
    return float(np.clip(np.quantile(defined, at), -1, 1))


def kappa(x: Array, y: Array, counts: Array, *, n_levels: int) -> Coefficient:
    """`cohen_kappa` of level codes 0 … n_levels - 1."""
    return _of_two(x, y, counts, n_levels, _kappa_score)


def ac1(x: Array, y: Array, counts: Array, *, n_levels: int) -> Coefficient:
    """`gwet_ac1` of two raters on level codes 0 … n_levels - 1."""
    return _of_two(x, y, counts, n_levels, _ac1_score)


def _of_two(x: Array, y: Array, counts: Array, n_levels: int, score: Callable[[Array], Array]) -> Coefficient:
    """Features: equal or not, the level of x, the level of y; a row for each pair of levels."""
    both = ~(np.isnan(x) | np.isnan(y))
    pairs, codes = np.unique(x[both] * n_levels + y[both], return_inverse=True)
    counts = np.bincount(codes.ravel(), weights=counts[both], minlength=len(pairs)).astype(float)
    first, second = np.divmod(pairs.astype(int), n_levels)
    sums = np.hstack([(first == second)[:, None], np.eye(n_levels)[first], np.eye(n_levels)[second]]).astype(float)
    given = (counts @ sums)[1:].reshape(2, n_levels).sum(axis=0)
    even, rare = np.full(n_levels, 1 / n_levels), _rarely_given(given)
    return Coefficient(
        sums=sums,
        counts=counts,
        score=score,
        against=np.concatenate([[0.0], even, even]),
        in_favour=np.concatenate([[1.0], rare, rare]),
    )


def _rarely_given(given: Array) -> Array:
    """Weights of labels for an imagined item of agreement: agreeing on a rare label raises a coefficient most."""
    return np.asarray((1 - given / max(1.0, given.sum())) / max(1, len(given) - 1))


def _imagined(values: Array, weights: Array) -> tuple[Array, Array]:
    """Moments (x, y, x², y², xy) of two labels that differ, over all values alike, and of two that agree on rare ones.

    `values` are the numbers that were given, `weights` how often.
    """
    if not len(values):
        return np.zeros(5), np.zeros(5)
    numbers, codes = np.unique(values, return_inverse=True)
    rare = _rarely_given(np.bincount(codes.ravel(), weights=weights).astype(float))
    m, q, k = numbers.mean(), np.square(numbers).mean(), len(numbers)
    apart = (k * m * m - q) / max(1, k - 1)
    first, second = rare @ numbers, rare @ np.square(numbers)
    return np.array([m, m, q, q, apart]), np.array([first, first, second, second, second])


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
    weights = np.broadcast_to(counts[:, None], x.shape)[both]
    # Sums of squares lose what is small beside a common shift, which changes nothing.
    shift = float(x[both].mean()) if both.any() else 0.0
    x, y = np.where(both, x - shift, 0.0), np.where(both, y - shift, 0.0)
    against, in_favour = _imagined(np.concatenate([x[both], y[both]]), np.tile(weights, 2))
    n_columns, one = x.shape[1], np.ones(x.shape[1])
    return Coefficient(
        sums=np.hstack([both.astype(float), x, y, x * x, y * y, x * y]),
        counts=counts,
        score=_mean_concordance,
        against=np.concatenate([one, np.repeat(against, n_columns)]),
        in_favour=np.concatenate([one, np.repeat(in_favour, n_columns)]),
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
        counts=counts,
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

    Names need the pairs that differ alone, an interval scale moments alone; ordinal distances hang on all totals.
    """
    given = ~np.isnan(ratings)
    given &= given.sum(axis=1, keepdims=True) >= 2
    size = given.sum(axis=1)
    weight = np.where(size, 1 / np.maximum(1, size - 1), 0.0)
    mean_size = float(counts @ size / max(1.0, counts @ (size > 0)))
    if level == "interval":
        return _interval_alpha(ratings, given, weight, counts, mean_size)
    values, codes = np.unique(ratings[given], return_inverse=True)
    k = max(1, len(values))
    cells = np.zeros((len(ratings), k))
    np.add.at(cells, (np.nonzero(given)[0], codes.ravel()), 1.0)
    if level == "ordinal" and k > _MOST_CROSSED:
        totals = counts @ cells
        ranks = np.full(ratings.shape, np.nan)
        ranks[given] = (np.cumsum(totals) - totals / 2)[codes.ravel()]
        return _interval_alpha(ranks, given, weight, counts, mean_size)
    even, rare = np.full(k, mean_size / k), mean_size * _rarely_given(counts @ cells)
    if level == "nominal":
        differing = ((cells * (size[:, None] - cells)).sum(axis=1) * weight)[:, None]
        return Coefficient(
            sums=np.hstack([differing, cells]),
            counts=counts,
            score=_nominal_alpha,
            against=np.concatenate([[mean_size], even]),
            in_favour=np.concatenate([[0.0], rare]),
        )
    pairs = np.einsum("ui,uj,u->uij", cells, cells, weight).reshape(len(cells), k * k)
    apart = (1 - np.eye(k)) * mean_size / max(1, k * (k - 1))
    return Coefficient(
        sums=np.hstack([pairs, cells]),
        counts=counts,
        score=_ordinal_alpha,
        against=np.concatenate([apart.ravel(), even]),
        in_favour=np.concatenate([np.diag(rare).ravel(), rare]),
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


def _interval_alpha(ratings: Array, given: Mask, weight: Array, counts: Array, mean_size: float) -> Coefficient:
    shift = float(ratings[given].mean()) if given.any() else 0.0
    values = np.where(given, ratings - shift, 0.0)
    size, first, second = given.sum(axis=1), values.sum(axis=1), np.square(values).sum(axis=1)
    differing = 2 * (size * second - first**2) * weight
    against, in_favour = _imagined(values[given], np.broadcast_to(counts[:, None], given.shape)[given])
    distance = 2 * (against[2] - against[4])
    return Coefficient(
        sums=np.column_stack([differing, size, first, second]),
        counts=counts,
        score=_moments_alpha,
        against=mean_size * np.array([distance, 1.0, against[0], against[2]]),
        in_favour=mean_size * np.array([0.0, 1.0, in_favour[0], in_favour[2]]),
    )


def _moments_alpha(totals: Array) -> Array:
    observed, n, first, second = totals.T
    with np.errstate(invalid="ignore", divide="ignore"):
        expected = 2 * (n * second - first**2)
        value: Array = np.where(expected > 1e-12 * n * second, 1 - (n - 1) * observed / expected, np.nan)
    return value
