"""A shell in which `jrh` is a quick process (`tests/processes.py`): for scripts, workflows and what users type.

    with Shell() as shell:
        done = shell.run('jrh gate "$RUN" --policy gate.yaml || echo "exit $?"', cwd=tmp_path, env={"RUN": run_id})

Pipes, quotes, variables, arrays and exit codes are those of a real bash; only the seconds of imports are left out.
"""

from __future__ import annotations

import json
import os
import socketserver
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path

from tests import processes

_COMMAND = """#!{python} -IS
import json, os, socket, sys

with socket.socket(socket.AF_UNIX) as asked:
    asked.connect({address!r})
    job = {{"arguments": sys.argv[1:], "cwd": os.getcwd(), "env": dict(os.environ)}}
    asked.sendall(json.dumps(job).encode() + b"\\n")
    done = json.loads(asked.makefile().read())
sys.stdout.write(done["stdout"])
sys.stderr.write(done["stderr"])
sys.exit(done["code"])
"""


class _Job(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        job = json.loads(self.rfile.readline())
        done = processes.run(processes.JRH, *job["arguments"], cwd=job["cwd"], env=job["env"])
        told = {"code": done.returncode, "stdout": done.stdout, "stderr": done.stderr}
        self.wfile.write(json.dumps(told).encode())


class Shell:
    """`bash -eo pipefail`, as GitHub runs the steps of a workflow."""

    def __enter__(self) -> Shell:
        # Not pytest's folder: the name of a socket has at most 108 characters.
        self._folder = tempfile.TemporaryDirectory(prefix="jrh-")
        address, command = f"{self._folder.name}/socket", Path(self._folder.name, "jrh")
        command.write_text(_COMMAND.format(python=sys.executable, address=address))
        command.chmod(0o755)
        self._server = socketserver.UnixStreamServer(address, _Job)
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._folder.cleanup()

    def run(self, script: str, *, cwd: Path, env: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
        """Run a script to its end."""
        path = os.pathsep.join([self._folder.name, str(Path(sys.executable).parent), os.environ["PATH"]])
        return subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script],
            cwd=cwd,
            env={**os.environ, **env, "PATH": path},
            check=False,
            capture_output=True,
            text=True,
        )
