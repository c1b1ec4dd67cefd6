"""Several rubrics in one table of calls: each call beside the baseline of its own task and rubric."""

from __future__ import annotations

import pandas as pd

import jrh_mlflow as jrh
from jrh_mlflow.comparing.comparison import compare_calls
from jrh_mlflow.comparing.jury.panels import panel_answer, panel_calls
from jrh_mlflow.comparing.jury.votes import votes
from jrh_mlflow.measures.composite import item_decisions, tally
from jrh_mlflow.measures.reliability import worst_items
from jrh_mlflow.schema.items import Item
from jrh_mlflow.tracking.runs.keys import sheet_points
from tests.measures.pointwise import number, point, reading, report
from tests.readings import Row

SCALE = ("1", "2", "3")


def by(rubric: str, rows: list[Row]) -> list[Row]:
    """The same records under a rubric of their own."""
    renamed = [{**row, "suite_item": row["suite_item"].replace("/", f"@{rubric}/", 1)} for row in rows]
    return [{**row, "rubric": rubric} for row in renamed]


def answers(base: str, test: str, label: str, *, n: int = 12) -> list[Row]:
    """One answer to every baseline, another to every test."""
    sources = [f"s{place:02d}" for place in range(n)]
    rows = [point("baseline", base, label, source=source) for source in sources]
    return rows + [point("typos", test, label, source=source) for source in sources]


def test_a_call_is_compared_with_the_baseline_of_its_own_rubric():
    rows = by("helpful", answers("3", "3", "3")) + by("safe", answers("1", "2", "1"))
    found = report(rows, labels=SCALE)
    assert (number(found, "typos/consistency"), reading(found, "typos/consistency").n) == (0.5, 24)
    assert number(found, "baseline/accuracy") == 1
    assert (number(found, "typos/accuracy"), reading(found, "typos/accuracy").n_clusters) == (0.5, 12), "tasks cluster"
    assert {name: axes["accuracy"].value for name, axes in found.rubrics.items()} == {"helpful": 1, "safe": 0}
    keys = {point.key for point in sheet_points(found)}
    assert {"rubric/helpful/accuracy/rate", "rubric/safe/accuracy/ci_low"} <= keys
    assert "### By rubric" in found.to_markdown()


def test_without_the_column_two_baselines_of_a_task_are_no_original():
    rows = by("helpful", answers("3", "3", "3")) + by("safe", answers("1", "2", "1"))
    found = report([{**row, "rubric": ""} for row in rows], labels=SCALE)
    assert "several baseline items" in found.estimates["typos/consistency"].reason
    assert not found.rubrics
    assert "rubrics" not in found.to_dict()


def doses(levels: tuple[str, ...]) -> list[Row]:
    """Answers to the baseline and to two doses of errors, of eight sources."""
    names = ("baseline", "error_injection_1", "error_injection_2")
    return [
        point(name, level, "3" if name == "baseline" else "", source=f"s{place}")
        for place in range(8)
        for name, level in zip(names, levels, strict=True)
    ]


def test_falling_with_the_dose_is_read_under_each_rubric_by_itself():
    rows = by("helpful", doses(("3", "2", "1"))) + by("safe", doses(("3", "3", "3")))
    found = report(rows, labels=SCALE)
    one = reading(found, "error_injection/monotone")
    assert (one.value, one.n, one.n_clusters) == (0.5, 16, 8)
    assert reading(found, "error_injection_2/decline").value == 0.5
    counted = tally(item_decisions(rows), labels=SCALE)
    assert counted.sizes.sum() == 16


def test_judges_are_compared_and_juries_vote_under_each_rubric():
    good = by("helpful", doses(("3", "2", "1"))) + by("safe", doses(("3", "2", "1")))
    flat = by("helpful", doses(("3", "2", "1"))) + by("safe", doses(("3", "3", "3")))
    calls = {"good": pd.DataFrame(good), "flat": pd.DataFrame(flat)}
    (difference,) = [
        one for one in compare_calls(calls, labels=SCALE, n_resamples=50).differences if one.axis == "error_injection"
    ]
    assert (difference.value, difference.n, difference.n_clusters) == (0.5, 16, 8)
    table = votes({**calls, "again": calls["good"]}, labels=SCALE)
    panel = panel_calls(table, panel_answer(table, ("good", "flat", "again")))
    assert number(jrh.measure(panel, labels=SCALE), "error_injection/monotone") == 1


def test_worst_items_show_the_original_of_their_rubric():
    rows = by("helpful", answers("3", "1", "3", n=1)) + by("safe", answers("3", "1", "3", n=1))
    items = {
        row["suite_item"]: Item(
            id=row["suite_item"],
            task=row["task"],
            condition=row["condition"],
            kind="response",
            response="text",
            rubric=f"{row['rubric']}?" if row["condition"] == "baseline" else f"{row['rubric']}, reworded?",
            answers=SCALE,
            meta={"rubric": row["rubric"]},
        )
        for row in rows
    }
    assert {(one.original, one.perturbed) for one in worst_items(rows, items)} == {
        ("helpful?", "helpful, reworded?"),
        ("safe?", "safe, reworded?"),
    }
