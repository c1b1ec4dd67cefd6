"""What reliability costs: score against dollars so far, and dollars per point of accuracy."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import pandas as pd

from jrh_mlflow.errors import CallsError
from jrh_mlflow.measures.records import normalise
from jrh_mlflow.schema.items import USABLE
from jrh_mlflow.scoring.pointwise import plain


class CostPoint(NamedTuple):
    """Where the running score stood when so much had been spent."""

    usd: float
    """Cumulative dollars, unusable calls included."""
    n: int
    """Usable calls with an expected answer so far."""
    score: float
    """Share of them that were right."""


def cost_curve(calls: pd.DataFrame | Iterable[object]) -> list[CostPoint]:
    """Return cumulative dollars and running accuracy in the order of the records, one point per usable call.

    Unusable calls cost money and give no answer: they move the dollars of the next point and not the score.

    Returns:
        The points; none when the cost of any call is unknown, or no call has an expected answer.

    Raises:
        CallsError: when the records break a rule, or have no column `cost_usd`.
    """
    frame = normalise(calls)
    if "cost_usd" not in frame.columns:
        raise CallsError("Call records lack the column cost_usd: there is no cost curve without costs.")
    costs = pd.to_numeric(frame["cost_usd"], errors="coerce").to_numpy(float)
    if not np.isfinite(costs).all():
        return []
    spent = np.cumsum(costs)
    answer, expected = (np.array([plain(text) for text in frame[name]], object) for name in ("answer", "expected"))
    counted = np.isin(frame["outcome"].to_numpy(object), USABLE) & (expected != "")
    n = np.cumsum(counted)
    score = np.cumsum(counted & (answer == expected)) / np.maximum(n, 1)
    return [CostPoint(usd=float(spent[row]), n=int(n[row]), score=float(score[row])) for row in np.flatnonzero(counted)]


def usd_per_accuracy_point(cost: float | None, accuracy: float | None) -> float | None:
    """Return total cost in dollars over accuracy in percentage points; None when either is unknown or accuracy is 0.

    Example:
        >>> round(usd_per_accuracy_point(1.35, 0.9), 6)
        0.015
    """
    if cost is None or not accuracy:
        return None
    return cost / (100 * accuracy)
