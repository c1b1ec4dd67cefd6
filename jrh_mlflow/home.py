"""The folder in which this package keeps what must outlive a process: journal, spools, outbox, reviews."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path


def home() -> Path:
    """Return `$JRH_HOME`, by default `.jrh`, as an absolute path.

    A relative folder is fixed at its first use in a process, so that after a `chdir` everything still lies together.
    """
    return _absolute(os.environ.get("JRH_HOME") or ".jrh")


@cache
def _absolute(folder: str) -> Path:
    return Path(folder).expanduser().absolute()
