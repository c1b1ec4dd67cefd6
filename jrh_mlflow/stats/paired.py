"""Two or more judges on the same units: paired tests, adjustment for many tests, letters for what cannot be told apart.

A unit is a call or an item; units of one cluster (the perturbations of one item) are not independent.
"""

from __future__ import annotations

import math
import string
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import combinations

import numpy as np
import numpy.typing as npt
from scipy import special  # not stats: half a second of imports

from jrh_mlflow.stats import Array, Codes, Interval, Mask
from jrh_mlflow.stats.proportions import cluster_interval, newcombe, share_correlation, t_quantile

_ENUMERATED_CLUSTERS = 12
"""Up to here all 2^k sign patterns are tried."""
_COUNTED_CELLS = 20_000_000
"""Up to this many clusters × total the exact distribution of whole-numbered sums is counted: a tenth of a second."""
_BLOCK = 1_000_000
"""Signs held in memory at a time."""


@lru_cache(maxsize=4096)
def mcnemar_midp(b: int, c: int) -> float:
    """Two-sided mid-p value of McNemar's test on the discordant counts b and c.

    Outcomes further from the middle than b count in full, those as far by half, so it is not conservative as the
    exact test is: `2 P(X <= min(b, c)) - P(X = b)` with X binomial(b + c, 1/2), and `1 - P(X = b) / 2` when b = c.
    1.0 when both are 0: nothing speaks for a difference.

    Reference:
        Fagerland, Lydersen & Laake (2013), BMC Med. Res. Methodol. 13:91.

    Example:
        >>> round(mcnemar_midp(1, 7), 4)
        0.0391
    """
    if min(b, c) < 0:
        raise ValueError(f"Array must be 0 or more, but got {b=}, {c=}.")
    if b == c == 0:
        return 1.0
    observed = math.exp(special.gammaln([b + c + 1, b + 1, c + 1]) @ (1, -1, -1) - (b + c) * math.log(2))
    if b == c:
        return float(1 - observed / 2)
    return float(2 * special.bdtr(min(b, c), b + c, 0.5) - observed)


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's step-down adjusted p-values, in the order given: reject where the result is at most the level.

    The i-th smallest of m becomes `max over j <= i of (m - j + 1) p_(j)`, at most 1. Holds the chance of any false
    rejection under the level whatever the dependence between the tests.

    Reference:
        Holm (1979), Scand. J. Stat. 6:65-70.

    Example:
        >>> holm([0.01, 0.04, 0.03, 0.005])
        [0.03, 0.06, 0.06, 0.02]
    """
    p = np.asarray(p_values, float)
    if not ((p >= 0) & (p <= 1)).all():
        raise ValueError(f"P-values must lie in 0 … 1, but got {list(p_values)}.")
    order = np.argsort(p, kind="stable")
    steps = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
    adjusted = np.empty(len(p))
    adjusted[order] = np.minimum(steps, 1.0)
    return [float(value) for value in adjusted]


def paired_share_interval(
    gains: npt.ArrayLike, losses: npt.ArrayLike, n: npt.ArrayLike, *, level: float = 0.95
) -> tuple[Array, Array]:
    """Interval of the difference `(gains - losses) / n` of two shares on the same `n` units, for arrays of counts.

    `gains` are the units that only the second judge gets right, `losses` those that only the first does. The hull of
    Tango's score interval and of the exact interval given `gains + losses`, `(gains + losses) / n * (2 p - 1)` with p
    in the Clopper-Pearson interval of the share of gains. The score interval keeps a width where no unit differs, but
    with few that do it misses by one side in up to 4.8 % where 2.5 % are meant, a bootstrap in over 6 %. The hull does
    in at most 2.6 % (n of 6 to 300, differences of -.2 to .1; by exact sums), in 3.1 % on the one side where all that
    differ differ the same way. Its lower end is above 0 only where McNemar's exact one-sided test rejects.

    Reference:
        Tango (1998), Stat. Med. 17:891-908; Clopper & Pearson (1934), Biometrika 26:404-413.

    Returns:
        Lower and upper ends.

    Example:
        >>> low, high = paired_share_interval([4, 9], [0, 1], 50)
        >>> low.round(3), high.round(3)
        (array([-0.016,  0.022]), array([0.188, 0.293]))
    """
    b, c, of = np.broadcast_arrays(*(np.asarray(numbers, float) for numbers in (gains, losses, n)))
    if not ((b >= 0) & (c >= 0) & (b + c <= of) & (of > 0)).all():
        raise ValueError(f"`0 <= gains + losses <= n` and `n > 0` must hold, but got {gains=}, {losses=}, {n=}.")
    # Both ends by one rule: the upper one is the lower one with the judges changed over.
    return _low_of_paired(b, c, of, level), -_low_of_paired(c, b, of, level)


def _low_of_paired(b: Array, c: Array, n: Array, level: float) -> Array:
    tail = (1 - level) / 2
    share = np.where(b > 0, special.betaincinv(np.maximum(b, 1), c + 1, tail), 0.0)
    exact = (b + c) / n * (2 * share - 1)
    low: Array = np.minimum(_low_by_score(b, c, n, float(special.ndtri(1 - tail))), exact)
    return low


def _low_by_score(b: Array, c: Array, n: Array, z: float) -> Array:
    """Bisect for the difference at which the score statistic is z; at -1 it is above, at the estimate it is 0."""
    low, high = np.full(b.shape, -1.0), (b - c) / n
    for _ in range(60):
        middle = (low + high) / 2
        # The share of losses that is likeliest with this difference.
        slope = (2 * n - b + c) * middle - b - c
        loss = (np.sqrt(slope**2 + 8 * n * c * middle * (1 - middle)) - slope) / (4 * n)
        variance = n * (2 * loss + middle * (1 - middle))
        above = b - c - n * middle > z * np.sqrt(np.maximum(variance, 0.0))
        low, high = np.where(above, middle, low), np.where(above, high, middle)
    return low


def discordant_interval(
    gains: Array, losses: Array, sizes: Array, *, level: float = 0.95, to_ends: bool = False
) -> Interval | None:
    """Interval of the difference of two judges from the units on which they part, summed by cluster.

    The difference is the share of units that only the one gets right less the share that only the other does. Each
    share has its `cluster_interval`; the two are put together as `newcombe` does, with their correlation over clusters
    where it is negative; with `to_ends` it is -1 where all units part the same way. Where no unit differs it says how
    large a difference may still be: with few clusters much.

    A bootstrap of whole clusters covers .82 where 10 clusters of 12 units differ rarely, and then in whole clusters
    (rates of .1 and .02, ICC .6); this one at least .95 (`make validate ONLY=decisions`). At the level 1 - 2 a one end
    errs in at most a, so "within the margin" is claimed wrongly in at most a (TOST).

    Reference:
        Newcombe (1998), Stat. Med. 17:2635-2650; Schuirmann (1987), J. Pharmacokinet. Biopharm. 15:657-680 (TOST).

    Returns:
        The interval, or None with fewer than two clusters.

    Example:
        >>> [round(end, 3) for end in discordant_interval(np.zeros(10), np.zeros(10), np.full(10, 12.0)) or ()]
        [-0.166, 0.166]
    """
    of_gains, of_losses = (cluster_interval(counts, sizes, level=level) for counts in (gains, losses))
    if of_gains is None or of_losses is None:
        return None
    loss, gain = (float(counts.sum() / sizes.sum()) for counts in (losses, gains))
    together = min(0.0, share_correlation(losses, sizes, gains, sizes))
    # Where every unit parts the same way nothing varies, and a value that is not one end may be the other.
    if to_ends and max(loss, gain) > 1 - 1e-9:
        together = -1.0
    return newcombe(loss, of_losses, gain, of_gains, correlation=together)


FEW_DIFFER = 5
"""Clusters that differ from the others, up to which their spread is no guide to what the next ones may do."""


def value_interval(gains: Array, losses: Array, sizes: Array, level: float) -> Interval | None:
    """Interval of the mean of values from -1 to 1, summed by cluster: what is above 0, what is below it, and units.

    All means θ from which the seen one is at most t standard errors away. The standard error is that of the cluster
    means, or where it is larger `sqrt(|θ| (1 - |θ|) / units)`, as of units that are 0 or 1: equal values of all
    clusters leave no spread, and still do not make a mean certain. Where at most five clusters differ from 0, or from
    an end, `discordant_interval` is put around it: few rare values say little of how rare they are.
    `make validate ONLY=findings` prints the coverage.

    Returns:
        The interval, or None with fewer than two clusters.

    Example:
        >>> [round(end, 2) for end in value_interval(np.full(28, 0.5), np.zeros(28), np.full(28, 2.0), 0.95) or ()]
        [0.15, 0.38]
        >>> [round(end, 2) for end in value_interval(np.zeros(28), np.zeros(28), np.full(28, 2.0), 0.95) or ()]
        [-0.09, 0.09]
    """
    used = sizes > 0
    total, k = float(sizes.sum()), int(used.sum())
    if k < 2:
        return None
    sums = gains[used] - losses[used]
    mean, t = float(sums.sum()) / total, t_quantile(k - 1, level)
    error = math.sqrt(k / (k - 1) * float(np.square(sums - mean * sizes[used]).sum())) / total
    floor = _ends_of_share(abs(mean), t * t / total)
    low, high = floor if mean >= 0 else (-floor[1], -floor[0])
    low, high = min(low, mean - t * error), max(high, mean + t * error)
    means = sums / sizes[used]
    if min(int((means != end).sum()) for end in (-1.0, 0.0, 1.0)) <= FEW_DIFFER:
        rare = discordant_interval(gains, losses, sizes, level=level, to_ends=True)
        low, high = (min(low, rare[0]), max(high, rare[1])) if rare else (low, high)
    return max(-1.0, low), min(1.0, high)


def _ends_of_share(mean: float, c: float) -> Interval:
    """Solve `(mean - θ)² <= c |θ| (1 - |θ|)` for a mean of 0 or more."""
    centre, root = (mean + c / 2) / (1 + c), math.sqrt(c * mean * (1 - mean) + c * c / 4) / (1 + c)
    low, high = centre - root, centre + root
    # On the other side of 0 the same holds with the mean turned over, where it can be reached at all.
    beyond = (c / 2 - mean) ** 2 - (1 + c) * mean * mean
    if mean <= c / 2 and beyond >= 0:
        low = -(c / 2 - mean + math.sqrt(beyond)) / (1 + c)
    return low, high


def cluster_sign_p(a: Array, b: Array, clusters: Codes, *, n_resamples: int = 9999, seed: int = 0) -> float:
    """Two-sided permutation p-value of mean(a) - mean(b): within a cluster, all units swap judges together.

    `P(|sum_j s_j d_j| >= |sum_j d_j|)` over random signs s_j, with d_j the sum of a - b in cluster j. McNemar takes
    units as independent and rejects too often when those of a cluster move together; this one does not. Exact when
    the d_j are whole numbers (0/1 answers, whole grades) and with up to 12 clusters that differ; otherwise Monte
    Carlo, `(1 + hits) / (1 + n_resamples)`. It cannot be smaller than 2^(1 - k) with k clusters that differ: five or
    fewer never reach 0.05. With one unit per cluster and 0/1 answers it is McNemar's exact test.

    Reference:
        Good (2005), Permutation, Parametric and Bootstrap Tests of Hypotheses, section 3.2; the correction by 1 as in
        Phipson & Smyth (2010), Stat. Appl. Genet. Mol. Biol. 9:39.

    Returns:
        The p-value; 1.0 when no cluster differs, also when no unit has both values.

    Example:
        >>> a, b = np.array([1.0, 1.0, 1.0, 1.0]), np.array([0.0, 0.0, 0.0, 0.0])
        >>> cluster_sign_p(a, b, np.array([0, 1, 2, 3])), cluster_sign_p(a, b, np.array([0, 0, 1, 1]))
        (0.125, 0.5)
    """
    if n_resamples < 1:
        raise ValueError(f"`n_resamples >= 1` must hold, but got {n_resamples=}.")
    a, b, sums = _paired_sums(a, b, clusters)
    # A cluster of sum 0 is the same under both signs; so is one where rounding left a trace of it.
    sums = sums[np.abs(sums) > 1e-9 * np.abs(a - b).max(initial=0.0)]
    if (sums == np.round(sums)).all() and len(sums) * np.abs(sums).sum() <= _COUNTED_CELLS:
        return _counted_p(sums.astype(np.intp))
    if len(sums) <= _ENUMERATED_CLUSTERS:
        patterns = np.arange(2 ** len(sums))[:, None] >> np.arange(len(sums)) & 1
        return float(_as_extreme(patterns, sums).mean())
    return (1 + _sampled_hits(sums, n_resamples=n_resamples, seed=seed)) / (1 + n_resamples)


def letters(names: Sequence[str], different: Callable[[str, str], bool]) -> dict[str, str]:
    """Compact letter display: two names share a letter exactly when they cannot be told apart.

    Insert and absorb: start with one group of all names; each pair that differs splits every group that holds both
    in two, each without one of the pair; a group inside another is dropped. `different` is asked once per pair, in
    the order of `names` (best first); letters follow that order, so the first name has "a". After z come A … Z, then
    a1, b1, …

    Reference:
        Piepho (2004), J. Comput. Graph. Stat. 13:456-466.

    Example:
        >>> letters(["x", "y", "z"], lambda one, other: {one, other} == {"x", "z"})
        {'x': 'a', 'y': 'ab', 'z': 'b'}
    """
    if len(set(names)) < len(names):
        raise ValueError(f"Names must be unique, but got {list(names)}.")
    groups = {frozenset(range(len(names)))}
    for i, j in combinations(range(len(names)), 2):
        if different(names[i], names[j]):
            groups = _split(groups, i, j)
    ordered = sorted(groups, key=sorted)
    return {
        name: "".join(_letter(rank) for rank, group in enumerate(ordered) if index in group)
        for index, name in enumerate(names)
    }


def _paired_sums(a: Array, b: Array, clusters: Codes) -> tuple[Array, Array, Array]:
    """Return a and b where both are given, and per cluster the sum of a - b."""
    if a.ndim != 1 or not a.shape == b.shape == clusters.shape:
        raise ValueError(f"One a, b and cluster per unit, but got shapes {a.shape}, {b.shape}, {clusters.shape}.")
    if np.isinf(a).any() or np.isinf(b).any():
        raise ValueError("Values must be finite or NaN, but an infinity arrived.")
    both = ~(np.isnan(a) | np.isnan(b))
    a, b = a[both], b[both]
    known, inverse = np.unique(clusters[both], return_inverse=True)
    return a, b, np.bincount(inverse, weights=a - b, minlength=len(known)).astype(np.float64)


def _counted_p(sums: Codes) -> float:
    """Exact share of sign patterns as extreme as the sum, by counting the ways to reach each total."""
    centre = int(np.abs(sums).sum())
    shares = np.zeros(2 * centre + 1)
    shares[centre] = 1.0
    for size in np.abs(sums):
        # No total lies past an end of the array, so what rolls over the end is 0.
        shares = (np.roll(shares, size) + np.roll(shares, -size)) / 2
    extreme = np.abs(np.arange(-centre, centre + 1)) >= abs(int(sums.sum()))
    return min(1.0, float(shares[extreme].sum()))


def _sampled_hits(sums: Array, *, n_resamples: int, seed: int) -> int:
    rng = np.random.default_rng(seed)
    rows = max(1, _BLOCK // len(sums))
    sizes = [min(rows, n_resamples - start) for start in range(0, n_resamples, rows)]
    drawn = (rng.integers(2, size=(size, len(sums))) for size in sizes)
    return sum(int(_as_extreme(patterns, sums).sum()) for patterns in drawn)


def _as_extreme(patterns: npt.NDArray[np.int64], sums: Array) -> Mask:
    """Whether each row of 0/1 patterns, read as signs, gives a total as far from 0 as the sum itself."""
    signs = np.where(patterns == 1, -1.0, 1.0)
    # Totals that are equal on paper must count as equal whatever the last bit says.
    tolerance = 1e-9 * np.abs(sums).sum()
    extreme: Mask = np.abs(signs @ sums) >= abs(sums.sum()) - tolerance
    return extreme


def _split(groups: set[frozenset[int]], i: int, j: int) -> set[frozenset[int]]:
    parts = {group - {k} for group in groups for k in (i, j) if {i, j} <= group}
    parts |= {group for group in groups if not {i, j} <= group}
    return {part for part in parts if not any(part < other for other in parts)}


def _letter(rank: int) -> str:
    turn, position = divmod(rank, len(string.ascii_letters))
    return string.ascii_letters[position] + (str(turn) if turn else "")
