"""Pointwise call records written by hand, for comparisons."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd

from jrh_mlflow.measures.records import normalise

Judge = Callable[[str, str, int], str | None]
"""Source, condition and replicate to an answer; None is a call that could not be parsed."""

LABELS = ("1", "2", "3", "4", "5")


def label_of(source: int) -> str:
    return LABELS[source % 5]


def oracle(source: str, condition: str, replicate: int) -> str:
    label = label_of(int(source[1:]))
    dose = int(condition[-1]) if condition.startswith("error_injection") else 0
    return str(max(1, int(label) - 5 * dose))


def point_calls(
    judge: Judge,
    *,
    tests: tuple[str, ...] = ("typos",),
    n_sources: int = 12,
    replicates: int = 1,
    cost_usd: float | None = None,
) -> pd.DataFrame:
    """Ask a judge about a baseline and each test of every source; stability is asked three times."""
    rows: list[dict[str, Any]] = []
    for number in range(n_sources):
        source = f"s{number}"
        for test in ("baseline", *tests):
            asked = 3 if test.startswith("stochastic_stability") else replicates
            expected = "" if test.startswith("error_injection") else label_of(number)
            for replicate in range(asked):
                answer = judge(source, test, replicate)
                rows.append(
                    {
                        "suite_item": f"{source}/{test}",
                        "task": source,
                        "condition": test,
                        "delta": None,
                        "order": "",
                        "better": "",
                        "replicate": replicate,
                        "outcome": "unparsed" if answer is None else "verdict",
                        "answer": answer or "",
                        "expected": expected,
                        "cost_usd": cost_usd,
                    }
                )
    return normalise(rows)
