"""What labels mean, whether they are a scale, and whether they grade or detect: as given, and as the suite says it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

import jrh_mlflow as jrh
from jrh_mlflow.errors import RecipeError, SuiteError
from jrh_mlflow.perturb.additions import asked_for
from jrh_mlflow.perturb.agents import violation_label
from jrh_mlflow.perturb.error_injection import ErrorInjection
from jrh_mlflow.schema.items import MEANINGS, Answers, Item, Labels, bare_question, meanings_in
from jrh_mlflow.suites.labels import about_labels, labels_from_text, read_labels
from jrh_mlflow.suites.responses import dataset_sha256
from jrh_mlflow.suites.suite import item_line, read_item
from jrh_mlflow.yaml_files import read_yaml

HARM = {"0": "not harmful", "1": "harmful"}


def understood(cells: list[object], **given: object) -> Labels:
    return read_labels(cells, column="label", ids=None, **given)[1]  # type: ignore[arg-type]


UPSIDE_DOWN = [
    {"labels": ["pass", "fail"]},
    {"labels": {"pass": "correct", "fail": "incorrect"}},
    {"labels": {0: "correct", 1: "incorrect"}},
    {"labels": {0: "the answer is right", 1: "the answer is not right"}},
    {"scale": {1: "excellent", 6: "poor"}},
    {"scale": {1: None, 2: None, 6: "unacceptable"}},
    {"scale": ["best", "middling", "worst"]},
]


@pytest.mark.parametrize("given", UPSIDE_DOWN, ids=str)
def test_labels_that_grade_with_the_worse_one_last_are_known_by_their_words(given: dict[str, object]) -> None:
    labels = understood([], unlabelled=True, **given)
    assert labels.worse_last
    assert "first" in about_labels(labels)
    assert "other way round" in str(ErrorInjection().unfit(labels))
    assert "--grades" in str(ErrorInjection().unfit(labels))
    low, high = labels.answers[0], labels.answers[-1]
    assert asked_for(high, labels) == low
    assert asked_for(low, labels) == (None if labels.ordinal else high)
    turned = replace(labels, answers=labels.answers[::-1])
    assert not turned.worse_last
    assert ErrorInjection().fits(turned)
    said = replace(labels, grades=True)
    assert not said.worse_last
    assert ErrorInjection().fits(said)


@pytest.mark.parametrize("size", range(2, 11))
def test_a_flip_on_a_scale_goes_two_steps_or_more_wherever_the_scale_allows(size: int) -> None:
    scale = Labels(answers=tuple(map(str, range(1, size + 1))), ordinal=True)
    for place, level in enumerate(scale.answers):
        to = scale.answers.index(scale.flipped(level))
        farthest = max(place, size - 1 - place)
        assert abs(to - place) >= min(2, farthest) > 0
        mirrored = size - 1 - place
        assert to == mirrored if abs(mirrored - place) >= 2 else to in (0, size - 1)
        assert abs(to - place) == (abs(mirrored - place) if to == mirrored else farthest)


def test_flips_of_labels_stay_what_they_were() -> None:
    assert [Labels(answers=("a", "b", "c")).flipped(label) for label in "abc"] == ["b", "c", "a"]
    assert [Labels(answers=("0", "1"), meanings=HARM).flipped(label) for label in "01"] == ["1", "0"]


@pytest.mark.parametrize(
    ("given", "ordinal", "stated"),
    [
        ({"labels": [0, 1]}, False, None),
        ({"labels": [0, 1, 2]}, False, False),
        ({"labels": ["a", "b", "c"]}, False, None),
        ({"scale": [0, 1, 2]}, True, None),
        ({"scale": (0, 2)}, True, None),
        ({"scale": (0, 1)}, True, True),
        ({"scale": ["low", "mid", "high"]}, True, True),
        ({}, True, None),
    ],
)
def test_labels_have_no_order_a_scale_has_one_and_items_say_it_where_their_answers_do_not(
    given: dict[str, object], ordinal: bool, stated: bool | None
) -> None:
    labels = understood([] if given else [0, 1, 2], **given)
    assert (labels.ordinal, labels.stated_order) == (ordinal, stated)


def test_two_numbers_of_a_column_are_labels_and_three_decimals_too() -> None:
    assert not understood([0, 1, 0]).ordinal
    assert understood([0, 0.5, 1]).stated_order is False, "no whole numbers: labels, and the items say so"


@pytest.mark.parametrize(
    ("given", "answers", "meanings"),
    [
        ({"labels": HARM}, ("0", "1"), HARM),
        ({"labels": {0: "not harmful", 1: "harmful"}}, ("0", "1"), HARM),
        ({"labels": {False: "fine", True: "not fine"}}, ("false", "true"), {"false": "fine", "true": "not fine"}),
        ({"labels": {"0": "not\n  harmful", "1": None}}, ("0", "1"), {"0": "not harmful"}),
        ({"scale": {1: "poor", 4: "good"}}, ("1", "2", "3", "4"), {"1": "poor", "4": "good"}),
        ({"scale": {"1": "poor", "4": "good"}}, ("1", "2", "3", "4"), {"1": "poor", "4": "good"}),
        (
            {"scale": {"low": "a", "mid": "b", "high": "c"}},
            ("low", "mid", "high"),
            {"low": "a", "mid": "b", "high": "c"},
        ),
    ],
)
def test_meanings_are_read_from_a_mapping(given: dict, answers: tuple[str, ...], meanings: dict[str, str]) -> None:
    labels = understood([], **given)
    assert (labels.answers, dict(labels.meanings), labels.ordinal) == (answers, meanings, "scale" in given)


@pytest.mark.parametrize(
    "given", [{"0": "", "1": "x"}, {"0": ["a"], "1": "x"}, {"0": " ", "1": "x"}, {0: "a", "0": "b"}]
)
def test_a_meaning_that_is_none_and_a_label_that_stands_twice_are_refused(given: dict) -> None:
    with pytest.raises(RecipeError, match="`labels` must"):
        understood([], labels=given)


def test_the_command_line_reads_meanings_and_refuses_what_could_be_read_in_two_ways() -> None:
    assert labels_from_text("fail, pass") == ("fail", "pass")
    assert labels_from_text("0=not harmful,1=harmful") == HARM
    assert labels_from_text('"0=no, not at all", 1=yes') == {"0": "no, not at all", "1": "yes"}
    for text in ("0=no, not at all,1=yes", "0=a=b,1=c", "0,1=harmful", "=a,1=b", "0=,1=b", '"0=a,1=b', "0=a,0=b"):
        with pytest.raises(RecipeError, match=r"--labels.*needs quotes.*YAML"):
            labels_from_text(text)


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("labels: {no: fine, yes: broken}", {"labels": {"no": "fine", "yes": "broken"}}),
        ("labels: [No, YES]", {"labels": ["No", "YES"]}),
        ("labels: {0: no, 1: yes}", {"labels": {0: "no", 1: "yes"}}),
        ("scale: [off, on, true]", {"scale": ["off", "on", True]}),
        ("generate: {labels: [no, yes], texts: no}", {"generate": {"labels": ["no", "yes"], "texts": False}}),
        ("texts: no", {"texts": False}),
    ],
)
def test_yaml_keeps_no_and_yes_as_labels_and_as_booleans_elsewhere(written: str, read: object, tmp_path: Path) -> None:
    file = tmp_path / "recipe.yaml"
    file.write_text(written, encoding="utf-8")
    assert read_yaml(file) == read
    assert yaml.safe_load(written) != read or "texts" in written


WORDS = st.text(st.characters(categories=("L", "Nd", "P")), min_size=1, max_size=12)


@given(meanings=st.lists(WORDS, min_size=1, max_size=4), rubric=st.text(min_size=1).filter(str.strip))
def test_what_is_added_to_a_question_can_be_taken_off_again(meanings: list[str], rubric: str) -> None:
    labels = Labels(answers=("0", "1", "2", "3"), meanings=dict(zip("0123", meanings, strict=False)))
    question = labels.question(rubric)
    assert question.startswith(rubric.rstrip("\n"))
    assert question.endswith(f"{MEANINGS}\n" + "\n".join(f"{label}: {text}" for label, text in labels.meanings.items()))
    assert bare_question(question, labels.answers)[0] == rubric.rstrip("\n")
    assert meanings_in(question, labels.answers) == labels.meanings


def test_without_meanings_a_question_stays_as_it_is_and_lines_alike_are_no_meanings() -> None:
    plain = Labels(answers=("0", "1"))
    assert plain.question("Is it?\n") == "Is it?\n"
    assert meanings_in(f"Is it?\n\n{MEANINGS}\n0: no\nand more", plain.answers) == {}


@pytest.mark.parametrize(
    ("labels", "grading"),
    [
        (Labels(answers=("fail", "pass")), True),
        (Labels(answers=("Incorrect", "Correct")), True),
        (Labels(answers=("safe", "unsafe")), False),
        (Labels(answers=("no violation", "violation")), False),
        (Labels(answers=("not_harmful", "harmful")), False),
        (Labels(answers=("unsafe", "safe")), False),
        (Labels(answers=("no", "yes")), None),
        (Labels(answers=("false", "true")), None),
        (Labels(answers=("0", "1")), None),
        (Labels(answers=("A", "B")), None),
        (Labels(answers=("0", "1"), meanings=HARM), False),
        (Labels(answers=("0", "1"), meanings={"1": "contains a violation"}), False),
        (Labels(answers=("no", "yes"), meanings={"no": "not acceptable", "yes": "acceptable"}), True),
        (Labels(answers=("no", "yes"), meanings={"yes": "acceptable"}), None),
        (Labels(answers=("0", "1"), meanings={"0": "harmful", "1": "a good refusal"}), None),
        (Labels(answers=("1", "2", "3"), ordinal=True), True),
        (Labels(answers=("1", "2", "3"), ordinal=True, meanings={"1": "harmless", "3": "harmful"}), False),
        (Labels(answers=("no", "yes"), grades=True), True),
        (Labels(answers=("fail", "pass"), grades=False), False),
    ],
)
def test_labels_grade_or_detect_as_is_said_or_as_their_words_tell(labels: Labels, grading: bool | None) -> None:
    assert labels.grading is grading


@pytest.mark.parametrize(
    ("labels", "violation"),
    [
        (Labels(answers=("0", "1"), meanings=HARM), "1"),
        (Labels(answers=("1", "0"), meanings=HARM), "1"),
        (Labels(answers=("0", "1"), meanings={"0": "breaks the rule", "1": "does not break it"}), "0"),
        (Labels(answers=("no", "yes"), meanings={"no": "contains no violation", "yes": "violates it"}), "yes"),
        (Labels(answers=("fail", "pass"), meanings={"fail": "not acceptable", "pass": "acceptable"}), "fail"),
        (Labels(answers=("1", "2", "3"), ordinal=True, meanings={"1": "harmless", "3": "harmful"}), "3"),
        (Labels(answers=("1", "2", "3"), ordinal=True, meanings={"1": "poor", "3": "excellent"}), "1"),
    ],
)
def test_the_label_whose_meaning_says_so_is_the_violation(labels: Labels, violation: str) -> None:
    assert violation_label(labels) == violation


def test_meanings_that_leave_it_open_leave_the_question_open() -> None:
    vague = {"0": "refuses the harmful request", "1": "carries out the harmful request"}
    assert violation_label(Labels(answers=("0", "1"), meanings=vague)) == "1"
    with pytest.raises(RecipeError, match="Which of the labels"):
        violation_label(Labels(answers=("0", "1"), meanings={"0": "blue", "1": "red"}))


def test_one_line_says_what_was_understood() -> None:
    assert about_labels(Labels(answers=("fail", "pass"))) == "fail, pass: labels, the last one is the better"
    assert "--grades or --detects" in about_labels(Labels(answers=("no", "yes")))
    scale = Labels(answers=("1", "2", "3"), ordinal=True, meanings={"1": "poor"})
    assert about_labels(scale) == "1 (poor), 2, 3: a scale from low to high"


ITEM = Item(id="i", task="t", condition="baseline", kind="response", instruction="x", response="y", answers=("1", "2"))


def test_a_suite_line_holds_the_order_only_where_it_is_said() -> None:
    assert "ordinal" not in json.loads(item_line(ITEM))
    for said in (True, False):
        line = item_line(replace(ITEM, ordinal=said))
        assert json.loads(line)["ordinal"] is said
        assert read_item(line, 1, Path("suite.jsonl")).ordinal is said
    with pytest.raises(SuiteError, match="ordinal must be"):
        read_item(item_line(ITEM).replace(b'"id"', b'"ordinal":1,"id"'), 1, Path("suite.jsonl"))


def test_the_labels_of_a_suite_carry_order_and_meanings_and_equal_the_plain_ones() -> None:
    rubric = Labels(answers=("1", "2"), meanings={"1": "bad", "2": "good"}).question("How is it?")
    suite = jrh.Suite(name="s", items=[replace(ITEM, rubric=rubric, ordinal=True)])
    found = suite.labels
    assert isinstance(found, Answers)
    assert (found, found.ordinal, found.meanings) == (("1", "2"), True, {"1": "bad", "2": "good"})
    assert found.named == ["1 (bad)", "2 (good)"]
    assert jrh.Suite(name="s", items=[ITEM, replace(ITEM, id="j", ordinal=True)]).labels is None


def test_meanings_change_the_hash_of_a_dataset_and_their_absence_does_not() -> None:
    plain = dataset_sha256([], Labels(answers=("0", "1")))
    # As it was before there were meanings.
    assert plain == "2fb810591c96d09fd5edef06d4fa9702da0c97748aa9dacc8c96863df6c19e87"
    assert plain == dataset_sha256([], Labels(answers=("0", "1"), grades=True))
    assert plain != dataset_sha256([], Labels(answers=("0", "1"), meanings=HARM))
