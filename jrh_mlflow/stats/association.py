"""How closely two paired lists of numbers, or two yes/no answers, go together. A pair with a NaN is left out."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from scipy import stats

Array = npt.NDArray[np.float64]


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
    return pearson(stats.rankdata(x), stats.rankdata(y))


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
        raise ValueError(f"Counts must be 0 or more, but got {tp=}, {fp=}, {fn=}, {tn=}.")
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
