"""The Judge Datasheet: every axis with its denominator, and a one-line profile."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from jrh_mlflow.measures.calls import call_table
from jrh_mlflow.measures.confidence import confidence_axes
from jrh_mlflow.measures.datasheet import datasheet_axes, profile_line
from jrh_mlflow.reports.markdown import datasheet_markdown
from jrh_mlflow.schema.estimates import NotEstimable, Reading, plain_fields
from jrh_mlflow.schema.items import OUTCOMES
from jrh_mlflow.scoring.values import Resampling


@dataclass(frozen=True, kw_only=True)
class Datasheet:
    """What one judge reads on one suite."""

    profile: str
    """A descriptive sketch for this stimulus family, never a grade."""
    outcomes: Mapping[str, int]
    """How the calls ended."""
    max_excluded: float
    estimates: Mapping[str, Reading]
    """Axis to estimate, or to the reason why there is none."""

    @property
    def withheld(self) -> dict[str, str]:
        """Axes left out because too many of their calls gave no usable answer, with the reason."""
        return {
            axis: reading.reason
            for axis, reading in self.estimates.items()
            if isinstance(reading, NotEstimable) and reading.withheld
        }

    def to_markdown(self, *, title: str = "Judge datasheet", note: str | None = None) -> str:
        """Return the datasheet as a readable page."""
        return datasheet_markdown(self.estimates, profile=self.profile, outcomes=self.outcomes, title=title, note=note)

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON-ready data."""
        return plain_fields(self)


def datasheet(frame: pd.DataFrame, *, max_excluded: float, seed: int, n_resamples: int) -> Datasheet:
    """Measure normalised pair records."""
    calls = call_table(frame, max_excluded=max_excluded)
    resampling = Resampling(seed=seed, n_resamples=n_resamples)
    estimates = datasheet_axes(calls, resampling)
    estimates |= confidence_axes(frame, max_excluded=max_excluded, resampling=resampling)
    counts = frame["outcome"].value_counts()
    return Datasheet(
        estimates=estimates,
        outcomes={outcome: int(counts.get(outcome, 0)) for outcome in OUTCOMES},
        profile=profile_line(estimates),
        max_excluded=max_excluded,
    )
