"""How much memory is free for a model."""

from __future__ import annotations

import re
from pathlib import Path

_SYSTEM = Path("/proc/meminfo")
_GROUP = Path("/sys/fs/cgroup")


def available_memory() -> int | None:
    """Return the bytes that can be used without swapping, a container's limit included; None where nobody says."""
    known = [free for free in (_of_system(), _of_group()) if free is not None]
    return min(known, default=None)


def _of_system() -> int | None:
    try:
        found = re.search(r"^MemAvailable:\s+(\d+) kB", _SYSTEM.read_text(encoding="ascii"), re.MULTILINE)
    except OSError:
        return None
    return int(found[1]) * 1024 if found else None


def _of_group() -> int | None:
    try:
        limit, used = ((_GROUP / name).read_text(encoding="ascii").strip() for name in ("memory.max", "memory.current"))
    except OSError:
        return None
    # Files that are only cached count as used, and give way.
    return max(0, int(limit) - int(used) + _file_cache()) if limit.isdecimal() else None


def _file_cache() -> int:
    try:
        found = re.search(r"^inactive_file (\d+)", (_GROUP / "memory.stat").read_text(encoding="ascii"), re.MULTILINE)
    except OSError:
        return 0
    return int(found[1]) if found else 0
