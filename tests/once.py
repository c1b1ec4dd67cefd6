"""What is made or started once per test run, whichever process needs it first, and used by all of them."""

from __future__ import annotations

import fcntl
import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")

FOLDER = "JRH_TESTS_RUN"
"""In the environment of the processes of a test run: the folder that they share."""

_SERVE = """
"$@" > "$0/log" 2>&1 &
cat > /dev/null
kill -s "$JRH_TESTS_SIGNAL" $! 2> /dev/null
wait
rm -rf "$0"
times
"""
"""Runs a server until nobody is left at the other end of standard input; then removes its folder and says its times."""

_PATIENCE_S = 20
_line: list[socket.socket] = []
"""To the servers of a test run. Its two ends: the run's, and that of the servers."""
_started: list[subprocess.Popen[Any]] = []
"""By this process."""


def begin(folder: Path) -> None:
    """Begin a test run: this process, and those that it forks, share a folder and servers."""
    os.environ[FOLDER] = str(folder)
    _line[:] = socket.socketpair()


def end() -> float:
    """End the servers of a test run and return their CPU seconds; they end, too, where all its processes are killed."""
    if not _line:
        return 0.0
    ours, theirs = _line
    _line.clear()
    theirs.close()
    ours.shutdown(socket.SHUT_WR)
    # A process that a test left behind may hold an end of the line: the servers end all the same.
    ours.settimeout(_PATIENCE_S)
    said = b""
    with ours, suppress(TimeoutError):
        while received := ours.recv(1024):
            said += received
    while _started:
        _started.pop().wait()
    return _seconds(said.decode())


@contextmanager
def shared() -> Iterator[None]:
    """Be a test run without pytest, for programs that use its servers."""
    with tempfile.TemporaryDirectory(prefix="jrh-") as folder:
        begin(Path(folder))
        try:
            yield
        finally:
            end()


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


def start(folder: Path, *command: object, end: str = "TERM", **options: Any) -> None:
    """Start a server that ends with the test run by a signal. What it prints is in the file `log` of its folder."""
    _, theirs = _line
    words = ["sh", "-c", _SERVE, *map(str, (folder, *command))]
    environment = {**options.pop("env", os.environ), "JRH_TESTS_SIGNAL": end}
    process = subprocess.Popen(words, stdin=theirs, stdout=theirs, env=environment, start_new_session=True, **options)
    _started.append(process)


def wait_for(ready: Callable[[], T | None], *, log: Path) -> T:
    """Wait until a server is ready, and return what it says then."""
    give_up = time.monotonic() + 60
    while (said := ready()) is None:
        if time.monotonic() > give_up:
            raise RuntimeError(f"A server of the tests did not start:\n{log.read_text(encoding='utf-8')}")
        time.sleep(0.05)
    return said


def _seconds(times: str) -> float:
    """Add up what `times` of shells wrote.

    >>> _seconds("0m0.01s 0m0.02s\\n1m2.00s 0m3.00s\\n")
    65.03
    """
    parts = (part.rstrip("s").split("m") for part in times.split())
    return sum(60 * int(minutes) + float(seconds) for minutes, seconds in parts)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
