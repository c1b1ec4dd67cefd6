"""From what a judge returned to an outcome. Case and outer spaces are forgiven, nothing else."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

from jrh_mlflow.schema.presentation import Answer

TIE, ABSTAIN = "tie", "abstain"


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
    found = _by_name(answers).get(text) if text is not None else None
    if found is None:
        if text == ABSTAIN:
            return "abstain", "", None
        return "unparsed", "", _not_one_of(value, answers)
    if found.casefold() == TIE:
        return "tie", "", None
    return "verdict", found, None


@lru_cache(maxsize=256)
def _by_name(answers: tuple[str, ...]) -> dict[str, str]:
    return {answer.strip().casefold(): answer for answer in answers}


def _not_one_of(value: object, answers: tuple[str, ...]) -> str:
    return f"{_shown(value)} is not one of {', '.join(map(repr, answers))}"


def _shown(value: object) -> str:
    try:
        return repr(value)
    except Exception:
        return f"an object of {type(value).__qualname__} that cannot be printed"


def _as_text(value: object) -> str | None:
    if type(value).__module__ == "numpy" and hasattr(value, "item"):
        value = value.item()
    if isinstance(value, str):
        # Not `str(value)`: a member of a `str` enumeration prints its name, but is its value.
        return str.__str__(value).strip().casefold()
    if isinstance(value, bool):
        return str(value).casefold()
    if isinstance(value, int):
        return str(int(value))
    if isinstance(value, float) and math.isfinite(value):
        return str(int(value)) if value.is_integer() else repr(value)
    return None
