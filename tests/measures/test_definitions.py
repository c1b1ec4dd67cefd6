"""`definitions="paper"`: stability by accuracy, dollars of tests alone, the profile by call; `protocol` as always."""

from __future__ import annotations

import json

import pytest
from mlflow import MlflowClient

import jrh_mlflow as jrh
from jrh_mlflow.errors import RecipeError
from jrh_mlflow.measures.reliability import priced_calls
from jrh_mlflow.schema.items import Item
from jrh_mlflow.show.results import read_report
from tests.comparing.comparing_tools import coin, label_of, pair_calls, point_calls
from tests.logged_runs import json_of

STABILITY = "stochastic_stability"
STORED = {"progress": False, "traces": "none"}


def wavering(source: str, condition: str, replicate: int) -> str:
    """Right in two of three replicates; otherwise right."""
    label = label_of(int(source[1:]))
    return "1" if replicate == 2 and label != "1" else label


def test_the_paper_scores_stability_by_accuracy_and_the_protocol_by_unanimity() -> None:
    calls = point_calls(wavering, tests=("typos", STABILITY), n_sources=10)
    ours, papers = (jrh.measure(calls, definitions=name) for name in ("protocol", "paper"))
    # Two of ten sources have the label 1, which is always given.
    assert ours.scores[STABILITY].value == pytest.approx(0.2)
    assert papers.scores[STABILITY].value == pytest.approx((8 * 2 / 3 + 2) / 10)
    assert papers.scores["typos"].value == ours.scores["typos"].value == 1
    assert ours.estimates == papers.estimates
    assert papers.summary["mean"] == pytest.approx((1 + papers.scores[STABILITY].value) / 2)
    legend = "of stability the unanimous items"
    assert legend in ours.to_markdown()
    assert legend not in papers.to_markdown()


def test_a_file_says_the_papers_definitions_and_not_the_usual_ones() -> None:
    calls = point_calls(wavering, tests=(STABILITY,), n_sources=5)
    ours, papers = (jrh.measure(calls, definitions=name) for name in ("protocol", "paper"))
    assert "definitions" not in ours.to_dict()
    written = json.loads(json.dumps(papers.to_dict()))
    assert read_report(written).definitions == "paper"
    assert read_report(ours.to_dict()).definitions == "protocol"


def test_the_papers_profile_goes_by_calls() -> None:
    calls = pair_calls(coin, n_tasks=12)
    ours, papers = (jrh.measure(calls, definitions=name) for name in ("protocol", "paper"))
    assert papers.profile == papers.paper_profile == ours.paper_profile
    assert ours.profile != ours.paper_profile


def test_names_and_metrics_that_do_not_fit_are_refused() -> None:
    calls = point_calls(wavering, n_sources=4)
    with pytest.raises(RecipeError, match="Known: protocol, paper"):
        jrh.measure(calls, definitions="papre")
    with pytest.raises(RecipeError, match="leave out `metric`"):
        jrh.measure(calls, definitions="paper", metric="mae")


def hand_suite() -> jrh.Suite:
    def item(number: int, condition: str) -> Item:
        return Item(
            id=f"s{number}/{condition}",
            task=f"s{number}",
            condition=condition,
            kind="response",
            instruction="Explain the tides.",
            rubric="Is it right?",
            response=f"answer {number}",
            answers=("no", "yes"),
            expected="yes",
        )

    return jrh.Suite(name="hand", items=[item(n, name) for n in range(4) for name in ("baseline", "typos")])


def says_yes(presentation: jrh.Presentation) -> jrh.Answer:
    return jrh.Answer(value="yes", cost_usd=0.5)


def test_an_evaluation_logs_its_definitions_and_reckons_dollars_by_them(store_uri: str) -> None:
    place = {"experiment": "definitions", "tracking_uri": store_uri, **STORED}
    ours = jrh.evaluate(says_yes, hand_suite(), **place)
    papers = jrh.evaluate(says_yes, hand_suite(), definitions="paper", **place)
    again = jrh.replay(f"runs:/{papers.run_id}", experiment="definitions", tracking_uri=store_uri)
    # Eight calls at 50 cents over 100 points; the paper asks no baseline.
    assert ours.metrics["cost/usd_per_accuracy_point"] == pytest.approx(4 / 100)
    for done in (papers, again):
        assert done.metrics["cost/usd_per_accuracy_point"] == pytest.approx(2 / 100)
        params = MlflowClient(store_uri).get_run(done.run_id).data.params
        assert params["run.definitions"] == "paper"
        assert json_of(store_uri, done.run_id, "datasheet.json")["definitions"] == "paper"
    assert "run.definitions" not in MlflowClient(store_uri).get_run(ours.run_id).data.params
    compared = jrh.compare([ours, papers], log=False)
    assert any("those of the protocol" in note for note in compared.notes)
    gate = jrh.gate(papers, "cost/usd_per_accuracy_point <= 0.03")
    assert gate.passed is True
    assert len(priced_calls(ours.calls, "paper")) == 4
