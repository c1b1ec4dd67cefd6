"""What is lost when the service misbehaves. Run: python -m tests.benchmarks.faults [--calls 2000] [--outage-seconds 60]

Three services, 64 calls in flight: one with 10 % 429, 2 % 500, 2 % slow, 2 % cut connections, 2 % unreadable bodies;
one that answers 503 for a minute in the middle; one whose port is closed for a minute in the middle. Prints for each
calls lost, calls turned into something they were not, and answers paid twice. All must be 0: the exit code says so.
Counted apart are calls whose body was unreadable twice: it is billed each time, so no third is asked for.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time

from tests.loopback import LoopbackProcess

FAULTS = ("--rate-429", "0.1", "--rate-500", "0.02", "--rate-slow", "0.02", "--rate-cut", "0.02")
MALFORMED = ("--rate-malformed", "0.02")


def main() -> int:
    """Ask through each faulty server, then once more from the journal."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=2000)
    parser.add_argument("--outage-seconds", type=float, default=60.0)
    given = parser.parse_args()
    os.environ["OPENAI_API_KEY"] = "sk-benchmark"
    outage = ("--outage-after", str(given.calls // 2), "--outage-seconds", str(given.outage_seconds))
    services = {
        "faults of all kinds": (*FAULTS, *MALFORMED),
        f"503 for {given.outage_seconds:g} s": ("--outage", "503", *outage),
        f"port closed for {given.outage_seconds:g} s": ("--outage", "closed", *outage),
    }
    lost_nothing = [measure(name, options, n_calls=given.calls) for name, options in services.items()]
    return 0 if all(lost_nothing) else 1


def measure(name: str, options: tuple[str, ...], *, n_calls: int) -> bool:
    """Ask through one server, print what came of it, and say whether nothing was lost."""
    import jrh_mlflow as jrh
    from jrh_mlflow.engine import ask_calls, plan_calls
    from jrh_mlflow.engine.client import ClientSettings
    from jrh_mlflow.engine.journal import open_journal
    from jrh_mlflow.engine.sessions import UNUSABLE

    suite = jrh.datasheet_suite()
    replicates = max(1, round(n_calls / (2 * len(suite))))
    with (
        tempfile.TemporaryDirectory() as folder,
        LoopbackProcess("--latency", "0.1", *options) as server,
        open_journal(f"{folder}/journal.db") as journal,
    ):
        judge = jrh.PromptedJudge("openai/gpt-4o-mini", api_base=server.url, max_tokens=64)
        started = time.perf_counter()
        came = ask_calls(
            judge,
            plan_calls(suite, judge, replicates=replicates),
            concurrency=64,
            journal=journal,
            settings=ClientSettings(concurrency=64, timeout_s=30),
        )
        seconds = time.perf_counter() - started
        stats = server.stats()
        again = ask_calls(judge, plan_calls(suite, judge, replicates=replicates), concurrency=64, journal=journal)
    total = replicates * 2 * len(suite)
    n_answered = sum(record.outcome == "verdict" for record in came.records)
    unreadable = sum((record.error or "").startswith(UNUSABLE) for record in came.records)
    lost = total - n_answered - unreadable
    asked_again = n_answered - sum(record.cached for record in again.records)
    turned = sum(record.outcome == "verdict" and record.answer != "1" for record in came.records)
    faults = stats["requests"] - stats["answered"]
    limit = f"{seconds / (total * 0.1 / 64):.2f} x the limit"
    print(f"{name}: {total} calls in {seconds:.1f} s ({limit}), {faults} faulty attempts")
    print(f"  lost {lost}, turned into another answer {turned}, asked again though answered {asked_again}")
    print(f"  unreadable twice {unreadable}", flush=True)
    return not (lost or turned or asked_again)


if __name__ == "__main__":
    raise SystemExit(main())
