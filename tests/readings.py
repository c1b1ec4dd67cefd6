"""What the tests of the pure layers share: call records written by hand, and judges asked without MLflow."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from hypothesis import settings

from jrh_mlflow import Datasheet, Estimate, NotEstimable, Suite
from jrh_mlflow.engine import ask_calls, plan_calls
from jrh_mlflow.measuring.resolve import resolve_judge
from jrh_mlflow.schema.items import CallRecord
from tests.examples import COSTLY, up_to

Row = dict[str, Any]

PROPERTY = settings(deadline=None, derandomize=True, max_examples=up_to(40))
"""No deadline (no test asserts a time), and the same examples on every machine."""
COSTLY_PROPERTY = settings(PROPERTY, max_examples=up_to(40, usual=COSTLY))
"""One whose every example is expensive."""


def call(item: str, order: str, said: str, **fields: Any) -> Row:
    """One record; `said` is a slot, or the outcome when there is no verdict."""
    slot = said in ("1", "2")
    row: Row = {
        "suite_item": item,
        "task": "task",
        "condition": "delta_0_same",
        "delta": None,
        "order": order,
        "better": "",
        "replicate": 0,
        "outcome": "verdict" if slot else said,
        "answer": said if slot else "",
        "expected": "",
    }
    return row | fields


def pair(item: str, uv: str, vu: str, **fields: Any) -> list[Row]:
    """Both orders of a canonical pair."""
    return [call(item, "uv", uv, **fields), call(item, "vu", vu, **fields)]


def pairs(answers: Iterable[tuple[str, str]], *, n_tasks: int = 10, name: str = "item", **fields: Any) -> list[Row]:
    """Many pairs of one condition, dealt out to tasks in turn."""
    return [
        row
        for index, (uv, vu) in enumerate(answers)
        for row in pair(f"{name}-{index}", uv, vu, task=f"task-{index % n_tasks}", **fields)
    ]


def asked(judge: object, suite: Suite, *, replicates: int = 1) -> list[CallRecord]:
    """Ask a judge everything, with no MLflow near."""
    judge = resolve_judge(judge)
    judge.begin(suite)
    return ask_calls(judge, plan_calls(suite, judge, replicates=replicates)).records


def estimate(sheet: Datasheet, axis: str) -> Estimate:
    """The reading of an axis that must have a number."""
    reading = sheet.estimates[axis]
    assert isinstance(reading, Estimate), f"{axis}: {reading}"
    return reading


def value(sheet: Datasheet, axis: str) -> float:
    """The number of an axis that must have one."""
    return estimate(sheet, axis).value


def missing(sheet: Datasheet, axis: str) -> NotEstimable:
    """The reason of an axis that must have no number."""
    reading = sheet.estimates[axis]
    assert isinstance(reading, NotEstimable), f"{axis}: {reading}"
    return reading
