"""`jrh ui` as a real process with a real MLflow server behind it."""

from __future__ import annotations

import os
import re
import signal
import socket
import sys
import urllib.request
from pathlib import Path

import pytest
from click.testing import CliRunner

from jrh_mlflow.cli.main import group
from jrh_mlflow.errors import TrackingError
from jrh_mlflow.tracking import mlflow_server
from jrh_mlflow.tracking.mlflow_server import folder_uri
from jrh_mlflow.tracking.runs.store import Store, first_tags
from jrh_mlflow.tracking.runs.view import view_links
from tests.forked_server import JRH_WITH_FORKED_SERVER
from tests.processes import JRH, Forked, group_is_alive
from tests.servers import free_port, running_server
from tests.waiting import wait_until


@pytest.mark.parametrize(
    ("given", "named"),
    [((), "the active store"), (("sqlite:////nowhere/mlflow.db",), "sqlite:////nowhere/mlflow.db")],
)
def test_a_copy_of_what_is_no_folder_is_refused_in_one_sentence(given: tuple[str, ...], named: str) -> None:
    done = CliRunner().invoke(group, ["ui", *given, "--copy"])
    assert done.exit_code != 0
    assert (
        f"--copy needs the folder of a store with its mlflow.db, but was given {named}."
        in str(done.exception or "") + done.output
    )


@pytest.mark.parametrize("ending", [pytest.param(signal.SIGTERM, marks=pytest.mark.slow), signal.SIGINT])
def test_the_pages_answer_by_the_links_that_are_printed_and_all_ends_with_the_command(
    ending: signal.Signals, tmp_path: Path
) -> None:
    store = Store(folder_uri(tmp_path / "store"), "tests")
    store.create_run("a run", tags=first_tags("evaluate", simulated=True))  # which makes the experiment's view
    (tmp_path / "copies").mkdir()
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    # Once with MLflow's server as users start it. That its processes end with it is looked at in tests/pages, too.
    jrh = JRH if ending is signal.SIGTERM else JRH_WITH_FORKED_SERVER
    command = [jrh, "ui", tmp_path / "store", "--copy", "--port", port]
    environment = {**os.environ, "TMPDIR": str(tmp_path / "copies"), "JRH_REVIEW_TOKEN": "a-token-for-tests"}
    log = (tmp_path / "log").open("wb")
    process = Forked(*command, env=environment, stdout=log, stderr=log, start_new_session=True)
    try:
        wait_until(lambda: process.poll() is not None or b"review " in (tmp_path / "log").read_bytes())
        here = f"http://127.0.0.1:{port}"
        first, *lines = (tmp_path / "log").read_text().splitlines()
        said = f"MLflow and our pages start on {here} (Ctrl-C ends them). Links follow once MLflow answers."
        assert first.startswith(said)
        printed = dict(re.split(" {2,}", line) for line in lines)  # nothing of MLflow's or uvicorn's among them
        assert printed == {
            "judges": f"{here}/jrh/",
            "in MLflow": view_links(here, store.experiment_id).table,
            "review": f"{here}/jrh/review/?token=a-token-for-tests",
        }
        # One look at each, in one of the two servers.
        for link in printed.values() if ending is signal.SIGTERM else ():
            with urllib.request.urlopen(link, timeout=60) as answer:
                assert answer.status == 200
        assert list((tmp_path / "copies").glob("jrh-ui-*/store/mlflow.db"))
        process.send_signal(ending)
        assert process.wait(timeout=60) == 0
        wait_until(lambda: not group_is_alive(process.pid))
        assert not list((tmp_path / "copies").glob("jrh-ui-*"))
    finally:
        if group_is_alive(process.pid):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        log.close()


def test_what_the_server_said_is_shown_when_it_does_not_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = "print('Database is locked'); raise SystemExit(3)"
    monkeypatch.setattr(mlflow_server, "server_command", lambda store, *, port: [sys.executable, "-c", script])
    monkeypatch.setattr(mlflow_server.tempfile, "tempdir", str(tmp_path))
    with pytest.raises(TrackingError, match=r"(?s)ended with code 3.*Database is locked"):
        mlflow_server.serve(None, port=free_port(), when_started=lambda address, process: None)
    assert not list(tmp_path.iterdir())


def test_a_store_that_is_a_server_is_refused_with_what_our_pages_need_and_without_its_password() -> None:
    ended = CliRunner().invoke(group, ["ui", "http://ann:secret@mlflow:5000", "--port", str(free_port())])
    assert isinstance(ended.exception, TrackingError)
    assert "mlflow server --app-name jrh" in str(ended.exception)
    assert "secret" not in str(ended.exception)


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
