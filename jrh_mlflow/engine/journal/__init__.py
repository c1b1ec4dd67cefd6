"""The journal of paid calls: every answer durable before it is used, every dollar reserved before it is spent."""

from __future__ import annotations

import os
from pathlib import Path

from jrh_mlflow.engine.journal._base import Journal, Summary
from jrh_mlflow.engine.journal.rows import Recovery
from jrh_mlflow.errors import JournalError

__all__ = ["Journal", "Recovery", "Summary", "open_journal"]


def open_journal(path_or_url: str | os.PathLike[str]) -> Journal:
    """Open a journal, made when there is none; what a killed process left is settled first.

    Args:
        path_or_url: The path of an SQLite file for one machine, or `postgresql://USER:PASSWORD@HOST:PORT/DATABASE`
            for several that share answers and budgets (the extra `postgres`).
    """
    text = os.fspath(path_or_url)
    scheme, separator, _ = text.partition("://")
    if not separator:
        from jrh_mlflow.engine.journal.sqlite import SqliteJournal

        return SqliteJournal(Path(text))
    # As Optuna and MLflow write it, too: `postgresql+psycopg://`.
    if scheme.partition("+")[0] not in ("postgresql", "postgres"):
        # A URL may hold a password: only its scheme is repeated.
        raise JournalError(f"No journal speaks {scheme!r}. Give the path of a file, or postgresql://...")
    try:
        import psycopg  # noqa: F401
    except ImportError as error:
        install = 'pip install "jrh-mlflow[postgres]"'
        raise JournalError(f"A journal on PostgreSQL needs psycopg ({error}): {install}.") from error
    from jrh_mlflow.engine.journal.postgres import PostgresJournal

    return PostgresJournal(text)
