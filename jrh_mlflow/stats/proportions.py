"""Intervals for shares: Wilson on the counts, one that takes clusters as units, and confidence sequences.

An interval for a fixed n, looked at after every call, loses the truth at some moment far more often than it says.
Confidence sequences lose it at any moment, of all there are, with a chance of at most alpha, so a rule may stop when
it likes.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy import special

from jrh_mlflow.stats import Array, Codes, Interval


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
    return wilson_share(successes / n, n, level=level)


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


def beta_share(share: float, n: float, *, level: float = 0.95) -> Interval:
    """Posterior interval for a share on an effective n, its priors those of `beta_binomial_interval`.

    Between Jeffreys' interval and that of Clopper and Pearson: holds at least 94 % for rates of .001 to .999 and n of
    10 to 400, where Wilson's falls to .84; about 5 % wider at rates in the middle. Never of zero width;
    exact at 0 and 1.

    Example:
        >>> [round(x, 4) for x in beta_share(80 / 120, 120)]
        [0.5757, 0.7493]
        >>> [round(x, 4) for x in beta_share(0.0, 30)]
        [0.0, 0.1092]
    """
    if not 0 <= share <= 1 or n <= 0:
        raise ValueError(f"`0 <= share <= 1` and `n > 0` must hold, but got {share=}, {n=}.")
    (a, b), tail, successes = _RATE_PRIOR, (1 - level) / 2, share * n
    low = 0.0 if share == 0 else float(special.betaincinv(successes + a, n - successes + b, tail))
    high = 1.0 if share == 1 else float(special.betaincinv(successes + b, n - successes + a, 1 - tail))
    return min(low, share), max(high, share)


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
    itself is uncertain. `make validate` prints the coverage.

    Returns:
        The interval, or None with fewer than two clusters: one task says nothing of the spread between tasks.
    """
    k = int((sizes > 0).sum())
    if k < 2:
        return None
    total = float(sizes.sum())
    shrink = (_normal_quantile(level) / t_quantile(k - 1, level)) ** 2
    n_eff = total / design_effect(successes, sizes) * shrink
    return wilson_share(float(successes.sum()) / total, n_eff, level=level)


def cluster_interval(successes: Array, sizes: Array, *, level: float = 0.95) -> Interval | None:
    """Interval for a share over clusters: the hull of `cluster_wilson` and `beta_binomial_interval`.

    The first rests on the spread between clusters alone, whatever its shape, and is too narrow where few clusters hold
    all the mistakes (or none is seen); the second assumes a shape (beta) and asks how large the share may be for every
    intraclass correlation (ICC) that the counts allow. Each covers where the other fails.

    Replicates of one presentation are no units: collapse them first, `collapse_replicates`. Counts may be fractions,
    and their order does not matter: equal counts are computed once.

    Coverage of the 95 % interval with 10, 14, 28 and 30 clusters of 2, 4 and 12 units, ICC 0, .1, .3 and .6 (`jrh
    validate`; exact sums for 2 and 4 units): at least .937, be the clusters beta-binomial or all-or-none at rates of
    .005 to .995, or of a rate that is either 0 or q at rates up to .5; `cluster_wilson` alone falls to .53. The mean
    width grows by 4 to 9 % with 2 units, 15 to 17 % with 4, 21 to 32 % with 12; most where nothing is clustered (there
    it covers .98 on average). It does not hold for an ICC near 1 (.91 at .8, .88 at .95 with 10 clusters of 4) nor
    where some clusters always fail and the others seldom (.91): docs/statistics.md.

    Reference:
        Korn & Graubard (1998), Surv. Methodol. 24:193-201; Franco, Little, Louis & Slud (2019), J. Surv. Stat.
        Methodol. 7:334-364 (comparison of such intervals under clustering).

    Returns:
        The interval, or None with fewer than two clusters: one task says nothing of the spread between tasks.

    Example:
        >>> [round(end, 3) for end in cluster_interval(np.zeros(10), np.full(10, 12.0)) or ()]
        [0.0, 0.166]
    """
    return _cluster_interval(np.asarray(successes, float).tobytes(), np.asarray(sizes, float).tobytes(), level)


