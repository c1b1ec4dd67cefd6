"""Ending a run early: the signals that ask for it, and the calls that wait with nothing in flight.

The first Ctrl-C, SIGTERM or hang-up of the terminal lets what is paid come to its end: no new call is made, those in
flight are settled, and what is there is logged. A second one aborts. While nothing of that kind is under way, the first
one ends the work like any other Ctrl-C.
"""

from __future__ import annotations

import asyncio
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from contextvars import ContextVar
from types import FrameType
from typing import Any

_NAMES = ("SIGINT", "SIGTERM", "SIGHUP")
_DEFAULTS = (signal.default_int_handler, signal.SIG_DFL)


class NotAsked(Exception):  # noqa: N818 - a signal, not a failure
    """The run was stopped while a call had nothing in flight: it leaves no record, and costs nothing."""


class Stop:
    """Whether a run was stopped, and which of its tasks wait with nothing in flight."""

    def __init__(self) -> None:
        self.stopped = False
        self.idle: set[asyncio.Task[Any]] = set()

    def stop(self) -> None:
        """End every task that waits; those with something in flight come to its end."""
        self.stopped = True
        # Only those: a task with a request in flight is paid for, and its answer must reach the journal.
        for task in self.idle:
            task.cancel()

    @contextmanager
    def heeded(self) -> Iterator[None]:
        """Have the tasks that are started inside end with this run."""
        token = _STOP.set(self)
        try:
            yield
        finally:
            _STOP.reset(token)


_STOP: ContextVar[Stop | None] = ContextVar("jrh_stop", default=None)


def check_stopped() -> None:
    """Raise when the run of this task was stopped; to be called before anything is sent.

    Raises:
        NotAsked: It was.
    """
    stop = _STOP.get()
    if stop is not None and stop.stopped:
        raise NotAsked


class idle:  # noqa: N801 - a block, entered twice a call: a generator would cost more
    """Wait inside this block with nothing in flight: stopping the run ends the waiting.

    Raises:
        NotAsked: The run was stopped, before or meanwhile.
    """

    __slots__ = ("_stop", "_task")

    def __enter__(self) -> None:
        stop, task = _STOP.get(), asyncio.current_task()
        if stop is not None and stop.stopped:
            raise NotAsked
        # A block inside another one leaves its task to the outer one.
        self._task = None if stop is None or task in stop.idle else task
        self._stop = stop
        if stop is not None and self._task is not None:
            stop.idle.add(self._task)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._stop is None or self._task is None:
            return
        self._stop.idle.discard(self._task)
        # The cancelling was ours; that of anybody else passes through as it is.
        if self._stop.stopped and kind is not None and issubclass(kind, asyncio.CancelledError):
            raise NotAsked from None


class Interrupts:
    """What is done about the signals that come while something is at work."""

    def __init__(self) -> None:
        self.first: int | None = None
        """Number of the first signal that came, or None."""
        self._listeners: list[Callable[[], object]] = []
        self._ignoring = False

    def hear(self, number: int, _: FrameType | None = None) -> None:
        """Tell those who listen, once; abort when nobody does, and for a second signal.

        Raises:
            KeyboardInterrupt: for Ctrl-C.
            SystemExit: for the others, with the exit code of a shell.
        """
        again = self.first is not None
        # Shell and kernel both announce a terminal that is gone: nobody sits there who could want to abort.
        if self._ignoring or (again and number == _number("SIGHUP")):
            return
        # Set before listeners run, so that a second signal during them aborts.
        self.first = self.first or number
        if again or not self._listeners:
            raise ended_by(number)
        for listener in self._listeners:
            listener()

    @contextmanager
    def calling(self, listener: Callable[[], object]) -> Iterator[None]:
        """Have the first signal call `listener`, at once when it has come already, instead of aborting."""
        self._listeners.append(listener)
        try:
            if self.first is not None:
                listener()
            yield
        finally:
            self._listeners.remove(listener)

    def waiting(self) -> AbstractContextManager[None]:
        """Have the first signal wait until the work inside is done; `check` raises it then."""
        return self.calling(lambda: None)

    @contextmanager
    def ignored(self) -> Iterator[None]:
        """Ignore all of them for the moment that it takes to leave things in order."""
        before, self._ignoring = self._ignoring, True
        try:
            yield
        finally:
            self._ignoring = before

    @property
    def failure(self) -> BaseException | None:
        """What the first signal asked for, if one came."""
        return None if self.first is None else ended_by(self.first)

    def check(self) -> None:
        """Raise it."""
        if self.failure is not None:
            raise self.failure


_HEARING: ContextVar[Interrupts | None] = ContextVar("jrh_interrupts", default=None)


def ended_by(number: int) -> BaseException:
    """Return the exception that a signal ends Python with."""
    return KeyboardInterrupt() if number == signal.SIGINT else SystemExit(128 + number)


@contextmanager
def hearing_interrupts() -> Iterator[Interrupts]:
    """Hear signals inside the block: in the main thread, and where nobody else has chosen what they do.

    A block inside another one shares its signals. A process that was started to ignore one (nohup) goes on ignoring it.
    """
    outer = _HEARING.get()
    if outer is not None:
        yield outer
        return
    interrupts = Interrupts()
    before = _handlers() if threading.current_thread() is threading.main_thread() else {}
    token = _HEARING.set(interrupts)
    for number in before:
        signal.signal(number, interrupts.hear)
    try:
        yield interrupts
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        _HEARING.reset(token)


def _handlers() -> dict[int, Any]:
    """Return the signals that nobody else has chosen a handler for, with what they do now."""
    handlers = {number: signal.getsignal(number) for number in map(_number, _NAMES) if number is not None}
    return {number: handler for number, handler in handlers.items() if handler in _DEFAULTS or _is_of_library(handler)}


def _is_of_library(handler: object) -> bool:
    """Whether `asyncio.run` or `ray.init` put it there, not the user.

    The first cancels a task, which cannot happen while the loop waits for us; the second ends the process at once.
    """
    module = getattr(getattr(handler, "func", handler), "__module__", "")
    return module in ("asyncio.runners", "ray._private.worker")


def _number(name: str) -> int | None:
    return getattr(signal, name, None)


def say(text: str) -> None:
    """Tell the user, who may have hung up."""
    with suppress(OSError, ValueError):
        print(text, file=sys.stderr, flush=True)
