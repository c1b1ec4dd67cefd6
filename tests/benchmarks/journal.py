"""How fast a journal takes and gives answers, SQLite beside PostgreSQL. Run: python -m tests.benchmarks.journal

64 calls of 3 kB are in flight. `puts` are answers kept (durable when counted), `calls` are reservations in a capped
budget followed by the answer, as the engine makes them, `gets` are answers read 64 at a time, `single gets` one by one.
The server is on this machine: over a network each batch of changes waits for about eight round trips more.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path

from jrh_mlflow.engine.journal import Journal, open_journal
from tests import postgres
from tests.once import shared

IN_FLIGHT = 64
TEXT = "x" * 1_500
Rates = dict[str, float]


def main() -> None:
    """Measure both backends in turn and print rates and their ratio, the best of some rounds each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    found: dict[str, list[Rates]] = {"sqlite": [], "postgres": []}
    with shared():
        for _ in range(options.rounds):
            with tempfile.TemporaryDirectory() as folder:
                found["sqlite"].append(_measure(str(Path(folder) / "journal.db"), options.calls))
            found["postgres"].append(_measure(postgres.server().make_database(), options.calls))
    row = "{:12} {:>10} {:>10} {:>10}"
    print(row.format("per second", "SQLite", "PostgreSQL", "ratio"))
    for name in found["sqlite"][0]:
        one, other = (max(rates[name] for rates in found[backend]) for backend in ("sqlite", "postgres"))
        print(row.format(name, f"{one:.0f}", f"{other:.0f}", f"{other / one:.2f}"))


def _measure(address: str, n_calls: int) -> Rates:
    with open_journal(address) as journal:
        journal.open_budget("b", 10 * n_calls)

        async def put(key: str) -> None:
            await journal.answered(key, request_json=TEXT, response_json=TEXT, cost_micro=1, budget=None)

        async def call(key: str) -> None:
            assert await journal.reserve(key, budget="b", worst_micro=5)
            await journal.answered(key, request_json=TEXT, response_json=TEXT, cost_micro=1, budget="b")

        puts, calls = ([f"{name}{number}" for number in range(n_calls)] for name in ("put ", "call "))
        return {
            "puts": n_calls / _seconds(lambda: asyncio.run(_in_flight(put, puts))),
            "calls": n_calls / _seconds(lambda: asyncio.run(_in_flight(call, calls))),
            "gets": n_calls / _seconds(lambda: _get(journal, calls, at_once=IN_FLIGHT)),
            "single gets": n_calls / _seconds(lambda: _get(journal, calls, at_once=1)),
        }


async def _in_flight(do: Callable[[str], Awaitable[None]], keys: Iterable[str]) -> None:
    waiting = iter(keys)

    async def worker() -> None:
        for key in waiting:
            await do(key)

    await asyncio.gather(*[worker() for _ in range(IN_FLIGHT)])


def _get(journal: Journal, keys: list[str], *, at_once: int) -> None:
    for start in range(0, len(keys), at_once):
        chunk = keys[start : start + at_once]
        if len(journal.get_many(chunk)) != len(chunk):
            raise SystemExit("Answers are missing.")


def _seconds(do: Callable[[], None]) -> float:
    start = time.perf_counter()
    do()
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
