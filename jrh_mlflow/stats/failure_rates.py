"""True failure rate of rows that only a judge has seen, when it is known from labelled items how often the judge errs.

θ is the rate of true failures among the rows, d the judge's chance to fail a true failure, f that to fail a true pass.
It fails a row with the chance `θ d + (1 - θ) f`; d and f are seen on labelled items. Given how many labelled items are
true failures, however these were drawn, the three counts are independent and binomial.

Reference:
    Feng et al. (2026), Noisy but Valid, arXiv 2601.20913: the same question, with d and f estimated from labelled items
    and a critical threshold that is corrected for their variance.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import brentq
from scipy.special import gammaln

from jrh_mlflow.stats import Array, Interval, Mask

_HALVINGS = 22
_LEAST = 1e-12
"""Chance of a failed row that is told from 0."""
_PRECISE = 1e-6
"""Of a bound."""
_AROUND = (-1.0, 0.0, 1.0)
"""Standard errors around the likeliest d and f at which a chance is asked for."""
_PRUDENT = 0.9
"""Part of the error that a chance may use up: d and f are estimated, and their labels seldom the likeliest."""
_UNLIKELY = 0.1
"""Chance under which a rate of 0 does not explain so few failed rows; the same at every level, so that bounds nest."""
_WIDE = 6.0
"""Standard deviations of a count beyond which nothing is summed."""
_MOST_CELLS = 4_000_000
"""Of the table that is summed at once."""
_TIE = 1e-7
"""Sums of shares that are equal on paper may differ by as much."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FailureCounts:
    """What a judge said of rows without a label and of labelled items; counts of one run, or arrays of several."""

    rows: int
    failed: float | Array
    """Rows that it failed."""
    failures: int
    """Labelled items that truly fail."""
    found: float | Array
    """Those of them that the judge failed."""
    passes: int
    """Labelled items that truly pass."""
    wrongly: float | Array
    """Those of them that the judge failed."""

    def __post_init__(self) -> None:
        for part, whole in ((self.failed, self.rows), (self.found, self.failures), (self.wrongly, self.passes)):
            if whole < 1 or np.min(part) < 0 or np.max(part) > whole:
                raise ValueError(f"Rows and labelled items of both kinds are needed, each counted in full: {self}.")

    @property
    def mirrored(self) -> FailureCounts:
        """The same with pass and fail exchanged: its rate is one minus that of this."""
        return FailureCounts(
            rows=self.rows,
            failed=self.rows - self.failed,
            failures=self.passes,
            found=self.passes - self.wrongly,
            passes=self.failures,
            wrongly=self.failures - self.found,
        )


def failure_estimate(counts: FailureCounts) -> float:
    """Rogan-Gladen: `(p - f) / (d - f)` in 0 … 1, p the share of rows that the judge failed."""
    found, wrongly = float(counts.found) / counts.failures, float(counts.wrongly) / counts.passes
    if found <= wrongly:
        raise ValueError(f"The judge must fail more true failures than true passes, but got {found=}, {wrongly=}.")
    return min(1.0, max(0.0, (float(counts.failed) / counts.rows - wrongly) / (found - wrongly)))


def failure_bounds(counts: FailureCounts, *, level: float = 0.95) -> Interval:
    """Bounds of the true failure rate, each at `level` by itself: all rates that `too_few` does not exclude.

    Where the judge fails fewer rows than true passes alone easily explain, the upper bound is that of the fewest failed
    rows that they do explain, and likewise below: a bound on the end of the scale would leave no width. A higher level
    gives wider bounds; it must be over one half.

    Example:
        >>> counts = FailureCounts(rows=50, failed=3, failures=100, found=90, passes=400, wrongly=20)
        >>> [round(bound, 3) for bound in failure_bounds(counts)]
        [0.0, 0.111]
    """
    return lower_bound(counts, level=level), upper_bound(counts, level=level)


def lower_bound(counts: FailureCounts, *, level: float = 0.95) -> float:
    """One minus the upper bound of the rate of passes."""
    return 1 - upper_bound(counts.mirrored, level=level)


