"""MLflow's own judges and optimisers by name: registered judges, those that align, and the store they are found in."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from jrh_mlflow.errors import RecipeError, check_known, suggest
from jrh_mlflow.tracking import mlflow_internals
from jrh_mlflow.tracking.store import mlflow_errors, reading_client, reason

OPTIMIZERS = {"simba": "SIMBAAlignmentOptimizer", "gepa": "GEPAAlignmentOptimizer", "memalign": "MemAlignOptimizer"}
"""Name to class in `mlflow.genai.judges.optimizers`."""
_MODEL = {"memalign": "reflection_lm"}
"""What the model of an optimiser is called, where it is not `model`."""
_ACTIVE = "MLFLOW_TRACKING_URI"


@contextmanager
def active_store(uri: str | None) -> Iterator[None]:
    """Let MLflow's own functions use a store: they take no address. Nothing is changed where None is given."""
    if uri is None:
        yield
        return
    import mlflow

    before = os.environ.get(_ACTIVE)
    mlflow.set_tracking_uri(uri)
    try:
        yield
    finally:
        mlflow.set_tracking_uri(None)
        if before is not None:
            os.environ[_ACTIVE] = before


def experiment_id_of(experiment: str, uri: str) -> str:
    """Return the id of an experiment by its name.

    Raises:
        RecipeError: when there is none.
    """
    with reading_client(uri) as client:
        found = client.get_experiment_by_name(experiment)
    if found is None:
        raise RecipeError(f"There is no experiment {experiment!r} at MLflow.")
    return str(found.experiment_id)


def registered_judge(name: str, *, experiment: str, uri: str) -> Any:
    """Return the newest version of a judge that is registered with an experiment; the store must be the active one.

    Raises:
        RecipeError: when none of this name is.
    """
    from mlflow.genai.scorers import get_scorer, list_scorers

    experiment_id = experiment_id_of(experiment, uri)
    with mlflow_errors(uri, problem="cannot be read", what_now="Nothing was asked yet."):
        known = sorted(one.name for one in list_scorers(experiment_id=experiment_id))
        if name in known:
            return get_scorer(name=name, experiment_id=experiment_id)
    there = f"Registered are {', '.join(known)}." if known else "None is registered there."
    raise RecipeError(
        f"There is no judge {name!r} in experiment {experiment!r}.{suggest(name, known)} {there} Or give one as "
        "module:object or file.py:object."
    )


def check_registrable(judge: Any, *, experiment: str, uri: str) -> None:
    """Check before anything is paid that MLflow registers judges of this kind, and the store judges at all.

    Raises:
        RecipeError: when it does not take this one.
        TrackingError: when the store keeps none.
    """
    from mlflow.exceptions import MlflowException
    from mlflow.genai.scorers import list_scorers

    try:
        mlflow_internals.demand_registrable(judge)
        # What MLflow keeps of a judge; one of a class of one's own cannot be written down.
        judge.model_dump()
    except MlflowException as error:
        raise RecipeError(f"{judge.name!r} cannot be registered with MLflow: {reason(error, uri)}.") from error
    experiment_id = experiment_id_of(experiment, uri)
    with mlflow_errors(uri, problem="keeps no registered judges", what_now="Nothing was asked yet."):
        list_scorers(experiment_id=experiment_id)


def register_judge(judge: Any, name: str, *, experiment: str, uri: str, what_now: str) -> None:
    """Register a judge with an experiment, as a new version where there is one of this name.

    Raises:
        TrackingError: when MLflow does not take it; it ends with `what_now`.
    """
    experiment_id = experiment_id_of(experiment, uri)
    with mlflow_errors(uri, problem=f"did not register {name!r}", what_now=what_now):
        judge.register(name=name, experiment_id=experiment_id)


def named_optimizer(name: str, model: str | None) -> Any:
    """Make one of MLflow's optimisers; without a model it takes MLflow's default.

    Raises:
        RecipeError: for an unknown name, or when a library that it needs is not installed.
    """
    from mlflow.exceptions import MlflowException

    check_known("optimizer", name, OPTIMIZERS)
    settings = {} if model is None else {_MODEL.get(name, "model"): model}
    try:
        made = getattr(import_module("mlflow.genai.judges.optimizers"), OPTIMIZERS[name])(**settings)
    except (ImportError, MlflowException) as error:
        if isinstance(error, MlflowException) and "DSPy" not in str(error):
            raise RecipeError(f"{name} cannot be made: {' '.join(str(error).split())}") from error
        raise RecipeError(f"{name} needs DSPy: pip install 'jrh-mlflow[align]'.") from error
    return made
