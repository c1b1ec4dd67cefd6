"""Replicates are a level below the pair: copies of every call move no interval over tasks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import jrh_mlflow as jrh
from jrh_mlflow.comparing.comparison import compare_calls
from jrh_mlflow.comparing.criterion_shift import operating_counts, operating_point
from jrh_mlflow.comparing.jury.votes import agreement_matrix, votes
from jrh_mlflow.engine import calls_frame
from jrh_mlflow.judges import scripted
from jrh_mlflow.measures.composite import Tally, item_decisions, reliability, tally
from jrh_mlflow.measures.confidence import confidence_table
from jrh_mlflow.measures.records import normalise
from jrh_mlflow.schema.estimates import Estimate, Reading
from jrh_mlflow.schema.items import VACUUM
from jrh_mlflow.show.figures.datasheet import _bars
from jrh_mlflow.stats.calibration import reliability_bins
from jrh_mlflow.stats.proportions import cluster_interval
from tests.comparing.comparing_tools import LABELS, label_of, point_calls
from tests.measures.recount import measured, records
from tests.readings import PROPERTY, asked, estimate, pairs

REPLICATE_VALUES = ("flip_rate", "krippendorff_alpha", "gwet_ac1")
"""They are about replicates, and equal ones agree."""


def copied(calls: Any, times: int) -> pd.DataFrame:
    """Every call again with the same answer; the copies of replicate j are j, j + n, j + 2 n, … of n replicates."""
    frame = normalise(calls)
    n = int(frame["replicate"].max()) + 1
    return pd.concat([frame.assign(replicate=frame["replicate"] + n * each) for each in range(times)])


def ends(readings: Mapping[str, Reading]) -> dict[str, tuple[float | None, float | None]]:
    # What compares two asks has no number where all was asked once.
    return {
        axis: (one.cluster_low, one.cluster_high)
        for axis, one in readings.items()
        if isinstance(one, Estimate) and not axis.startswith(("repeated_", "variance/"))
    }


@pytest.fixture(scope="module")
def calls() -> pd.DataFrame:
    """A datasheet with its matched ladder, filler and controls, of a judge that is wrong here and there."""
    suite, judge = jrh.datasheet_suite(n_tasks=6), scripted.Noisy(seed=3, icc=0.2)
    return calls_frame(asked(judge, suite))


@pytest.mark.parametrize("times", [3])
def test_copies_of_every_call_move_no_interval_by_task_of_a_datasheet(calls, times):
    once, often = jrh.measure(calls, n_resamples=50), jrh.measure(copied(calls, times), n_resamples=50)
    expected = ends(once.estimates)
    assert {"reading_gap/delta_1", "matched_threshold_75", "other_conflict", "d_prime/delta_1"} <= set(expected)
    assert ends(often.estimates) == {axis: pytest.approx(both) for axis, both in expected.items()}
    for axis in ("dark_current", "raw_false_preference", "no_preference", "conditional_accuracy/delta_1"):
        one, again = estimate(once, axis), estimate(often, axis)
        assert again.n == times * one.n
        assert (again.value, again.cluster_interval) == (one.value, one.cluster_interval), "to the last bit"


@settings(PROPERTY, max_examples=6)
@given(records(), st.sampled_from([2, 3]))
def test_copies_move_no_interval_by_task_whatever_the_outcomes_and_replicates(rows, times):
    once, often = measured(rows).estimates, measured(copied(rows, times)).estimates
    assert ends(often) == {axis: pytest.approx(both, abs=1e-9) for axis, both in ends(once).items()}


@pytest.mark.parametrize("said", ["tie", "1"])
def test_an_edge_reads_the_same_interval_however_often_a_deterministic_judge_is_asked(said):
    """0 of n and n of n, where an interval shrinks fastest."""
    suite = jrh.datasheet_suite(n_tasks=5)
    judge = scripted.AlwaysTie() if said == "tie" else scripted.AlwaysFirst()
    once, often = (jrh.measure(asked(judge, suite, replicates=n), n_resamples=10) for n in (1, 3))
    assert ends(often.estimates) == ends(once.estimates)
    dark = often.estimates["dark_current"]
    assert isinstance(dark, Estimate)
    assert dark.n == 3 * 2 * 3 * 5


def test_both_orders_of_a_vacuum_pair_count_once_and_those_of_other_pairs_twice(calls):
    """A judge that answers by the prompt alone gives the two orders of a vacuum pair one answer."""
    vacuum = calls[calls["condition"].isin(VACUUM)]
    half = vacuum[vacuum["order"] == "uv"]
    one_item_per_call = pd.concat([half, half.assign(order="vu")])
    both = jrh.measure(vacuum.assign(outcome="tie", answer="")).estimates["dark_current"]
    twice = jrh.measure(one_item_per_call.assign(outcome="tie", answer="")).estimates["dark_current"]
    assert both == twice
    assert isinstance(both, Estimate)
    assert both.cluster_interval == cluster_interval(np.zeros(6), np.full(6, 3.0))
    equal = jrh.measure(calls[calls["condition"] == "delta_0_same"].assign(outcome="tie", answer="")).estimates
    raw = equal["raw_false_preference"]
    assert isinstance(raw, Estimate)
    assert raw.cluster_interval == cluster_interval(np.zeros(6), np.full(6, raw.n / 6))


def test_copies_move_no_interval_of_natural_pairs():
    said = np.random.default_rng(4).choice(["1", "2", "tie"], size=(40, 2), p=[0.5, 0.4, 0.1])
    rows = pairs(said, n_tasks=8, condition="natural", delta=None, better="u")
    once, often = jrh.measure(rows).estimates, jrh.measure(copied(rows, 4)).estimates
    assert ends(often) == {axis: pytest.approx(both) for axis, both in ends(once).items()}
    assert len(ends(once)) == 9


def test_the_interval_of_a_flat_threshold_does_not_narrow_with_copies():
    """Tasks that all agree leave the bootstrap no width, and the band around the curve takes its place."""
    rows = [
        row
        for delta, said in ((1.0, [("1", "1")]), (2.0, [("1", "2")]))
        for row in pairs(said * 20, name=f"step-{delta}", condition="ladder", delta=delta, better="u")
    ]
    once, often = (jrh.measure(each).estimates["threshold_75"] for each in (rows, copied(rows, 5)))
    assert isinstance(once, Estimate)
    assert isinstance(often, Estimate)
    assert once.cluster_low is not None
    assert (often.cluster_low, often.cluster_high) == (once.cluster_low, once.cluster_high)


def shaky(seed: int, wrong: float = 0.3) -> Any:
    """Right or wrong by the toss of a coin for each source and condition, the same in every replicate."""

    def answer(source: str, condition: str, _replicate: int) -> str:
        coin = np.random.default_rng([seed, *source.encode(), *condition.encode()]).random()
        label = label_of(int(source[1:]))
        return str(6 - int(label)) if coin < wrong else label

    return answer


TESTS = ("typos", "stochastic_stability", "error_injection_1", "error_injection_2")


def test_copies_move_no_interval_of_a_reliability_report():
    calls = point_calls(shaky(1), tests=TESTS, n_sources=20, replicates=2)
    once, often = (jrh.measure(each, labels=LABELS, n_resamples=50) for each in (calls, copied(calls, 3)))
    # A copy agrees with its original, so that whatever compares repeats reads something else.
    expected = {
        axis: both
        for axis, both in ends(once.estimates).items()
        if not axis.endswith(REPLICATE_VALUES) and not axis.startswith("noise_excess/")
    }
    found = {axis: ends(often.estimates)[axis] for axis in expected}
    assert found == {axis: pytest.approx(both) for axis, both in expected.items()}
    assert {"all/accuracy", "typos/consistency", "stochastic_stability/unanimity", "typos/mae"} <= set(expected)
    assert often.summary["mean_ci_low"] == pytest.approx(once.summary["mean_ci_low"])


def test_copies_move_no_interval_of_a_comparison(calls):
    """Where all resamples agree, the interval is that of the units on which the judges part."""
    ties = calls.assign(outcome="tie", answer="")
    for judges in ({"a": calls, "b": ties}, {"a": ties, "b": ties}):
        once, often = (
            compare_calls({name: copied(each, times) for name, each in judges.items()}, n_resamples=20)
            for times in (1, 2)
        )
        for one, other in zip(once.differences, often.differences, strict=True):
            assert (other.low, other.high, other.method) == (
                pytest.approx(one.low),
                pytest.approx(one.high),
                one.method,
            )
    assert {one.method for one in once.differences} == {"cluster-paired bootstrap and discordant units by cluster"}


@pytest.mark.parametrize("judge", [scripted.Oracle(), scripted.Noisy(seed=2)])
def test_copies_move_no_interval_of_the_composite(judge):
    """Of the Oracle all resamples agree, so the intervals of its cells are added; of Noisy they are resampled."""
    calls = calls_frame(asked(judge, jrh.datasheet_suite(n_tasks=5)))
    once, often = (tally(item_decisions(copied(calls, times), replicates=1)) for times in (1, 4))
    assert set(often.replicates) == {4.0}
    both = [reliability(each) for each in (once, often)]
    assert ends({"reliability": both[1]}) == {"reliability": pytest.approx(ends({"one": both[0]})["one"])}
    assert Tally.from_dict(often.to_dict()).replicates == often.replicates
    part = often.only("sensitivity")
    assert len(part.replicates) == len(part.cells)


def test_copies_move_no_interval_of_an_operating_point(calls):
    points = [
        operating_point(operating_counts(copied(calls, times)) or {}, judge="j", prompt="p", criterion="c")
        for times in (1, 5)
    ]
    assert points[1].intervals == points[0].intervals
    assert points[1].counts.sum() == 5 * points[0].counts.sum()


def test_copies_move_no_interval_of_the_agreement_of_two_judges(calls):
    ties = calls.assign(outcome="tie", answer="")
    once, often = (agreement_matrix(votes({"a": copied(calls, n), "b": copied(ties, n)}))[0] for n in (1, 3))
    assert ends({"a": often.agreement}) == ends({"a": once.agreement})


def test_copies_move_no_bar_of_the_calibration_figure(calls):
    sure = calls.assign(confidence=0.9, probabilities="")
    bars = []
    for times in (1, 4):
        table = confidence_table(copied(sure, times))
        judged = table.where(np.asarray(table.usable & (table.target != "")))
        bars.append(_bars(judged, reliability_bins(judged.confidence, judged.right)))
    np.testing.assert_allclose(bars[1], bars[0])


def test_asked_twice_place_and_wording_are_read_apart_from_noise() -> None:
    place = jrh.measure(pairs_asked_twice([("1", "1")] * 20)).estimates
    assert (place["repeated_place"].value, place["repeated_wording"].value) == (1.0, 0.0)
    wording = jrh.measure(pairs_asked_twice([("1", "2")] * 20)).estimates
    assert (wording["repeated_place"].value, wording["repeated_wording"].value) == (0.0, 1.0)
    # One ask to slot 1, the other to slot 2: nothing but noise, which two asks in both orders take for a preference.
    noise = jrh.measure(pairs_asked_twice([("1", "1")] * 20, second=[("2", "2")] * 20)).estimates
    assert noise["repeated_place"].value == -1.0
    assert noise["slot_lean"].value == 0.0
    assert noise["repeated_place"].n == 20


def test_asked_once_nothing_is_said_of_place_and_wording_apart() -> None:
    assert "repeated_place" not in jrh.measure(pairs([("1", "1")] * 20, delta=0)).estimates


def pairs_asked_twice(first: Any, second: Any = None) -> list[Any]:
    """The same pairs twice, the second time with other answers where they are given."""
    again = pairs(first if second is None else second, delta=0)
    return [*pairs(first, delta=0), *({**row, "replicate": 1} for row in again)]
