"""Transcripts as baseline items, with labels from the log, saved and read as a suite."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

import jrh_mlflow as jrh
from jrh_mlflow.errors import RecipeError
from jrh_mlflow.schema.items import Item, Labels
from jrh_mlflow.schema.presentation import Message
from jrh_mlflow.suites.suite import read_suite
from jrh_mlflow.suites.transcripts import Transcript, read_transcripts, transcript_items
from tests.suites.transcripts.logs import sample, scored, write_log

LABELS = ("met", "violated")


def items(transcripts: Any, **options: Any) -> list[Item]:
    return transcript_items(transcripts, rubric="Nothing is booked twice.", **{"labels": LABELS, **options})


def talk(id: str, **fields: Any) -> Transcript:
    return Transcript(id=id, messages=(Message(role="user", content="Hi"),), **fields)


def test_items_of_a_log_carry_task_label_group_and_where_they_come_from(tmp_path):
    samples = [
        sample(1, scores=scored(match="C"), metadata={"category": "easy"}),
        sample(2, scores=scored(match="I"), metadata={"category": "hard"}),
    ]
    log = write_log(tmp_path / "log.eval", samples, listed=[1, 2, 3])
    with pytest.warns(UserWarning, match="2 of 3"):
        first, second = items(
            read_transcripts(log),
            label="scores.match",
            values={"C": "met", "I": "violated"},
            group="category",
            preprocess=["drop_reasoning", "keep_last:10"],
        )
    assert (first.id, first.task, first.condition, first.kind) == (
        "booking-evalid/1/baseline",
        "booking-evalid/1",
        "baseline",
        "transcript",
    )
    assert (first.expected, second.expected, first.answers) == ("met", "violated", LABELS)
    assert (first.instruction, first.rubric) == ("A table for two.", "Nothing is booked twice.")
    assert first.meta["group"] == "easy"
    assert (first.meta["sample_id"], first.meta["epoch"]) == (1, 1)
    assert first.meta["source"]["file"] == "log.eval"
    assert first.meta["source"]["held"] == "2 of 3"
    assert first.meta["preprocess"][0] == {"step": "drop_reasoning", "messages": 0, "reasoning": 1}
    assert first.transcript is not None
    assert all(message.reasoning is None for message in first.transcript)


def test_a_suite_of_transcripts_is_the_same_after_saving(tmp_path):
    made = items(read_transcripts(write_log(tmp_path / "log.eval", [sample()])))
    suite = jrh.Suite(name="talks", items=made)
    back = read_suite(suite.save(tmp_path / "talks"))
    assert back.sha256 == suite.sha256
    assert back.items[0].transcript == made[0].transcript


def test_suites_without_the_newer_fields_keep_their_bytes():
    message = Message(role="tool", content="x", tool_call_id="1")
    item = Item(
        id="t",
        task="t",
        condition="baseline",
        kind="transcript",
        instruction="i",
        transcript=(message,),
        answers=LABELS,
    )
    (saved,) = json.loads(jrh.Suite(name="s", items=[item]).content)["transcript"]
    assert saved == {"role": "tool", "content": "x", "tool_call_id": "1", "tool_calls": []}
    richer = replace(item, transcript=(replace(message, error="timeout", id="m"),))
    (saved,) = json.loads(jrh.Suite(name="s", items=[richer]).content)["transcript"]
    assert saved == {
        "role": "tool",
        "content": "x",
        "tool_call_id": "1",
        "tool_calls": [],
        "error": "timeout",
        "id": "m",
    }


@pytest.mark.parametrize(
    ("field", "transcript"),
    [
        ("match", talk("a", scores={"match": "VIOLATED"})),
        ("scores.graded.verdict", talk("a", scores={"graded": {"verdict": "violated"}})),
        ("metadata.label", talk("a", metadata={"label": "violated"}, scores={"label": "met"})),
        ("label", talk("a", metadata={"label": "violated"})),
        ("target", talk("a", target=("violated",))),
        ("target", talk("a", target=(" Violated",))),
    ],
)
def test_labels_are_found_among_scores_metadata_and_targets(field, transcript):
    assert items([transcript], label=field)[0].expected == "violated"


def test_labels_may_be_given_by_transcript_and_booleans_be_mapped():
    assert [one.expected for one in items([talk("a"), talk("b")], label={"a": "met", "b": "violated"})] == list(LABELS)
    assert items([talk("a", scores={"ok": True})], label="ok", values={"true": "met"})[0].expected == "met"
    scale = Labels(answers=("1", "2", "3"), ordinal=True)
    assert items([talk("a", scores={"grade": 3.0})], label="grade", labels=scale)[0].expected == "3"


def test_without_a_label_nothing_is_expected():
    (item,) = items([talk("a")])
    assert item.expected is None
    assert item.instruction == "The task is what the transcript's messages ask for."


@pytest.mark.parametrize(
    ("transcripts", "options", "message"),
    [
        ([], {}, "There are no transcripts"),
        ([talk("a", scores={"match": "C"})], {"label": "matsch"}, r"'matsch'.* Fields there are: scores.match."),
        ([talk("a")], {"group": "kind"}, "They have no scores and no metadata"),
        ([talk("a", scores={"m": "met"}), talk("b", scores={"m": None})], {"label": "m"}, r"row 2 \(id 'b'\)"),
        ([talk("a", scores={"m": "C"})], {"label": "m"}, r"must hold one of .*row 1 \(id 'a'\): 'C'"),
        ([talk("a", scores={"m": "met"}, metadata={"m": "met"})], {"label": "m"}, "Say 'scores.m' or 'metadata.m'"),
        ([talk("abc")], {"label": {"abd": "met"}}, "no transcript 'abd' to label. Did you mean 'abc'?"),
        ([talk("a", target=("met", "violated"))], {"label": "target"}, "'a' has several targets .'met', 'violated'."),
        ([talk("a"), talk("a")], {}, "Transcript 'a' comes twice"),
        ([talk("a")], {"preprocess": ["keep"]}, "Unknown preprocessor 'keep'"),
    ],
)
def test_what_cannot_be_labelled_or_grouped_is_refused(transcripts, options, message):
    with pytest.raises(RecipeError, match=message):
        items(transcripts, **options)
