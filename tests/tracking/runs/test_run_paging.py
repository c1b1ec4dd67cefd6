"""Runs of a store are found whatever page of MLflow's answers they stand on."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from jrh_mlflow.tracking.runs import keys
from jrh_mlflow.tracking.runs import read as run_suites
from jrh_mlflow.tracking.runs.leaderboard import RunQuery, run_list
from jrh_mlflow.tracking.runs.read import suites_in_runs
from jrh_mlflow.tracking.runs.store import Store, first_tags
from tests.tracking.traces.test_traces import own_store

N_EXPERIMENTS = 1100
"""More than a page of MLflow's answer holds."""


@pytest.fixture
def crowded(store_uri: str, tmp_path: Path) -> Store:
    """A store with so many experiments, all of them younger than the one that our runs go to."""
    store = own_store(store_uri, tmp_path)
    rows = [(f"other {n}", 2**50 + n, 2**50 + n) for n in range(N_EXPERIMENTS)]
    with sqlite3.connect(tmp_path / "own" / "mlflow.db") as connection:
        connection.executemany(
            "INSERT INTO experiments (name, lifecycle_stage, creation_time, last_update_time) "
            "VALUES (?, 'active', ?, ?)",
            rows,
        )
    connection.close()
    return store


def finished(store: Store, kind: str, name: str) -> str:
    run_id = store.create_run(name, tags=first_tags(kind, simulated=False))
    for key, value in keys.grouped_params({"suite": {"name": name, "sha256": "a" * 64, "n_items": 3}}).items():
        store.client.log_param(run_id, key, value)
    store.client.set_terminated(run_id, "FINISHED")
    return run_id


@pytest.mark.slow
def test_runs_of_old_experiments_are_found_beyond_the_first_page_of_experiments(crowded):
    made, asked = finished(crowded, "generate", "suite"), finished(crowded, "evaluate", "judge")
    first_page = crowded.client.search_experiments()
    assert crowded.experiment_id not in {one.experiment_id for one in first_page}
    assert suites_in_runs(crowded.uri)[0].run_id == made
    assert asked in {one.run.run_id for one in run_list(crowded.uri, RunQuery(suite="a" * 64)).rows}


@pytest.mark.slow
def test_runs_are_read_to_the_last_page_and_stay_newest_first_over_all_experiments(store_uri, tmp_path, monkeypatch):
    monkeypatch.setattr(run_suites, "_RUNS_AT_ONCE", 2)
    monkeypatch.setattr(run_suites, "_EXPERIMENTS_AT_ONCE", 1)
    own = own_store(store_uri, tmp_path)
    stores = [own, Store(own.uri, "other", artifacts=tmp_path.as_uri())]
    made = [finished(stores[n % 2], "generate", f"suite {n}") for n in range(7)]
    asked = [finished(stores[n % 2], "evaluate", f"judge {n}") for n in range(5)]
    with sqlite3.connect(tmp_path / "own" / "mlflow.db") as connection:
        for place, run_id in enumerate([*made, *asked]):
            connection.execute("UPDATE runs SET start_time = ? WHERE run_uuid = ?", (10**14 + place, run_id))
    connection.close()
    # Behind them may stand what other tests logged to the store that this is a copy of.
    assert [one.run_id for one in suites_in_runs(own.uri)][:7] == made[::-1]
    listed = run_list(own.uri, RunQuery(suite="a" * 64)).rows
    assert [one.run.run_id for one in listed][:5] == asked[::-1]
    assert suites_in_runs(own.uri, kind="nothing") == []
