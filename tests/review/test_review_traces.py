"""A finished review as traces with MLflow's own assessments, read back through MLflow's public API."""

from __future__ import annotations

import sqlite3
from dataclasses import replace

import mlflow
import pytest

from jrh_mlflow.errors import TrackingError
from jrh_mlflow.review.finish import ReviewLogger, finish, log_review
from jrh_mlflow.suites.suite import Suite, read_suite
from jrh_mlflow.tracking.runs.store import Store
from jrh_mlflow.tracking.traces import call_traces as traces
from jrh_mlflow.tracking.traces.call_traces import ReviewedItem, ReviewerDecision, log_review_traces
from tests.review.browser import agents
from tests.review.making import baseline, made, opened, saved_suite
from tests.review.test_result import decide
from tests.tracking.traces.test_traces import HOSTILE, KEY, SURVIVES, own_store

ITEM = made("s", "It is Rome.")
REVIEWED = ReviewedItem(
    item=ITEM,
    source=baseline("s", "It is Paris."),
    test="label_flip",
    part="response",
    state="accepted",
    by="Ann",
    when="2026-01-01T00:00:00.000+00:00",
    label="fail",
    decisions=[ReviewerDecision(who="Ann", state="accepted", reason=None)],
)


@pytest.fixture
def store(store_uri: str) -> Store:
    return Store(store_uri, "review traces")


def logged(review, store, *, undecided=False):
    done = finish(review, who="Ann", allow_undecided=undecided)
    run_id = log_review(review, done, who="Ann", store=store)["run_id"]
    return run_id, traces_of(store, run_id)


def traces_of(store, run_id):
    """By the id of the item, in the order of MLflow's list."""
    found = store.client.search_traces(locations=[store.experiment_id], run_id=run_id)
    return {one.info.tags["jrh.suite_item"]: one for one in found}


def said(trace):
    """Name, kind and id of the source, value and rationale of each assessment."""
    return {
        (one.name, one.source.source_type, one.source.source_id, one.value, one.rationale)
        for one in trace.info.assessments
    }


def tag(store, run_id):
    return store.client.get_run(run_id).data.tags["jrh.traces"]


def two_reviewers(tmp_path):
    items = []
    for n, verdict in enumerate(["fail", "pass", "not asked", "fail", "fail"]):
        items += [baseline(f"s{n}", f"It is Paris {n}."), made(f"s{n}", f"It is Rome {n}.", validator=verdict)]
    folder = tmp_path / "suite"
    Suite(name="suite", items=items, origin={"builder": "generate", "validator": "a-validator"}).save(folder)
    review = opened(folder)
    decide(review, 0, "accept", who="Ann")
    decide(review, 1, "reject", who="Ann", reason="still right")
    decide(review, 2, "edit", who="Ann", text="It is Oslo.", label="pass", reason="clearer")
    decide(review, 3, "reject", who="Bob", reason="odd")
    decide(review, 3, "accept", who="Ann")
    return review


def test_every_decided_item_is_a_trace_that_says_who_decided_what(tmp_path, store):
    run_id, found = logged(two_reviewers(tmp_path), store, undecided=True)
    validator = ("LLM_JUDGE", "a-validator")
    assert {name.partition("/")[0]: said(trace) for name, trace in found.items()} == {
        "s0": {
            ("review", "HUMAN", "Ann", "accepted", None),
            ("validator", *validator, "fail", "The item was made for 'fail'."),
            ("label", "HUMAN", "Ann", "fail", None),
        },
        "s1": {
            ("review", "HUMAN", "Ann", "rejected", "still right"),
            ("validator", *validator, "pass", "The item was made for 'fail'."),
        },
        "s2": {
            ("review", "HUMAN", "Ann", "edited", "clearer"),
            ("label", "HUMAN", "Ann", "pass", None),
            ("edited_text", "HUMAN", "Ann", "It is Oslo.", None),
        },
        "s3": {
            ("review", "HUMAN", "Bob", "rejected", "odd"),
            ("review", "HUMAN", "Ann", "accepted", None),
            ("validator", *validator, "fail", "The item was made for 'fail'."),
            ("label", "HUMAN", "Ann", "fail", None),
        },
    }
    assert tag(store, run_id) == "4 of 4 decided items"
    assert store.client.get_run(run_id).info.status == "FINISHED"


