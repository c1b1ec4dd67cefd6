"""What a sweep is after: objectives and constraints, by the name of a metric."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

from jrh_mlflow.errors import RecipeError, suggest

RELIABILITY = "reliability"
"""The composite of `measures.policies.composite`."""
COST = "cost/usd_per_1k_judgments"
DIRECTIONS = ("maximize", "minimize")

_CONSTRAINT = re.compile(r"\s*(?P<metric>\S+)\s*(?P<sign><=|>=)\s*(?P<limit>[-+0-9.eE]+)\s*")


@dataclass(frozen=True, kw_only=True, slots=True)
class Constraint:
    """A metric that must not pass a limit."""

    metric: str
    sign: str
    limit: float

    def __str__(self) -> str:
        return f"{self.metric} {self.sign} {self.limit:g}"

    def excess(self, value: float) -> float:
        """Return by how much a value breaks the rule; 0 or less keeps it."""
        return value - self.limit if self.sign == "<=" else self.limit - value


def read_constraint(text: str) -> Constraint:
    """Read `dark_current/rate <= 0.05`.

    Example:
        >>> str(read_constraint("dark_current/rate<=0.05"))
        'dark_current/rate <= 0.05'
    """
    found = _CONSTRAINT.fullmatch(text) if isinstance(text, str) else None
    try:
        limit = float(found["limit"]) if found else math.nan
    except ValueError:
        limit = math.nan
    if found is None or not math.isfinite(limit):
        raise RecipeError(f"A constraint is written `metric <= number` or `metric >= number`, but got {text!r}.")
    return Constraint(metric=found["metric"], sign=found["sign"], limit=limit)


def checked_objectives(objectives: Mapping[str, str]) -> None:
    """Refuse a sweep without objectives, and a direction that is none."""
    if not isinstance(objectives, Mapping) or not objectives:
        raise RecipeError("`objectives` map a metric to maximize or minimize, and there is none.")
    for metric, direction in objectives.items():
        if not isinstance(metric, str):
            raise RecipeError(f"An objective is the name of a metric, but got {metric!r}.")
        if direction not in DIRECTIONS:
            raise RecipeError(
                f"The objective {metric!r} has the direction {direction!r}.{suggest(str(direction), DIRECTIONS)} "
                f"Known: {', '.join(DIRECTIONS)}."
            )


def is_map(objectives: Mapping[str, str]) -> bool:
    """Whether the objectives are reliability against cost: the ones with intervals, stops and ties."""
    return dict(objectives) == {RELIABILITY: "maximize", COST: "minimize"}


def picked(metrics: Mapping[str, float], name: str) -> float:
    """Return a metric by name.

    Raises:
        RecipeError: when the run has none of that name, with the nearest one.
    """
    if name not in metrics:
        if name == COST:
            raise RecipeError(
                "The cost of a call is unknown, so its objective is too. Give the model's price "
                "(`prices`), or answers that carry `cost_usd`."
            )
        raise RecipeError(f"The runs of this sweep have no metric {name!r}.{suggest(name, metrics)}")
    return metrics[name]
