"""People's labels and judges' verdicts on traces of a real store, told apart by their source."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import mlflow
import pytest
from mlflow.entities import AssessmentSource

from jrh_mlflow.errors import RecipeError
from jrh_mlflow.people.labels import LabelTable
from jrh_mlflow.tracking.traces.traces_in import expectations_of, read_assessments, transcripts_from_traces
from tests.tracking.traces.trace_tools import answered, expect, judged, logging_traces, rated_traces, say


@pytest.fixture
def experiment(store_uri: str, request: pytest.FixtureRequest) -> Iterator[str]:
    with logging_traces(store_uri, f"rated {request.node.name}") as name:
        yield name


def cells(rated: LabelTable) -> set[tuple[object, ...]]:
    frame = rated.frame.assign(is_judge=rated.frame["kind"] != "person")
    return set(frame[["item", "rater", "label", "is_judge"]].itertuples(index=False, name=None))


@pytest.mark.parametrize("judge_first", [True, False])
def test_people_and_judge_are_told_apart_by_their_source_whoever_spoke_last(experiment, store_uri, judge_first):
    trace = answered()
    said = [lambda: judged(trace, "no violation"), lambda: say(trace, "violation", "ann")]
    for speak in said if judge_first else said[::-1]:
        speak()
    rated = rated_traces(f"traces:/{experiment}", name="harm", tracking_uri=store_uri)
    assert cells(rated) == {(trace, "ann", "violation", False), (trace, "openai:/small", "no violation", True)}
    assert (rated.name, rated.judge) == ("harm", "openai:/small")


def test_one_persons_newest_valid_value_counts_and_errors_and_overridden_ones_do_not(experiment, store_uri):
    trace = answered()
    say(trace, "a", "ann")
    kept = say(trace, "b", "ann")
    overridden = say(trace, "c", "bob")
    mlflow.override_feedback(
        trace_id=trace, assessment_id=overridden.assessment_id, value="d", source=overridden.source
    )
    judged(trace, "b")
    judged(trace, None, error=ValueError("no answer"))
    expect(trace, "a", "cleo")
    expect(trace, "b", "openai:/other", kind="LLM_JUDGE")
    say(trace, ["a"], "dan")
    rated = rated_traces([trace], name="harm", tracking_uri=store_uri)
    people = {rater: label for _, rater, label, is_judge in cells(rated) if not is_judge}
    assert people == {"ann": "b", "bob": "d", "cleo": "a"}
    assert ("openai:/small", "b") in {(rater, label) for _, rater, label, is_judge in cells(rated) if is_judge}
    assert rated.left_out == {"overridden": 1, "failed": 1, "expectation_of_a_model": 1, "no_label": 1}
    mlflow.update_assessment(trace_id=trace, assessment_id=kept.assessment_id, assessment=_value(kept, "e"))
    again = rated_traces([trace], name="harm", tracking_uri=store_uri)
    assert (trace, "ann", "e", False) in cells(again)


def override(trace: str, given: Any, value: str, by: str, kind: str = "HUMAN") -> Any:
    source = AssessmentSource(kind, by)
    return mlflow.override_feedback(trace_id=trace, assessment_id=given.assessment_id, value=value, source=source)


def test_only_a_rater_takes_back_what_the_same_rater_said(experiment, store_uri):
    """A person who overrides a judge on the page of a trace gives a label: the verdict stays the judge's."""
    trace = answered()
    verdict = judged(trace, "a")
    first = override(trace, verdict, "b", "ann")
    mended = override(trace, first, "c", "ann")
    override(trace, mended, "d", "bob")
    rated = rated_traces([trace], tracking_uri=store_uri)
    said = {(trace, "openai:/small", "a", True), (trace, "ann", "c", False), (trace, "bob", "d", False)}
    assert cells(rated) == said
    assert rated.left_out == {"overridden": 1}
    info = mlflow.get_trace(trace).info
    assert {one.rater: one.label for one in read_assessments(info).judges} == {"openai:/small": "a"}
    (one,) = transcripts_from_traces([trace], tracking_uri=store_uri)
    assert one.people == {"scores.harm": {"ann": "c", "bob": "d"}}
    assert one.metadata["judge_scores"] == {"harm": {"openai:/small": "a"}}
    override(trace, verdict, "e", "openai:/small", kind="LLM_JUDGE")
    assert cells(rated_traces([trace], tracking_uri=store_uri)) == {
        *(said - {(trace, "openai:/small", "a", True)}),
        (trace, "openai:/small", "e", True),
    }


