"""How much the engine adds to a model's own latency. Run: python -m tests.benchmarks.throughput [--calls 2000 20000]

With `--distinct` only the asking is measured, of the suite `datasheet` with one replicate: every request differs. With
`--stages` its CPU is told stage by stage, here with a loopback server and with answers made in the process
(`tests/benchmarks/stages.py`).

One loopback server (a process of its own) answers after 100 ms; 64 calls are in flight. Every client runs in a process
of its own and prints wall time over the limit (calls x latency / 64), CPU milliseconds per call and peak memory;
imports and first uses are start-up and not counted. Our transports run with all of it on: journal, parsing, costs, cap,
MLflow run with artifacts, figures and traces. `logged` is the part of their wall time after the last answer, `warm` the
time to serve all calls from the journal in a second run, without its logging. `--peers` runs other tools beside them
(`tests/benchmarks/peers.py`).
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.benchmarks.peers import PEERS, install
from tests.loopback import LoopbackProcess

LATENCY_S, IN_FLIGHT = 0.1, 64
ROOT = Path(__file__).parents[2]
MODEL = "openai/gpt-4o-mini"
CLIENTS = ("aiohttp", "direct", "litellm", "litellm transport")


def main() -> None:
    """Run every client once per size and print one table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, nargs="+", default=[2000, 20000])
    parser.add_argument("--clients", nargs="+", default=list(CLIENTS), choices=CLIENTS)
    parser.add_argument("--peers", action="store_true", help="other tools beside them, which it installs")
    parser.add_argument("--distinct", action="store_true", help="only the asking, every request another one")
    parser.add_argument("--stages", action="store_true", help="the same, with the CPU of each stage")
    parser.add_argument("--replicates", type=int, default=1, help="of `--distinct` and `--stages`")
    options = parser.parse_args()
    if options.distinct or options.stages:
        _asking(options.replicates, watched=options.stages)
        return
    if options.peers:
        install()
    row = "{:>7} {:18} {:>8} {:>8} {:>9} {:>8} {:>9} {:>9}"
    print(row.format("calls", "client", "wall s", "÷ limit", "CPU ms", "peak MB", "logged s", "warm s"))
    plan = [(n_calls, client) for n_calls in options.calls for client in ("limit", *options.clients)]
    # Those that are bound by CPU have the same ratio with more calls.
    plan = [(n_calls, client) for n_calls, client in plan if not (client.startswith("litellm") and n_calls > 2000)]
    plan += [(n_calls, client) for client, (_, n_calls) in PEERS.items() if options.peers]
    for n_calls, client in plan:
        limit = n_calls * LATENCY_S / IN_FLIGHT
        if client == "limit":
            print(row.format(n_calls, client, f"{limit:.2f}", "1.00", "", "", "", ""))
            continue
        found = _measure(client, n_calls)
        print(
            row.format(
                n_calls,
                client,
                f"{found['wall']:.2f}",
                f"{found['wall'] / limit:.2f}",
                f"{1000 * found['cpu'] / n_calls:.2f}",
                f"{found['peak_mb']:.0f}",
                f"{found['logging']:.2f}" if "logging" in found else "",
                f"{found['warm']:.2f}" if "warm" in found else "",
            ),
            flush=True,
        )


def _asking(replicates: int, *, watched: bool) -> None:
    """Print the CPU of asking and of a second run that the journal serves, per call, and of each stage."""
    with LoopbackProcess("--latency", str(LATENCY_S)) as server:
        found = {}
        for place, url in {"loopback": server.url, "in process": "-"}.items():
            with tempfile.TemporaryDirectory() as folder:
                command = [sys.executable, "-m", "tests.benchmarks.stages", url, str(replicates), folder]
                command += ["watched"] if watched else []
                done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, cwd=ROOT)
            found[place] = json.loads(done.stdout.splitlines()[-1])
    print("{:24}".format("CPU ms per call") + "".join(f"{place:>12}" for place in found))
    stages = sorted(found["loopback"]["stages"], key=found["loopback"]["stages"].get, reverse=True)
    for label in ("cold", "warm", *stages):
        values = [1000 * ({**one, **one["stages"]}.get(label, 0)) / one["calls"] for one in found.values()]
        print(f"{label:24}" + "".join(f"{value:12.3f}" for value in values))


def _measure(client: str, n_calls: int) -> dict[str, float]:
    with LoopbackProcess("--latency", str(LATENCY_S)) as server, tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "tests.benchmarks.clients", client, server.url, str(n_calls), folder]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
        if done.returncode != 0:
            raise SystemExit(f"{client} failed:\n{done.stderr}")
        found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
        stats = server.stats()
    if stats["answered"] != n_calls + found.get("warm_up", 0):
        raise SystemExit(f"{client}: {stats['answered']} answers for {n_calls} calls.")
    return found


if __name__ == "__main__":
    main()
