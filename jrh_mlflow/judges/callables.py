"""Any Python callable as a judge, sync or async."""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import types
from collections.abc import Awaitable, Callable, Iterator, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager

from jrh_mlflow.errors import JudgeError
from jrh_mlflow.judges._base import AnsweringJudge
from jrh_mlflow.schema.items import Call
from jrh_mlflow.schema.presentation import Answer, Presentation

JudgeFunction = Callable[[Presentation], object]

_PLAIN = (str, bytes, int, float, bool, type(None))
_MOST_BITS = 1024
"""Of an integer: larger ones are beyond every float, and Python refuses to write very long ones."""


class UserFunction:
    """A function of the user's, sync or async. A sync one runs in threads, so it never blocks the loop."""

    def __init__(self, function: Callable[..., object], *, thread_name: str) -> None:
        self._function, self._thread_name = function, thread_name
        self._is_async = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
            getattr(function, "__call__", None)  # noqa: B004 - the method itself is inspected, not its presence
        )
        self._threads: Executor | None = None
        """Of a sync function, for the time of a run."""

    async def __call__(self, *arguments: object) -> object:
        """Call it."""
        if self._is_async:
            returned = self._function(*arguments)
        else:
            loop = asyncio.get_running_loop()
            in_thread = loop.run_in_executor(self._threads, self._function, *arguments)
            returned = await _result_of(in_thread)
        return await _result_of(returned) if inspect.isawaitable(returned) else returned

    @contextmanager
    def running(self, concurrency: int) -> Iterator[None]:
        """Give a sync function its bounded thread pool."""
        if self._is_async:
            yield
            return
        self._threads = threads = ThreadPoolExecutor(concurrency, thread_name_prefix=self._thread_name)
        is_whole = False
        try:
            yield
            is_whole = True
        finally:
            self._threads = None
            # A thread cannot be ended: whoever aborts does not wait for it.
            threads.shutdown(wait=is_whole, cancel_futures=not is_whole)


async def _result_of(awaitable: Awaitable[object]) -> object:
    """Await the user's code; a CancelledError that it raises by itself is an error like any other.

    It runs in a task of its own, because that is how its own end differs from a cancelled call.
    """
    task = asyncio.ensure_future(awaitable)
    try:
        await asyncio.wait([task])
    finally:
        task.cancel()
    if task.cancelled() or isinstance(task.exception(), asyncio.CancelledError):
        raise JudgeError("The judge raised asyncio.CancelledError.")
    return task.result()


def _check_integers(returned: object) -> None:
    """Refuse an integer that Python cannot write as text.

    Raises:
        JudgeError: with its size.
    """
    value = returned.value if isinstance(returned, Answer) else returned
    if isinstance(value, Mapping):
        for part in value.values():
            _check_integers(part)
    if isinstance(value, int) and value.bit_length() > _MOST_BITS:
        size = f"{value.bit_length():,} bits"
        raise JudgeError(f"The judge answered with an integer of {size}. Return one of the answers.")


class CallableJudge(AnsweringJudge):
    """Wraps `f(presentation)`."""

    kind = "callable"

    def __init__(self, function: JudgeFunction) -> None:
        self.function, self._called = function, UserFunction(function, thread_name="jrh-judge")
        self.name = _name(function)

    async def ask(self, call: Call) -> object:
        """Pass the presentation, and nothing else, to the function."""
        returned = await self._called(call.presentation)
        _check_integers(returned)
        return returned

    def running(self, concurrency: int) -> AbstractContextManager[None]:
        """Give a sync function its bounded thread pool."""
        return self._called.running(concurrency)

    def prompt(self) -> str:
        """Say that the prompt is inside the function."""
        where = f"{getattr(self.function, '__module__', '?')}.{self.name}"
        return f"A Python callable, {where}: its prompt is its own. It is told as the rubric:\n{super().prompt()}"

    def fingerprint(self) -> str | None:
        """Hash the code with what it closes over and the globals it names; None where these are not plain."""
        parts = function_parts(self.function)
        if parts is None:
            return None
        return hashlib.sha256(repr((parts, self.tie_criterion)).encode()).hexdigest()


def _name(function: object) -> str:
    own = getattr(function, "name", None)
    if isinstance(own, str) and own:
        return own
    return str(getattr(function, "__qualname__", None) or type(function).__qualname__).rpartition("<locals>.")[2]


def function_parts(function: object, seen: tuple[object, ...] = ()) -> tuple[object, ...] | None:
    """Return what decides a function's answers, or None when some of it cannot be told from a look at it."""
    # A callable object or a C function may hold anything: two that differ could look the same.
    if not isinstance(function, types.FunctionType):
        return None
    try:
        held = [cell.cell_contents for cell in function.__closure__ or ()]
    except ValueError:  # a name of the function around it that has no value yet
        return None
    held += [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
    # A prompt often stands in a global: it belongs to the judge as much as what the function closes over.
    held += [function.__globals__[name] for name in _names_in(function.__code__) if name in function.__globals__]
    parts = [_held_part(value, function, (*seen, function)) for value in held]
    if any(part is None for part in parts):
        return None
    return (function.__module__, function.__qualname__, _code_parts(function.__code__), *parts)


def _held_part(value: object, holder: types.FunctionType, seen: tuple[object, ...]) -> object | None:
    if isinstance(value, _PLAIN):
        return repr(value)
    if isinstance(value, types.ModuleType | types.BuiltinFunctionType):
        return f"{type(value).__name__} {value.__name__}"
    if isinstance(value, types.FunctionType):
        # Functions that call each other would be followed for ever.
        return value.__qualname__ if value in seen else function_parts(value, seen)
    if isinstance(value, type) and value.__module__ != holder.__module__:
        return f"{value.__module__}.{value.__qualname__}"
    return None


def _names_in(code: types.CodeType) -> list[str]:
    inner = [
        name for constant in code.co_consts if isinstance(constant, types.CodeType) for name in _names_in(constant)
    ]
    return sorted({*code.co_names, *inner})


def _code_parts(code: types.CodeType) -> tuple[object, ...]:
    return (code.co_code, tuple(map(_constant, code.co_consts)), code.co_names)


def _constant(value: object) -> object:
    if isinstance(value, types.CodeType):
        return _code_parts(value)
    # `x in {"1", "2"}` holds a frozenset, whose printed order changes with the hash seed of the process.
    return sorted(map(repr, value)) if isinstance(value, frozenset) else repr(value)
