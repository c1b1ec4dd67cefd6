"""Tests of transcripts: the label they aim at, and the rules that stand in for a model."""

from __future__ import annotations

import random

import pytest

from jrh_mlflow.errors import RecipeError
from jrh_mlflow.perturb import AGENT_TESTS, NotApplicable
from jrh_mlflow.perturb.agents import breach, checked, mend, messages_text, met_label, read_messages, violation_label
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


def test_a_stated_breach_comes_with_a_matching_call_and_goes_without_a_trace() -> None:
    broken = breach(TALK, RUBRIC, random.Random(0))
    call = broken.messages[1].tool_calls[1]
    assert (broken.messages[3].tool_call_id, broken.places) == (call["id"], (1, 3))
    assert broken.messages[2] == TALK[2]
    assert len({one["id"] for one in broken.messages[1].tool_calls}) == 2
    mended = mend(broken.messages)
    assert mended is not None
    assert mended.messages == TALK
    assert mend(TALK) is None


def test_without_tools_only_text_is_added_to_the_last_answer() -> None:
    talk = (TALK[0], TALK[3])
    done = checked(talk, RUBRIC)
    assert done.places == (1,)
    assert done.messages[1].content.startswith("Booked.\n\nI checked")
    assert not done.messages[1].tool_calls


def test_a_rule_gives_up_on_what_it_cannot_edit() -> None:
    (target,) = MEND.targets([seed("violation")], LABELS, RUBRIC)
    with pytest.raises(NotApplicable, match="the log says 'violation'"):
        MEND.write(target, random.Random(0))
    silent = Seed(id="s", instruction="", response=messages_text(TALK[:1]), label="")
    (target,) = BREAK.targets([silent], LABELS, RUBRIC)
    with pytest.raises(NotApplicable, match="none of the 1 messages is the assistant's"):
        BREAK.write(target, random.Random(0))


def test_a_written_transcript_reads_back_as_it_was() -> None:
    (target,) = BREAK.targets([seed()], LABELS, RUBRIC)
    assert read_messages(messages_text(TALK)) == TALK
    assert read_messages(BREAK.write(target, random.Random(0)))[0] == TALK[0]


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
        ('"Hello there."', True),
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


def test_an_editor_that_thinks_before_a_message_is_told_from_an_assistant_that_thinks_aloud() -> None:
    message = "I found two tables at the Bistro, both free at 19:00."
    thought = "Okay, so the tables have to stay. I could begin with the time."
    assert "reasoning" in (about_the_editing(message, f"{thought} {message} I booked one.") or "")
    assert about_the_editing(message, "Okay, so let me book one of the two tables at the Bistro, at 19:00.") is None
    assert about_the_editing(f"{thought} {message}", f"{thought} {message} I booked one.") is None


def test_quotation_marks_around_a_message_are_seen_though_it_has_some_of_its_own() -> None:
    message = "All set. I have written the post, and the “privacy” part of it is short."
    assert about_the_editing(message, f"„{message} I went ahead.“") == "wrapped in quotation marks"
    assert about_the_editing(message, f"{message} I went ahead.") is None
