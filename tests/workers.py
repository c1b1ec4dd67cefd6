"""Runs tests in several processes: `-n 3`, a plugin of pytest.

The tests are collected once, by the process that then forks the workers: pytest-xdist starts workers that each import
and collect everything by themselves, which took an eighth of the time of a run here. A worker is handed one test after
another of a file, so that a file's fixtures are made once; where no file is left, it takes half of what is left of
another worker's.
"""

from __future__ import annotations

import gc
import json
import os
import selectors
import signal
import socket
import sys
import traceback
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from _pytest.config import create_terminal_writer


class _Hooks:
    def pytest_worker_ended(self, config: pytest.Config) -> None:
        """Called in a worker after its last test."""


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    """Add the end of a worker."""
    pluginmanager.add_hookspecs(_Hooks)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `-n`."""
    help_ = "processes that run tests; 0 is this one alone"
    # Short options are kept for pytest itself and, by this name, for pytest-xdist, whose option this is.
    parser.getgroup("workers")._addoption("-n", dest="workers", type=int, default=0, help=help_)


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """Hand the tests to workers; leave a single file's or a debugger's to pytest's own loop."""
    number = min(session.config.getoption("workers"), len(session.items))
    if number < 2 or session.config.option.collectonly or session.config.option.usepdb:
        return None
    if session.testsfailed and not session.config.option.continue_on_collection_errors:
        raise session.Interrupted(f"{session.testsfailed} errors during collection")
    # What is there now is never looked at again by the garbage collection of a worker.
    gc.collect()
    gc.freeze()
    loop = _Loop(session)
    try:
        loop.run(number)
    finally:
        loop.stop()
    return True


class _Worker:
    """The side of a worker that the collecting process sees."""

    def __init__(self, session: pytest.Session, others: Sequence[_Worker]) -> None:
        self.running: int | None = None
        self.waiting: deque[int] = deque()
        """Tests to come; the first is known to the worker, which keeps the fixtures it needs."""
        self.socket, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        self._heard = b""
        sys.stdout.flush()
        sys.stderr.flush()
        self.pid = os.fork()
        if self.pid == 0:
            # The end of a line is heard where nobody holds its other end.
            for worker in (self, *others):
                worker.socket.close()
            _be_worker(its, session)
        its.close()

    def go_on(self) -> None:
        """Send the next test, and the one after it."""
        self.running = self.waiting.popleft()
        message = json.dumps([self.running, self.waiting[0] if self.waiting else None])
        self.socket.sendall(message.encode() + b"\n")

    def heard(self) -> list[Any] | None:
        """Return the messages that came in whole, or None where the worker is gone."""
        try:
            received = self.socket.recv(1 << 20)
        except ConnectionResetError:
            received = b""
        if not received:
            return None
        *lines, self._heard = (self._heard + received).split(b"\n")
        return [json.loads(line) for line in lines]

    def end(self) -> int:
        """Close the line to the worker, which ends it, and return how it ended."""
        self.socket.close()
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


