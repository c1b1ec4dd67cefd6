"""Files and folders that a user names for results: what lies there already is not overwritten unless that was said."""

from __future__ import annotations

from pathlib import Path

from jrh_mlflow.errors import RecipeError


def check_free(path: str | Path, *, force: bool, holds: str = "") -> None:
    """Refuse to overwrite what lies at a path already; called before anything is paid or logged.

    Args:
        path: What is to be written.
        force: Whether overwriting was asked for.
        holds: What lies there, where more is known than that it exists.

    Raises:
        RecipeError: naming it, and the two ways out.
    """
    if not force and Path(path).exists():
        raise RecipeError(f"{path} {holds or 'exists already'}. Give another name, or overwrite it with --force.")
