"""Agreement of raters, association of two paired lists of numbers or two yes/no answers, and their intervals.

Ratings are units × replicates with NaN where an answer is missing; of paired lists a pair with a NaN is left out. For
intervals, which resample items, a coefficient is written as a function of sums over items (`Coefficient`): its rows
stand for items that were rated alike, and `counts` says for how many.

The alternative annotator test asks whether a judge may take the place of a person, seen from the other people.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import scipy  # stats, special and optimize load when first used: together most of a second
from scipy import sparse

from jrh_mlflow.stats import FEWEST_CLUSTERS, Array, Codes, Interval, Mask
from jrh_mlflow.stats.bootstrap import MAX_UNDEFINED, expanded_tail
from jrh_mlflow.stats.proportions import cluster_interval


def concordance(x: Array, y: Array) -> float | None:
    """Lin's concordance correlation, `2 s_xy / (s_x^2 + s_y^2 + (mean x - mean y)^2)`.

    Pearson's r times a penalty for a shift or another spread: 1 only when x equals y. Population moments (divided by
    n, as in Lin 1989), so on whole grades it equals the quadratic kappa. 0 when just one of the two varies.

    Reference:
        Lin (1989), Biometrics 45:255-268.

    Returns:
        The coefficient, or None with fewer than two pairs or when all of x and y is one number.

    Example:
        >>> concordance(np.array([1.0, 2.0, 3.0]), np.array([2.0, 3.0, 4.0]))
        0.571...
    """
    x, y = _paired(x, y)
    both = np.concatenate([x, y])
    if len(x) < 2 or np.ptp(both) == 0:
        return None
    x, y = _spread_to_one(both).reshape(2, -1)
    shift = x.mean() - y.mean()
    dx, dy = x - x.mean(), y - y.mean()
    return float(2 * (dx * dy).mean() / ((dx * dx).mean() + (dy * dy).mean() + shift * shift))


def pearson(x: Array, y: Array) -> float | None:
    """Pearson's product-moment correlation, `s_xy / (s_x s_y)`.

    Returns:
        The coefficient, or None with fewer than three pairs (two points always lie on a line) or when x or y does
        not vary.

    Example:
        >>> round(pearson(np.array([1.0, 2.0, 3.0]), np.array([1.0, 3.0, 2.0])), 4)
        0.5
    """
    x, y = _paired(x, y)
    if len(x) < 3 or np.ptp(x) == 0 or np.ptp(y) == 0:
        return None
    x, y = _spread_to_one(x), _spread_to_one(y)
    dx, dy = x - x.mean(), y - y.mean()
    return float(np.clip(dx @ dy / math.sqrt((dx @ dx) * (dy @ dy)), -1, 1))


def spearman(x: Array, y: Array) -> float | None:
    """Spearman's rank correlation: Pearson's on the ranks, ties given their mean rank.

    Reference:
        Spearman (1904), Am. J. Psychol. 15:72-101.

    Returns:
        The coefficient, or None where `pearson` has none: fewer than three pairs, or x or y does not vary.

    Example:
        >>> round(spearman(np.array([1.0, 2.0, 30.0]), np.array([1.0, 3.0, 2.0])), 4)
        0.5
    """
    x, y = _paired(x, y)
    return pearson(scipy.stats.rankdata(x), scipy.stats.rankdata(y))


def mean_absolute_error(x: Array, y: Array) -> float | None:
    """Mean of `|x - y|`, in the units of the scale.

    Returns:
        The mean, or None without a pair.

    Example:
        >>> mean_absolute_error(np.array([1.0, 2.0, np.nan]), np.array([1.0, 5.0, 3.0]))
        1.5
    """
    x, y = _paired(x, y)
    return float(np.abs(x - y).mean()) if len(x) else None


def matthews(tp: int, fp: int, fn: int, tn: int) -> float | None:
    """Matthews' correlation of a 2 × 2 table (phi).

    `(tp tn - fp fn) / sqrt((tp + fp) (tp + fn) (tn + fp) (tn + fn))`.

    Reference:
        Matthews (1975), Biochim. Biophys. Acta 405:442-451.

    Returns:
        The coefficient, or None when a margin is empty: one side gave or expected a single answer throughout.

    Example:
        >>> matthews(6, 1, 2, 3)
        0.478...
    """
    if min(tp, fp, fn, tn) < 0:
        raise ValueError(f"Array must be 0 or more, but got {tp=}, {fp=}, {fn=}, {tn=}.")
    margins = (tp + fp) * (tp + fn) * (tn + fp) * (tn + fn)
    return (tp * tn - fp * fn) / math.sqrt(margins) if margins else None


def _paired(x: Array, y: Array) -> tuple[Array, Array]:
    if x.ndim != 1 or x.shape != y.shape:
        raise ValueError(f"Both lists must be flat and of one length, but got shapes {x.shape} and {y.shape}.")
    if np.isinf(x).any() or np.isinf(y).any():
        raise ValueError("Numbers must be finite or NaN, but an infinity arrived.")
    both = ~(np.isnan(x) | np.isnan(y))
    return x[both], y[both]


def _spread_to_one(x: Array) -> Array:
    """Shift and stretch to 0 … 1: the squares of very small differences would be lost otherwise."""
    spread: Array = (x - x.min()) / np.ptp(x)
    return spread


MeasurementScale = Literal["nominal", "ordinal", "interval"]


def krippendorff_alpha(ratings: Array, *, scale: MeasurementScale) -> float | None:
    """Krippendorff's alpha, `1 - D_o / D_e`: 1 is perfect agreement, 0 what chance gives.

    `D_o` is the mean distance within units, each unit weighted by its m values (o_ck sums pairs / (m - 1)), `D_e`
    the mean distance between any two of the n pairable values. Units with fewer than two values are left out.
    Distances between values c and k: nominal `c != k`; interval `(c - k)^2`; ordinal the squared difference of the
    mid-ranks of c and k among the n values, so only their order counts.

    Reference:
        Krippendorff (2011), Computing Krippendorff's Alpha-Reliability, University of Pennsylvania.

    Returns:
        Alpha, or None when no unit has two values or when all values are the same (`D_e` = 0).

    Example:
        >>> ratings = np.array([[1.0, 1.0, 2.0], [2.0, 2.0, np.nan], [1.0, 1.0, 1.0]])
        >>> round(krippendorff_alpha(ratings, scale="nominal"), 4)
        0.5333
    """
    values, counts = _counts(ratings)
    counts = counts[counts.sum(axis=1) >= 2]
    totals = counts.sum(axis=0)
    values, counts, totals = values[totals > 0], counts[:, totals > 0], totals[totals > 0]
    if len(values) < 2:
        return None
    weighted = counts / (counts.sum(axis=1, keepdims=True) - 1)
    # The diagonal also holds each value paired with itself; its distance is 0, so it need not be taken out.
    coincidences = counts.T @ weighted
    distances = _distances(values, totals, scale)
    expected = float(totals @ distances @ totals)
    return 1 - float((totals.sum() - 1) * (coincidences * distances).sum()) / expected


def gwet_ac1(ratings: Array, *, n_categories: int) -> float | None:
    """Gwet's AC1, `(p_a - p_e) / (1 - p_e)`; unlike kappa it does not collapse when one category is common.

    `p_a` is the mean over units with two or more ratings of the share of pairs that agree, `p_e` is
    `sum_k pi_k (1 - pi_k) / (n_categories - 1)` with `pi_k` the mean over rated units of the share of category k.
    The number of categories is that of the question, not of the answers seen.

    Reference:
        Gwet (2008), Br. J. Math. Stat. Psychol. 61:29-48; missing ratings as in Gwet (2014), Handbook of Inter-Rater
        Reliability, 4th ed., chapter 2.

    Returns:
        AC1 (1 when everybody gives the same single category), or None when no unit has two ratings.

    Example:
        >>> ratings = np.array([[1.0, 1.0], [1.0, 1.0], [1.0, 1.0], [1.0, 0.0]])
        >>> round(gwet_ac1(ratings, n_categories=2), 4)
        0.68
    """
    if n_categories < 2:
        raise ValueError(f"`n_categories >= 2` must hold, but got {n_categories=}.")
    values, counts = _counts(ratings)
    if len(values) > n_categories:
        raise ValueError(f"At most {n_categories} categories may occur, but got {len(values)}: {values.tolist()}.")
    sizes = counts.sum(axis=1)
    if not (sizes >= 2).any():
        return None
    agreement = 1 - float(np.nanmean(disagreement(ratings)))
    shares = (counts[sizes > 0] / sizes[sizes > 0, None]).mean(axis=0)
    chance = float((shares * (1 - shares)).sum()) / (n_categories - 1)
    return (agreement - chance) / (1 - chance)


def disagreement(ratings: Array) -> Array:
    """Per unit the share of pairs of replicates that disagree, `1 - sum_k r_k (r_k - 1) / (r (r - 1))`.

    The chance that asking twice gives two answers: the flip rate of the unit.

    Returns:
        One share per unit; NaN with fewer than two replicates.

    Example:
        >>> disagreement(np.array([[1.0, 1.0, 1.0, 2.0], [3.0, 3.0, np.nan, 3.0], [1.0, np.nan, np.nan, np.nan]]))
        array([0.5, 0. , nan])
    """
    _, counts = _counts(ratings)
    sizes = counts.sum(axis=1)
    paired = sizes >= 2
    shares = np.full(len(sizes), np.nan)
    agreeing = (counts * (counts - 1)).sum(axis=1)
    shares[paired] = 1 - agreeing[paired] / (sizes * (sizes - 1))[paired]
    return shares


def unanimous(ratings: Array) -> Mask:
    """Per unit whether two or more replicates were given and all are the same.

    A unit with fewer than two replicates is False: a single answer has nothing to agree with. The denominator of a
    share of unanimous units is the number of units whose `disagreement` is not NaN.

    Example:
        >>> unanimous(np.array([[1.0, 1.0], [1.0, 2.0], [1.0, np.nan]]))
        array([ True, False, False])
    """
    _, counts = _counts(ratings)
    same: Mask = (counts.sum(axis=1) >= 2) & ((counts > 0).sum(axis=1) == 1)
    return same


def cohen_kappa(x: Array, y: Array) -> float | None:
    """Cohen's kappa of two raters, `(p_o - p_e) / (1 - p_e)`.

    `p_o` is the share of pairs that are equal, `p_e` the sum over labels of the product of the two raters' shares.
    Pairs with a NaN are left out.

    Reference:
        Cohen (1960), Educ. Psychol. Meas. 20:37-46.

    Returns:
        Kappa, or None without a pair or when all of x and y is one label (`p_e` = 1).

    Example:
        >>> round(cohen_kappa(np.array([0.0, 0.0, 1.0, 1.0]), np.array([0.0, 0.0, 1.0, 0.0])), 4)
        0.5
    """
    x, y = _paired(x, y)
    values, codes = np.unique(np.concatenate([x, y]), return_inverse=True)
    if len(values) < 2:
        return None
    shares = [np.bincount(rater, minlength=len(values)) / len(x) for rater in np.split(codes.ravel(), 2)]
    chance = float(shares[0] @ shares[1])
    return (float((x == y).mean()) - chance) / (1 - chance)


def quadratic_kappa(x: Array, y: Array, *, n_labels: int) -> float | None:
    """Cohen's kappa with quadratic weights on level indices 0 … n_labels - 1 of the whole scale.

    `1 - sum w_ij o_ij / sum w_ij e_ij` with `w_ij = (i - j)^2 / (n_labels - 1)^2`, which is
    `1 - mean (x - y)^2 / (var x + var y + (mean x - mean y)^2)`: the concordance coefficient of the indices. Levels
    that nobody used keep their distance: 0 and 4 are four steps apart whether or not 1, 2 and 3 occur.
    Pairs with a NaN are left out.

    Reference:
        Cohen (1968), Psychol. Bull. 70:213-220; Fleiss & Cohen (1973), Educ. Psychol. Meas. 33:613-619.

    Returns:
        Kappa, or None with fewer than two pairs or when all of x and y is one level.

    Example:
        >>> quadratic_kappa(np.array([0.0, 1.0, 2.0]), np.array([1.0, 2.0, 3.0]), n_labels=4)
        0.571...
    """
    if n_labels < 2:
        raise ValueError(f"`n_labels >= 2` must hold, but got {n_labels=}.")
    indices = np.concatenate([x, y])
    indices = indices[~np.isnan(indices)]
    off = indices[(indices < 0) | (indices >= n_labels) | (indices != np.floor(indices))]
    if len(off):
        raise ValueError(f"Level indices must be whole and 0 … {n_labels - 1}, but got {off[0]}.")
    return concordance(x, y)


def _counts(ratings: Array) -> tuple[Array, Array]:
    """Return the values that occur, ascending, and how often each unit has each (units × values)."""
    if ratings.ndim != 2 or np.isinf(ratings).any():
        raise ValueError(f"Ratings must be finite or NaN, units × replicates, but got shape {ratings.shape}.")
    given = ~np.isnan(ratings)
    values, codes = np.unique(ratings[given], return_inverse=True)
    cells = np.nonzero(given)[0] * len(values) + codes
    counts = np.bincount(cells, minlength=len(ratings) * len(values))
    return values, counts.reshape(len(ratings), len(values)).astype(float)


def _distances(values: Array, totals: Array, scale: MeasurementScale) -> Array:
    if scale == "nominal":
        return 1 - np.eye(len(values))
    if scale == "ordinal":
        values = np.cumsum(totals) - totals / 2
    return np.square(values[:, None] - values[None, :])


# --- Intervals, which resample items

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
    clusters: Codes | None = None
    """Of each row the cluster of its items; None: each item stands for itself."""
    as_share: tuple[Array, Array] | None = None
    """Of a mean of shares: what an item of each row adds to the numerator and to the denominator."""

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
    keeps a width, where resampling whole items would give none. `make validate` prints the coverage.

    Items in clusters are weighted by one draw for each cluster, and the tails are those of `expanded_tail`. The
    imagined item then counts for several, `sqrt(m min(m, d²))`: m the mean size of a cluster, d the design effect (how
    much larger the spread between clusters is than that of single items). A mean of shares has the hull of that and
    `cluster_interval`: near 1 a few clusters may hold all mistakes.

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
    intervals: dict[int, Interval | None] = {}
    # Those with the same rows share the draws.
    for key in dict.fromkeys(id(coefficient.counts) for coefficient in coefficients):
        alike = [
            (place, coefficient) for place, coefficient in enumerate(coefficients) if id(coefficient.counts) == key
        ]
        if alike[0][1].clusters is not None:
            intervals |= {place: _by_cluster(coefficient, level, n_draws, rng) for place, coefficient in alike}
            continue
        totals = _drawn_totals(
            np.hstack([coefficient.sums for _, coefficient in alike]), alike[0][1].counts, n_draws, rng
        )
        heavy, light = (rng.standard_gamma(shape, size=(n_draws, 1)) for shape in (_HEAVY, _LIGHT))
        starts = np.cumsum([0, *(coefficient.sums.shape[1] for _, coefficient in alike)])
        for (place, coefficient), start, stop in zip(alike, starts[:-1], starts[1:], strict=True):
            intervals[place] = _ends(coefficient, totals[:, start:stop], heavy, light, level)
    return [intervals[place] for place in range(len(coefficients))]


def _by_cluster(coefficient: Coefficient, level: float, n_draws: int, rng: np.random.Generator) -> Interval | None:
    assert coefficient.clusters is not None
    used = np.flatnonzero(coefficient.sums.any(axis=1))
    sums, counts = coefficient.sums[used], coefficient.counts[used]
    names, codes = np.unique(coefficient.clusters[used], return_inverse=True)
    if len(names) < 2:
        return None
    within = sparse.coo_matrix((counts, (codes.ravel(), np.arange(len(used)))), shape=(len(names), len(used)))
    totals = np.asarray(rng.standard_gamma(1.0, size=(n_draws, len(names))) @ (within.tocsr() @ sums))
    spread, plain = (
        float(np.nanvar(coefficient.score(drawn))) for drawn in (totals, _drawn_totals(sums, counts, n_draws, rng))
    )
    mean_size = float(counts.sum() / len(names))
    effect = float(np.clip(spread / plain, 1.0, mean_size)) if plain > 0 else mean_size
    # The root of effect and size covers .89 where clusters are all of a kind, a whole cluster is twice too wide where
    # none are alike: this one is near to each where it is right.
    size = math.sqrt(min(effect**2, mean_size) * mean_size)
    heavy, light = (size * rng.standard_gamma(shape, size=(n_draws, 1)) for shape in (_HEAVY, _LIGHT))
    ends = _ends(coefficient, totals, heavy, light, 1 - 2 * expanded_tail(len(names), level=level))
    if ends is None or coefficient.as_share is None:
        return ends
    hits, sizes = (np.asarray(within.tocsr() @ part[used]) for part in coefficient.as_share)
    to_items = float(counts.sum() / sizes.sum())
    share = cluster_interval(hits * to_items, sizes * to_items, level=level)
    return ends if share is None else (min(ends[0], share[0]), max(ends[1], share[1]))


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


def _ends(coefficient: Coefficient, totals: Array, heavy: Array, light: Array, level: float) -> Interval | None:
    tail = (1 - level) / 2
    low = _quantile(coefficient.score(totals + heavy * coefficient.against + light * coefficient.in_favour), tail)
    high = _quantile(coefficient.score(totals + heavy * coefficient.in_favour + light * coefficient.against), 1 - tail)
    return None if low is None or high is None else (low, high)


def _quantile(values: Array, at: float) -> float | None:
    defined = values[np.isfinite(values)]
    if len(values) - len(defined) > MAX_UNDEFINED * len(values) or not len(defined):
        return None
    return float(np.clip(np.quantile(defined, at), -1, 1))


def kappa(x: Array, y: Array, counts: Array, *, n_labels: int, clusters: Codes | None = None) -> Coefficient:
    """`cohen_kappa` of level codes 0 … n_labels - 1."""
    return _of_two(x, y, counts, n_labels, clusters, _kappa_score)


def ac1(x: Array, y: Array, counts: Array, *, n_labels: int, clusters: Codes | None = None) -> Coefficient:
    """`gwet_ac1` of two raters on level codes 0 … n_labels - 1."""
    return _of_two(x, y, counts, n_labels, clusters, _ac1_score)


def _of_two(
    x: Array, y: Array, counts: Array, n_labels: int, clusters: Codes | None, score: Callable[[Array], Array]
) -> Coefficient:
    """Features: equal or not, the level of x, the level of y; a row for each pair of levels in each cluster."""
    both = ~(np.isnan(x) | np.isnan(y))
    places = np.zeros(int(both.sum())) if clusters is None else clusters[both] * float(n_labels**2)
    keys, codes = np.unique(places + x[both] * n_labels + y[both], return_inverse=True)
    of_rows, pairs = np.divmod(keys, n_labels**2)
    counts = np.bincount(codes.ravel(), weights=counts[both], minlength=len(keys)).astype(float)
    first, second = np.divmod(pairs.astype(int), n_labels)
    sums = np.hstack([(first == second)[:, None], np.eye(n_labels)[first], np.eye(n_labels)[second]]).astype(float)
    given = (counts @ sums)[1:].reshape(2, n_labels).sum(axis=0)
    even, rare = np.full(n_labels, 1 / n_labels), _rarely_given(given)
    return Coefficient(
        sums=sums,
        counts=counts,
        score=score,
        against=np.concatenate([[0.0], even, even]),
        in_favour=np.concatenate([[1.0], rare, rare]),
        clusters=None if clusters is None else of_rows.astype(np.intp),
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
    n_labels = (totals.shape[1] - 1) // 2
    x, y = totals[:, 1 : 1 + n_labels], totals[:, 1 + n_labels :]
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
    n_columns, ones = x.shape[1], np.ones(x.shape[1])
    return Coefficient(
        sums=np.hstack([both.astype(float), x, y, x * x, y * y, x * y]),
        counts=counts,
        score=_mean_concordance,
        against=np.concatenate([ones, np.repeat(against, n_columns)]),
        in_favour=np.concatenate([ones, np.repeat(in_favour, n_columns)]),
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
    ones, none = np.ones(given.shape[1]), np.zeros(given.shape[1])
    return Coefficient(
        sums=np.hstack([np.where(given, hits[:, used], 0.0), given.astype(float)]),
        counts=counts,
        score=_mean_share_score,
        against=np.concatenate([none, ones]),
        in_favour=np.concatenate([ones, ones]),
        as_share=(np.where(given, hits[:, used], 0.0) @ (1 / (counts @ given)), given @ (1 / (counts @ given))),
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


def alpha(ratings: Array, counts: Array, *, scale: MeasurementScale) -> Coefficient:
    """`krippendorff_alpha`: its features are the coincidences of an item and its values.

    Names need the pairs that differ alone, an interval scale moments alone; ordinal distances hang on all totals.
    """
    given = ~np.isnan(ratings)
    given &= given.sum(axis=1, keepdims=True) >= 2
    size = given.sum(axis=1)
    weight = np.where(size, 1 / np.maximum(1, size - 1), 0.0)
    mean_size = float(counts @ size / max(1.0, counts @ (size > 0)))
    if scale == "interval":
        return _interval_alpha(ratings, given, weight, counts, mean_size)
    values, codes = np.unique(ratings[given], return_inverse=True)
    k = max(1, len(values))
    cells = np.zeros((len(ratings), k))
    np.add.at(cells, (np.nonzero(given)[0], codes.ravel()), 1.0)
    if scale == "ordinal" and k > _MOST_CROSSED:
        totals = counts @ cells
        ranks = np.full(ratings.shape, np.nan)
        ranks[given] = (np.cumsum(totals) - totals / 2)[codes.ravel()]
        return _interval_alpha(ranks, given, weight, counts, mean_size)
    even, rare = np.full(k, mean_size / k), mean_size * _rarely_given(counts @ cells)
    if scale == "nominal":
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


FEWEST_ITEMS = 30
"""A person with fewer items is left out: the t test needs them."""
FALSE_DISCOVERY = 0.05

Likeness = Literal["same", "distance"]
"""How a label agrees with others: the share that are the same, or minus their root mean square difference."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AnnotatorTest:
    """The test for each person, in the order of the columns; NaN for a person left out."""

    tested: Mask
    n: Array
    """Items of the person that count: with another person's label and the judge's."""
    judge_wins: Array
    """Items × people: 1 where the judge agrees with the others at least as well as the person, 0 where not, or NaN."""
    person_wins: Array
    advantage: Array
    """rho_f: mean of `judge_wins`."""
    person_advantage: Array
    """rho_j: mean of `person_wins`."""
    p: Array
    adjusted: Array
    """p values after Benjamini-Yekutieli."""
    rejected: Mask

    @property
    def winning_rate(self) -> float:
        """omega: share of the people tested for whom the judge holds; NaN where nobody was tested."""
        return float(self.rejected[self.tested].mean()) if self.tested.any() else math.nan

    @property
    def advantage_probability(self) -> float:
        """rho: mean of rho_f over the people tested; NaN where nobody was tested."""
        return float(self.advantage[self.tested].mean()) if self.tested.any() else math.nan


