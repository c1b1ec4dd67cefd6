"""How alike judges vote: scripted judges with a known correlation of errors read the known value."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from jrh_mlflow.comparing.jury.votes import agreement_matrix, effective_votes, votes
from jrh_mlflow.schema.estimates import Estimate, NotEstimable, Reading
from jrh_mlflow.scoring.ledger import Resampling
from tests.cases import few
from tests.comparing.jury.jury_tools import erring, error_table, family, family_errors, table_of


def estimate(reading: Reading) -> Estimate:
    assert isinstance(reading, Estimate), reading
    assert reading.cluster_low is not None
    assert reading.cluster_high is not None
    return reading


def inside(reading: Estimate, value: float) -> bool:
    assert reading.cluster_low is not None
    assert reading.cluster_high is not None
    return reading.cluster_low < value < reading.cluster_high


@pytest.mark.parametrize("copies", few([0.6, 0.3, 0.8]))
def test_six_judges_of_one_family_read_the_known_correlation_and_number_of_votes(copies):
    rho = copies**2
    found = effective_votes(votes(family(6, 1500, copies=copies, error=0.25, seed=2)))
    correlation, number = estimate(found["error_correlation"]), estimate(found["effective_votes"])
    known = 6 / (1 + 5 * rho)
    assert inside(correlation, rho)
    assert inside(number, known)
    assert number.cluster_high < 6, "six judges of one family are fewer than six votes"
    assert number.value == pytest.approx(6 / (1 + 5 * correlation.value))


def test_six_independent_judges_are_about_six_votes():
    number = estimate(effective_votes(votes(family(6, 4000, copies=0.0, error=0.25, seed=3)))["effective_votes"])
    assert inside(number, 6)
    assert number.value == pytest.approx(6, abs=0.3)


def test_the_interval_holds_the_known_number_in_about_95_of_100_tables():
    known, hits = 6 / (1 + 5 * 0.36), 0
    for seed in range(60):
        table = error_table(family_errors(6, 250, copies=0.6, error=0.3, seed=100 + seed))
        found = effective_votes(table, resampling=Resampling(n_resamples=200))
        hits += inside(estimate(found["effective_votes"]), known)
    # 60 draws at 0.95: 51 or fewer has a chance of 0.3 %.
    assert hits >= 52


def test_copies_of_one_judge_are_one_vote():
    wrong = np.random.default_rng(0).random(200) < 0.3
    found = effective_votes(votes({f"j{number}": erring(wrong) for number in range(6)}))
    assert isinstance(found["effective_votes"], Estimate)
    assert found["effective_votes"].value == pytest.approx(1.0)
    assert found["effective_votes"].cluster_low is None, "an interval without a width is not shown"


def test_clusters_widen_the_interval():
    calls = family(4, 200, copies=0.6, error=0.3, seed=1)
    plain = estimate(effective_votes(votes(calls))["error_correlation"])
    # Every unit ten times: the same correlation, and no more sources than before.
    tens = {
        name: pd.concat([frame.assign(suite_item=frame["suite_item"] + f"/{copy}") for copy in range(10)])
        for name, frame in calls.items()
    }
    repeated = estimate(effective_votes(votes(tens))["error_correlation"])
    assert repeated.value == pytest.approx(plain.value)
    assert repeated.cluster_high - repeated.cluster_low == pytest.approx(
        plain.cluster_high - plain.cluster_low, rel=0.1
    )
    assert repeated.n == 10 * plain.n


@pytest.mark.parametrize(("rate", "text"), [(0.0, "perfect is never wrong"), (1.0, "perfect is always wrong")])
def test_a_judge_without_variation_has_no_correlation_and_the_reason_names_it(rate, text):
    calls = family(3, 100, copies=0.5, error=0.3, seed=0)
    found = effective_votes(votes({**calls, "perfect": erring(np.full(100, rate == 1.0))}))
    for reading in found.values():
        assert isinstance(reading, NotEstimable)
        assert f"no variation: {text}" in reading.reason


def test_a_judge_without_any_vote_is_not_called_right():
    calls = family(3, 100, copies=0.5, error=0.3, seed=0)
    calls["j2"] = calls["j2"].assign(outcome="error", answer="")
    reading = effective_votes(votes(calls))["effective_votes"]
    assert isinstance(reading, NotEstimable)
    assert reading.reason == "no votes of j2 on units with an expected answer"


def test_the_number_is_what_the_variance_of_the_mean_error_says_whatever_the_error_rates():
    """Judges with one common cause, of unequal strength and unequal error rates, counted in another way."""
    rng = np.random.default_rng(5)
    strength, rates = np.array([0.9, 0.8, 0.7, 0.5, 0.2]), np.array([0.1, 0.2, 0.3, 0.4, 0.25])
    cause = rng.normal(size=(2000, 1))
    drawn = cause * strength + rng.normal(size=(2000, 5)) * np.sqrt(1 - strength**2)
    wrong = drawn < np.quantile(drawn, rates, axis=0).diagonal()
    scores = (wrong - wrong.mean(axis=0)) / wrong.std(axis=0)
    found = effective_votes(error_table(wrong), resampling=Resampling(n_resamples=20))
    assert estimate(found["effective_votes"]).value == pytest.approx(1 / scores.mean(axis=1).var())
    pairs = np.corrcoef(wrong.T)[np.triu_indices(5, 1)]
    assert estimate(found["error_correlation"]).value == pytest.approx(pairs.mean())


def test_missing_votes_take_a_unit_out_of_the_pairs_they_belong_to_only():
    calls = family(3, 400, copies=0.7, error=0.3, seed=4)
    whole = {(one.a, one.b): one for one in agreement_matrix(votes(calls))}
    calls["j2"] = calls["j2"].assign(
        outcome=["error" if row % 2 else "verdict" for row in range(400)],
        answer=["" if row % 2 else text for row, text in enumerate(calls["j2"]["answer"])],
    )
    table = votes(calls)
    halved = {(one.a, one.b): one for one in agreement_matrix(table)}
    assert halved["j0", "j1"] == whole["j0", "j1"]
    agreement = halved["j0", "j2"].agreement
    assert isinstance(agreement, Estimate)
    assert (agreement.n, agreement.excluded) == (200, 200)
    number = estimate(effective_votes(table)["effective_votes"])
    assert inside(number, 3 / (1 + 2 * 0.49))


def test_agreement_is_the_share_of_equal_answers_beyond_chance_and_of_errors():
    table = table_of(
        {"a": ["no", "no", "no", "yes"], "b": ["no", "no", "yes", "yes"], "c": ["abstain", "no", "no", "yes"]},
        ["no", "no", "no", "no"],
    )
    found = {(one.a, one.b): one for one in agreement_matrix(table)}
    assert set(found) == {("a", "b"), ("a", "c"), ("b", "c")}
    one = found["a", "b"]
    assert isinstance(one.agreement, Estimate)
    assert one.agreement.value == 0.75
    # p_e of AC1 with shares 5/8 and 3/8: 2 * 5/8 * 3/8.
    assert one.ac1 == pytest.approx((0.75 - 0.46875) / (1 - 0.46875))
    # Wrong are 0001 and 0011: (4 * 1 - 1 * 2) / sqrt(1 * 3 * 2 * 2).
    assert one.error_correlation == pytest.approx(2 / np.sqrt(12))
