"""Panels: one answer from several votes, and how often it is right."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import jrh_mlflow as jrh
from jrh_mlflow.comparing.jury.panels import VotingRule, panel_answer, panel_calls, panel_readings
from jrh_mlflow.comparing.jury.votes import MISSING, VoteTable, votes
from jrh_mlflow.errors import RecipeError
from jrh_mlflow.schema.estimates import Estimate, NotEstimable, Reading
from tests.comparing.jury.jury_tools import error_table, pair_calls, table_of
from tests.measures.test_reliability_golden import GOLDEN, JUDGES, NEGATIVE, POSITIVE, records


def number(reading: Reading) -> float:
    assert isinstance(reading, Estimate), reading
    return reading.value


def answers(table: VoteTable, panel: list[str] | None = None, **rule: Any) -> list[str]:
    given = panel_answer(table, panel or table.judges, VotingRule(**rule)).answer
    texts = [*table.scale.labels, "no decision"]
    return ["unusable" if code == MISSING else texts[code] for code in given]


@pytest.mark.parametrize("judge", JUDGES)
def test_a_panel_of_one_reads_the_published_figures_of_its_judge(judge):
    table = votes({name: pd.DataFrame(records(name)) for name in JUDGES}, labels=(NEGATIVE, POSITIVE))
    found = panel_readings(table, panel_answer(table, [judge]).answer)
    for axis in ("accuracy", "error_rate", "fpr", "fnr"):
        assert number(found[axis]) == pytest.approx(GOLDEN["judges"][judge][axis], abs=0.0005 + 1e-9)
    alone = jrh.measure(records(judge)).estimates["all/accuracy"]
    assert isinstance(alone, Estimate)
    assert isinstance(found["accuracy"], Estimate)
    for field in ("value", "n", "ci_low", "ci_high", "cluster_low", "cluster_high"):
        assert getattr(found["accuracy"], field) == getattr(alone, field)


def test_a_panel_of_one_is_its_judge():
    table = table_of({"a": ["no", "abstain", "yes", "unparsed"] * 5}, ["no", "no", "no", "yes"] * 5, max_excluded=1.0)
    assert answers(table) == ["no", "no decision", "yes", "unusable"] * 5
    assert number(panel_readings(table, panel_answer(table, ["a"]).answer)["accuracy"]) == pytest.approx(1 / 3)


@pytest.mark.slow
def test_three_independent_judges_are_right_as_often_as_condorcet_says():
    p, n = 0.75, 20_000
    rng = np.random.default_rng(1)
    table = error_table(rng.random((n, 3)) > p)
    found = panel_readings(table, panel_answer(table, table.judges).answer)["accuracy"]
    # Three standard errors of a share at n = 20,000.
    assert number(found) == pytest.approx(3 * p**2 - 2 * p**3, abs=0.008)


TIED = {
    "a": ["1", "3", "2", "5"],
    "b": ["4", "2", "2", "1"],
    "c": ["4", "abstain", "3", "2"],
    "d": ["1", "unparsed", "3", "1"],
}


@pytest.mark.parametrize(
    ("ties", "expected"),
    [
        ("abstain", ["no decision", "no decision", "no decision", "1"]),
        ("lowest", ["1", "2", "2", "1"]),
        ("highest", ["4", "3", "3", "1"]),
        ("median", ["1", "2", "2", "1"]),
        ("first", ["1", "3", "2", "1"]),
    ],
)
def test_a_draw_becomes_what_the_tie_rule_says(ties, expected):
    table = table_of(TIED, ["1"] * 4, labels=("1", "2", "3", "4", "5"))
    assert answers(table, ties=ties) == expected


def test_the_median_looks_at_all_votes_and_not_at_the_tied_ones_only():
    given = {"a": ["1"], "b": ["1"], "c": ["2"], "d": ["5"], "e": ["5"]}
    table = table_of(given, ["1"], labels=("1", "2", "3", "4", "5"))
    assert answers(table, ties="median") == ["2"]
    assert answers(table, ties="lowest") == ["1"]


def test_the_order_of_the_panel_decides_only_when_the_first_judge_is_to_break_ties():
    table = table_of(TIED, ["1"] * 4, labels=("1", "2", "3", "4", "5"))
    assert answers(table, ["b", "a", "c", "d"], ties="first")[0] == "4"
    for ties in ("abstain", "lowest", "highest", "median"):
        assert answers(table, ["b", "a", "d", "c"], ties=ties) == answers(table, ties=ties)


def test_split_votes_are_counted_and_no_decision_is_an_answer_that_is_not_right():
    table = table_of({"a": ["no", "no"], "b": ["yes", "no"]}, ["no", "no"])
    given = panel_answer(table, table.judges)
    assert given.split.tolist() == [True, False]
    found = panel_readings(table, given.answer)
    assert (number(found["accuracy"]), number(found["error_rate"]), number(found["no_decision"])) == (0.5, 0.5, 0.5)
    assert number(found["fpr"]) == 0.0


def test_missing_votes_are_neither_no_nor_a_vote_and_too_few_are_no_answer():
    table = table_of(
        {"a": ["yes", "yes", "yes"], "b": ["yes", "unparsed", "unparsed"], "c": ["no", "no", "error"]}, ["yes"] * 3
    )
    assert answers(table) == ["yes", "no decision", "unusable"]
    assert answers(table, min_votes=1) == ["yes", "no decision", "yes"]
    assert answers(table, min_votes=3) == ["yes", "unusable", "unusable"]


def test_units_without_an_answer_leave_the_denominator_and_withhold_the_number_past_the_limit():
    given = {"a": ["yes"] * 20, "b": ["yes"] * 18 + ["error"] * 2}
    expected = ["yes"] * 20
    kept = panel_readings(t := table_of(given, expected, max_excluded=0.1), panel_answer(t, ["a", "b"]).answer)[
        "accuracy"
    ]
    assert isinstance(kept, Estimate)
    assert (kept.value, kept.n, kept.excluded, kept.bound_low) == (1.0, 18, 2, 0.9)
    withheld = panel_readings(t := table_of(given, expected), panel_answer(t, ["a", "b"]).answer)["accuracy"]
    assert isinstance(withheld, NotEstimable)
    assert withheld.withheld
    assert "too few votes 2" in withheld.reason


def test_a_panel_of_pairs_votes_on_contents_and_can_answer_a_tie():
    calls = {"a": pair_calls([("1", "2")]), "b": pair_calls([("1", "1")]), "c": pair_calls([("2", "tie")])}
    table = votes(calls)
    # uv: u, u, v. vu: u, v, tie.
    assert answers(table) == ["u", "no decision"]
    assert answers(table, ties="tie") == ["u", "tie"]
    assert number(panel_readings(table, panel_answer(table, table.judges).answer)["accuracy"]) == 0.5


def test_the_answers_of_a_panel_are_call_records_that_measure_reads():
    calls = {"a": pair_calls([("1", "2")] * 4), "b": pair_calls([("1", "1")] * 4), "c": pair_calls([("1", "2")] * 4)}
    table = votes(calls)
    sheet = jrh.measure(panel_calls(table, panel_answer(table, table.judges)))
    assert number(sheet.estimates["natural/stable_correct"]) == 1.0
    points = table_of({"a": ["no", "yes", "error"], "b": ["no", "no", "yes"]}, ["no"] * 3)
    frame = panel_calls(points, panel_answer(points, points.judges))
    assert frame["outcome"].tolist() == ["verdict", "abstain", "error"]
    assert frame["answer"].tolist() == ["no", "", ""]
    assert frame["task"].tolist() == ["s0000", "s0001", "s0002"]


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        ({"ties": "frist"}, "Unknown ties 'frist'. Did you mean 'first'?"),
        ({"ties": "tie"}, "is for pairs"),
        ({"min_votes": 0}, "1 <= min_votes <= "),
        ({"min_votes": 99}, "must hold: got 99"),
    ],
)
def test_a_rule_that_cannot_be_used_is_refused(rule, text):
    table = table_of({"a": ["no"], "b": ["yes"]}, ["no"])
    with pytest.raises(RecipeError, match=text.replace("?", r"\?")):
        panel_answer(table, table.judges, VotingRule(**rule))


def test_labels_without_an_order_have_no_lowest_one():
    table = table_of({"a": ["red"], "b": ["blue"]}, ["red"])
    with pytest.raises(RecipeError, match="needs labels with a known order"):
        panel_answer(table, table.judges, VotingRule(ties="lowest"))
