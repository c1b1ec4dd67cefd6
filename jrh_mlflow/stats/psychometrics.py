"""Psychometric curves: the threshold of an isotonic fit, its cluster bootstrap that keeps censoring, and d'."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.special import ndtri

from jrh_mlflow.stats import Array
from jrh_mlflow.stats.bootstrap import expanded_tail
from jrh_mlflow.stats.proportions import cluster_interval

_TOLERANCE = 1e-12
"""A fitted mean of exactly the target must count as reached whatever the last bit says."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Crossing:
    """Where a curve first reaches its target; `value` is the outermost measured step when censored."""

    value: float
    censored: Literal["left", "right"] | None


@dataclass(frozen=True, kw_only=True, slots=True)
class CrossingInterval:
    """Bootstrap interval of a crossing; an end beyond the measured steps is None."""

    low: float | None
    high: float | None
    left_share: float
    """Share of resamples that reach the target at the smallest step already."""
    right_share: float
    """Share of resamples that never reach it."""


def crossing(steps: Array, correct: Array, n: Array, *, target: float = 0.75) -> Crossing:
    """inf{x : P(x) >= target}, P the isotonic fit of `correct / n` on `steps` weighted by n, linear between steps.

    Example:
        >>> crossing(np.array([1.0, 2.0]), np.array([5.0, 10.0]), np.array([10.0, 10.0]))
        Crossing(value=1.5, censored=None)
    """
    (fitted,) = _isotonic(correct[np.newaxis], n[np.newaxis])
    reached = np.flatnonzero(fitted >= target - _TOLERANCE)
    if len(reached) == 0:
        return Crossing(value=float(steps[-1]), censored="right")
    first = int(reached[0])
    if first == 0:
        return Crossing(value=float(steps[0]), censored="left")
    below, above = fitted[first - 1], fitted[first]
    share = min(1.0, (target - below) / (above - below))
    return Crossing(value=float(steps[first - 1] + share * (steps[first] - steps[first - 1])), censored=None)


def crossing_interval(
    steps: Array, correct: Array, n: Array, *, rng: np.random.Generator, target: float = 0.75, n_resamples: int = 1000
) -> CrossingInterval | None:
    """95 % cluster bootstrap of `crossing`, clusters drawn with replacement; `correct` and `n` are clusters x steps.

    The percentiles are expanded for few clusters, see `bootstrap.expanded_tail`.

    Returns:
        The interval, or None with fewer than two clusters.
    """
    k = len(correct)
    if k < 2:
        return None
    values = _resampled_crossings(steps, correct, n, rng=rng, target=target, n_resamples=n_resamples)
    tail = expanded_tail(k, level=0.95)
    # Order statistics, not interpolation: -inf and inf mark censored resamples and must stay what they are.
    low, high = np.quantile(values, [tail, 1 - tail], method="inverted_cdf")
    return CrossingInterval(
        low=float(low) if np.isfinite(low) else None,
        high=float(high) if np.isfinite(high) else None,
        left_share=float(np.mean(values == -np.inf)),
        right_share=float(np.mean(values == np.inf)),
    )


def band_crossing(steps: Array, correct: Array, n: Array, *, target: float = 0.75) -> tuple[float | None, float | None]:
    """Where the band of clustered intervals around the curve crosses the target: wide, but never of zero width.

    The lower end is where the upper edge of the band reaches the target, and the other way round.
    """
    bands = [cluster_interval(correct[:, step], n[:, step]) or (0.0, 1.0) for step in range(len(steps))]
    whole = np.ones(len(steps))
    low = crossing(steps, np.array([high for _, high in bands]), whole, target=target)
    high = crossing(steps, np.array([low for low, _ in bands]), whole, target=target)
    return (None if low.censored else low.value), (None if high.censored else high.value)


