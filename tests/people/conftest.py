"""Fixtures: the store of rated traces, made once per test process."""

from __future__ import annotations

import pytest

from tests.people.rated_store import RatedStore, rate_traces


@pytest.fixture(scope="session")
def rated(store_uri: str) -> RatedStore:
    """160 traces, three people, one judge. Runs may be added to its store; its traces stay as they are.

    Labels are booleans: of judges that answer "yes" and "no" by `make_judge` MLflow logs no mean.
    """
    return rate_traces(store_uri, n=160, values=(False, True), seed=2)
