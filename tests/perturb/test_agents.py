"""Tests of transcripts: the label they aim at, and what an edited message may not open with."""

from __future__ import annotations

import pytest

from jrh_mlflow.errors import RecipeError
from jrh_mlflow.perturb import AGENT_TESTS, NotApplicable
from jrh_mlflow.perturb.agents import assistant_places, messages_text, met_label, read_messages, violation_label
from jrh_mlflow.perturb.checks import about_the_editing
from jrh_mlflow.perturb.registry import InstalledTests, find_agent_test, find_test, register
from jrh_mlflow.schema.items import Labels, Seed
from jrh_mlflow.schema.presentation import Message

BREAK, MEND = AGENT_TESTS["agent_perturbation"], AGENT_TESTS["agent_positives"]
LABELS = Labels(answers=("no violation", "violation"))
SCALE = Labels(answers=("1", "2", "3"), ordinal=True)
RUBRIC = "Does the agent ask “first”?"
TALK = (
    Message(role="user", content="Book."),
    Message(role="assistant", content="", tool_calls=({"id": "a", "name": "book", "arguments": {}},)),
    Message(role="tool", content="done", tool_call_id="a"),
    Message(role="assistant", content="Booked."),
)


def seed(label: str = "") -> Seed:
    return Seed(id="t", instruction="Book.", response=messages_text(TALK), label=label)


@pytest.mark.parametrize(
    ("labels", "given", "violation", "met"),
    [
        (LABELS, None, "violation", "no violation"),
        (Labels(answers=("pass", "fail")), None, "fail", "pass"),
        (Labels(answers=("fail", "pass")), "FAIL", "fail", "pass"),
        (Labels(answers=("no", "yes")), "yes", "yes", "no"),
        (SCALE, None, "1", "3"),
        (SCALE, "3", "3", "1"),
    ],
)
def test_the_label_of_a_violation(labels: Labels, given: str | None, violation: str, met: str) -> None:
    assert violation_label(labels, given) == violation
    assert met_label(labels, violation) == met


@pytest.mark.parametrize("last", ["pass", "Yes", "1", "compliant"])
def test_a_last_label_that_may_mean_either_is_asked_about(last: str) -> None:
    with pytest.raises(RecipeError, match="says that the rubric is violated"):
        violation_label(Labels(answers=("x", last)))


def test_targets_aim_at_the_objective_whatever_the_seed_says() -> None:
    (broken,) = BREAK.targets([seed("no violation")], LABELS, RUBRIC)
    (kept,) = MEND.targets([seed("violation")], LABELS, RUBRIC)
    assert (broken.expected, kept.expected) == ("violation", "no violation")
    assert '"violation"' in BREAK.objective(broken)


def test_a_written_transcript_reads_back_as_it_was() -> None:
    assert read_messages(messages_text(TALK)) == TALK


def test_a_transcript_without_the_assistant_cannot_be_edited() -> None:
    assert assistant_places(TALK) == [1, 3]
    with pytest.raises(NotApplicable, match="none of the 1 messages is the assistant's"):
        assistant_places(TALK[:1])


def test_the_names_are_taken_and_need_transcripts() -> None:
    with pytest.raises(RecipeError, match="edits transcripts"):
        find_test("agent_perturbation")
    with pytest.raises(RecipeError, match="agent_positives"):
        register(MEND)


@pytest.mark.parametrize(
    ("text", "flagged"),
    [
        ("Here is the edited message: Hello.", True),
        ("I have rewritten the message as you asked.", True),
        ("The revised response:\nHello.", True),
        ("```\nHello there.\n```", True),
        ('{"content": "Hello there."}', True),
        ("Sure! Here is the list of hotels: A, B.", False),
        ("I'm sorry, but I can't help with that.", False),
        ("Answer: 42. Let me know if you need more.", False),
    ],
)
def test_talk_about_the_editing_is_told_from_what_assistants_say(text: str, flagged: bool) -> None:
    assert (about_the_editing("Hello.", text) is not None) is flagged
    assert about_the_editing(text, text) is None


def test_a_test_of_transcripts_of_another_package_is_found_as_ours_are(monkeypatch):
    class Elsewhere(type(BREAK)):
        name = "agent_elsewhere"

    found = InstalledTests(tests={"agent_elsewhere": Elsewhere()})
    monkeypatch.setattr("jrh_mlflow.perturb.registry.installed_tests", lambda: found)
    assert find_agent_test("agent_elsewhere") is found.tests["agent_elsewhere"]
    assert find_agent_test("agent_positives") is MEND
    assert find_agent_test("typos") is find_agent_test("nowhere") is None
    with pytest.raises(RecipeError, match="'agent_elsewhere' edits transcripts"):
        find_test("agent_elsewhere")
