"""The probabilities of all answers, from what could have stood in place of the verdict's tokens."""

from __future__ import annotations

import math

import pytest

from jrh_mlflow.judges.parsing import ParsedAnswer, read
from jrh_mlflow.schema.requests import Response

PAIR = {"A": "1", "B": "2", "tie": "tie"}
LEVELS = {name: name for name in ("1", "2", "10")}
HEAD, TAIL = '{"verdict": "', '"}'


def entry(token: str, p: float, **instead: float) -> dict[str, object]:
    """A token as the transports hand it over: itself the first of its alternatives."""
    top = [[token, math.log(p)], *([name, math.log(other)] for name, other in instead.items())]
    return {"token": token, "logprob": math.log(p), "top": top}


def reading(*entries: dict[str, object], names: dict[str, str] | None = None) -> ParsedAnswer:
    text = "".join(str(one["token"]) for one in entries)
    return read(Response(text=text, finish_reason="stop", logprobs=entries), names or PAIR)


def told(*entries: dict[str, object], names: dict[str, str] | None = None) -> dict[str, float] | None:
    found = reading(*entries, names=names).probabilities
    return None if found is None else {answer: round(p, 6) for answer, p in sorted(found.items())}


def test_alternatives_of_the_verdicts_token_are_the_probabilities_of_the_other_answers():
    found = told(entry(HEAD, 0.9, x=0.1), entry("A", 0.6, B=0.3, tie=0.08), entry(TAIL, 0.9, y=0.1))
    assert found == {"1": 0.6, "2": 0.3, "tie": 0.08}


def test_the_given_answer_keeps_its_confidence():
    found = reading(entry(HEAD, 1.0), entry("B", 0.6, A=0.4), entry(TAIL, 1.0))
    assert found.confidence == pytest.approx(0.6)
    assert found.probabilities == pytest.approx({"2": 0.6, "1": 0.4})


def test_a_tie_and_an_abstention_go_by_their_own_names():
    assert told(entry(HEAD, 1.0), entry("tie", 0.7, A=0.2, abstain=0.1), entry(TAIL, 1.0)) == {
        "1": 0.2,
        "abstain": 0.1,
        "tie": 0.7,
    }
    assert told(entry(HEAD, 1.0), entry("abstain", 0.7, B=0.2), entry(TAIL, 1.0)) == {"2": 0.2, "abstain": 0.7}


def test_the_beginning_of_a_name_stands_for_it_where_no_other_begins_so():
    assert told(entry(HEAD, 1.0), entry("A", 0.6, t=0.3, x=0.1), entry(TAIL, 1.0)) == {"1": 0.6, "tie": 0.3}


def test_a_verdict_of_several_tokens_counts_alternatives_at_each_of_them():
    names = {"pass": "pass", "partial": "partial", "fail": "fail"}
    entries = entry(HEAD, 1.0), entry("pa", 0.8, f=0.2), entry("ss", 0.75, rtial=0.25), entry(TAIL, 1.0)
    assert told(*entries, names=names) == {"fail": 0.2, "partial": 0.2, "pass": 0.6}


def test_spellings_of_one_answer_add_up():
    found = told(entry('{"verdict":', 1.0), entry(' "B"', 0.5, **{' "b"': 0.1, ' "A"': 0.2, '"A"': 0.1}), entry("}", 1))
    assert found == {"1": 0.3, "2": 0.6}


@pytest.mark.parametrize("unclear", ["a", "", '"', "AX", "The", " "])
def test_what_begins_no_answer_or_more_than_one_is_not_read(unclear):
    """Small `a` may become A or abstain; its probability belongs to neither."""
    found = told(entry(HEAD, 1.0), entry("B", 0.6, A=0.2, **{unclear: 0.2}), entry(TAIL, 1.0))
    assert found == {"1": 0.2, "2": 0.6}


def test_a_level_that_begins_another_one_is_not_read_unless_it_ends_there():
    assert told(entry(HEAD, 1.0), entry("2", 0.6, **{"1": 0.3}), entry(TAIL, 1.0), names=LEVELS) is None
    closed = told(entry(HEAD, 1.0), entry('2"', 0.6, **{'1"': 0.3, "10": 0.1}), entry("}", 1.0), names=LEVELS)
    assert closed == {"1": 0.3, "10": 0.1, "2": 0.6}


def test_levels_may_stand_without_quotes():
    assert told(entry('{"verdict": ', 1.0), entry("2", 0.6, **{"1,": 0.3}), entry("}", 1.0), names=LEVELS) == {
        "1": 0.3,
        "2": 0.6,
    }


def test_without_alternatives_there_is_a_confidence_only():
    found = reading(entry(HEAD, 1.0), entry("A", 0.6), entry(TAIL, 1.0))
    assert found.confidence == pytest.approx(0.6)
    assert found.probabilities is None


def test_probabilities_past_one_are_none():
    found = reading(entry(HEAD, 1.0), entry("A", 0.9, B=0.9), entry(TAIL, 1.0))
    assert found.confidence == pytest.approx(0.9)
    assert found.probabilities is None


def test_without_a_confidence_there_are_no_probabilities():
    assert reading(entry('{"verdict": "A"}', 0.5, B=0.5)).probabilities is None
