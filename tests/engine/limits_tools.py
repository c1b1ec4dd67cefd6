"""Shared by the tests of the limits."""

from __future__ import annotations

import asyncio
import random
from contextlib import AsyncExitStack

from jrh_mlflow.engine.limits import Limits, Slot
from tests.engine.virtual_time import now


def make(concurrency: int = 8, **options: float | None) -> Limits:
    return Limits(concurrency, rng=random.Random(1), **options)  # type: ignore[arg-type]


async def calls(limits: Limits, n: int, *, seconds: float = 0.1, tokens: float = 0) -> list[float]:
    """Make `n` successful calls at once and return when each began."""
    began: list[float] = []

    async def call() -> None:
        async with limits.slot(tokens):
            began.append(now())
            await asyncio.sleep(seconds)
            limits.on_success()

    await asyncio.gather(*(call() for _ in range(n)))
    return began


async def take(stack: AsyncExitStack, limits: Limits, n: int) -> list[Slot]:
    return [await stack.enter_async_context(limits.slot()) for _ in range(n)]