def annotator_test(
    people: Array,
    judge: Array,
    *,
    likeness: Likeness,
    epsilon: float = 0.2,
    fewest: int = FEWEST_ITEMS,
    clusters: Codes | None = None,
) -> AnnotatorTest:
    """Compare judge and person j, item by item, by their agreement S with the other people.

    `W_f = [S(judge) >= S(j)]`, `W_j = [S(j) >= S(judge)]` (a tie is a win of both), `rho_f` and `rho_j` their means.
    H0 for person j is `rho_f <= rho_j - epsilon`, by a one-sided t test of `W_j - W_f` against epsilon; where the
    differences do not vary p is 0 or 1 by the side they lie on. Benjamini-Yekutieli over people at 5 %, because people
    are compared on shared items. Items with fewer than two people or without a judge's label, and people with fewer
    than `fewest` such items, are left out; the labels of those people still count as those of others.

    Agreement is compared as computed, without a tolerance, as in the authors' implementation: of decimal fractions two
    equal distances may differ in the last bit.

    Reference:
        Calderon, Reichart & Dror (2025), ACL, 16051-16081 (arXiv 2501.10970); github.com/nitaytech/AltTest.

    Args:
        people: Items × people, NaN where there is no label.
        judge: One label per item, NaN where there is none.
        likeness: `same` for names, `distance` for ordinal and numeric labels.
        epsilon: How much worse than a person the judge may be.
        fewest: Items that a person must have.
        clusters: Of each item what it was sampled with: the standard error is then by cluster, with an imagined cluster
            in which the person always wins and a t of as many degrees of freedom as clusters, and people with items
            of fewer than 10 clusters are left out.

    Example:
        >>> people = np.tile([[0.0, 0.0], [1.0, 1.0], [0.0, 1.0]], (20, 1))
        >>> found = annotator_test(people, people[:, 0], likeness="same")
        >>> found.winning_rate, found.advantage_probability
        (1.0, 1.0)
    """
    if not 0 <= epsilon <= 1:
        raise ValueError(f"`0 <= epsilon <= 1` must hold, but got {epsilon=}.")
    usable = ((~np.isnan(people)).sum(axis=1) >= 2) & ~np.isnan(judge)
    judge_wins, person_wins = np.full(people.shape, np.nan), np.full(people.shape, np.nan)
    for j in range(people.shape[1]):
        mine = usable & ~np.isnan(people[:, j])
        others = np.delete(people[mine], j, axis=1)
        judge_score, person_score = (_agreement(own[mine], others, likeness) for own in (judge, people[:, j]))
        judge_wins[mine, j], person_wins[mine, j] = judge_score >= person_score, person_score >= judge_score
    n = (~np.isnan(judge_wins)).sum(axis=0).astype(float)
    tested = n >= fewest
    if clusters is not None:
        given = ~np.isnan(judge_wins.T)
        tested &= np.array([len(np.unique(clusters[mine])) >= FEWEST_CLUSTERS for mine in given])
    p = np.full(people.shape[1], np.nan)
    for j in np.flatnonzero(tested).tolist():
        mine = ~np.isnan(judge_wins[:, j])
        p[j] = _p_value((person_wins - judge_wins)[mine, j], epsilon, None if clusters is None else clusters[mine])
    adjusted = p.copy()
    if tested.any():
        adjusted[tested] = scipy.stats.false_discovery_control(p[tested], method="by")
    return AnnotatorTest(
        tested=tested,
        n=n,
        judge_wins=judge_wins,
        person_wins=person_wins,
        advantage=_means(judge_wins, n),
        person_advantage=_means(person_wins, n),
        p=p,
        adjusted=adjusted,
        rejected=tested & (np.nan_to_num(adjusted, nan=1.0) <= FALSE_DISCOVERY),
    )


