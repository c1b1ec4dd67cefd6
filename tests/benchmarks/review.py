"""What a reviewer waits for, at 50 and at 5,000 items. Run: python -m tests.benchmarks.review

Over HTTP on this machine, half of the items decided: `first list` is 50 rows, `next undecided` the first row of that
state, `item` everything about one, `decision` a click until it is on the disk, `head` counts and agreement. Medians;
the ratio is what a hundred times as many items cost, and the machine's speed leaves it alone.
"""

from __future__ import annotations

import argparse
import http.client
import itertools
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.review.making import Client, made, reviewing, saved_suite, suite_items

SMALL, LARGE = 50, 5_000


def main() -> None:
    """Measure both sizes and print milliseconds and their ratio."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=40)
    rounds = parser.parse_args().rounds
    small, large = _measure(SMALL, rounds), _measure(LARGE, rounds)
    row = "{:16} {:>10} {:>10} {:>8}"
    print(row.format("median, ms", SMALL, LARGE, "ratio"))
    for name in small:
        print(row.format(name, f"{small[name]:.1f}", f"{large[name]:.1f}", f"{large[name] / small[name]:.1f}"))


def _measure(n_items: int, rounds: int) -> dict[str, float]:
    items = [item for item in suite_items(n_items) if item.meta.get("generator") != "code"]
    assert sum(item.meta.get("test") == made("s", "x").meta["test"] for item in items) == n_items
    with tempfile.TemporaryDirectory() as name, reviewing(saved_suite(Path(name) / "suite", items)) as client:
        asking = Asking(client)
        api = f"/api/suites/{asking.get('/api/suites')[0]['key']}"
        half = {"filter": {"q": "seed 1"}, "action": "accept", "reviewer": "Ann"}
        found = asking.get(f"{api}/items?q=seed%201&limit=1")["total"]
        asking.post(f"{api}/bulk", {**half, "expect": found})
        free = itertools.cycle(row["index"] for row in asking.get(f"{api}/items?state=undecided&limit=500")["items"])

        def click() -> None:
            index = next(free)
            version = asking.get(f"{api}/items/{index}")["version"]
            order = {"index": index, "action": "accept", "reviewer": "Ann", "version": version}
            asking.post(f"{api}/decisions", order)

        return {
            "first list": _median(lambda: asking.get(f"{api}/items?limit=50"), rounds),
            "next undecided": _median(lambda: asking.get(f"{api}/items?state=undecided&limit=1"), rounds),
            "item": _median(lambda: asking.get(f"{api}/items/7"), rounds),
            "item + decision": _median(click, rounds),
            "events": _median(lambda: asking.get(f"{api}/events?since={10 * n_items}"), rounds),
            "head": _median(lambda: asking.get(api), rounds),
        }


class Asking:
    """One connection that stays open, as a browser's does."""

    def __init__(self, client: Client) -> None:
        self._connection = http.client.HTTPConnection(client.address)
        self._headers = {"X-JRH-Token": client.token, "Content-Type": "application/json"}

    def get(self, path: str) -> Any:
        return self._send("GET", path, None)

    def post(self, path: str, body: dict[str, Any]) -> Any:
        return self._send("POST", path, json.dumps(body))

    def _send(self, method: str, path: str, body: str | None) -> Any:
        self._connection.request(method, path, body, self._headers)
        answer = self._connection.getresponse()
        content = json.loads(answer.read())
        assert answer.status == 200, content
        return content


def _median(action: Callable[[], Any], rounds: int) -> float:
    action()
    spent = []
    for _ in range(rounds):
        started = time.perf_counter()
        action()
        spent.append(1000 * (time.perf_counter() - started))
    return statistics.median(spent)


if __name__ == "__main__":
    main()
