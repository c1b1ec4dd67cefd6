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


def wins_in_clusters(n_clusters, *, size, against):
    """Two people and a judge that agree, but for `against` whole clusters in which the judge differs from both."""
    people = np.zeros((n_clusters * size, 2))
    judge = np.repeat(np.arange(n_clusters) < against, size).astype(float)
    return people, judge, np.repeat(np.arange(n_clusters), size)


@pytest.mark.parametrize(("n_clusters", "won"), [(10, 0.0), (60, 1.0)])
def test_few_clusters_that_are_all_alike_do_not_show_that_no_other_would_differ(n_clusters, won):
    people, judge, clusters = wins_in_clusters(n_clusters, size=5, against=0)
    assert annotator_test(people, judge, likeness="same").winning_rate == 1.0
    assert annotator_test(people, judge, likeness="same", clusters=clusters).winning_rate == won


def test_a_judge_that_always_loses_is_never_won_by_cluster():
    people, judge, clusters = wins_in_clusters(12, size=4, against=12)
    assert (annotator_test(people, judge, likeness="same", clusters=clusters).p == 1.0).all()


def test_with_whole_clusters_of_losses_the_test_errs_in_six_percent_or_less():
    rng, wrong = np.random.default_rng(5), 0
    for _ in range(400):
        # A tenth of the clusters is lost: at epsilon .1 the judge is just not good enough.
        people, judge, clusters = wins_in_clusters(20, size=10, against=int(rng.binomial(20, 0.1)))
        wrong += annotator_test(people, judge, likeness="same", epsilon=0.1, clusters=clusters).winning_rate > 0
    assert wrong / 400 <= 0.06


def test_an_epsilon_outside_0_to_1_is_a_mistake():
    with pytest.raises(ValueError, match="epsilon"):
        annotator_test(np.zeros((5, 2)), np.zeros(5), likeness="same", epsilon=1.5)
