"""Fixtures: one real MLflow store per test process, since making one takes seconds."""

from __future__ import annotations

import os

os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
os.environ.setdefault("MLFLOW_MODEL_CATALOG_URI", "")
# A server that is not there is asked as often as ever, without the fourteen seconds between.
os.environ.setdefault("MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR", "0")
os.environ.setdefault("MLFLOW_HTTP_REQUEST_BACKOFF_JITTER", "0")

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import postgres, processes

processes.stores_without_fsync()


@pytest.fixture(scope="session")
def store_uri(_away_from_the_repository: None, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A SQLite tracking store with its tables made."""
    from jrh_mlflow.tracking.mlflow_server import artifacts_uri, folder_uri
    from jrh_mlflow.tracking.store import Store

    folder = tmp_path_factory.mktemp("store")
    assert Store(folder_uri(folder), "tests", artifacts=artifacts_uri(folder)).experiment_id
    return folder_uri(folder)


@pytest.fixture(scope="session", autouse=True)
def _away_from_the_repository(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Fixtures of a module run before those of its tests: they, too, leave nothing in the repository."""
    home, folder = Path.cwd(), tmp_path_factory.mktemp("home")
    os.environ["JRH_HOME"] = str(folder / ".jrh")
    os.chdir(folder)
    yield
    os.chdir(home)


@pytest.fixture(scope="session", autouse=True)
def _no_server_left_behind() -> Iterator[None]:
    """The PostgreSQL server of this test process and the template of its processes end with it."""
    yield
    processes.stop()
    postgres.stop()


@pytest.fixture(autouse=True)
def _own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test works in a folder of its own and leaves nothing in the repository."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("JRH_HOME", str(tmp_path / ".jrh"))
    for name in ("MLFLOW_EXPERIMENT_ID", "MLFLOW_EXPERIMENT_NAME", "MLFLOW_TRACKING_URI"):
        monkeypatch.delenv(name, raising=False)
