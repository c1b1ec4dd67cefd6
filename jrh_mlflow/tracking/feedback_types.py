"""What an MLflow scorer can say, as its type or its instructions tell, and whether a suite could read any of it."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, get_args

from jrh_mlflow.errors import RecipeError
from jrh_mlflow.judges.fit import APART, PAIRED
from jrh_mlflow.judges.parsing import read_answer, read_grade
from jrh_mlflow.schema.criteria import Criterion
from jrh_mlflow.schema.items import LEVEL_CONDITIONS, Item
from jrh_mlflow.schema.presentation import Presentation
from jrh_mlflow.suites.suite import Suite

Reader = Callable[[object, Presentation], object]
"""Turns a feedback value into an answer to a presentation."""
_NUMBERS = (0, 0.5, 3, 100)
"""Stand for any number: 1 and 2 are left out, for a score of 1 is not the first slot."""
_ONE_RESPONSE = ("builtin", "guidelines")
"""Kinds of scorers that MLflow itself writes: each grades one response with yes or no."""
_GRADES = tuple(
    re.compile(rf"\b{one}\b.*\b{other}\b|\b{other}\b.*\b{one}\b", re.IGNORECASE | re.DOTALL)
    for one, other in (("yes", "no"), ("true", "false"), ("pass", "fail"))
)
_OF_PAIRS = re.compile(
    r"\bB\b|\b2\b|(?i:\b(second|both|two|pair\w*|better|best|prefer\w*|compar\w*|which|tie|versus|vs)\b)"
)
"""Words without which nobody asks for the better of two."""


def check_fit(scorer: Any, suite: Suite, criterion: Criterion, read: Reader) -> None:
    """Refuse, before the first call, a scorer none of whose answers could be read on a suite.

    Raises:
        RecipeError: with the ways out.
    """
    values = possible_values(scorer)
    if values is None:
        return
    for item in {(item.kind, item.answers, item.condition in LEVEL_CONDITIONS): item for item in suite.items}.values():
        shown = _example(item, criterion)
        said = {_answer(read(value, shown), item, shown) for value in _numeric(values, shown)} - {None}
        if item.kind == "pair" and not said >= {"1", "2"}:
            raise RecipeError(
                f"{scorer.name!r} grades one response ({_listed(values)}), and suite {suite.name!r} has pairs. {APART} "
                f"If its words stand for the slots: jrh.from_mlflow(judge, answers={{…: '1', …: '2'}})."
            )
        if item.kind != "pair" and not said:
            raise RecipeError(
                f"{scorer.name!r} says {_listed(values)}, and suite {suite.name!r} asks for {_listed(shown.answers)}. "
                f"{PAIRED} If its words stand for these: jrh.from_mlflow(judge, answers={{…: {shown.answers[-1]!r}}})."
            )


def possible_values(scorer: Any) -> tuple[object, ...] | None:
    """Return what a scorer can say, where that is known; None where it may be any word."""
    kind = getattr(scorer, "feedback_value_type", None)
    if kind is bool:
        return (True, False)
    if kind in (int, float):
        return _NUMBERS
    if literals := get_args(kind):
        return literals if all(isinstance(one, str | int | float) for one in literals) else None
    if scorer.kind.value in _ONE_RESPONSE or _asks_for_a_grade(getattr(scorer, "instructions", None) or ""):
        return ("yes", "no")
    return None


def _asks_for_a_grade(instructions: str) -> bool:
    """Whether instructions ask for yes or no, and speak of nothing that a pair would need."""
    return any(words.search(instructions) for words in _GRADES) and not _OF_PAIRS.search(instructions)


def _numeric(values: tuple[object, ...], shown: Presentation) -> tuple[object, ...]:
    """Of any number, try those that are asked for."""
    return (*values, *shown.answers) if values is _NUMBERS and shown.kind != "pair" and _has_level(shown) else values


def _has_level(shown: Presentation) -> bool:
    return any(answer.lstrip("-").replace(".", "", 1).isdigit() for answer in shown.answers)


def _answer(value: object, item: Item, shown: Presentation) -> str | None:
    outcome, answer, _ = read_answer(value, shown.answers)
    if outcome == "unparsed":
        return read_grade(value) if item.condition in LEVEL_CONDITIONS else None
    return answer or outcome


def _example(item: Item, criterion: Criterion) -> Presentation:
    answers = criterion.answers if item.kind == "pair" else item.answers or ()
    return Presentation(kind=item.kind, instruction="", answers=answers)


def _listed(values: tuple[object, ...]) -> str:
    return "a number" if values is _NUMBERS else ", ".join(map(str, values))