class _Loop:
    """Deals out the tests and reports what comes back."""

    def __init__(self, session: pytest.Session) -> None:
        self.session = session
        self.files = deque(_by_file(session.items))
        self.workers: list[_Worker] = []
        self.selector = selectors.DefaultSelector()

    def run(self, number: int) -> None:
        """Run all tests."""
        for _ in range(number):
            self._start()
        while self.workers:
            for key, _ in self.selector.select():
                self._hear(key.data)
            if self.session.shouldfail:
                raise self.session.Failed(self.session.shouldfail)
            if self.session.shouldstop:
                raise self.session.Interrupted(self.session.shouldstop)

    def stop(self) -> None:
        """End the workers that are left, and what they started."""
        for worker in self.workers:
            os.kill(worker.pid, signal.SIGTERM)
            worker.end()

    def _start(self) -> None:
        worker = _Worker(self.session, self.workers)
        self.workers.append(worker)
        self.selector.register(worker.socket, selectors.EVENT_READ, worker)
        self._give(worker)

    def _give(self, worker: _Worker) -> None:
        # With a test and the one after it: a worker that knows of no further one ends the fixtures of its session.
        if len(worker.waiting) < 2:
            worker.waiting.extend(self._next_file())
        if worker.waiting:
            worker.go_on()
        else:
            self._let_go(worker)

    def _next_file(self) -> deque[int]:
        if self.files:
            return self.files.popleft()
        longest = max(self.workers, key=lambda worker: len(worker.waiting)).waiting
        # The first one stays: its worker has kept fixtures for it.
        taken = [longest.pop() for _ in range(len(longest) // 2)]
        return deque(reversed(taken))

    def _let_go(self, worker: _Worker) -> int:
        self.workers.remove(worker)
        self.selector.unregister(worker.socket)
        return worker.end()

    def _hear(self, worker: _Worker) -> None:
        messages = worker.heard()
        if messages is None:
            self._lost(worker)
            return
        for report in messages:
            if report is None:
                worker.running = None
                self._give(worker)
            else:
                self._report(report)

    def _report(self, data: dict[str, Any]) -> None:
        config = self.session.config
        report = config.hook.pytest_report_from_serializable(config=config, data=data)
        config.hook.pytest_runtest_logreport(report=report)

    def _lost(self, worker: _Worker) -> None:
        """A worker that died fails the test it ran; another one goes on with the rest."""
        code = self._let_go(worker)
        if worker.running is not None:
            item = self.session.items[worker.running]
            report = pytest.TestReport(
                nodeid=item.nodeid,
                location=item.location,
                keywords={},
                outcome="failed",
                longrepr=f"the process that ran this test ended with {code}",
                when="call",
            )
            self.session.config.hook.pytest_runtest_logreport(report=report)
        if worker.waiting:
            self.files.appendleft(worker.waiting)
        if self.files:
            self._start()


def _by_file(items: Sequence[pytest.Item]) -> Iterator[deque[int]]:
    """Numbers of the tests of each file, in their order."""
    files: dict[Path, deque[int]] = {}
    for number, item in enumerate(items):
        files.setdefault(item.path, deque()).append(number)
    yield from files.values()


def _be_worker(its: socket.socket, session: pytest.Session) -> None:
    """Run what is sent, and end as a process does that ran pytest."""
    code = 1
    try:
        _prepare(session.config)
        _run_tests(its, session)
        session.config.hook.pytest_worker_ended(config=session.config)
        code = 0
    except BaseException:
        session.config.pluginmanager.getplugin("capturemanager").suspend_global_capture(in_=True)
        traceback.print_exc(file=sys.__stderr__)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


class _Reports:
    """A worker's reports go to the process that collected."""

    def __init__(self, its: socket.socket, config: pytest.Config) -> None:
        self.socket = its
        self.config = config

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Send a report."""
        self.send(self.config.hook.pytest_report_to_serializable(config=self.config, report=report))

    def send(self, message: object) -> None:
        """Send one line."""
        self.socket.sendall(json.dumps(message).encode() + b"\n")


class _Screen:
    """In the place of the terminal's reporter, for plugins that print beside it: the limit of a test prints stacks."""

    def __init__(self, config: pytest.Config) -> None:
        self._tw = create_terminal_writer(config, sys.__stderr__)


def _prepare(config: pytest.Config) -> None:
    """Cut what a worker shares with the process that collected: its screen, captured output and temporary folder."""
    # Looking for garbage as often as Python does by itself took a fifteenth of a worker's time.
    gc.set_threshold(50_000, 10, 10)
    config.pluginmanager.unregister(name="terminalreporter")
    config.pluginmanager.register(_Screen(config), "terminalreporter")
    # Its files have one position for all processes that were forked since they were opened.
    capture = config.pluginmanager.getplugin("capturemanager")
    capture.stop_global_capturing()
    capture.start_global_capturing()
    folders = config._tmp_path_factory
    folders._basetemp = folders.mktemp("worker")
    folders._next_number.clear()


def _run_tests(its: socket.socket, session: pytest.Session) -> None:
    reports = _Reports(its, session.config)
    session.config.pluginmanager.register(reports)
    for line in its.makefile("r", encoding="utf-8"):
        number, following = json.loads(line)
        item, next_item = session.items[number], None if following is None else session.items[following]
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=next_item)
        reports.send(None)
