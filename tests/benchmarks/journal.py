"""What a journal takes of disk and time: python -m tests.benchmarks.journal [--against CHECKOUT] [--answers 1000000]

Calls are those of the suite `datasheet`, every request in full, with answers of one to three sentences (330 to 600
bytes). `bytes per call` is one replicate after closing, indexes included, as the engine makes it: 64 in flight, each
reserved in a capped budget and then answered; `CPU` is that of the process. `gets` are answers read 256 at a time.
`calls/s` are of 1, 2 and 4 processes on one journal. The last lines are of a journal with so many answers.

With `--against` a checkout of an earlier commit is measured in turn, by this very file. The PostgreSQL server is on
this machine: over a network each batch of changes waits for about nine round trips more.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jrh_mlflow as jrh
from jrh_mlflow.engine.calls import Numbering, plan_calls
from jrh_mlflow.engine.journal import Journal, open_journal, shown_place
from jrh_mlflow.engine.journal.rows import ANSWERED, FAILED, Held, seal
from jrh_mlflow.engine.journal.writer import Change, ChangeKind
from tests import postgres
from tests.once import shared

IN_FLIGHT = 64
AT_ONCE = 256
ROOT = Path(__file__).parents[2]
REASON = "Response A names the cause and says how many customers were affected, and Response B leaves out {} of it."
ANSWER = '{"cost_usd":null,"finish_reason":"stop","input_tokens":%d,"logprobs":null,"model":"gpt-4o-mini-2024-07-18",'
ANSWER += '"output_tokens":58,"refusal":null,"system_fingerprint":"fp_0aa8d3e20b","text":%s}'


def main() -> None:
    """Measure both backends, of this code and of another checkout, and print them side by side."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--against", type=Path, help="A checkout of an earlier commit.")
    parser.add_argument("--answers", type=int, default=100_000, help="Answers of the journal that is opened.")
    parser.add_argument("--replicates", type=int, default=4, help="Of the calls per second.")
    parser.add_argument("--backends", nargs="+", default=["SQLite", "PostgreSQL"], choices=["SQLite", "PostgreSQL"])
    options = parser.parse_args()
    checkouts = {"here": ROOT} | ({"there": options.against.resolve()} if options.against else {})
    row = "{:24}" + " {:>12}" * len(checkouts)
    with shared():
        for backend in options.backends:
            found = {name: _measured(backend, checkout, options) for name, checkout in checkouts.items()}
            print("\n" + row.format(backend, *checkouts))
            for label in found["here"]:
                print(row.format(label, *(f"{measured[label]:,.4g}" for measured in found.values())), flush=True)


def _measured(backend: str, checkout: Path, options: argparse.Namespace) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:

        def new(name: str) -> str:
            return str(Path(folder, name)) if backend == "SQLite" else postgres.server().make_database()

        (found,) = _run(checkout, [("calls", address := new("one.db"), "0", "1")])
        found |= _run(checkout, [("gets", address, "0", "1")])[0]
        for n_processes in (1, 2, 4):
            address = new(f"{n_processes}.db")
            parts = [("calls", address, str(number), str(options.replicates)) for number in range(n_processes)]
            ran = _run(checkout, parts)
            seconds = max(one["ended"] for one in ran) - min(one["began"] for one in ran)
            found[f"calls/s, {n_processes} processes"] = sum(one["calls"] for one in ran) / seconds
        _run(checkout, [("fill", address := new("large.db"), "0", str(options.answers))])
        found |= _run(checkout, [("opened", address, "0", "0")])[0]
        return {label: value for label, value in found.items() if label not in ("began", "ended", "calls")}


def _run(checkout: Path, parts: Sequence[tuple[str, ...]]) -> list[dict[str, float]]:
    """Measure parts in a process each, all at once."""
    named = {"__name__": "part", "__file__": __file__}
    code = f"import sys; sys.path[0] = {str(checkout)!r}; exec(open({__file__!r}).read(), {named!r})"
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "cwd": checkout}
    environment = {**os.environ, "PYTHONPATH": str(checkout)}
    children: list[subprocess.Popen[str]] = [
        subprocess.Popen([sys.executable, "-c", code, *part], env=environment, **pipes) for part in parts
    ]
    for child in children:
        if child.stdout is None or child.stdout.readline() != "ready\n":
            raise SystemExit("A process did not start.")
    for child in children:
        child.stdin.write("go\n")  # type: ignore[union-attr]
        child.stdin.flush()  # type: ignore[union-attr]
    return [json.loads(child.communicate()[0]) for child in children]


