"""What a call takes of memory: python -m tests.benchmarks.million [--calls 20000 100000 1000000] [--stages]

Pairs of `datasheet`, each copy with texts of its own, in both orders and 50 replicates: 1,000,000 calls are 10,000
different pairs. The transport answers in this process, one to three sentences that differ (330 to 600 bytes); journal,
parsing, costs, cap, MLflow run with figures and traces are on. Each count is measured in a process of its own: the most
memory after a small evaluation that imports everything, the most in the end, and what lies between by call.
`--stages` prints, for each function that an evaluation goes through, what memory was when it ended and the most so far.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import jrh_mlflow as jrh
from jrh_mlflow.engine import runner
from jrh_mlflow.measuring import evaluate, evaluation
from jrh_mlflow.models.transports import Transport
from jrh_mlflow.schema.requests import Request, Response
from jrh_mlflow.suites.suite import Suite
from jrh_mlflow.tracking.runs import outbox
from tests.benchmarks.journal import REASON

REPLICATES, ORDERS = 50, 2
STAGES: list[tuple[Any, str]] = [(runner, "run_coroutine"), (evaluate, "calls_frame"), (outbox, "keep")]
STAGES += [(evaluation, name) for name in ("measure", "categorised", "evaluation_content", "publish")]


def main() -> None:
    """Measure each count in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, nargs="+", default=[20_000, 100_000, 1_000_000])
    parser.add_argument("--stages", action="store_true")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.here:
        print(json.dumps(_measured(options.calls[0], stages=options.stages)))
        return
    row = "{:>9} {:>9} {:>9} {:>12} {:>12} {:>9}"
    print(row.format("calls", "before MB", "peak MB", "kB per call", "CPU ms/call", "wall s"), flush=True)
    for n_calls in options.calls:
        command = [sys.executable, "-m", "tests.benchmarks.million", "--here", "--calls", str(n_calls)]
        command += ["--stages"] if options.stages else []
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, cwd=Path(__file__).parents[2])
        found = json.loads(done.stdout.splitlines()[-1])
        grown = 1024 * (found["peak"] - found["before"]) / n_calls
        numbers = [
            f"{found['before']:.0f}",
            f"{found['peak']:.0f}",
            f"{grown:.2f}",
            f"{1000 * found['cpu'] / n_calls:.2f}",
        ]
        print(row.format(f"{n_calls:,}", *numbers, f"{found['wall']:.0f}"), flush=True)


class InProcess(Transport):
    """Answers at once, each time with other words."""

    n_asked = 0

    async def __aenter__(self) -> InProcess:
        return self

    async def __aexit__(self, *details: object) -> None:
        pass

    async def send(self, request: Request, *, timeout_s: float) -> Response:
        """Choose a slot, a tie now and then."""
        number = InProcess.n_asked = InProcess.n_asked + 1
        reasons = " ".join(REASON.format((number + n) * 7919 % 1_000_003) for n in range(1 + number % 3))
        text = json.dumps({"reason": reasons, "verdict": ("A", "B", "C")[number * 7919 % 10_007 % 3]})
        return Response(
            text=text,
            model="gpt-4o-mini-2024-07-18",
            finish_reason="stop",
            input_tokens=400 + number % 50,
            output_tokens=58 + number % 7,
            system_fingerprint="fp_0aa8d3e20b",
        )


def _suite(n_calls: int) -> Suite:
    own = jrh.datasheet_suite().items
    items = []
    for number in range(n_calls // (ORDERS * REPLICATES)):
        copy, place = divmod(number, len(own))
        item, mark = own[place], f" ({copy})" if copy else ""
        items.append(
            replace(item, id=f"{item.id}{mark}", task=f"{item.task}{mark}", instruction=f"{item.instruction}{mark}")
        )
    return Suite(name="benchmark", items=items)


def _measured(n_calls: int, *, stages: bool) -> dict[str, float]:
    client: Any = import_module("jrh_mlflow.engine.client")
    client.pick_transport = lambda model, api_base: "in process"
    client.make_transport = lambda name, *, concurrency: InProcess(concurrency=concurrency)
    with tempfile.TemporaryDirectory() as folder:
        os.environ.update(OPENAI_API_KEY="sk-benchmark", LITELLM_LOCAL_MODEL_COST_MAP="True", JRH_HOME=folder)
        os.chdir(folder)
        options: dict[str, Any] = {"tracking_uri": f"sqlite:///{folder}/mlflow.db", "experiment": "benchmark"}
        options |= {"progress": False, "max_usd": 10_000, "concurrency": 64}
        judge = jrh.PromptedJudge("openai/gpt-4o-mini", max_tokens=64)
        first = jrh.PromptedJudge("openai/gpt-4o-mini", max_tokens=64, seed=1)
        jrh.evaluate(first, jrh.datasheet_suite(n_tasks=1, depth=1), **options)
        suite, before = _suite(n_calls), _peak()
        if stages:
            for module, name in STAGES:
                _say_memory(module, name)
        wall, cpu = time.perf_counter(), time.process_time()
        done = jrh.evaluate(judge, suite, replicates=REPLICATES, **options)
        taken = {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}
        assert done.metrics["calls/total"] == n_calls, done.metrics["calls/total"]
        return {**taken, "before": before, "peak": _peak()}


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _say_memory(module: Any, name: str) -> None:
    function = getattr(module, name)

    def measured(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        finally:
            pages = int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[1])
            now = pages * resource.getpagesize() / 2**20
            print(f"{name:24} {now:8.0f} MB {_peak():8.0f} MB at most", file=sys.stderr, flush=True)

    setattr(module, name, measured)


if __name__ == "__main__":
    main()
