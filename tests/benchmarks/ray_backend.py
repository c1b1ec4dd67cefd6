"""What asking in Ray actors costs and gains. Run: python -m tests.benchmarks.ray_backend [--calls 2000]

One loopback server (a process of its own) answers after 100 ms. The same calls are asked by this process and by actors
on a Ray cluster of this machine, each with an empty journal in a file. The cluster is started and one small run is made
before the clock: start-up is printed apart. With actors the clock includes starting them, which takes seconds: the
second column leaves out what passes before the first record.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path
from typing import Any

MODEL = "openai/gpt-4o-mini"
LATENCY_S = 0.1


def main() -> None:
    """Ask once at each backend and print the ratio."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=2000)
    parser.add_argument("--in-flight", type=int, default=64)
    parser.add_argument("--actors", type=int, nargs="+", default=[2])
    options = parser.parse_args()
    os.environ.update(OPENAI_API_KEY="sk-benchmark", LITELLM_LOCAL_MODEL_COST_MAP="True")
    from jrh_mlflow.engine.ray_fleet import cluster
    from tests.loopback import LoopbackProcess

    limit = options.calls * LATENCY_S / options.in_flight
    print(f"{options.calls} calls of {1000 * LATENCY_S:.0f} ms, {options.in_flight} in flight: at best {limit:.2f} s")
    with LoopbackProcess("--latency", str(LATENCY_S)) as server:
        home = _measure(server.url, options.calls, options.in_flight, n_actors=None)
        _show("local", home, options.calls)
        started = time.perf_counter()
        with cluster():
            print(f"cluster up after {time.perf_counter() - started:.1f} s")
            for n_actors in options.actors:
                _measure(server.url, 50, options.in_flight, n_actors=n_actors)
                away = _measure(server.url, options.calls, options.in_flight, n_actors=n_actors)
                _show(f"ray, {n_actors} actors", away, options.calls)
                whole, steady = home[0] / away[0], home[1] / away[1]
                print(f"throughput ray / local: {steady:.2f} (with the start of actors {whole:.2f})")


def _show(name: str, found: tuple[float, float], n_calls: int) -> None:
    wall, after_first = found
    rate = f"{n_calls / after_first:.0f} calls/s"
    print(f"{name:14} wall {wall:6.2f} s   after the first record {after_first:6.2f} s   {rate}", flush=True)


def _measure(url: str, n_calls: int, in_flight: int, *, n_actors: int | None) -> tuple[float, float]:
    """Return seconds for all calls, and seconds from the first record to the last."""
    import jrh_mlflow as jrh
    from jrh_mlflow.engine import ask_calls, plan_calls
    from jrh_mlflow.engine.journal import open_journal
    from jrh_mlflow.engine.ray_fleet import ask_calls_on_ray
    from jrh_mlflow.suites.suite import Suite

    judge = jrh.PromptedJudge(MODEL, api_base=url, max_tokens=64)
    suite = Suite(name="benchmark", items=jrh.datasheet_suite().items[: min(250, n_calls // 2)])
    calls = list(plan_calls(suite, judge, replicates=max(1, n_calls // 500)))[:n_calls]
    times: list[float] = []
    more: dict[str, Any] = {"concurrency": in_flight, "on_record": lambda _: times.append(time.perf_counter())}
    with tempfile.TemporaryDirectory() as folder, open_journal(path := Path(folder) / "journal.db") as journal:
        started = time.perf_counter()
        if n_actors is None:
            asked = ask_calls(judge, calls, journal=journal, **more)
        else:
            asked = ask_calls_on_ray(judge, calls, journal=journal, journal_address=path, n_actors=n_actors, **more)
        wall = time.perf_counter() - started
    if len(asked.records) != n_calls or any(one.outcome != "verdict" for one in asked.records):
        raise SystemExit(f"{len(asked.records)} records of {n_calls} calls, not all of them verdicts.")
    return wall, times[-1] - times[0]


if __name__ == "__main__":
    main()
