"""Everything jrh_mlflow raises on purpose.

    JrhError                    a user's input or service is at fault: one line, what to do next, an exit code
    ├── SuiteError              a suite, its tasks or its file breaks a rule
    ├── CallsError              call records break a rule
    │   └── NoCommonCallsError  judges were not asked one call in common
    ├── RecipeError             a recipe, a name or a mapping cannot be resolved
    ├── ReviewError             a decision about an item makes no sense, or a review cannot be opened
    ├── JudgeError              the judge cannot be used, or its service failed          (exit code 4)
    ├── JournalError            the journal of paid calls cannot be opened or written
    ├── TrackingError           MLflow cannot be reached or refused what was logged      (exit code 4)
    ├── BudgetError             a cap has been reached, or covers no call                (exit code 3)
    └── GateError               a check that was asked for did not pass                  (exit code 1)

A `JrhWarning` is what a reader of the results should know; the command line prints it as one line, `note: …`.
A programmer's mistake (a negative count, an unknown keyword) is a plain `ValueError`.
"""

from __future__ import annotations

import difflib
import os
import sys
from collections.abc import Collection, Iterable
from typing import Any


class JrhError(Exception):
    """Base of all errors meant for the user; the command line prints it in one line."""

    exit_code = 2


class JrhWarning(UserWarning):
    """What a reader of the results should know: something was left out, or is not what it seems."""


class SuiteError(JrhError):
    """A suite, its tasks or its file breaks a rule."""


class CallsError(JrhError):
    """Call records break a rule."""


class NoCommonCallsError(CallsError):
    """Judges that are to be compared were not asked one call in common."""


class RecipeError(JrhError):
    """A recipe, a name or a mapping cannot be resolved."""


class ReviewError(JrhError):
    """A decision about an item makes no sense, or a review cannot be opened."""


class JudgeError(JrhError):
    """The judge cannot be used, or its service failed."""

    exit_code = 4


class JournalError(JrhError):
    """The journal of paid calls cannot be opened or written."""


class TrackingError(JrhError):
    """MLflow cannot be reached, or refused what was logged."""

    exit_code = 4
    calls: Any = None
    """The call table of an evaluation that was not logged: for a full disk, which may take it nowhere else."""
    evaluation: Any = None
    """The evaluation that was measured and not logged, with all its readings."""


class BudgetError(JrhError):
    """A spending cap has been reached, or covers no call."""

    exit_code = 3


class GateError(JrhError):
    """A check that was asked for did not pass."""

    exit_code = 1


SCHEMA_VERSION = 1
"""Of every file and table of this package. It rises when a package that knows the old number could not read one."""


def check_schema_version(place: object, found: object, *, error: type[JrhError] = JrhError) -> None:
    """Refuse a file or a table that states another schema version than this package writes.

    Raises:
        JrhError: or `error`, with both versions and what to do.
    """
    # A tag of MLflow's holds the number as text.
    if str(found) != str(SCHEMA_VERSION):
        raise error(
            f"{place} has schema version {found}, but this jrh-mlflow reads {SCHEMA_VERSION}. "
            "Install the jrh-mlflow that wrote it, or make a new one."
        )


def check_known(what: str, name: str, known: Collection[str]) -> None:
    """Refuse a name that is not known, with the nearest one that is.

    Raises:
        RecipeError: naming all that are known.
    """
    if name not in known:
        raise RecipeError(f"Unknown {what} {name!r}.{suggest(str(name), known)} Known: {', '.join(known)}.")


def suggest(name: str, known: Iterable[str]) -> str:
    """Return ` Did you mean 'x'?` for the nearest known name, or an empty string.

    Example:
        >>> suggest("Llama8", ["Llama8B", "Qwen14B"])
        " Did you mean 'Llama8B'?"
    """
    close = difflib.get_close_matches(name, list(known), n=1)
    return f" Did you mean {close[0]!r}?" if close else ""


def is_posix() -> bool:
    """Whether file locks, signals and folders are those of Linux and macOS, and not of Windows."""
    return os.name == "posix" and sys.platform != "win32"


def demand_posix() -> None:
    """Refuse a system that this package is not written for, before anything is asked or kept.

    Raises:
        JrhError: on Windows outside WSL.
    """
    if not is_posix():
        raise JrhError("jrh-mlflow needs a POSIX system, Linux or macOS. On Windows run it inside WSL.")
