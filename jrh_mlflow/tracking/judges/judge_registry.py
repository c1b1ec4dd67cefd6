"""MLflow's own judges and optimisers by name: registered judges, those that align, and the store they are found in."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from jrh_mlflow.errors import RecipeError, check_known, suggest
from jrh_mlflow.tracking import mlflow_internals
from jrh_mlflow.tracking.runs.store import (
    DEFAULT_EXPERIMENT,
    active_uri,
    if_there,
    mlflow_errors,
    reading_client,
    reason,
)
from jrh_mlflow.tracking.runs.view import shown_uri

SCORERS = "scorers:/"
"""What the address of a registered judge begins with."""
_MOST_EXPERIMENTS = 100
"""That are looked through for a judge which is not where it was looked for."""

OPTIMIZERS = {"simba": "SIMBAAlignmentOptimizer", "gepa": "GEPAAlignmentOptimizer", "memalign": "MemAlignOptimizer"}
"""Name to class in `mlflow.genai.judges.optimizers`."""
_MODEL = {"memalign": "reflection_lm"}
"""What the model of an optimiser is called, where it is not `model`."""
_ACTIVE = "MLFLOW_TRACKING_URI"


@contextmanager
def active_store(uri: str | None) -> Iterator[None]:
    """Let MLflow's own functions use a store: they take no address. Nothing is changed where None is given."""
    import mlflow

    if uri is None or uri == mlflow.get_tracking_uri():
        yield
        return
    before, active = os.environ.get(_ACTIVE), mlflow.get_tracking_uri()
    mlflow.set_tracking_uri(uri)
    try:
        yield
    finally:
        # MLflow writes its choice into the environment too: both are put back, the variable only where there was one.
        mlflow.set_tracking_uri(None)
        if before is not None:
            os.environ[_ACTIVE] = before
        if mlflow.get_tracking_uri() != active:
            mlflow.set_tracking_uri(active)


def experiment_id_of(experiment: str, uri: str) -> str:
    """Return the id of an experiment by its name.

    Raises:
        RecipeError: when there is none.
    """
    with reading_client(uri) as client:
        place = client.get_experiment_by_name(experiment)
        if place is None:
            known = [other.name for other in client.search_experiments(max_results=_MOST_EXPERIMENTS)]
            raise RecipeError(f"There is no experiment {experiment!r} at MLflow.{suggest(experiment, known)}")
    return str(place.experiment_id)


@dataclass(frozen=True, kw_only=True)
class ScorerAddress:
    """Which registered judge is meant by `scorers:/[EXPERIMENT/]NAME[@VERSION]`."""

    name: str
    version: int | None = None
    """None: the newest."""
    experiment: str | None = None
    """None: the one that runs go to, or else the one that is active at MLflow."""

    @classmethod
    def read(cls, text: str) -> ScorerAddress:
        """Read an address.

        Raises:
            RecipeError: for one that names no judge, or no whole number as the version.

        Example:
            >>> ScorerAddress.read("scorers:/support/helpful@2")
            ScorerAddress(name='helpful', version=2, experiment='support')
        """
        named, at, version = text.removeprefix(SCORERS).rpartition("@")
        experiment, _, name = (named if at else version).rpartition("/")
        if not name or (at and not (version.isascii() and version.isdigit())):
            raise RecipeError(f"A registered judge is given as scorers:/NAME or scorers:/NAME@2, but got {text!r}.")
        # `scorers:/helpful/2`, as prompts and models are written: it would be judge 2 of an experiment.
        if experiment and not at and name.isdigit():
            raise RecipeError(f"The version of a registered judge stands behind an @: {SCORERS}{experiment}@{name}.")
        return cls(name=name, version=int(version) if at else None, experiment=experiment or None)


def registered_judge(name: str, *, experiment: str, uri: str) -> Any:
    """Return the newest version of a judge that is registered with an experiment; the store must be the active one.

    Raises:
        RecipeError: when none of this name is.
    """
    from mlflow.genai.scorers import get_scorer

    experiment_id = experiment_id_of(experiment, uri)
    with _registry(uri):
        if (judge := if_there(lambda: get_scorer(name=name, experiment_id=experiment_id))) is not None:
            return judge
        known = _names(experiment_id)
    raise RecipeError(
        f"There is no judge {name!r} in experiment {experiment!r}.{suggest(name, known)} {_listed(known)} Or give one "
        "as module:object or file.py:object."
    )


@dataclass(frozen=True, kw_only=True)
class RegisteredScorer:
    """What MLflow's registry holds of a scorer; reading it runs no code."""

    name: str
    version: int
    experiment_id: str
    kept: dict[str, Any]
    """As `model_dump` of the scorer gave it."""

    def model_dump(self) -> dict[str, Any]:
        """Return what is kept, as the scorer itself would."""
        return self.kept

    @property
    def registration(self) -> dict[str, Any]:
        """Name, version and experiment, as `Judge.registered` has them."""
        return {"name": self.name, "version": self.version, "experiment_id": self.experiment_id}

    @property
    def is_code(self) -> bool:
        """Whether making the scorer would run code: an exported judge, or a function of somebody's."""
        return self.kept.get("call_source") is not None


