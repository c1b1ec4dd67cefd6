"""The folder in which this package keeps what must outlive a process: journal, spools, outbox, reviews, studies."""

from __future__ import annotations

import os
import stat
import sys
from contextlib import suppress
from functools import cache
from pathlib import Path

from jrh_mlflow.errors import JrhError

_WHAT_NOW = "Set JRH_HOME to a folder that can be written"


def home() -> Path:
    """Return `$JRH_HOME`, or else a folder of the user's data.

    A relative `$JRH_HOME` is resolved at its first use in a process, so that after a `chdir` everything still lies
    together.

    Raises:
        JrhError: when the user has no home directory.
    """
    given = os.environ.get("JRH_HOME")
    try:
        return _absolute(given) if given else user_data() / "jrh"
    except RuntimeError as error:
        raise JrhError(
            f"There is no folder to keep paid answers in ({str(error).rstrip('.')}). {_WHAT_NOW}."
        ) from error


def writable_home() -> Path:
    """Return `home()`, made where it is missing.

    Raises:
        JrhError: when it cannot be made or written.
    """
    folder = home()
    try:
        private_folder(folder)
        problem = None if os.access(folder, os.W_OK | os.X_OK) else "no permission to write"
    except OSError as error:
        problem = error.strerror
    if problem:
        raise JrhError(f"Paid answers cannot be kept in {folder} ({problem}). {_WHAT_NOW}.")
    return folder


def private_folder(folder: Path) -> None:
    """Make a folder for this user's eyes; one of the user's that others could read is closed to them.

    Except where its setgid bit says that a group shares it.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    _close_to_others(folder)


def private_file(file: Path) -> None:
    """Make a file for this user's eyes, empty where there is none, in a folder that is there."""
    os.close(os.open(file, os.O_RDWR | os.O_CREAT, 0o600))
    _close_to_others(file)


def _close_to_others(path: Path) -> None:
    found, is_shared = path.stat(), path.is_file() and path.parent.stat().st_mode & stat.S_ISGID
    if found.st_uid == os.getuid() and found.st_mode & 0o077 and not (found.st_mode & stat.S_ISGID or is_shared):
        # Some file systems have no such rights.
        with suppress(PermissionError):
            path.chmod(stat.S_IMODE(found.st_mode) & 0o700)


@cache
def _absolute(folder: str) -> Path:
    return Path(folder).expanduser().absolute()


def user_data() -> Path:
    """Return where programs keep the data of this user, as the rules of the system say."""
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support"
    given = Path(os.environ.get("XDG_DATA_HOME", ""))
    # The rules of XDG: a relative path is to be ignored.
    return given if given.is_absolute() else Path.home() / ".local" / "share"


def shown_path(path: Path) -> str:
    """Write a path for people and for stores that others see: the user's home directory is `~`.

    Example:
        >>> shown_path(Path("/srv/jrh/journal.db"))
        '/srv/jrh/journal.db'
    """
    own = Path("~").expanduser() if os.environ.get("HOME") else None
    if own is None or own.parent == own or not path.is_relative_to(own):
        return str(path)
    return f"~/{path.relative_to(own).as_posix()}"
