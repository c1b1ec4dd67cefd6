"""The journal of paid calls: every answer durable before it is used, every dollar reserved before it is spent.

A module of this folder that is named after the scheme of its addresses and has a `BACKEND` is a backend.
"""

from __future__ import annotations

import importlib.util
import os

from jrh_mlflow.engine.journal._base import Journal, Summary
from jrh_mlflow.engine.journal.rows import JournalledAnswer, Recovery, Reservation
from jrh_mlflow.errors import JournalError, demand_posix

__all__ = ["Journal", "JournalledAnswer", "Recovery", "Reservation", "Summary", "open_journal", "shown_place"]

_MODULES = {"": "sqlite", "postgresql": "postgres"}
"""Where the module has another name than the scheme: a path has none."""


def open_journal(path_or_url: str | os.PathLike[str]) -> Journal:
    """Open a journal, made when there is none; what a killed process left is settled first.

    Args:
        path_or_url: The path of an SQLite file for one machine, or `postgresql://USER:PASSWORD@HOST:PORT/DATABASE`
            for several that share answers and budgets (the extra `postgres`).
    """
    demand_posix()
    return _backend_of(path_or_url)(os.fspath(path_or_url))


def shown_place(path_or_url: str | os.PathLike[str]) -> str:
    """Return where a journal is, as it may be printed and logged: without a password, the home directory as `~`."""
    return _backend_of(path_or_url).shown(os.fspath(path_or_url))


def _backend_of(path_or_url: str | os.PathLike[str]) -> type[Journal]:
    text = os.fspath(path_or_url)
    scheme = text.partition("://")[0] if "://" in text else ""
    # As Optuna and MLflow write it, too: `postgresql+psycopg://`.
    name = scheme.partition("+")[0]
    backend = _backend(_MODULES.get(name, name))
    if backend is None:
        # A URL may hold a password: only its scheme is repeated.
        raise JournalError(f"No journal speaks {scheme!r}. Give the path of a file, or postgresql://...")
    return backend


def _backend(name: str) -> type[Journal] | None:
    if not name.isidentifier() or importlib.util.find_spec(f"{__name__}.{name}") is None:
        return None
    if name == "postgres":
        _demand_driver()
    backend: type[Journal] | None = getattr(importlib.import_module(f"{__name__}.{name}"), "BACKEND", None)
    return backend


def _demand_driver() -> None:
    try:
        import psycopg  # noqa: F401
    except ImportError as error:
        install = 'pip install "jrh-mlflow[postgres]"'
        raise JournalError(f"A journal on PostgreSQL needs psycopg ({error}): {install}.") from error
