"""What a logged run has to say: the calls of its judge, every axis that they read, and what it cost."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import pandas as pd

from jrh_mlflow.measures.records import common_calls, normalise, shared_calls
from jrh_mlflow.measures.reliability import usd_per_accuracy_point
from jrh_mlflow.measures.rules import COSTS
from jrh_mlflow.measures.unit_scores import AxisUnits, every_axis_units
from jrh_mlflow.schema import metric_keys
from jrh_mlflow.schema.estimates import Ends, Estimate, NotEstimable, Reading, intervals
from jrh_mlflow.scoring.ledger import interval_method
from jrh_mlflow.show.results import ReliabilityReport, Report, categorised, measure
from jrh_mlflow.suites.suite import Suite
from jrh_mlflow.tracking.runs import keys
from jrh_mlflow.tracking.runs.read import LoggedRun


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

    @classmethod
    def of(cls, run: LoggedRun) -> JudgeCalls:
        """Return the calls of a run, to be read as the run itself read them."""
        return cls(
            calls=run.calls,
            labels=run.suite.labels,
            groups=run.suite.groups,
            seed=int(run.params.get(keys.PARAM_SEED, 0)),
            metric=run.params.get(keys.PARAM_METRIC),
            suite=run.suite,
        )

    @cached_property
    def report(self) -> Report:
        """What the run measured."""
        report = measure(self.calls, seed=self.seed, labels=self.labels, metric=self.metric)
        return categorised(report, self.calls, self.groups or {}, seed=self.seed)

    @cached_property
    def readings(self) -> dict[str, Reading]:
        """Every axis that was measured."""
        readings = keys.sheet_readings(self.report)
        if isinstance(self.report, ReliabilityReport):
            readings[metric_keys.RELIABILITY_MEAN] = _mean_reading(self.report)
        return readings

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
    scores = report.scores
    held = [test for test, score in scores.items() if isinstance(score, NotEstimable) and score.withheld]
    if held:
        return NotEstimable(reason=f"the mean over tests would leave out {', '.join(held)}: withheld", withheld=True)
    mean, low, high = (report.summary[name] for name in ("mean", "mean_ci_low", "mean_ci_high"))
    tests = [score for score in scores.values() if isinstance(score, Estimate)]
    if mean is None:
        return NotEstimable(reason="no test has a number")
    ends = [test.cluster_interval for test in tests if test.cluster_interval]
    if low is None and len(ends) == len(tests):
        # No resample differs: as wide as if all tests went up and down together.
        low, high = (float(end) for end in np.mean(ends, axis=0))
    n_clusters = max(test.n_clusters for test in tests)
    return Estimate(
        value=mean,
        n=sum(test.n for test in tests),
        excluded=sum(test.excluded for test in tests),
        **intervals(None, (low, high)),
        n_clusters=n_clusters,
        method=interval_method("mean over tests", n_clusters),
        unit="item",
    )


def paired_calls(judge: JudgeCalls, baseline: JudgeCalls) -> list[JudgeCalls]:
    """Return both judges on the calls that both were asked; nobody where there is none."""
    frames = {"judge": normalise(judge.calls), "baseline": normalise(baseline.calls)}
    if common_calls(frames).empty:
        return []
    calls = shared_calls(frames)
    baseline = baseline if baseline.metric == judge.metric else replace(baseline, metric=judge.metric)
    # What is measured already need not be measured again.
    return [
        own if len(own.calls) == len(calls[name]) else replace(own, calls=calls[name])
        for name, own in (("judge", judge), ("baseline", baseline))
    ]


def known_facts(run: LoggedRun, readings: Mapping[str, Reading]) -> dict[str, Ends | None]:
    """Return what is known of every cost, count and time of a run: of a sum that lacks some calls the lower end.

    Where no model was asked, by a simulated judge or for recorded answers, what is not known is nothing: 0.
    """
    calls, accuracy = run.calls, readings.get("all/accuracy")
    if run.simulated or run.recorded:
        calls = calls.assign(**{column: 0.0 for column in keys.SUMMED.values() if calls[column].isna().all()})
    points = keys.call_points(calls, seconds=0.0)
    if isinstance(accuracy, Estimate):
        usd = keys.whole_total(calls, "cost_usd")
        points += keys.price_points(usd_per_accuracy_point(usd, accuracy.value))
    values = dict.fromkeys(keys.SUMMED, 0.0) if calls.empty else {}
    values |= {point.key: point.value for point in points if point.key != metric_keys.SECONDS}
    values |= {key: value for key, value in run.metrics.items() if key.startswith(COSTS)}
    values[metric_keys.UNKNOWN_COSTS] = unknown = keys.unknown_costs(calls)
    if unknown:
        values.pop(metric_keys.COST_PER_1K_CALLS, None)
    gaps = {key for key, column in keys.SUMMED.items() if calls[column].isna().any()}
    known = {key: (value, None if key in gaps else value) for key, value in values.items()}
    return {**dict.fromkeys(keys.SPENT), **known}
