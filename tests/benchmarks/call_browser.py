"""The pages of a run of 100,000 calls: its datasheet, and its calls by page, filter and opened pair; memory, too.

    python -m tests.benchmarks.call_browser [N_CALLS]

A run with as many calls on natural pairs, with rationales and raw answers of the usual length, is logged through a real
`mlflow server --app-name jrh`, and its pages are asked for over HTTP. Seconds of one machine say little; the ratio to
MLflow's own download of the same file, in the same minute, says more.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pandas as pd
from mlflow import MlflowClient

import jrh_mlflow as jrh
from jrh_mlflow.engine.runner import calls_frame
from jrh_mlflow.schema.items import CallRecord, Item
from jrh_mlflow.show.html import Addresses
from jrh_mlflow.suites.suite import Suite
from jrh_mlflow.tracking.mlflow_server import folder_uri, server_command, server_environment, wait_until_up
from jrh_mlflow.tracking.runs import keys
from jrh_mlflow.tracking.runs.store import RunContent, Store, first_tags, publish
from tests.servers import free_port

WORDS = """
    the response answers question directly and names its sources while other one repeats prompt adds filler wording is
    clear but lacks a step that rubric asks for numbers are right tone fits reader would need more detail here
"""
TIMES = 5


def speech(rng: random.Random, n_words: int) -> str:
    """Return words that compress about as well as a model's."""
    words = rng.choices(WORDS.split(), k=n_words)
    return " ".join([*words[:-3], *(f"{word}{rng.randrange(1000)}" for word in words[-3:])])


def made(n_calls: int) -> tuple[Suite, pd.DataFrame]:
    """Return natural pairs, and a judge's calls on them."""
    rng = random.Random(0)
    items, records = [], []
    for number in range(n_calls // 2):
        u, v = speech(rng, 60), speech(rng, 60)
        common = {"id": f"pair-{number:06d}", "task": f"task-{number // 20}", "better": "uv"[number % 2]}
        items.append(Item(kind="pair", condition="natural", instruction=speech(rng, 20), u=u, v=v, **common))
        for order in ("uv", "vu"):
            outcome = rng.choices(("verdict", "tie", "unparsed", "error"), (90, 9.5, 0.4, 0.1))[0]
            reason, answer = speech(rng, 70), rng.choice("12") if outcome == "verdict" else ""
            records.append(
                CallRecord(
                    suite_item=common["id"], task=common["task"], condition="natural", delta=None, order=order,
                    better=common["better"], replicate=0, outcome=outcome, answer=answer, expected="",
                    rationale=reason, raw=json.dumps({"reason": reason, "verdict": answer or outcome}),
                    input_tokens=rng.randrange(300, 900), output_tokens=rng.randrange(60, 120), cost_usd=0.0004,
                    latency_s=rng.random() * 3, model="a-model", prompt_sha256=f"{rng.getrandbits(256):064x}",
                    error="no_json: the text has no JSON object." if outcome == "unparsed" else None,
                )
            )  # fmt: skip
    return Suite(name="natural", items=items), calls_frame(records)


def logged(store: Store, suite: Suite, calls: pd.DataFrame) -> str:
    """Log an evaluation with what its pages read."""
    sheet = jrh.measure(calls, n_resamples=20)
    run_id = store.create_run("a judge", tags=first_tags("evaluate", simulated=False))
    content = RunContent(
        points=(),
        params={"suite": keys.suite_facts(suite), "judge": {"model": "a-model"}},
        description="",
        described_in=keys.DATASHEET_MARKDOWN,
        artifacts={
            keys.CALLS_FILE: calls,
            keys.DATASHEET_JSON: sheet.to_dict(),
            keys.DATASHEET_MARKDOWN: "",
            keys.JUDGE_FILE: {"name": "a judge", "kind": "prompted"},
        },
        suite=suite,
    )
    publish(store, run_id, content, what_now="")
    return run_id


def seconds(work: Callable[[], object]) -> float:
    """Return how long it takes."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def peak_megabytes(pid: int) -> float:
    """Return the most memory that a process, or the largest of those that it started, has had."""
    own = [pid]
    for one in own:
        for task in Path(f"/proc/{one}/task").iterdir():
            own += [int(child) for child in (task / "children").read_text().split()]
    peaks = [(Path(f"/proc/{one}/status")).read_text() for one in own]
    return max(float(text.partition("VmHWM:")[2].split()[0]) / 1024 for text in peaks if "VmHWM:" in text)


def main(n_calls: int) -> None:
    """Print the table."""
    os.environ.setdefault("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false")
    folder, port = tempfile.mkdtemp(prefix="jrh-benchmark-"), free_port()
    folder_uri(Path(folder))
    (Path(folder) / "mlflow.db").touch()
    command = [*server_command(folder, port=port), "--app-name", "jrh"]
    address = f"http://127.0.0.1:{port}"
    with (Path(folder) / "log").open("wb") as log:
        process = subprocess.Popen(command, env=server_environment(), stdout=log, stderr=subprocess.STDOUT)
    try:
        wait_until_up(f"{address}/health", process)
        suite, calls = made(n_calls)
        run_id = logged(Store(address, "benchmark"), suite, calls)
        measure_pages(address, run_id, calls, process.pid)
    finally:
        process.terminate()
        process.wait()
        shutil.rmtree(folder)


def measure_pages(address: str, run_id: str, calls: pd.DataFrame, pid: int) -> None:
    """Ask for the pages, and print how long each took."""

    def page(**query: str | float) -> Callable[[], object]:
        link = Addresses(f"{address}/jrh/").calls(run_id, **query)
        return lambda: urllib.request.urlopen(link).read()

    client = MlflowClient(address)
    downloads = []
    with tempfile.TemporaryDirectory() as target:
        plain = min(
            seconds(lambda: downloads.append(client.download_artifacts(run_id, keys.CALLS_FILE, target)))
            for _ in range(3)
        )
        size = Path(downloads[0]).stat().st_size / 2**20
    index = seconds(lambda: urllib.request.urlopen(f"{address}/jrh/").read())
    before = peak_megabytes(pid)

    def datasheet() -> object:
        return urllib.request.urlopen(Addresses(f"{address}/jrh/").datasheet(run_id)).read()

    rows = {"datasheet, first": seconds(datasheet)}
    rows["datasheet"] = statistics.median(seconds(datasheet) for _ in range(TIMES))
    rows["first page, cold"] = seconds(page())
    last = str(calls["suite_item"].iloc[-1])
    rows["first axis filter"] = seconds(page(axis="natural/positional"))
    rows["first opened pair"] = seconds(page(open=last))
    for name, query in {
        "first page, warm": {},
        "filter: outcome unparsed": {"outcome": "unparsed"},
        "last page": {"page": 10**6},
        "axis: natural/accuracy, not counted": {"axis": "natural/accuracy", "counts": "no"},
        "opened pair": {"open": last, "axis": "natural/positional"},
    }.items():
        rows[name] = statistics.median(seconds(page(**query)) for _ in range(TIMES))
    print(f"{len(calls):,} calls, calls.parquet of {size:.0f} MiB; index page {index:.2f} s")
    print(f"{'':40} seconds   ÷ download")
    print(f"{'plain MLflow download of calls.parquet':40} {plain:7.2f} {1:10.2f}")
    for name, took in rows.items():
        print(f"{name:40} {took:7.2f} {took / plain:10.2f}")
    print(f"peak memory of the server: {before:.0f} MiB before, {peak_megabytes(pid):.0f} MiB after")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100_000)
