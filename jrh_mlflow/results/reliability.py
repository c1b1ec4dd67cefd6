"""The reliability report of a pointwise judge: its readings, as Markdown and as plain data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from jrh_mlflow.measures.reliability import ReliabilityReadings, reliability_readings
from jrh_mlflow.measures.worst import WorstItem
from jrh_mlflow.reports.reliability import report_markdown
from jrh_mlflow.schema.estimates import NotEstimable


@dataclass(frozen=True, kw_only=True)
class ReliabilityReport(ReliabilityReadings):
    """What one pointwise judge reads on one reliability suite."""

    @property
    def withheld(self) -> dict[str, str]:
        """Axes left out because too many of their calls gave no usable answer, with the reason."""
        grouped = {
            f"category/{name}/{axis}": reading
            for name, axes in self.categories.items()
            for axis, reading in axes.items()
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
        categories = {
            name: {axis: reading.to_dict() for axis, reading in axes.items()} for name, axes in self.categories.items()
        }
        return {
            "profile": self.profile,
            "outcomes": dict(self.outcomes),
            "labels": list(self.labels),
            "tests": list(self.tests),
            "summary": dict(self.summary),
            "max_excluded": self.max_excluded,
            "scores": {test: reading.to_dict() for test, reading in self.scores.items()},
            "estimates": {axis: reading.to_dict() for axis, reading in self.estimates.items()},
            **({"categories": categories} if categories else {}),
        }


def reliability_report(
    frame: pd.DataFrame, *, labels: Sequence[str] | None, max_excluded: float, seed: int, n_resamples: int
) -> ReliabilityReport:
    """Measure normalised pointwise records."""
    readings = reliability_readings(frame, labels=labels, max_excluded=max_excluded, seed=seed, n_resamples=n_resamples)
    return ReliabilityReport(**vars(readings))
