"""What is known of an MLflow scorer before it is asked: what it needs, what it may say, what an exported one carries.

Needs are retrieved texts, tool calls and expectations, and whether a suite has them. What it may say is told by its
type or its instructions. A scorer that `jrh.to_mlflow` made carries its specification in its text, where it is read
and never run (`exporting/exported_scorers.py` describes the fields).
"""

from __future__ import annotations

import ast
import hashlib
import inspect
import json
import linecache
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from types import FunctionType, SimpleNamespace
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin, get_type_hints

from jrh_mlflow.errors import RecipeError, check_schema_version
from jrh_mlflow.judges import APART, PAIRED
from jrh_mlflow.judges.parsing import read_answer, read_grade
from jrh_mlflow.schema.items import SINGLE_CONDITIONS, Item
from jrh_mlflow.schema.label_words import label_number
from jrh_mlflow.schema.presentation import Criterion, Message, Presentation, context_texts
from jrh_mlflow.suites.suite import Suite
from jrh_mlflow.tracking import mlflow_internals

if TYPE_CHECKING:
    from mlflow.genai.scorers import Scorer

FIELDS = ("inputs", "outputs", "expectations", "trace")
SHOWN = ("instruction", "rubric", "context")
"""What inputs are made of, and their names where neither the user nor the suite has others."""
_SESSION = ("session", "conversation")
"""What a conversation is called by code and by instructions."""
_GUIDELINES = "guidelines"
"""The expectation that a suite's rubric is."""
_WAY_OUT = "Pass jrh.from_mlflow(judge, {field}=<function of the presentation>)."


def judges_sessions(scorer: Any) -> bool:
    """Whether it judges a whole conversation, as a list of traces."""
    return bool(getattr(scorer, "is_session_level_scorer", False))


def needed_fields(scorer: Any) -> set[str]:
    """Return the fields a scorer cannot do without: template variables, or parameters without a default."""
    if members := mlflow_internals.ensemble_members(scorer):
        return set().union(*map(needed_fields, members))
    variables = getattr(scorer, "template_variables", None)
    if variables is not None:
        return set(variables)
    unnamed = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    parameters = inspect.signature(scorer.__call__).parameters.values()
    return {given.name for given in parameters if given.default is given.empty and given.kind not in unnamed}


def needs_retrieval(scorer: Any) -> bool:
    """Whether one of MLflow's own judges goes by retrieved texts: the help of each that does names the span's type."""
    return _is_built_in(scorer) and "RETRIEVER" in (inspect.getdoc(type(scorer).__call__) or "")


def grades_each_text(scorer: Any) -> bool:
    """Whether it grades each text of a context on its own, and tells the share of relevant ones beside."""
    return _is_built_in(scorer) and type(scorer).__name__ == "RetrievalRelevance"


def needs_tools(scorer: Any) -> bool:
    """Whether one of MLflow's own judges goes by the tool calls of a trace."""
    return _is_built_in(scorer) and "trace" in needed_fields(scorer) and not needs_retrieval(scorer)


def takes_guidelines(scorer: Any) -> bool:
    """Whether it is to be told its guidelines row by row: a suite's rubric is what it goes by."""
    return _missing_expectations(scorer) == [_GUIDELINES]


def check_scorer(scorer: Any, parts: Collection[str]) -> None:
    """Refuse a scorer that would fail on every suite.

    Args:
        scorer: It, or a member of an ensemble.
        parts: The fields that functions of the user's make.

    Raises:
        RecipeError: with the way out.
    """
    needed = needed_fields(scorer).difference(_SESSION if judges_sessions(scorer) else ())
    if unknown := sorted(needed.difference(FIELDS)):
        raise RecipeError(f"{scorer.name!r} needs {', '.join(unknown)}, but MLflow passes only {', '.join(FIELDS)}.")
    missing = [] if takes_guidelines(scorer) else _missing_expectations(scorer)
    if "expectations" not in parts and (missing or "expectations" in needed):
        names = f" ({', '.join(missing)})" if missing else ""
        raise RecipeError(
            f"{scorer.name!r} needs expectations{names}, but a judge is shown no expected answer. "
            f"{_WAY_OUT.format(field='expectations')}"
        )
    if judges_sessions(scorer) and mlflow_internals.includes_timing(scorer):
        raise RecipeError(
            f"{scorer.name!r} is shown how long each turn took (include_timing_in_conversation=True), and no suite "
            "knows that: it would judge invented times. Measure it without."
        )


