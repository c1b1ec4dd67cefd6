"""The Optuna study behind a sweep: opened or joined by name, every configuration run once, dead workers replaced.

A study is kept in a file of this machine, or in a database that several machines join. A trial is born with its
configuration (`enqueue_trial`), so everybody who reads the study knows what each trial is about from its first moment
on. Of several trials of one configuration the one with the lowest number is run, and the others end as duplicates.
Trials of one judge under several policies share its calls, so they are run one after the other: none of these calls is
paid twice. A trial whose process died is failed and enqueued again.
"""

from __future__ import annotations

import hashlib
import os
import random
import socket
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from jrh_mlflow.engine.runner import is_running
from jrh_mlflow.errors import JrhError, RecipeError
from jrh_mlflow.home import writable_home
from jrh_mlflow.sweeps.space import Configuration, Space
from jrh_mlflow.tracking.runs.store import store_place

if TYPE_CHECKING:
    from optuna import Study, Trial
    from optuna.storages import RDBStorage
    from optuna.trial import FrozenTrial
    from sqlalchemy.engine import Connection, Engine


HEARTBEAT_S = 15
GRACE_S = 60
"""A trial without a heartbeat for so long belongs to a process that died."""

WORKER, FAILED, STOPPED, RESULT = "jrh:worker", "jrh:failed", "jrh:stopped", "jrh:result"
DUPLICATE, CLAIM = "jrh:duplicate", "jrh:claim"
"""User attributes of a trial."""
PARENT, LIMITS = "jrh:parent", "jrh:limits"
"""User attributes of a study: its parent run, and what the sweep was started with, for those that join it."""
JOURNALLED = "jrh:journalled"
"""Set once a judge was asked whose answers and costs are in the journal."""
PAID = "jrh:paid:"
"""How the user attributes begin that say what a run paid outside the journal; its id follows."""

_POSTGRES = ("postgresql", "postgres")
_TRIES = 20
_STARTUP = 10
_ENOUGH = 4
"""Trials measured in full that an importance needs."""


def default_storage(name: str, tracking_uri: str) -> str:
    """Return a SQLite file of its own for a study whose runs are in this store.

    A study knows runs by their id, so the same sweep into another store is another study.
    """
    folder = writable_home() / "sweeps"
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{name}-{hashlib.sha256(store_place(tracking_uri).encode()).hexdigest()[:8]}.db"
    return f"sqlite:///{file.absolute()}"


@contextmanager
def open_study(
    name: str, storage: str, directions: Sequence[str], *, create: bool = True
) -> Iterator[tuple[Study, bool]]:
    """Open a study; give it and whether this process made it, and close its connections at the end.

    Raises:
        RecipeError: when the storage cannot be opened, or when there is no such study and none is to be made.
        JournalError: when the address of a PostgreSQL server cannot be read.
    """
    from sqlalchemy.exc import SQLAlchemyError

    with ExitStack() as undo:
        try:
            store = _storage(driver_url(storage))
            undo.callback(store.engine.dispose)
            undo.callback(store.remove_session)
            opened = _open(name, store, directions, create=create)
        except (SQLAlchemyError, ImportError, ValueError, OSError) as error:
            shown = _without_password(" ".join(str(error).split())[:200], storage)
            # Not `from error`: nothing that was made of an address with a password may be printed.
            raise RecipeError(f"The storage of the study cannot be opened: {shown}.") from None
        try:
            yield opened
        except JrhError:
            study, is_new = opened
            if is_new and PARENT not in study.user_attrs:
                # Refused before it had a run: the next one begins anew, instead of waiting for that run.
                store.delete_study(store.get_study_id_from_name(name))
            raise


def _open(name: str, store: RDBStorage, directions: Sequence[str], *, create: bool) -> tuple[Study, bool]:
    import optuna

    if create:
        ways: list[Any] = list(directions)
        try:
            return optuna.create_study(storage=store, study_name=name, directions=ways), True
        except optuna.exceptions.DuplicatedStudyError:
            pass
    try:
        return optuna.load_study(storage=store, study_name=name), False
    except KeyError as error:
        raise RecipeError(
            f"There is no study {name} in this storage. Start the sweep without --worker first, with the same space, "
            "suite and seed."
        ) from error


def driver_url(storage: str) -> str:
    """Name the driver of a PostgreSQL address, so that the journal's own `postgresql://…` serves for the study, too.

    Example:
        >>> driver_url("postgresql://jrh@database.example/jrh")
        'postgresql+psycopg://jrh@database.example/jrh'
    """
    scheme, separator, rest = storage.partition("://")
    if separator and scheme in _POSTGRES:
        from jrh_mlflow.engine.journal.postgres import read_address

        # Refuses what is wrong without repeating it; SQLAlchemy would name a part of the password as the port.
        read_address(storage)
        scheme = "postgresql+psycopg"
    # Optuna fills in braces.
    return f"{scheme}{separator}{rest.replace('{', '%7B').replace('}', '%7D')}" if separator else storage


