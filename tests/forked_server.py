"""MLflow's server without the seconds of its start, for tests that look at what it answers.

`mlflow server` imports everything, makes the tables of a new store, and starts uvicorn, which imports everything again.
Here the same code runs in one fork (`tests/processes.py`) over tables that are copied. The start as users have it is
looked at by tests/pages/test_server.py and tests/tracking/test_server.py.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import IO, Any

from jrh_mlflow.tracking import mlflow_server
from tests import new_stores
from tests.processes import JRH, Forked

JRH_WITH_FORKED_SERVER = f"from tests import forked_server; forked_server.install(); {JRH}"
_SERVER = "from tests import forked_server; forked_server.serve()"
_MLFLOW = [sys.executable, "-m", "mlflow"]
_start = mlflow_server.started


def install() -> None:
    """Let the servers that the package starts be forks, in this process."""
    mlflow_server.started = _started


@contextmanager
def _started(command: list[str], variables: Mapping[str, str], log: IO[bytes]) -> Iterator[Any]:
    """Run a server while the block does."""
    if command[:3] != _MLFLOW:
        with _start(command, variables, log) as process:
            yield process
        return
    option = "--backend-store-uri"
    named = command[command.index(option) + 1] if option in command else variables["MLFLOW_BACKEND_STORE_URI"]
    new_stores.make_tables(named)
    environment = {**mlflow_server.server_environment(), **variables}
    process = Forked(_SERVER, *command[3:], env=environment, stdout=log, stderr=subprocess.STDOUT)
    try:
        yield process
    finally:
        process.terminate()
        process.wait()


@contextmanager
def bare_mlflow(folder: Path, *, port: int) -> Iterator[str]:
    """Run `mlflow ui` in a folder and tell it nothing; without a network, as the documentation says."""
    silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    options = ("--port", port, "--workers", 1)
    process = Forked(_SERVER, "ui", *options, cwd=folder, env=mlflow_server.server_environment(), **silent)
    try:
        mlflow_server.wait_until_up(f"http://127.0.0.1:{port}/health", process)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait()


def serve() -> None:
    """Be `mlflow server` with the arguments of this process."""
    import_module("uvicorn")  # whose presence tells MLflow's application that it is served, and to guard itself
    server, cli = import_module("mlflow.server"), import_module("mlflow.cli")
    server._exec_cmd = _be_uvicorn
    cli.cli(prog_name="mlflow")


def _be_uvicorn(command: list[str], *, extra_env: Mapping[str, str], **_: object) -> None:
    os.environ.update(extra_env)
    sys.argv = [str(Path(import_module("uvicorn").__file__ or "")), *command[3:]]
    import_module("uvicorn").main(command[3:])