def _part() -> None:
    """Measure one part, by its name, in a process of its own."""
    name, address, seed, count = sys.argv[1:]
    parts: dict[str, Callable[..., dict[str, float]]]
    parts = {"calls": _calls, "gets": _gets, "fill": _fill, "opened": _opened}
    requests = _requests(int(seed))
    # What it imports is no part of opening it.
    shown_place(address)
    print("ready", flush=True)
    sys.stdin.readline()
    print(json.dumps(parts[name](address, requests, int(count))))


def _requests(seed: int) -> list[tuple[str, str]]:
    """Return key and text of every request; other seeds share none of them."""
    judge = jrh.PromptedJudge("openai/gpt-4o-mini", seed=seed)
    numbering = Numbering(judge)
    plan = map(numbering.prepare, plan_calls(jrh.load_suite("datasheet"), judge, replicates=1))
    return [(key, request.canonical()) for request, key in plan]


def _answer(number: int) -> str:
    sentences = [REASON.format((number + n) * 7919 % 10_007) for n in range(1 + number % 3)]
    text = json.dumps({"reason": " ".join(sentences), "verdict": "A"})
    return ANSWER % (number % 1000, json.dumps(text))


def _calls(address: str, requests: list[tuple[str, str]], replicates: int) -> dict[str, float]:
    began, cpu = time.time(), time.process_time()
    with open_journal(address) as journal:
        journal.open_budget("evaluate-0123456789abcdef", 10**9)
        asked = [(f"{key}{n or ''}", text) for n in range(replicates) for key, text in requests]
        asyncio.run(_in_flight(journal, asked))
        ended = time.time()
    used = time.process_time() - cpu
    with open_journal(address) as journal:
        size = journal.summary().size_bytes
    counted = {"calls": len(asked), "bytes per call": size / len(asked), "CPU ms per call": 1000 * used / len(asked)}
    return {**counted, "began": began, "ended": ended}


async def _in_flight(journal: Journal, asked: list[tuple[str, str]]) -> None:
    budget, waiting = "evaluate-0123456789abcdef", iter(enumerate(asked))

    async def worker() -> None:
        for number, (key, text) in waiting:
            assert await journal.reserve(key, budget=budget, worst_micro=50, model="openai/gpt-4o-mini")
            journal.mark_sent(key)
            await journal.answered(key, request_json=text, response_json=_answer(number), cost_micro=9, budget=budget)

    await asyncio.gather(*[worker() for _ in range(IN_FLIGHT)])


def _gets(address: str, requests: list[tuple[str, str]], _: int) -> dict[str, float]:
    with open_journal(address) as journal:
        began = time.perf_counter()
        n_found = sum(
            len(journal.get_many([key for key, _ in requests[start : start + AT_ONCE]]))
            for _ in range(10)
            for start in range(0, len(requests), AT_ONCE)
        )
        if n_found != 10 * len(requests):
            raise SystemExit("Answers are missing.")
        return {"gets per second": n_found / (time.perf_counter() - began)}


def _fill(address: str, requests: list[tuple[str, str]], n_answers: int) -> dict[str, float]:
    """Write so many answers, one in a hundred a failure, as the writer does."""
    with open_journal(address) as journal:
        for start in range(0, n_answers, 1024):
            changes = []
            for number in range(start, min(start + 1024, n_answers)):
                replicate, index = divmod(number, len(requests))
                key, text = requests[index]
                state, answer = (FAILED, None) if number % 100 == 99 else (ANSWERED, _answer(number))
                content: dict[str, Any] = {
                    "cost_micro": 9,
                    "budget": "",
                    "owner": "1-0",
                    "request": text,
                    "response": answer,
                }
                row = seal(key=f"{key}{replicate}", state=state, **content)
                changes.append(Change(ChangeKind.SETTLE, row=row, held=Held(0, 0, "")))
            journal._database.transact(changes, 0, owner="1-0")
    return {}


def _opened(address: str, *_: object) -> dict[str, float]:
    began = time.perf_counter()
    with open_journal(address) as journal:
        opened = time.perf_counter()
        journal.summary()
        summed = time.perf_counter()
        journal.prune(older_than_days=None, failed=True)
        pruned = time.perf_counter()
    return {"s to open": opened - began, "s to sum up": summed - opened, "s to prune failures": pruned - summed}


if __name__ == "__main__":
    main()
if __name__ == "part":
    _part()