def newest_version(
    name: str, *, experiment_id: str | None, uri: str, version: int | None = None
) -> RegisteredScorer | None:
    """Return the newest version of a registered scorer, or a version of it; None where there is none."""
    with active_store(uri):
        place = mlflow_internals.active_experiment_id() if experiment_id is None else experiment_id
    record = if_there(lambda: mlflow_internals.registered_record(name, experiment_id=place, version=version, uri=uri))
    if record is None:
        return None
    return RegisteredScorer(name=name, version=record[1], experiment_id=place, kept=record[0])


def scorer_at(address: str, *, experiment: str | None = None, tracking_uri: str | None = None) -> RegisteredScorer:
    """Return what is registered under an address; nothing of it is run.

    Args:
        address: `scorers:/NAME`, `scorers:/NAME@VERSION`, or with the experiment's name before it:
            `scorers:/support/NAME`.
        experiment: Where runs go. It is looked for there, and then in the experiment that is active at MLflow.
        tracking_uri: MLflow store; the active one when None.

    Raises:
        RecipeError: naming what there is instead: other names, other versions, another experiment.
        TrackingError: when the store cannot be read.
    """
    wanted, uri = ScorerAddress.read(address), tracking_uri or active_uri()
    with _registry(uri):
        places = _places(wanted, experiment, uri)
        for place in places:
            # The newest tells whether the judge is here at all: only then is a version that is not one an error.
            newest = newest_version(wanted.name, experiment_id=place, uri=uri)
            if newest is None:
                continue
            scorer = newest_version(wanted.name, experiment_id=place, uri=uri, version=wanted.version)
            if scorer is None:
                raise RecipeError(_no_such_version(wanted, place, newest.version, uri))
            return scorer
        with active_store(uri):
            raise RecipeError(_no_such_judge(wanted, places, uri))


def loaded_scorer(scorer: RegisteredScorer, *, tracking_uri: str | None = None) -> Any:
    """Return the scorer of this version itself; the code of one that is code is run."""
    from mlflow.genai.scorers import get_scorer

    uri = tracking_uri or active_uri()
    with active_store(uri), _registry(uri):
        return get_scorer(name=scorer.name, experiment_id=scorer.experiment_id, version=scorer.version)


def _places(wanted: ScorerAddress, experiment: str | None, uri: str) -> list[str | None]:
    """Return the ids of the experiments to look in, in order; None is MLflow's active one."""
    if wanted.experiment is not None:
        return [experiment_id_of(wanted.experiment, uri)]
    with reading_client(uri) as client:
        ours = client.get_experiment_by_name(experiment or DEFAULT_EXPERIMENT)
    return [*([] if ours is None else [str(ours.experiment_id)]), None]


def _names(experiment_id: str | None) -> list[str]:
    place = mlflow_internals.active_experiment_id() if experiment_id is None else experiment_id
    return if_there(lambda: mlflow_internals.registered_names(experiment_id=place, uri=active_uri())) or []


@contextmanager
def _registry(uri: str) -> Iterator[None]:
    """Say in one line that a store keeps no judges, or cannot be read."""
    from mlflow.exceptions import MlflowException

    with mlflow_errors(uri, problem="gave no registered judge", what_now="Nothing was asked yet."):
        try:
            yield
        except (NotImplementedError, MlflowException) as error:
            # What MLflow says of a folder; a store of somebody else's has not got the methods.
            if isinstance(error, MlflowException) and "unsupported URI" not in str(error):
                raise
            raise RecipeError(
                f"The MLflow store at {shown_uri(uri)} keeps no registered judges. Use a database, as in "
                "sqlite:///mlflow.db, or a server; or pass the judge itself: module:object or file.py:object."
            ) from error


def _listed(names: list[str]) -> str:
    return f"Registered are {', '.join(names)}." if names else "None is registered there."


def _no_such_version(wanted: ScorerAddress, place: str | None, newest: int, uri: str) -> str:
    numbers = range(1, newest + 1)
    scorers = [newest_version(wanted.name, experiment_id=place, uri=uri, version=number) for number in numbers]
    versions = ", ".join(str(scorer.version) for scorer in scorers if scorer is not None)
    return f"Judge {wanted.name!r} has no version {wanted.version}. There is {versions}; without @ it is the newest."


def _no_such_judge(wanted: ScorerAddress, places: list[str | None], uri: str) -> str:
    with reading_client(uri) as client:
        experiments = {
            str(place.experiment_id): place.name for place in client.search_experiments(max_results=_MOST_EXPERIMENTS)
        }
    elsewhere = [name for place, name in experiments.items() if wanted.name in _names(place)]
    if elsewhere:
        version = "" if wanted.version is None else f"@{wanted.version}"
        named = ", ".join(map(repr, elsewhere))
        return (
            f"Judge {wanted.name!r} is registered with experiment {named}: give "
            f"{SCORERS}{elsewhere[0]}/{wanted.name}{version}."
        )
    known = sorted({name for place in places for name in _names(place)})
    where = f"experiment {wanted.experiment!r}" if wanted.experiment else f"MLflow at {shown_uri(uri)}"
    return f"There is no registered judge {wanted.name!r} in {where}.{suggest(wanted.name, known)} {_listed(known)}"


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
        # Some versions raise an error of MLflow's for a library that is not there.
        if isinstance(error, MlflowException) and "DSPy" not in str(error):
            raise RecipeError(f"{name} cannot be made: {' '.join(str(error).split())}") from error
        raise RecipeError(f"{name} needs DSPy: pip install 'jrh-mlflow[align]'.") from error
    return made
