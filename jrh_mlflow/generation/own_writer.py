"""A function of the user's that writes."""

from __future__ import annotations

import asyncio
import inspect
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import TYPE_CHECKING, Any

from jrh_mlflow.generation.attempts import Written
from jrh_mlflow.generation.generator import ramp
from jrh_mlflow.generation.writers import ATTEMPTS, Writer, WriterFunction, brief_sha256
from jrh_mlflow.judges.answers import clean_text
from jrh_mlflow.perturb import Rewrite, Target
from jrh_mlflow.schema.secrets import blank_secrets

if TYPE_CHECKING:
    from typing_extensions import Self


class CallableWriter(Writer):
    """A function of the user's. What it raises, or returns that is no text, is the attempt's problem."""

    def __init__(self, function: WriterFunction, *, concurrency: int) -> None:
        self.function, self._concurrency = function, concurrency
        self.name = str(getattr(function, "__qualname__", type(function).__qualname__)).rpartition("<locals>.")[2]
        self.temperatures = ramp(0.7, 1.3, ATTEMPTS)
        call = getattr(function, "__call__", None)  # noqa: B004 - the method itself is inspected, not its presence
        self._is_async = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call)

    def settings(self) -> dict[str, object]:
        """Name the function and the ramp it is called with."""
        first, last = self.temperatures[0], self.temperatures[-1]
        ramped = {"temperature": first, "max_temperature": last, "attempts": len(self.temperatures)}
        return {"model": self.name, "kind": "callable", **ramped}

    async def __aenter__(self) -> Self:
        self._slots = asyncio.Semaphore(self._concurrency)
        self._threads = ThreadPoolExecutor(self._concurrency, thread_name_prefix="jrh-writer")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._threads.shutdown()

    async def write(self, test: Rewrite, target: Target, *, temperature: float | None, attempt: int) -> Written:
        """Call the function with the brief."""
        return await self._answered(test.brief(target), temperature)

    async def ask(self, brief: str, *, attempt: int, first: int = 0) -> Written:
        """Call the function with the brief."""
        return await self._answered(brief, self.temperatures[attempt])

    async def _answered(self, brief: str, temperature: float | None) -> Written:
        brief = clean_text(brief)
        facts: dict[str, Any] = {"model": self.name, "prompt_sha256": brief_sha256(brief)}
        facts |= {"input_tokens": None, "output_tokens": None, "cost_usd": None}
        async with self._slots:
            try:
                returned = await self._call(brief, temperature)
            except Exception as error:
                return Written(problem=blank_secrets(clean_text(f"{type(error).__name__}: {error}")), **facts)
        if not isinstance(returned, str):
            return Written(problem=f"{type(returned).__name__} instead of a text", **facts)
        return Written(text=clean_text(returned).strip(), **facts)

    async def _call(self, brief: str, temperature: float | None) -> object:
        if self._is_async:
            returned = self.function(brief, temperature)
        else:
            loop = asyncio.get_running_loop()
            returned = await loop.run_in_executor(self._threads, self.function, brief, temperature)
        return await returned if inspect.isawaitable(returned) else returned