def check_suite_has(scorer: Any, suite: Suite, parts: Collection[str]) -> None:
    """Refuse, before the first call, a suite that lacks what a scorer goes by; functions of the user's make `parts`.

    Raises:
        RecipeError: naming what is missing, an item that lacks it, and what to do.
    """
    if judges_sessions(scorer):
        _demand(
            suite,
            lambda item: item.kind != "pair",
            f"{scorer.name!r} judges a conversation",
            "is a pair. Give a suite of transcripts (`jrh generate` on Inspect logs or traces) or of single responses.",
        )
    if needs_retrieval(scorer) and "trace" not in parts:
        _check_retrieval(scorer, suite)
    has_tools = any(called_tools(item.transcript or ()) for item in suite.items)
    if needs_tools(scorer) and "trace" not in parts and not has_tools:
        raise RecipeError(
            f"{scorer.name!r} judges tool calls, and no item of suite {suite.name!r} has any. Give a suite of "
            f"transcripts with tool calls (`jrh generate` on Inspect logs or traces). {_WAY_OUT.format(field='trace')}"
        )
    if takes_guidelines(scorer) and "expectations" not in parts:
        _demand(
            suite,
            lambda item: bool(item.rubric),
            f"{scorer.name!r} goes by the guidelines of each row, which are the suite's rubric",
            f"has none. Make the suite with a rubric. {_WAY_OUT.format(field='expectations')}",
        )


def _check_retrieval(scorer: Any, suite: Suite) -> None:
    _demand(
        suite,
        lambda item: bool(context_texts(item.context)),
        f"{scorer.name!r} goes by retrieved texts, which are the `context` of an item",
        "has none. Make the suite from a dataset with a column `context`, a text or a list of texts "
        "(`jrh generate`, `jrh.natural_suite`; columns={'context': …} for another name). "
        f"{_WAY_OUT.format(field='trace')}",
    )
    if grades_each_text(scorer):
        _demand(
            suite,
            lambda item: len(context_texts(item.context)) == 1 or takes_shares(item.answers, item.condition),
            f"{scorer.name!r} grades each text of a context on its own",
            "has several. Give each item one text, or answers that are numbers, for the share of relevant texts.",
        )


def takes_shares(answers: Sequence[str] | None, condition: str = "") -> bool:
    """Whether a share between 0 and 1 may be the answer: some answer is a number, or any number is read."""
    return condition in SINGLE_CONDITIONS or any(label_number(answer) is not None for answer in answers or ())


def _demand(suite: Suite, has: Callable[[Item], bool], rule: str, problem: str) -> None:
    lacking = [item for item in suite.items if not has(item)]
    if lacking:
        raise RecipeError(
            f"{rule}, but of {len(suite.items)} items of suite {suite.name!r} {len(lacking)} cannot be judged: "
            f"{lacking[0].id!r} {problem}"
        )


def _is_built_in(scorer: Any) -> bool:
    return bool(scorer.kind.value == "builtin")


def _missing_expectations(scorer: Any) -> list[str]:
    """Return the expectations that a judge of MLflow's own says it cannot do without."""
    validate = getattr(scorer, "validate_columns", None)
    if validate is None:
        return []
    from mlflow.exceptions import MlflowException

    # MLflow says what is missing only by failing.
    try:
        validate({"inputs", "outputs", "trace"})
    except MlflowException as error:
        return sorted(str(column).replace("expectations/", "") for column in getattr(error, "missing_columns", ()))
    return []


def called_tools(transcript: Iterable[Message]) -> list[str]:
    """Name the tools that a transcript calls, each once, in order."""
    return list(dict.fromkeys(str(call.get("name", "tool")) for message in transcript for call in message.tool_calls))


