"""Call records written by hand, for comparisons."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pandas as pd

from jrh_mlflow.comparing.recommendation import says
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


PairJudge = Callable[[str, float, random.Random], str]
"""Condition, step and luck to `better`, `worse`, `tie`, or a slot: `1`, `2`."""


def coin(condition: str, delta: float, luck: random.Random) -> str:
    return luck.choice("12")


def honest(condition: str, delta: float, luck: random.Random) -> str:
    """Calls a small difference a tie, and sees a large one."""
    return "better" if delta >= 4 else "tie"


def blind(condition: str, delta: float, luck: random.Random) -> str:
    """Never has a preference."""
    return "tie"


def able_but(condition: str, delta: float, luck: random.Random) -> str:
    """Sees every difference, and prefers the first of two empty answers."""
    return "1" if condition.startswith("vacuum") else "better" if delta else "tie"


def pair_calls(
    judge: PairJudge,
    *,
    n_tasks: int = 24,
    cost_usd: float | None = None,
    seed: int = 0,
    matched: PairJudge | None = None,
) -> pd.DataFrame:
    """Ask a judge about empty pairs, equal pairs and a ladder of five steps, all in both orders.

    With `matched` also about a ladder of pairs with the same words, to which it answers as that one.
    """
    luck, rows = random.Random(seed), []
    asked = [("vacuum_empty", 0.0), ("delta_0_same", 0.0), *(("ladder", float(step)) for step in range(1, 6))]
    asked += [("ladder_matched", float(step)) for step in range(1, 6)] if matched else []
    for task in range(n_tasks):
        for condition, delta in asked:
            for order in ("uv", "vu"):
                said = (matched if matched and condition == "ladder_matched" else judge)(condition, delta, luck)
                # The better content is u, which order uv shows in slot 1.
                slot = {"better": "12"[order == "vu"], "worse": "21"[order == "vu"]}.get(said, said)
                rows.append(
                    {
                        "suite_item": f"t{task}/{condition}/{delta:g}",
                        "task": f"t{task}",
                        "condition": condition,
                        "delta": None if condition == "vacuum_empty" else delta,
                        "order": order,
                        "better": "u" if delta else "",
                        "replicate": 0,
                        "outcome": "tie" if slot == "tie" else "verdict",
                        "answer": "" if slot == "tie" else slot,
                        "expected": "",
                        "cost_usd": cost_usd,
                    }
                )
    return normalise(rows)


def claim(axis: str) -> str:
    """What sentences say that a judge does, without the number."""
    return says(axis, "@").partition(" @")[0]
