"""Fixtures of the tests that run what the pages print."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from jrh_mlflow.tracking.mlflow_server import folder_uri
from tests.docs.world import World, furnished, prepared


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """The experiment `support` in the active store, a model that answers, and a folder to work in."""
    folder = tmp_path_factory.mktemp("work")
    # A store of its own: other tests have an experiment of this name, too.
    with prepared(folder_uri(folder), folder) as world:
        yield world


@pytest.fixture
def here(world: World, tmp_path: Path) -> World:
    """The same store and model, in a new folder."""
    return furnished(world, tmp_path)
