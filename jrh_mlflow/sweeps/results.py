"""What a configuration measured on one half of the suite, small enough to live in the study."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from jrh_mlflow.measures.policies.composite import Tally
from jrh_mlflow.schema.calls import USABLE


@dataclass(frozen=True, kw_only=True)
class Result:
    """One configuration, measured."""

    key: str
    """Of the configuration."""
    run_id: str
    tally: Tally
    usd_per_1k: float | None
    """Dollars of 1,000 judgments under the configuration's policy; None when a price is unknown."""
    n_calls: int
    """Calls that were made for it; what the journal served is not among them."""
    repeats: int = 1
    """How many decisions were made about each item."""
    truncated: str | None = None
    values: Mapping[str, float] = field(default_factory=dict)
    """Objectives and constrained metrics."""
    feasible: bool = True
    operating: Mapping[str, Any] | None = None
    """Counts behind the operating point."""
    simulated: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON-ready data."""
        return {
            "key": self.key,
            "run_id": self.run_id,
            "tally": self.tally.to_dict(),
            "usd_per_1k": self.usd_per_1k,
            "n_calls": self.n_calls,
            "repeats": self.repeats,
            "truncated": self.truncated,
            "values": dict(self.values),
            "feasible": self.feasible,
            "operating": None if self.operating is None else dict(self.operating),
            "simulated": self.simulated,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Result:
        """Read what `to_dict` wrote."""
        return cls(**{**data, "tally": Tally.from_dict(data["tally"])})


def usd_per_call(calls: pd.DataFrame) -> float | None:
    """Mean dollars of the calls that were answered; None when the price of one of them is unknown.

    A call that failed for good has no bill to read, and would not be made again in use.
    """
    answered = calls[calls["outcome"].isin(USABLE)]
    costs = pd.to_numeric(answered["cost_usd"], errors="coerce")
    return None if answered.empty or bool(costs.isna().any()) else float(costs.mean())
