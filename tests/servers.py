"""MLflow's server on a store in a folder, for as long as a test needs it."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from jrh_mlflow.tracking import mlflow_server
from jrh_mlflow.tracking.mlflow_server import DATABASE, demand_port, folder_uri, server_command, wait_until_up


def free_port() -> int:
    """Return a port of this machine that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def running_server(folder: Path, *, port: int) -> Iterator[str]:
    """Serve a store in a folder while the block runs, and give its URL.

    Runs written through a server carry `mlflow-artifacts:/` addresses and survive a move of the folder.
    """
    demand_port(port)
    # The server makes the tables itself, and `server_command` only takes a folder with a database.
    folder_uri(folder)
    (folder / DATABASE).touch()
    command = server_command(str(folder), port=port)
    log = folder.with_suffix(".server.log")
    with log.open("wb") as sink, mlflow_server.started(command, {}, sink) as process:
        wait_until_up(f"http://127.0.0.1:{port}/health", process)
        yield f"http://127.0.0.1:{port}"
    log.unlink()
