"""Runs of trials without their figures and their page."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from jrh_mlflow.measuring import run_page


@contextmanager
def without_figures() -> Iterator[None]:
    """Draw none for the runs of evaluations; those of the sweep itself stay."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run_page, "sheet_figures", lambda *_, **__: {})
        yield


@contextmanager
def without_pages() -> Iterator[None]:
    """Render none for the runs of evaluations, nor figures; what is shown of the sweep itself stays."""
    with without_figures(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(run_page.ShownRun, "page", lambda run: "The page has tests of its own.\n")
        yield
