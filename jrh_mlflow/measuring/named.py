"""The judge that a command line or a file names."""

from __future__ import annotations

from pathlib import Path

from jrh_mlflow.errors import RecipeError, suggest
from jrh_mlflow.judges import Judge, scripted
from jrh_mlflow.judges.callables import CallableJudge
from jrh_mlflow.measuring.resolve import resolve_judge
from jrh_mlflow.plugins import function_from_text
from jrh_mlflow.tracking.judges.judge_registry import SCORERS

_SHORTCUTS = tuple(shortcut.__name__ for shortcut in scripted.SHORTCUTS)
_SCRIPTED = ("AlwaysFirst", "AlwaysTie", "Grader", "LongerWins", "Noisy", "Oracle", *_SHORTCUTS)


def judge_from_text(text: str, *, experiment: str | None = None, tracking_uri: str | None = None) -> Judge:
    """Resolve `scripted:Oracle`, `scripted:Llama8B`, `package.module:function` or `path/to/file.py:function`.

    `scorers:/NAME[@VERSION]` is registered at MLflow, with this experiment or the active one.

    Raises:
        RecipeError: saying what could not be found, with the nearest known name.
    """
    if text.startswith(SCORERS):
        return resolve_judge(text, experiment=experiment, tracking_uri=tracking_uri)
    where, _, name = text.rpartition(":")
    if not where or not name:
        raise RecipeError(
            f"A judge is given as scripted:NAME, module:function, file.py:function or scorers:/NAME, but got {text!r}."
        )
    if where == "scripted":
        return _scripted(name)
    function = function_from_text(text)
    judge = resolve_judge(function)
    if isinstance(judge, CallableJudge) and judge.name == getattr(function, "__name__", None):
        # In many files the function is called `judge`: the file tells them apart.
        judge.name = f"{Path(where).stem if where.endswith('.py') else where}:{name}"
    return judge


def _scripted(name: str) -> Judge:
    if name in _SCRIPTED:
        judge: Judge = getattr(scripted, name)()
        return judge
    if name not in scripted.published():
        known = [*_SCRIPTED, *scripted.published()]
        raise RecipeError(f"Unknown scripted judge {name!r}.{suggest(name, known)} Known: {', '.join(known)}.")
    return scripted.profile(name)
