"""The Optuna study behind a sweep: resumed by its name, joined by workers, every configuration run once.

A trial is born with its configuration (`enqueue_trial`), so everybody who reads the study knows what each trial is
about from its first moment on. Of several trials of one configuration the one with the lowest number is run, and the
others end as duplicates. A trial whose process died is failed and enqueued again.
"""

from __future__ import annotations

import os
import random
import socket
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jrh_mlflow.errors import RecipeError
from jrh_mlflow.sweeps.space import Configuration, Space

if TYPE_CHECKING:
    from optuna import Study, Trial
    from optuna.samplers import TPESampler
    from optuna.storages import RDBStorage
    from optuna.trial import FrozenTrial

HEARTBEAT_S = 15
GRACE_S = 60
"""A trial without a heartbeat for so long belongs to a process that died."""
WORKER, FAILED, DUPLICATE, RESULT = "jrh:worker", "jrh:failed", "jrh:duplicate", "jrh:result"
"""User attributes of a trial."""

_TRIES = 20
_STARTUP = 10


class Duplicate(Exception):  # noqa: N818 - a signal, not a failure
    """Another trial of this configuration is run already."""


class TrialFailed(Exception):  # noqa: N818 - a signal, not a failure
    """A configuration cannot be measured; this process does not try it again, the next one may."""


def default_storage(name: str) -> str:
    """Return a SQLite file of its own for a study, under `$JRH_HOME/sweeps`."""
    folder = Path(os.environ.get("JRH_HOME", ".jrh")) / "sweeps"
    folder.mkdir(parents=True, exist_ok=True)
    return f"sqlite:///{(folder / f'{name}.db').absolute()}"


def open_study(name: str, storage: str, directions: Sequence[str], *, create: bool = True) -> tuple[Study, bool]:
    """Open a study; return it and whether this process made it.

    Raises:
        RecipeError: when the storage cannot be opened, or when there is no such study and none is to be made.
    """
    import optuna
    from sqlalchemy.exc import SQLAlchemyError

    ways: list[Any] = list(directions)
    try:
        store = _storage(storage)
        if create:
            try:
                return optuna.create_study(storage=store, study_name=name, directions=ways), True
            except optuna.exceptions.DuplicatedStudyError:
                pass
        return optuna.load_study(storage=store, study_name=name), False
    except KeyError as error:
        raise RecipeError(
            f"There is no study {name} in this storage. Start the sweep without --worker first, with the same space, "
            "suite and seed."
        ) from error
    except (SQLAlchemyError, ImportError, ValueError, OSError) as error:
        shown = " ".join(str(error).split())[:200]
        raise RecipeError(f"The storage of the study cannot be opened: {shown}.") from error


def _storage(url: str) -> RDBStorage:
    from optuna.exceptions import ExperimentalWarning
    from optuna.storages import RDBStorage, RetryHeartbeatStaleTrialCallback

    waiting = {"connect_args": {"timeout": 60}} if url.startswith("sqlite") else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ExperimentalWarning)
        return RDBStorage(
            url,
            engine_kwargs=waiting,
            heartbeat_interval=HEARTBEAT_S,
            grace_period=GRACE_S,
            heartbeat_stale_trial_callback=RetryHeartbeatStaleTrialCallback(),
        )


@contextmanager
def quiet() -> Iterator[None]:
    """Keep Optuna from printing: the runs and the report say what happened."""
    import optuna

    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.CRITICAL)
    try:
        yield
    finally:
        optuna.logging.set_verbosity(before)


