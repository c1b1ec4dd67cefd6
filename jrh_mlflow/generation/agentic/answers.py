"""Answers of the generator in JSON, read strictly; what is wrong with one is told to it with the next attempt."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jrh_mlflow.judges.json_objects import UnreadableError, decode, spans
from jrh_mlflow.judges.parsing import PROBLEMS
from jrh_mlflow.transcripts.model import cleaned


class Rejected(Exception):  # noqa: N818 - a reason, not a failure
    """An answer cannot be taken; the text says why and is told to the generator."""


def one_object(text: str) -> dict[str, Any]:
    """Return the fields of the one JSON object a text holds; prose or a code fence around it is forgiven.

    Raises:
        Rejected: when there is none, several, or a broken one.

    Example:
        >>> one_object('Here: {"steps": []}')
        {'steps': []}
    """
    found = list(spans(text))
    if not found:
        raise Rejected("the answer holds no JSON object")
    if len(found) > 1:
        raise Rejected(f"the answer holds {len(found)} JSON objects instead of one")
    if found[0].problem is not None:
        raise Rejected(PROBLEMS[found[0].problem])
    try:
        fields: dict[str, Any] = cleaned(decode(text[found[0].start : found[0].end]))[0]
    except UnreadableError as error:
        raise Rejected(PROBLEMS[error.code]) from error
    return fields


def check_keys(fields: object, needed: Sequence[str], what: str, *, allowed: Sequence[str] = ()) -> dict[str, Any]:
    """Return `fields` when it is an object with the needed keys and no unknown ones."""
    if not isinstance(fields, dict):
        raise Rejected(f"{what} must be a JSON object")
    for key in needed:
        if key not in fields:
            raise Rejected(f"{what} has no field {key!r}")
    for key in fields:
        if key not in (*needed, *allowed):
            raise Rejected(f"{what} has the unknown field {str(key)[:40]!r}")
    return fields
