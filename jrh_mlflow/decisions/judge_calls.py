"""The calls of one judge on one suite: every axis that they read, the units behind it, and the same tasks repeated."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import pandas as pd

from jrh_mlflow.measures.records import normalise
from jrh_mlflow.measures.unit_scores import AxisUnits, every_axis_units
from jrh_mlflow.schema import metric_keys
from jrh_mlflow.schema.estimates import Estimate, NotEstimable, Reading, intervals
from jrh_mlflow.scoring.ledger import interval_method
from jrh_mlflow.show.results import ReliabilityReport, Report, categorised, measure
from jrh_mlflow.suites.suite import Suite
from jrh_mlflow.tracking.runs import keys


@dataclass(frozen=True, kw_only=True)
class JudgeCalls:
    """The calls of one judge on one suite, and how its run reads them."""

    calls: pd.DataFrame
    labels: Sequence[str] | None = None
    groups: Mapping[str, str] | None = None
    """Item to its category."""
    seed: int = 0
    metric: str | None = None
    suite: Suite | None = None
    """Of which they are all calls, or some."""
    _repeats: dict[int, JudgeCalls] = field(default_factory=dict, init=False, repr=False, compare=False)

    @cached_property
    def report(self) -> Report:
        """What the run measured."""
        report = measure(self.calls, seed=self.seed, labels=self.labels, metric=self.metric)
        return categorised(report, self.calls, self.groups or {}, seed=self.seed)

    @cached_property
    def readings(self) -> dict[str, Reading]:
        """Every axis that was measured."""
        found = keys.sheet_readings(self.report)
        if isinstance(self.report, ReliabilityReport):
            found[metric_keys.RELIABILITY_MEAN] = _mean_reading(self.report)
        return found

    @cached_property
    def axes(self) -> Collection[str]:
        """Every axis that was measured, or would have been if the whole suite had been asked."""
        from jrh_mlflow.decisions.planning import suite_calls

        if self.suite is None:
            return self.readings
        whole = replace(self, calls=pd.DataFrame(suite_calls(self.suite)), suite=None)
        return dict.fromkeys([*self.readings, *whole.readings])

    @cached_property
    def units(self) -> dict[str, AxisUnits]:
        """What every axis counts that is a mean over units."""
        return every_axis_units(normalise(self.calls), labels=self.labels, any_mean=True)

    @property
    def tasks(self) -> list[str]:
        """Names of the tasks, or of the sources."""
        return sorted(set(self.calls["task"]))

    def repeated(self, times: int) -> JudgeCalls:
        """Return calls on so many times as many tasks, which look like the present ones; measured once for all axes."""
        if times not in self._repeats:
            # A copy is a task of its own, with items of its own.
            copies = [
                self.calls.assign(**{name: self.calls[name] + f"~{nth}" for name in ("task", "suite_item")})
                for nth in range(times)
            ]
            groups = {f"{item}~{nth}": name for item, name in (self.groups or {}).items() for nth in range(times)}
            self._repeats[times] = replace(self, calls=pd.concat(copies, ignore_index=True), groups=groups)
        return self._repeats[times]


def _mean_reading(report: ReliabilityReport) -> Reading:
    """Return the mean over tests; it says nothing where a test is withheld, which it would leave out."""
    held = {test: one for test, one in report.scores.items() if isinstance(one, NotEstimable) and one.withheld}
    if held:
        return NotEstimable(reason=f"the mean over tests would leave out {', '.join(held)}: withheld", withheld=True)
    mean, low, high = (report.summary[name] for name in ("mean", "mean_ci_low", "mean_ci_high"))
    tests = [one for one in report.scores.values() if isinstance(one, Estimate)]
    if mean is None:
        return NotEstimable(reason="no test has a number")
    ends = [one.cluster_interval for one in tests if one.cluster_interval]
    if low is None and len(ends) == len(tests):
        # No resample differs: as wide as if all tests went up and down together.
        low, high = (float(end) for end in np.mean(ends, axis=0))
    n_clusters = max(one.n_clusters for one in tests)
    return Estimate(
        value=mean,
        n=sum(one.n for one in tests),
        excluded=sum(one.excluded for one in tests),
        **intervals(None, (low, high)),
        n_clusters=n_clusters,
        method=interval_method("mean over tests", n_clusters),
        unit="item",
    )
