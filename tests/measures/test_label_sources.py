"""Labels that a model wrote, or nobody confirmed: agreement with them is read apart and is never accuracy."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import jrh_mlflow as jrh
from jrh_mlflow.comparing.comparison import compare_calls
from jrh_mlflow.comparing.jury.panels import panel_readings
from jrh_mlflow.comparing.jury.votes import votes
from jrh_mlflow.errors import CallsError
from jrh_mlflow.measures.composite import item_decisions, tally
from jrh_mlflow.measures.datasheet import NO_PROFILE
from jrh_mlflow.measures.reliability import cost_points, worst_items
from jrh_mlflow.schema.estimates import Estimate, NotEstimable
from jrh_mlflow.schema.items import Item
from jrh_mlflow.schema.presentation import TIE_CRITERIA
from jrh_mlflow.show.results import by_category
from jrh_mlflow.tracking.traces.call_traces import failures
from tests.measures.pointwise import number, points, reading, reason, repeats, report
from tests.readings import Row

YES_NO = ("no", "yes")
TESTS = ("baseline", "typos", "label_flip")


def known(*, seed: int = 0, first: int = 0, n: int = 30) -> list[Row]:
    """A judge that errs now and then, on sources whose labels come from the data."""
    draws = np.random.default_rng(seed)
    rows: list[Row] = []
    for test in TESTS:
        labels = draws.choice(YES_NO, n)
        said = np.where(draws.random(n) < 0.8, labels, draws.choice(YES_NO, n))
        rows += points(test, [(str(one), str(label)) for one, label in zip(said, labels, strict=True)], first=first)
    for source in range(first, first + n):
        again = [str(one) for one in draws.choice(YES_NO, 3, p=(0.2, 0.8))]
        rows += repeats("stochastic_stability", again, "yes", source=f"s{source:03d}")
    return [{**row, "cost_usd": 0.001, "confidence": float(draws.uniform(0.5, 1))} for row in rows]


def from_(source: str, *, seed: int = 1, first: int = 100, n: int = 20) -> list[Row]:
    """The same with labels of another source, and answers that never agree with them on the first half."""
    rows = [{**row, "label_source": source} for row in known(seed=seed, first=first, n=n)]
    return [{**row, "answer": "no", "expected": "yes"} if row["task"] < f"s{first + n // 2}" else row for row in rows]


def test_every_number_that_needs_a_right_answer_is_what_it_is_without_the_labels_of_a_model():
    alone, both = (
        report(rows, labels=YES_NO) for rows in (known(), [*known(), *from_("model"), *from_("unverified", first=200)])
    )
    needs_no_label = ("consistency", "moved", "unanimity", "flip_rate", "krippendorff_alpha", "gwet_ac1")
    for axis, one in alone.estimates.items():
        if not axis.endswith(needs_no_label) and not axis.startswith("noise_excess/"):
            assert _numbers(both.estimates[axis]) == _numbers(one), axis
    assert both.scores["typos"].value == alone.scores["typos"].value
    added = set(both.estimates) - set(alone.estimates)
    names = (*TESTS, "stochastic_stability", "all")
    assert added == {f"{test}/agreement_{source}" for test in names for source in ("model", "unverified")}


@pytest.mark.parametrize("metric", ["f1_score", "cohen_kappa_score", "matthews"])
def test_a_metric_that_was_chosen_leaves_them_out_too(metric):
    alone, both = (
        jrh.measure(rows, labels=YES_NO, metric=metric, n_resamples=50)
        for rows in (known(), [*known(), *from_("model")])
    )
    for test in TESTS:
        assert _numbers(both.estimates[f"{test}/{metric}"]) == _numbers(alone.estimates[f"{test}/{metric}"])
    assert all(both.scores[test].value == alone.scores[test].value for test in TESTS if test != "baseline")


def _numbers(one: object) -> object:
    if isinstance(one, Estimate):
        return one.value, one.n, one.excluded, one.interval, one.cluster_interval
    return type(one)


def test_what_needs_no_label_keeps_every_call():
    rows = [*points("baseline", [("no", "yes")] * 20), *points("typos", [("no", "yes")] * 20)]
    rows += [row for place in range(20) for row in repeats("stochastic_stability", "nnn", "y", source=f"s{place:03d}")]
    found = report([{**row, "answer": row["answer"].replace("no", "n"), "label_source": "model"} for row in rows])
    assert number(found, "typos/consistency") == number(found, "stochastic_stability/unanimity") == 1
    assert reading(found, "stochastic_stability/flip_rate").n
    assert number(found, "typos/agreement_model") == 0
    assert found.scores["stochastic_stability"].value == 1
    assert found.summary["n_tests"] == 1, "unanimity needs no label"


def test_agreement_has_its_denominator_and_both_intervals():
    rows = points("typos", [("yes", "yes")] * 30 + [("no", "yes")] * 9 + [("error", "yes")])
    one = reading(report([{**row, "label_source": "unverified"} for row in rows]), "typos/agreement_unverified")
    assert (one.n, one.excluded, one.numerator, one.left_out["error"]) == (39, 1, 30, 1)
    same = reading(report(rows), "typos/accuracy")
    assert (one.interval, one.cluster_interval) == (same.interval, same.cluster_interval)


def test_a_test_whose_labels_are_all_a_models_has_no_score_and_no_place_in_profile_and_mean():
    found = report([{**row, "label_source": "model"} for test in TESTS for row in points(test, [("yes", "yes")] * 20)])
    assert "from the data or the test's meaning" in reason(found, "typos/accuracy").reason
    assert isinstance(found.scores["typos"], NotEstimable)
    assert (found.summary["n_tests"], found.summary["mean"]) == (0, None)
    assert found.profile == NO_PROFILE
    assert number(found, "all/agreement_model") == 1
    assert not [axis for axis in found.estimates if axis.endswith(("fpr", "fnr", "matthews", "error_rate", "pass"))]
    assert "typos/agreement_model" in found.headline
    page = found.to_markdown()
    assert "no accuracy" in page
    assert "Across tests: n/a" in page


def test_a_flip_is_told_from_an_unchanged_label_whatever_the_source():
    rows = [*points("baseline", [("yes", "yes")] * 20), *points("label_flip", [("no", "no")] * 20)]
    found = report([{**row, "label_source": "model"} for row in rows])
    assert number(found, "label_flip/moved") == 1
    assert "label_flip/consistency" not in found.estimates


def test_records_with_an_empty_column_read_what_records_without_it_read():
    rows = known()
    plain = report(rows).to_dict()
    for empty in ("", None, float("nan")):
        assert report([{**row, "label_source": empty} for row in rows]).to_dict() == plain


def test_an_unknown_source_and_several_of_one_item_are_refused():
    with pytest.raises(CallsError, match="label_source` must be empty or one of model, unverified"):
        jrh.measure([{**row, "label_source": "people"} for row in known()])
    with pytest.raises(CallsError, match="several values of `label_source`"):
        jrh.measure([{**row, "label_source": "model" if row["replicate"] else ""} for row in known()])


def test_worst_items_cost_curve_and_failures_leave_them_out():
    rows = [*points("typos", [("no", "yes")] * 3), *points("typos", [("no", "yes")] * 5, first=100)]
    for row in rows[3:]:
        row["label_source"] = "model"
    calls = pd.DataFrame(rows).assign(cost_usd=0.5).fillna({"label_source": ""})
    items = {
        row["suite_item"]: Item(
            id=row["suite_item"], task=row["task"], condition="typos", kind="response", response="x"
        )
        for row in rows
    }
    assert len(worst_items(calls, items)) == 3
    assert [point.n for point in cost_points(calls)] == [1, 2, 3]
    assert failures(calls, TIE_CRITERIA["allowed"]) == ["wrong label"] * 3 + [""] * 5


def test_juries_comparisons_sweeps_and_categories_leave_them_out():
    a, b = ([*known(seed=seed), *from_("model", seed=seed + 7)] for seed in (3, 4))
    for one, other in zip(a, b, strict=True):
        other["expected"] = one["expected"]
    with_both = {"a": pd.DataFrame(a).fillna({"label_source": ""}), "b": pd.DataFrame(b).fillna({"label_source": ""})}
    alone = {name: frame[frame["label_source"] == ""] for name, frame in with_both.items()}
    both, few = (compare_calls(calls, labels=YES_NO, n_resamples=50) for calls in (with_both, alone))
    for mixed, pure in zip(both.differences, few.differences, strict=True):
        if pure.axis in TESTS:
            assert (mixed.value, mixed.n, mixed.low, mixed.p_mcnemar) == (pure.value, pure.n, pure.low, pure.p_mcnemar)
    first, second = (votes(calls, labels=YES_NO) for calls in (with_both, alone))
    readings = [panel_readings(table, table.answer[:, 0])["accuracy"] for table in (first, second)]
    assert _numbers(readings[0]) == _numbers(readings[1])
    labelled = {name: tally(item_decisions(calls["a"])) for name, calls in (("both", with_both), ("alone", alone))}
    for cell in ("typos", "label_flip"):
        sizes = [one.sizes[:, one.cells.index(cell)].sum() for one in labelled.values()]
        assert sizes[0] == sizes[1], cell
    groups = {row["suite_item"]: "known" if row["task"] < "s100" else "model" for row in a}
    by_group = by_category(with_both["a"], groups, labels=YES_NO)
    assert isinstance(by_group["model"]["accuracy"], NotEstimable)
    assert isinstance(by_group["model"]["agreement_model"], Estimate)
    assert "agreement_model" not in by_group["known"]