Reader = Callable[[object, Presentation], object]
"""Turns a feedback value into an answer to a presentation."""
_NUMBERS = (0, 0.5, 3, 100)
"""Stand for any number: 1 and 2 are left out, for a score of 1 is not the first slot."""
_YES_NO, _SLOT_NAMES = ("yes", "no"), ("A", "B", "tie")
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
    # One item for all that are answered alike: a suite may have thousands, of a few such kinds.
    for item in {(item.kind, item.answers, item.condition in SINGLE_CONDITIONS): item for item in suite.items}.values():
        shown = _example(item, criterion)
        answers = {_answer(read(value, shown), item, shown) for value in (*_numeric(values, shown), *more)} - {None}
        if item.kind == "pair" and not answers >= _SLOTS_SAID:
            raise RecipeError(
                f"{scorer.name!r} grades one response ({_listed(values)}), and suite {suite.name!r} has pairs. {APART} "
                f"If its words stand for the slots: jrh.from_mlflow(judge, answers={{…: '1', …: '2'}})."
            )
        # Instructions are prose, and may be read wrongly; only what the type declares is refused on single responses.
        if item.kind != "pair" and not answers and declared:
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
        return (*_SLOT_NAMES, *(carried["answers"] or ()))
    if grades_each_text(scorer):
        return (*_YES_NO, 0, 0.5, 1)
    kind = getattr(scorer, "feedback_value_type", None) or _returned_type(scorer)
    if kind is bool:
        return (True, False)
    if kind in (int, float):
        return _NUMBERS
    literals = get_args(kind) if get_origin(kind) is Literal else ()
    if literals and all(isinstance(literal, str | int | float) for literal in literals):
        return literals
    return _YES_NO if scorer.kind.value in _ONE_RESPONSE else None


def _returned_type(scorer: Any) -> Any:
    """Return what a scorer that is code says that it returns; None where it does not say: an int may be the slot."""
    function = inspect.unwrap(mlflow_internals.decorated_function(scorer) or type(scorer).__call__)
    if scorer.kind.value not in ("decorator", "class") or not isinstance(function, FunctionType):
        return None
    annotated = SimpleNamespace(__annotations__={"return": function.__annotations__.get("return")})
    try:
        kind = get_type_hints(annotated, function.__globals__)["return"]
    except Exception:  # An annotation is any expression, and may name what is not there.
        return None
    return None if kind is int else kind


def asked_values(instructions: str) -> tuple[object, ...] | None:
    """Return the grades that instructions ask for: yes and no, or numbers; None where they may ask for a choice.

    Example:
        >>> asked_values("Does {{ outputs }} meet both rules? Answer yes or no."), asked_values("Which of the two?")
        (('yes', 'no'), None)
    """
    # In doubt anything may be answered: a judge that is refused wrongly cannot be measured at all.
    if _CHOICE.search(instructions):
        return None
    matches = [match for words in _ASKED if (match := words.search(instructions))]
    if any(not _NEGATED.search(instructions[: match.start()]) for match in matches):
        return _YES_NO
    if not matches and _SCALE.search(instructions) and _RATES.search(instructions):
        return _NUMBERS
    implied = any(words.search(instructions) for words in (*_GRADES, _QUESTION))
    return _YES_NO if implied and not matches and not _OF_PAIRS.search(instructions) else None


def _numeric(values: tuple[object, ...], shown: Presentation) -> tuple[object, ...]:
    """Of any number, try those that are asked for."""
    has_level = any(answer.lstrip("-").replace(".", "", 1).isdigit() for answer in shown.answers)
    return (*values, *shown.answers) if values is _NUMBERS and shown.kind != "pair" and has_level else values


def _answer(value: object, item: Item, shown: Presentation) -> str | None:
    outcome, answer, _ = read_answer(value, shown.answers)
    if outcome == "unparsed":
        return read_grade(value) if item.condition in SINGLE_CONDITIONS else None
    return answer or outcome


def _example(item: Item, criterion: Criterion) -> Presentation:
    answers = criterion.answers if item.kind == "pair" else item.answers or ()
    return Presentation(kind=item.kind, instruction="", answers=answers)


def _listed(values: tuple[object, ...]) -> str:
    return "a number" if values is _NUMBERS else ", ".join(map(str, values))