def _without_password(text: str, url: str) -> str:
    from urllib.parse import unquote

    userinfo, at, _ = url.partition("://")[2].rpartition("@")
    password = userinfo.partition(":")[2]
    for secret in {password, unquote(password)} if at and password else ():
        text = text.replace(secret, "***")
    return text


def _storage(url: str) -> RDBStorage:
    from optuna.exceptions import ExperimentalWarning
    from optuna.storages import RDBStorage, RetryHeartbeatStaleTrialCallback

    # A file may be locked by another process for a while; a connection to a server may have been lost.
    waiting: dict[str, Any] = {"connect_args": {"timeout": 60}} if url.startswith("sqlite") else {"pool_pre_ping": True}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ExperimentalWarning)
        store = RDBStorage(
            url,
            engine_kwargs=waiting,
            heartbeat_interval=HEARTBEAT_S,
            grace_period=GRACE_S,
            heartbeat_stale_trial_callback=RetryHeartbeatStaleTrialCallback(),
        )
    if url.startswith("sqlite"):
        _write_one_by_one(store.engine)
    return store


def _write_one_by_one(engine: Engine) -> None:
    """Let a transaction of SQLite have the file from its first read on.

    Optuna reads a waiting trial and then marks it as its own, `FOR UPDATE`; SQLite knows no such lock, and two workers
    that read at once both get the trial.
    """
    from sqlalchemy import event

    def leave_beginning_to_us(connection: Any, _record: object) -> None:
        connection.isolation_level = None

    def begin(connection: Connection) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    event.listen(engine, "connect", leave_beginning_to_us)
    event.listen(engine, "begin", begin)
    # Connections made before know nothing of it.
    engine.dispose()


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


class Duplicate(Exception):  # noqa: N818 - a signal, not a failure
    """Another trial of this configuration is run already, or enough of them are."""


class TrialSkipped(Exception):  # noqa: N818 - a signal, not a failure
    """The cap has no room for the configuration; a higher one tries it."""


class TrialFailed(Exception):  # noqa: N818 - a signal, not a failure
    """A configuration cannot be measured; this process does not try it again, the next one may."""


