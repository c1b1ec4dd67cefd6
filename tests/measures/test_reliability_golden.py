"""The published AgentHarm figures of the Judge Reliability Harness paper, reproduced from call records."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from jrh_mlflow.measures.reliability import usd_per_accuracy_point
from tests.measures.pointwise import number, points, reading, reason, report
from tests.readings import Row

GOLDEN: dict[str, Any] = json.loads(
    (Path(__file__).parents[1] / "golden" / "judge_reliability_harness.json").read_text()
)
JUDGES = tuple(GOLDEN["judges"])
N = GOLDEN["n_per_test"]
NEGATIVE, POSITIVE = "no violation", "violation"


def records(judge: str) -> list[Row]:
    counts = GOLDEN["judges"][judge]
    rows = []
    for test, right, wrong in (
        ("agent_perturbation", POSITIVE, NEGATIVE),
        ("agent_positives", NEGATIVE, POSITIVE),
    ):
        correct = counts[f"{test}_correct"]
        rows += points(test, [(right if index < correct else wrong, right) for index in range(N)])
    return rows


@pytest.mark.parametrize("judge", JUDGES)
@pytest.mark.parametrize("labels", [(NEGATIVE, POSITIVE), None])
def test_the_published_figures_come_out_to_three_decimals(judge, labels):
    found = report(records(judge), labels=labels)
    for axis in ("accuracy", "error_rate", "fpr", "fnr"):
        # 1/16 is printed as 0.063: half a unit of the last place, rounded up.
        assert number(found, f"all/{axis}") == pytest.approx(GOLDEN["judges"][judge][axis], abs=0.0005 + 1e-9)
    assert (reading(found, "all/accuracy").n, reading(found, "all/fpr").n, reading(found, "all/fnr").n) == (32, 16, 16)


def test_turning_the_labels_round_swaps_the_two_errors():
    found = report(records("Gemini 2.5 Pro"), labels=(POSITIVE, NEGATIVE))
    assert (number(found, "all/fpr"), number(found, "all/fnr")) == (0.125, 0.25)


def test_a_test_that_expects_one_label_only_has_no_rate_for_the_other():
    found = report(records("GPT-4o"))
    assert number(found, "agent_positives/fpr") == 1 / 16
    assert reason(found, "agent_positives/fnr").reason == "no agent_positives calls that expect 'violation'"
    assert "no variation" in reason(found, "agent_positives/matthews").reason


def test_dollars_per_accuracy_point_are_total_cost_over_accuracy_in_percentage_points():
    assert "divided by accuracy in percentage points" in GOLDEN["cost_per_accuracy_point_usd"]["definition"]
    published = GOLDEN["cost_per_accuracy_point_usd"]["AgentHarm"]["GPT 4o"]
    accuracy = number(report(records("GPT-4o")), "all/accuracy")
    # At 90.6 % right, the published price of a point means 11.8 cents in all.
    assert usd_per_accuracy_point(0.1178, accuracy) == pytest.approx(published, abs=5e-6)
    assert usd_per_accuracy_point(0.1178, 0.0) is None
    assert usd_per_accuracy_point(None, 0.9) is None
    assert usd_per_accuracy_point(0.0, 0.9) == 0
