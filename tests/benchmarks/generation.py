"""What generation adds to a model's own latency. Run: python -m tests.benchmarks.generation [--texts 250 1000]

One loopback server (a process of its own) answers after 100 ms; 64 calls are in flight. Three rewriting tests over many
seeds; every text is checked (length, numbers, names, similarity) and confirmed by a validator; journal,
costs, a cap and the MLflow run are on. It prints wall time over the limit (calls x latency / 64), CPU milliseconds per
call, the part of the wall time that is the MLflow run, and the time of a second run, all from the journal. Imports and
first uses are start-up and not counted.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.loopback import LoopbackProcess, LoopbackServer, verdict
from tests.loopback_replies import fields_asked

LATENCY_S, IN_FLIGHT = 0.1, 64
MODEL = "openai/gpt-4o-mini"
TESTS = ("semantic_paraphrase", "verbosity_bias_long", "label_flip")
TEXT = (
    "The council agreed to build bicycle lanes because residents wanted safer streets, and after {} months there were "
    "fewer accidents, while the shops nearby did better than before, which surprised many of the owners."
)


def _reply(body: dict[str, Any]) -> Any:
    """Play a generator that expands the text between the markers, and a validator that takes the first label."""
    text = str(body["messages"][-1]["content"])
    if "verdict" in fields_asked(body):
        kept = "=====BEGIN REWRITE=====" in text
        return json.dumps({"reason": "", "verdict": "kept"}) if kept else verdict()(body)
    original = text.rpartition("=====BEGIN ORIGINAL=====")[2].partition("=====END ORIGINAL=====")[0].strip()
    n_letters = int(0.4 * len(original))
    written = f"{original} Indeed, {('such things are worth saying at some length ' * n_letters)[:n_letters]}."
    return json.dumps({"text": written}) if fields_asked(body) else written


class _Server(LoopbackProcess):
    """The loopback server with our reply, in a process of its own."""

    def __enter__(self) -> _Server:
        command = [sys.executable, "-m", "tests.benchmarks.generation", "--serve"]
        self._process = subprocess.Popen(
            command, cwd=Path(__file__).parents[2], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert self._process.stdout
        self.port = int(self._process.stdout.readline() or 0)
        return self


def _serve() -> None:
    with LoopbackServer(reply=_reply, latency=LATENCY_S) as server:
        print(server.port, flush=True)
        sys.stdin.buffer.read()


def main() -> None:
    """Print one row per number of texts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--texts", nargs="+", type=int, default=[250, 1000])
    parser.add_argument("--child", nargs=2, metavar=("URL", "FOLDER"), help=argparse.SUPPRESS)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        _serve()
        return
    if options.child:
        print(json.dumps(_measure(options.child[0], options.child[1], options.texts[0])))
        return
    row = "{:>7} {:>7} {:>8} {:>8} {:>8} {:>9} {:>9} {:>8}"
    print(row.format("texts", "calls", "limit s", "wall s", "÷ limit", "CPU ms", "logged s", "warm s"))
    for n_texts in options.texts:
        found = _in_a_process(n_texts)
        limit = found["calls"] * LATENCY_S / IN_FLIGHT
        cells = [f"{limit:.2f}", f"{found['wall']:.2f}", f"{found['wall'] / limit:.2f}"]
        cells += [f"{1000 * found['cpu'] / found['calls']:.2f}", f"{found['logged']:.2f}", f"{found['warm']:.2f}"]
        print(row.format(n_texts, int(found["calls"]), *cells), flush=True)


def _in_a_process(n_texts: int) -> dict[str, float]:
    with _Server() as server, tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "tests.benchmarks.generation", "--texts", str(n_texts)]
        command += ["--child", server.url, folder]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[2])
        if done.returncode != 0:
            raise SystemExit(f"The benchmark failed:\n{done.stderr}")
        found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
        return found


def _measure(url: str, folder: str, n_texts: int) -> dict[str, float]:
    os.environ.update(OPENAI_API_KEY="sk-benchmark", LITELLM_LOCAL_MODEL_COST_MAP="True", JRH_HOME=folder)
    os.chdir(folder)
    _generate(url, 2 * len(TESTS), topic="start-up")
    wall, cpu = time.perf_counter(), time.process_time()
    cold = _generate(url, n_texts, topic="measured")
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    warm = _generate(url, n_texts, topic="measured")
    assert cold.metrics["generate/items"] == n_texts // len(TESTS) * len(TESTS), cold.metrics
    assert warm.metrics["calls/cached"] == warm.metrics["calls/total"] == cold.metrics["calls/total"]
    assert warm.suite.sha256 == cold.suite.sha256
    seconds = cold.metrics["time/seconds"]
    facts = {"wall": wall, "cpu": cpu, "logged": wall - seconds, "warm": warm.metrics["time/seconds"]}
    return {**facts, "calls": cold.metrics["calls/total"]}


def _generate(url: str, n_texts: int, *, topic: str) -> Any:
    from jrh_mlflow.generation.generate import run_generation
    from jrh_mlflow.generation.writers import Generator
    from jrh_mlflow.options import GenerationSettings

    rows = [
        {"id": f"r{number}", "instruction": f"Report on {topic}.", "response": TEXT.format(number), "label": "pass"}
        for number in range(n_texts // len(TESTS))
    ]
    settings = GenerationSettings(
        dataset=rows,
        tests=list(TESTS),
        rubric="Is the report correct?",
        labels=("fail", "pass"),
        generator=Generator(MODEL, api_base=url),
        concurrency=IN_FLIGHT,
        max_usd=1000,
        tracking_uri=f"sqlite:///{Path('mlflow.db').resolve()}",
        progress=False,
    )
    return run_generation(settings)


if __name__ == "__main__":
    main()
