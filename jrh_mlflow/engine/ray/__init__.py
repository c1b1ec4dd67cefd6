"""Where the calls of an evaluation run: in this process, or in actors on a Ray cluster."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from jrh_mlflow.engine.journal import Journal
from jrh_mlflow.engine.runner import Asked, ask_calls
from jrh_mlflow.errors import RecipeError, suggest

BACKENDS = ("local", "ray")


def asking(backend: str, *, journal: str | Path | Journal, cap_micro: int | None) -> Callable[..., Asked]:
    """Return what asks calls at a backend: `ask_calls`, or the same on a Ray cluster.

    Args:
        backend: `local` or `ray`.
        journal: What the user gave; actors open it themselves, so they need its address.
        cap_micro: Of the run's budget.

    Raises:
        RecipeError: for an unknown backend, for Ray when it is not installed, and for a journal without an address.
    """
    if backend == "local":
        return ask_calls
    if backend != "ray":
        known = ", ".join(BACKENDS)
        raise RecipeError(f"Unknown backend {backend!r}.{suggest(backend, BACKENDS)} Known: {known}.")
    if isinstance(journal, Journal):
        raise RecipeError("An open journal cannot be sent to Ray's workers. Give its path or URL: each opens its own.")
    from jrh_mlflow.engine.ray.fleet import ask_calls_on_ray, import_ray

    import_ray()
    return partial(ask_calls_on_ray, journal_address=journal, cap_micro=cap_micro)
