"""What an MLflow scorer has to be shown, and whether a suite has it: retrieved texts, tool calls, expectations."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Sequence
from typing import Any

from jrh_mlflow.errors import RecipeError
from jrh_mlflow.schema.items import LEVEL_CONDITIONS, Item
from jrh_mlflow.schema.label_words import label_number
from jrh_mlflow.schema.presentation import context_texts
from jrh_mlflow.suites.suite import Suite
from jrh_mlflow.tracking import mlflow_internals
from jrh_mlflow.tracking.judges.in_memory_traces import called_tools

FIELDS = ("inputs", "outputs", "expectations", "trace")
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
    return {one.name for one in parameters if one.default is one.empty and one.kind not in unnamed}


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
        told = f" ({', '.join(missing)})" if missing else ""
        raise RecipeError(
            f"{scorer.name!r} needs expectations{told}, but a judge is shown no expected answer. "
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
    if needs_tools(scorer) and "trace" not in parts and not any(map(_has_tools, suite.items)):
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
    return condition in LEVEL_CONDITIONS or any(label_number(answer) is not None for answer in answers or ())


def _demand(suite: Suite, has: Callable[[Item], bool], rule: str, problem: str) -> None:
    lacking = [item for item in suite.items if not has(item)]
    if lacking:
        raise RecipeError(
            f"{rule}, but of {len(suite.items)} items of suite {suite.name!r} {len(lacking)} cannot be judged: "
            f"{lacking[0].id!r} {problem}"
        )


def _has_tools(item: Item) -> bool:
    return bool(called_tools(item.transcript or ()))


def _is_built_in(scorer: Any) -> bool:
    return bool(scorer.kind.value == "builtin")


def _missing_expectations(scorer: Any) -> list[str]:
    """Return the expectations that a judge of MLflow's own says it cannot do without."""
    validate = getattr(scorer, "validate_columns", None)
    if validate is None:
        return []
    from mlflow.exceptions import MlflowException

    try:
        validate({"inputs", "outputs", "trace"})
    except MlflowException as error:
        return sorted(str(column).replace("expectations/", "") for column in getattr(error, "missing_columns", ()))
    return []
