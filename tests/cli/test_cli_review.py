"""`jrh review`, and generation that a review can watch."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from jrh_mlflow.cli.main import group
from jrh_mlflow.generation.generate import run_generation
from jrh_mlflow.options import GenerationSettings
from jrh_mlflow.review.contents import folder_review
from jrh_mlflow.suites.suite import PARTIAL_FILE, partial_file, read_suite
from tests.review.making import opened, reviewing_process, saved_suite, suite_items
from tests.review.test_result import decide

CITIES = [("The city of number one is large and old.", "pass"), ("Number two is a small town by the sea.", "pass")]
CITIES += [("I do not know any city at all.", "fail")]
ROWS = [
    {"id": f"r{n}", "instruction": "Name a city.", "response": text, "label": label}
    for n, (text, label) in enumerate(CITIES)
]


def run(*arguments):
    return CliRunner().invoke(group, ["review", *map(str, arguments)])


def test_a_review_is_finished_from_the_command_line(tmp_path):
    folder = saved_suite(tmp_path / "suite")
    review = opened(folder)
    decide(review, 0, "accept")
    refused = run(folder, "--finish", "--reviewer", "Ann", "--no-log")
    assert "3 of 4 items are undecided. Decide them, or finish without them: --allow" in str(refused.exception)
    told = run(folder, "--finish", "--allow-undecided", "--reviewer", "Ann", "--no-log", "--json")
    done = json.loads(told.output)
    assert done["left_out"] == {"rejected": 0, "undecided": 3}
    assert read_suite(done["path"]).sha256 == done["sha256"]


def test_finishing_needs_a_name(tmp_path):
    told = run(saved_suite(tmp_path / "suite"), "--finish")
    assert (told.exit_code, "--reviewer NAME" in told.output) == (2, True)


def test_starting_a_review_holds_the_suite_back_and_withdrawing_gives_it_free(tmp_path):
    folder = saved_suite(tmp_path / "suite")
    with reviewing_process(folder) as client:
        assert client.get("/api/suites")[0]["name"] == "suite"
        assert read_suite(folder).origin["review"] == "open"
    assert run(folder, "--withdraw").exit_code == 0
    assert "review" not in read_suite(folder).origin


def test_items_can_be_reviewed_before_generation_has_ended(tmp_path, store_uri):
    folder = tmp_path / "suite"
    review, seen = folder_review_of(folder), []
    with partial_file(folder) as write:

        def watched(items):
            write(items)
            content, entries = review.placed()
            seen.append((len(entries), content.growing))

        settings = GenerationSettings(
            dataset=ROWS,
            tests=["format_invariance_3", "typos"],
            rubric="Is it an answer?",
            labels=("fail", "pass"),
            tracking_uri=store_uri,
            experiment="review",
            progress=False,
        )
        done = run_generation(settings, on_items=watched)
        first = next(iter(review.placed()[1].values())).item.id
        decide(review, 0, "accept")
        done.suite.save(folder)
    assert not (folder / PARTIAL_FILE).exists()
    assert seen[0] == (0, True)
    assert [count for count, _ in seen] == sorted(count for count, _ in seen)
    content, entries = review.placed()
    assert (content.growing, content.sha256) == (False, done.suite.sha256)
    assert len(entries) == seen[-1][0] == sum(item.condition != "baseline" for item in done.suite.items)
    assert entries[0].item.id == first
    with review.decisions.current() as standings:
        assert standings.of(entries[0].key).state.state == "accepted"
    assert read_suite(folder).origin["review"] == "open"


def test_a_generation_that_fails_leaves_its_items_only_to_a_review_that_has_begun(tmp_path):
    def broken(folder):
        with partial_file(folder) as write:
            write(suite_items(1))
            raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        broken(tmp_path / "alone")
    assert not (tmp_path / "alone").exists()
    review = folder_review_of(tmp_path / "watched")
    review.decisions.close()
    with pytest.raises(ValueError, match="broken"):
        broken(review.folder)
    assert len(review.content().items) == 3


def folder_review_of(folder):
    folder.mkdir()
    return folder_review(folder)
