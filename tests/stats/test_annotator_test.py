"""The alternative annotator test against the authors' implementation, and what it leaves out."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from jrh_mlflow.stats.agreement import annotator_test

GOLDEN = json.loads((Path(__file__).parents[1] / "golden/alternative_annotator_test.json").read_text())
CASES = GOLDEN["cases"]
LIKENESS = {"accuracy": "same", "neg_rmse": "distance"}


def run(case):
    people, judge = np.array(case["people"], float), np.array(case["judge"], float)
    return annotator_test(people, judge, likeness=LIKENESS[case["scoring"]], epsilon=case["epsilon"])


@pytest.mark.parametrize("name", CASES)
def test_winning_rate_advantage_and_p_values_are_those_of_the_authors(name):
    case, found = CASES[name], run(CASES[name])
    assert found.winning_rate == case["winning_rate"]
    assert found.advantage_probability == pytest.approx(case["advantage_probability"], abs=1e-12)
    # Differences that are all 0 have no p value against an epsilon of 0; they reject nothing.
    expected = [1.0 if p is None else p for p in case["p_values"]]
    assert found.p[found.tested] == pytest.approx(expected, rel=1e-9, abs=1e-15)
    assert [f"h{j}" for j in np.flatnonzero(~found.tested)] == case["skipped"]


def test_the_cases_reject_all_some_and_none():
    assert {case["winning_rate"] for case in CASES.values()} >= {0.0, 1.0, 1 / 3}


def test_benjamini_yekutieli_keeps_what_benjamini_hochberg_would_reject():
    found = run(CASES["two labels, many ties, no epsilon"])
    assert found.p.min() < 0.05 / 4 < found.adjusted.min()
    assert not found.rejected.any()


def test_people_left_out_of_the_test_still_count_as_others():
    case = CASES["29 items are too few, 30 enough"]
    people, judge = np.array(case["people"], float), np.array(case["judge"], float)
    alone = annotator_test(people[:, :2], judge, likeness="same")
    assert not run(case).tested[2]
    assert alone.advantage.tolist() != run(case).advantage[:2].tolist()


def test_a_tie_is_a_win_of_both():
    people = np.tile([[0.0, 1.0, 1.0]], (30, 1))
    found = annotator_test(people, np.ones(30), likeness="same")
    assert found.advantage.tolist() == [1.0, 1.0, 1.0]
    assert found.person_advantage.tolist() == [0.0, 1.0, 1.0]


def test_nobody_to_test_has_no_rate_and_no_warning():
    found = annotator_test(np.zeros((5, 2)), np.zeros(5), likeness="same")
    assert not found.tested.any()
    assert np.isnan(found.winning_rate)
    assert np.isnan(found.advantage_probability)


def test_an_epsilon_outside_0_to_1_is_a_mistake():
    with pytest.raises(ValueError, match="epsilon"):
        annotator_test(np.zeros((5, 2)), np.zeros(5), likeness="same", epsilon=1.5)
