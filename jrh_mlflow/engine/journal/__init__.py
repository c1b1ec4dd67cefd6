"""The journal of paid calls: every answer durable before it is used, every dollar reserved before it is spent."""

from __future__ import annotations

import os
from pathlib import Path

from jrh_mlflow.engine.journal._base import Journal, Recovery, Summary
from jrh_mlflow.errors import JournalError

__all__ = ["Journal", "Recovery", "Summary", "open_journal"]


def open_journal(path_or_url: str | os.PathLike[str]) -> Journal:
    """Open a journal, made when there is none; what a killed process left is settled first.

    Args:
        path_or_url: The path of an SQLite file. The URL of a server is refused in this version.
    """
    text = os.fspath(path_or_url)
    scheme, separator, _ = text.partition("://")
    if separator:
        # A URL may hold a password: only its scheme is repeated.
        if scheme.startswith("postgres"):
            raise JournalError("A journal on PostgreSQL comes with a later version. Give the path of a file for now.")
        raise JournalError(f"No journal speaks {scheme!r}. Give the path of a file.")
    from jrh_mlflow.engine.journal.sqlite import SqliteJournal

    return SqliteJournal(Path(text))
