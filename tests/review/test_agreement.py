"""Agreement, on reviews small enough to count by hand."""

from __future__ import annotations

import csv
import json

import pytest

from jrh_mlflow.review.assignment import reviewer_agreement, validator_agreement
from jrh_mlflow.review.finish import finish, log_review
from jrh_mlflow.schema.estimates import Estimate, NotEstimable
from jrh_mlflow.stats.proportions import wilson
from jrh_mlflow.suites.suite import read_suite
from jrh_mlflow.tracking.runs.store import Store, download
from tests.review.making import baseline, made, opened, saved_suite
from tests.review.test_result import decide


def five(tmp_path, verdicts):
    items = []
    for n, verdict in enumerate(verdicts):
        items += [baseline(f"s{n}", "plain"), made(f"s{n}", f"changed {n}", validator=verdict)]
    return opened(saved_suite(tmp_path / "suite", items))


def readings(review):
    _, entries = review.placed()
    with review.decisions.current() as standings:
        return validator_agreement(entries.values(), standings), reviewer_agreement(entries, standings)


def test_the_validator_agrees_when_it_says_what_the_reviewer_decided(tmp_path):
    review = five(tmp_path, ["fail", "fail", "fail", "pass", "not asked"])
    decide(review, 0, "accept")  # fail, kept as fail: agrees
    decide(review, 1, "edit", label="pass")  # fail, but pass for the reviewer: does not
    decide(review, 2, "reject", reason="no")  # confirmed, but rejected: does not
    decide(review, 3, "reject", reason="no")  # not confirmed, and rejected: agrees
    decide(review, 4, "accept")  # no verdict to compare
    reading, _ = readings(review)
    assert isinstance(reading, Estimate)
    assert (reading.value, reading.n, reading.excluded, reading.n_clusters) == (0.5, 4, 1, 4)
    assert (reading.ci_low, reading.ci_high) == wilson(2, 4)


def test_agreement_is_not_a_number_before_anything_was_decided(tmp_path):
    reading, between = readings(five(tmp_path, ["fail"]))
    assert isinstance(reading, NotEstimable)
    assert between is None


def test_two_reviewers_are_compared_on_what_both_decided_whoever_came_last(tmp_path):
    review = five(tmp_path, ["fail"] * 5)
    for index in range(4):
        decide(review, index, "accept", who="Ann")
    decide(review, 4, "reject", who="Ann", reason="no")
    for index in (0, 1):
        decide(review, index, "accept", who="Bob")
    decide(review, 2, "edit", who="Bob", text="better")
    decide(review, 3, "reject", who="Bob", reason="no")
    _, between = readings(review)
    (pair,) = between["reviewers"]
    assert (pair["reviewers"], pair["n"], pair["rate"], pair["same_decision"]) == (["Ann", "Bob"], 4, 0.75, 0.5)
    # Ann keeps all four, Bob three of them: by chance they agree on 3/4, so kappa is 0.
    assert pair["kappa"] == pytest.approx(0.0)
    # Mean share of rejections 1/8: chance 2 * 1/8 * 7/8 = 0.21875, AC1 = (0.75 - 0.21875) / 0.78125.
    assert pair["ac1"] == pytest.approx(0.68)
    assert between["disputed"] == [3]


def test_a_finished_review_is_a_run_with_metrics_tables_and_the_suite(tmp_path, store_uri):
    review = five(tmp_path, ["fail", "fail", "pass", "fail"])
    decide(review, 0, "accept")
    decide(review, 1, "edit", text='say "no", twice\nover')
    decide(review, 2, "reject", reason="=1+1")
    done = finish(review, who="Ann", allow_undecided=True)
    store = Store(store_uri, "review")
    logged = log_review(review, done, who="Ann", store=store)
    run = store.client.get_run(logged["run_id"])
    assert run.info.status == "FINISHED"
    assert run.data.tags["jrh.kind"] == "review"
    assert run.data.params["parent.sha256"] == read_suite(review.folder).sha256
    counts = {name: run.data.metrics[f"review/{name}"] for name in ("accepted", "edited", "rejected", "undecided")}
    assert counts == {"accepted": 1, "edited": 1, "rejected": 1, "undecided": 1}
    assert run.data.metrics["review/validator_agreement/rate"] == 1.0
    assert run.data.metrics["review/validator_agreement/n"] == 3
    assert run.data.metrics["review/validator_agreement/ci_low"] == pytest.approx(wilson(3, 3)[0])
    assert run.data.metrics == pytest.approx(logged["metrics"])
    folder = download(f"runs:/{logged['run_id']}/", tracking_uri=store_uri)
    assert read_suite(folder / "suite").sha256 == done.suite.sha256
    table = json.loads((folder / "decisions.json").read_text())
    states = {row[0]: row[2] for row in table["data"]}
    assert table["columns"][:3] == ["item", "test", "state"]
    assert states == {f"s{n}/label_flip": s for n, s in enumerate(["accepted", "edited", "rejected", "undecided"])}
    with (folder / "decisions.csv").open(newline="") as file:
        events = list(csv.DictReader(file))
    assert [event["action"] for event in events] == ["accept", "edit", "reject", "finish"]
    assert events[1]["text"] == 'say "no", twice\nover'
