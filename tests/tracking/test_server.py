"""`jrh ui` as a real process with a real MLflow server behind it."""

from __future__ import annotations

import os
import signal
import socket
from pathlib import Path

import pytest
from click.testing import CliRunner

from jrh_mlflow.cli.main import group
from jrh_mlflow.errors import TrackingError
from jrh_mlflow.tracking.mlflow_server import folder_uri, running_server, wait_until_up
from jrh_mlflow.tracking.store import Store
from tests.processes import JRH, Forked
from tests.waiting import wait_until


def _alive(group: int) -> bool:
    """Whether a process of the group still runs."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGINT])
def test_the_server_and_the_copy_end_with_the_command(ending: signal.Signals, tmp_path: Path) -> None:
    assert Store(folder_uri(tmp_path / "store"), "tests").experiment_id
    (tmp_path / "copies").mkdir()
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [JRH, "ui", tmp_path / "store", "--copy", "--port", port]
    process = Forked(*command, env={**os.environ, "TMPDIR": str(tmp_path / "copies")}, start_new_session=True)
    try:
        wait_until_up(f"http://127.0.0.1:{port}/health", process)
        assert list((tmp_path / "copies").glob("jrh-ui-*/store/mlflow.db"))
        process.send_signal(ending)
        assert process.wait(timeout=60) == 0
        wait_until(lambda: not _alive(process.pid))
        assert not list((tmp_path / "copies").glob("jrh-ui-*"))
    finally:
        if _alive(process.pid):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def test_a_busy_port_ends_the_command_at_once_and_names_the_way_out(tmp_path: Path) -> None:
    (tmp_path / "mlflow.db").touch()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ended = CliRunner().invoke(group, ["ui", str(tmp_path), "--port", str(port)])
    assert isinstance(ended.exception, TrackingError)
    assert f"Port {port} of 127.0.0.1 cannot be used" in str(ended.exception)
    assert "--port" in str(ended.exception)
    assert ended.output == ""


def test_a_store_is_never_written_through_the_server_of_another(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(TrackingError, match=f"Port {port} "), running_server(tmp_path / "store", port=port):
            pass


@pytest.mark.parametrize("port", ["0", "70000", "http"])
def test_what_is_no_port_is_refused(port: str, tmp_path: Path) -> None:
    (tmp_path / "mlflow.db").touch()
    assert CliRunner().invoke(group, ["ui", str(tmp_path), "--port", port]).exit_code == 2