def test_a_trace_shows_the_item_as_it_was_generated_and_the_text_that_a_reviewer_made_of_it(tmp_path, store):
    _, found = logged(two_reviewers(tmp_path), store, undecided=True)
    (span,) = found["s2/label_flip"].data.spans
    assert span.inputs == {
        "instruction": "Name the capital of France.",
        "rubric": "Is the answer right?",
        "original": "It is Paris 2.",
        "test": "label_flip",
    }
    assert span.outputs == "It is Rome 2."
    assert span.attributes["jrh.edited_text"] == "It is Oslo."
    assert (span.attributes["jrh.decided_by"], span.attributes["jrh.generated_label"]) == ("Ann", "fail")
    info = found["s2/label_flip"].info
    assert (info.tags["jrh.state"], info.tags["mlflow.traceName"]) == ("edited", "label_flip")
    assert info.request_preview.startswith("s2/label_flip | Name the capital")


def test_decisions_are_found_by_mlflows_own_search(tmp_path, store, monkeypatch):
    run_id, _ = logged(two_reviewers(tmp_path), store, undecided=True)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", store.uri)

    def items(where):
        found = mlflow.search_traces(
            locations=[store.experiment_id], run_id=run_id, filter_string=where, return_type="list"
        )
        return {one.info.tags["jrh.suite_item"] for one in found}

    assert items("feedback.review = 'rejected'") == {"s1/label_flip", "s3/label_flip"}
    assert items("feedback.validator = 'pass'") == {"s1/label_flip"}
    assert items("expectation.label = 'pass'") == {"s2/label_flip"}
    assert items("tag.`jrh.state` = 'edited'") == {"s2/label_flip"}


def test_what_was_edited_and_then_rejected_stands_nowhere(tmp_path, store):
    review = opened(saved_suite(tmp_path / "suite", n=1))
    decide(review, 0, "edit", text="It is Oslo.")
    decide(review, 0, "reject", reason="no")
    decide(review, 1, "accept")
    _, found = logged(review, store)
    assert said(found["s0000/label_flip"]) == {
        ("review", "HUMAN", "Ann", "rejected", "no"),
        ("validator", "LLM_JUDGE", "validator", "fail", "The item was made for 'fail'."),
    }
    assert "s0000/format_invariance" in found  # written by code, and looked at all the same


def test_a_reworded_rubric_and_a_transcript_are_shown_by_the_part_that_was_rewritten(tmp_path, store):
    asked = replace(made("s", "plain", test="rubric_paraphrase", expected="pass"), rubric="Is it correct?")
    review = opened(saved_suite(tmp_path / "suite", [baseline("s", "plain"), asked]))
    decide(review, 0, "accept")
    (span,) = logged(review, store)[1]["s/rubric_paraphrase"].data.spans
    assert (span.inputs["response"], span.inputs["original"]) == ("plain", "Is the answer right?")
    assert span.outputs == "Is it correct?"

    review = opened(agents(tmp_path / "agents"))
    decide(review, 0, "edit", text="I told your chief.")
    (span,) = logged(review, store)[1]["run-1/violation"].data.spans
    assert [message["role"] for message in span.outputs] == ["user", "assistant", "tool", "assistant"]
    assert '"query": "frost"' in span.outputs[1]["tool_calls"]
    assert span.inputs["original"][3]["content"].endswith("I sent nothing.")
    assert (span.attributes["jrh.edited_text"], span.attributes["jrh.edited_message"]) == ("I told your chief.", 3)


def test_a_large_review_shows_what_was_edited_or_rejected_first_and_says_what_it_left_out(tmp_path, store, monkeypatch):
    monkeypatch.setattr(traces, "MAX_REVIEWED", 3)
    run_id, found = logged(two_reviewers(tmp_path), store, undecided=True)
    assert list(found) == ["s1/label_flip", "s2/label_flip", "s3/label_flip"]
    assert tag(store, run_id) == "3 of 4 decided items"


def test_nothing_decided_is_said_too(store):
    run_id = store.create_run("review", tags={})
    assert log_review_traces(store, run_id, [], kept="") == 0
    assert (tag(store, run_id), traces_of(store, run_id)) == ("0 of 0 decided items", {})


