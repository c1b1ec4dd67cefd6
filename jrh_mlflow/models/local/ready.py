"""Models on this machine, before they are asked: there, loadable, and not asked more at once than they have slots."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from jrh_mlflow.errors import RecipeError
from jrh_mlflow.models.local.names import is_local
from jrh_mlflow.models.local.server import cpu_seconds, prepare, slots


def local_models(*asked: object) -> list[str]:
    """Return the models on this machine among those of judges, generators and whatever else has a `model`."""
    models = [getattr(one, "model", None) for one in asked]
    return [model for model in models if isinstance(model, str) and is_local(model)]


def make_ready(models: Iterable[str], *, concurrency: int, backend: str = "local") -> int:
    """Fetch and check local models, and return how many calls may be in flight: no more than they answer at once.

    A call that waits for a slot would use up its time limit, and would have to be settled after a Ctrl-C.

    Raises:
        RecipeError: when the extra is missing, or the calls are to run on other machines.
        JudgeError: when a model cannot be fetched or loaded.
    """
    for model in models:
        if backend != "local":
            raise RecipeError(f'{model} runs on this machine, and backend={backend!r} on others. Use backend="local".')
        prepare(model)
        concurrency = min(concurrency, slots())
    return concurrency


class ModelClock:
    """The processor time that models on this machine use from now on."""

    def __init__(self, models: Sequence[str]) -> None:
        self._before = cpu_seconds() if models else None

    def seconds(self) -> float | None:
        """Return what was used so far; None when no model runs on this machine."""
        return None if self._before is None else max(0.0, cpu_seconds() - self._before)