def upper_bound(counts: FailureCounts, *, level: float = 0.95) -> float:
    """The largest rate that is not excluded, see `failure_bounds`."""
    counts, error = _explained(counts, level)

    def left(theta: float) -> float:
        """How far the chance is over what excludes."""
        return float(chance_of_fewer(theta, counts)[0]) - error

    if left(1.0) > 0:
        return 1.0
    # The outer side of the root: what is excluded there is excluded at the bound.
    return min(1.0, float(brentq(left, 0.0, 1.0, xtol=_PRECISE)) + _PRECISE)


def is_above_bound(theta: float, counts: FailureCounts, *, level: float = 0.95) -> bool:
    """Whether a rate lies over the upper bound, without the search for the bound."""
    counts, error = _explained(counts, level)
    return bool(chance_of_fewer(theta, counts)[0] <= error)


def _explained(counts: FailureCounts, level: float) -> tuple[FailureCounts, float]:
    """Return the counts with as many failed rows as a rate of 0 explains, and the chance that excludes a rate.

    That chance stays under the one at a rate of 0: low levels would else exclude every rate.
    """
    if not 0.5 < level < 1:
        raise ValueError(f"`0.5 < level < 1` must hold for a one-sided bound, but got {level=}.")

    def at_zero(failed: float) -> float:
        return float(chance_of_fewer(0.0, replace(counts, failed=failed))[0])

    low, failed = float(counts.failed) - 1, float(counts.failed)
    if at_zero(failed) <= _UNLIKELY:
        low, failed = failed, float(counts.rows)
    while failed - low > 1:
        middle = (low + failed) // 2
        low, failed = (middle, failed) if at_zero(middle) <= _UNLIKELY else (low, middle)
    return replace(counts, failed=failed), _PRUDENT * min(1 - level, at_zero(failed))


def too_few(theta: float, counts: FailureCounts, *, level: float = 0.95) -> Mask:
    """Whether so few failed rows exclude a true failure rate of `theta` or more, for each run.

    `jrh validate --only decisions` measures the error: rows 30 to 500, limits .02 to .3, 50 to 500 labels.
    """
    return np.asarray(chance_of_fewer(theta, counts) <= _PRUDENT * (1 - level))