def test_writing_the_same_review_again_changes_nothing(store):
    run_id = store.create_run("review", tags={})
    both = [REVIEWED, replace(REVIEWED, item=made("t", "x"))]
    shown = []
    for _ in range(2):
        assert log_review_traces(store, run_id, both, kept="") == 2
        assert len(store.client.search_traces(locations=[store.experiment_id], run_id=run_id)) == 2
        shown.append({name: (said(one), one.data.to_dict()) for name, one in traces_of(store, run_id).items()})
    assert shown[0] == shown[1]


@pytest.mark.slow
def test_hostile_texts_and_names_survive_and_large_ones_are_whole_in_the_span(store):
    large = "x\x00" * 2_500_000
    item = replace(ITEM, response=SURVIVES, instruction=HOSTILE, meta={"generator": HOSTILE, "similarity": [[HOSTILE]]})
    hostile = replace(
        REVIEWED,
        item=item,
        source=replace(ITEM, response=large),
        state="edited",
        decisions=[ReviewerDecision(who="<b>Eve</b>", state="edited", reason=HOSTILE)],
        verdict=HOSTILE,
        edited_text=large,
    )
    run_id = store.create_run("review", tags={})
    log_review_traces(store, run_id, [hostile], kept="")
    (trace,) = traces_of(store, run_id).values()
    span = trace.data.spans[0]
    whole = large.replace("\x00", "\ufffd")
    assert (span.outputs, span.inputs["instruction"], span.inputs["original"]) == (SURVIVES, SURVIVES, whole)
    assert span.attributes["jrh.edited_text"] == whole
    told = {one.name: one for one in trace.info.assessments}
    assert told["review"].source.source_id == "<b>Eve</b>"
    assert told["review"].rationale.startswith("<script>alert('x')</script>\ufffd lone \ufffd ")
    assert len(told["edited_text"].value) == len(told["review"].rationale) == 1000


def test_a_planted_key_is_in_nothing_that_is_written(store_uri, tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    own = own_store(store_uri, tmp_path)
    item = replace(ITEM, id=f"s-{KEY}", response=KEY, instruction=KEY, expected=KEY, meta={"generator": KEY})
    leaky = replace(
        REVIEWED,
        item=item,
        test=KEY,
        by=KEY,
        label=KEY,
        validator=KEY,
        verdict=KEY,
        edited_text=KEY,
        decisions=[ReviewerDecision(who=KEY, state="edited", reason=f"says {KEY}")],
    )
    run_id = own.create_run("review", tags={})
    log_review_traces(own, run_id, [leaky], kept="")
    (trace,) = traces_of(own, run_id).values()
    assert trace.data.spans[0].outputs == "[key]"
    for file in tmp_path.rglob("*"):
        assert KEY.encode() not in (file.read_bytes() if file.is_file() else b"")


def test_a_store_that_loses_assessments_is_found_out_and_the_result_is_safe(store_uri, tmp_path):
    own = own_store(store_uri, tmp_path)
    with sqlite3.connect(tmp_path / "own" / "mlflow.db") as connection:
        lost = "INSERT ON assessments WHEN NEW.name = 'review'"
        connection.execute(f"CREATE TRIGGER lossy BEFORE {lost} BEGIN SELECT RAISE(IGNORE); END")
    connection.close()
    review = two_reviewers(tmp_path)
    done = finish(review, who="Ann", allow_undecided=True)
    with pytest.raises(TrackingError, match="MLflow holds 0 of 4 traces of run") as error:
        log_review(review, done, who="Ann", store=own)
    assert f"the reviewed suite is in {done.path}. Finishing the review again logs it again" in str(error.value)
    assert read_suite(done.path).sha256 == done.suite.sha256
    (run,) = own.client.search_runs([own.experiment_id])
    assert (run.info.status, run.data.metrics["review/edited"]) == ("FAILED", 1)
    told = ReviewLogger(tracking_uri=own.uri, experiment="own")(review, done, "Ann")
    assert told["run_id"] is None
    assert str(done.path) in told["note"]


def test_a_store_of_files_keeps_the_review_without_traces_and_says_so(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    files = Store((tmp_path / "files").as_uri(), "tests")
    review = two_reviewers(tmp_path)
    done = finish(review, who="Ann", allow_undecided=True)
    run_id = log_review(review, done, who="Ann", store=files)["run_id"]
    assert tag(files, run_id).startswith("0 of 4 decided items (")
    assert files.client.get_run(run_id).data.metrics["review/edited"] == 1
    assert files.client.get_run(run_id).data.tags["jrh.verdict"].startswith("4 of 5 ")
    assert "takes no spans" in capsys.readouterr().err
