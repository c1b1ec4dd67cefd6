"""`jrh.passed` on what MLflow holds: results of `mlflow.genai.evaluate`, agreements, evaluations on labelled suites."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import mlflow
import pandas as pd
import pytest
from mlflow.genai.scorers import scorer

import jrh_mlflow as jrh
from jrh_mlflow.errors import RecipeError

N, FAILED = 16, 1
TRUE = [place % 3 != 0 for place in range(150)]
"""Whether a labelled item truly passes."""
SAID = [good ^ (place in (5, 33, 40)) for place, good in enumerate(TRUE)]
"""What the judge says about it: it errs three times."""
HOW: dict[str, Any] = {"max_failure": 0.35, "sampling": "stratified"}
"""The good application passes: one of its few rows failed."""


@scorer
def polite(outputs: str) -> bool:
    if outputs.startswith("broken"):
        raise ValueError("no verdict")
    return "please" in outputs


@pytest.fixture(scope="module")
def evaluated(store_uri: str) -> Iterator[SimpleNamespace]:
    """Three real evaluations of an application: a good one, a bad one, one that the scorer cannot read."""
    patch = pytest.MonkeyPatch()
    patch.setenv("MLFLOW_GENAI_EVAL_MAX_WORKERS", "1")
    patch.setenv("MLFLOW_GENAI_EVAL_SKIP_TRACE_VALIDATION", "true")
    mlflow.set_tracking_uri(store_uri)
    mlflow.set_experiment("application")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of MLflow's own imports
        results = {
            name: mlflow.genai.evaluate(
                data=[{"inputs": {"n": place}, "outputs": text} for place, text in enumerate(texts)], scorers=[polite]
            )
            for name, texts in {
                "good": ["no"] * FAILED + ["please"] * (N - FAILED),
                "bad": ["no"] * 8 + ["please"] * 2,
                "broken": ["broken"] + ["please"] * 3,
            }.items()
        }
    yield SimpleNamespace(uri=store_uri, **results)
    mlflow.set_tracking_uri(None)
    for name in ("MLFLOW_EXPERIMENT_ID", "MLFLOW_EXPERIMENT_NAME", "MLFLOW_TRACKING_URI"):
        patch.delenv(name, raising=False)
    patch.undo()


@pytest.fixture(autouse=True)
def _active(evaluated: SimpleNamespace) -> None:
    mlflow.set_tracking_uri(evaluated.uri)


def ratings(judge: str = "polite", words: tuple[Any, Any] = (False, True)) -> pd.DataFrame:
    said = {judge: SAID, "ann": TRUE, "bob": TRUE}
    cells = [(f"i{place}", who, words[one]) for who, ones in said.items() for place, one in enumerate(ones)]
    return pd.DataFrame(cells, columns=["item", "rater", "label"])


@pytest.fixture(scope="module")
def agreement(evaluated: SimpleNamespace) -> jrh.Agreement:
    return jrh.agree(ratings(), judge="polite", tracking_uri=evaluated.uri, experiment="people")


def refusal(*args: object, **kwargs: Any) -> str:
    with pytest.raises(RecipeError) as found:
        jrh.passed(*args, **{"max_failure": 0.2, **kwargs})
    assert "\n" not in str(found.value)
    return str(found.value)


def test_the_application_passes(evaluated: SimpleNamespace, agreement: jrh.Agreement) -> None:
    """What a user writes into a test of an application: one row failed, and the judge errs at times."""
    result = evaluated.good
    assert jrh.passed(result, agreement.run_id, **HOW)


def test_a_bad_application_does_not_pass_and_the_test_says_why(
    evaluated: SimpleNamespace, agreement: jrh.Agreement
) -> None:
    with pytest.raises(AssertionError, match=r"Gate\(Failed: .* must be at most 0\.2"):
        assert jrh.passed(evaluated.bad, agreement.run_id, max_failure=0.2)


def test_errors_of_the_scorer_are_neither_passes_nor_failures(
    evaluated: SimpleNamespace, agreement: jrh.Agreement
) -> None:
    gate = jrh.passed(evaluated.broken, agreement.run_id, max_failure=0.9)
    assert gate.passed is None
    assert "1 of 4 rows have no verdict (25.0%)" in gate.reason


def test_result_run_and_traces_and_every_form_of_the_agreement_are_read_the_same(
    evaluated: SimpleNamespace, agreement: jrh.Agreement
) -> None:
    expected = jrh.passed([False] * FAILED + [True] * (N - FAILED), agreement, **HOW).to_dict()["checks"]
    run_id = evaluated.good.run_id
    traces = mlflow.search_traces(run_id=run_id, return_type="list", include_spans=False)
    for result in (evaluated.good, run_id, f"runs:/{run_id}", traces):
        gate = jrh.passed(result, agreement, **HOW)
        assert gate.to_dict()["checks"] == expected
        assert gate.gated_run == (None if result is traces else run_id)
    for judge_run in (agreement.run_id, f"runs:/{agreement.run_id}"):
        gate = jrh.passed(evaluated.good, judge_run, **HOW)
        assert gate.to_dict()["checks"] == expected
        assert gate.facts["calibrated by"] == f"agreement, run {agreement.run_id[:8]}"


def test_an_agreement_about_the_failing_label_is_turned_round(evaluated: SimpleNamespace) -> None:
    told = {"judge": "polite", "log": False}
    usual, turned = (jrh.agree(ratings(words=("no", "yes")), positive=label, **told) for label in ("yes", "no"))
    gates = [jrh.passed(evaluated.bad, each, max_failure=0.2).to_dict()["checks"] for each in (usual, turned)]
    assert gates[0] == gates[1]
    words = ["rude"] * 8 + ["kind"] * 2
    about = jrh.agree(ratings(words=("rude", "kind")), positive="rude", **told)
    assert jrh.passed(words, about, max_failure=0.2, positive="kind").to_dict()["checks"] == gates[0]


def test_the_gate_is_logged_beside_the_result_that_it_is_about(
    evaluated: SimpleNamespace, agreement: jrh.Agreement
) -> None:
    gate = jrh.passed(evaluated.bad, agreement.run_id, max_failure=0.2, log=True)
    run, judged = (mlflow.get_run(each) for each in (gate.run_id, evaluated.bad.run_id))
    assert run.data.tags["jrh.kind"] == "gate"
    assert run.info.experiment_id == judged.info.experiment_id
    assert judged.data.tags["jrh.gate"] == gate.reason
    assert judged.data.tags["jrh.gate_run"] == gate.run_id
    assert "jrh.kind" not in judged.data.tags


def test_another_judge_and_runs_of_another_kind_are_refused(
    evaluated: SimpleNamespace, agreement: jrh.Agreement, labelled: jrh.Evaluation
) -> None:
    other = jrh.agree(ratings("strict"), judge="strict", tracking_uri=evaluated.uri, experiment="people")
    assert "its name is 'polite', not 'strict'" in refusal(evaluated.good, other.run_id)
    assert "that one is `judge_run`" in refusal(agreement.run_id, agreement.run_id)
    assert "that one is `judge_run`" in refusal(labelled, agreement.run_id)
    gate = jrh.passed(evaluated.bad, agreement.run_id, max_failure=0.2, log=True)
    said = refusal(evaluated.good, gate.run_id)
    assert "is of kind gate" in said
    assert "Give a run of `jrh agree`" in said
    assert "There is no run" in refusal(evaluated.good, "0" * 32)
    people = jrh.agree(ratings(), judge=None, tracking_uri=evaluated.uri, experiment="people")
    assert "positive" in refusal(evaluated.good, people.run_id)
    assert "No trace of the calibration has a person's label" in refusal(evaluated.good, evaluated.good.run_id)


SAYS = {f"Answer {place} in a few words.": ("no", "yes")[said] for place, said in enumerate(SAID)}


def by_the_book(shown: jrh.Presentation) -> str:
    return SAYS[shown.response or ""]


@pytest.fixture(scope="module")
def suite(store_uri: str) -> jrh.Suite:
    seeds = [
        {"id": f"r{place}", "instruction": "Ask.", "response": text, "label": ("no", "yes")[TRUE[place]]}
        for place, text in enumerate(SAYS)
    ]
    options = {"rubric": "Polite?", "labels": ("no", "yes"), "generator": "offline", "tracking_uri": store_uri}
    made = jrh.generate(seeds, tests=["format_invariance_1"], **options)
    # Perturbed items say nothing about how often the judge errs: here it would fail on each.
    return jrh.Suite(name="labelled", items=[item for item in made.items if item.condition == "baseline"])


@pytest.fixture(scope="module")
def labelled(suite: jrh.Suite, store_uri: str) -> jrh.Evaluation:
    return jrh.evaluate(by_the_book, suite, tracking_uri=store_uri, experiment="judges", progress=False, traces="none")


def test_an_evaluation_on_a_labelled_suite_tells_the_errors_as_well(
    evaluated: SimpleNamespace, agreement: jrh.Agreement, labelled: jrh.Evaluation
) -> None:
    expected = jrh.passed(evaluated.good, agreement, **HOW).to_dict()["checks"]
    for judge_run in (labelled, f"runs:/{labelled.run_id}", labelled.run_id[:12]):
        gate = jrh.passed(evaluated.good, judge_run, **HOW)
        assert gate.to_dict()["checks"] == expected
        assert gate.facts["calibrated by"] == f"labelled, run {labelled.run_id[:8]}"
        # The name of a function is not that of a scorer, and not that of another one either.
        assert "Nothing tells whether both are of the same judge." in gate.notes


def test_labels_that_a_model_wrote_do_not_count(
    evaluated: SimpleNamespace, suite: jrh.Suite, labelled: jrh.Evaluation
) -> None:
    def written(count: int, *, of: int) -> jrh.Suite:
        items = [
            replace(item, meta={**item.meta, "label_source": "model"}) if at < count else item
            for at, item in enumerate(suite.items[:of])
        ]
        return jrh.Suite(name="written", items=items)

    told = {"tracking_uri": evaluated.uri, "experiment": "judges", "progress": False, "traces": "none"}
    partly, wholly = (jrh.evaluate(by_the_book, written(30, of=of), **told) for of in (len(suite), 30))
    (check,) = jrh.passed(evaluated.good, partly, max_failure=0.35).results
    assert f"of {sum(not good for good in TRUE[30:])} failures" in check.reason
    assert f"of {sum(TRUE[30:])}" in check.reason
    said = refusal(evaluated.good, wholly.run_id)
    assert "have no true labels: what a model wrote does not count" in said


def test_a_pairwise_datasheet_is_refused_with_what_to_do(evaluated: SimpleNamespace) -> None:
    pairs = jrh.evaluate(
        jrh.scripted.LongerWins(),
        jrh.datasheet_suite(n_tasks=2, depth=1),
        tracking_uri=evaluated.uri,
        experiment="judges",
        progress=False,
        traces="none",
    )
    said = refusal(evaluated.good, pairs)
    assert "is a pairwise datasheet" in said
    assert "on a suite whose unperturbed items have true labels" in said


def test_a_scorer_is_told_from_another_by_its_name(evaluated: SimpleNamespace, suite: jrh.Suite) -> None:
    @scorer
    def rude(outputs: str) -> bool:
        return SAYS[outputs] == "yes"

    told = {"tracking_uri": evaluated.uri, "experiment": "judges", "progress": False, "traces": "none"}
    other = jrh.evaluate(rude, jrh.Suite(name="few", items=suite.items[:12]), **told)
    assert "its name is 'polite', not 'rude'" in refusal(evaluated.good, other)
    same = jrh.evaluate(jrh.from_mlflow(rude, name="polite"), suite, **told)
    gate = jrh.passed(evaluated.good, same, **HOW)
    assert gate.passed is True
    assert len(gate.notes) == 1


def test_an_agreement_about_one_of_several_passing_labels_is_refused(evaluated: SimpleNamespace) -> None:
    scores = ratings(words=(1, 5))
    scores.loc[scores["item"] == "i1", "label"] = 4
    about = jrh.agree(scores, judge="polite", scale=[1, 2, 3, 4, 5], positive=5, log=False)
    said = refusal([1, 5, 4], about, positive=(4, 5))
    assert "The agreement is about the label '5', here 4, 5 are a pass" in said
    assert "a table with `judge` and `human`" in said
