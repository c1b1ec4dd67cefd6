"""What asking in Ray actors costs and gains. Run: python -m tests.benchmarks.ray_backend [--actors 1 2 4]

One loopback server (a process of its own) answers after `--latency`. Each actor has `--in-flight` calls in flight and
`--calls` to ask, so that twice the actors ask twice the calls in the same time, all into one empty journal: a database
of a PostgreSQL server on this machine, or a file. The clock runs while the middle of the records comes, from two fifths
to nine tenths: actors start seconds apart, and at the end run out of calls. `linear` is calls in flight by latency,
`busy` what all processes took of the cores. At the end, of the largest run: CPU per call of each part, and the rate at
which it fills one core.
"""

from __future__ import annotations

import argparse
import math
import os
import tempfile
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import psutil

from tests import postgres
from tests.once import shared

MODEL = "openai/gpt-4o-mini"


class Measured(NamedTuple):
    """One run of so many actors."""

    calls: int
    """While the clock ran."""
    in_flight: int
    started: float
    """Seconds before the first record."""
    seconds: float
    cpu: Counter[str]
    """Seconds of each part meanwhile."""


def main() -> None:
    """Ask with each number of actors and print rates beside the linear one."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--actors", type=int, nargs="+", default=[1, 2, 4], help="0 asks in this process.")
    parser.add_argument("--calls", type=int, default=960, help="Of each actor.")
    parser.add_argument("--in-flight", type=int, default=32, help="Of each actor.")
    parser.add_argument("--latency", type=float, default=1.0, help="Seconds.")
    parser.add_argument("--journal", choices=["postgres", "sqlite"], default="postgres")
    options = parser.parse_args()
    os.environ.update(OPENAI_API_KEY="sk-benchmark", LITELLM_LOCAL_MODEL_COST_MAP="True")
    # Ray's workers give way to everything else on a machine, at 15, and would measure what that is.
    os.environ.setdefault("RAY_worker_niceness", "0")
    from jrh_mlflow.engine.ray_fleet import cluster
    from tests.loopback import LoopbackProcess

    print(f"{'actors':>6} {'in flight':>9} {'calls/s':>8} {'linear':>7} {'share':>6} {'busy':>5} {'s to start':>10}")
    with shared(), LoopbackProcess("--latency", str(options.latency)) as server, cluster():
        for n_actors in options.actors:
            found = _measure(server.url, n_actors, options)
            linear = found.in_flight / options.latency
            busy = sum(found.cpu.values()) / found.seconds / (os.cpu_count() or 1)
            rate = found.calls / found.seconds
            shares = f"{rate / linear:6.2f} {busy:5.0%} {found.started:10.1f}"
            print(f"{n_actors:6} {found.in_flight:9} {rate:8.1f} {linear:7.1f} {shares}", flush=True)
    for part, seconds in found.cpu.most_common():
        print(f"{part:12} {1000 * seconds / found.calls:6.2f} ms CPU per call: full at {found.calls / seconds:,.0f}/s")


def _measure(url: str, n_actors: int, options: argparse.Namespace) -> Measured:
    """Ask all calls once."""
    import jrh_mlflow as jrh
    from jrh_mlflow.engine import ask_calls, plan_calls
    from jrh_mlflow.engine.journal import open_journal
    from jrh_mlflow.engine.ray_fleet import ask_calls_on_ray

    judge, suite = jrh.PromptedJudge(MODEL, api_base=url, max_tokens=64), jrh.load_suite("datasheet")
    n_calls, in_flight = options.calls * max(1, n_actors), options.in_flight * max(1, n_actors)
    calls = list(plan_calls(suite, judge, replicates=math.ceil(n_calls / (2 * len(suite)))))[:n_calls]
    clock = 2 * n_calls // 5, 9 * n_calls // 10
    times: list[float] = []
    cpu: list[Counter[str]] = []

    def on_record(_: object) -> None:
        times.append(time.perf_counter())
        if len(times) in clock:
            cpu.append(_cpu_seconds())

    with tempfile.TemporaryDirectory() as folder:
        is_file = options.journal == "sqlite"
        address = str(Path(folder) / "journal.db") if is_file else postgres.server().make_database()
        more: dict[str, Any] = {"concurrency": in_flight, "on_record": on_record}
        began = time.perf_counter()
        with open_journal(address) as journal:
            if n_actors:
                more |= {"journal_address": address, "n_actors": n_actors}
                asked = ask_calls_on_ray(judge, calls, journal=journal, **more)
            else:
                asked = ask_calls(judge, calls, journal=journal, **more)
    if len(asked.records) != n_calls or any(record.outcome != "verdict" for record in asked.records):
        raise SystemExit(f"{len(asked.records)} records of {n_calls} calls, not all of them verdicts.")
    seconds = times[clock[1] - 1] - times[clock[0] - 1]
    return Measured(clock[1] - clock[0], in_flight, times[0] - began, seconds, cpu[1] - cpu[0])


def _cpu_seconds() -> Counter[str]:
    """Return the CPU seconds of this process and all it started, by what they do."""
    this = psutil.Process()
    seconds: Counter[str] = Counter()
    for process in [this, *this.children(recursive=True)]:
        with suppress(psutil.Error):
            command = " ".join(process.cmdline())
            words = {"CallActor": "actors", "postgres": "PostgreSQL", "tests.loopback": "loopback"}
            part = next((part for word, part in words.items() if word in command), "Ray itself")
            times = process.cpu_times()
            seconds["driver" if process == this else part] += times.user + times.system
    return seconds


if __name__ == "__main__":
    main()
