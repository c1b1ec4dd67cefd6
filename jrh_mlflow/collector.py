"""Python's garbage collector where much is made that stays: answers, modules, tables."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager

_YOUNG = 10_000
"""So many new objects before the first look: those of the calls in flight are not looked at again and again."""
_CALM = 1000
"""So many collections of what is younger come before one of everything; Python's own number is 10."""


@contextmanager
def calm_collector() -> Iterator[None]:
    """Keep the garbage collector from walking every imported module again with each few hundred answers."""
    young, middle, old = gc.get_threshold()
    # Who is inside another one leaves it to that one to put back what was there.
    if old >= _CALM:
        yield
        return
    gc.set_threshold(max(young, _YOUNG), middle, _CALM)
    try:
        yield
    finally:
        gc.set_threshold(young, middle, old)


@contextmanager
def unwalked(module: str) -> Iterator[None]:
    """Let what is imported or made here count as old at once: no walk of the collector over a million objects.

    Nothing is done where `module`, which comes with it, is imported already: counting what is frozen is a walk, too.
    """
    if module in sys.modules or not gc.isenabled() or gc.get_freeze_count():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        # Frozen and released, objects are in the oldest generation, without a walk.
        gc.freeze()
        gc.unfreeze()
        gc.enable()
