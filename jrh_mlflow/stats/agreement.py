"""Agreement of raters, and association of two paired lists of numbers or two yes/no answers.

Ratings are units × replicates with NaN where an answer is missing; of paired lists a pair with a NaN is left out.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
import scipy  # stats, special and optimize load when first used: together most of a second

from jrh_mlflow.stats import Array, Mask


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


Level = Literal["nominal", "ordinal", "interval"]


def krippendorff_alpha(ratings: Array, *, level: Level) -> float | None:
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
        >>> round(krippendorff_alpha(ratings, level="nominal"), 4)
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
    distances = _distances(values, totals, level)
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
    shares = [np.bincount(each, minlength=len(values)) / len(x) for each in np.split(codes.ravel(), 2)]
    chance = float(shares[0] @ shares[1])
    return (float((x == y).mean()) - chance) / (1 - chance)


def quadratic_kappa(x: Array, y: Array, *, n_levels: int) -> float | None:
    """Cohen's kappa with quadratic weights on level indices 0 … n_levels - 1 of the whole scale.

    `1 - sum w_ij o_ij / sum w_ij e_ij` with `w_ij = (i - j)^2 / (n_levels - 1)^2`, which is
    `1 - mean (x - y)^2 / (var x + var y + (mean x - mean y)^2)`: the concordance coefficient of the indices. Levels
    that nobody used keep their distance: 0 and 4 are four steps apart whether or not 1, 2 and 3 occur.
    Pairs with a NaN are left out.

    Reference:
        Cohen (1968), Psychol. Bull. 70:213-220; Fleiss & Cohen (1973), Educ. Psychol. Meas. 33:613-619.

    Returns:
        Kappa, or None with fewer than two pairs or when all of x and y is one level.

    Example:
        >>> quadratic_kappa(np.array([0.0, 1.0, 2.0]), np.array([1.0, 2.0, 3.0]), n_levels=4)
        0.571...
    """
    if n_levels < 2:
        raise ValueError(f"`n_levels >= 2` must hold, but got {n_levels=}.")
    indices = np.concatenate([x, y])
    indices = indices[~np.isnan(indices)]
    off = indices[(indices < 0) | (indices >= n_levels) | (indices != np.floor(indices))]
    if len(off):
        raise ValueError(f"Level indices must be whole and 0 … {n_levels - 1}, but got {off[0]}.")
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


def _distances(values: Array, totals: Array, level: Level) -> Array:
    if level == "nominal":
        return 1 - np.eye(len(values))
    if level == "ordinal":
        values = np.cumsum(totals) - totals / 2
    return np.square(values[:, None] - values[None, :])
