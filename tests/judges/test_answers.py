"""From what a judge returns to an outcome: case and outer spaces are forgiven, nothing else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jrh_mlflow import Answer
from jrh_mlflow.judges.parsing import read_answer
from jrh_mlflow.schema.items import OUTCOMES
from jrh_mlflow.schema.presentation import FORCED_ANSWERS, PAIR_ANSWERS
from jrh_mlflow.text import clean_text
from tests.readings import PROPERTY


@pytest.mark.parametrize(
    ("returned", "outcome", "answer"),
    [
        ("1", "verdict", "1"),
        ("2", "verdict", "2"),
        (" 1\n", "verdict", "1"),
        (1, "verdict", "1"),
        (2.0, "verdict", "2"),
        ("tie", "tie", ""),
        ("TIE ", "tie", ""),
        ("\tTie", "tie", ""),
        ("abstain", "abstain", ""),
        ("Abstain ", "abstain", ""),
        (Answer("1", rationale="better"), "verdict", "1"),
        (Answer("TIE "), "tie", ""),
    ],
)
def test_an_answer_in_any_case_and_with_outer_spaces_is_that_answer(returned, outcome, answer):
    assert read_answer(returned, PAIR_ANSWERS) == (outcome, answer, None)


@pytest.mark.parametrize(
    "returned",
    [
        "3",
        3,
        0,
        -1,
        1.5,
        "1.0",
        "1.",
        "01",
        "1 ties",
        "t ie",
        "tied",
        "first",
        "A",
        "Response 1 is better.",
        "",
        " ",
        None,
        True,
        False,
        b"1",
        ["1"],
        {"winner": "1"},
        float("nan"),
        float("inf"),
        object,
        Answer(None),
        Answer(Answer("1")),
    ],
)
def test_everything_else_is_unparsed_and_says_what_came(returned):
    outcome, answer, reason = read_answer(returned, PAIR_ANSWERS)
    assert (outcome, answer) == ("unparsed", "")
    shown = returned.value if isinstance(returned, Answer) else returned
    assert reason == f"{shown!r} is not one of '1', '2', 'tie'"


def test_a_tie_that_was_not_offered_is_unparsed():
    outcome, _, reason = read_answer("tie", FORCED_ANSWERS)
    assert outcome == "unparsed"
    assert reason == "'tie' is not one of '1', '2'"


def test_abstaining_is_always_allowed():
    assert read_answer("abstain", FORCED_ANSWERS)[0] == "abstain"
    assert read_answer("abstain", ("yes", "no"))[0] == "abstain"


@pytest.mark.parametrize(
    ("returned", "answers", "found"),
    [
        ("YES", ("yes", "no"), "yes"),
        (True, ("True", "False"), "True"),
        (False, ("true", "false"), "false"),
        (4, ("1", "2", "3", "4", "5"), "4"),
        (4.0, ("1", "2", "3", "4", "5"), "4"),
        (0.5, ("0", "0.5", "1"), "0.5"),
        ("straße", ("STRASSE",), "STRASSE"),
    ],
)
def test_labels_and_levels_come_back_as_they_are_spelled_in_the_suite(returned, answers, found):
    assert read_answer(returned, answers) == ("verdict", found, None)


def test_a_bool_is_never_a_slot_or_a_level():
    assert read_answer(True, ("0", "1"))[0] == "unparsed"
    assert read_answer(False, ("0", "1"))[0] == "unparsed"


@PROPERTY
@given(st.one_of(st.text(), st.integers(), st.floats(), st.booleans(), st.none(), st.binary(), st.lists(st.text())))
def test_whatever_comes_is_an_outcome_and_never_a_crash(returned):
    outcome, answer, reason = read_answer(returned, PAIR_ANSWERS)
    assert outcome in OUTCOMES
    assert (answer != "") == (outcome == "verdict")
    assert (reason is not None) == (outcome == "unparsed")


def test_lone_surrogates_are_replaced_and_the_rest_is_kept():
    assert clean_text("ok \ud800 ü 🙂") == "ok \ufffd ü 🙂"


def test_enumerations_and_numpy_numbers_are_what_they_hold():
    import enum

    import numpy as np

    class Slot(str, enum.Enum):
        FIRST = "1"

    for value in (Slot.FIRST, np.int64(1), np.float32(1.0), np.str_("1")):
        assert read_answer(value, ("1", "2", "tie")) == ("verdict", "1", None)
    assert read_answer(np.bool_(True), ("1", "2", "tie"))[0] == "unparsed"


def test_an_object_that_cannot_be_printed_is_unparsed_all_the_same():
    class Unprintable:
        def __repr__(self) -> str:
            raise RuntimeError

    outcome, _, reason = read_answer(Unprintable(), ("1", "2"))
    assert outcome == "unparsed"
    assert "cannot be printed" in (reason or "")
