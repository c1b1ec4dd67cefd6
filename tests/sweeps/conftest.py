"""Sweeps make many runs, and half of the time of a run goes into figures that have tests of their own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.sweeps.plain_runs import without_figures


@pytest.fixture(scope="package", autouse=True)
def _without_figures() -> Iterator[None]:
    with without_figures():
        yield