@lru_cache(maxsize=8192)
def _cluster_interval(successes: bytes, sizes: bytes, level: float) -> Interval | None:
    """Of counts as bytes: a comparison of many judges asks for the interval of each again and again."""
    x, m = np.frombuffer(successes), np.frombuffer(sizes)
    outer = cluster_wilson(x, m, level=level)
    if outer is None:
        return None
    inner = beta_binomial_interval(x, m, level=level)
    # The hull, not a choice between the two: which of them fails depends on a truth that the counts do not show.
    return min(outer[0], inner[0]), max(outer[1], inner[1])


def cluster_at(successes: Array, sizes: Array, level: float) -> Interval | None:
    """Return `cluster_interval` at a level that stands last, so that the counts can be bound first."""
    return cluster_interval(successes, sizes, level=level)


_SMALLEST_P = 1e-6


def level_beyond(at_level: Callable[[float], Interval | None], limit: float, *, above: bool) -> float:
    """Smallest one-sided level at which an interval lies wholly above a limit, or wholly below it.

    A p-value of "not beyond the limit": the interval at the level `1 - 2 p` just touches it. 1 where no interval up to
    the level 0 lies beyond; nothing below a millionth is told apart.

    Example:
        >>> counts = np.array([9.0, 8.0, 9.0, 10.0]), np.full(4, 10.0)
        >>> round(level_beyond(lambda level: cluster_interval(*counts, level=level), 0.75, above=True), 3)
        0.328
    """

    def is_beyond(p: float) -> bool:
        ends = at_level(1 - 2 * p)
        return ends is not None and (ends[0] > limit if above else ends[1] < limit)

    low, high = math.log(_SMALLEST_P), math.log(0.499)
    if is_beyond(_SMALLEST_P):
        return _SMALLEST_P
    if not is_beyond(0.499):
        return 1.0
    # Intervals only widen with the level, so halving finds where they begin to touch the limit.
    for _ in range(20):
        middle = (low + high) / 2
        low, high = (low, middle) if is_beyond(math.exp(middle)) else (middle, high)
    return math.exp(high)


def beta_binomial_interval(successes: Array, sizes: Array, *, level: float = 0.95) -> Interval:
    """Posterior interval for the mean of a beta-binomial, its intraclass correlation integrated out.

    Cluster i has `x_i ~ Binomial(m_i, q_i)`, `q_i ~ Beta` with mean p and ICC rho, so up to a constant
    `log L(p, rho) = sum_i [ sum_{j<x_i} log(p (1-rho) + j rho) + sum_{j<m_i-x_i} log((1-p) (1-rho) + j rho)
    - sum_{j<m_i} log(1-rho + j rho) ]`. A fraction of a success takes that fraction of its term.
    Prior of rho at a rate p: Beta(1/2 + 3/2 |1 - 2p|, 3/2). Near 0 and 1, where the counts can hardly show a
    correlation, it keeps away from 0; in the middle, where they can, it lets it be small.
    The lower end is the quantile (1 - level) / 2 under the prior Beta(0.1, 0.9) of p, the upper end (1 + level) / 2
    under Beta(0.9, 0.1). Beta(1/2, 1/2) for both would be Jeffreys' interval, Beta(0, 1) and Beta(1, 0) that of Clopper
    and Pearson. The priors were chosen by coverage, not belief: do not read the posterior as one.

    Reference:
        Skellam (1948), J. R. Stat. Soc. B 10:257-261 (the model); Brown, Cai & DasGupta (2001), Stat. Sci. 16:101-133
        (posterior quantiles as intervals, their coverage at the edges).

    Returns:
        The two ends, by midpoint sums on a grid that is laid twice: over all rates, then over those with any weight.
        Exactly 0 or 1 at an end that no success or failure speaks against.
    """
    posterior = rate_posterior(successes, sizes)
    return posterior.low((1 - level) / 2), posterior.high((1 - level) / 2)


@dataclass(frozen=True, kw_only=True, slots=True)
class RatePosterior:
    """What `beta_binomial_interval` takes its ends from, at any level."""

    below_low: Array
    """Weight of all angles below each of the `borders`, under the prior of the lower end."""
    below_high: Array
    borders: Array
    none: bool
    """No success: the lower end is 0."""
    every: bool
    """No failure: the upper end is 1."""

    def low(self, tail: float) -> float:
        """End under which the rate lies with the chance `tail`."""
        return 0.0 if self.none else _grid_quantile(self.below_low, tail, self.borders)

    def high(self, tail: float) -> float:
        """End over which the rate lies with the chance `tail`."""
        return 1.0 if self.every else _grid_quantile(self.below_high, 1 - tail, self.borders)