class Trials:
    """The trials of one study over one space."""

    def __init__(self, study: Study, space: Space, *, pair: bool, seed: int) -> None:
        self.study, self.space, self.pair, self.seed = study, space, pair, seed
        self.grid = space.configurations(pair=pair, seed=seed)
        self.by_key = {configuration.key: configuration for configuration in self.grid}
        self.failed: dict[str, str] = {}
        """Configurations that failed in this process, with the reason."""
        self.skipped: dict[str, str] = {}
        """Configurations that the cap had no room for in this process, with the reason."""
        self.preferred: list[str] = []
        """Configurations that are proposed before all others, in this order."""
        self._silent: dict[int, float] = {}
        """Trials that run but do not say where, with the moment this process first saw them."""

    @property
    def limits(self) -> dict[str, Any]:
        """What the sweep was started with last: `n_trials`, `max_usd`, and the `journal` that keeps the cap."""
        return {"n_trials": None, "max_usd": None, "journal": None, **self.study.user_attrs.get(LIMITS, {})}

    def of(self, trial: FrozenTrial) -> Configuration | None:
        """Return the configuration of a trial; None of one that another space left behind."""
        params = trial_params(trial)
        if not all(params.get(name) in labels for name, labels in self.space.axes.items()):
            return None
        return self.space.configuration(params, pair=self.pair)

    def key_of(self, trial: FrozenTrial) -> str | None:
        """Return the key of a trial's configuration."""
        configuration = self.of(trial)
        return None if configuration is None else configuration.key

    def all(self) -> list[FrozenTrial]:
        """Read the study."""
        return self.study.get_trials(deepcopy=False)

    def measured(self) -> dict[str, FrozenTrial]:
        """Configuration to its trial, of those that are done: measured in full, or stopped."""
        return {key: trial for trial in self.all() if _done(trial) and (key := self.key_of(trial))}

    def open(self, *states: str) -> list[FrozenTrial]:
        """Return the trials that somebody runs (`RUNNING`) or that wait to be run (`WAITING`)."""
        return [trial for trial in self.all() if trial.state.name in (states or ("RUNNING", "WAITING"))]

    def dead(self) -> list[int]:
        """Return the trials that ended with their process."""
        ends = {FAILED, STOPPED, DUPLICATE}
        failed = [trial for trial in self.all() if trial.state.name == "FAIL"]
        return [trial.number for trial in failed if not ends & trial.user_attrs.keys()]

    def run_next(self, n_trials: int, run: Callable[[Trial, Configuration], Sequence[float]]) -> bool:
        """Run one trial; False when there is none left for this process to start."""
        # First: a trial whose process died would count as one that somebody runs.
        self.requeue_dead()
        limit, known = min(n_trials, len(self.grid)), self.all()
        if not any(trial.state.name == "WAITING" for trial in known):
            measured = {key for trial in known if _done(trial) and (key := self.key_of(trial))}
            running = [self.of(trial) for trial in known if trial.state.name == "RUNNING"]
            enough = len(measured) + len(running) + len(self.failed) >= limit
            proposed = None if enough else self._propose(n_trials, measured, [one for one in running if one])
            if proposed is None:
                return False
            self.study.enqueue_trial(dict(proposed.params))
        self._terminated: SystemExit | None = None
        try:
            self.study.optimize(
                lambda trial: self._objective(trial, run, limit),
                n_trials=1,
                catch=(Duplicate, TrialFailed, TrialSkipped),
            )
        except KeyboardInterrupt:
            if self._terminated is None:
                raise
        if self._terminated is not None:
            raise self._terminated
        return True

    def _objective(
        self, trial: Trial, run: Callable[[Trial, Configuration], Sequence[float]], limit: int
    ) -> Sequence[float]:
        known = self.all()
        turn = self._take_turn(trial, [other for other in known if other.state.name == "RUNNING"])
        if not trial_params(next(own for own in known if own.number == trial.number)):
            trial.set_user_attr(DUPLICATE, trial.number)
            raise Duplicate("Another worker took the trial that this one had enqueued.")
        axes = self.space.axes
        params = {name: str(trial.suggest_categorical(name, list(labels))) for name, labels in axes.items()}
        configuration = self.by_key[self.space.configuration(params, pair=self.pair).key]
        self._check_first(trial, configuration, limit)
        while any(self._goes_before(other, configuration, trial.number, turn) for other in self.open("RUNNING")):
            self.wait()
        try:
            return run(trial, configuration)
        except TrialFailed as reason:
            trial.set_user_attr(FAILED, str(reason))
            self.failed[configuration.key] = str(reason)
            raise
        except SystemExit as stop:
            # Optuna ends its trial for Ctrl-C only; one that SIGTERM ended must not stay open either.
            self._terminated = stop
            raise KeyboardInterrupt from None

    def _take_turn(self, trial: Trial, running: Sequence[FrozenTrial]) -> int:
        """Say who runs a trial, and draw a number higher than all that are out (Lamport's bakery)."""
        # Two may draw the same number: the trial's own number decides between them.
        turn = 1 + max((_turn(other) or 0 for other in running), default=0)
        trial.set_user_attr(WORKER, {"host": socket.gethostname(), "pid": os.getpid(), "turn": turn})
        return turn

    def _goes_before(self, other: FrozenTrial, configuration: Configuration, number: int, turn: int) -> bool:
        """Whether another trial asks the same judge and came first."""
        theirs = self.of(other)
        return theirs is not None and theirs.judge_key == configuration.judge_key and _came_first(other, number, turn)

    def before(self, trial: Trial) -> list[FrozenTrial]:
        """Return the trials that somebody runs and that came first."""
        turn = trial.user_attrs[WORKER]["turn"]
        return [other for other in self.open("RUNNING") if _came_first(other, trial.number, turn)]

    def _check_first(self, trial: Trial, configuration: Configuration, limit: int) -> None:
        """End a trial whose configuration has another one, or that two workers started beyond the number asked for."""
        earlier = {
            key: other.number
            for other in self.all()
            if other.number < trial.number
            and (_done(other) or not other.state.is_finished())
            and (key := self.key_of(other))
        }
        if configuration.key in earlier:
            trial.set_user_attr(DUPLICATE, earlier[configuration.key])
            raise Duplicate(f"Trial {earlier[configuration.key]} has the configuration of trial {trial.number}.")
        if len(earlier) >= limit:
            trial.set_user_attr(DUPLICATE, trial.number)
            raise Duplicate(f"{limit} trials were asked for.")

    def _propose(self, n_trials: int, measured: set[str], running: Sequence[Configuration]) -> Configuration | None:
        """Choose a configuration that nobody has: the whole grid in turn, or what the sampler suggests."""
        ended = measured | {one.key for one in running} | self.failed.keys() | self.skipped.keys()
        left = {key: point for key, point in self.by_key.items() if key not in ended}
        if not left:
            return None
        if wanted := next((key for key in self.preferred if key in left), None):
            return left[wanted]
        busy = {one.judge_key for one in running}
        left = {key: point for key, point in left.items() if point.judge_key not in busy} or left
        if n_trials >= len(self.grid):
            return next(iter(left.values()))
        return self._suggested(left) or next(iter(left.values()))

    def _suggested(self, left: Mapping[str, Configuration]) -> Configuration | None:
        from optuna.distributions import BaseDistribution, CategoricalDistribution
        from optuna.samplers import TPESampler
        from optuna.trial import TrialState, create_trial

        # Seeded by the moment: a resumed study must not be told the same thing again.
        seed = random.Random(f"{self.seed}:{len(self.all())}").randrange(2**31)  # noqa: S311 - a seed
        n_startup = min(_STARTUP, max(2, len(self.grid) // 4))
        sampler = TPESampler(seed=seed, multivariate=True, constant_liar=False, n_startup_trials=n_startup)
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
            configuration = self.space.configuration(params, pair=self.pair)
            if configuration.key in left:
                return left[configuration.key]
        keys = list(left)
        return left[random.Random(f"{self.seed}:{len(keys)}").choice(keys)]  # noqa: S311 - an order

    def requeue_dead(self) -> None:
        """Fail the trials whose process died and enqueue them again.

        A dead process of this machine is known at once; of another one by its heartbeat, which is Optuna's part.
        """
        import optuna

        for trial in self.open("RUNNING"):
            if not self._is_dead(trial):
                continue
            try:
                self.study.tell(trial.number, state=optuna.trial.TrialState.FAIL)
            except (ValueError, optuna.exceptions.UpdateFinishedTrialError):
                # Somebody else was quicker.
                continue
            if params := trial_params(trial):
                self.study.enqueue_trial(params)

    def _is_dead(self, trial: FrozenTrial) -> bool:
        worker = trial.user_attrs.get(WORKER)
        if worker is None:
            # Died between its birth and its first word; clocks of other machines do not count.
            return time.monotonic() - self._silent.setdefault(trial.number, time.monotonic()) > GRACE_S
        return worker["host"] == socket.gethostname() and not is_running(worker["pid"])

    def wait(self, *, seconds: float = 0.5) -> None:
        """Give the other workers a moment, then look for dead ones."""
        import optuna

        time.sleep(seconds)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            # Fails and enqueues again what has no heartbeat any more.
            optuna.storages.fail_stale_trials(self.study)
        self.requeue_dead()


def trial_params(trial: FrozenTrial) -> dict[str, Any]:
    """Return the choices of a trial; before it is started they are only those it was enqueued with."""
    return {**trial.system_attrs.get("fixed_params", {}), **trial.params}


def _done(trial: FrozenTrial) -> bool:
    return trial.state.name in ("COMPLETE", "PRUNED")


def _turn(trial: FrozenTrial) -> int | None:
    worker = trial.user_attrs.get(WORKER)
    return None if worker is None else int(worker.get("turn", 0))


def _came_first(other: FrozenTrial, number: int, turn: int) -> bool:
    """Whether another trial drew its turn before; one without is about to draw it."""
    theirs = _turn(other)
    return other.number != number and (theirs is None or (theirs, other.number) < (turn, number))


def importance(study: Study, objectives: Mapping[str, str], *, seed: int) -> dict[str, dict[str, float] | str]:
    """Return for each objective how much of its variance each parameter explains, or why that is not known.

    fANOVA on the trials measured in full. Optuna's default, PED-ANOVA, asks another question: what tells the best
    trials from the rest.
    """
    trials = [trial for trial in study.get_trials(deepcopy=False) if trial.state.name == "COMPLETE"]
    return {name: _importance(study, trials, index, seed=seed) for index, name in enumerate(objectives)}


def _importance(study: Study, trials: Sequence[FrozenTrial], index: int, *, seed: int) -> dict[str, float] | str:
    from optuna.importance import FanovaImportanceEvaluator, get_param_importances

    if len(trials) < _ENOUGH:
        return f"n/a: {len(trials)} trials were measured in full, and {_ENOUGH} are needed"
    varying = [name for name in trials[0].params if len({trial.params[name] for trial in trials}) > 1]
    if not varying or len({trial.values[index] for trial in trials}) < 2:
        return "n/a: nothing varies"
    if len(varying) == 1:
        # Shares add up to 1, so no forest is needed for a single one.
        return {varying[0]: 1.0}
    shares = get_param_importances(
        study,
        evaluator=FanovaImportanceEvaluator(seed=seed),
        params=varying,
        target=lambda trial: float(trial.values[index]),
    )
    return {name: float(share) for name, share in shares.items()}
