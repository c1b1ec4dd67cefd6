"""MLflow's own server: a store in a folder, and the process that shows it."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from jrh_mlflow.errors import TrackingError

DATABASE = "mlflow.db"
ARTIFACTS = "mlartifacts"
"""Where `mlflow ui` looks for artifacts when it is started in the folder."""
HOST = "127.0.0.1"
"""Servers listen on this machine only."""
_LAST_LINES = 20
"""Of a server's log, shown when it ends by itself."""
_BACKEND = "MLFLOW_BACKEND_STORE_URI"
LINKS_ARE_SAID = "JRH_LINKS_ARE_SAID"
"""In the environment of a server whose starter tells the user where its pages are."""


def folder_uri(folder: str | Path) -> str:
    """Return the tracking URI of a store in a folder, making the folder."""
    path = Path(folder).resolve()
    path.mkdir(parents=True, exist_ok=True)
    return f"sqlite:///{path / DATABASE}"


def artifacts_uri(folder: str | Path) -> str:
    """Return where a store in a folder keeps its artifacts."""
    return (Path(folder).resolve() / ARTIFACTS).as_uri()


def server_command(store: str | None, *, port: int) -> list[str]:
    """Return the command that serves a store on this machine only; what is no folder is named by `_backend`."""
    if store is not None and Path(store).is_dir():
        folder = Path(store).resolve()
        if not (folder / DATABASE).is_file():
            raise TrackingError(f"{store} is not a store: there is no {DATABASE} in it.")
        backend = ["--backend-store-uri", f"sqlite:///{folder / DATABASE}"]
        backend += ["--artifacts-destination", artifacts_uri(folder)]
    else:
        backend = []
        if _backend(store)[_BACKEND].startswith("http"):
            raise TrackingError(
                "The store is a server already: open it in a browser. Our pages are under its /jrh/ where "
                "`mlflow server --app-name jrh` started it, with jrh-mlflow installed beside MLflow."
            )
    place = ["--host", HOST, "--port", str(port), "--workers", "1"]
    return [sys.executable, "-m", "mlflow", "server", *backend, *place]


def _backend(store: str | None) -> dict[str, str]:
    """Return the variable that names a store to MLflow: a command line would show a password to the whole machine."""
    import mlflow

    return {_BACKEND: store or str(mlflow.get_tracking_uri())}


def server_environment() -> dict[str, str]:
    """Return the environment of the server: no look-up of model prices on the network while it starts."""
    quiet = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "MLFLOW_MODEL_CATALOG_URI": ""}
    # Seven job processes that nothing here uses; they take as much to start as the server itself.
    return {**os.environ, **quiet, "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}


def serve(
    store: str | None,
    *,
    port: int,
    when_started: Callable[[str, subprocess.Popen[bytes]], None],
    copy: bool = False,
) -> None:
    """Serve a store and our pages of it until Ctrl-C or SIGTERM; with `copy`, a temporary copy of the folder.

    The server's log is a temporary file, for this user's eyes, that goes with it.

    Args:
        store: A folder, a tracking URI, or the active store when None.
        port: Of this machine.
        when_started: Called with the server's address and process while it starts.
        copy: Leave the folder as it is.

    Raises:
        TrackingError: when a copy is asked for of what is no folder, or the server cannot start.
    """
    if copy and (store is None or not Path(store).is_dir()):
        what = "the active store" if store is None else store
        raise TrackingError(f"--copy needs the folder of a store with its {DATABASE}, but was given {what}.")
    demand_port(port)
    address = f"http://{HOST}:{port}"
    with (
        suppress(KeyboardInterrupt),
        _ended_by_sigterm(),
        _maybe_copy(store, copy=copy) as served,
        tempfile.NamedTemporaryFile(prefix="jrh-ui-", suffix=".log") as log,
    ):
        command = [*server_command(served, port=port), "--app-name", "jrh"]
        # What MLflow and uvicorn say would stand among our links; a line for each request would push them away.
        start = f"MLflow and our pages start on {address} (Ctrl-C ends them)."
        print(f"{start} Links follow once MLflow answers. Their log: {log.name}", file=sys.stderr, flush=True)
        variables = {LINKS_ARE_SAID: "true"} | ({} if served and Path(served).is_dir() else _backend(served))
        with started(command, variables, log) as process:
            try:
                when_started(address, process)
                code = process.wait()
                if code != 0:
                    raise TrackingError(f"The MLflow server ended with code {code}.")
            except TrackingError as error:
                lines = Path(log.name).read_text(encoding="utf-8", errors="replace").splitlines()
                raise TrackingError("\n".join([str(error), "It said:", *lines[-_LAST_LINES:]])) from error


def demand_port(port: int) -> None:
    """Refuse a port that somebody listens on: the server would take long to say so, or theirs would answer.

    Raises:
        TrackingError: naming it.
    """
    with socket.socket() as trying:
        # As servers do: a port that a process has just left counts as free.
        trying.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trying.bind((HOST, port))
        except OSError as error:
            why = f"Port {port} of {HOST} cannot be used: {error.strerror}."
            raise TrackingError(f"{why} Give another with --port, or end what listens there.") from error


@contextmanager
def started(command: list[str], variables: Mapping[str, str], log: IO[bytes]) -> Iterator[subprocess.Popen[bytes]]:
    """Run a server while the block does."""
    environment = {**server_environment(), **variables}
    process = subprocess.Popen(  # noqa: S603 - our own arguments
        command, env=environment, stdout=log, stderr=subprocess.STDOUT
    )
    try:
        yield process
    finally:
        process.terminate()
        process.wait()


@contextmanager
def _ended_by_sigterm() -> Iterator[None]:
    """Take SIGTERM for Ctrl-C, so that what was started and copied does not outlive this process."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def wait_until_up(url: str, process: subprocess.Popen[bytes], *, patience_s: float = 600) -> None:
    """Wait until a server that was just started answers.

    Raises:
        TrackingError: when it ends, or does not answer in time.
    """
    # Past any proxy: the server is on this machine.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    deadline = time.monotonic() + patience_s
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise TrackingError(f"The MLflow server ended with code {process.returncode} while starting.")
        try:
            with opener.open(url, timeout=2):
                return
        except OSError:
            time.sleep(0.2)
    raise TrackingError(f"The MLflow server did not answer within {patience_s:.0f} s.")


@contextmanager
def _maybe_copy(store: str | None, *, copy: bool) -> Iterator[str | None]:
    if not copy or store is None:
        yield store
        return
    with tempfile.TemporaryDirectory(prefix="jrh-ui-") as folder:
        yield str(shutil.copytree(store, Path(folder) / "store"))