def rate_posterior(successes: Array, sizes: Array) -> RatePosterior:
    """Weigh the rates as `beta_binomial_interval` says; the order of the clusters does not matter."""
    return _posterior_of(np.asarray(successes, float).tobytes(), np.asarray(sizes, float).tobytes())


@lru_cache(maxsize=8192)
def _posterior_of(of_successes: bytes, of_sizes: bytes) -> RatePosterior:
    successes, sizes = np.frombuffer(of_successes), np.frombuffer(of_sizes)
    used = sizes > 0
    x, m = successes[used], sizes[used]
    if not len(m) or (x < 0).any() or (x > m).any():
        raise ValueError(f"`0 <= successes <= sizes` and a size over 0 must hold, but got {successes=}, {sizes=}.")
    # Equal counts in another order are one entry of the cache: suites ask for the same tasks over and over.
    kinds = Counter(zip(x.tolist(), m.tolist(), strict=True))
    return _rate_posterior(tuple(sorted(kinds.items())))


@lru_cache(maxsize=8192)
def _rate_posterior(kinds: tuple[tuple[tuple[float, float], int], ...]) -> RatePosterior:
    """Of clusters by kind, ((successes, size), how many); kept, since equal counts come again."""
    x, m = np.repeat(np.array([kind for kind, _ in kinds]), [n for _, n in kinds], axis=0).T
    counts = _Counts.of(x, m)
    # A coarse grid finds where there is any weight; the fine one is then laid there alone.
    weight = counts.likelihood(_coarse_grid())
    inside = np.flatnonzero(weight > _NO_WEIGHT * weight.max())
    fine = _fine_grid(int(inside[0]), int(inside[-1]))
    weight = counts.likelihood(fine)
    below_low, below_high = (np.concatenate([[0.0], np.cumsum(weight * a * b)]) for a, b in fine.rate_priors)
    return RatePosterior(
        below_low=below_low,
        below_high=below_high,
        borders=fine.borders,
        none=not x.any(),
        every=bool((x == m).all()),
    )


_RATE_PRIOR = (0.1, 0.9)
"""Beta prior of the rate for the lower end; mirrored for the upper end."""
_NO_WEIGHT = 1e-9
_N_RATES, _N_ICCS = 160, 20
# Squares of even steps: dense near 0, where the likelihood changes fastest.
_ICCS: Array = np.square((np.arange(_N_ICCS) + 0.5) / _N_ICCS)


class _Grid:
    """Rates × ICCs on which a likelihood is summed, with all of it that does not depend on the counts.

    Few grids serve all counts (a fine one begins and ends at a cell of the coarse one), and most of the work is to take
    the same logarithms and powers.
    """

    def __init__(self, start: float, stop: float, *, n: int) -> None:
        self.angles: Array = start + (np.arange(n) + 0.5) / n * (stop - start)
        """Midpoints on the scale arcsin(sqrt(rate)), on which Jeffreys' prior is flat."""
        self.borders: Array = np.linspace(start, stop, n + 1)
        rates = np.square(np.sin(self.angles))
        self.rate_priors = [(rates ** (a - 0.5), (1 - rates) ** (b - 0.5)) for a, b in (_RATE_PRIOR, _RATE_PRIOR[::-1])]
        """Of the lower and the upper end: the two factors of the prior of each rate."""
        self.icc_prior: Array = _icc_prior(rates)
        self.yes, self.no = np.outer(rates, 1 - _ICCS), np.outer(1 - rates, 1 - _ICCS)


@lru_cache(maxsize=1024)
def _grid_logs(grid: _Grid, at: int) -> tuple[Array, Array]:
    """Log chance of a success, and of a failure, after `at` of the same: 50 MB at most are kept."""
    return np.log(grid.yes + at * _ICCS), np.log(grid.no + at * _ICCS)


