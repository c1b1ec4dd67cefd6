"""Random call records, and a second count of them by plain loops and the words of the protocol."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import strategies as st

import jrh_mlflow as jrh
from jrh_mlflow.schema.items import VACUUM
from tests.readings import Row, pair

SAID = ("1", "2", "tie", "abstain", "unparsed", "error")
USABLE = SAID[:4]
DECOMPOSITION = ("stable_cross_sensitivity", "positional_false_preference", "one_sided_commit", "no_preference")
CONDITIONS = {
    **dict.fromkeys(VACUUM, (None, False)),
    "delta_0_same": (0.0, False),
    "delta_0_different": (0.0, False),
    "filler": (None, False),
    "ladder": (1.0, True),
    "natural": (None, True),
}


@st.composite
def records(draw: st.DrawFn, *, said: tuple[str, ...] = SAID, conditions: Any = tuple(CONDITIONS)) -> list[Row]:
    """Random call records: a few tasks, every condition and outcome, replicates."""
    rows = []
    for index in range(draw(st.integers(1, 30))):
        condition = draw(st.sampled_from(conditions))
        delta, has_better = CONDITIONS[condition]
        fields = {
            "condition": condition,
            "task": f"task-{draw(st.integers(0, 4))}",
            "delta": float(draw(st.integers(1, 3))) if condition == "ladder" else delta,
            "better": draw(st.sampled_from("uv")) if has_better else "",
        }
        for replicate in range(draw(st.integers(1, 2))):
            both = draw(st.sampled_from(said)), draw(st.sampled_from(said))
            rows += pair(f"item-{index}", *both, replicate=replicate, **fields)
    return draw(st.permutations(rows))


def measured(rows: list[Row], **changes: Any) -> jrh.Datasheet:
    """Nothing withheld unless every unit is unusable, so that arithmetic can be looked at."""
    return jrh.measure(rows, **({"max_excluded": 0.99, "n_resamples": 20} | changes))


def content(row: Row) -> str | None:
    if row["outcome"] != "verdict":
        return None
    return {"uv1": "u", "uv2": "v", "vu1": "v", "vu2": "u"}[row["order"] + row["answer"]]


@dataclass
class Tally:
    by_task: dict[str, list[int]] = field(default_factory=dict)
    """Task to hits and units."""
    presentations: Counter[Any] = field(default_factory=Counter)
    """What was shown to how many units it stands for."""


def recount(rows: list[Row]) -> dict[str, Tally]:
    """Hits and units by task, of every share that has a denominator."""
    tallies: dict[str, Tally] = {}

    def add(axis: str, row: Row, hit: bool, shown: Any) -> None:
        tally = tallies.setdefault(axis, Tally())
        counts = tally.by_task.setdefault(row["task"], [0, 0])
        counts[0] += hit
        counts[1] += 1
        tally.presentations[shown] += 1

    for row in rows:
        if row["outcome"] not in ("unparsed", "error"):
            for axis, hit in call_axes(row).items():
                # Both orders of a pair with nothing to judge are one prompt.
                add(axis, row, hit, (row["suite_item"], row["condition"] not in VACUUM and row["order"]))
    for uv, vu in both_orders(rows):
        if not {uv["outcome"], vu["outcome"]} & {"unparsed", "error"}:
            for axis, hit in pair_axes(uv, vu).items():
                add(axis, uv, hit, uv["suite_item"])
    return tallies


def call_axes(row: Row) -> dict[str, bool]:
    condition, verdict, tie = row["condition"], row["outcome"] == "verdict", row["outcome"] == "tie"
    right = verdict and content(row) == row["better"]
    if condition in VACUUM:
        return {"dark_current": verdict, "tie_rate/vacuum": tie}
    if condition != "ladder":
        return {
            "delta_0_same": {"raw_false_preference": not tie, "tie_rate/delta_0_same": tie},
            "delta_0_different": {"different_subset_preference": verdict},
            "filler": {"filler_preference": content(row) == "v"},
            "natural": {"natural/accuracy": right},
        }[condition]
    step = f"delta_{row['delta']:g}"
    chosen = {f"conditional_accuracy/{step}": right} if verdict else {}
    return chosen | {
        f"target_sensitivity/{step}": right,
        f"tie_rate/{step}": tie,
        f"miss_by_tie/{step}": tie,
        f"wrong_choice/{step}": verdict and not right,
    }


def both_orders(rows: list[Row]) -> list[tuple[Row, Row]]:
    found: dict[tuple[str, int], dict[str, Row]] = {}
    for row in rows:
        found.setdefault((row["suite_item"], row["replicate"]), {})[row["order"]] = row
    return [(orders["uv"], orders["vu"]) for orders in found.values()]


def pair_axes(uv: Row, vu: Row) -> dict[str, bool]:
    w, j = (content(uv), content(vu)), (uv["answer"], vu["answer"])
    n_sides = sum(one is not None for one in w)
    stable, positional = n_sides == 2 and w[0] == w[1], n_sides == 2 and j[0] == j[1]
    if uv["condition"] == "delta_0_same":
        return dict(zip(DECOMPOSITION, (stable, positional, n_sides == 1, n_sides == 0), strict=True))
    if uv["condition"] != "natural":
        return {}
    return {
        "natural/stable_correct": stable and w[0] == uv["better"],
        "natural/stable_wrong": stable and w[0] != uv["better"],
        "natural/positional": positional,
        "natural/one_sided": n_sides == 1,
        "natural/one_sided_right": n_sides == 1 and uv["better"] in w,
        "natural/one_sided_wrong": n_sides == 1 and uv["better"] not in w,
        "natural/judgebench_accuracy": judgebench_counter(uv, vu) > 0,
        "natural/no_preference": n_sides == 0,
    }


def judgebench_counter(uv: Row, vu: Row) -> int:
    """As JudgeBench's `compute_final_metrics` counts: one up for a right decision, one down for the opposite one."""
    sides = [content(row) for row in (uv, vu)]
    return sum((side == uv["better"]) - (side is not None and side != uv["better"]) for side in sides)


def same(one: jrh.Datasheet, other: jrh.Datasheet, *, mirrored: bool = False) -> None:
    """Equal but for the last bits of a sum taken in another order; mirrored, but for which slot is preferred."""
    left, right = (flat(sheet.to_dict()) for sheet in (one, other))
    assert left.keys() == right.keys()
    # Most cells are equal to the last bit: `approx` is slow.
    apart = [key for key, cell in left.items() if cell != right[key]]
    if mirrored:
        apart = [key for key in apart if not any(part.startswith(("slot_lean", "verdict")) for part in key)]
        for axis in ("slot_lean", "slot_lean/vacuum"):
            assert lean(one, axis) == pytest.approx(-lean(other, axis)), axis
    assert {key: left[key] for key in apart} == {key: pytest.approx(right[key], abs=1e-9) for key in apart}


def lean(sheet: jrh.Datasheet, axis: str) -> float:
    reading = sheet.estimates.get(axis)
    return reading.value if isinstance(reading, jrh.Estimate) else 0.0


def flat(data: Any, *path: str) -> dict[tuple[str, ...], Any]:
    if not isinstance(data, dict):
        return {path: data}
    return {key: cell for name, part in data.items() for key, cell in flat(part, *path, name).items()}
