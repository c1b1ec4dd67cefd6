"""Processes for tests, forked from one that has imported everything already.

A process that imports mlflow and litellm works for seven seconds before it does anything. What most tests look at comes
after that: exit codes, output, signals, kill -9, two writers at once. So one template is started for all tests, which
imports and waits, and such a process is a fork of it. Where the start itself is looked at (what is imported, what that
prints, hash seeds, terminals), tests use `subprocess`.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import io
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import traceback
import types
from pathlib import Path
from typing import Any

from tests import drawing, new_stores, once

JRH = "from jrh_mlflow.cli import main; main()"
SCRIPT = "import runpy, sys; del sys.argv[0]; runpy.run_path(sys.argv[0], run_name='__main__')"
ROOT = Path(__file__).parent.parent
_IMPORTED = """
    aiohttp.web alembic.config databricks.sdk git IPython.display litellm matplotlib.backends.backend_agg
    matplotlib.figure mlflow mlflow.data.pandas_dataset mlflow.genai mlflow.store.artifact.local_artifact_repo
    mlflow.store.tracking.sqlalchemy_store mlflow.store.tracking.sqlalchemy_workspace_store openai optuna.importance
    pandas psycopg pyarrow.pandas_compat pyarrow.parquet scipy.stats sklearn.feature_extraction.text sqlalchemy yaml
    jrh_mlflow.cli.evaluate jrh_mlflow.cli.main jrh_mlflow.demo jrh_mlflow.engine.journal.sqlite
    jrh_mlflow.measuring jrh_mlflow.generation jrh_mlflow.show.figures.svg jrh_mlflow.sweeps.sweep
    jrh_mlflow.tracking.runs.store
"""


class Forked(subprocess.Popen[Any]):
    """`subprocess.Popen([sys.executable, "-c", code, *arguments], ...)`, without the seconds of imports."""

    cpu_s = 0.0
    """Of the process and the children it waited for; known at its end."""

    def __init__(self, code: str, *arguments: object, start_new_session: bool = False, **options: Any) -> None:
        self._job = {"code": code, "arguments": ["-c", *map(str, arguments)], "session": start_new_session}
        super().__init__([sys.executable, "-c", code, *map(str, arguments)], **options)

    def _execute_child(self, *given: Any) -> None:
        cwd, env = given[5:7]
        stdin, to_stdin, from_stdout, stdout, from_stderr, stderr = given[10:16]
        streams = [own if own != -1 else number for number, own in enumerate((stdin, stdout, stderr))]
        self._job |= {"cwd": str(cwd or Path.cwd()), "environment": dict(os.environ if env is None else env)}
        self._ended, self.pid = _template().fork(self._job, streams)
        self._child_created = True
        for one, other in ((stdin, to_stdin), (stdout, from_stdout), (stderr, from_stderr)):
            if one != -1 and other != -1:
                os.close(one)
        if getattr(self, "_devnull", None) is not None:
            os.close(self._devnull)

    def _internal_poll(self, *_: Any, **__: Any) -> int | None:
        return self.returncode if self.returncode is not None else self._ended_within(0)

    def _wait(self, timeout: float | None) -> int:
        if self.returncode is None and self._ended_within(timeout) is None:
            raise subprocess.TimeoutExpired(self.args, timeout or 0)
        return int(self.returncode)

    def _ended_within(self, seconds: float | None) -> int | None:
        if select.select([self._ended], [], [], seconds)[0] and self.returncode is None:
            status, seconds = self._ended.recv(64).split()
            self.returncode = os.waitstatus_to_exitcode(int(status))
            self.cpu_s = float(seconds)
            self._ended.close()
        return self.returncode


def run(
    code: str, *arguments: object, check: bool = False, typed: str | None = None, **options: Any
) -> subprocess.CompletedProcess[str]:
    """`subprocess.run([sys.executable, "-c", code, *arguments], input=typed, capture_output=True, text=True)`."""
    streams: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    if typed is not None:
        streams["stdin"] = subprocess.PIPE
    with Forked(code, *arguments, **streams, **options) as process:
        stdout, stderr = process.communicate(typed)
    done = subprocess.CompletedProcess(process.args, process.returncode, stdout, stderr)
    if check:
        done.check_returncode()
    return done


def group_is_alive(group: int) -> bool:
    """Whether a process of the group still runs."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


