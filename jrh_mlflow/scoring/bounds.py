"""Bounds: what a share or a difference can still be, when some calls gave no usable answer.

A lost call could have ended in any way that an answer can. A share is therefore bounded by what each of its units can
still be: a hit, a miss, or no unit at all, where the denominator depends on the answer. One hit more never lowers
hits / (hits + misses) and one miss more never raises it, so every unit takes its best end by itself:

    high = (can be a hit) / (can be a hit, or must be a miss)
    low = (must be a hit) / (must be a hit, or can be a miss)

where a unit that must be something can be nothing else. Both are reached by some completion of the lost calls.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from jrh_mlflow.schema.estimates import Bounds, Estimate, Reading
from jrh_mlflow.stats import Interval, Mask


@dataclass(frozen=True, kw_only=True, slots=True)
class Possible:
    """What each unit can still be; of a unit with all its answers exactly one is true."""

    hit: Mask
    miss: Mask
    out: Mask
    """In no denominator: its answer makes it none of the units that are counted."""

    @property
    def bounds(self) -> Interval | None:
        """Least and greatest share over all completions; None where no unit can be counted."""
        if not (self.hit | self.miss).any():
            return None
        low_hits, low_n = int((~self.miss & ~self.out).sum()), int((self.miss | ~self.out).sum())
        high_hits, high_n = int(self.hit.sum()), int((self.hit | ~self.out).sum())
        # Where no unit can be a miss, a share is 1 or there is none; where none can be a hit, 0 or none.
        return low_hits / low_n if low_n else 1.0, high_hits / high_n if high_n else 0.0


def possible(usable: Mask, hits: Mask, among: Mask | None = None) -> Possible:
    """Return what units can still be when nothing is known of those that are not usable."""
    counted = np.ones(len(usable), dtype=bool) if among is None else among
    return Possible(
        hit=~usable | (hits & counted),
        miss=~usable | (~hits & counted),
        out=~counted if among is None else ~usable | ~counted,
    )


def over_completions(completions: Iterable[tuple[Mask, Mask]]) -> Possible:
    """Return what units can still be, from (hits, counted) of every way in which the lost calls could have ended."""
    every = list(completions)
    return Possible(
        hit=np.any([hits & counted for hits, counted in every], axis=0),
        miss=np.any([~hits & counted for hits, counted in every], axis=0),
        out=np.any([~counted for _, counted in every], axis=0),
    )


def bounds_of(reading: Reading) -> Bounds | None:
    """Return between what a reading on calls lies, whether it has a number or was withheld."""
    if not isinstance(reading, Estimate):
        return reading.bounds
    if reading.bound_low is None or reading.bound_high is None:
        return None
    asked = reading.n + reading.excluded if reading.n_calls is None else reading.n_calls
    return Bounds(low=reading.bound_low, high=reading.bound_high, asked=asked, lost=reading.left_out)


def difference_bounds(first: Reading, second: Reading) -> Bounds | None:
    """Return between what `first - second` lies, two readings that have no call in common."""
    one, other = bounds_of(first), bounds_of(second)
    if one is None or other is None:
        return None
    return Bounds(
        low=one.low - other.high,
        high=one.high - other.low,
        asked=one.asked + other.asked,
        lost={name: one.lost.get(name, 0) + other.lost.get(name, 0) for name in {**one.lost, **other.lost}},
    )