def _agreement(own: Array, others: Array, likeness: Likeness) -> Array:
    """Agreement of each label with those of the others that are there; every row has one."""
    given = ~np.isnan(others)
    if likeness == "same":
        same: Array = ((others == own[:, None]) & given).sum(axis=1) / given.sum(axis=1)
        return same
    squares = np.where(given, np.square(own[:, None] - others), 0.0)
    distance: Array = -np.sqrt(squares.sum(axis=1) / given.sum(axis=1))
    return distance


def _p_value(differences: Array, epsilon: float, clusters: Codes | None) -> float:
    """One-sided p of a mean under epsilon."""
    if clusters is not None:
        return _clustered_p(differences, epsilon, clusters)
    mean, n = float(differences.mean()), len(differences)
    if np.ptp(differences) == 0:
        return 0.0 if mean < epsilon else 1.0
    return float(scipy.stats.t.cdf((mean - epsilon) / (float(differences.std(ddof=1)) / math.sqrt(n)), n - 1))


def _clustered_p(differences: Array, epsilon: float, clusters: Codes) -> float:
    """One-sided p by cluster, with an imagined cluster in which the person always wins.

    Where few clusters hold all that speaks for the person, samples without them have a low mean and hardly a spread:
    without the imagined one the test errs in up to .11. It has as many items as the design effect, and a whole cluster
    where all differences are the same.
    """
    _, codes = np.unique(clusters, return_inverse=True)
    sizes, sums = (np.bincount(codes.ravel(), weights=each) for each in (np.ones(len(codes)), differences))
    spread = float(differences.var()) * len(differences)
    apart = float(np.square(sums - differences.mean() * sizes).sum()) * len(sums) / (len(sums) - 1)
    whole = float(sizes.mean())
    effect = float(np.clip(apart / spread, 1.0, whole)) if spread > 0 else whole
    sizes, sums = np.append(sizes, effect), np.append(sums, effect)
    n, k, mean = float(sizes.sum()), len(sizes), float(sums.sum() / sizes.sum())
    error = math.sqrt(k / (k - 1) * float(np.square(sums - mean * sizes).sum())) / n
    if error == 0:  # the person wins everywhere
        return 1.0
    return float(scipy.stats.t.cdf((mean - epsilon) / error, k - 1))


def _means(wins: Array, n: Array) -> Array:
    means: Array = np.full(len(n), np.nan)
    np.divide(np.nansum(wins, axis=0), n, out=means, where=n > 0)
    return means
