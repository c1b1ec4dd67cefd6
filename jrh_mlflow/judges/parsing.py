"""From what a judge or a model returned to an outcome. What is no clear answer is `unparsed`.

Of an answer case and outer spaces are forgiven, nothing else. The answer of a model is a JSON object
with the key `verdict`; `answer_text.py` says where in the text it may stand.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import lru_cache

from jrh_mlflow.judges.answer_text import UnreadableError, answer_object
from jrh_mlflow.judges.token_probabilities import verdict_probabilities
from jrh_mlflow.schema.presentation import LABEL_WORDS, Answer
from jrh_mlflow.schema.requests import Response
from jrh_mlflow.text import clean_text

TIE = "tie"
ABSTAIN = "abstain"
PROBLEMS: Mapping[str, str] = {
    "empty_choices": "the response has no choice",
    "content_filter": "the provider's content filter stopped the response",
    "tool_call": "the model calls a tool and says nothing",
    "empty_content": "the response has no text",
    "refusal": "the model refused",
    "truncated": "max_tokens ended the response before a readable answer",
    "no_json": "the text has no JSON object",
    "bad_json": "the last JSON object is broken or unfinished",
    "only_thoughts": "the text is thinking and nothing else",
    "quoted": "the last JSON object stands in what the judge was shown",
    "in_a_sentence": "the words before the verdict run on into it",
    "trailing_text": "the text goes on behind the verdict",
    "duplicate_keys": "the JSON object has a key twice",
    "bad_number": "the JSON object has a number that is none",
    "missing_verdict": "the last JSON object has no key 'verdict'",
    "conflicting": "several JSON objects give different verdicts",
    "not_an_answer": "the verdict is none of the answers",
    "no_match": "the answer has no verdict in the form that was given",
}
"""Why there is no answer, by code."""

_ERRORS = ("empty_choices", "content_filter", "empty_content")
_LENGTH = ("length", "max_tokens")
_MAX_KEPT = 20_000
"""Characters of an answer's text or reason in a call's record: more than `max_tokens` of 4,096 gives."""
_LEVEL = re.compile(r"-?[0-9]+(?:\.[0-9]+)?")
_MOST_BITS = 1024
"""Of an integer that is an answer: Python refuses to write very long ones."""


@dataclass(frozen=True)
class Unread:
    """A reply that stands for no answer, of a judge that was asked in words of its own."""

    value: object
    asked: tuple[str, ...]
    """The answers as the judge was asked for them, e.g. A, B and tie."""


def read_answer(returned: object, answers: tuple[str, ...]) -> tuple[str, str, str | None]:
    """Return outcome, answer and the reason when there is none.

    A number equal to an answer is that answer (1 and 1.0 are "1"); True and False match only answers of that
    name, never a slot. `abstain` may always be said. Everything else outside `answers` is `unparsed`.

    Example:
        >>> read_answer("TIE ", ("1", "2", "tie"))
        ('tie', '', None)
        >>> read_answer(3, ("1", "2", "tie"))
        ('unparsed', '', "3 is not one of '1', '2', 'tie'")
    """
    value = returned.value if isinstance(returned, Answer) else returned
    if isinstance(value, Unread):
        return "unparsed", "", _not_one_of(value.value, value.asked)
    text = _as_text(value)
    answer = _by_name(answers).get(text) if text is not None else None
    if answer is None:
        if text == ABSTAIN:
            return "abstain", "", None
        return "unparsed", "", _not_one_of(value, answers)
    if answer.casefold() == TIE:
        return "tie", "", None
    return "verdict", answer, None


def read_grade(returned: object) -> str | None:
    """Return what a judge of one response means by a value, whichever form it was asked for; None for no grade.

    Yes, pass, true and True are `yes`, no, fail, false and False `no`; a finite number, also as text, is itself.

    Example:
        >>> [read_grade(value) for value in (True, " Fail", 4.0, "0.70", 1e-5, "4 of 5", float("nan"))]
        ['yes', 'no', '4', '0.70', '0.00001', None, None]
    """
    value = returned.value if isinstance(returned, Answer) else returned
    value = value.value if isinstance(value, Unread) else value
    text = _as_text(value)
    if text is None:
        return None
    # Python writes small numbers as 1e-05, which is no spelling of a level.
    if isinstance(value, float) and "e" in text:
        text = format(Decimal(text), "f")
    word = next((alike[0] for alike in LABEL_WORDS if text in alike), None)
    return word or (text if _LEVEL.fullmatch(text) else None)


@lru_cache(maxsize=256)
def _by_name(answers: tuple[str, ...]) -> dict[str, str]:
    return {answer.strip().casefold(): answer for answer in answers}


def _not_one_of(value: object, answers: tuple[str, ...]) -> str:
    return f"{_shown(value)} is not one of {', '.join(map(repr, answers))}"


def _shown(value: object) -> str:
    try:
        # A judge may return any object, and some cannot be printed.
        return repr(value)
    except Exception:
        return f"an object of {type(value).__qualname__} that cannot be printed"


def _as_text(value: object) -> str | None:
    # By the name of its module: an answer needs no numpy to be read.
    if type(value).__module__ == "numpy" and hasattr(value, "item"):
        value = value.item()
    if isinstance(value, str):
        # Not `str(value)`: a member of a `str` enumeration prints its name, but is its value.
        return str.__str__(value).strip().casefold()
    # Before int: True is an int in Python, and would be slot 1.
    if isinstance(value, bool):
        return str(value).casefold()
    if isinstance(value, int):
        return str(int(value)) if value.bit_length() <= _MOST_BITS else None
    if isinstance(value, float) and math.isfinite(value):
        return str(int(value)) if value.is_integer() else repr(value)
    return None


@dataclass(frozen=True, kw_only=True, slots=True)
class ParsedAnswer:
    """How a response reads."""

    outcome: str
    """`verdict`, `tie`, `abstain`, `unparsed` or `error`."""
    answer: str | None = None
    """The slot, label or level; None unless the outcome is `verdict`."""
    rationale: str | None = None
    problem: str | None = None
    """A code of `PROBLEMS`; None when there is an answer."""
    detail: str | None = None
    text: str | None = None
    """The response's text (or its refusal), whole, where there is a problem with it."""
    confidence: float | None = None
    """Probability of the verdict's tokens after the text before them, where it can be told."""
    probabilities: Mapping[str, float] | None = None
    """Answer (slot, label, level, `tie`, `abstain`) to its probability, of those that could be told; they sum to 1 at
    the most. None where only that of the given one, `confidence`, is known."""

    @property
    def error(self) -> str | None:
        """The problem with the raw text, for the column `error`."""
        if self.problem is None:
            return None
        raw = f" Text: {kept_text(self.text)}" if self.text else ""
        return f"{self.problem}: {self.detail or PROBLEMS[self.problem]}.{raw}"


