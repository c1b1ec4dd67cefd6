"""Suites to MLflow's evaluation datasets and back. Run: python -m tests.benchmarks.registries [--items 1000]

Seconds of the wall clock on a store of SQLite and on a server: the suite written, written again (nothing to do), read,
and replaced by another one, which keeps a copy of the first.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from itertools import count, islice
from pathlib import Path

import jrh_mlflow as jrh
from jrh_mlflow.measuring.resolve import load_suite
from jrh_mlflow.tracking.mlflow_server import artifacts_uri, folder_uri
from jrh_mlflow.tracking.runs.store import Store
from tests.servers import free_port, running_server


def main() -> None:
    """Print one line per kind of store."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, default=1000)
    n_items = parser.parse_args().items
    first, second = _pairs(n_items, "first"), _pairs(n_items, "second")
    print(f"{len(first):,} pairs, {2 * len(first):,} records, {len(first.content) / 1e6:.1f} MB as a file")
    row = "{:8} {:>9} {:>9} {:>9} {:>9}"
    print(row.format("store", "written", "again", "read", "replaced"))
    with tempfile.TemporaryDirectory() as folder:
        direct, served = Path(folder) / "direct", Path(folder) / "served"
        for place in (direct, served):
            place.mkdir()
            Store(folder_uri(place), "benchmark", artifacts=artifacts_uri(place))
        print(row.format("SQLite", *_measured(folder_uri(direct), first, second)), flush=True)
        port = free_port()
        with running_server(served, port=port):
            print(row.format("server", *_measured(f"http://127.0.0.1:{port}", first, second)), flush=True)


def _pairs(n_items: int, word: str) -> jrh.Suite:
    ladder = [item for item in load_suite("datasheet").items if item.condition == "ladder"]
    copies = (
        replace(item, id=f"{item.id}-{word}-{turn}", task=f"{item.task}-{turn}") for turn in count() for item in ladder
    )
    return jrh.Suite(name=word, items=islice(copies, n_items))


def _measured(uri: str, first: jrh.Suite, second: jrh.Suite) -> list[str]:
    def written(suite: jrh.Suite) -> Callable[[], object]:
        return lambda: jrh.suite_dataset(suite, "benchmark", tracking_uri=uri, experiment="benchmark")

    def read() -> None:
        assert load_suite("datasets:/benchmark", tracking_uri=uri).sha256 == first.sha256

    return [f"{_seconds(work):.1f} s" for work in (written(first), written(first), read, written(second))]


def _seconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


if __name__ == "__main__":
    main()
