"""What a design can decide: the smallest effect that it finds, and the tasks that a wanted effect or width needs.

A design is k tasks (clusters) of m units each. Units of one task are alike by the intraclass correlation (ICC), so more
tasks always tell more than more units of the same tasks.
"""

from __future__ import annotations

import math

from scipy import stats
from scipy.optimize import brentq

POWER = 0.8
"""Chance with which an effect of the size asked for is to be found."""
FEWEST_TO_TELL_APART = 6
"""Clusters under which no sign flip reaches 5 %: its smallest p-value is 2^(1 - k)."""


def detectable_from_interval(
    value: float, low: float, high: float, *, power: float = POWER, level: float = 0.95
) -> float:
    """Smallest distance from a limit at which a design with this interval decides on the right side of the limit.

    `a (z_level + z_power) / z_level`, a the longer arm of the interval of `level`: the arm is z_level standard errors,
    and the estimate falls short of the truth by more than z_power of them with a chance of `1 - power`. The longer arm
    serves limits on both sides of the truth. With `cluster_interval` the chance at that distance is .80 to .95 and
    higher where units hardly cluster, where that interval is on the wide side (`jrh validate --only decisions`).

    Example:
        >>> round(detectable_from_interval(0.30, 0.16, 0.48), 3)
        0.257
    """
    if not low <= value <= high:
        raise ValueError(f"`low <= value <= high` must hold, but got {low=}, {value=}, {high=}.")
    z = _normal_quantile((1 + _share(level, "level")) / 2)
    return max(value - low, high - value) * (z + _normal_quantile(_share(power, "power"))) / z


def detectable_share(n_clusters: int, *, power: float = POWER) -> float:
    """Smallest share of units of which at least one is seen with this chance, so that its interval excludes 0.

    `1 - (1 - power)^(1/k)`, whatever the intraclass correlation: a task of rate P shows none of m units with a chance
    of `(1 - P)^m <= 1 - P`, on average at most 1 minus the share; it is reached where units of a task are all alike.

    Example:
        >>> round(detectable_share(10), 3), round(detectable_share(28), 3)
        (0.149, 0.056)
    """
    if n_clusters < 1:
        raise ValueError(f"There must be a cluster, but got {n_clusters=}.")
    return 1 - math.pow(1 - _share(power, "power"), 1 / n_clusters)


def detectable_difference(
    standard_error: float,
    n_clusters: int,
    *,
    critical: float,
    power: float = POWER,
    n_units: int | None = None,
    largest: float = 1.0,
) -> float | None:
    """Smallest true difference of two judges that a sign-flip test over clusters finds with this chance.

    The difference at which `sign_flip_power` is `power`. A difference d of shares needs at least d of the n units to
    differ, so the standard error at d is never taken under `sqrt(d (1 - d) / n)`: two judges that agreed everywhere
    have shown no spread, yet not every difference between them would be found.

    Args:
        standard_error: Of the difference over clusters, `sqrt(k / (k - 1) sum_j (d_j - D m_j)²) / M`.
        n_clusters: k, the clusters that both judges have.
        critical: What `|sum_j d_j| / sqrt(sum_j d_j²)` must exceed, over all tests of the family.
        power: Chance of finding it.
        n_units: n, the calls or pairs that both judges have, replicates counted once; as if each cluster were one
            unit when None.
        largest: The largest difference there can be; 1 for shares.

    Returns:
        The difference, or None where not even the largest would be found: too few clusters for so many tests.

    Example:
        >>> round(detectable_difference(0.1, 28, critical=1.94), 3), detectable_difference(0.1, 5, critical=2.3)
        (0.29, None)
    """
    if standard_error < 0 or n_clusters < 1 or largest <= 0:
        raise ValueError(
            f"A spread, clusters and a largest must be given, but got {standard_error=}, {n_clusters=}, {largest=}."
        )

    def missing(difference: float) -> float:
        share = min(1.0, difference / largest)
        spread = max(standard_error, largest * math.sqrt(share * (1 - share) / (n_units or n_clusters)))
        return sign_flip_power(difference, spread, n_clusters, critical=critical) - _share(power, "power")

    if missing(largest) < 0:
        return None
    return float(brentq(missing, 0.0, largest, xtol=1e-6))


def sign_flip_power(difference: float, standard_error: float, n_clusters: int, *, critical: float) -> float:
    """Chance that `T = |sum_j d_j| / sqrt(sum_j d_j²)` over k clusters exceeds `critical` when they truly differ so.

    T and the t statistic of the clusters' differences are the same order: `t² = T² (k - 1) / (k - T²)`. So it is the
    chance of a noncentral t of k - 1 degrees of freedom and noncentrality `difference / standard_error`. T never
    exceeds `sqrt(k)`: a `critical` value from there on is never reached, and the chance is 0.

    Example:
        >>> round(sign_flip_power(0.3, 0.1, 28, critical=1.95), 2), sign_flip_power(0.3, 0.1, 3, critical=1.95)
        (0.82, 0.0)
    """
    if critical**2 >= n_clusters:
        return 0.0
    if standard_error == 0:
        return float(difference != 0)
    needed = critical * math.sqrt((n_clusters - 1) / (n_clusters - critical**2))
    chance = stats.nct.sf(needed, n_clusters - 1, abs(difference) / standard_error)
    # So far from 0 that scipy loses the digits, it is found for sure.
    return 1.0 if math.isnan(chance) else float(chance)


def sign_flip_critical(n_clusters: int, *, alpha: float = 0.05) -> float:
    """Value of `T = |sum_j d_j| / sqrt(sum_j d_j²)` that one test of two judges must exceed, before any data.

    That of Student's t with k - 1 degrees of freedom, `t sqrt(k / (k - 1 + t²))`; `sqrt(k)`, which is never exceeded,
    where the smallest p-value of a sign flip, 2^(1 - k), is over alpha.

    Example:
        >>> round(sign_flip_critical(28), 3), sign_flip_critical(4)
        (1.943, 2.0)
    """
    if 2.0 ** (1 - n_clusters) > _share(alpha, "alpha"):
        return math.sqrt(n_clusters)
    t = float(stats.t.isf(alpha / 2, n_clusters - 1))
    return t * math.sqrt(n_clusters / (n_clusters - 1 + t * t))


def _normal_quantile(at: float) -> float:
    return float(stats.norm.ppf(at))


def _share(value: float, name: str) -> float:
    if not 0 < value < 1:
        raise ValueError(f"`0 < {name} < 1` must hold, but got {value}.")
    return value
