"""Sweeps make many runs, and much of the time of a run goes into figures and a page that have tests of their own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.sweeps.plain_runs import without_pages


@pytest.fixture(scope="package", autouse=True)
def _without_pages() -> Iterator[None]:
    with without_pages():
        yield


@pytest.fixture(scope="package", autouse=True)
def _migrations_are_read_once() -> Iterator[None]:
    """Optuna reads the files of all its migrations twice for every study that is opened."""
    from optuna.storages._rdb.storage import _VersionManager

    read = _VersionManager._create_alembic_script
    scripts: list[Any] = []

    def known(manager: Any) -> Any:
        if not scripts:
            scripts.append(read(manager))
        return scripts[0]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_VersionManager, "_create_alembic_script", known)
        yield