def kept_text(text: str) -> str:
    """Shorten a text for a record; the journal has all of it."""
    return text if len(text) <= _MAX_KEPT else f"{text[:_MAX_KEPT]}… ({len(text):,} characters)"


def read(
    response: Response,
    names: Mapping[str, str],
    *,
    shown: Sequence[str] = (),
    instructions: Sequence[str] = (),
) -> ParsedAnswer:
    """Read a response.

    Args:
        response: What the provider answered.
        names: What the prompt calls each answer, and the answer it stands for. Case and outer spaces are forgiven, and
            a JSON number equal to a level is that level; nothing else is. `abstain` may always be said.
        shown: The candidates or the transcript: what the judge repeats of them is a quotation.
        instructions: What else was put before the judge.

    Returns:
        The reading. A response cut by the token limit counts when its answer is complete.

    Example:
        >>> response = Response(text='{"reason": "shorter", "verdict": "b"}', finish_reason="stop")
        >>> read(response, {"A": "1", "B": "2"}).answer
        '2'
    """
    if ended := answer_problem(response):
        return ended
    try:
        reading = _read_object(response, names, shown, instructions)
    except UnreadableError as unreadable:
        reading = unparsed(unreadable)
    if reading.problem is None:
        return reading
    if _finish(response) in _LENGTH:
        detail = f"{PROBLEMS['truncated']} ({reading.problem})"
        reading = replace(reading, problem="truncated", detail=detail)
    return replace(reading, text=_raw(response))


def unparsed(unreadable: UnreadableError) -> ParsedAnswer:
    """Return the reading of a text without a clear verdict."""
    detail = clean_text(unreadable.detail)[:200] if unreadable.detail else None
    return ParsedAnswer(outcome="unparsed", problem=unreadable.code, detail=detail)


