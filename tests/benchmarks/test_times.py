"""Where the time of the tests goes: `python -m tests.benchmarks.test_times [ARGUMENTS OF PYTEST]`.

Runs pytest as `make unit` does, with this file as a plugin, and prints CPU seconds by file, test, fixture and cause.
A process's own seconds and those of the children it waited for are counted; a cause's seconds are its own, without
those of a cause inside it (an import while a store is made is an import). What a server or a forked process used is
known at its end, and counts for the test or fixture that ended it; the browser and the database that all tests share
count for none of them.
"""

from __future__ import annotations

import functools
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
import types
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import _bootstrap
from pathlib import Path
from typing import Any

import pytest

FOLDER = "JRH_TESTS_TIMES"
"""In the environment of the processes that run tests: where each leaves what it counted."""
SHOWN = 40

CAUSES = {
    "figures drawn": (
        ("jrh_mlflow.show.figures.canvas", "png"),
        ("jrh_mlflow.show.figures.svg", "inline_svg"),
    ),
    "stores made": (
        ("mlflow.store.db.utils", "_initialize_tables"),
        ("mlflow.store.tracking.sqlalchemy_store", "SqlAlchemyStore.__init__"),
    ),
    "browsers": (
        ("playwright.sync_api._context_manager", "PlaywrightContextManager.__enter__"),
        ("playwright.sync_api._context_manager", "PlaywrightContextManager.__exit__"),
    ),
    "PostgreSQL": (("tests.postgres", "server"),),
}
"""What is wrapped, by cause: module and name. A module is wrapped once it is loaded, and never loaded for this."""


