"""`jrh align`: judge, traces and optimiser by name, aligned and checked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jrh_mlflow.errors import JrhError, JudgeError, RecipeError
from jrh_mlflow.models.transports import safe_text
from jrh_mlflow.models.transports.litellm import check_key
from jrh_mlflow.plugins import function_from_text
from jrh_mlflow.tracking import mlflow_internals
from jrh_mlflow.tracking.judges.judge_registry import (
    active_store,
    check_registrable,
    named_optimizer,
    register_judge,
    registered_judge,
)
from jrh_mlflow.tracking.judges.scorers import MlflowJudge, is_mlflow_judge
from jrh_mlflow.tracking.runs import keys
from jrh_mlflow.tracking.runs.store import active_uri
from jrh_mlflow.tracking.traces.traces_in import PREFIX, find_traces

if TYPE_CHECKING:
    from jrh_mlflow.people.alignment.aligned import Alignment


def align(
    judge: str,
    *,
    traces: str,
    optimizer: str,
    optimizer_model: str | None = None,
    max_traces: int | None = None,
    register: bool = False,
    tracking_uri: str | None = None,
    **settings: Any,
) -> Alignment:
    """Align a judge of MLflow's with people's labels on traces, and check it on those that it did not learn from.

    Args:
        judge: `module:object`, `file.py:object`, or the name of one that is registered with the traces' experiment.
        traces: `traces:/EXPERIMENT`.
        optimizer: `simba`, `gepa`, `memalign`, or `module:object`, an optimiser or a class that needs no argument.
        optimizer_model: Model that the optimiser itself asks.
        max_traces: The newest so many; None takes all.
        register: Whether it is to be registered: that it can be is checked before anything is asked.
        tracking_uri: MLflow store; the active one when None.
        settings: As for `CheckedOptimizer`.

    Raises:
        RecipeError: when one of them cannot be found, or too few traces are labelled.
        JudgeError: when the judge or the optimiser fails.
        TrackingError: when MLflow cannot be reached.
    """
    if not traces.startswith(PREFIX) or traces == PREFIX:
        raise RecipeError(f"Traces are given as {PREFIX}EXPERIMENT, but got {traces!r}.")
    with active_store(tracking_uri):
        uri, experiment = active_uri(), traces.removeprefix(PREFIX)
        inner = _optimizer(optimizer, optimizer_model)
        known = _judge(judge, experiment, uri)
        # Before traces are read: an optimiser asks models by clients of its own.
        if missing := MlflowJudge.unchecked(known).lacks():
            raise JudgeError(missing)
        if ":" not in optimizer:
            check_key((optimizer_model or mlflow_internals.default_model()).replace(":/", "/", 1), None)
        if register:
            check_registrable(known, experiment=experiment, uri=uri)
        # With spans, because a judge may ask for the whole trace.
        return _checked(inner, known, list(find_traces(traces, uri, max_traces, spans=True)), settings)


def register_aligned(done: Alignment, name: str, *, traces: str, tracking_uri: str | None) -> None:
    """Register the judge that was returned with the experiment of the traces.

    Raises:
        TrackingError: when MLflow does not take it; where it is then to be found.
    """
    kept = f"Its instructions are in run {done.run_id} ({keys.JUDGE_FOLDER}/after.txt)."
    with active_store(tracking_uri):
        register_judge(
            done.judge,
            name,
            experiment=traces.removeprefix(PREFIX),
            uri=active_uri(),
            what_now=kept if done.run_id else "No run was logged: keep the instructions above.",
        )


def _checked(inner: Any, judge: Any, traces: list[Any], settings: dict[str, Any]) -> Alignment:
    from jrh_mlflow.people.alignment.optimizer import CheckedOptimizer

    optimizer = CheckedOptimizer(inner, **settings)
    try:
        return optimizer.check(judge, traces)
    except JrhError:
        raise
    except Exception as error:  # An optimiser is code of anybody's, and asks services of its own.
        raise JudgeError(f"{type(inner).__name__} failed: {safe_text(f'{type(error).__name__}: {error}')}") from error


def _judge(text: str, experiment: str, uri: str) -> Any:
    judge = function_from_text(text) if ":" in text else registered_judge(text, experiment=experiment, uri=uri)
    if not is_mlflow_judge(judge) or not hasattr(judge, "align"):
        raise RecipeError(
            f"{text!r} is no judge that MLflow can align, but {type(judge).__name__}. Make one with "
            "mlflow.genai.make_judge."
        )
    return judge


def _optimizer(text: str, model: str | None) -> Any:
    if ":" not in text:
        return named_optimizer(text, model)
    if model is not None:
        raise RecipeError(f"--optimizer-model is for MLflow's own optimizers; {text!r} is set up in its code.")
    optimizer = function_from_text(text)
    if not isinstance(optimizer, type):
        return optimizer
    try:
        return optimizer()
    except Exception as error:  # A class of anybody's.
        problem = safe_text(f"{type(error).__name__}: {error}")
        raise RecipeError(f"{text!r} cannot be made without arguments: {problem}. Give an object.") from error
