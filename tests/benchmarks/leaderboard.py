"""`/jrh/` of a store with 1,000 runs: its page of 100, sorted, filtered and turned, and a first comparison of twelve.

    python -m tests.benchmarks.leaderboard [N_RUNS]

Twelve judges are measured through a real `mlflow server --app-name jrh`; MLflow's API makes the other runs from their
tags, params and metrics. Seconds of one machine say little. A page is set beside one `search_runs(max_results=100)` of
the same server in the same minute, the comparison beside reading the twelve runs' artifacts once.
"""

from __future__ import annotations

import logging
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path
from urllib.parse import urlencode

from mlflow import MlflowClient
from mlflow.entities import Metric, Param, Run, RunTag

import jrh_mlflow as jrh
from jrh_mlflow.show.html import Addresses
from jrh_mlflow.tracking.mlflow_server import folder_uri, server_command, server_environment, wait_until_up
from jrh_mlflow.tracking.runs import keys
from tests.benchmarks.call_browser import seconds
from tests.servers import free_port

EXPERIMENT = "leaderboard"
N_COMPARED = 12
TIMES = 5
PAGE_LIMIT, COMPARISON_LIMIT = 2.0, 3.0
READ = {"all artifacts": ("",), "what is compared": (keys.CALLS_FILE, keys.SUITE_FOLDER, keys.JUDGE_FILE)}
PAGES = {
    "first page": {},
    "sorted by a reading": {"sort": "dark_current"},
    "sorted by cost, falling": {"sort": "-cost"},
    "one judge": {"judge": "Noisy"},
    "runs of any kind": {"kind": "any"},
}


def measured(address: str) -> list[Run]:
    """Measure twelve judges on one suite."""
    suite = jrh.datasheet_suite(n_tasks=20)
    options = {"experiment": EXPERIMENT, "tracking_uri": address, "traces": "none", "progress": False}
    scripts = jrh.scripted
    judges = [scripts.AlwaysFirst(), scripts.Oracle(), scripts.AlwaysTie(), scripts.LongerWins()]
    judges += [scripts.Noisy(seed=seed) for seed in range(N_COMPARED - len(judges))]
    client = MlflowClient(address)
    return [client.get_run(jrh.evaluate(judge, suite, **options).run_id) for judge in judges]


def multiplied(store: str, runs: list[Run], n_runs: int) -> None:
    """Make more runs of what some hold: other names, moments and numbers, no artifacts."""
    client = MlflowClient(store)
    for number in range(n_runs - len(runs)):
        old, started = runs[number % len(runs)], 1_700_000_000_000 + 60_000 * number
        metrics = [Metric(key, value * (1 - number / 10**6), started, 0) for key, value in old.data.metrics.items()]
        params = [Param(key, value) for key, value in old.data.params.items()]
        tags = [RunTag(key, value) for key, value in old.data.tags.items() if key.startswith(keys.own_key(""))]
        run = client.create_run(old.info.experiment_id, start_time=started, run_name=f"{old.info.run_name} {number}")
        client.log_batch(run.info.run_id, metrics=metrics, params=params, tags=tags)
        client.set_terminated(run.info.run_id, end_time=started + 1000)


def read_once(client: MlflowClient, runs: list[Run], names: Sequence[str]) -> None:
    """Read some artifacts of each run; the name of the whole folder is empty."""
    for run in runs:
        with tempfile.TemporaryDirectory() as folder:
            for name in names:
                client.download_artifacts(run.info.run_id, name, folder)


def print_ratios(address: str, runs: list[Run]) -> None:
    """Ask for the pages, and print how long each took beside MLflow's own answer."""
    client = MlflowClient(address)
    experiments = [experiment.experiment_id for experiment in client.search_experiments()]

    def page(query: dict[str, str]) -> None:
        urllib.request.urlopen(f"{address}/jrh/?{urlencode(query)}").read()

    def median(work: Callable[[], object]) -> float:
        return statistics.median(seconds(work) for _ in range(TIMES))

    # Once before the clock runs: the first page imports what all need.
    page({})
    search = median(lambda: client.search_runs(experiments, max_results=100))
    print(f"{'one search_runs(max_results=100)':44} {search:8.3f} s")
    for name, query in PAGES.items():
        took = median(lambda query=query: page(query))
        print(f"{name:44} {took:8.3f} s {took / search:6.2f} x (limit {PAGE_LIMIT:g})")
    link = Addresses(f"{address}/jrh/").compare([run.info.run_id for run in runs])
    read = {name: seconds(lambda names=names: read_once(client, runs, names)) for name, names in READ.items()}
    for name, took in read.items():
        print(f"{f'reading {name} of {len(runs)} runs once':44} {took:8.3f} s")
    took = seconds(lambda: urllib.request.urlopen(link).read())
    ratios = ", ".join(f"{took / reading:.2f} x {name}" for name, reading in read.items())
    print(f"{f'first comparison of {len(runs)}':44} {took:8.3f} s {ratios} (limit {COMPARISON_LIMIT:g})")


def main(n_runs: int) -> None:
    """Make the store, and print the table."""
    os.environ.setdefault("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false")
    os.environ.setdefault("MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT", "true")
    logging.getLogger("mlflow").setLevel(logging.ERROR)
    folder, port = Path(tempfile.mkdtemp(prefix="jrh-benchmark-")), free_port()
    store = folder_uri(folder)
    (folder / "mlflow.db").touch()
    address = f"http://127.0.0.1:{port}"
    with (folder / "log").open("wb") as log:
        command = [*server_command(str(folder), port=port), "--app-name", "jrh"]
        process = subprocess.Popen(command, env=server_environment(), stdout=log, stderr=subprocess.STDOUT)
    try:
        wait_until_up(f"{address}/health", process)
        runs = measured(address)
        took = seconds(lambda: multiplied(store, runs, n_runs))
        print(f"{n_runs:,} runs, made in {took:.0f} s")
        print_ratios(address, runs)
    finally:
        process.terminate()
        process.wait()
        shutil.rmtree(folder)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000)
