"""Readings that are not shares (errors, correlations, agreement), with bootstrap intervals.

Every such value is a function of sums over units, so a resample is one row of weights times the units' features and
all resamples are computed at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from jrh_mlflow.schema.estimates import Estimate, NotEstimable, Reading, intervals
from jrh_mlflow.scoring.ledger import Units, interval_method
from jrh_mlflow.stats import Array, Codes, Interval
from jrh_mlflow.stats.bootstrap import percentile_interval, resampled_sums

Statistics = Callable[[Array], Mapping[str, Array]]
"""Sums of features (resamples × features) to named values (one per resample); NaN where there is none."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Resampling:
    """How intervals are resampled: the same seed draws the same clusters for every statistic."""

    seed: int = 0
    n_resamples: int = 1000

    def __post_init__(self) -> None:
        if self.n_resamples < 1:
            raise ValueError(f"`n_resamples >= 1` must hold, but got {self.n_resamples}.")

    def intervals(self, statistics: Statistics, features: Array, clusters: Codes) -> dict[str, Interval | None]:
        """Return 95 % intervals over resamples of whole clusters; none with fewer than two, or without a width."""
        codes, inverse = np.unique(clusters, return_inverse=True)
        k = len(codes)
        if k < 2:
            return {}
        by_cluster = np.zeros((k, features.shape[1]))
        np.add.at(by_cluster, inverse, features)
        blocks = resampled_sums(by_cluster, n_resamples=self.n_resamples, seed=self.seed)
        pieces = [statistics(block) for block in blocks]
        return {
            name: percentile_interval(np.concatenate([piece[name] for piece in pieces]), n_clusters=k)
            for name in pieces[0]
        }


@dataclass(frozen=True, kw_only=True, slots=True)
class Sample:
    """The usable units of some values: what is summed, and in which clusters they stand."""

    units: Units
    """The denominator; its usable units are the rows of `features`."""
    features: Array
    items: Codes
    """Item of each usable unit."""

    def readings(
        self,
        values: Mapping[str, float | None],
        statistics: Statistics,
        resampling: Resampling,
        *,
        without: str,
    ) -> dict[str, Reading]:
        """Give each value its intervals; `without` is the reason for those that are None."""
        sources = self.units.clusters[self.units.usable]
        by_source = resampling.intervals(statistics, self.features, sources)
        n_sources, n_items = len(np.unique(sources)), len(np.unique(self.items))
        # Items lie within sources, so as many of one as of the other are the same clusters.
        same = n_items == n_sources
        by_item = by_source if same else resampling.intervals(statistics, self.features, self.items)
        return {
            name: NotEstimable(reason=without, n=int(self.units.usable.sum()), statistic="value")
            if value is None
            else self._estimate(value, by_item.get(name), by_source.get(name), n_sources)
            for name, value in values.items()
        }

    def _estimate(self, value: float, by_item: Interval | None, by_source: Interval | None, n_sources: int) -> Estimate:
        method = interval_method("cluster bootstrap by item", n_sources)
        if by_source is None and n_sources > 1:
            method += "; no interval: the resamples do not differ, or too few have a value"
        return Estimate(
            value=value,
            n=int(self.units.usable.sum()),
            excluded=int((~self.units.usable).sum()),
            **intervals(by_item, by_source),
            n_clusters=n_sources,
            method=method,
            unit=self.units.unit,
            statistic="value",
            left_out=self.units.left_out,
        )


def ratio(numerator: Array, denominator: Array) -> Array:
    """Divide; NaN where the denominator is 0."""
    quotient: Array = np.full(np.broadcast(numerator, denominator).shape, np.nan)
    np.divide(numerator, denominator, out=quotient, where=denominator != 0)
    return quotient