def test_what_its_rater_took_back_through_somebody_elses_hands_is_taken_back(experiment, store_uri):
    trace = answered()
    first = say(trace, "a", "ann")
    override(trace, override(trace, first, "b", "bob"), "c", "ann")
    rated = rated_traces([trace], tracking_uri=store_uri)
    assert cells(rated) == {(trace, "bob", "b", False), (trace, "ann", "c", False)}
    assert rated.left_out == {"overridden": 1}


def test_people_count_whichever_run_they_spoke_in_and_judges_only_in_theirs(experiment, store_uri):
    trace = answered()
    where = {"metadata": {"mlflow.assessment.sourceRunId": "e" * 32}}
    say(trace, "a", "ann", **where)
    judged(trace, "b", **where)
    judged(trace, "c", "openai:/large", metadata={"mlflow.assessment.sourceRunId": "f" * 32})
    read = read_assessments(mlflow.get_trace(trace).info, verdicts_of_run="f" * 32)
    assert [one.label for one in read.people] == ["a"]
    assert [one.label for one in read.judges] == ["c"]


def test_expectations_that_are_taken_back_or_of_a_model_are_shown_to_no_judge(experiment, store_uri):
    trace = answered()
    *_, expected = [expect(trace, value, "ann", name="facts") for value in (["old"], ["new"], ["wrong"])]
    expect(trace, ["made up"], "openai:/small", name="facts", kind="LLM_JUDGE")
    info = mlflow.get_trace(trace).info
    next(one for one in info.assessments if one.assessment_id == expected.assessment_id).valid = False
    assert expectations_of(info) == {"facts": ["new"]}


def _value(feedback: object, value: str) -> object:
    from mlflow.entities import Feedback

    assert isinstance(feedback, Feedback)
    return Feedback(name=feedback.name, value=value, source=feedback.source)


def test_expectations_of_people_and_code_are_labels_and_code_feedback_is_a_judge(experiment, store_uri):
    first, second = answered(), answered()
    expect(first, True, kind="CODE")
    expect(second, False, "ann")
    say(first, False, "rule.py", kind="CODE")
    rated = rated_traces(experiment, tracking_uri=store_uri)
    assert cells(rated) == {
        (first, "expectation", True, False),
        (second, "ann", False, False),
        (first, "rule.py", False, True),
    }


def test_the_facts_that_identify_a_judge_come_with_it(experiment, store_uri):
    trace = answered("What is 2 + 2?", "4", topic="sums")
    say(trace, "yes", "ann")
    about = {"mlflow.assessment.scorerName": "correct", "mlflow.assessment.scorerVersion": "3"}
    judged(trace, "yes", metadata={**about, "mlflow.assessment.sourceRunId": "r1", "other": "x"})
    rated = rated_traces(experiment, tracking_uri=store_uri, group="topic")
    assert rated.facts == {
        "source_id": "openai:/small",
        "source_type": "LLM_JUDGE",
        "name": "harm",
        "model": "openai:/small",
        "scorer": "correct",
        "scorer_version": "3",
        "run_id": "r1",
    }
    assert list(rated.frame["group"]) == ["sums", "sums"]
    assert set(rated.frame["text"]) == {'"What is 2 + 2?"\n"4"'}
    assert not rated.notes


def test_verdicts_of_several_versions_of_a_judge_are_noted(experiment, store_uri):
    traces = [answered(), answered()]
    for number, trace in enumerate(traces):
        say(trace, "yes", "ann")
        judged(trace, "yes", metadata={"mlflow.assessment.scorerVersion": str(number)})
    rated = rated_traces(traces, tracking_uri=store_uri)
    assert rated.facts["scorer_version"] == "0, 1"
    (note,) = rated.notes
    assert "scorer_version: 0, 1" in note


def test_beside_one_model_code_of_the_same_name_is_not_the_judge_unless_it_is_named(experiment, store_uri):
    trace = answered()
    say(trace, "a", "ann")
    judged(trace, "b", "openai:/small")
    say(trace, "c", "length_check", kind="CODE")
    rated = rated_traces(experiment, tracking_uri=store_uri)
    assert rated.judge == "openai:/small"
    assert rated.notes == ["Code gave 'harm', too (length_check): openai:/small is taken as the judge."]
    assert rated_traces(experiment, judge="length_check", tracking_uri=store_uri).judge == "length_check"


