"""How sure a verdict was, from the probabilities of its tokens."""

from __future__ import annotations

import math

import pytest

from jrh_mlflow.judges.parsing import read
from jrh_mlflow.schema.requests import Response

PAIR = {"A": "1", "B": "2", "tie": "tie"}


def tokens(*entries: tuple[str, float]) -> tuple[dict[str, object], ...]:
    return tuple({"token": token, "logprob": math.log(p) if p else -math.inf, "top": []} for token, p in entries)


def confidence(*entries: tuple[str, float], text: str | None = None) -> float | None:
    spelled = "".join(token for token, _ in entries) if text is None else text
    return read(Response(text=spelled, finish_reason="stop", logprobs=tokens(*entries)), PAIR).confidence


def test_confidence_is_the_probability_of_the_verdicts_token():
    assert confidence(('{"verdict": "', 0.9), ("A", 0.25), ('"}', 0.5)) == pytest.approx(0.25)


def test_confidence_multiplies_over_the_tokens_of_a_longer_verdict():
    assert confidence(('{"verdict": "', 0.9), ("t", 0.5), ("ie", 0.5), ('"}', 0.1)) == pytest.approx(0.25)


def test_confidence_is_found_where_quotes_are_part_of_the_token():
    assert confidence(('{"reason": "A", "verdict":', 0.9), (' "A"', 0.25), ("}", 0.5)) == pytest.approx(0.25)


def test_confidence_is_found_behind_an_end_of_turn_token_and_broken_tokens_before():
    entries = (("\ufffd", 0.1), ('", "verdict": "', 0.9), ("B", 0.5), ('"}', 0.9), ("<|im_end|>", 0.9))
    assert confidence(*entries, text='{"reason": "é", "verdict": "B"}') == pytest.approx(0.5)


def test_confidence_is_found_before_tokens_that_the_server_cut_off_behind_the_answer():
    """As llama.cpp does under a schema: the model went on with a fence, and the text ends at the brace."""
    entries = (('{"verdict": "', 0.9), ("B", 0.6), ('"', 0.8), ("}", 0.9), ("\n", 0.9), ("```", 0.9), ("", 0.3))
    assert confidence(*entries, text='{"verdict": "B"}') == pytest.approx(0.6)


@pytest.mark.parametrize(
    ("entries", "text"),
    [
        ((('{"verdict": "A"}', 0.5),), None),
        ((('{"more": {"verdict": "B"}, "verdict": "', 0.5), ("A", 0.5), ('"}', 0.5)), None),
        ((("A", 0.5), ('"}', 0.5)), '{"verdict": " A"}'),
        ((("x", 0.5), ("y", 0.5)), '{"verdict": "A"}'),
        ((('{"verdict": "', 0.5), ("A", math.nan), ('"}', 0.5)), None),
        ((('{"verdict": "', 0.5), ("A", 1.5), ('"}', 0.5)), None),
    ],
)
def test_confidence_is_none_where_the_verdicts_tokens_cannot_be_told_apart(entries, text):
    assert confidence(*entries, text=text) is None


def test_log_probabilities_of_a_wrong_shape_give_no_confidence():
    text = '{"verdict": "A"}'
    for entry in ({}, {"token": "}"}, {"token": "}", "logprob": "0"}, {"token": None, "logprob": 0}):
        response = Response(text=text, finish_reason="stop", logprobs=(entry,))
        assert read(response, PAIR).confidence is None
        assert read(response, PAIR).answer == "1"
