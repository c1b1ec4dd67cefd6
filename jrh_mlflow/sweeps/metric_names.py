"""The names of the metrics that runs on a suite can have, known before anything is asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from jrh_mlflow.errors import RecipeError, suggest
from jrh_mlflow.measures.composite import part_of, tally
from jrh_mlflow.measures.policies import decide
from jrh_mlflow.results import Datasheet, ReliabilityReport, measure
from jrh_mlflow.results.categories import by_category
from jrh_mlflow.schema.estimates import Estimate
from jrh_mlflow.schema.items import Item
from jrh_mlflow.suites.suite import Suite
from jrh_mlflow.sweeps.goals import COST, RELIABILITY
from jrh_mlflow.sweeps.space import Space
from jrh_mlflow.tracking import keys

_ANY_LABELS = (("no", "yes"), ("1", "2", "3"))
"""Stand for the labels of a suite whose items differ in theirs: together they have every axis that labels can have."""
_WHOLE = Estimate(
    value=0.5,
    n=1,
    excluded=0,
    ci_low=0.0,
    ci_high=1.0,
    cluster_low=0.0,
    cluster_high=1.0,
    n_clusters=1,
    method="none",
)
_ONCE: dict[str, Any] = {"seed": 0, "n_resamples": 1}
"""Only names are read, so that one resample does."""


def check_names(space: Space, suite: Suite) -> None:
    """Refuse an objective or a constraint on a metric that no run on the suite can have.

    Raises:
        RecipeError: with the nearest name there is.
    """
    asked = [*space.objectives, *(limit.metric for limit in space.limits)]
    if set(asked) <= {RELIABILITY, COST}:
        return
    known = metric_names(suite, replicates=max(space.replicates))
    for name in asked:
        if name not in known:
            # An axis without its statistic is the likeliest slip, and other statistics are spelled more alike.
            near = known & {keys.main_statistic(name)} or known
            raise RecipeError(
                f"Runs on suite {suite.name!r} have no metric {name!r}.{suggest(name, near)} "
                f"{RELIABILITY} and {COST} are always there."
            )


def metric_names(suite: Suite, *, replicates: int) -> set[str]:
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
        found |= {point.key for point in _points(suite, calls, labels)}
    return found


def _points(suite: Suite, calls: pd.DataFrame, labels: Sequence[str] | None) -> list[keys.Point]:
    counted = tally(decide(calls), labels=labels)
    readings = dict.fromkeys((RELIABILITY, *map(part_of, counted.cells)), _WHOLE)
    return [
        *keys.sheet_points(_filled(measure(calls, labels=labels, **_ONCE), suite, calls)),
        *keys.call_points(calls, seconds=1.0, cpu_seconds=1.0),
        *keys.price_points(1.0),
        *keys.sweep_points(readings, usd_per_1k=1.0, calls_per_judgment=1),
    ]


def _filled(sheet: Datasheet | ReliabilityReport, suite: Suite, calls: pd.DataFrame) -> Datasheet | ReliabilityReport:
    estimates = dict.fromkeys(sheet.estimates, _WHOLE)
    if isinstance(sheet, Datasheet):
        return replace(sheet, estimates=estimates)
    groups = by_category(calls, suite.groups, labels=sheet.labels, **_ONCE)
    return replace(
        sheet,
        estimates=estimates,
        summary=dict.fromkeys(sheet.summary, 1.0),
        categories={name: dict.fromkeys(axes, _WHOLE) for name, axes in groups.items()},
    )


def _made_up(suite: Suite, labels: Sequence[str] | None, *, replicates: int) -> pd.DataFrame:
    answer = "1" if labels is None else labels[-1]
    frame: pd.DataFrame = pd.DataFrame(
        [
            _record(item, answer) | {"order": order, "replicate": replicate}
            for item in suite.items
            for replicate in range(replicates * item.replicates)
            for order in item.orders
        ]
    )
    return frame


def _record(item: Item, answer: str) -> dict[str, object]:
    return {
        "suite_item": item.id,
        "task": item.task,
        "condition": item.condition,
        "delta": item.delta,
        "better": item.better or "",
        "expected": answer if item.expected else "",
        "outcome": "verdict",
        "answer": answer,
        "confidence": 0.5,
        "cached": False,
        "input_tokens": 1,
        "output_tokens": 1,
        "cost_usd": 1.0,
    }
