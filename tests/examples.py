"""How many examples a property is tried on: few in `make test`, all in `make test-all`."""

from __future__ import annotations

import os

PROFILE = os.environ.get("JRH_TESTS_EXAMPLES", "usual")
"""`usual`: the same 25 examples each time; `other`: 100 new ones."""
USUAL, ALL = 25, 100
COSTLY = 10
"""Of the usual 25, where each is expensive."""


def up_to(n: int, *, usual: int = USUAL) -> int:
    """Return how many examples a property gets whose own number is `n`."""
    return min(n, usual) if PROFILE == "usual" else n
