"""A store that cannot be reached, and what a store does not have: said in whole words, with what to do."""

from __future__ import annotations

import shutil
import socket
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from mlflow import MlflowClient

import jrh_mlflow as jrh
from jrh_mlflow.errors import SuiteError, TrackingError
from jrh_mlflow.tracking.mlflow_server import folder_uri
from jrh_mlflow.tracking.runs import keys
from jrh_mlflow.tracking.runs.store import RunContent, Store, download, mlflow_errors, reason


def _closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
    return port


def test_a_store_that_cannot_be_reached_is_said_in_whole_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    uri = f"http://127.0.0.1:{_closed_port()}"
    whole = (
        f"The MLflow store at {uri} cannot be reached: Connection refused. "
        "Start it, or check --tracking-uri. Nothing was asked yet."
    )
    with pytest.raises(TrackingError) as stored:
        Store(uri)
    assert str(stored.value) == whole
    with pytest.raises(TrackingError) as downloaded:
        download("runs:/deadbeef/suite", tracking_uri=uri)
    assert str(downloaded.value) == whole


def test_a_server_that_is_silent_cannot_be_reached_either(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "1")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        uri = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(TrackingError, match=r"cannot be reached: .*\. Start it"):
            Store(uri)


def test_a_long_reason_ends_with_a_whole_word_and_without_the_password() -> None:
    uri = "postgresql://me:secret@db/mlflow"
    said = reason(ValueError(f"{uri} refused " + "metric " * 100), uri)
    assert said.startswith("postgresql://me:***@db/mlflow refused metric")
    assert said.endswith("metric …")
    with (
        pytest.raises(TrackingError, match=r"did not take it: No space\. Go on\.$"),
        mlflow_errors(uri, problem="did not take it", what_now="Go on."),
    ):
        raise OSError("No space.")


def test_a_database_that_a_newer_mlflow_wrote_says_what_to_install(store_uri: str, tmp_path: Path) -> None:
    newer = tmp_path / "newer.db"
    shutil.copy(store_uri.removeprefix("sqlite:///"), newer)
    with closing(sqlite3.connect(newer)) as connection, connection:
        connection.execute("UPDATE alembic_version SET version_num = 'of a newer one'")
    with pytest.raises(TrackingError, match=r"a newer MLflow wrote it: pip install --upgrade mlflow\."):
        jrh.status("0" * 32, tracking_uri=f"sqlite:///{newer}")


@pytest.mark.parametrize("run", ["deadbeef", "0123456789abcdef0123456789abcdef"])
def test_a_suite_of_a_run_that_does_not_exist_is_bad_input(run: str, store_uri: str) -> None:
    with pytest.raises(SuiteError, match=rf"no runs:/{run}/suite in the store at .*name the store with --tracking-uri"):
        download(f"runs:/{run}/suite", tracking_uri=store_uri)


def test_a_run_without_a_suite_is_bad_input(store_uri: str) -> None:
    run = Store(store_uri, "tests").create_run("empty", tags={})
    with pytest.raises(SuiteError, match="There is no runs:"):
        jrh.load_suite(f"runs:/{run}/suite", tracking_uri=store_uri)


def test_opening_a_store_makes_no_experiment_until_one_is_needed(tmp_path: Path) -> None:
    uri = folder_uri(tmp_path)
    client = MlflowClient(tracking_uri=uri)
    store = Store(uri)
    Store(uri, experiment_id="0").create_run("beside", tags={})
    assert [one.name for one in client.search_experiments()] == ["Default"]
    named = Store(uri, "named")
    assert client.get_experiment_by_name("named") is None
    run = named.create_run("first", tags={})
    assert client.get_run(run).info.experiment_id == client.get_experiment_by_name("named").experiment_id
    # What another process made in the meantime is taken, not made twice.
    made = client.create_experiment("judge-datasheets")
    assert store.experiment_id == made


def test_a_description_must_have_its_whole_text_among_the_artifacts() -> None:
    with pytest.raises(ValueError, match=r"must be an artifact of the run, but got 'datasheet\.md'"):
        RunContent(points=(), params={}, description="# Long", described_in="datasheet.md", artifacts={"sweep.md": "#"})


def test_a_run_with_a_page_has_its_first_sentence_as_verdict():
    page = {keys.PAGE_JSON: {"lead": "It is better."}, "a.md": "#"}
    content = RunContent(points=(), params={}, description="#", described_in="a.md", artifacts=page, tags={"a": "b"})
    assert content.tags == {keys.TAG_VERDICT: "It is better.", "a": "b"}


def test_what_mlflow_tells_in_passing_is_silent_while_we_use_it_and_not_a_moment_longer(
    store_uri: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import logging

    monkeypatch.delenv("MLFLOW_LOGGING_LEVEL", raising=False)
    migration, other = logging.getLogger("alembic.runtime.migration"), logging.getLogger("mlflow.tracking.client")
    monkeypatch.setattr(logging.getLogger("alembic"), "level", logging.INFO)  # as MLflow 3.5 sets it
    migration.manager._clear_cache()  # type: ignore[attr-defined]
    with Store(store_uri, "tests").errors("nothing"):
        migration.info("Running upgrade")
        other.info("in passing")
        other.warning("a warning that matters")
    assert capsys.readouterr().err.count("\n") == 1
    other.info("after it")
    migration.info("after it")
    assert capsys.readouterr().err.count("after it") == 2
