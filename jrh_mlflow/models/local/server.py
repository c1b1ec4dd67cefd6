"""Models served on loopback, in the OpenAI dialect, by processes that end with this one.

A run makes its models ready first: fetched, loadable, and not asked more at once than they have slots.
"""

from __future__ import annotations

import atexit
import importlib.util
import json
import os
import re
import secrets
import signal
import subprocess
import sys
import threading
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jrh_mlflow.errors import JudgeError, RecipeError
from jrh_mlflow.models.local.weights import (
    BY_HASH,
    MEGA,
    PREFIX,
    fetch_model,
    file_of,
    is_local,
    read_head,
)

MOST_THREADS = 8
"""A model uses this process's cores, and no more than these, since others need the machine too; JRH_LOCAL_THREADS sets
another number."""
WAITING = {"OMP_WAIT_POLICY": "passive"}
"""Threads that wait for one another sleep. By default they spin, and where another program holds a core, one spins for
as long as the other is not let on."""
SLOTS = 1
"""Calls answered at once; JRH_LOCAL_SLOTS sets another. On a processor two at once are no quicker than two in turn."""
CONTEXT = 4096
"""Tokens of prompt and answer together; JRH_LOCAL_CONTEXT sets another."""
OVERHEAD = 120_000_000
"""Bytes beside the weights and the key-value cache: the program and its buffers."""
INSTALL = 'pip install "jrh-mlflow[local]"'
_SYSTEM = Path("/proc/meminfo")
_GROUP = Path("/sys/fs/cgroup")


@dataclass(kw_only=True)
class Served:
    """A model that is being served."""

    url: str
    """Base of the OpenAI dialect: `http://127.0.0.1:<port>/v1`."""
    key: str = field(repr=False)
    """Asked for by the server, so that no page in a browser and no other user can speak to it."""
    process: subprocess.Popen[str] = field(repr=False)
    lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    @property
    def alive(self) -> bool:
        """Whether its process still runs."""
        return self.process.poll() is None

    def cpu_seconds(self) -> float:
        """Return the processor time its process has used."""
        with self.lock:
            # One question at a time: two threads would read each other's answer off the pipe.
            return float(_answer(self.process, "cpu\n").get("cpu_seconds", 0.0))

    def stop(self) -> None:
        """End its process, whatever it is doing."""
        self.process.kill()
        self.process.wait()
        for pipe in filter(None, (self.process.stdin, self.process.stdout)):
            # A line that a dead process did not take is still in the pipe, and closing tries to write it.
            with suppress(OSError):
                pipe.close()


_running: dict[str, Served] = {}
_starting = threading.Lock()


def slots() -> int:
    """Return how many calls a local model answers at once."""
    return _setting("JRH_LOCAL_SLOTS", SLOTS)


def context_tokens() -> int:
    """Return how many tokens a call may have, prompt and answer together."""
    return _setting("JRH_LOCAL_CONTEXT", CONTEXT)


def threads() -> int:
    """Return how many threads a local model uses."""
    return _setting("JRH_LOCAL_THREADS", min(MOST_THREADS, _usable_cores()))


def make_servable(model: str) -> None:
    """Check that a canonical local model can be served, and fetch a known one; nothing is loaded yet.

    Raises:
        RecipeError: when the extra is missing.
        JudgeError: when the file is damaged or cannot be fetched, or memory is short.
    """
    _check_extra(model)
    path = file_of(model) if model.startswith(BY_HASH) else fetch_model(model.removeprefix(PREFIX))
    _check_memory(path)


def served(model: str) -> Served:
    """Return the server of a canonical local model; it is started when it does not run, and ends with this process.

    Raises:
        RecipeError: when the extra is missing.
        JudgeError: when the model cannot be served.
    """
    running = _running.get(model)
    if running is not None and running.alive:
        return running
    # Looked up again inside: another thread may have started it while this one waited.
    with _starting:
        running = _running.get(model)
        if running is None or not running.alive:
            if running is not None:
                running.stop()
            make_servable(model)
            running = _start(file_of(model), name=model.removeprefix(PREFIX))
            _running[model] = running
        return running


def cpu_seconds() -> float:
    """Return the processor time that all models served by this process have used so far."""
    # A copy: another thread may start a server meanwhile.
    return sum(server.cpu_seconds() for server in list(_running.values()) if server.alive)


def stop_all() -> None:
    """End every server this process started."""
    while _running:
        _running.popitem()[1].stop()


atexit.register(stop_all)


