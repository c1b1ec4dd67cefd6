"""What an MLflow scorer said: its feedback as an answer, with rationale, tokens and dollars."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from enum import Enum
from typing import Any, get_args
from urllib.parse import urlsplit

from jrh_mlflow.errors import JudgeError
from jrh_mlflow.judges.answers import Unread, read_answer
from jrh_mlflow.schema.presentation import Answer, Presentation
from jrh_mlflow.schema.secrets import blank_secrets, environment_secrets

SLOT_WORDS = {
    **dict.fromkeys(("1", "a", "first", "response a", "response 1"), "1"),
    **dict.fromkeys(("2", "b", "second", "response b", "response 2"), "2"),
    "tie": "tie",
}
"""Feedback values read as the answer to a pair."""
LABEL_WORDS = (("yes", "pass", "true"), ("no", "fail", "false"))
"""Feedback values that stand for one another where labels are such words."""

_USAGE = (
    "mlflow.assessment.judgeInputTokens",
    "mlflow.assessment.judgeOutputTokens",
    "mlflow.assessment.judgeCost",
)
_MEMBERS = "mlflow.ensemble.sub_feedbacks"


def read_feedback(scorer: Any, returned: object, shown: Presentation, words: Mapping[str, str]) -> Answer:
    """Turn what `scorer.run` returned into an answer.

    Raises:
        JudgeError: when the feedback carries an error, or there are several.
    """
    feedback = _single(scorer, returned)
    error = getattr(feedback, "error", None)
    if error is not None:
        raise JudgeError(f"{scorer.name}: {error.error_code}: {error.error_message}")
    value = answer_for(getattr(feedback, "value", feedback), shown, words)
    rationale = getattr(feedback, "rationale", None)
    tokens_in, tokens_out, cost = _usage(getattr(feedback, "metadata", None) or {})
    return Answer(
        without_secrets(value, scorer) if isinstance(value, str) else value,
        rationale=without_secrets(str(rationale), scorer) if rationale else None,
        input_tokens=None if tokens_in is None else int(tokens_in),
        output_tokens=None if tokens_out is None else int(tokens_out),
        cost_usd=cost,
    )


def answer_for(value: object, shown: Presentation, words: Mapping[str, str]) -> object:
    """Return the answer that a feedback value stands for, or the value as it is.

    Example:
        >>> pair = Presentation(kind="pair", instruction="", first="x", second="y")
        >>> answer_for(" Response B", pair, {}), answer_for("the second one", pair, {})
        ('2', 'the second one')
        >>> graded = Presentation(kind="response", instruction="", response="x", answers=("pass", "fail"))
        >>> answer_for(True, graded, {}), answer_for("no", graded, {}), answer_for(1, graded, {})
        ('pass', 'fail', 1)
    """
    value = value.value if isinstance(value, Enum) else value
    word = as_word(value)
    if word is None:
        return value
    if word in words:
        return words[word]
    if shown.kind == "pair":
        return SLOT_WORDS.get(word, value)
    labels = {label.strip().casefold(): label for label in shown.answers}
    for alike in LABEL_WORDS:
        same = [label for key, label in labels.items() if key in alike]
        if word in alike and word not in labels and len(same) == 1:
            return same[0]
    return value


def in_asked_words(scorer: Any, given: Answer, shown: Presentation, words: Mapping[str, str]) -> Answer:
    """Return an answer as it is; one that stands for none of `shown.answers` with what the scorer was asked for."""
    if read_answer(given, shown.answers)[0] != "unparsed":
        return given
    declared = [value for value in get_args(getattr(scorer, "feedback_value_type", None)) if isinstance(value, str)]
    common = ["A", "B", "tie"] if shown.kind == "pair" else list(shown.answers)
    asked = [
        word
        for word in (declared or list(words) or common)
        if read_answer(answer_for(word, shown, words), shown.answers)[0] != "unparsed"
    ]
    return replace(given, value=Unread(given.value, tuple(asked) or shown.answers))


def as_word(value: object) -> str | None:
    """Fold a feedback value for comparison: 1 and 1.0 are `1`, True is `true`; None for what is no single value."""
    if isinstance(value, bool | str):
        return str(value).strip().casefold()
    if isinstance(value, int | float) and math.isfinite(value):
        return str(int(value)) if value == int(value) else repr(value)
    return None


def total(numbers: Iterable[Any]) -> Any:
    """Sum numbers; None when one of them is unknown."""
    known = list(numbers)
    return None if None in known else sum(known)


def without_secrets(text: str, scorer: Any) -> str:
    """Blank keys that a service or an error message may have echoed."""
    return blank_secrets(text, _secrets(scorer))


def _single(scorer: Any, returned: object) -> object:
    if not isinstance(returned, list):
        return returned
    if len(returned) != 1:
        raise JudgeError(f"{scorer.name} gave {len(returned)} feedbacks for one call; an answer is one.")
    return returned[0]


def _usage(metadata: Mapping[str, Any]) -> tuple[Any, Any, Any]:
    """Input tokens, output tokens and dollars; None where MLflow does not say. An ensemble's are its members'."""
    if _MEMBERS in metadata:
        members = [_usage(one.get("metadata") or {}) for one in json.loads(metadata[_MEMBERS])]
        return total(one[0] for one in members), total(one[1] for one in members), total(one[2] for one in members)
    tokens_in, tokens_out, cost = (_amount(metadata.get(key)) for key in _USAGE)
    return tokens_in, tokens_out, cost


def _amount(value: object) -> float | None:
    # A feedback that has been stored and read again holds its numbers as text.
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        amount = float(value)
    except ValueError:
        return None
    return amount if math.isfinite(amount) and amount >= 0 else None


def _secrets(scorer: Any) -> list[str]:
    """Environment keys, header values and the credentials of the base URL."""
    headers = getattr(scorer, "_extra_headers", None) or getattr(scorer, "extra_headers", None) or {}
    url = urlsplit(getattr(scorer, "_base_url", None) or "")
    found = environment_secrets()
    found += [word for value in headers.values() for word in value.split()]
    return found + [part for part in (url.username, url.password, url.query) if part]
