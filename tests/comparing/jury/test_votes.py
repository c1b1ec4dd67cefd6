"""Votes: what several judges answered to the same calls, side by side."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from jrh_mlflow.comparing.jury.votes import MISSING, NOT_ASKED, halves, votes
from jrh_mlflow.errors import CallsError, RecipeError
from tests.comparing.jury.jury_tools import erring, pair_calls, said, table_of


def test_answers_are_codes_of_the_labels_and_what_is_no_answer_stays_missing():
    table = table_of(
        {"a": ["no", "yes", "abstain", "yes"], "b": ["yes", "unparsed", "error", "yes"]}, ["no", "yes", "no", "yes"]
    )
    assert table.scale.labels == ("no", "yes")
    assert table.answer.tolist() == [[0, 1], [1, MISSING], [table.abstain, MISSING], [1, 1]]
    assert table.expected.tolist() == [0, 1, 0, 1]


def test_slots_of_pairs_are_mapped_to_contents_in_either_order():
    table = votes({"first": pair_calls([("1", "1")]), "u": pair_calls([("1", "2")]), "tie": pair_calls([("tie", "2")])})
    contents = [[table.scale.labels[code] for code in row] for row in table.answer]
    assert table.order.tolist() == ["uv", "vu"]
    assert contents == [["u", "u", "tie"], ["v", "u", "u"]]
    assert table.expected.tolist() == [0, 0]


def test_a_judge_that_was_not_asked_has_no_vote_and_no_other_loses_one():
    whole, short = erring(np.zeros(4, dtype=bool)), erring(np.zeros(4, dtype=bool)).iloc[:3]
    table = votes({"whole": whole, "short": short})
    assert table.outcome[:, 1].tolist() == ["verdict", "verdict", "verdict", NOT_ASKED]
    assert table.answer[3].tolist() == [1, MISSING]


def test_of_different_numbers_of_replicates_the_fewest_count():
    once = erring(np.zeros(3, dtype=bool))
    thrice = pd.concat([once.assign(replicate=number) for number in range(3)])
    assert len(votes({"once": once, "thrice": thrice}).item) == 3
    assert len(votes({"thrice": thrice, "again": thrice}).item) == 9


def test_the_baseline_stands_apart_where_there_are_tests():
    tests = said(["no", "yes"], ["no", "no"])
    base = tests.assign(condition="baseline", suite_item=tests["suite_item"] + "/baseline")
    table = votes({"a": pd.concat([tests, base])})
    assert table.condition[table.judged].tolist() == ["typos", "typos"]
    assert votes({"a": base}).judged.all()


def test_judges_that_were_asked_different_things_under_one_name_are_refused():
    one = said(["no", "yes"], ["no", "yes"])
    with pytest.raises(CallsError, match=r"disagree .* 1 item\(s\), i0001: not one suite"):
        votes({"a": one, "b": one.assign(expected=["no", "no"])})


def test_the_price_is_the_sum_over_members_and_unknown_is_never_free():
    wrong = np.zeros(4, dtype=bool)
    table = votes(
        {"a": erring(wrong, cost_usd=0.001), "b": erring(wrong, cost_usd=[0.001, 0.003] * 2), "c": erring(wrong)}
    )
    assert table.usd_per_1k(["a"]) == pytest.approx(1.0)
    assert table.usd_per_1k(["a", "b"]) == pytest.approx(3.0)
    assert table.usd_per_1k(["a", "c"]) is None


def test_halves_share_no_source_and_are_equally_large():
    calls = erring(np.zeros(40, dtype=bool))
    calls["task"] = [f"s{number // 4}" for number in range(40)]
    table = votes({"a": calls})
    first, second = halves(table, seed=3)
    assert not set(table.source[first]) & set(table.source[second])
    assert first.sum() == second.sum() == 20
    assert (first == ~second).all()
    assert (halves(table, seed=3)[0] == first).all()
    assert (halves(table, seed=4)[0] != first).any()


def test_one_source_cannot_be_split():
    with pytest.raises(CallsError, match="two or more sources"):
        halves(votes({"a": erring(np.zeros(1, dtype=bool))}))


def test_an_unknown_judge_is_an_error_with_a_suggestion():
    table = table_of({"gemini": ["no"], "llama": ["no"]}, ["no"])
    with pytest.raises(RecipeError, match=r"No judge 'gemni'\. Did you mean 'gemini'\?"):
        table.columns(["gemni"])
    with pytest.raises(RecipeError, match="each once"):
        table.columns(["llama", "llama"])