def decided_steps(
    curve: Mapping[float, tuple[float | None, float | None]], *, target: float = 0.75
) -> tuple[float | None, float | None]:
    """Return up to which step a rising curve is below the target, and from which on it is not; None: at no step.

    `curve` maps a step to the ends of its 95 % interval. Steps are tested one after the other, each only when the one
    before it was decided: from the largest down for "reached", from the smallest up for "not reached". Where the curve
    rises, such a chain says something wrong with the chance of a single test, 2.5 % on either side, however many steps
    there are; looking for any step over the target would add up the chances of all.

    Reference:
        Maurer, Hothorn & Lehmacher (1995), Multiple comparisons in drug clinical trials: a-priori ordered hypotheses.

    Example:
        >>> decided_steps({1.0: (0.4, 0.7), 2.0: (0.6, 0.8), 3.0: (0.8, 1.0)})
        (1.0, 3.0)
    """
    below = above = None
    for step in sorted(curve):
        high = curve[step][1]
        if high is None or high >= target:
            break
        below = step
    for step in sorted(curve, reverse=True):
        low = curve[step][0]
        if low is None or low < target:
            break
        above = step
    return below, above


def _resampled_crossings(
    steps: Array, correct: Array, n: Array, *, rng: np.random.Generator, target: float, n_resamples: int
) -> Array:
    k = len(correct)
    weights = rng.multinomial(k, np.full(k, 1 / k), size=n_resamples).astype(float)
    sums, sizes = weights @ correct, weights @ n
    values, whole = np.empty(n_resamples), (sizes > 0).all(axis=1)
    values[whole] = _crossings(steps, sums[whole], sizes[whole], target=target)
    for row in np.flatnonzero(~whole):  # a step that no drawn cluster has
        used = sizes[row] > 0
        (values[row],) = _crossings(steps[used], sums[row : row + 1, used], sizes[row : row + 1, used], target=target)
    return values


def _crossings(steps: Array, correct: Array, n: Array, *, target: float) -> Array:
    """`crossing` of many curves at once, one per row; -inf and inf where it is censored."""
    fitted = _isotonic(correct, n)
    reached = fitted >= target - _TOLERANCE
    rows, first = np.arange(len(fitted)), reached.argmax(axis=1)
    left = np.maximum(first - 1, 0)
    rise = np.where(first > left, fitted[rows, first] - fitted[rows, left], 1.0)
    share = np.minimum(1.0, (target - fitted[rows, left]) / rise)
    values = np.where(first == 0, -np.inf, steps[left] + share * (steps[first] - steps[left]))
    return np.where(reached.any(axis=1), values, np.inf)


def _isotonic(correct: Array, n: Array) -> Array:
    """Isotonic fit of `correct / n` weighted by n, row by row: max over starts of the min over ends of block means."""
    zero = np.zeros((len(n), 1))
    sums, sizes = (np.concatenate([zero, np.cumsum(counts, axis=1)], axis=1) for counts in (correct, n))
    fitted = np.full(n.shape, -np.inf)
    for start in range(n.shape[1]):
        means = (sums[:, start + 1 :] - sums[:, start : start + 1]) / (
            sizes[:, start + 1 :] - sizes[:, start : start + 1]
        )
        lowest = np.minimum.accumulate(means[:, ::-1], axis=1)[:, ::-1]
        fitted[:, start:] = np.maximum(fitted[:, start:], lowest)
    return fitted


def d_prime(correct: float, n: int) -> float:
    """D' = z(h) - z(1 - h) with h = (correct + 1) / (n + 2).

    The added counts keep it finite at 0 and n.

    Example:
        >>> round(d_prime(20, 20), 4)
        3.3812
    """
    if not 0 <= correct <= n or n == 0:
        raise ValueError(f"`0 <= correct <= n` and `n > 0` must hold, but got {correct=}, {n=}.")
    hit = (correct + 1) / (n + 2)
    return float(ndtri(hit) - ndtri(1 - hit))