def spent() -> float:
    """CPU seconds of this process and of the children it waited for."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


class Times:
    """CPU seconds by cause, fixture, test and file of one process."""

    def __init__(self) -> None:
        self.files: Counter[str] = Counter()
        self.tests: Counter[str] = Counter()
        self.fixtures: Counter[str] = Counter()
        self.causes: Counter[str] = Counter()
        self._inner = [0.0]
        self._forked = 0.0
        self._wrapped: set[tuple[str, str]] = set()

    def forget(self) -> None:
        """Begin anew: a worker counts what it does itself."""
        for counts in (self.files, self.tests, self.fixtures, self.causes):
            counts.clear()
        self._inner[:] = [0.0]
        self._forked = 0.0

    def total(self) -> float:
        """Seconds so far, with those of forks of the template, which are no children of this process."""
        return spent() + self._forked

    @contextmanager
    def cause(self, name: str) -> Iterator[None]:
        """Count what the block spends, less what a cause inside it does."""
        begun = self.total()
        self._inner.append(0.0)
        try:
            yield
        finally:
            seconds = self.total() - begun
            self.causes[name] += seconds - self._inner.pop()
            self._inner[-1] += seconds

    def add_fork(self, seconds: float, *, server: bool) -> None:
        """Count a process that was forked from the template."""
        self._forked += seconds
        self._inner[-1] += seconds
        self.causes["servers" if server else "processes"] += seconds

    def wrap_loaded(self) -> None:
        """Wrap what has been loaded since."""
        for cause, places in CAUSES.items():
            for module, path in places:
                if (module, path) not in self._wrapped and module in sys.modules:
                    *owners, name = path.split(".")
                    owner = functools.reduce(getattr, owners, sys.modules[module])
                    # Where figures are not made, something else stands in the place of their class for a while.
                    if isinstance(owner, type | types.ModuleType):
                        self._wrapped.add((module, path))
                        setattr(owner, name, self._counting(cause, getattr(owner, name)))

    def _counting(self, cause: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def counted(*given: Any, **named: Any) -> Any:
            with self.cause(cause):
                return function(*given, **named)

        return counted

    def count_imports(self) -> None:
        """Count what imports spend, from now on: inside tests that is the first use of a library."""
        load, depth = _bootstrap._find_and_load, [0]

        def counted(name: str, import_: Any) -> Any:
            if depth[0] or name in sys.modules:
                return load(name, import_)
            depth[0] += 1
            try:
                with self.cause("imports"):
                    return load(name, import_)
            finally:
                depth[0] -= 1

        _bootstrap._find_and_load = counted

    def count_processes(self) -> None:
        """Count forked and other processes at their end."""
        from tests import forked_server, once
        from tests.processes import Forked

        ended, wait, end = Forked._ended_within, subprocess.Popen._wait, once.end

        def forked_ended(process: Any, seconds: float | None) -> int | None:
            known = process.returncode
            code: int | None = ended(process, seconds)
            if known is None and code is not None:
                self.add_fork(process.cpu_s, server=process._job["code"] == forked_server._SERVER)
            return code

        def waited(process: Any, timeout: float | None) -> Any:
            with self.cause("processes"):
                return wait(process, timeout)

        def servers_ended() -> float:
            waited_for = spent()
            seconds = end()
            # Those that this process started are its children, and counted.
            self.add_fork(seconds - (spent() - waited_for), server=True)
            return seconds

        once.end = servers_ended
        Forked._ended_within = forked_ended
        subprocess.Popen._wait = waited

    def save(self, folder: Path) -> None:
        """Leave the counts in a folder."""
        named = {"files": self.files, "tests": self.tests, "fixtures": self.fixtures, "causes": self.causes}
        counts = {**named, "total": self.total()}
        (folder / f"{os.getpid()}.json").write_text(json.dumps(counts), encoding="utf-8")


class Plugin:
    """Counts one process of a test run."""

    def __init__(self, times: Times) -> None:
        self.times = times

    @pytest.hookimpl(wrapper=True)
    def pytest_collection(self) -> Iterator[None]:
        """Everything up to the end of collection is start and collection: imports of tests among it."""
        self.times.causes["start"] += self.times.total()
        with self.times.cause("collection"):
            result = yield
        self.times.count_imports()
        return result

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any) -> Iterator[None]:
        """Count a fixture, without those it asks for: pytest has made them before."""
        self.times.wrap_loaded()
        begun = self.times.total()
        try:
            return (yield)
        finally:
            self.times.fixtures[f"{fixturedef.argname} ({fixturedef.scope})"] += self.times.total() - begun

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[Any]:
        """Count a test with its fixtures for its file."""
        self.times.wrap_loaded()
        begun = self.times.total()
        try:
            return (yield)
        finally:
            seconds = self.times.total() - begun
            self.times.files[item.nodeid.partition("::")[0]] += seconds
            self.times.tests[item.nodeid] += seconds

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Iterator[Any]:
        """Count what a property of hypothesis takes."""
        if not getattr(getattr(item, "obj", None), "is_hypothesis_test", False):
            return (yield)
        with self.times.cause("hypothesis"):
            return (yield)

    def pytest_worker_ended(self) -> None:
        """Leave what a worker counted."""
        self.times.save(Path(os.environ[FOLDER]))

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self) -> None:
        """Leave what was counted by the process that collected."""
        self.times.save(Path(os.environ[FOLDER]))


def pytest_configure(config: pytest.Config) -> None:
    """Be a plugin of pytest where a folder is given."""
    if FOLDER in os.environ:
        times = Times()
        times.count_processes()
        config.pluginmanager.register(Plugin(times), "test_times")
        os.register_at_fork(after_in_child=times.forget)


def table(counts: Counter[str], *, head: str) -> str:
    """Write the largest counts.

    >>> print(table(Counter({"a.py": 3.04, "b.py": 1.0}), head="CPU s by file"))
    CPU s by file (4 in all)
          3.0  a.py
          1.0  b.py
    """
    rows = [f"{seconds:9.1f}  {name}" for name, seconds in counts.most_common(SHOWN)]
    return "\n".join([f"{head} ({counts.total():,.0f} in all)", *rows])


def speed() -> float:
    """Return how many million additions this machine does in a CPU second: a busy host gives less of it."""
    begun, total = time.process_time(), 0
    for number in range(4_000_000):
        total += number
    return 4 / (time.process_time() - begun)


def main(*arguments: str) -> int:
    """Run the tests and print where their time went."""
    speeds = [speed()]
    with tempfile.TemporaryDirectory(prefix="jrh-times-") as folder:
        begun = time.monotonic()
        command = [sys.executable, "-m", "pytest", "-p", __spec__.name, "-m", "not slow", *arguments]
        code = subprocess.run(command, env={**os.environ, FOLDER: folder}, check=False).returncode
        parts = [json.loads(file.read_text(encoding="utf-8")) for file in Path(folder).iterdir()]
        wall = time.monotonic() - begun
    for name, head in (("files", "by file"), ("tests", "by test"), ("fixtures", "by fixture"), ("causes", "by cause")):
        counts: Counter[str] = Counter()
        for part in parts:
            counts.update(part[name])
        print(table(counts, head=f"\nCPU seconds {head}"))
    speeds.append(speed())
    total = sum(part["total"] for part in parts)
    print(f"\n{total:,.0f} CPU seconds of {len(parts)} processes in {wall:,.0f} s; pytest ended with {code}")
    print("million additions in a CPU second, before and after: " + ", ".join(f"{each:.1f}" for each in speeds))
    return code


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
