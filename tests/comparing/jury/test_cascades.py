"""Cascades: a cheap judge first, a strong one when it is unsure."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from jrh_mlflow.comparing.jury.jury_report import Cascade, cascade
from jrh_mlflow.comparing.jury.votes import VoteTable, votes
from jrh_mlflow.errors import RecipeError
from jrh_mlflow.schema.estimates import Estimate, NotEstimable, Reading
from tests.comparing.jury.jury_tools import erring, said

N = 400


def number(reading: Reading) -> float:
    assert isinstance(reading, Estimate), reading
    return reading.value


def read(table: VoteTable, *args: object, **options: object) -> Cascade:
    found = cascade(table, *args, **options)  # type: ignore[arg-type]
    assert isinstance(found, Cascade), found
    return found


@pytest.fixture(scope="module")
def sure() -> VoteTable:
    """The cheap judge is wrong only where its confidence is under 0.6; the strong one is never wrong."""
    confidence = np.random.default_rng(0).random(N)
    wrong = confidence < 0.6
    cheap = erring(wrong, cost_usd=0.001, confidence=confidence)
    return votes({"cheap": cheap, "strong": erring(np.zeros(N, dtype=bool), cost_usd=0.010)})


def test_the_threshold_finds_where_the_cheap_judge_is_wrong(sure):
    found = read(sure, "cheap", "strong")
    assert found.unsure == "confidence"
    assert all(0.55 < one < 0.65 for one in found.thresholds)
    assert number(found.accuracy) > 0.98
    assert number(found.cheap_accuracy) == pytest.approx(0.4, abs=0.06)
    assert number(found.strong_accuracy) == 1.0
    share = number(found.escalated)
    assert share == pytest.approx(0.6, abs=0.06)
    assert found.usd_per_1k == pytest.approx(1 + 10 * share)
    assert (found.cheap_usd_per_1k, found.strong_usd_per_1k) == (pytest.approx(1.0), pytest.approx(10.0))


@pytest.mark.slow
def test_the_threshold_of_a_half_is_chosen_on_the_other():
    # Confidence that says nothing: what is chosen on one half is luck, and the report does not share it.
    gains = []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        cheap = erring(rng.random(60) < 0.3, confidence=rng.random(60))
        found = read(votes({"cheap": cheap, "strong": erring(rng.random(60) < 0.3)}), "cheap", "strong")
        gains.append(number(found.accuracy) - 0.7)
    assert abs(np.mean(gains)) < 3 * np.std(gains) / np.sqrt(len(gains))


def test_a_dollar_limit_keeps_the_threshold_low(sure):
    found = read(sure, "cheap", "strong", max_usd=4)
    assert found.usd_per_1k == pytest.approx(4, abs=0.7)
    assert number(found.accuracy) < 0.9
    with pytest.raises(RecipeError, match=r"No threshold costs at most \$0.5 .* the cheapest is \$1"):
        cascade(sure, "cheap", "strong", max_usd=0.5)


def test_abstentions_and_unusable_answers_are_escalated_whatever_the_signal():
    cheap = said(["no", "abstain", "unparsed", "yes"] * 5, ["no"] * 20, cost_usd=0.001)
    table = votes({"cheap": cheap, "strong": said(["no"] * 20, ["no"] * 20, cost_usd=0.01)})
    found = read(table, "cheap", "strong")
    assert found.unsure == "abstain"
    assert number(found.escalated) == 0.5
    assert number(found.accuracy) == 0.75
    assert found.thresholds == ()
    assert found.usd_per_1k == pytest.approx(6.0)


def test_two_cheap_judges_that_disagree_are_escalated():
    right = np.zeros(N, dtype=bool)
    rng = np.random.default_rng(1)
    wrong = {name: rng.random(N) < 0.2 for name in ("one", "two")}
    calls = {name: erring(flags, cost_usd=0.001) for name, flags in wrong.items()}
    found = read(votes({**calls, "strong": erring(right, cost_usd=0.01)}), ["one", "two"], "strong")
    differ = float((wrong["one"] != wrong["two"]).mean())
    assert found.unsure == "disagree"
    assert number(found.escalated) == pytest.approx(differ)
    assert number(found.accuracy) == pytest.approx(1 - float((wrong["one"] & wrong["two"]).mean()))
    assert found.usd_per_1k == pytest.approx(2 + 10 * differ)


def test_replicates_that_disagree_are_escalated_and_all_of_them_are_paid():
    once = said(["no", "no", "no", "no"], ["no"] * 4, cost_usd=0.001)
    twice = pd.concat([once, once.assign(replicate=1, answer=["no", "yes", "no", "no"])])
    single = said(["no"] * 4, ["no"] * 4, cost_usd=0.001).assign(suite_item=[f"k{one}" for one in range(4)])
    table = votes(
        {"cheap": pd.concat([twice, single]), "strong": pd.concat([twice.assign(answer="no", cost_usd=0.01), single])}
    )
    found = read(table, "cheap", "strong", unsure="replicates")
    assert isinstance(found.accuracy, Estimate)
    assert (found.accuracy.value, found.accuracy.n) == (1.0, 8), "items that were asked once do not count"
    assert number(found.cheap_accuracy) == 7 / 8
    assert number(found.escalated) == 0.25
    assert found.usd_per_1k == pytest.approx(2 * 1 + 0.25 * 10)


def test_a_strong_answer_that_is_missing_when_needed_is_no_answer():
    cheap = said(["abstain", *["no"] * 39], ["no"] * 40)
    strong = said(["error"] * 40, ["no"] * 40)
    found = read(votes({"cheap": cheap, "strong": strong}), "cheap", "strong")
    assert isinstance(found.accuracy, Estimate)
    assert (found.accuracy.n, found.accuracy.excluded) == (39, 1)
    assert found.usd_per_1k is None, "unknown is never free"
    assert isinstance(found.strong_accuracy, NotEstimable)


@pytest.mark.parametrize(
    ("cheap", "options", "text"),
    [
        ("cheap", {"unsure": "confidense"}, "Did you mean 'confidence'"),
        ("cheap", {"unsure": "disagree"}, r"needs 2 cheap judge\(s\)"),
        ("chep", {}, "Did you mean 'cheap'"),
        (["cheap", "strong"], {}, "each once"),
        ([], {}, "one or two cheap judges"),
    ],
)
def test_a_cascade_that_cannot_be_read_is_refused(sure, cheap, options, text):
    with pytest.raises(RecipeError, match=text):
        cascade(sure, cheap, "strong", **options)


@pytest.mark.parametrize(
    ("unsure", "text"), [("confidence", "logged no confidence"), ("replicates", "asked each item once")]
)
def test_a_signal_without_records_has_no_reading(unsure, text):
    table = votes({"cheap": said(["no"], ["no"]), "strong": said(["no"], ["no"])})
    found = cascade(table, "cheap", "strong", unsure=unsure)
    assert isinstance(found, NotEstimable)
    assert text in found.reason
