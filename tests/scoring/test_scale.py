"""Labels: what is said of them, and what can be inferred."""

from __future__ import annotations

import numpy as np
import pytest

from jrh_mlflow.schema.items import Answers
from jrh_mlflow.scoring.pointwise import KNOWN_PAIRS, is_number, plain_label, scale_of


@pytest.mark.parametrize(("negative", "positive"), KNOWN_PAIRS)
def test_well_known_pairs_know_their_positive_label(negative, positive):
    scale = scale_of([positive, negative, "", positive], None)
    assert (scale.labels, scale.ordered, scale.kind) == ((negative, positive), True, "binary")


def test_the_case_of_a_known_pair_is_kept():
    assert scale_of(["Yes", "NO"], None).labels == ("NO", "Yes")


def test_numbers_are_ordered_as_numbers():
    scale = scale_of(["10", "9", "2.0"], None)
    assert (scale.labels, scale.ordered, scale.kind) == (("2", "9", "10"), True, "ordinal")


def test_halves_are_ordered_but_no_whole_number_scale():
    scale = scale_of(["1", "2.5", "3"], None)
    assert (scale.ordered, scale.kind) == (True, "nominal")


def test_two_unknown_words_are_binary_without_an_order():
    scale = scale_of(["dog", "cat"], None)
    assert (scale.labels, scale.ordered, scale.kind) == (("cat", "dog"), False, "binary")


def test_given_labels_keep_their_order_and_levels_that_nobody_used():
    scale = scale_of(["2"], ["3", "2", "1"])
    assert (scale.labels, scale.ordered, scale.kind) == (("3", "2", "1"), True, "ordinal")


def test_several_words_are_nominal():
    assert scale_of(["a", "b", "c"], None).kind == scale_of([], ["a", "b", "c"]).kind == "nominal"


def test_no_answer_at_all_has_no_labels():
    assert scale_of(["", ""], None).labels == ()


@pytest.mark.parametrize("text", ["nan", "inf", "1e3", "1_000", "１", "", "four", "4/5"])
def test_what_only_looks_like_a_number_is_a_word(text):
    assert not is_number(text)
    assert plain_label(text) == text


@pytest.mark.parametrize(("text", "same"), [("3.0", "3"), ("-2", "-2"), ("+1", "1"), ("2.50", "2.50")])
def test_whole_numbers_have_one_spelling(text, same):
    assert is_number(text)
    assert plain_label(text) == same


def test_answers_of_a_suite_say_whether_they_are_a_scale():
    nominal = scale_of(["2"], Answers(("0", "1", "2"), ordinal=False))
    assert (nominal.labels, nominal.ordered, nominal.kind) == (("0", "1", "2"), False, "nominal")
    words = scale_of(["mid"], Answers(("low", "mid", "high"), ordinal=True))
    assert (words.ordered, words.kind) == (True, "ordinal")
    assert list(words.steps(np.array(["low", "high", "x"], dtype=object))[:2]) == [0.0, 2.0]
    halves = scale_of([], Answers(("0", "0.5", "1"), ordinal=True))
    assert (halves.kind, list(halves.steps(np.array(["1"], dtype=object)))) == ("ordinal", [2.0])
    assert scale_of(["0", "1", "2"], Answers(ordinal=False)).kind == "nominal"
    assert scale_of(["0", "1"], Answers(ordinal=False)).ordered, "of two the last is to be detected"