def chance_of_fewer(theta: float, counts: FailureCounts) -> Array:
    """Chance to see so few failed rows, or fewer, beside such labels when the true failure rate is `theta`.

    What is compared is `failed / rows - θ found / failures - (1 - θ) wrongly / passes`, whose mean is 0 under θ
    whatever d and f are; its distribution is summed, not approximated. It does depend on d and f: they are put at their
    likeliest values under θ and one standard error to either side, and the largest chance counts. At the likeliest
    values alone a rule at 5 % errs in up to 7.7 % of runs (30 rows, 500 labels: the labels then act as lots that
    decide between two numbers of failed rows).

    Returns:
        One chance for each run.
    """
    runs = [np.atleast_1d(np.asarray(each, float)) for each in (counts.failed, counts.found, counts.wrongly)]
    failed, found, wrongly = (each.ravel() for each in np.broadcast_arrays(*runs))
    widths = [2 * _half_width(n, 0.25) + 1 for n in (counts.failures, counts.passes)]
    step = max(1, _MOST_CELLS // max(widths[0] * widths[1], counts.rows))
    parts = [slice(start, start + step) for start in range(0, len(failed), step)]
    return np.concatenate(
        [
            _chances(theta, replace(counts, failed=failed[part], found=found[part], wrongly=wrongly[part]))
            for part in parts
        ]
    )


def _chances(theta: float, counts: FailureCounts) -> Array:
    seen = counts.failed / counts.rows - theta * counts.found / counts.failures
    seen = seen - (1 - theta) * counts.wrongly / counts.passes
    d, f = likeliest_error_rates(theta, counts)
    around = [
        _sum_chances(theta, counts, np.asarray(seen), _moved(d, counts.failures, by), _moved(f, counts.passes, by))
        for by in _AROUND
    ]
    most: Array = np.max(around, axis=0)
    return most


def _moved(rate: Array, n: int, by: float) -> Array:
    """Move a rate by standard errors; one of 0 or 1 has that of half a count."""
    return np.clip(rate + by * np.sqrt(np.maximum(rate * (1 - rate), 0.25 / n) / n), 0.0, 1.0)


def likeliest_error_rates(theta: float, counts: FailureCounts) -> tuple[Array, Array]:
    """Maximum-likelihood d and f when the failure rate is `theta`.

    With s the slope of the rows' likelihood in q = θ d + (1 - θ) f, d is the root of `t d² + (n - t) d = found`, t = θ
    s, and f likewise; both fall with q, so the one q that fits is found by halving. It lies between what the rows say
    alone and what the labels do.
    """
    rows = np.asarray(counts.failed, float) / counts.rows
    labels = (
        theta * np.asarray(counts.found) / counts.failures + (1 - theta) * np.asarray(counts.wrongly) / counts.passes
    )
    low, high = np.minimum(rows, labels), np.maximum(rows, labels)
    with np.errstate(divide="ignore", invalid="ignore"):
        for _ in range(_HALVINGS):
            q = (low + high) / 2
            d, f = _rates(theta, q, counts)
            over = theta * d + (1 - theta) * f > q
            low, high = np.where(over, q, low), np.where(over, high, q)
        return _rates(theta, (low + high) / 2, counts)


def _rates(theta: float, q: Array, counts: FailureCounts) -> tuple[Array, Array]:
    inside = np.minimum(np.maximum(q, _LEAST), 1 - _LEAST)
    slope = counts.failed / inside - (counts.rows - counts.failed) / (1 - inside)
    d = _root(theta * slope, counts.failures, np.asarray(counts.found))
    return d, _root((1 - theta) * slope, counts.passes, np.asarray(counts.wrongly))


def _root(t: Array, n: int, count: Array) -> Array:
    """Root in 0 … 1 of `t x² + (n - t) x = count`, in the form that does not cancel."""
    linear = n - t
    spread = np.sqrt(np.maximum(linear * linear + 4 * t * count, 0.0))
    root = np.where(linear >= 0, 2 * count / (linear + spread), (spread - linear) / (2 * t))
    return np.minimum(np.maximum(np.where((linear >= 0) & (count == 0), 0.0, root), 0.0), 1.0)


def _sum_chances(theta: float, counts: FailureCounts, seen: Array, d: Array, f: Array) -> Array:
    """Sum over all labels, weighted by their chance, the chance of few enough failed rows."""
    n = counts.rows
    rows = np.exp(_log_chance(np.arange(n + 1.0), n, (theta * d + (1 - theta) * f)[:, None]))
    up_to = np.concatenate([np.zeros((len(seen), 1)), np.cumsum(rows, axis=1)], axis=1)
    found, of_found = _window(counts.failures, d)
    wrongly, of_wrongly = _window(counts.passes, f)
    base = n * (seen[:, None] + theta * found / counts.failures) + _TIE
    added = n * (1 - theta) * wrongly / counts.passes
    most = np.clip(np.floor(base[:, :, None] + added[:, None, :]).astype(int) + 1, 0, n + 1)
    few = np.take_along_axis(up_to, most.reshape(len(seen), -1), axis=1).reshape(most.shape)
    total: Array = np.einsum("ri,rij,rj->r", of_found, few, of_wrongly)
    return total


def _half_width(n: int, variance: float) -> int:
    return int(np.ceil(_WIDE * np.sqrt(n * variance) + _WIDE))


def _window(n: int, rate: Array) -> tuple[Array, Array]:
    """Return the counts around the expected one, for each rate, and the chance of each."""
    half = _half_width(n, float((rate * (1 - rate)).max()))
    around = np.floor(n * rate)[:, None] + np.arange(-half, half + 1.0)
    inside = np.clip(around, 0, n)
    chance = np.exp(_log_chance(inside, n, rate[:, None]))
    return inside, np.where(around == inside, chance, 0.0)


def _log_chance(count: Array, n: int, rate: Array) -> Array:
    """Binomial; exact at rates of 0 and 1."""
    with np.errstate(divide="ignore", invalid="ignore"):
        hits = np.where(count == 0, 0.0, count * np.log(rate))
        misses = np.where(count == n, 0.0, (n - count) * np.log1p(-rate))
    chance: Array = gammaln(n + 1) - gammaln(count + 1) - gammaln(n - count + 1) + hits + misses
    return chance
