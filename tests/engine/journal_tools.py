"""What the journal tests share: short calls, and a second process that uses the same journal."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from jrh_mlflow.engine.journal import Journal

BACKENDS: dict[str, Callable[[Path], str]] = {
    "sqlite": lambda folder: str(folder / "journal.db"),
}
"""For each backend, what `open_journal` takes to open an empty journal that belongs to a folder."""


async def ask(journal: Journal, key: str, *, budget: str | None = None, worst: int = 10, cost: int | None = 3) -> bool:
    """Reserve and answer one call; False when the budget has no room for it."""
    if not await journal.reserve(key, budget=budget, worst_micro=worst):
        return False
    await journal.answered(key, request_json=f'"{key}?"', response_json=f'"{key}!"', cost_micro=cost, budget=budget)
    return True


async def fail(journal: Journal, key: str, *, budget: str | None = None, cost: int = 2) -> None:
    """Reserve one call and let it end without an answer."""
    assert await journal.reserve(key, budget=budget, worst_micro=10)
    await journal.failed(key, request_json="{}", reason="HTTP 500", response_json=None, cost_micro=cost, budget=budget)


def start_python(script: str, *arguments: str) -> subprocess.Popen[str]:
    """Run a script in a process of its own, with pipes to talk to it."""
    return subprocess.Popen(
        [sys.executable, "-c", script, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