@lru_cache(maxsize=1)
def _coarse_grid() -> _Grid:
    return _Grid(0.0, math.pi / 2, n=_N_RATES // 4)


@lru_cache(maxsize=256)
def _fine_grid(first: int, last: int) -> _Grid:
    """Return the grid over these cells of the coarse one."""
    angles = _coarse_grid().angles
    # A cell more at each side: the likelihood has its top between midpoints.
    margin = 1.5 * float(angles[1] - angles[0])
    start, stop = max(0.0, float(angles[first]) - margin), min(math.pi / 2, float(angles[last]) + margin)
    return _Grid(start, stop, n=_N_RATES)


class _Counts(NamedTuple):
    """How many clusters have a j-th success, failure, unit: all that the likelihood needs to know of the counts."""

    won: Array
    lost: Array
    tried: Array

    @classmethod
    def of(cls, x: Array, m: Array) -> _Counts:
        j = np.arange(math.ceil(float(m.max())))
        return cls(*(np.clip(counts[:, None] - j, 0, 1).sum(axis=0) for counts in (x, m - x, m)))

    def likelihood(self, grid: _Grid) -> Array:
        """Beta-binomial likelihood of each rate, averaged over the prior of the ICC; the largest term is 1."""
        logs, term = np.zeros(grid.icc_prior.shape), np.empty(grid.icc_prior.shape)
        for at, (won, lost, tried) in enumerate(zip(*self, strict=True)):
            success, failure = _grid_logs(grid, at)
            if won:
                logs += np.multiply(won, success, out=term)
            if lost:
                logs += np.multiply(lost, failure, out=term)
            logs -= tried * np.log(1 - _ICCS + at * _ICCS)
        weight: Array = (np.exp(logs - logs.max()) * grid.icc_prior).sum(axis=1)
        return weight


def _icc_prior(rates: Array) -> Array:
    """Weights of the grid of ICCs at each rate; the root is the width of a step of the grid."""
    power = 1.5 * np.abs(1 - 2 * rates) - 0.5
    prior: Array = np.sqrt(_ICCS) * _ICCS ** power[:, None] * np.sqrt(1 - _ICCS)
    prior /= prior.sum(axis=1, keepdims=True)
    return prior


def _grid_quantile(below: Array, at: float, borders: Array) -> float:
    """Rate under which the share `at` of the weight lies, from the weight below each border of a cell of angles."""
    return float(np.sin(np.interp(at * below[-1], below, borders)) ** 2)


def collapse_replicates(
    hits: Array, presentation: Codes, cluster: Codes, *, n_clusters: int | None = None
) -> tuple[Array, Array]:
    """Successes and sizes per cluster, with the replicates of one presentation counted as one unit.

    Asked five times, a judge that always gives the same answer has told nothing new about the next task: five equal
    answers count as one. Answers that differ enter as fractions. With n_j units of presentation j, successes and units
    are divided by `mean_replicates`, so that they sum to Kish's effective number `(sum n_j)² / sum n_j²` and the share
    stays that of all units, also where one presentation was asked more often than another.

    Reference:
        Kish (1965), Survey Sampling, Wiley (effective number under unequal weights).

    Args:
        hits: Of each unit, 0 to 1.
        presentation: Code of what was asked; a presentation is of one cluster.
        cluster: Code of the cluster, 0, 1, …
        n_clusters: Length of the arrays returned; up to the largest code when None.

    Example:
        >>> hits = np.array([1.0, 1.0, 0.0, 1.0])
        >>> collapse_replicates(hits, np.array([0, 0, 1, 1]), np.array([0, 0, 0, 0]))
        (array([1.5]), array([2.]))
    """
    n = np.bincount(presentation)
    successes: Array = np.bincount(cluster, weights=hits, minlength=n_clusters or 0).astype(float)
    sizes: Array = np.bincount(cluster, minlength=n_clusters or 0).astype(float)
    # Whole numbers are multiplied before one division rounds: r copies of every unit change no bit.
    units, squares = float(n.sum()), max(1.0, float(np.square(n).sum()))
    return successes * units / squares, sizes * units / squares


def mean_replicates(presentation: Codes) -> float:
    """Units of the same presentation as a unit, itself included, averaged over units: 1 where none is repeated.

    Example:
        >>> mean_replicates(np.array([7, 7, 7, 2, 2, 2])), mean_replicates(np.array([], dtype=int))
        (3.0, 1.0)
    """
    n = np.bincount(presentation)
    return float(np.square(n).sum() / n.sum()) if len(n) else 1.0


def newcombe(share_a: float, a: Interval, share_b: float, b: Interval, *, correlation: float = 0.0) -> Interval:
    """Interval of `share_b - share_a` from the two shares' own intervals (square and add).

    With x and y the distances of the shares to the ends that matter, the distance of the difference to its end is
    `sqrt(x² - 2 r x y + y²)`, r the `correlation` of the two estimates. Never of zero width while r < 1 or x ≠ y. On
    the same items both shares tend to move together, so with r = 0 it is on the wide side.

    Reference:
        Newcombe (1998), Stat. Med. 17:873-890, method 10, and 17:2635-2650 for paired shares;
        Zou & Donner (2008), Stat. Med. 27:1693-1702.

    Example:
        >>> [round(end, 3) for end in newcombe(0.5, (0.4, 0.6), 0.7, (0.6, 0.8))]
        [0.059, 0.341]
        >>> [round(end, 3) for end in newcombe(0.5, (0.4, 0.6), 0.7, (0.6, 0.8), correlation=0.5)]
        [0.1, 0.3]
    """
    if not -1 <= correlation <= 1:
        raise ValueError(f"`-1 <= correlation <= 1` must hold, but got {correlation}.")

    def distance(x: float, y: float) -> float:
        return math.sqrt(max(0.0, x * x - 2 * correlation * x * y + y * y))

    difference = share_b - share_a
    # The difference is small where b is low and a high at once: those two ends make its lower end.
    low = difference - distance(share_b - b[0], a[1] - share_a)
    high = difference + distance(b[1] - share_b, share_a - a[0])
    return max(-1.0, low), min(1.0, high)


FEWEST_PAIRED = 3
"""Clusters in common under which nothing is known of how two shares go together."""


def share_correlation(successes_a: Array, sizes_a: Array, successes_b: Array, sizes_b: Array) -> float:
    """Correlation of two shares measured on the same clusters, one value per cluster in each array.

    `(sum(r s) - c) / sqrt((sum(r²) + mean(m)² / 4) (sum(s²) + mean(n)² / 4))`, r and s the residuals
    `successes - share * size` of the clusters, m and n their sizes, `c = mean(m) mean(n) / 4`: as if one more cluster
    had been seen in which the two shares go apart as far as they can. Two shares that go together in all of k clusters
    need not in the next one: where they differ in whole clusters, but rarely, the plain correlation (also times
    k / (k + 2)) covers .81, this one .96 (`newcombe` at 28 clusters of 12). The added cluster never turns a positive
    correlation negative. 0 where one of the shares does not vary over the clusters, or with fewer than three of them:
    then nothing is known of it.

    Example:
        >>> round(share_correlation(np.array([0.0, 1, 2]), np.full(3, 2.0), np.array([0.0, 2, 2]), np.full(3, 2.0)), 3)
        0.302
    """
    both = (sizes_a > 0) & (sizes_b > 0)
    if int(both.sum()) < FEWEST_PAIRED:
        return 0.0
    r, s = (
        successes - successes.sum() / sizes.sum() * sizes
        for successes, sizes in ((successes_a, sizes_a), (successes_b, sizes_b))
    )
    if float((r * r).sum() * (s * s).sum()) < 1e-18:
        return 0.0
    half_a, half_b = (float(sizes[both].mean()) / 2 for sizes in (sizes_a, sizes_b))
    scale = math.sqrt((float((r * r).sum()) + half_a**2) * (float((s * s).sum()) + half_b**2))
    together = float((r * s).sum())
    # A negative correlation widens `newcombe` already; only a positive one, which narrows it, must be earned.
    return (max(0.0, together - half_a * half_b) if together > 0 else together) / scale


@lru_cache
def _normal_quantile(level: float) -> float:
    return float(special.ndtri((1 + level) / 2))


@lru_cache
def t_quantile(df: float, level: float = 0.95) -> float:
    """Two-sided quantile of Student's t."""
    return float(special.stdtrit(df, (1 + level) / 2))


@lru_cache(maxsize=65536)
def suite_bounds(successes: int, n: int, size: int, *, alpha: float = 0.05) -> Interval:
    """Confidence sequence for the share of successes among all `size` units of a suite, after `n` of them.

    The units come without replacement in random order. The counts S with
    `C(S, x) C(size - S, n - x) / C(size, n) > alpha / (n + 1)`: the prior over the posterior of S under a uniform
    (beta-binomial with a = b = 1) prior is a martingale at the true S. Exact over whole numbers S; narrows to the
    share itself when all units are in. The intersection over all moments so far is valid too.

    The suite is fixed and the order random, so it does not matter that units of one task are alike; it does when
    whole tasks are drawn one after the other. What it brackets is the share on this suite, not on new tasks.

    Reference:
        Waudby-Smith & Ramdas (2020), Confidence sequences for sampling without replacement, NeurIPS 33, section 2.

    Returns:
        The smallest and the largest S / size that stay; (0, 1) when `n` is 0, (share, share) when `n` is `size`.

    Example:
        >>> [round(end, 4) for end in suite_bounds(80, 120, 200)]
        [0.575, 0.75]
        >>> suite_bounds(150, 200, 200)
        (0.75, 0.75)
    """
    _check(successes, n, alpha=alpha)
    if not n <= size or size < 1:
        raise ValueError(f"`n <= size` and `size >= 1` must hold, but got {n=}, {size=}.")
    failures, unseen = n - successes, size - n
    # Candidates are S = successes + j with j = 0 … unseen.
    logs, kept = _log_factorials(size), _log_counts(successes, failures, size)
    constant = logs[successes] + logs[failures] + logs[size] - logs[n] - logs[unseen]
    inside = np.flatnonzero(kept > constant + math.log(alpha / (n + 1)))
    return float(successes + inside[0]) / size, float(successes + inside[-1]) / size


@lru_cache(maxsize=65536)
def suite_ends(successes: int, n: int, size: int, *, alpha: float = 0.05) -> Interval:
    """Two one-sided confidence sequences for the share of successes among all `size` units, after `n` of them.

    Each end by itself is wrong at some moment with a chance of at most `alpha`; both together are an interval of
    `suite_bounds`' kind at 2 alpha. The upper end is the largest S with

        L(S) > alpha × mean of L(0) … L(S - 1),    L(S) = C(S, x) C(size - S, n - x),

    the lower one the same of the failures. At the true S that mean over L(S) is a martingale that starts at 1: a
    mixture over smaller suites only. One that is uniform over all S, as `suite_bounds` has it, spends most of its
    weight where it cannot speak against a large S; this one decides "at most a tenth" from 30 % fewer units.

    A decision against a limit is wrong on one side only, so it has the error `alpha` with both ends.

    Returns:
        The smallest and the largest S / size that stay; (0, 1) when `n` is 0, (share, share) when `n` is `size`.

    Example:
        >>> [round(end, 4) for end in suite_ends(0, 40, 120)]
        [0.0, 0.075]
        >>> [round(end, 4) for end in suite_bounds(0, 40, 120)]
        [0.0, 0.125]
    """
    _check(successes, n, alpha=alpha)
    if not n <= size or size < 1:
        raise ValueError(f"`n <= size` and `size >= 1` must hold, but got {n=}, {size=}.")
    low = size - _largest_count(n - successes, successes, size, alpha)
    return low / size, _largest_count(successes, n - successes, size, alpha) / size


def _largest_count(successes: int, failures: int, size: int, alpha: float) -> int:
    """Return the largest S that the units seen so far do not speak against, by `suite_ends`."""
    kept = _log_counts(successes, failures, size)
    likelihood = np.exp(kept - kept.max())
    counts = successes + np.arange(len(kept))
    below = np.concatenate([[0.0], np.cumsum(likelihood)[:-1]])
    inside = np.flatnonzero(likelihood * np.maximum(counts, 1) > alpha * below)
    return int(counts[inside[-1]])


def _log_counts(successes: int, failures: int, size: int) -> Array:
    """Return log C(S, successes) C(size - S, failures), up to a constant, for S = successes … size - failures."""
    logs, unseen = _log_factorials(size), size - successes - failures
    kept: Array = logs[successes : successes + unseen + 1] - logs[: unseen + 1]
    kept += (logs[failures : failures + unseen + 1] - logs[: unseen + 1])[::-1]
    return kept


def _check(successes: int, n: int, *, alpha: float) -> None:
    if not 0 <= successes <= n:
        raise ValueError(f"`0 <= successes <= n` must hold, but got {successes=}, {n=}.")
    if not 0 < alpha < 1:
        raise ValueError(f"`0 < alpha < 1` must hold, but got {alpha=}.")


@lru_cache(maxsize=64)
def _log_factorials(size: int) -> Array:
    """Return log 0!, log 1!, … log size!, one table per size of suite."""
    logs: Array = special.gammaln(np.arange(1.0, size + 2))
    logs.setflags(write=False)
    return logs
