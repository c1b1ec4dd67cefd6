"""Any Python callable as a judge, sync or async."""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import types
from collections.abc import Callable
from concurrent.futures import Executor

from jrh_mlflow.judges._base import Judge
from jrh_mlflow.schema.items import Call
from jrh_mlflow.schema.presentation import Presentation

JudgeFunction = Callable[[Presentation], object]

_PLAIN = (str, bytes, int, float, bool, type(None))


class CallableJudge(Judge):
    """Wraps `f(presentation)`. A sync function runs in the engine's threads, so it never blocks the loop."""

    kind = "callable"

    def __init__(self, function: JudgeFunction) -> None:
        self.function = function
        self.name = _name(function)
        self.is_async = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
            getattr(function, "__call__", None)  # noqa: B004 - the method itself is inspected, not its presence
        )
        self.executor: Executor | None = None
        """Set by the engine for the time of a run."""

    async def ask(self, call: Call) -> object:
        """Pass the presentation, and nothing else, to the function."""
        if self.is_async:
            returned = self.function(call.presentation)
        else:
            loop = asyncio.get_running_loop()
            returned = await loop.run_in_executor(self.executor, self.function, call.presentation)
        return await returned if inspect.isawaitable(returned) else returned

    def prompt(self) -> str:
        """Say that the prompt is inside the function."""
        where = f"{getattr(self.function, '__module__', '?')}.{self.name}"
        return f"A Python callable, {where}: its prompt is its own. It is told as the rubric:\n{super().prompt()}"

    def fingerprint(self) -> str | None:
        """Hash the code and the plain values it closes over; None when it holds anything else."""
        parts = _fingerprint_parts(self.function)
        if parts is None:
            return None
        return hashlib.sha256(repr((parts, self.tie_criterion)).encode()).hexdigest()


def _name(function: object) -> str:
    own = getattr(function, "name", None)
    if isinstance(own, str) and own:
        return own
    return str(getattr(function, "__qualname__", None) or type(function).__qualname__).rpartition("<locals>.")[2]


def _fingerprint_parts(function: object) -> tuple[object, ...] | None:
    if not isinstance(function, types.FunctionType):
        return None
    held = [cell.cell_contents for cell in function.__closure__ or ()]
    held += [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
    if not all(isinstance(value, _PLAIN) for value in held):
        return None
    return (function.__module__, function.__qualname__, _code_parts(function.__code__), held)


def _code_parts(code: types.CodeType) -> tuple[object, ...]:
    return (code.co_code, tuple(map(_constant, code.co_consts)), code.co_names)


def _constant(value: object) -> object:
    if isinstance(value, types.CodeType):
        return _code_parts(value)
    # `x in {"1", "2"}` holds a frozenset, whose printed order changes with the hash seed of the process.
    return sorted(map(repr, value)) if isinstance(value, frozenset) else repr(value)
