"""Signal detection."""

from __future__ import annotations

from scipy.special import ndtri


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
