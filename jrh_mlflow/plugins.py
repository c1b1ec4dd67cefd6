"""What other installed packages add, found by entry points: `jrh.tests` and `jrh.transports`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

TESTS = "jrh.tests"
"""Reliability tests: a `ReliabilityTest`, or its class."""
TRANSPORTS = "jrh.transports"
"""Ways to reach a model: a `Transport` class."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Plugin:
    """One entry point: what it holds, or why it cannot be loaded."""

    name: str
    distribution: str
    """The package that declares it, with its version: `jrh-emoji 0.1`."""
    value: Any = None
    error: str | None = None
    """One line that names the package; None when it was loaded."""


@cache
def plugins(group: str) -> tuple[Plugin, ...]:
    """Load the entry points of a group, in order of their names; a broken one is told, and stops no other.

    Read once per process: what is installed while it runs is seen by the next.
    """
    return tuple(_loaded(entry) for entry in sorted(entry_points(group=group), key=lambda entry: entry.name))


def _loaded(entry: EntryPoint) -> Plugin:
    owner = f"{entry.dist.name} {entry.dist.version}" if entry.dist else "an unknown package"
    try:
        return Plugin(name=entry.name, distribution=owner, value=entry.load())
    except Exception as error:  # other people's code may raise anything when it is imported
        why = " ".join(f"{type(error).__name__}: {error}".split())
        said = f"{entry.group} entry {entry.name!r} of {owner} ({entry.value}) cannot be loaded: {why}"
        return Plugin(name=entry.name, distribution=owner, error=said)
