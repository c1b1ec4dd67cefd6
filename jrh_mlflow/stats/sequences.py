"""Confidence sequences: intervals for a share that hold at every moment at once, so that looking early costs nothing.

An interval for a fixed n, looked at after every call, loses the truth at some moment far more often than it says.
These lose it at any moment, of all there are, with a chance of at most alpha, so a rule may stop when it likes.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from scipy.optimize import brentq
from scipy.special import betaln, gammaln

from jrh_mlflow.stats import Array, Interval


@lru_cache(maxsize=65536)
def mixture_bounds(successes: int, n: int, *, alpha: float = 0.05, prior: tuple[float, float] = (1.0, 1.0)) -> Interval:
    """Confidence sequence for the rate of a Bernoulli process, after `successes` among the first `n` units.

    The rates p with `B(a + x, b + n - x) / B(a, b) < p^x (1 - p)^(n - x) / alpha`: the ratio of the mixture over the
    Beta(a, b) `prior` to the likelihood at the true rate is a martingale that starts at 1, and by Ville's inequality
    it reaches 1 / alpha at some n with a chance of at most alpha. The prior moves the width, never the validity.

    Units must be independent: with several calls per task, count tasks, or sample a fixed suite in random order and
    use `suite_bounds`.

    Reference:
        Ville (1939), Étude critique de la notion de collectif; Robbins (1970), Ann. Math. Stat. 41:1397-1409.

    Returns:
        The two ends; (0, 1) when `n` is 0, and exactly 0 or 1 at an end that no failure or success speaks against.

    Example:
        >>> [round(end, 4) for end in mixture_bounds(80, 120)]
        [0.5209, 0.7936]
        >>> mixture_bounds(0, 0)
        (0.0, 1.0)
    """
    _check(successes, n, alpha=alpha)
    a, b = prior
    if not (0 < a < math.inf and 0 < b < math.inf):
        raise ValueError(f"Both numbers of the prior must be positive and finite, but got {prior=}.")
    failures = n - successes
    # Where the log likelihood falls to this, the ratio is 1 / alpha.
    floor = float(betaln(a + successes, b + failures) - betaln(a, b)) + math.log(alpha)
    return _lower_rate(successes, failures, floor), 1.0 - _lower_rate(failures, successes, floor)


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
    logs = _log_factorials(size)
    # Candidates are S = successes + j with j = 0 … unseen; each slice is a log factorial along j.
    kept = logs[successes : successes + unseen + 1] - logs[: unseen + 1]
    kept += (logs[failures : failures + unseen + 1] - logs[: unseen + 1])[::-1]
    constant = logs[successes] + logs[failures] + logs[size] - logs[n] - logs[unseen]
    inside = np.flatnonzero(kept > constant + math.log(alpha / (n + 1)))
    return float(successes + inside[0]) / size, float(successes + inside[-1]) / size


def _check(successes: int, n: int, *, alpha: float) -> None:
    if not 0 <= successes <= n:
        raise ValueError(f"`0 <= successes <= n` must hold, but got {successes=}, {n=}.")
    if not 0 < alpha < 1:
        raise ValueError(f"`0 < alpha < 1` must hold, but got {alpha=}.")


def _lower_rate(successes: int, failures: int, floor: float) -> float:
    """Smallest rate whose log likelihood reaches `floor`, by root finding on the logarithm of the rate."""
    if successes == 0:
        return 0.0
    if failures == 0:
        return math.exp(floor / successes)

    def above(log_rate: float) -> float:
        return successes * log_rate + failures * math.log1p(-math.exp(log_rate)) - floor

    # Below the first end the successes alone are too unlikely; at the second the likelihood is largest.
    ends = floor / successes - 1.0, math.log(successes / (successes + failures))
    return math.exp(float(brentq(above, *ends, xtol=1e-13)))


@lru_cache(maxsize=64)
def _log_factorials(size: int) -> Array:
    """Return log 0!, log 1!, … log size!, one table per size of suite."""
    logs: Array = gammaln(np.arange(1.0, size + 2))
    logs.setflags(write=False)
    return logs
