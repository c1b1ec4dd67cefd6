"""Names of metrics: what is known beforehand holds all that a run has in the end."""

from __future__ import annotations

import pytest

import jrh_mlflow as jrh
from jrh_mlflow.errors import RecipeError
from jrh_mlflow.measuring import evaluation
from jrh_mlflow.schema.items import Item
from jrh_mlflow.sweeps.space import COST, RELIABILITY, check_names, metric_names
from tests.cases import few

TESTS = ("baseline", "typos", "stochastic_stability", "synthetic_ordinal", "error_injection_1", "error_injection_2")


def points(*scales: tuple[str, ...], rubrics: bool = False) -> jrh.Suite:
    """A suite of tests whose items have the labels of one scale after the other, in two groups; or by two rubrics."""
    items = [
        Item(
            id=f"s{source}/{test}",
            task=f"s{source}",
            condition=test,
            kind="response",
            instruction="Rate it.",
            response=f"{test} of {source}",
            answers=labels,
            expected=None if test.startswith("error") else labels[source % len(labels)],
            replicates=3 if test == "stochastic_stability" else 1,
            meta={"rubric": ("helpful", "safe")[source % 2]} if rubrics else {"group": f"Group {source % 2}"},
        )
        for source in range(12)
        for labels in [scales[source % len(scales)]]
        for test in TESTS
    ]
    return jrh.Suite(name="points", items=items)


def answering(shown: jrh.Presentation) -> jrh.Answer:
    """Give every answer in turn, with a confidence and a price."""
    text = shown.response or f"{shown.first} {shown.second}"
    answer = shown.answers[len(text) % len(shown.answers)]
    return jrh.Answer(answer, confidence=0.6, cost_usd=1e-4, input_tokens=9, output_tokens=1)


SUITES = {
    "pairs": jrh.datasheet_suite(n_tasks=4, depth=2, half_steps=True),
    "two labels": points(("no", "yes")),
    "a scale": points(("1", "2", "3", "4", "5")),
    "three words": points(("bad", "fair", "good")),
    "two rubrics": points(("no", "yes"), rubrics=True),
    "several scales": points(("no", "yes"), ("1", "2", "3")),
}


OF_ALL_KINDS = [("pairs", 1), ("several scales", 2), ("two labels", 2)]
OTHERS = [("several scales", 1), *((name, 2) for name in SUITES if (name, 2) not in OF_ALL_KINDS)]


@pytest.mark.parametrize(("name", "replicates"), few([*OF_ALL_KINDS, *OTHERS], quick=3))
def test_every_metric_of_a_run_has_a_known_name(
    name: str, replicates: int, store_uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # All numbers are in hand; what MLflow gets of them is not looked at here.
    monkeypatch.setattr(evaluation, "publish", lambda *_, **__: {})
    where = {"experiment": "names", "tracking_uri": store_uri, "traces": "none", "progress": False}
    done = jrh.evaluate(answering, SUITES[name], replicates=replicates, **where)
    known = metric_names(SUITES[name], replicates=replicates)
    assert set(done.metrics) <= known
    assert {RELIABILITY, COST, f"sweep/{RELIABILITY}", "cost/usd_per_accuracy_point"} <= known
    assert not [one for one in known if "label_flip" in one], "a test that the suite does not have"


def test_a_sweep_may_aim_at_what_a_run_has_for_each_rubric() -> None:
    wanted = [f"rubric/{rubric}/{axis}" for rubric in ("helpful", "safe") for axis in ("fpr/rate", "matthews/value")]
    check_names(wanted, SUITES["two rubrics"], replicates=1)
    with pytest.raises(RecipeError, match="have no metric 'rubric/other/fpr/rate'"):
        check_names(["rubric/other/fpr/rate"], SUITES["two rubrics"], replicates=1)


def test_names_that_need_replicates_are_known_only_where_there_are_some() -> None:
    assert "typos/flip_rate/rate" in metric_names(SUITES["two labels"], replicates=2)
    assert "typos/flip_rate/rate" not in metric_names(SUITES["two labels"], replicates=1)