@pytest.mark.parametrize(
    ("judge", "verdict"), [("openai:/large", "b"), ("harm judge", "c"), ("anthropic:/x", "c"), (None, None)]
)
def test_a_judge_is_named_by_its_source_or_by_its_assessment(experiment, store_uri, judge, verdict):
    trace = answered()
    say(trace, "a", "ann")
    judged(trace, "a", "openai:/small")
    judged(trace, "b", "openai:/large")
    judged(trace, "c", "anthropic:/x", name="harm judge")
    if judge is None:
        with pytest.raises(RecipeError, match=r"Several judges .*openai:/large, openai:/small.*judge="):
            rated_traces(experiment, tracking_uri=store_uri)
        return
    rated = rated_traces(experiment, judge=judge, tracking_uri=store_uri)
    assert [label for _, _, label, is_judge in cells(rated) if is_judge] == [verdict]


def test_what_cannot_be_told_is_refused_in_one_line(experiment, store_uri):
    trace = answered()
    with pytest.raises(RecipeError, match=r"No trace of .* has a label of a person"):
        rated_traces(experiment, tracking_uri=store_uri)
    judged(trace, "yes")
    with pytest.raises(RecipeError, match=r"No trace of .* HUMAN feedback or expectations"):
        rated_traces(experiment, name="harm", tracking_uri=store_uri)
    say(trace, "yes", "ann")
    say(trace, "yes", "ann", name="other")
    say(trace, "yes", "ann", name="third")
    judged(trace, "yes", name="third")
    for refused, match in (
        ({}, "'harm', 'third'.*name="),
        ({"name": "harms"}, "Did you mean 'harm'"),
        ({"name": "harm", "judge": "gpt"}, r"no judge 'gpt'.*openai:/small"),
        ({"name": "harm", "judge": "ann"}, "'ann' is a person"),
    ):
        with pytest.raises(RecipeError, match=match) as error:
            rated_traces(experiment, tracking_uri=store_uri, **refused)
        assert "\n" not in str(error.value)


@pytest.mark.parametrize("person", ["ann", "bob"])
def test_a_judge_with_the_id_of_a_person_is_refused(experiment, store_uri, person):
    trace = answered()
    say(trace, "yes", person)
    say(trace, "yes", "ann", name="other")
    judged(trace, "no", "ann")
    with pytest.raises(RecipeError, match="'ann' is a person and a judge"):
        rated_traces(experiment, name="harm", tracking_uri=store_uri)


def test_mlflows_own_default_source_is_no_identity_that_two_share(experiment, store_uri):
    trace = answered()
    say(trace, "yes", "default")
    mlflow.log_feedback(trace_id=trace, name="harm", value="no")
    rated = rated_traces(experiment, tracking_uri=store_uri)
    assert cells(rated) == {(trace, "default", "yes", False), (trace, "harm", "no", True)}


def test_what_was_said_about_the_trace_goes_before_what_was_said_about_one_of_its_spans(experiment, store_uri):
    trace = answered()
    span = mlflow.get_trace(trace).data.spans[0].span_id
    say(trace, "no", "bob", span_id=span)
    say(trace, "no", "ann")
    say(trace, "yes", "ann", span_id=span)
    rated = rated_traces([trace], tracking_uri=store_uri)
    assert cells(rated) == {(trace, "ann", "no", False), (trace, "bob", "no", False)}


def test_people_without_a_judge_are_read_alone(experiment, store_uri):
    trace = answered()
    say(trace, 3, "ann")
    say(trace, 4, "bob")
    rated = rated_traces(experiment, tracking_uri=store_uri)
    assert rated.judge is None
    assert rated.facts == {}
    assert sorted(rated.frame["label"]) == [3, 4]


def test_only_the_newest_traces_are_read_where_a_number_is_given(experiment, store_uri):
    traces = [answered() for _ in range(3)]
    for trace in traces:
        say(trace, "yes", "ann")
    rated = rated_traces(experiment, tracking_uri=store_uri, max_traces=2)
    assert list(rated.frame["item"]) == traces[:0:-1]


def test_traces_in_hand_are_read_without_the_store(experiment, store_uri):
    trace = answered()
    say(trace, "yes", "ann")
    held = mlflow.get_trace(trace)
    assert cells(rated_traces([held])) == {(trace, "ann", "yes", False)}


def test_a_link_names_the_experiment_and_the_trace(experiment, store_uri):
    trace = answered()
    say(trace, "yes", "ann")
    rated = rated_traces(experiment, tracking_uri=store_uri)
    number = mlflow.get_experiment_by_name(experiment).experiment_id
    assert rated.links[trace].startswith(f"http://127.0.0.1:5000/#/experiments/{number}/traces?")
    assert f"selectedEvaluationId={trace}" in rated.links[trace]
