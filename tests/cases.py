"""Cases of which a few stand for all: those run each time, the others are `slow` (`make test-all`)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def few(cases: Iterable[Any], *, quick: int = 1) -> list[Any]:
    """Return cases for `pytest.mark.parametrize`, the first ones as they are and all others marked `slow`.

    >>> [case.marks == () for case in few(["a", ("b", "c"), pytest.param("d", id="d")], quick=2)]
    [True, True, False]
    """
    params = [case if hasattr(case, "marks") else pytest.param(*_values(case)) for case in cases]
    return [*params[:quick], *(param._replace(marks=[*param.marks, pytest.mark.slow]) for param in params[quick:])]


def _values(case: Any) -> tuple[Any, ...]:
    return case if isinstance(case, tuple) else (case,)