def _read_object(
    response: Response, names: Mapping[str, str], shown: Sequence[str], instructions: Sequence[str]
) -> ParsedAnswer:
    text = response.text or ""
    found, earlier = answer_object(text, shown=shown, instructions=instructions)
    if "verdict" not in found.fields:
        raise UnreadableError("missing_verdict")
    reason = found.fields.get("reason")
    rationale = kept_text(clean_text(reason)) if isinstance(reason, str) else None
    try:
        outcome, answer = one_answer(
            [found.fields["verdict"], *(other.fields.get("verdict") for other in earlier)], names
        )
    except UnreadableError as unreadable:
        return replace(unparsed(unreadable), rationale=rationale)
    reading = ParsedAnswer(outcome=outcome, answer=answer or None, rationale=rationale)
    if not response.logprobs:
        return reading
    confidence, probabilities = verdict_probabilities(
        text,
        (found.start, found.end),
        response.logprobs,
        answer=answer or outcome,
        names={**names, ABSTAIN: ABSTAIN},
    )
    return replace(reading, confidence=confidence, probabilities=probabilities)


def one_answer(verdicts: Sequence[object], names: Mapping[str, str], *, strict: bool = False) -> tuple[str, str]:
    """Return outcome and answer of the first verdict, which the others may not contradict.

    Args:
        verdicts: What was said, the verdict that counts first.
        names: What the prompt calls each answer, and the answer it stands for.
        strict: Whether others that are no answers contradict it too; in JSON they echo the format.

    Raises:
        UnreadableError: `not_an_answer` or `conflicting`.
    """
    outcome, answer, why_not = named_answer(verdicts[0], names)
    if why_not is not None:
        raise UnreadableError("not_an_answer", why_not)
    for verdict in verdicts[1:]:
        *other, why_not = named_answer(verdict, names)
        if other != [outcome, answer] and (strict or why_not is None):
            raise UnreadableError("conflicting")
    return outcome, answer


def answer_problem(response: Response, *, or_arguments: bool = False) -> ParsedAnswer | None:
    """Return how a response without anything to read ended; with `or_arguments` those of a tool call can be read."""
    problem = _provider_problem(response)
    if problem is None or (problem == "tool_call" and or_arguments and response.tool_arguments):
        return None
    outcome = "error" if problem in _ERRORS else "unparsed"
    return ParsedAnswer(outcome=outcome, problem=problem, text=_raw(response))


def _raw(response: Response) -> str | None:
    return clean_text(response.refusal or response.text or "") or None


def text_problem(response: Response) -> str | None:
    """Say why a response holds no whole text, by a code of `PROBLEMS`; for texts that are no verdicts."""
    return _provider_problem(response) or ("truncated" if _finish(response) in _LENGTH else None)


def _finish(response: Response) -> str:
    return (response.finish_reason or "").strip().lower()


def _provider_problem(response: Response) -> str | None:
    """Return why there is nothing to parse. A refusal in the model's own words outranks the filter's flag."""
    finish = _finish(response)
    if finish == "empty_choices":
        return "empty_choices"
    if finish == "refusal" or (response.refusal or "").strip():
        return "refusal"
    if finish == "content_filter":
        return "content_filter"
    if not (response.text or "").strip():
        return "truncated" if finish in _LENGTH else "tool_call" if finish == "tool_calls" else "empty_content"
    return None


def named_answer(verdict: object, names: Mapping[str, str]) -> tuple[str, str, str | None]:
    """Return outcome, answer and the reason when there is none, of a verdict in the judge's names."""
    if isinstance(verdict, int | float) and not isinstance(verdict, bool):
        # 3 and 3.0 are the level "3"; the text "3.0" is not, for texts are compared as they stand.
        verdict = next((name for name in names if _as_number(name) == verdict), verdict)
    outcome, name, why_not = read_answer(verdict, tuple(names))
    answer = names[name] if name else ""
    # A word of the judge's own may stand for a tie.
    return (answer, "", None) if answer in (TIE, ABSTAIN) else (outcome, answer, why_not)


def _as_number(name: str) -> float | None:
    return float(name) if _LEVEL.fullmatch(name) else None
