"""Fixtures of the tests that run what the pages print."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.docs.world import World, prepared


@pytest.fixture(scope="module")
def world(store_uri: str, undrawn: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """The experiment `support` in the active store, a model that answers, and a folder to work in."""
    with prepared(store_uri, tmp_path_factory.mktemp("work")) as world:
        yield world
