"""The reliability report of a pointwise judge: every test with its denominator, and what they say together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from jrh_mlflow.measures.confidence import confidence_axes
from jrh_mlflow.measures.reliability.summary import across_tests, profile_line, scored_tests
from jrh_mlflow.reports.reliability import report_markdown
from jrh_mlflow.schema.calls import OUTCOMES
from jrh_mlflow.schema.estimates import NotEstimable, Reading
from jrh_mlflow.schema.items import BASELINE, STABILITY
from jrh_mlflow.scoring.accuracy import accuracy, accuracy_axes, baseline_axes, binary_axes, error_axes
from jrh_mlflow.scoring.answers import PointTable, point_table
from jrh_mlflow.scoring.ordinal import dose_axes, dose_of, ordinal_axes
from jrh_mlflow.scoring.stability import repeated, stability_axes
from jrh_mlflow.scoring.values import Resampling

if TYPE_CHECKING:
    from jrh_mlflow.measures.reliability.worst import WorstItem

ALL = "all"
"""All tests pooled, the baseline apart."""


@dataclass(frozen=True, kw_only=True)
class ReliabilityReport:
    """What one pointwise judge reads on one reliability suite."""

    estimates: Mapping[str, Reading]
    """`<test>/<axis>` to estimate, or to the reason why there is none; `baseline` and `all` stand where a test does."""
    outcomes: Mapping[str, int]
    """How the calls ended."""
    profile: str
    """A descriptive sketch for this suite, never a grade."""
    tests: tuple[str, ...]
    """Conditions that were measured, the baseline apart."""
    scores: Mapping[str, Reading]
    """Test to the one reading that stands for it: accuracy; for stability unanimity; for error doses monotone."""
    summary: Mapping[str, float | None]
    """Across the scores: n_tests, mean, sd, min, max, mean_ci_low, mean_ci_high."""
    labels: tuple[str, ...]
    """Given or inferred, low to high where the order is known."""
    max_excluded: float
    categories: Mapping[str, Mapping[str, Reading]] = field(default_factory=dict)
    """Group of the items to axis to reading, of all tests pooled; empty where items have no group."""

    @property
    def withheld(self) -> dict[str, str]:
        """Axes left out because too many of their calls gave no usable answer, with the reason."""
        grouped = {
            f"category/{name}/{axis}": one for name, axes in self.categories.items() for axis, one in axes.items()
        }
        return {
            axis: reading.reason
            for axis, reading in {**self.estimates, **grouped}.items()
            if isinstance(reading, NotEstimable) and reading.withheld
        }

    def to_markdown(
        self, *, title: str = "Reliability report", note: str | None = None, worst: Sequence[WorstItem] = ()
    ) -> str:
        """Return the report as a readable page."""
        return report_markdown(self, title=title, note=note, worst=worst)

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON-ready data."""
        return {
            "profile": self.profile,
            "outcomes": dict(self.outcomes),
            "labels": list(self.labels),
            "tests": list(self.tests),
            "summary": dict(self.summary),
            "max_excluded": self.max_excluded,
            "scores": {test: reading.to_dict() for test, reading in self.scores.items()},
            "estimates": {axis: reading.to_dict() for axis, reading in self.estimates.items()},
            **({"categories": _plain(self.categories)} if self.categories else {}),
        }


def reliability_report(
    frame: pd.DataFrame, *, labels: Sequence[str] | None, max_excluded: float, seed: int, n_resamples: int
) -> ReliabilityReport:
    """Measure normalised pointwise records."""
    calls = point_table(frame, labels=labels, max_excluded=max_excluded)
    resampling = Resampling(seed=seed, n_resamples=n_resamples)
    tests = tuple(sorted(set(calls.test) - {BASELINE}))
    estimates: dict[str, Reading] = {}
    for name in (BASELINE, *tests):
        if name != BASELINE or (calls.test == BASELINE).any():
            estimates |= _test_axes(calls.of(name), name, resampling)
    estimates |= dose_axes(calls) | _pooled_axes(calls, resampling)
    estimates |= confidence_axes(frame, max_excluded=max_excluded, resampling=resampling)
    scored = scored_tests(calls, tests)
    scores = {one.test: estimates[one.axis] for one in scored}
    counts = frame["outcome"].value_counts()
    return ReliabilityReport(
        estimates=estimates,
        outcomes={outcome: int(counts.get(outcome, 0)) for outcome in OUTCOMES},
        profile=profile_line(estimates, scores),
        tests=tests,
        scores=scores,
        summary=across_tests(scored, estimates, resampling),
        labels=calls.scale.labels,
        max_excluded=max_excluded,
    )


def _plain(categories: Mapping[str, Mapping[str, Reading]]) -> dict[str, Any]:
    return {name: {axis: reading.to_dict() for axis, reading in axes.items()} for name, axes in categories.items()}


def _test_axes(calls: PointTable, name: str, resampling: Resampling) -> dict[str, Reading]:
    axes: dict[str, Reading] = {}
    # Of error doses only a direction is expected.
    if dose_of(name) is None or (calls.expected != "").any():
        axes |= accuracy_axes(calls, name) | baseline_axes(calls, name)
        axes |= label_axes(calls, name, resampling)
    if len(repeated(calls).test) or name.startswith(STABILITY):
        axes |= stability_axes(calls, name, resampling)
    return axes


def label_axes(calls: PointTable, name: str, resampling: Resampling) -> dict[str, Reading]:
    """Return what two labels, or a scale, add to accuracy."""
    if calls.scale.kind == "binary":
        return error_axes(calls, name) | binary_axes(calls, name, resampling)
    return ordinal_axes(calls, name, resampling) if calls.scale.kind == "ordinal" else {}


def _pooled_axes(calls: PointTable, resampling: Resampling) -> dict[str, Reading]:
    pooled = calls.where(np.asarray((calls.test != BASELINE) & (calls.expected != "")))
    if not len(pooled.test):
        return {}
    axes = {f"{ALL}/accuracy": accuracy(pooled, ALL).reading} | error_axes(pooled, ALL)
    return axes | label_axes(pooled, ALL, resampling)
