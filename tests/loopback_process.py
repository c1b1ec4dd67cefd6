"""The loopback server as a process of its own: its CPU time is not the client's, and it outlives a killed client."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any


class LoopbackProcess:
    """The server of `tests.loopback` in a process that ends when its parent does, even a killed one."""

    def __init__(self, *arguments: str) -> None:
        self.arguments = arguments
        self.port = 0

    @property
    def url(self) -> str:
        """The `api_base` to give to a client."""
        return f"http://127.0.0.1:{self.port}/v1"

    def __enter__(self) -> LoopbackProcess:
        command = [sys.executable, "-m", "tests.loopback", "--until-stdin-closes", *self.arguments]
        root = Path(__file__).parent.parent
        self._process = subprocess.Popen(command, cwd=root, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self._process.stdout
        self.port = int(self._process.stdout.readline() or 0)
        if not self.port:
            raise RuntimeError("The loopback server did not start; its own message stands above.")
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()

    def stats(self) -> dict[str, int]:
        """Return the counts so far."""
        return dict(self._get("stats"))

    def requests(self) -> list[dict[str, Any]]:
        """Return what was recorded so far, with `--record`."""
        return list(self._get("requests"))

    def _get(self, name: str) -> Any:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/{name}") as response:
            return json.load(response)
