"""Objectives and constraints of a sweep, and the metric names that they may use on a suite."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from jrh_mlflow.engine.calls import plan_calls
from jrh_mlflow.engine.runner import calls_frame
from jrh_mlflow.engine.sessions import identity
from jrh_mlflow.errors import RecipeError, suggest
from jrh_mlflow.judges.scripted import AlwaysFirst
from jrh_mlflow.measures.composite import item_decisions, part_of, tally
from jrh_mlflow.schema import metric_keys
from jrh_mlflow.schema.estimates import Estimate, Reading, intervals
from jrh_mlflow.schema.items import CallRecord
from jrh_mlflow.show.results import Datasheet, ReliabilityReport, by_category, measure
from jrh_mlflow.suites.suite import Suite
from jrh_mlflow.tracking.runs import keys

RELIABILITY = "reliability"
"""The composite of `measures.composite`."""
COST = metric_keys.COST_PER_1K_JUDGMENTS
DIRECTIONS = ("maximize", "minimize")

_CONSTRAINT = re.compile(r"\s*(?P<metric>\S+)\s*(?P<sign><=|>=)\s*(?P<limit>[-+0-9.eE]+)\s*")
_ANY_LABELS = (("no", "yes"), ("1", "2", "3"))
"""Stand for the labels of a suite whose items differ in theirs: together they have every axis that labels can have."""
_WHOLE = Estimate(value=0.5, n=1, excluded=0, **intervals((0.0, 1.0), (0.0, 1.0)), n_clusters=1, method="none")
_ONCE: dict[str, Any] = {"seed": 0, "n_resamples": 1}
"""Only names are read, so that one resample does."""


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
        if name == COST or metric_keys.UNKNOWN_COSTS in metrics:
            raise RecipeError(
                "The cost of a call is unknown, so its objective is too. Give the model's price "
                "(`prices`), or answers that carry `cost_usd`."
            )
        raise RecipeError(f"The runs of this sweep have no metric {name!r}.{suggest(name, metrics)}")
    return metrics[name]


def check_names(names: Iterable[str], suite: Suite, *, replicates: int, metric: str | None = None) -> None:
    """Refuse a metric that no run on the suite can have.

    Raises:
        RecipeError: with the nearest name there is.
    """
    wanted = list(names)
    if set(wanted) <= {RELIABILITY, COST}:
        return
    known = metric_names(suite, replicates=replicates, metric=metric)
    for name in wanted:
        if name not in known:
            # An axis without its statistic is the likeliest slip, and other statistics are spelled more alike.
            near = known & {f"{name}/rate", f"{name}/value"} or known
            raise RecipeError(
                f"Runs on suite {suite.name!r} have no metric {name!r}.{suggest(name, near)} "
                f"{RELIABILITY} and {COST} are always there."
            )


def metric_names(suite: Suite, *, replicates: int, metric: str | None = None) -> set[str]:
    """Return every name: made-up calls are measured, and each axis counts as if it had a number.

    Which of them a run does have depends on its judge too: prices, confidences, answers that can be read.

    Raises:
        SuiteError: when nothing in the suite is part of the composite `reliability`.
    """
    found = {RELIABILITY, COST}
    pairs = any(item.kind == "pair" for item in suite.items)
    scales = (None,) if pairs else _ANY_LABELS if suite.labels is None else (suite.labels,)
    for labels in scales:
        calls = _made_up(suite, labels, replicates=replicates)
        found |= {point.key for point in _points(suite, calls, labels, metric)}
    return found


def _points(suite: Suite, calls: pd.DataFrame, labels: Sequence[str] | None, metric: str | None) -> list[keys.Point]:
    counted = tally(item_decisions(calls), labels=labels)
    readings = dict.fromkeys((RELIABILITY, *map(part_of, counted.cells)), _WHOLE)
    return [
        *keys.sheet_points(_filled(measure(calls, labels=labels, metric=metric, **_ONCE), suite, calls)),
        *keys.call_points(calls, seconds=1.0, cpu_seconds=1.0),
        *keys.price_points(1.0),
        *sweep_points(readings, usd_per_1k=1.0, calls_per_judgment=1),
    ]


def _filled(sheet: Datasheet | ReliabilityReport, suite: Suite, calls: pd.DataFrame) -> Datasheet | ReliabilityReport:
    estimates = _numbers(sheet.estimates)
    if isinstance(sheet, Datasheet):
        return replace(sheet, estimates=estimates)
    groups = by_category(calls, suite.groups, labels=sheet.labels, **_ONCE)
    return replace(
        sheet,
        estimates=estimates,
        summary=dict.fromkeys(sheet.summary, 1.0),
        categories={name: _numbers(axes) for name, axes in groups.items()},
        rubrics={name: _numbers(axes) for name, axes in sheet.rubrics.items()},
    )


def _numbers(readings: Mapping[str, Reading]) -> dict[str, Reading]:
    """Give every axis a number of the kind that it has."""
    return {axis: replace(_WHOLE, statistic=reading.statistic) for axis, reading in readings.items()}


def _made_up(suite: Suite, labels: Sequence[str] | None, *, replicates: int) -> pd.DataFrame:
    """Return the calls of an evaluation in which everything was answered, with a confidence and a price."""
    answer = "1" if labels is None else labels[-1]
    answered = {"outcome": "verdict", "answer": answer, "confidence": 0.5}
    answered |= {"input_tokens": 1, "output_tokens": 1, "cost_usd": 1.0}
    records = []
    for call in plan_calls(suite, AlwaysFirst(), replicates=replicates):
        expected = answer if call.item.expected else ""
        records.append(CallRecord(**{**identity(call), "expected": expected, **answered}))
    return calls_frame(records)


def sweep_points(
    readings: Mapping[str, Reading], *, usd_per_1k: float | None, calls_per_judgment: int
) -> list[keys.Point]:
    """Spell a trial: `sweep/reliability` with its interval, each part, dollars per 1,000 judgments.

    Args:
        readings: `reliability` and its parts; one that is not estimable is left out.
        usd_per_1k: None when a price is unknown.
        calls_per_judgment: Of the policy.
    """
    values: dict[str, float | None] = {"sweep/calls_per_judgment": calls_per_judgment}
    values["sweep/usd_per_1k_judgments"] = usd_per_1k
    for name, reading in readings.items():
        if isinstance(reading, Estimate):
            values |= _in_sweep(name, reading)
            values |= {f"sweep/{name}_n": reading.n, f"sweep/{name}_excluded": reading.excluded}
    return keys.known_points(values)


def _in_sweep(name: str, reading: Estimate) -> dict[str, float | None]:
    ends = {f"sweep/{name}_ci_low": reading.cluster_low, f"sweep/{name}_ci_high": reading.cluster_high}
    return {f"sweep/{name}": reading.value, **ends}


def sweep_summary_points(
    counts: Mapping[str, float | None], *, hypervolume: Reading, members: Mapping[str, tuple[Reading, float | None]]
) -> list[keys.Point]:
    """Spell what a sweep found: `sweep/n_front`, `sweep/hypervolume`, `sweep/best/reliability` and so on.

    Args:
        counts: `n_trials`, `n_front`, `n_calls`, `share_of_grid_calls`.
        hypervolume: Of the front.
        members: `best` and `cheapest_tied` to reliability on the held-out half and dollars per 1,000 judgments.
    """
    values: dict[str, float | None] = {f"sweep/{name}": count for name, count in counts.items()}
    if isinstance(hypervolume, Estimate):
        values |= _in_sweep("hypervolume", hypervolume)
    for name, (reliability, usd) in members.items():
        values |= _in_sweep(f"{name}/reliability", reliability) if isinstance(reliability, Estimate) else {}
        values[f"sweep/{name}/usd_per_1k_judgments"] = usd
    return keys.known_points(values)