_SETS, _PARAMETERS = ("required_columns",), ("inference_params", "kwargs", "model_kwargs", "third_party_scorer_data")
"""Fields that MLflow holds as sets, and writes in the order of the process's hash seed; and those whose order is the
user's and changes no request."""


def canonical_scorer(kept: Any) -> Any:
    """Return what MLflow keeps of a scorer in one form, whatever process wrote it: sets sorted, parameters by name."""
    if isinstance(kept, set | frozenset):
        return sorted(kept, key=repr)
    if isinstance(kept, list | tuple):
        return [canonical_scorer(value) for value in kept]
    if not isinstance(kept, Mapping):
        return kept
    fields = {name: canonical_scorer(value) for name, value in kept.items()}
    fields |= {name: sorted(fields[name]) for name in _SETS if fields.get(name)}
    return fields | {name: dict(sorted(fields[name].items())) for name in _PARAMETERS if fields.get(name)}


_HOME = "jrh_mlflow.exporting.exported_scorers"
_FUNCTION = "score_row"
_SOURCE = """\
def jrh_judge(inputs=None, outputs=None, expectations=None, trace=None):
    from {home} import {function}

    return {function}({literal}, inputs=inputs, outputs=outputs, trace=trace)
"""


def exported_scorer(specification: Mapping[str, Any], *, name: str, description: str | None = None) -> Scorer:
    """Make the scorer that carries a specification."""
    from mlflow.genai.scorers import scorer

    # ASCII throughout: no quote, line separator or half of a surrogate pair can end the literal or the line.
    text = json.dumps(specification, ensure_ascii=True, allow_nan=False, sort_keys=True)
    source = _SOURCE.format(home=_HOME, function=_FUNCTION, literal=repr(text))
    place = f"<jrh_judge {hashlib.sha256(source.encode()).hexdigest()}>"
    # MLflow reads the source of a function as an editor would; without a time of change nobody looks for a file.
    linecache.cache[place] = (len(source), None, source.splitlines(keepends=True), place)
    made: dict[str, Any] = {}
    exec(compile(source, place, "exec"), made)  # noqa: S102 - the text above
    exported = scorer(made["jrh_judge"], name=name, description=description)
    # MLflow remembers what it has read once: nothing is lost when somebody clears the cache of source lines.
    exported.model_dump()
    return exported


def asked_by_suites(scorer: Any) -> Any:
    """Return an exported scorer that asks a pair as it is shown: a suite shows both orders itself. Others as they are.

    One that asked both would give the same answer to either order, and its bias could not be seen.
    """
    carried = specification(scorer)
    if carried is None or carried["orders"] == "one":
        return scorer
    return exported_scorer({**carried, "orders": "one"}, name=scorer.name, description=scorer.description)


def is_simulated(scorer: Any) -> bool:
    """Whether a simulated judge takes part in an exported scorer."""
    return bool((specification(scorer) or {}).get("simulated"))


def specification(scorer: Any) -> dict[str, Any] | None:
    """Return the specification that a scorer carries, read from what MLflow keeps of it; nothing in it is run.

    Returns:
        None for a scorer that `to_mlflow` did not make.

    Raises:
        RecipeError: for one of another schema version.
    """
    try:
        source = scorer.model_dump().get("call_source")
    except Exception:
        # Scorers of classes of one's own cannot be written down: they are not ours.
        return None
    literal = _literal(source) if isinstance(source, str) else None
    return None if literal is None else read_specification(literal)


def read_specification(text: str) -> dict[str, Any]:
    """Read a specification.

    Raises:
        RecipeError: for another schema version.
    """
    spec: dict[str, Any] = json.loads(text)
    check_schema_version("This scorer", spec.get("format"), error=RecipeError)
    return spec


def _literal(source: str) -> str | None:
    """Find what the function passes to `score_row`."""
    # Most scorers are not ours, and to parse each would cost more than to look for a word.
    if _HOME not in source:
        return None
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return None
    calls = (node for node in ast.walk(tree) if isinstance(node, ast.Call) and node.args)
    passed = (node.args[0] for node in calls if isinstance(node.func, ast.Name) and node.func.id == _FUNCTION)
    literals = (argument.value for argument in passed if isinstance(argument, ast.Constant))
    return next((literal for literal in literals if isinstance(literal, str)), None)
