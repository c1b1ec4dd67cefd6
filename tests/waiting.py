"""Waiting for what another process or thread does."""

from __future__ import annotations

import time
from collections.abc import Callable


def wait_until(done: Callable[[], bool], *, seconds: float = 120) -> None:
    """Return as soon as something is so; fail when it never comes."""
    end = time.monotonic() + seconds
    while not done():
        if time.monotonic() > end:
            raise AssertionError(f"It did not come in {seconds:g} seconds.")
        time.sleep(0.01)
