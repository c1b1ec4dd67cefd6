"""What a model on this machine costs in processor time. Run: python -m tests.benchmarks.local_model [--busy 4]

The demo's own calls (SmolLM2-135M on `datasheet-short`, in the order of the suite) are put to servers that differ in
one setting: threads, and whether threads that wait for each other sleep (the default) or spin. Each call is sent twice,
first for one token, then in full from the cached prompt, so that reading and writing are told apart. Processor time is
that of the model's process: wall time, beside it, also tells how busy the machine is, and `--busy` makes it so by that
many processes that only count. `reused` is the share of the
prompts' tokens that were in the cache from the call before.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

import jrh_mlflow as jrh
from jrh_mlflow.engine import plan_calls
from jrh_mlflow.judges.prompted import PromptedJudge
from jrh_mlflow.models.local.server import Served, threads
from jrh_mlflow.models.local.weights import fetch_model
from jrh_mlflow.models.transports.dialect import chat_body
from tests.models.local.tools import serving

MODEL, SUITE = "local/smollm2", "datasheet-short"
COLUMNS = ("CPU s/call", "÷ first", "wall s/call", "read/CPU s", "written/CPU s", "read", "reused", "written")


def main() -> None:
    """Measure every setting in turn and print one table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=10, help="of the suite's 128, from the first on")
    parser.add_argument("--weights", type=Path, help="another GGUF file than SmolLM2's")
    parser.add_argument("--busy", type=int, default=0, help="processes that want a core all the time")
    options = parser.parse_args()
    weights = options.weights or fetch_model("smollm2")
    bodies = list(islice(_bodies(), options.calls))
    print(_build(), f"{len(bodies)} calls, {threads()} threads by default", sep="\n")
    print("{:22}".format("threads, waiting"), *(f"{name:>13}" for name in COLUMNS))
    with _others(options.busy):
        _compare(weights, bodies)


def _compare(weights: Path, bodies: Sequence[dict[str, Any]]) -> None:
    first = None
    for n_threads, waiting in ((1, "passive"), (max(2, threads()), "passive"), (max(2, threads()), "active")):
        with _environment(JRH_LOCAL_THREADS=str(n_threads), OMP_WAIT_POLICY=waiting), serving(weights) as running:
            row = _measure(running, bodies)
        first = first or row[0]
        texts = (f"{row[0]:.2f}", f"{row[0] / first:.2f}", *(f"{value:.1f}" for value in row[1:4]))
        texts += (f"{row[4]:.0f}", f"{row[5]:.0%}", f"{row[6]:.0f}")
        print(f"{n_threads}, {waiting:19}", *(f"{text:>13}" for text in texts), flush=True)


def _bodies() -> Iterator[dict[str, Any]]:
    judge, suite = PromptedJudge(MODEL), jrh.load_suite(SUITE)
    judge.begin(suite)
    for call in plan_calls(suite, judge, replicates=1):
        yield chat_body(judge.request(call), model="smollm2", max_tokens="max_tokens")


def _measure(running: Served, bodies: Sequence[dict[str, Any]]) -> tuple[float, ...]:
    """Return CPU and wall seconds per call, tokens per CPU second, and tokens per call; see `COLUMNS`."""
    read = reused = written = 0
    reading = writing = 0.0
    started = time.perf_counter()
    for body in bodies:
        seconds, timings = _ask(running, {**body, "max_tokens": 1})
        reading, read, reused = reading + seconds, read + timings["prompt_n"], reused + timings["cache_n"]
        seconds, timings = _ask(running, body)
        writing, written = writing + seconds, written + timings["predicted_n"]
    wall, n = time.perf_counter() - started, len(bodies)
    share = reused / (read + reused)
    return (reading + writing) / n, wall / n, read / reading, written / writing, read / n, share, written / n


def _ask(running: Served, body: dict[str, Any]) -> tuple[float, dict[str, Any]]:
    """Send one request; return the CPU seconds of the model's process and what llama.cpp says of the tokens."""
    before = running.cpu_seconds()
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {running.key}"}
    request = urllib.request.Request(f"{running.url}/chat/completions", json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request) as answer:
        timings: dict[str, Any] = json.load(answer)["timings"]
    return running.cpu_seconds() - before, timings


def _build() -> str:
    """Say which instructions the installed library was built for."""
    import xllamacpp

    return f"xllamacpp {xllamacpp.__version__}: {xllamacpp.get_system_info()}"


@contextmanager
def _others(n: int) -> Iterator[None]:
    """Keep this many processes busy for the time of a block."""
    # Each ends by itself when this process was killed.
    counting = f"import os\nwhile os.getppid() == {os.getpid()}: pass"
    running = [subprocess.Popen([sys.executable, "-c", counting]) for _ in range(n)]
    try:
        yield
    finally:
        for process in running:
            process.kill()
            process.wait()


@contextmanager
def _environment(**values: str) -> Iterator[None]:
    before = dict(os.environ)
    os.environ.update(values)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


if __name__ == "__main__":
    main()
