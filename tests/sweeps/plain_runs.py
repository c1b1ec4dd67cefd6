"""Runs of trials without their figures."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from jrh_mlflow.measuring import run_page


@contextmanager
def without_figures() -> Iterator[None]:
    """Draw none for the runs of evaluations; those of the sweep itself stay."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run_page, "sheet_figures", lambda sheet, calls, label: {})
        yield