class _Itself:
    """A process that is a fork already: it has imported everything."""

    def fork(self, job: dict[str, Any], streams: list[int]) -> tuple[socket.socket, int]:
        """Start a process; return where its end is told, and its number."""
        ended, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with its, os.fdopen(os.memfd_create("job"), "w+", encoding="utf-8") as file:
            json.dump(job, file)
            file.flush()
            self._pass_on([file.fileno(), its.fileno(), *streams])
        return ended, int(ended.recv(64))

    def stop(self) -> None:
        """There is nothing to end."""

    def _pass_on(self, numbers: list[int]) -> None:
        if os.fork() == 0:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)  # as a program has it that was just started
            try:
                _watch([os.dup(number) for number in numbers])
            except BaseException:
                traceback.print_exc()
            os._exit(1)  # never on into what the process does that was forked


class _Template(_Itself):
    """The process that is forked; it ends with this one, whose end closes the socket between them."""

    def __init__(self) -> None:
        self._socket, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        code = f"from tests import processes; processes.serve({its.fileno()})"
        self._process = subprocess.Popen(
            [sys.executable, "-c", code], cwd=ROOT, pass_fds=[its.fileno()], start_new_session=True
        )
        its.close()

    def _pass_on(self, numbers: list[int]) -> None:
        socket.send_fds(self._socket, [b"fork"], numbers)

    def stop(self) -> None:
        self._socket.close()
        self._process.wait()


_started: list[_Itself] = []


def _template() -> _Itself:
    if not _started:
        _started.append(_Template())
    return _started[0]


def start() -> None:
    """Start the template, for this process and those that it forks."""
    _template()


def stop() -> None:
    """End the template, where one was needed."""
    while _started:
        _started.pop().stop()


def import_all() -> None:
    """Import what nearly every test that touches MLflow or a model needs."""
    for name in _IMPORTED.split():
        importlib.import_module(name)


def serve(control: int) -> None:
    """Import, then fork a process for every request until the other side is gone."""
    import_all()
    new_stores.without_fsync()
    gc.collect()
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the watchers
    with socket.socket(fileno=control) as asked:
        while (came := socket.recv_fds(asked, 64, 8))[0]:
            if os.fork() == 0:
                asked.close()
                break
            for number in came[1]:
                os.close(number)
        else:
            return
    _watch(came[1])


def _watch(numbers: list[int]) -> None:
    """Fork once more; tell how that process ends, which is no child of the test that started it."""
    file, ended, *streams = numbers
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    if pid := os.fork():
        for number in streams:
            os.close(number)
        with socket.socket(fileno=ended) as told:
            told.send(str(pid).encode())
            _, status, usage = os.wait4(pid, 0)
            told.send(f"{status} {usage.ru_utime + usage.ru_stime:.3f}".encode())
        os._exit(0)
    os.close(ended)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    with os.fdopen(file, encoding="utf-8") as job:
        job.seek(0)
        _become(json.load(job))


def _become(job: dict[str, Any]) -> None:
    """Run the code as `python -c` does, and end as Python ends."""
    # As a terminal starts it: the template may have been started by a fixture of a run that ignores them.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    if job["session"]:
        os.setsid()
    os.chdir(job["cwd"])
    os.environ.clear()
    os.environ.update(job["environment"])
    tempfile.tempdir = None  # as $TMPDIR says now
    sys.argv = job["arguments"]
    known = [path for path in job["environment"].get("PYTHONPATH", "").split(os.pathsep) if path]
    sys.path[:] = ["", *known, *(path for path in sys.path if path not in ("", *known))]
    if "PYTHONUNBUFFERED" in job["environment"] and isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(write_through=True)
    _started[:] = [_Itself()]
    if drawing.UNDRAWN in job["environment"]:
        drawing.draw_nothing()
    if once.FOLDER in job["environment"]:
        new_stores.with_copied_tables()
    main = sys.modules["__main__"] = types.ModuleType("__main__")
    _end(_run(compile(job["code"], "<string>", "exec"), main.__dict__))


def _run(code: types.CodeType, names: dict[str, Any]) -> int:
    """Run code; return its exit code, where it ends by itself or with a number."""
    try:
        exec(code, names)
    except SystemExit as ended:
        if not isinstance(ended.code, int | None):
            raise
        return ended.code or 0
    return 0


def _end(code: int) -> None:
    """End as Python ends, less a second in which it takes apart every module that the template imported."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
