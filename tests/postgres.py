"""A throw-away PostgreSQL server for a test run: Debian's binaries, a new cluster, a database for each test."""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.once import once, start, wait_for

PASSWORD = "pa/ss@word-" + secrets.token_hex(4)
"""With characters that a URL has to escape, and that no error, log or file may show."""
ESCAPED = PASSWORD.replace("/", "%2F").replace("@", "%40")
MISSING = (
    "The tests start a PostgreSQL server of their own, and its programs are not on this machine. "
    "Install them: `apt-get install postgresql` on Debian and Ubuntu, `brew install postgresql` on macOS."
)


def programs() -> Path:
    """Return the folder of `initdb` and `postgres`: the newest of Debian's, or the one on the PATH."""
    debian = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: float(path.parts[-3]))
    on_path = shutil.which("initdb")
    if not debian and not on_path:
        raise RuntimeError(MISSING)
    return (debian[-1] if debian else Path(on_path or "").resolve()).parent


@dataclass(frozen=True)
class Server:
    """A running server that listens on a socket in its own folder."""

    folder: Path

    def address(self, database: str) -> str:
        """The address of a database, password included."""
        return f"postgresql://jrh:{ESCAPED}@/{database}?host={self.folder}"

    def make_database(self) -> str:
        """Make an empty database and return its address."""
        name = f"t{secrets.token_hex(8)}"
        execute(self.address("postgres"), f"CREATE DATABASE {name}")
        return self.address(name)

    def restart(self) -> None:
        """Restart one that `own_server` started: whoever is connected is cut off."""
        _control(self.folder, "restart", "-m", "fast")


@contextmanager
def own_server() -> Iterator[Server]:
    """Start a server for one test alone, which may restart it."""
    folder, _ = _make()
    try:
        _control(folder, "start", "-o", f"-k {folder} -c listen_addresses=")
        yield Server(folder)
    finally:
        _control(folder, "stop", "-m", "immediate")
        shutil.rmtree(folder)


def _control(folder: Path, *what: str) -> None:
    words = [programs() / "pg_ctl", "-D", folder / "data", "-l", folder / "log", "-w", *what]
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL, cwd=folder, **_who())


def _who() -> dict[str, Any]:
    # The server refuses to run as root.
    return {"user": "postgres", "group": "postgres", "extra_groups": []} if os.geteuid() == 0 else {}


def server() -> Server:
    """Return the server of this test run, started when it is first needed."""
    return Server(Path(once("postgres", _start).read_text(encoding="utf-8")))


def execute(address: str, statement: str, *values: object) -> list[tuple[Any, ...]]:
    """Run one statement over a connection of its own and return its rows."""
    import psycopg

    with psycopg.connect(address, autocommit=True) as connection:
        cursor = connection.execute(statement, values or None)
        return cursor.fetchall() if cursor.description else []


def _make() -> tuple[Path, dict[str, Any]]:
    """Make a cluster; return its folder and who it belongs to."""
    # Not in pytest's folder: the path of a socket has at most 107 characters.
    folder = Path(tempfile.mkdtemp(prefix="jrh-pg-"))
    (folder / "password").write_text(PASSWORD)
    who = _who()
    for path in (folder, folder / "password") if who else ():
        shutil.chown(path, "postgres", "postgres")
    data = str(folder / "data")
    make = [programs() / "initdb", "-D", data, "-U", "jrh", "--pwfile", folder / "password", "--encoding", "UTF8"]
    locale = ["--locale", "C", "--auth", "scram-sha-256", "--no-instructions"]
    subprocess.run([*make, *locale], check=True, stdout=subprocess.DEVNULL, cwd=folder, **who)
    return folder, who


def _start(place: Path) -> None:
    """Start a server, and write into a file where it is."""
    folder, who = _make()
    data = str(folder / "data")
    command = [programs() / "postgres", "-D", data, "-k", folder, "-c", "listen_addresses="]
    # At the end at once, without a last checkpoint: nothing of it is used again.
    start(folder, *command, end="QUIT", cwd=folder, **who)
    wait_for(lambda: _answers(Server(folder)), log=folder / "log")
    place.write_text(str(folder), encoding="utf-8")


def _answers(started: Server) -> bool | None:
    import psycopg

    try:
        execute(started.address("postgres"), "SELECT 1")
    except psycopg.OperationalError:
        return None
    return True
