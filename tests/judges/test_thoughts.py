"""Thinking that stands in the text of an answer."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jrh_mlflow.judges.answer_text import split_thoughts, spoken_text
from jrh_mlflow.judges.parsing import read
from jrh_mlflow.schema.requests import Response

PAIR = {"A": "1", "B": "2", "tie": "tie"}
DRAFT, ANSWER = '{"reason": "at first sight", "verdict": "A"}', '{"reason": "better", "verdict": "B"}'
THOUGHT = [
    f"<think>Perhaps {DRAFT}?</think>{ANSWER}",
    f"<think>\n{DRAFT}\n</think>\n\n{ANSWER}",
    f"<THINK>{DRAFT}</Think> {ANSWER}",
    f"<thinking>{DRAFT}</thinking>\n{ANSWER}",
    f"<reasoning effort='high'>{DRAFT}</reasoning>\n{ANSWER}",
    f"<seed:think>{DRAFT}</seed:think>{ANSWER}",
    f"<thinking>{DRAFT}</thinking>{ANSWER}",
    f"[THINK]{DRAFT}[/THINK]{ANSWER}",
    f"◁think▷{DRAFT}◁/think▷{ANSWER}",
    f"<|channel|>analysis<|message|>{DRAFT}<|end|><|start|>assistant<|channel|>final<|message|>{ANSWER}",
    f"Perhaps {DRAFT}?\n</think>\n{ANSWER}",
    f'{{"verdict": "A" or so </think>{ANSWER}',
    f"<think>{DRAFT}</think>\nHm.\n<think>{DRAFT}</think>\n{ANSWER}",
    f"<think>one <think>{DRAFT}</think> two {DRAFT}</think>{ANSWER}",
    f"```\n<think>{DRAFT}</think>\n```\n```json\n{ANSWER}\n```",
    f"<think></think>\n{ANSWER}",
    f"Let me see. <think>{DRAFT}</think> So: {ANSWER}",
    f'<think>It says {{"reason": "a </think> b", "verdict": "A"}} {DRAFT}</think>{ANSWER}',
]


def said(text: str, *shown: str, finish_reason: str = "stop", **more: object) -> object:
    reading = read(Response(text=text, finish_reason=finish_reason, **more), PAIR, shown=shown)
    return reading.answer or reading.problem


@pytest.mark.parametrize("text", THOUGHT)
def test_what_a_model_tries_out_while_thinking_is_no_answer(text):
    assert said(text) == "2"


@pytest.mark.parametrize(
    "text", [f"<think>So {DRAFT}", f"\n```\n<think>\n{DRAFT}\n", f"<think>{DRAFT}</think>", f"{DRAFT}</think>\n"]
)
def test_thinking_alone_is_no_answer(text):
    assert said(text) == "only_thoughts"
    assert said(text, finish_reason="length") == "truncated"


def test_thinking_that_was_never_closed_runs_to_the_end():
    assert said(f"I compare.\n<think>\nPerhaps\n{DRAFT}") == "no_json"
    assert said(f"<think>a</think>\n<think>\n{DRAFT}") == "only_thoughts"


def test_a_verdict_given_before_the_thinking_is_taken_back_by_another_one():
    assert said(f"{DRAFT}\n<think>Hm.</think>\n{ANSWER}") == "conflicting"
    assert said(f"{ANSWER}\n<think>Or A?") == "trailing_text"


@pytest.mark.parametrize("tag", ["<think>", "</think>", "<thinking>", "</reasoning>", "<think>plan</think>"])
def test_tags_that_are_quoted_cut_no_answer_away(tag):
    assert said(f'{{"reason": "The first one leaks {tag} to its user", "verdict": "B"}}') == "2"
    assert said(f'{{"reason": "{tag} and again {tag}", "verdict": "B"}}\n') == "2"
    assert said(f"<think>It has {tag}</think>\n" + f'{{"reason": "It has {tag}", "verdict": "B"}}') == "2"
    assert said(f"The first response leaks {tag} to its user.\n{ANSWER}") == "2"
    assert said(f"The first response:\n{tag} Hm.\nThat is no answer.\n{ANSWER}", f"{tag} Hm.") == "2"


def test_confidence_is_found_behind_thinking():
    entries = [("<think>", 1.0), ("A", 0.9), ("</think>", 1.0), ('{"verdict": "', 1.0), ("B", 0.25), ('"}', 1.0)]
    logprobs = tuple({"token": token, "logprob": math.log(p), "top": [["A", math.log(0.7)]]} for token, p in entries)
    text = "".join(token for token, _ in entries)
    reading = read(Response(text=text, finish_reason="stop", logprobs=logprobs), PAIR)
    assert (reading.answer, reading.confidence) == ("2", pytest.approx(0.25))
    assert reading.probabilities == pytest.approx({"1": 0.7, "2": 0.25})


def test_a_writers_text_is_what_it_says_after_thinking_unless_tags_are_its_subject():
    assert spoken_text("<think>Hm.</think>\n\nA text.", shown="Write.") == "A text."
    assert spoken_text("Hm.</think> A text.", shown="Write.") == "A text."
    assert spoken_text("<think>Hm.", shown="Write.") == ""
    assert spoken_text(" Use <b>bold</b> [1]. ", shown="Write.") == "Use <b>bold</b> [1]."
    assert (
        spoken_text("<think>Hm.</think> A text.", shown="Shorten: <think>Oh.</think>") == "<think>Hm.</think> A text."
    )


@given(st.lists(st.sampled_from(["<think>", "</think>", DRAFT, ANSWER, "\n", " so ", '{"a": "', "[THINK]", "}"])))
def test_what_is_left_without_thoughts_stood_in_the_text_in_the_same_order(pieces):
    text = "".join(pieces)
    position = 0
    for line in split_thoughts(text)[0].splitlines():
        position = text.index(line, position) + len(line)


@pytest.mark.parametrize(
    "piece", ["</think>", "<think>", "<think ", '{"a": oops </think>', '{"verdict": "A"} </think>', "x\n<think>"]
)
def test_a_text_of_nothing_but_tags_is_read_in_one_go(piece):
    assert said(piece * (1_000_000 // len(piece))) in ("only_thoughts", "no_json", "bad_json", "trailing_text")
