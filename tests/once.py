"""What is made once per test run, whichever process needs it first, and used by all of them."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

FOLDER = "JRH_TESTS_RUN"
"""In the environment of the processes of a test run: the folder that they share."""


def once(name: str, make: Callable[[Path], object]) -> Path:
    """Return a path that all processes of a test run share, made by the first of them; the others wait for it."""
    path = Path(os.environ[FOLDER]) / name
    with _locked(path.with_name(f"{name}.lock")):
        done = path.with_name(f"{name}.done")
        if not done.exists():
            # Whoever failed before left a part, and nothing that knows its place can be moved there when it is whole.
            shutil.rmtree(path, ignore_errors=True)
            path.unlink(missing_ok=True)
            make(path)
            done.touch()
    return path


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
