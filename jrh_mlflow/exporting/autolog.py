"""`jrh.autolog`: runs of `mlflow.genai.evaluate` say which of their judges were measured, and where."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from jrh_mlflow.engine.interrupts import say
from jrh_mlflow.exporting.evaluation_hook import is_code, listen, note_judges, run_page, stop_listening, tag_for
from jrh_mlflow.exporting.status import Status, status
from jrh_mlflow.show.plain_text import code, literal
from jrh_mlflow.tracking.exported import keep_every_verdict
from jrh_mlflow.tracking.judges.specifications import specification
from jrh_mlflow.tracking.mlflow_internals import ensemble_members
from jrh_mlflow.tracking.runs import keys
from jrh_mlflow.tracking.runs.store import active_uri

_CODE = "code"


def autolog(disable: bool = False) -> None:
    """Let every `mlflow.genai.evaluate` name the datasheets of its judges in the run that it logs.

    For each scorer the run gets a tag `jrh.status.NAME` and a line in its description: measured, stale or never
    measured, with a link to the datasheet or the command that makes one. Scores, results and errors of the evaluation
    stay as they are; what goes wrong here is a warning. Functions that were imported earlier are included. Before an
    evaluation on a database `MLFLOW_GENAI_EVAL_MAX_WORKERS` is set unless you have, so that no feedback is lost.

    Args:
        disable: Stop it.
    """
    if disable:
        stop_listening()
    else:
        listen(_prepared, _noted)


def _prepared() -> None:
    try:
        keep_every_verdict(None)
    except Exception as error:
        _warn(f"{type(error).__name__}: {error}", did="keep MLflow from losing feedback")


def _noted(result: Any, arguments: Callable[[], Mapping[str, Any]]) -> None:
    try:
        note_datasheets(result.run_id, arguments()["scorers"])
    except Exception as error:  # an evaluation is paid for: nothing of ours may cost its result
        _warn(f"{type(error).__name__}: {error}")


def note_datasheets(run_id: str, scorers: Sequence[Any]) -> None:
    """Write on the run of an evaluation what is known of its judges.

    Raises:
        TrackingError: when MLflow does not take it.
    """
    uri = active_uri()
    lines: dict[str, list[str]] = {}
    states: dict[str, list[str]] = {}
    seen: list[Any] = []
    problems: list[str] = []
    for scorer, depth in _all_of(scorers):
        name = str(scorer.name)
        shown = code(name)
        try:
            if scorer in seen:
                continue
            found = _known(scorer, uri)
            line = f"{'  ' * depth}- {shown}: {_told(found, uri)}"
        except Exception as error:  # of one judge: the others are told all the same
            problems.append(f"{name}: {type(error).__name__}: {error}")
            continue
        seen.append(scorer)
        states.setdefault(tag_for(name), []).append(_state(found))
        lines[shown] = list(dict.fromkeys([*lines.get(shown, ()), line]))
    tags = {tag: keys.STATES_APART.join(told) for tag, told in states.items()}
    note_judges(run_id, lines=lines, tags=tags, uri=uri)
    if problems:
        _warn("; ".join(problems))


def _all_of(scorers: Sequence[Any], depth: int = 0) -> Iterator[tuple[Any, int]]:
    """Yield scorers, and after an ensemble its members."""
    for scorer in scorers:
        yield scorer, depth
        yield from _all_of(ensemble_members(scorer), depth + 1)


def _known(scorer: Any, uri: str) -> Status | None:
    """Return the status of a judge; None for code that nobody has measured as a judge."""
    if not is_code(scorer) or specification(scorer) is not None:
        return status(scorer, tracking_uri=uri)
    try:
        return status(scorer, tracking_uri=uri) or None
    except Exception:  # code that cannot be looked at has no datasheet
        return None


def _state(found: Status | None) -> str:
    if found is None:
        return _CODE
    return found.state if found.run_id is None else f"{found.state}: run {found.run_id}"


def _told(found: Status | None, uri: str) -> str:
    if found is None:
        return "code, not a judge: it has no datasheet."
    simulated = "Simulated judge. " if found.simulated else ""
    datasheet = f" [Datasheet]({run_page(found.run_id, uri)})." if found.run_id else ""
    measure = "" if found else f" Measure it: {code(found.measure)}"
    return f"{simulated}{literal(found.reason)}{datasheet}{measure}"


def _warn(problem: str, *, did: str = "note the datasheets of the judges") -> None:
    text = f"autolog of jrh could not {did} ({problem}). The evaluation is as it was."
    try:
        warnings.warn(text, stacklevel=2)
    except Warning:  # where warnings are errors
        say(text)
