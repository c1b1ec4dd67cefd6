"""Biases found, none found, or not known; and how large one must be to be found."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.special import betaln

import jrh_mlflow as jrh
from jrh_mlflow.measures.axes import AXES
from jrh_mlflow.measures.datasheet import detectable, findings
from jrh_mlflow.schema.estimates import Estimate
from jrh_mlflow.stats.power import detectable_from_interval, detectable_share
from jrh_mlflow.stats.proportions import cluster_interval
from tests.measures.pointwise import points, report
from tests.readings import asked

SUITE = jrh.datasheet_suite(n_tasks=10)


@pytest.fixture(scope="module")
def sheets() -> dict[str, Any]:
    judges = {
        "oracle": jrh.scripted.Oracle(),
        "first": jrh.scripted.AlwaysFirst(),
        "lost": jrh.scripted.Noisy(unparsed=0.4),
        "words": jrh.scripted.WordOverlap(),
    }
    return {name: jrh.measure(asked(judge, SUITE), n_resamples=20) for name, judge in judges.items()}


def states(estimates: Any) -> dict[str, str]:
    return {one.key: one.state for one in findings(estimates)}


def test_a_judge_without_bias_has_none_found_and_each_says_what_would_have_been(sheets: Any) -> None:
    found = findings(sheets["oracle"].estimates)
    assert {one.key for one in found} >= {
        "dark_current",
        "raw_false_preference",
        "positional_false_preference",
        "filler_preference",
        "reading_gap/delta_1",
    }
    assert {one.state for one in found} == {"none found"}
    assert all(one.detectable and 0 < one.detectable < 0.5 for one in found)


def test_a_bias_is_found_where_its_interval_excludes_the_neutral_value(sheets: Any) -> None:
    first = states(sheets["first"].estimates)
    assert first["dark_current"] == first["positional_false_preference"] == "found"
    assert first["stable_cross_sensitivity"] == "none found"
    assert states(sheets["words"].estimates)["reading_gap/delta_1"] == "found"


def test_a_withheld_bias_is_neither_found_nor_excluded(sheets: Any) -> None:
    lost = findings(sheets["lost"].estimates)
    assert {one.state for one in lost} == {"not known"}
    assert all(one.detectable is None for one in lost)


def test_one_task_decides_nothing() -> None:
    alone = jrh.measure(asked(jrh.scripted.AlwaysTie(), jrh.datasheet_suite(n_tasks=1)), n_resamples=20)
    assert set(states(alone.estimates).values()) == {"not known"}


def test_what_was_not_asked_is_no_finding() -> None:
    assert findings({}) == []
    pairs = jrh.measure(asked(jrh.scripted.Oracle(), jrh.datasheet_suite(n_tasks=3)), n_resamples=20)
    assert "natural/positional" not in states(pairs.estimates)


def test_every_bias_is_declared_with_what_a_judge_without_it_reads() -> None:
    named = {axis.name: axis.neutral for axis in AXES if axis.neutral is not None}
    assert set(named.values()) == {0.0}
    assert not {"target_sensitivity", "threshold_75", "natural/accuracy", "tie_rate/vacuum"} & named.keys()


@pytest.mark.parametrize("icc", [0.001, 0.1, 0.3, 0.6, 0.9, 0.999])
@pytest.mark.parametrize(("k", "m"), [(10, 12), (28, 4), (28, 2), (4, 2)])
def test_a_share_of_the_detectable_size_is_found_in_four_of_five_cases_however_it_clusters(
    icc: float, k: int, m: int
) -> None:
    rate = detectable_share(k)
    a, b = rate * (1 - icc) / icc, (1 - rate) * (1 - icc) / icc
    none = float(np.exp(betaln(a, b + m) - betaln(a, b)))
    # Found is an interval that excludes 0, and a single hit makes one.
    assert 1 - none**k >= 0.8 - 1e-9
    one_hit = cluster_interval(np.eye(1, k)[0], np.full(k, m))
    assert one_hit is not None
    assert one_hit[0] > 0


def test_the_detectable_share_is_no_larger_than_it_must_be() -> None:
    # Hits in whole tasks: each task is a single draw.
    assert 1 - (1 - detectable_share(10)) ** 10 == pytest.approx(0.8)
    assert detectable_share(10) == pytest.approx(0.1487, abs=1e-4)
    assert detectable_share(28) == pytest.approx(0.0559, abs=1e-4)


def test_axes_that_are_no_bias_say_how_far_a_limit_must_be(sheets: Any) -> None:
    reading = sheets["words"].estimates["target_sensitivity/delta_1"]
    assert isinstance(reading, Estimate)
    assert reading.cluster_low is not None
    assert reading.cluster_high is not None
    expected = detectable_from_interval(reading.value, reading.cluster_low, reading.cluster_high)
    assert detectable("target_sensitivity/delta_1", reading) == expected
    gap = sheets["words"].estimates["reading_gap/delta_1"]
    assert detectable("reading_gap/delta_1", gap) == detectable_from_interval(
        gap.value, gap.cluster_low, gap.cluster_high
    )


def test_an_interval_that_leaves_its_value_out_is_widened_to_it() -> None:
    facts = {"n": 9, "excluded": 0, "ci_low": None, "ci_high": None, "n_clusters": 9, "method": ""}
    outside = Estimate(value=0.9, cluster_low=0.5, cluster_high=0.8, statistic="value", **facts)
    assert detectable("all/ccc", outside) == detectable_from_interval(0.9, 0.5, 0.9)


def test_without_an_interval_by_task_nothing_is_said_to_be_detectable() -> None:
    facts = {"n": 9, "excluded": 0, "ci_low": 0.1, "ci_high": 0.3, "n_clusters": 1, "method": ""}
    alone = Estimate(value=0.2, cluster_low=None, cluster_high=None, **facts)
    assert detectable("dark_current", alone) is None


def test_answers_that_a_change_of_layout_moves_are_a_finding_and_those_that_stay_say_what_would_have_been() -> None:
    sources = [("yes", "yes")] * 12
    moved = [("no", "yes")] * 2 + sources[2:]
    rows = points("baseline", sources) + points("typos", moved) + points("format_invariance_1", sources)
    found = {one.key: one for one in findings(report(rows, labels=("no", "yes")).estimates)}
    assert {key: one.state for key, one in found.items()} == {
        "typos/consistency": "found",
        "format_invariance_1/consistency": "none found",
    }
    assert found["format_invariance_1/consistency"].detectable == pytest.approx(detectable_share(12))