class Trials:
    """The trials of one study over one space."""

    def __init__(self, study: Study, space: Space, *, pair: bool, seed: int) -> None:
        self.study, self.space, self.pair, self.seed = study, space, pair, seed
        self.grid = space.configurations(pair=pair, seed=seed)
        self.failed: dict[str, str] = {}
        """Configurations that failed in this process, with the reason."""

    def key_of(self, trial: FrozenTrial) -> str | None:
        """Return the configuration of a trial; None of one that another space left behind."""
        params = {**trial.system_attrs.get("fixed_params", {}), **trial.params}
        if not all(params.get(name) in labels for name, labels in self.space.axes.items()):
            return None
        return self.space.configuration(params, pair=self.pair).key

    def all(self) -> list[FrozenTrial]:
        """Read the study."""
        return self.study.get_trials(deepcopy=False)

    def measured(self) -> dict[str, FrozenTrial]:
        """Configuration to its trial, of those that are done: measured in full, or stopped."""
        return {key: trial for trial in self.all() if _done(trial) and (key := self.key_of(trial))}

    def open(self) -> list[FrozenTrial]:
        """Return the trials that somebody runs or that wait to be run."""
        return [trial for trial in self.all() if not trial.state.is_finished()]

    def run_next(self, n_trials: int, run: Callable[[Trial, Configuration], Sequence[float]]) -> bool:
        """Run one trial; False when there is none left for this process to start."""
        self.requeue_dead()
        waiting = [trial for trial in self.open() if trial.state.name == "WAITING"]
        if not waiting:
            if len(self.measured()) + len(self.open()) + len(self.failed) >= min(n_trials, len(self.grid)):
                return False
            proposed = self._propose(n_trials)
            if proposed is None:
                return False
            self.study.enqueue_trial(dict(proposed.params))
        self.study.optimize(lambda trial: self._objective(trial, run), n_trials=1, catch=(Duplicate, TrialFailed))
        return True

    def _objective(self, trial: Trial, run: Callable[[Trial, Configuration], Sequence[float]]) -> Sequence[float]:
        trial.set_user_attr(WORKER, {"host": socket.gethostname(), "pid": os.getpid()})
        own = next(other for other in self.all() if other.number == trial.number)
        if not (own.params or own.system_attrs.get("fixed_params")):
            raise Duplicate("Another worker took the trial that this one had enqueued.")
        axes = self.space.axes
        params = {name: str(trial.suggest_categorical(name, list(labels))) for name, labels in axes.items()}
        configuration = self.space.configuration(params, pair=self.pair)
        earlier = [
            other
            for other in self.all()
            if other.number < trial.number
            and (_done(other) or not other.state.is_finished())
            and self.key_of(other) == configuration.key
        ]
        if earlier:
            trial.set_user_attr(DUPLICATE, earlier[0].number)
            raise Duplicate(f"Trial {earlier[0].number} has the configuration of trial {trial.number}.")
        try:
            return run(trial, configuration)
        except TrialFailed as reason:
            trial.set_user_attr(FAILED, str(reason))
            self.failed[configuration.key] = str(reason)
            raise

    def _propose(self, n_trials: int) -> Configuration | None:
        """Choose a configuration that nobody has: the whole grid in turn, or what the sampler suggests."""
        taken = {self.key_of(trial) for trial in self.all() if _done(trial) or not trial.state.is_finished()}
        left = {one.key: one for one in self.grid if one.key not in taken and one.key not in self.failed}
        if not left:
            return None
        if n_trials >= len(self.grid):
            return next(iter(left.values()))
        return self._suggested(left) or next(iter(left.values()))

    def _suggested(self, left: Mapping[str, Configuration]) -> Configuration | None:
        from optuna.distributions import BaseDistribution, CategoricalDistribution
        from optuna.trial import TrialState, create_trial

        sampler = self._sampler()
        axes = {name: list(labels) for name, labels in self.space.axes.items()}
        space: dict[str, BaseDistribution] = {
            name: CategoricalDistribution(labels) for name, labels in axes.items() if len(labels) > 1
        }
        nobody = create_trial(state=TrialState.RUNNING)
        for _ in range(_TRIES):
            drawn = sampler.sample_relative(self.study, nobody, space)
            if not drawn:
                # Too few trials to learn from: the grid's random order decides.
                return None
            params = {name: str(drawn.get(name, labels[0])) for name, labels in axes.items()}
            one = self.space.configuration(params, pair=self.pair)
            if one.key in left:
                return left[one.key]
        keys = list(left)
        return left[random.Random(f"{self.seed}:{len(keys)}").choice(keys)]  # noqa: S311 - an order

    def _sampler(self) -> TPESampler:
        from optuna.samplers import TPESampler

        n_startup = min(_STARTUP, max(2, len(self.grid) // 4))
        # Seeded by the moment: a resumed study must not be told the same thing again.
        seed = random.Random(f"{self.seed}:{len(self.all())}").randrange(2**31)  # noqa: S311 - a seed
        return TPESampler(seed=seed, multivariate=True, constant_liar=False, n_startup_trials=n_startup)

    def requeue_dead(self) -> list[int]:
        """Fail the trials whose process died, enqueue them again, and return their numbers.

        A dead process of this machine is known at once; of another one by its heartbeat, which is Optuna's part.
        """
        import optuna

        dead = []
        for trial in self.all():
            if trial.state.name != "RUNNING" or not _is_dead(trial):
                continue
            try:
                self.study.tell(trial.number, state=optuna.trial.TrialState.FAIL)
            except (ValueError, optuna.exceptions.UpdateFinishedTrialError):
                # Somebody else was quicker.
                continue
            dead.append(trial.number)
            params = {**trial.system_attrs.get("fixed_params", {}), **trial.params}
            if params:
                self.study.enqueue_trial(params)
        return dead

    def fail_stale(self) -> None:
        """Let Optuna fail and enqueue again what has no heartbeat any more."""
        import optuna

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            optuna.storages.fail_stale_trials(self.study)

    def wait(self, *, seconds: float = 0.5) -> None:
        """Give the other workers a moment, then look for dead ones."""
        time.sleep(seconds)
        self.fail_stale()
        self.requeue_dead()


def result_of(trial: FrozenTrial) -> dict[str, Any] | None:
    """Return what a finished trial measured."""
    found: dict[str, Any] | None = trial.user_attrs.get(RESULT)
    return found


def _done(trial: FrozenTrial) -> bool:
    return trial.state.name in ("COMPLETE", "PRUNED")


def _is_dead(trial: FrozenTrial) -> bool:
    worker = trial.user_attrs.get(WORKER)
    if worker is None:
        # Died between its birth and its first word; nothing records a heartbeat for it.
        begun = trial.datetime_start
        return begun is not None and (datetime.now() - begun).total_seconds() > GRACE_S
    if worker["host"] != socket.gethostname():
        return False
    try:
        os.kill(worker["pid"], 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return False
