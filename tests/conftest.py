"""Fixtures: one real MLflow store per test process, since making one takes seconds."""

from __future__ import annotations

import os
import signal
import sys

os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
os.environ.setdefault("MLFLOW_MODEL_CATALOG_URI", "")
# Servers of tests are on loopback; `tests/models/test_trust.py` and `tests/cli/test_cli_trust.py` do without this.
os.environ.setdefault("JRH_ALLOW_KEY_TO", "127.0.0.1")
# A server that is not there is asked as often as ever, without the fourteen seconds between.
os.environ.setdefault("MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR", "0")
os.environ.setdefault("MLFLOW_HTTP_REQUEST_BACKOFF_JITTER", "0")

from collections.abc import Iterator
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from jrh_mlflow.models import trust
from tests import drawing, forked_server, new_stores, once, processes
from tests.examples import ALL, PROFILE, USUAL
from tests.finished import FinishedRuns, copied_into, finished_runs
from tests.mlflow_features import before

new_stores.without_fsync()
new_stores.with_shared_statements()
forked_server.install()
# How long an example takes says how busy the machine is. A commit passes or fails, whenever it is tried; other examples
# than the usual ones are drawn by `make test-all`.
settings.register_profile(
    "usual", max_examples=USUAL, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)
settings.register_profile("other", settings.get_profile("usual"), max_examples=ALL, derandomize=False)
settings.load_profile(PROFILE)
ROOT = Path(__file__).parent
MANY = 2000
"""So many tests need every library."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what the installed MLflow is too old for."""
    newer = {item for item in items if any(before(*mark.args) for mark in item.iter_markers("since_mlflow"))}
    if newer:
        config.hook.pytest_deselected(items=list(newer))
        items[:] = [item for item in items if item not in newer]


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> None:
    """Workers share a folder and servers, and fork their processes from one template."""
    once.begin(session.config._tmp_path_factory.mktemp("shared", numbered=False))
    if session.config.getoption("workers") > 1:
        processes.start()
        if len(session.items) > MANY:
            # Imported here, they are imported once for all workers.
            processes.import_all()


def pytest_sessionfinish() -> None:
    """The browser and the database of a test run end with it."""
    once.end()


def pytest_unconfigure() -> None:
    """The template ends where every process has let it go."""
    processes.stop()


@pytest.fixture(scope="session")
def store_uri(_away_from_the_repository: None, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A SQLite tracking store with its tables made."""
    from jrh_mlflow.tracking.mlflow_server import artifacts_uri, folder_uri
    from jrh_mlflow.tracking.runs.store import Store

    import_module("mlflow.store.db.utils")
    new_stores.with_copied_tables()
    folder = tmp_path_factory.mktemp("store")
    assert Store(folder_uri(folder), "tests", artifacts=artifacts_uri(folder)).experiment_id
    return folder_uri(folder)


@pytest.fixture(scope="session")
def finished(_away_from_the_repository: None) -> FinishedRuns:
    """A store with a finished run of every kind, to read (`tests/finished.py`)."""
    return finished_runs()


@pytest.fixture
def finished_copy(finished: FinishedRuns, tmp_path: Path) -> Iterator[FinishedRuns]:
    """The same store, to write into."""
    with copied_into(tmp_path / "finished") as runs:
        yield runs


@pytest.fixture(scope="session", autouse=True)
def _away_from_the_repository(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Fixtures of a module run before those of its tests: they, too, leave nothing in the repository."""
    home, folder = Path.cwd(), tmp_path_factory.mktemp("home")
    os.environ["JRH_HOME"] = str(folder / ".jrh")
    os.chdir(folder)
    yield
    os.chdir(home)


@pytest.fixture(autouse=True)
def _signals_are_heard() -> Iterator[None]:
    """What is started in the background (`nohup make test &`, some CI agents) ignores SIGINT and SIGHUP.

    The processes that it starts would ignore them, too. A test begins as a program does that a terminal started.
    """
    usual = {signal.SIGINT: signal.default_int_handler, signal.SIGHUP: signal.SIG_DFL}
    before = {number: signal.signal(number, handler) for number, handler in usual.items()}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture(scope="module", autouse=True)
def _no_store_left_active() -> Iterator[None]:
    """What a file or a fixture of the session made active would be the store and experiment of every later file."""
    new_stores.forget_active()
    yield
    new_stores.forget_active()


@pytest.fixture(scope="module", autouse=True)
def _figures_are_not_drawn(request: pytest.FixtureRequest) -> Iterator[None]:
    """Figures are made and never drawn: drawing takes a third of a run's time.

    `tests/show` and the files and tests marked `drawn` look at them.
    """
    with pytest.MonkeyPatch.context() as patch:
        if request.path.parent != ROOT / "show" and request.node.get_closest_marker("drawn") is None:
            patch.setenv(drawing.UNDRAWN, "1")
            drawing.draw_nothing(patch.setattr)
        yield


@pytest.fixture(autouse=True)
def _marked_tests_draw(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """One test of such a file may look at figures, too."""
    if request.node.get_closest_marker("drawn") is not None:
        monkeypatch.delenv(drawing.UNDRAWN, raising=False)
        drawing.draw_again(monkeypatch.setattr)


@pytest.fixture(autouse=True)
def _own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test works in a folder of its own and leaves nothing in the repository."""
    new_stores.with_copied_tables()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("JRH_HOME", str(tmp_path / ".jrh"))
    for name in new_stores.ACTIVE:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def without_back_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """A call is tried again at once: for tests that look at how often it is, and at what that costs."""
    from jrh_mlflow.engine import sessions
    from jrh_mlflow.engine.retries import RetryPolicy

    monkeypatch.setitem(RetryPolicy.__init__.__kwdefaults__, "base_s", 0.0)
    monkeypatch.setattr(sessions, "_POLICY", replace(sessions._POLICY, base_s=0.0))


@pytest.fixture(autouse=True)
def _nobody_named_an_address() -> None:
    """Who named an address is known to a process: tests share one."""
    trust.forget()


@pytest.fixture(autouse=True)
def _is_no_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """MLflow takes a process for its server, which runs no scorer, where uvicorn was imported before its module."""
    if "mlflow.server" in sys.modules:
        monkeypatch.setattr("mlflow.server.is_running_as_server", False, raising=False)
