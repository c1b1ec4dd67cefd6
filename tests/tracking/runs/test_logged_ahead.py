"""What is known before the first answer is on the run while the judge is waited for, and is logged once."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest
from mlflow import MlflowClient

import jrh_mlflow as jrh
from jrh_mlflow.errors import JudgeError
from jrh_mlflow.suites.suite import Suite, read_suite
from jrh_mlflow.tracking.runs.store import Store
from tests.ledger import SUITE, VERDICT, judge_at
from tests.loopback import LoopbackServer, error_reply
from tests.waiting import wait_until

EXPERIMENT = "logged ahead"


def _evaluated(server: LoopbackServer, store_uri: str, tmp_path: Path, **options: object) -> jrh.Evaluation:
    where = {"tracking_uri": store_uri, "experiment": EXPERIMENT, "journal": tmp_path / "j.db", "progress": False}
    return jrh.evaluate(judge_at(server), SUITE, traces="none", **where, **options)  # type: ignore[arg-type]


def _runs(client: MlflowClient) -> list[str]:
    experiment = client.get_experiment_by_name(EXPERIMENT)
    return [run.info.run_id for run in client.search_runs([experiment.experiment_id])] if experiment else []


def test_a_run_shows_its_judge_and_its_suite_while_calls_are_in_flight(store_uri: str, tmp_path: Path) -> None:
    client, answered, seen = MlflowClient(store_uri), threading.Event(), dict[str, object]()

    async def hold() -> None:
        while not answered.is_set():
            await asyncio.sleep(0.01)

    def look() -> None:
        wait_until(lambda: bool(_runs(client)) and bool(client.get_run(_runs(client)[0]).inputs.dataset_inputs))
        run = client.get_run(_runs(client)[0])
        folder = client.download_artifacts(run.info.run_id, "suite", str(tmp_path))
        seen.update(run.data.params, status=run.info.status, metrics=run.data.metrics, suite=read_suite(folder).sha256)
        answered.set()

    looking = threading.Thread(target=look)
    looking.start()
    with LoopbackServer(hold=hold) as server:
        done = _evaluated(server, store_uri, tmp_path)
    looking.join()
    assert (seen["status"], seen["metrics"], seen["suite"]) == ("RUNNING", {}, SUITE.sha256)
    after = client.get_run(done.run_id)
    assert {key: after.data.params[key] for key in seen if "." in key} == {key: seen[key] for key in seen if "." in key}
    assert {"judge.model", "suite.sha256"} <= set(seen)
    assert len(after.inputs.dataset_inputs) == 1


def test_what_could_not_be_logged_ahead_is_logged_with_the_rest(
    store_uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log_dataset, tried = Store.log_dataset, list[str]()

    def first_fails(store: Store, run_id: str, suite: Suite) -> None:
        tried.append(threading.current_thread().name)
        if len(tried) == 1:
            raise OSError("The store is away for a moment.")
        log_dataset(store, run_id, suite)

    monkeypatch.setattr(Store, "log_dataset", first_fails)
    with LoopbackServer() as server:
        done = _evaluated(server, store_uri, tmp_path)
    run = MlflowClient(store_uri).get_run(done.run_id)
    assert (run.info.status, len(run.inputs.dataset_inputs)) == ("FINISHED", 1)
    assert len(set(tried)) == len(tried) == 2


def test_the_suite_is_logged_once(store_uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save, saved = Suite.save, list[Path]()
    monkeypatch.setattr(Suite, "save", lambda suite, path: saved.append(Path(path)) or save(suite, path))
    with LoopbackServer() as server:
        _evaluated(server, store_uri, tmp_path)
    # The other one is the outbox's, which must not wait for MLflow.
    assert len(saved) == 2


def test_without_texts_nothing_of_the_suite_is_there_before_it_is_hashed(store_uri: str, tmp_path: Path) -> None:
    threads: list[str] = []

    def reply(_: object) -> str:
        threads.extend(thread.name for thread in threading.enumerate())
        return VERDICT

    with LoopbackServer(reply=reply) as server:
        _evaluated(server, store_uri, tmp_path, texts=False)
    assert threads
    assert "jrh-ahead" not in threads


def test_a_run_that_fails_says_what_it_was_to_measure(store_uri: str, tmp_path: Path) -> None:
    client = MlflowClient(store_uri)
    with LoopbackServer(reply=lambda _: error_reply(401, "Wrong key.")) as server, pytest.raises(JudgeError):
        _evaluated(server, store_uri, tmp_path)
    run = client.get_run(_runs(client)[0])
    assert (run.info.status, run.data.params["suite.name"]) == ("FAILED", SUITE.name)
    assert len(run.inputs.dataset_inputs) == 1
