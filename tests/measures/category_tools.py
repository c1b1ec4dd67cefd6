"""Call records of two groups with known counts."""

from __future__ import annotations

import pandas as pd


def call(task: str, condition: str, expected: str, answer: str) -> dict[str, object]:
    """One call record of a pointwise judge."""
    return {
        "suite_item": f"{task}/{condition}",
        "task": task,
        "condition": condition,
        "delta": None,
        "order": "",
        "better": "",
        "replicate": 0,
        "outcome": "verdict",
        "answer": answer,
        "expected": expected,
    }


def two_groups() -> tuple[pd.DataFrame, dict[str, str]]:
    """A group judged without error, and one with 2 of 10 false alarms and 5 of 10 misses."""
    no, yes = "no violation", "violation"
    rows, groups = [], {}
    for group, (alarms, misses) in {"easy": (0, 0), "hard": (2, 5)}.items():
        for n in range(10):
            task = f"{group}{n}"
            rows.append(call(task, "agent_positives", no, yes if n < alarms else no))
            rows.append(call(task, "agent_perturbation", yes, no if n < misses else yes))
            groups |= {f"{task}/{test}": group for test in ("agent_positives", "agent_perturbation")}
    return pd.DataFrame(rows), groups
