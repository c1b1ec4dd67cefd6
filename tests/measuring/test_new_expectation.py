"""A test with a new kind of expectation is one file: from generation to figures everything reads what it declares."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner
from mlflow import MlflowClient

import jrh_mlflow as jrh
from jrh_mlflow.cli.main import group
from jrh_mlflow.errors import RecipeError
from jrh_mlflow.measures.composite import item_decisions, tally
from jrh_mlflow.perturb.registry import TESTS, find_tests, register
from jrh_mlflow.schema.items import Labels
from jrh_mlflow.schema.presentation import Presentation
from jrh_mlflow.show.figures.reliability import score_chart
from jrh_mlflow.sweeps.space import metric_names
from tests.logged_runs import numbers_of
from tests.perturb.completion import Completion

SCALE = ("1", "2", "3")
ROWS = [
    {"id": f"r{n}", "instruction": "Explain.", "response": f"Answer {n} says a few words here.", "label": SCALE[n % 3]}
    for n in range(18)
]


@pytest.fixture(scope="module", autouse=True)
def completion():
    register(Completion())
    yield
    del TESTS["completion"]


@pytest.fixture(scope="module")
def suite(store_uri) -> jrh.Suite:
    return jrh.generate(
        ROWS,
        tests=["completion", "typos"],
        rubric="How good?",
        scale=[1, 3],
        tracking_uri=store_uri,
    )


def stubborn(shown: Presentation) -> str:
    """Give everything a two."""
    return "2"


@pytest.fixture(scope="module")
def judged(suite, store_uri) -> dict[str, jrh.Evaluation]:
    options = {"tracking_uri": store_uri, "experiment": "tests", "progress": False}
    judges = {"right": jrh.scripted.Oracle(), "stubborn": stubborn, "grader": jrh.scripted.Grader(accuracy=1)}
    return {name: jrh.evaluate(judge, suite, **options) for name, judge in judges.items()}


def test_items_carry_no_answer_and_scripted_judges_know_what_is_right(suite, judged):
    items = [item for item in suite.items if item.condition == "completion"]
    assert len(items) == 12
    assert {item.expected for item in items} == {None}
    for name in ("right", "grader"):
        calls = judged[name].calls.set_index("suite_item")
        assert {calls.loc[item.id, "answer"] for item in items} == {"2", "3"}


def test_the_report_has_its_share_and_no_accuracy(judged):
    right, stubborn = judged["right"].report, judged["stubborn"].report
    assert (right.scores["completion"].value, stubborn.scores["completion"].value) == (1, 0)
    assert right.scores["completion"].n == 12
    assert not {"completion/accuracy", "completion/consistency"} & set(right.estimates)
    assert right.summary["mean"] == 1
    assert "completion 0.00 [0.00, 0." in stubborn.profile


def test_records_with_names_alone_are_measured_the_same(judged):
    calls = judged["stubborn"].calls
    assert jrh.measure(calls, labels=SCALE).scores == judged["stubborn"].report.scores


def test_markdown_shows_it_in_a_section_of_its_own(judged):
    text = judged["right"].report.to_markdown()
    assert "### completion\n\nAt least one level above its own baseline: 1.00 [" in text
    assert "of 12 calls." in text
    assert "the monotone sources; of completed answers the risen calls." in text


def test_mlflow_has_its_keys_and_the_description(judged, store_uri):
    run = MlflowClient(tracking_uri=store_uri).get_run(judged["stubborn"].run_id)
    assert run.data.metrics["completion/rise/rate"] == 0
    assert run.data.tags["jrh.completion/rise"].startswith("0.00 [")
    assert numbers_of(store_uri, judged["stubborn"].run_id)["completion/rise/n"] == 12
    assert "### completion" in run.data.tags["mlflow.note.content"]


def test_a_comparison_pairs_its_calls(judged, store_uri):
    found = jrh.compare(
        [judged["right"].run_id, judged["stubborn"].run_id], tracking_uri=store_uri, log=False
    ).contrasts
    (difference,) = [one for one in found.differences if one.axis == "completion"]
    assert (difference.value, difference.n) == (1, 12)
    assert difference.told_apart


@pytest.mark.drawn
def test_the_figure_says_what_the_share_is(judged):
    figure = score_chart(judged["right"].report, judge="right")
    assert figure is not None
    assert "completion\n(rises by a level)" in [label.get_text() for label in figure.axes[0].get_yticklabels()]


def test_a_sweep_counts_it_and_knows_its_metric(suite, judged):
    counted = tally(item_decisions(judged["stubborn"].calls), labels=SCALE)
    assert counted.hits[:, counted.cells.index("completion")].sum() == 0
    assert "completion/rise/rate" in metric_names(suite, replicates=1)


def test_the_command_line_lists_it_and_says_how_it_is_scored():
    (facts,) = json.loads(CliRunner().invoke(group, ["suite", "tests", "completion", "--json"]).stdout)
    assert facts["expected"] == "a level higher"
    shown = CliRunner().invoke(group, ["suite", "tests", "completion"]).stdout
    assert "scored by     rise" in shown
    assert "two labels, or a scale" in shown


def test_labels_without_an_order_are_refused_and_are_no_number():
    with pytest.raises(RecipeError, match="'completion' needs ordinal labels, but they are a, b, c"):
        find_tests("completion", Labels(answers=("a", "b", "c")))
    row = {"task": "t", "delta": None, "order": "", "better": "", "replicate": 0, "outcome": "verdict"}
    calls = [
        row | {"suite_item": "t/baseline", "condition": "baseline", "answer": "b", "expected": "a"},
        row | {"suite_item": "t/completion", "condition": "completion", "answer": "c", "expected": ""},
    ]
    assert "which label is the highest one is not known" in jrh.measure(calls).scores["completion"].reason
