"""Where a study is kept: a file of this machine, or a database that several machines join."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jrh_mlflow.errors import RecipeError

if TYPE_CHECKING:
    from optuna import Study
    from optuna.storages import RDBStorage

HEARTBEAT_S = 15
GRACE_S = 60
"""A trial without a heartbeat for so long belongs to a process that died."""

_POSTGRES = ("postgresql", "postgres")


def default_storage(name: str) -> str:
    """Return a SQLite file of its own for a study, under `$JRH_HOME/sweeps`."""
    folder = Path(os.environ.get("JRH_HOME", ".jrh")) / "sweeps"
    folder.mkdir(parents=True, exist_ok=True)
    return f"sqlite:///{(folder / f'{name}.db').absolute()}"


@contextmanager
def open_study(
    name: str, storage: str, directions: Sequence[str], *, create: bool = True
) -> Iterator[tuple[Study, bool]]:
    """Open a study; give it and whether this process made it, and close its connections at the end.

    Raises:
        RecipeError: when the storage cannot be opened, or when there is no such study and none is to be made.
        JournalError: when the address of a PostgreSQL server cannot be read.
    """
    with ExitStack() as undo:
        with _told(storage):
            store = _storage(driver_url(storage))
            undo.callback(store.engine.dispose)
            undo.callback(store.remove_session)
            opened = _open(name, store, directions, create=create)
        yield opened


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


@contextmanager
def _told(storage: str) -> Iterator[None]:
    """Turn what goes wrong while a storage is opened into one line, without the password of its address."""
    from sqlalchemy.exc import SQLAlchemyError

    try:
        yield
    except (SQLAlchemyError, ImportError, ValueError, OSError) as error:
        shown = _without_password(" ".join(str(error).split())[:200], storage)
        # Not `from error`: nothing that was made of an address with a password may be printed.
        raise RecipeError(f"The storage of the study cannot be opened: {shown}.") from None


def driver_url(storage: str) -> str:
    """Name the driver of a PostgreSQL address, so that the journal's own `postgresql://…` serves for the study, too.

    Example:
        >>> driver_url("postgresql://jrh@database.example/jrh")
        'postgresql+psycopg://jrh@database.example/jrh'
    """
    scheme, separator, rest = storage.partition("://")
    if separator and scheme in _POSTGRES:
        from jrh_mlflow.engine.journal.postgres_address import read_address

        # Refuses what is wrong without repeating it; SQLAlchemy would name a part of the password as the port.
        read_address(storage)
        scheme = "postgresql+psycopg"
    # Optuna fills in braces.
    return f"{scheme}{separator}{rest.replace('{', '%7B').replace('}', '%7D')}" if separator else storage


def _without_password(text: str, url: str) -> str:
    from urllib.parse import unquote

    userinfo, at, _ = url.partition("://")[2].rpartition("@")
    password = userinfo.partition(":")[2]
    for one in {password, unquote(password)} if at and password else ():
        text = text.replace(one, "***")
    return text


def _storage(url: str) -> RDBStorage:
    from optuna.exceptions import ExperimentalWarning
    from optuna.storages import RDBStorage, RetryHeartbeatStaleTrialCallback

    # A file may be locked by another process for a while; a connection to a server may have been lost.
    waiting: dict[str, Any] = {"connect_args": {"timeout": 60}} if url.startswith("sqlite") else {"pool_pre_ping": True}
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
