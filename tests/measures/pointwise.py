"""Pointwise call records written by hand."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import jrh_mlflow as jrh
from jrh_mlflow.schema.estimates import Estimate, NotEstimable
from jrh_mlflow.show.results import ReliabilityReport
from tests.readings import Row

NO_ANSWER = ("abstain", "unparsed", "error")


def point(test: str, said: str, expected: str = "", *, source: str = "s0", number: int = 0, replicate: int = 0) -> Row:
    """One record; `said` is an answer, or the outcome when there is none."""
    verdict = said not in NO_ANSWER
    return {
        "suite_item": f"{source}/{test}" + (f"/{number}" if number else ""),
        "task": source,
        "condition": test,
        "delta": None,
        "order": "",
        "better": "",
        "replicate": replicate,
        "outcome": "verdict" if verdict else said,
        "answer": said if verdict else "",
        "expected": expected,
    }


def points(test: str, pairs: Iterable[tuple[str, str]], *, first: int = 0) -> list[Row]:
    """One record for each (said, expected), each of a source of its own."""
    return [
        point(test, said, expected, source=f"s{index:03d}") for index, (said, expected) in enumerate(pairs, start=first)
    ]


def repeats(test: str, said: Sequence[str], expected: str = "", *, source: str = "s0") -> list[Row]:
    """The replicates of one item."""
    return [point(test, one, expected, source=source, replicate=replicate) for replicate, one in enumerate(said)]


def report(rows: Iterable[Row], **changes: Any) -> ReliabilityReport:
    """Measure with few resamples and nothing withheld unless nothing is usable."""
    found = jrh.measure(list(rows), **({"max_excluded": 0.99, "n_resamples": 50} | changes))
    assert isinstance(found, ReliabilityReport)
    return found


def reading(found: ReliabilityReport, axis: str) -> Estimate:
    """The reading of an axis that must have a number."""
    one = found.estimates[axis]
    assert isinstance(one, Estimate), f"{axis}: {one}"
    return one


def number(found: ReliabilityReport, axis: str) -> float:
    """The number of an axis that must have one."""
    return reading(found, axis).value


def reason(found: ReliabilityReport, axis: str) -> NotEstimable:
    """The reason of an axis that must have no number."""
    one = found.estimates[axis]
    assert isinstance(one, NotEstimable), f"{axis}: {one}"
    return one


def doses(said: dict[str, list[str]]) -> list[dict]:
    """Make rows of a baseline with the label 5 and of error doses from what was answered, by source."""
    rows = []
    for source, answers in said.items():
        rows.append(point("baseline", answers[0], "5", source=source))
        rows += [point(f"error_injection_{dose}", one, source=source) for dose, one in enumerate(answers[1:], start=1)]
    return rows