def _start(path: Path, *, name: str) -> Served:
    key = secrets.token_urlsafe(24)
    settings = {
        "path": str(path),
        "name": name,
        "key": key,
        "slots": slots(),
        "context": context_tokens(),
        "threads": threads(),
    }
    process = subprocess.Popen(  # noqa: S603 - this interpreter and a file of this package
        [sys.executable, str(Path(__file__).with_name("host.py"))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        # Nobody reads it, and a full pipe would block the process.
        stderr=subprocess.DEVNULL,
        text=True,
        env={**WAITING, **os.environ},
    )
    running = Served(url="", key=key, process=process)
    try:
        # Not as arguments: these every user of the machine can read, and the settings hold a key.
        answer = _answer(process, json.dumps(settings) + "\n")
        if "url" not in answer:
            raise JudgeError(_why_not(path, process, answer))
    except BaseException:
        running.stop()
        raise
    running.url = str(answer["url"])
    return running


def _answer(process: subprocess.Popen[str], line: str) -> dict[str, Any]:
    """Write a line to a server's process and read one back; nothing when it has ended."""
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(line)
        process.stdin.flush()
        reply = process.stdout.readline()
    except (OSError, ValueError):
        return {}
    answer: dict[str, Any] = json.loads(reply) if reply else {}
    return answer


def _why_not(path: Path, process: subprocess.Popen[str], answer: dict[str, Any]) -> str:
    if "error" in answer:
        return f"{path} cannot be loaded ({answer['error']}): damaged, or of a kind that this xllamacpp does not know."
    code = process.wait()
    killed = hasattr(signal, "SIGKILL") and code == -signal.SIGKILL
    hint = "The system killed it, most likely for want of memory." if killed else "The file may be damaged."
    return f"{path} cannot be loaded: its process ended with code {code}. {hint}"


def _check_extra(model: str) -> None:
    if importlib.util.find_spec("xllamacpp") is None:
        raise RecipeError(f"{model} runs on this machine with xllamacpp, which is not installed: {INSTALL}.")


def _check_memory(path: Path) -> None:
    head = read_head(path)
    needed = head.size + slots() * context_tokens() * head.kv_bytes + OVERHEAD
    # What can be used without swapping, a container's limit included; None where nobody says.
    free = min((known for known in (_of_system(), _of_group()) if known is not None), default=None)
    if free is not None and needed > free:
        raise JudgeError(
            f"{path.name} needs about {needed / MEGA:,.0f} MB of memory, and {free / MEGA:,.0f} MB are available. "
            "Close something, take a smaller model, or set JRH_LOCAL_CONTEXT lower."
        )


def _of_system() -> int | None:
    free = _number_in(_SYSTEM, r"^MemAvailable:\s+(\d+) kB")
    return None if free is None else free * 1024


def _of_group() -> int | None:
    limit, used = (_number_in(_GROUP / name, r"\A(\d+)\s*\Z") for name in ("memory.max", "memory.current"))
    if limit is None or used is None:
        return None
    # Files that are only cached count as used, and give way.
    return max(0, limit - used + (_number_in(_GROUP / "memory.stat", r"^inactive_file (\d+)") or 0))


def _usable_cores() -> int:
    """Return how many cores this process may use, a container's share included."""
    # Not on every system; it knows of `taskset` and of containers that are given certain cores.
    mine = getattr(os, "sched_getaffinity", None)
    cores = len(mine(0)) if mine else os.cpu_count() or 1
    share, period = (_number_in(_GROUP / "cpu.max", pattern) for pattern in (r"\A(\d+) \d", r"\A\d+ (\d+)"))
    return cores if not share or not period else max(1, min(cores, share // period))


def _number_in(file: Path, pattern: str) -> int | None:
    try:
        match = re.search(pattern, file.read_text(encoding="ascii"), re.MULTILINE)
    except OSError:
        return None
    return int(match[1]) if match else None


def _setting(variable: str, default: int) -> int:
    text = os.environ.get(variable, "")
    if not text:
        return default
    if not text.isdecimal() or int(text) < 1:
        raise RecipeError(f"{variable} must be a whole number of at least 1, but is {text!r}.")
    return int(text)


def local_models(*owners: object) -> list[str]:
    """Return the models on this machine among those of judges, generators and whatever else has a `model`."""
    models = [getattr(owner, "model", None) for owner in owners]
    return [model for model in models if isinstance(model, str) and is_local(model)]


def make_ready(models: Iterable[str], *, concurrency: int, backend: str = "local") -> int:
    """Fetch and check local models, and return how many calls may be in flight: no more than they answer at once.

    A call that waits for a slot would use up its time limit, and would have to be settled after a Ctrl-C.

    Raises:
        RecipeError: when the extra is missing, or the calls are to run on other machines.
        JudgeError: when a model cannot be fetched or loaded.
    """
    for model in models:
        if backend != "local":
            raise RecipeError(f'{model} runs on this machine, and backend={backend!r} on others. Use backend="local".')
        make_servable(model)
        concurrency = min(concurrency, slots())
    return concurrency


class ModelClock:
    """The processor time that models on this machine use from now on."""

    def __init__(self, models: Sequence[str]) -> None:
        self._before = cpu_seconds() if models else None

    def seconds(self) -> float | None:
        """Return what was used so far; None when no model runs on this machine."""
        return None if self._before is None else max(0.0, cpu_seconds() - self._before)
