"""`jrh.correct` on what MLflow holds: results and runs of `mlflow.genai.evaluate`, labelled traces, natural pairs."""

from __future__ import annotations

import json
import math
import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest

import jrh_mlflow as jrh
from jrh_mlflow.errors import RecipeError
from jrh_mlflow.people.corrected_view import Corrected
from jrh_mlflow.schema.estimates import NotEstimable
from tests.mlflow_features import before

DIGESTS = "3.17"
"""MLflow that writes with each feedback which definition of a scorer gave it; 3.17.0 did not yet."""

N, FAILED = 40, 2
HUMAN = pd.Series([place % 4 != 0 for place in range(N)])
"""What people say: 30 of 40 pass."""
JUDGE = HUMAN ^ pd.Series([place in (5, 12) for place in range(N)])
"""What the scorer says: it errs twice."""


@pytest.fixture(scope="module")
def evaluated(store_uri: str) -> Iterator[SimpleNamespace]:
    """A real evaluation of 40 rows by a scorer that is code, and fails on two of them."""
    import mlflow
    from mlflow.genai.scorers import scorer

    @scorer
    def polite(outputs: str) -> bool:
        if outputs.startswith("broken"):
            raise ValueError("no verdict")
        return "please" in outputs

    @scorer
    def length(outputs: str) -> int:
        return len(outputs)

    patch = pytest.MonkeyPatch()
    patch.setenv("MLFLOW_GENAI_EVAL_MAX_WORKERS", "1")
    patch.setenv("MLFLOW_GENAI_EVAL_SKIP_TRACE_VALIDATION", "true")
    mlflow.set_tracking_uri(store_uri)
    experiment = mlflow.set_experiment("politeness")
    texts = ["broken" if place < FAILED else "please" if JUDGE[place] else "no" for place in range(N)]
    rows = [{"inputs": {"n": place}, "outputs": text} for place, text in enumerate(texts)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of MLflow's own imports
        result = mlflow.genai.evaluate(data=rows, scorers=[polite, length])
    yield SimpleNamespace(result=result, uri=store_uri, experiment_id=experiment.experiment_id)
    # Not what `get_tracking_uri` said before: a store that is set outranks the environment of every later test.
    mlflow.set_tracking_uri(None)
    for name in ("MLFLOW_EXPERIMENT_ID", "MLFLOW_EXPERIMENT_NAME", "MLFLOW_TRACKING_URI"):
        patch.delenv(name, raising=False)
    patch.undo()


@pytest.fixture(autouse=True)
def _active(evaluated: SimpleNamespace) -> None:
    import mlflow

    mlflow.set_tracking_uri(evaluated.uri)


CALIBRATION = pd.DataFrame({"judge": [True] * 60 + [False] * 40, "human": [True] * 57 + [False] * 41 + [True] * 2})


def refusal(*args: object, **kwargs: object) -> str:
    with pytest.raises(RecipeError) as found:
        jrh.correct(*args, **kwargs)
    assert "\n" not in str(found.value)
    return str(found.value)


def test_a_result_of_mlflow_is_read_without_the_errors_of_its_scorer(evaluated):
    found = jrh.correct(evaluated.result, CALIBRATION, scorer="polite")
    plain = jrh.correct(JUDGE[FAILED:].tolist(), CALIBRATION)
    assert found.estimate.value == pytest.approx(plain.estimate.value, rel=1e-12)
    assert found.lost == {"verdicts that failed": FAILED}
    assert (found.naive.n, found.naive.excluded) == (N - FAILED, FAILED)
    assert found.naive.value == pytest.approx(evaluated.result.metrics["polite/mean"])
    assert found.scorer == "polite"
    assert found.run_id is None
    assert "Several scorers gave feedback: length, polite" in refusal(evaluated.result, CALIBRATION)
    assert "No scorer 'polit' gave a verdict on these traces" in refusal(evaluated.result, CALIBRATION, scorer="polit")
    assert re.search(r"verdicts are scores \(", refusal(evaluated.result, CALIBRATION, scorer="length"))


def test_a_result_without_its_assessments_is_read_by_its_columns(evaluated):
    columns = ["trace_id", "polite/value", "polite/error_message", "length/value"]
    result = SimpleNamespace(run_id=evaluated.result.run_id, result_df=evaluated.result.result_df[columns])
    found = jrh.correct(result, CALIBRATION, scorer="polite")
    assert found.estimate == jrh.correct(evaluated.result, CALIBRATION, scorer="polite").estimate
    assert found.lost == {"verdicts that failed": FAILED}
    assert "Several scorers gave feedback: length, polite" in refusal(result, CALIBRATION)


def test_the_run_of_an_evaluation_is_read_back(evaluated):
    found = jrh.correct(f"runs:/{evaluated.result.run_id}", CALIBRATION, scorer="polite", tracking_uri=evaluated.uri)
    assert found.estimate == jrh.correct(evaluated.result, CALIBRATION, scorer="polite").estimate
    assert "There is no run" in refusal("runs:/" + "0" * 32, CALIBRATION)


def test_the_corrected_rate_is_logged_beside_the_mean_of_mlflow(evaluated):
    import mlflow

    found = jrh.correct(evaluated.result, CALIBRATION, scorer="polite", log=True)
    client = mlflow.MlflowClient()
    run = client.get_run(evaluated.result.run_id)
    assert found.run_id == run.info.run_id
    assert found.link is not None
    ours = {name: value for name, value in run.data.metrics.items() if name.startswith("polite/corrected/")}
    estimate = found.estimate
    assert ours == {
        "polite/corrected/value": pytest.approx(estimate.value),
        "polite/corrected/ci_low": pytest.approx(estimate.ci_low),
        "polite/corrected/ci_high": pytest.approx(estimate.ci_high),
        "polite/corrected/n": estimate.n,
    }
    assert run.data.metrics["polite/mean"] == pytest.approx(evaluated.result.metrics["polite/mean"])
    assert (run.info.status, "jrh.kind" in run.data.tags) == ("FINISHED", False)
    told = json.loads(Path(client.download_artifacts(run.info.run_id, "corrected/polite.json")).read_text())
    assert told["estimate"]["value"] == estimate.value
    assert told["run_id"] == run.info.run_id


def test_a_rate_that_can_no_longer_be_said_leaves_no_older_number_in_the_run(evaluated):
    """MLflow forgets no metric: the newest value of each is none, and a tag says why."""
    import mlflow

    run_id = evaluated.result.run_id
    shown = "jrh.polite/corrected"
    useful = jrh.correct(evaluated.result, CALIBRATION, scorer="polite", log=True)
    assert mlflow.get_run(run_id).data.tags[shown].startswith(f"{useful.estimate.value:.2f} [")
    guessing = pd.DataFrame({"judge": [True, False] * 20, "human": [True, True, False, False] * 10})
    refused = jrh.correct(evaluated.result, guessing, scorer="polite", sampling="by_verdict", log=True)
    assert isinstance(refused.estimate, NotEstimable)
    data = mlflow.get_run(run_id).data
    ours = {name: value for name, value in data.metrics.items() if name.startswith("polite/corrected/")}
    assert len(ours) == 4
    assert all(math.isnan(value) for value in ours.values())
    assert data.tags[shown] == f"not estimable: {refused.estimate.reason}"
    found = mlflow.search_runs([evaluated.experiment_id], filter_string=f"attributes.run_id = '{run_id}'")
    assert found["metrics.polite/corrected/value"].isna().all()
    again = jrh.correct(evaluated.result, CALIBRATION, scorer="polite", log=True)
    data = mlflow.get_run(run_id).data
    assert data.metrics["polite/corrected/value"] == pytest.approx(again.estimate.value)
    assert "not estimable" not in data.tags[shown]


def label(trace_id: str, value: object, who: str, *, name: str = "polite", **more: object) -> None:
    import mlflow
    from mlflow.entities import AssessmentSource

    mlflow.log_feedback(trace_id=trace_id, name=name, value=value, source=AssessmentSource("HUMAN", who), **more)


def override(trace_id: str, value: object, who: str, *, name: str = "polite") -> None:
    """Give another value than the scorer's, as on the page of a trace."""
    import mlflow
    from mlflow.entities import AssessmentSource

    (given,) = mlflow.get_trace(trace_id).search_assessments(name)
    source = AssessmentSource("HUMAN", who)
    mlflow.override_feedback(trace_id=trace_id, assessment_id=given.assessment_id, value=value, source=source)


@pytest.fixture(scope="module")
def labelled(evaluated: SimpleNamespace) -> SimpleNamespace:
    """People have labelled 24 of the traces since; on one they are split, some override what the scorer said, and
    some spoke in another run."""
    import mlflow

    mlflow.set_tracking_uri(evaluated.uri)
    frame = evaluated.result.result_df
    place = {trace: int(request["n"]) for trace, request in zip(frame["trace_id"], frame["request"], strict=True)}
    traces = sorted(place, key=place.__getitem__)
    for trace in traces[FAILED : FAILED + 16]:
        label(trace, bool(HUMAN[place[trace]]), "ann", metadata={"mlflow.assessment.sourceRunId": "e" * 32})
    for trace in traces[FAILED + 16 : FAILED + 24]:
        override(trace, bool(HUMAN[place[trace]]), "ann")
    for who in ("bob", "cem"):
        label(traces[FAILED + 1], bool(HUMAN[FAILED + 1]), who)
    label(traces[FAILED], not HUMAN[FAILED], "bob")
    return SimpleNamespace(**vars(evaluated), traces=traces)


def test_labels_of_people_on_the_traces_are_the_calibration_whoever_spoke_last(labelled):
    """MLflow's own column `polite/value` holds the person's label there: the scorer's verdict is read all the same."""
    found = jrh.correct(labelled.result, scorer="polite", sampling="random")
    both = slice(FAILED + 1, FAILED + 24)
    # The trace on which people are split is one without a label.
    rest = [JUDGE[FAILED], *JUDGE[FAILED + 24 :]]
    plain = jrh.correct(rest, pd.DataFrame({"judge": JUDGE[both], "human": HUMAN[both]}), sampling="random")
    assert found.estimate.value == pytest.approx(plain.estimate.value, rel=1e-12)
    assert (found.n_labelled, found.n_unlabelled) == (23, 15)
    assert found.lost == {"verdicts that failed": FAILED, "items on which people are split": 1}
    assert found.naive.value == pytest.approx(labelled.result.metrics["polite/mean"])
    by_run = jrh.correct(labelled.result.run_id, scorer="polite", sampling="random")
    by_experiment = jrh.correct("traces:/politeness", sampling="random")
    assert found.estimate == by_run.estimate == by_experiment.estimate
    assert by_experiment.scorer == "polite"


def test_a_run_about_labelled_traces_lies_in_their_experiment_and_leaves_its_view(labelled):
    import mlflow

    before = mlflow.get_experiment(labelled.experiment_id).tags
    found = jrh.correct("traces:/politeness", log=True)
    run = mlflow.get_run(found.run_id)
    assert (run.info.experiment_id, run.data.tags["jrh.kind"]) == (labelled.experiment_id, "correct")
    assert run.data.params["judge.source_type"] == "CODE"
    assert mlflow.get_experiment(labelled.experiment_id).tags == before


def test_a_label_under_the_name_of_the_scorer_is_never_its_verdict(labelled):
    import mlflow

    traces = mlflow.search_traces(
        locations=[labelled.experiment_id], run_id=labelled.result.run_id, include_spans=False, return_type="list"
    )
    frame = pd.DataFrame(
        {
            "trace_id": [trace.info.trace_id for trace in traces],
            "polite/value": [trace.info.assessments[-1].value for trace in traces],
            "assessments": [[one.to_dictionary() for one in trace.info.assessments] for trace in traces],
        }
    )
    later = SimpleNamespace(run_id=labelled.result.run_id, result_df=frame, metrics={})
    found = jrh.correct(later, CALIBRATION, scorer="polite")
    assert found.naive.value == pytest.approx(labelled.result.metrics["polite/mean"])


def test_traces_of_other_evaluations_and_their_scorers_do_not_mix(labelled):
    """A second evaluation of the same traces by another definition of the scorer leaves the first one alone."""
    import mlflow
    from mlflow.entities import AssessmentSource

    for trace in labelled.traces[FAILED:]:
        mlflow.log_feedback(
            trace_id=trace,
            name="polite",
            value=False,
            source=AssessmentSource("CODE", "polite"),
            metadata={"mlflow.assessment.sourceRunId": "f" * 32, "mlflow.assessment.scorerDigest": "sha256:other"},
        )
    found = jrh.correct(labelled.result.run_id, CALIBRATION, scorer="polite")
    assert found.naive.value == pytest.approx(labelled.result.metrics["polite/mean"])
    # Older ones write no digest: there the name tells a scorer from another.
    assert ("scorer_digest" in found.judge) is not before(DIGESTS)
    assert found.judge.get("scorer_digest", "sha256:").startswith("sha256:")


def test_another_definition_of_the_scorer_than_the_calibrated_one_is_refused(evaluated):
    known = jrh.correct(evaluated.result, CALIBRATION, scorer="polite").judge
    assert known["source_type"] == "CODE"
    theirs = CALIBRATION.copy()
    if not before(DIGESTS):
        theirs.attrs["judge"] = {**known, "scorer_digest": "sha256:other"}
        assert "its scorer_digest is" in refusal(evaluated.result, theirs, scorer="polite")
        # The digest stands for the definition, whatever it is called.
        theirs.attrs["judge"] = {**known, "name": "courteous"}
        assert jrh.correct(evaluated.result, theirs, scorer="polite").n_labelled == len(theirs)
    theirs.attrs["judge"] = {"name": "courteous"}
    assert "its name is 'polite', not 'courteous'" in refusal(evaluated.result, theirs, scorer="polite")


def test_without_a_result_it_is_a_run_of_its_own(store_uri):
    import mlflow

    found = jrh.correct(
        JUDGE.tolist(),
        CALIBRATION,
        log=True,
        sampling="random",
        scorer="polite",
        experiment="rates",
        tracking_uri=store_uri,
    )
    client = mlflow.MlflowClient(tracking_uri=store_uri)
    run = client.get_run(found.run_id)
    tags, metrics, params = run.data.tags, run.data.metrics, run.data.params
    assert (tags["jrh.kind"], tags["jrh.simulated"], run.info.status) == ("correct", "false", "FINISHED")
    assert metrics == pytest.approx(found.metrics)
    assert metrics["polite/corrected/value"] == pytest.approx(found.estimate.value)
    assert metrics["polite/people_only/n"] == 100
    assert params["correct.sampling"] == "random"
    assert params["correct.method"] == "PPI++"
    assert "corrected" in tags["mlflow.note.content"]
    names = {file.path for file in client.list_artifacts(found.run_id)}
    assert {"corrected.json", "corrected.md", "figures"} <= names
    assert found.run_id in str(found.link)


def test_a_run_can_be_named(evaluated):
    import mlflow

    run = mlflow.MlflowClient().create_run(evaluated.experiment_id).info.run_id
    found = jrh.correct(JUDGE.tolist(), CALIBRATION, run=run, scorer="my scorer (v2)")
    logged = mlflow.get_run(run).data.metrics
    assert logged["my_scorer_v2/corrected/value"] == pytest.approx(found.estimate.value)
    assert found.run_id == run
    assert "There is no run" in refusal(JUDGE.tolist(), CALIBRATION, run="0" * 32)


def test_a_run_that_holds_no_verdicts_is_refused(evaluated, store_uri):
    import mlflow

    empty = mlflow.MlflowClient().create_run(evaluated.experiment_id).info.run_id
    assert "has no traces: it is no run of mlflow.genai.evaluate" in refusal(empty, CALIBRATION)
    done = jrh.correct(JUDGE.tolist(), CALIBRATION, log=True, experiment="rates", tracking_uri=store_uri)
    assert "is of kind correct" in refusal(f"runs:/{done.run_id}", CALIBRATION)


def test_the_difference_of_two_evaluations_is_logged_with_each_rate_in_its_run(evaluated):
    import mlflow

    found = jrh.correct({"before": evaluated.result, "after": JUDGE.tolist()}, CALIBRATION, scorer="polite", log=True)
    assert isinstance(found, Corrected)
    own = mlflow.get_run(found.run_id).data
    assert own.tags["jrh.kind"] == "correct"
    assert own.metrics["polite/corrected_difference/value"] == pytest.approx(found.estimate.value)
    assert own.metrics["polite/corrected/before/value"] == pytest.approx(found.versions["before"].estimate.value)
    assert found.versions["before"].run_id == evaluated.result.run_id
    assert found.versions["after"].run_id is None
    beside = mlflow.get_run(evaluated.result.run_id).data.metrics["polite/corrected/value"]
    assert beside == pytest.approx(found.versions["before"].estimate.value)


def test_evaluations_on_natural_pairs_give_a_win_rate(store_uri):
    """The longer answer is the better one in 8 of 10 pairs, and u is the better one in 6 of 10."""
    better = ["1" if place % 10 < 6 else "2" for place in range(100)]
    texts = [("short", "longer by far") if place % 5 else ("longer by far", "short") for place in range(100)]
    rows = [
        {
            "instruction": f"q{place}",
            "first": worse_first[side == "1"],
            "second": worse_first[side == "2"],
            "better": side,
        }
        for place, (worse_first, side) in enumerate(zip(texts, better, strict=True))
    ]
    done = jrh.evaluate(
        jrh.scripted.LongerWins(),
        jrh.natural_suite(pd.DataFrame(rows)),
        tracking_uri=store_uri,
        experiment="pairs",
        progress=False,
        traces="none",
    )
    items = done.calls["suite_item"].unique()
    labelled = done.calls[done.calls["suite_item"].isin(items[:60])]
    found = jrh.correct(done, labelled, sampling="random")
    assert (found.n_labelled, found.n_unlabelled, found.naive.n) == (60, 40, 100)
    assert found.people_only.value == pytest.approx(0.6)
    assert found.naive.value == pytest.approx(done.calls.query("order == 'uv'")["answer"].eq("1").mean())
    assert found.positional.value == 0
    assert found.simulated
    by_run = jrh.correct(done.run_id, labelled, sampling="random", tracking_uri=store_uri)
    assert (by_run.estimate, by_run.judge, by_run.simulated) == (found.estimate, found.judge, True)
    lost = done.calls.copy()
    lost.loc[(lost["suite_item"] == items[-1]) & (lost["order"] == "vu"), ["outcome", "answer"]] = ["error", ""]
    assert jrh.correct(lost, labelled).naive.excluded == 1


def rated(labels: tuple[str, str]) -> pd.DataFrame:
    """Labels of three people and of a judge in long form, two labels that people all agree on."""
    yes = [place % 4 != 0 for place in range(120)]
    said = {"judge": [one ^ (place % 15 == 0) for place, one in enumerate(yes)], **dict.fromkeys(("a", "b", "c"), yes)}
    rows = [(f"i{place}", who, labels[one]) for who, ones in said.items() for place, one in enumerate(ones)]
    return pd.DataFrame(rows, columns=["item", "rater", "label"])


def test_an_agreement_and_its_run_are_a_calibration(store_uri):
    told = {"judge": "judge", "tracking_uri": store_uri, "experiment": "agreed"}
    agreement = jrh.agree(rated(("no", "yes")), **told)
    assert agreement.calibration is not None
    expected = jrh.correct(JUDGE.tolist(), agreement.calibration[["judge", "human"]])
    assert expected.n_labelled == 120
    for calibration in (agreement, agreement.run_id, f"runs:/{agreement.run_id}"):
        found = jrh.correct(JUDGE.tolist(), calibration, tracking_uri=store_uri)
        assert found.estimate == expected.estimate
    # Its labels are the scale that the judge was calibrated on.
    words = JUDGE.map({True: "good", False: "bad"})
    assert "calibrated on another scale" in refusal(words, agreement, positive="good")
    named = ours = JUDGE.to_frame("judge")
    named.attrs["judge"] = {"name": "another judge"}
    assert "its name is 'another judge', not 'judge'" in refusal(ours, agreement.run_id, tracking_uri=store_uri)
    assert "is of kind agree: verdicts are" in refusal(agreement.run_id, CALIBRATION, tracking_uri=store_uri)


def test_an_agreement_on_other_labels_corrects_verdicts_on_them(store_uri):
    told = {"judge": "judge", "tracking_uri": store_uri, "experiment": "agreed"}
    words = JUDGE.map({True: "good", False: "bad"})
    agreement = jrh.agree(rated(("bad", "good")), positive="good", **told)
    expected = jrh.correct(JUDGE.tolist(), agreement.calibration[["judge", "human"]])
    for calibration in (agreement, agreement.run_id):
        found = jrh.correct(words, calibration, positive="good", tracking_uri=store_uri)
        assert found.estimate == expected.estimate
        assert "calibrated on another scale" in refusal(JUDGE.tolist(), calibration, tracking_uri=store_uri)
    without = jrh.agree(rated(("bad", "good")), **told)
    assert "agreement has no calibration" in refusal(words, without, positive="good")
    assert "has no tables/calibration.csv" in refusal(words, without.run_id, positive="good", tracking_uri=store_uri)


def test_labels_with_commas_are_read_back_from_the_run_of_an_agreement(store_uri):
    words = ("no, it is not", "yes, it is")
    told = {"judge": "judge", "positive": words[1], "tracking_uri": store_uri, "experiment": "agreed"}
    agreement = jrh.agree(rated(words), **told)
    verdicts = JUDGE.map({True: words[1], False: words[0]})
    by_hand, by_run = (
        jrh.correct(verdicts, calibration, positive=words[1], tracking_uri=store_uri)
        for calibration in (agreement, agreement.run_id)
    )
    assert by_run.estimate == by_hand.estimate


def test_labelled_traces_of_another_run_are_a_calibration(labelled):
    found = jrh.correct(JUDGE.tolist(), labelled.result, scorer="polite")
    assert (found.n_labelled, found.n_unlabelled) == (23, N)
    assert found.lost == {"items on which people are split": 1}
