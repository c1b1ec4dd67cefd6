"""Lost calls count: a rule, a finding or a difference is decided only where no answer of theirs could change it."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from jrh_mlflow.comparing.comparison import compare_calls
from jrh_mlflow.decisions.gate import JudgeCalls, RunEvidence
from jrh_mlflow.measures.rules import RuleCheck, parse_rules
from jrh_mlflow.measures.verdict import findings, limit_of
from jrh_mlflow.schema.estimates import Estimate
from jrh_mlflow.scoring.ledger import deciding_ends, deciding_interval, without_losses
from jrh_mlflow.show.results import measure
from tests.cases import few

Rng = np.random.Generator


def calls(rng: Rng, *, rate: float, lost: tuple[float, float], n_tasks: int = 200, n_items: int = 2) -> pd.DataFrame:
    """Vacuum calls in both orders that prefer a side at a rate, of which hits and others are lost at two rates."""
    n = n_tasks * n_items * 2
    hit = rng.random(n) < rate
    gone = rng.random(n) < np.where(hit, *lost)
    answer = np.where(gone | ~hit, "", np.where(rng.random(n) < 0.5, "1", "2"))
    return pd.DataFrame(
        {
            "suite_item": np.repeat(np.arange(n // 2), 2).astype(str),
            "task": np.repeat(np.arange(n_tasks), 2 * n_items).astype(str),
            "condition": "vacuum_identical",
            "delta": np.nan,
            "order": np.tile(["uv", "vu"], n // 2),
            "better": "",
            "replicate": 0,
            "outcome": np.where(gone, "error", np.where(hit, "verdict", "tie")),
            "answer": answer,
            "expected": "",
        }
    )


def check(judge: JudgeCalls, rule: str) -> RuleCheck:
    (found,) = RunEvidence(judge=judge).check(parse_rules(rule))
    return found


def reading(frame: pd.DataFrame, axis: str) -> Estimate:
    found = measure(frame).estimates[axis]
    assert isinstance(found, Estimate)
    return found


@pytest.mark.parametrize(
    ("rate", "lost", "n_tasks"),
    few(
        [
            pytest.param(0.045, (0.95, 0.0), 130, id="all hits"),
            pytest.param(0.1, (0.35, 0.005), 200, id="some hits"),
        ]
    ),
)
def test_a_judge_at_the_limit_does_not_hold_because_its_hits_were_lost(rate, lost, n_tasks):
    rng, holds, alone, counted = np.random.default_rng(5), 0, 0, 0
    for _ in range(10):
        judge = JudgeCalls(calls=calls(rng, rate=rate, lost=lost, n_tasks=n_tasks))
        found = check(judge, f"dark_current <= {rate - 1e-9}")
        if found.estimate is None:
            continue
        counted += 1
        holds += found.state == "holds"
        read = judge.readings["dark_current"]
        assert isinstance(read, Estimate)
        low, high = deciding_ends(without_losses(read))
        assert (found.low, found.high) == (low, high), "the printed interval stays that of the answers that came"
        alone += high is not None and high <= rate
    assert counted > 5
    assert holds <= 0.1 * counted
    assert alone > 0.2 * counted, "without the lost calls it would hold too often"


def test_a_rule_that_only_lost_calls_leave_open_says_so():
    frame = calls(np.random.default_rng(1), rate=0.05, lost=(0.4, 0.02))
    found = check(JudgeCalls(calls=frame), "dark_current <= 0.065")
    assert (found.state, found.by_losses) == ("undecided", True)
    answered = frame.assign(outcome=frame["outcome"].replace("error", "tie"))
    whole = check(JudgeCalls(calls=answered), "dark_current <= 0.065")
    assert (whole.state, whole.by_losses) == ("holds", False)


def test_what_decides_is_the_hull_of_the_three_intervals():
    frame = calls(np.random.default_rng(2), rate=0.2, lost=(0.04, 0.04), n_tasks=20)
    own = reading(frame, "dark_current")
    gone = frame["outcome"] == "error"
    least = reading(frame.assign(outcome=frame["outcome"].where(~gone, "tie")), "dark_current")
    most = frame.assign(outcome=frame["outcome"].where(~gone, "verdict"), answer=frame["answer"].where(~gone, "1"))
    assert deciding_interval(own) == (least.cluster_low, reading(most, "dark_current").cluster_high)
    assert own.cluster_low is not None
    assert least.cluster_low is not None
    assert least.cluster_low < own.cluster_low


@pytest.mark.parametrize(
    ("axis", "ways"),
    [("slot_lean/vacuum", (("2", "verdict"), ("1", "verdict"))), ("dark_current", (("", "tie"), ("1", "verdict")))],
)
def test_leans_are_completed_by_slot(axis, ways):
    frame = calls(np.random.default_rng(3), rate=0.5, lost=(0.04, 0.04), n_tasks=28)
    gone, ends = frame["outcome"] == "error", deciding_interval(reading(frame, axis))
    completed = [
        deciding_interval(
            reading(
                frame.assign(
                    answer=frame["answer"].where(~gone, answer), outcome=frame["outcome"].where(~gone, outcome)
                ),
                axis,
            )
        )
        for answer, outcome in ways
    ]
    three = [*completed, deciding_interval(without_losses(reading(frame, axis)))]
    assert ends == (min(low for low, _ in three), max(high for _, high in three))
    assert ends[1] - ends[0] > max(high - low for low, high in three)


def test_a_finding_is_not_ok_because_its_hits_were_lost():
    frame = calls(np.random.default_rng(4), rate=0.08, lost=(0.4, 0.005))
    estimates = measure(frame).estimates
    dark = estimates["dark_current"]
    limit = limit_of("dark_current")
    assert isinstance(dark, Estimate)
    assert limit is not None
    assert (limit.is_ok(without_losses(dark)), limit.is_ok(dark)) == (True, False)
    states = {finding.axis: finding.state for finding in findings(estimates)}
    assert states["dark_current"] == "cannot tell"


@pytest.mark.slow
def test_equal_judges_of_which_one_loses_hits_are_not_told_apart():
    rng, apart, noted = np.random.default_rng(6), 0, 0
    for _ in range(12):
        judges = {
            "whole": calls(rng, rate=0.1, lost=(0.0, 0.0)),
            "losing": calls(rng, rate=0.1, lost=(0.35, 0.0)),
        }
        found = compare_calls(judges, n_resamples=50)
        (row,) = [row for row in found.differences if row.axis == "dark_current"]
        apart += row.told_apart
        assert not (row.told_apart and row.open_by_losses)
        noted += row.open_by_losses and row.p_adjusted <= 0.05
    assert apart == 0
    assert noted >= 1, "the answers that came would tell them apart"


def test_a_clear_difference_is_told_apart_in_spite_of_lost_calls():
    rng = np.random.default_rng(7)
    judges = {name: calls(rng, rate=rate, lost=(0.03, 0.03)) for name, rate in (("good", 0.05), ("bad", 0.4))}
    found = compare_calls(judges, n_resamples=50)
    (row,) = [row for row in found.differences if row.axis == "dark_current"]
    assert (row.told_apart, row.open_by_losses) == (True, False)
