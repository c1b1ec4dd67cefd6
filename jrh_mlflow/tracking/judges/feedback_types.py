"""What an MLflow scorer can say, as its type or its instructions tell, and whether a suite could read any of it."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from types import FunctionType, SimpleNamespace
from typing import Any, Literal, get_args, get_origin, get_type_hints

from jrh_mlflow.errors import RecipeError
from jrh_mlflow.judges import APART, PAIRED
from jrh_mlflow.judges.parsing import read_answer, read_grade
from jrh_mlflow.schema.criteria import Criterion
from jrh_mlflow.schema.items import LEVEL_CONDITIONS, Item
from jrh_mlflow.schema.presentation import Presentation
from jrh_mlflow.suites.suite import Suite
from jrh_mlflow.tracking import mlflow_internals
from jrh_mlflow.tracking.judges.scorer_needs import grades_each_text
from jrh_mlflow.tracking.judges.specifications import specification

Reader = Callable[[object, Presentation], object]
"""Turns a feedback value into an answer to a presentation."""
_NUMBERS = (0, 0.5, 3, 100)
"""Stand for any number: 1 and 2 are left out, for a score of 1 is not the first slot."""
_YES_NO, _SLOTS = ("yes", "no"), ("A", "B", "tie")
_SLOTS_SAID = {"1", "2"}
_ONE_RESPONSE = ("builtin", "guidelines")
"""Kinds of scorers that MLflow itself writes: each grades one response with yes or no."""
_OPPOSITES = (("yes", "no"), ("true", "false"), ("pass", "fail"))
_GRADES = tuple(
    re.compile(rf"\b{one}\b.*\b{other}\b|\b{other}\b.*\b{one}\b", re.IGNORECASE | re.DOTALL)
    for one, other in _OPPOSITES
)
_ASKED = tuple(
    re.compile(
        rf"\b{one}\b\W{{1,4}}(or\W{{1,3}})?{other}\b|\b(answer|say|reply|respond|return|output)\b[^.?!]{{0,20}}\b{one}\b.*\b{other}\b",
        re.IGNORECASE | re.DOTALL,
    )
    for one, other in _OPPOSITES
)
"""Instructions that say outright which of two words to answer."""
_NEGATED = re.compile(r"(?i:\b(not|never|avoid|without|instead|rather)\b|n't\b)[^.?!]{0,40}$")
_QUESTION = re.compile(
    r"(^|[.!?:\n]\s*)(is|are|does|do|did|has|have|was|were|can|could|should|would|will)(\s+\w+){0,3}\s+\{\{\s*outputs\b[^?]*\?",
    re.IGNORECASE,
)
"""A question about the outputs that is answered with yes or no."""
_SCALE = re.compile(r"\b[01]\s*(to|through|-|–|\.\.)\s*([3-9]|\d{2,3})\b", re.IGNORECASE)
_RATES = re.compile(r"\b(rat(e|ing)|scor(e|ing)|grad(e|ing)|scale)\b", re.IGNORECASE)
_OF_PAIRS = re.compile(
    r"\bB\b|\b2\b|(?i:\b(second|both|two|pair\w*|better|best|prefer\w*|compar\w*|which|tie|versus|vs|other|replies"
    r"|responses|answers|candidates|left)\b)"
)
"""Words without which nobody asks for the better of two."""
_CHOICE = re.compile(
    r"\b(b|second|tie[sd]?|better|worse|prefer\w*|compar\w*|winn\w+|wins?|beats?|cho(ose|ice)\w*|pick\w*|select\w*|versus|vs"
    r"|pairs?|each|stronger|weaker|former|latter|1\b[^.?!]*\b2|2\b[^.?!]*\b1|response [12]"
    r"|which (one|is|response|reply|answer|candidate|of (the )?(two|them|these|both)))\b",
    re.IGNORECASE,
)
"""Words of instructions that ask for one of two, although they may speak of yes, no or scores as well."""


def check_fit(scorer: Any, suite: Suite, criterion: Criterion, read: Reader, *, words: tuple[str, ...] = ()) -> None:
    """Refuse, before the first call, a scorer none of whose answers could be read on a suite.

    Raises:
        RecipeError: with the ways out.
    """
    declared, values, more = _sayable(scorer, words)
    if values is None:
        return
    for item in {(item.kind, item.answers, item.condition in LEVEL_CONDITIONS): item for item in suite.items}.values():
        shown = _example(item, criterion)
        said = {_answer(read(value, shown), item, shown) for value in (*_numeric(values, shown), *more)} - {None}
        if item.kind == "pair" and not said >= _SLOTS_SAID:
            raise RecipeError(
                f"{scorer.name!r} grades one response ({_listed(values)}), and suite {suite.name!r} has pairs. {APART} "
                f"If its words stand for the slots: jrh.from_mlflow(judge, answers={{…: '1', …: '2'}})."
            )
        if item.kind != "pair" and not said and declared:
            raise RecipeError(
                f"{scorer.name!r} says {_listed(values)}, and suite {suite.name!r} asks for {_listed(shown.answers)}. "
                f"{PAIRED} If its words stand for these: jrh.from_mlflow(judge, answers={{…: {shown.answers[-1]!r}}})."
            )


def can_compare(scorer: Any, criterion: Criterion, read: Reader, *, words: tuple[str, ...] = ()) -> bool:
    """Whether a scorer may say which of two is better, as `check_fit` demands on pairs."""
    _, values, more = _sayable(scorer, words)
    shown = Presentation(kind="pair", instruction="", answers=criterion.answers)
    read_as = [read_answer(read(value, shown), shown.answers) for value in (*(values or ()), *more)]
    return values is None or {answer for _, answer, _ in read_as} >= _SLOTS_SAID


def _sayable(
    scorer: Any, words: tuple[str, ...]
) -> tuple[tuple[object, ...] | None, tuple[object, ...] | None, tuple[str, ...]]:
    """Return what the type declares, what is said or asked for (None: anything), and which words may be said, too."""
    declared = possible_values(scorer)
    is_open = declared is None or declared is _NUMBERS
    instructions = (getattr(scorer, "instructions", None) or "") if is_open else ""
    # A number that is asked for as a choice is a slot.
    is_choice = declared is _NUMBERS and _CHOICE.search(instructions)
    # What is no closed list may hold any of the words that the user gave a meaning.
    return declared, None if is_choice else declared or asked_values(instructions), words if is_open else ()


def possible_values(scorer: Any) -> tuple[object, ...] | None:
    """Return what a scorer can say, where its type tells; None where it may be any word."""
    if (carried := specification(scorer)) is not None:
        return (*_SLOTS, *(carried["answers"] or ()))
    if grades_each_text(scorer):
        return (*_YES_NO, 0, 0.5, 1)
    kind = getattr(scorer, "feedback_value_type", None) or _returned_type(scorer)
    if kind is bool:
        return (True, False)
    if kind in (int, float):
        return _NUMBERS
    literals = get_args(kind) if get_origin(kind) is Literal else ()
    if literals and all(isinstance(one, str | int | float) for one in literals):
        return literals
    return _YES_NO if scorer.kind.value in _ONE_RESPONSE else None


def _returned_type(scorer: Any) -> Any:
    """Return what a scorer that is code says that it returns; None where it does not say: an int may be the slot."""
    function = inspect.unwrap(mlflow_internals.decorated_function(scorer) or type(scorer).__call__)
    if scorer.kind.value not in ("decorator", "class") or not isinstance(function, FunctionType):
        return None
    told = SimpleNamespace(__annotations__={"return": function.__annotations__.get("return")})
    try:
        kind = get_type_hints(told, function.__globals__)["return"]
    except Exception:  # An annotation is any expression, and may name what is not there.
        return None
    return None if kind is int else kind


def asked_values(instructions: str) -> tuple[object, ...] | None:
    """Return the grades that instructions ask for: yes and no, or numbers; None where they may ask for a choice.

    Example:
        >>> asked_values("Does {{ outputs }} meet both rules? Answer yes or no."), asked_values("Which of the two?")
        (('yes', 'no'), None)
    """
    if _CHOICE.search(instructions):
        return None
    found = [match for words in _ASKED if (match := words.search(instructions))]
    if any(not _NEGATED.search(instructions[: match.start()]) for match in found):
        return _YES_NO
    if not found and _SCALE.search(instructions) and _RATES.search(instructions):
        return _NUMBERS
    implied = any(words.search(instructions) for words in (*_GRADES, _QUESTION))
    return _YES_NO if implied and not found and not _OF_PAIRS.search(instructions) else None


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
