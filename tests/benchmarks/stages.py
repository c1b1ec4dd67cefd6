"""Where the CPU of a call goes, stage by stage: `python -m tests.benchmarks.throughput --stages`.

The time of a stage is that of its thread while it runs, without the stages inside it and without what is waited for.
Run as `python -m tests.benchmarks.stages URL REPLICATES FOLDER`, it asks the suite `datasheet` and prints JSON. Without
a URL (`-`) the answers are made in this process, so that no time of a client is in the table.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import sys
import threading
import time
import types
from collections import Counter
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

MODEL = "openai/gpt-4o-mini"
IN_FLIGHT = 64
REASON = "Response A names the cause and says how many customers were affected, and Response B leaves out half of it."


class Stages:
    """The CPU seconds of each stage, in whatever thread."""

    def __init__(self) -> None:
        self.seconds: Counter[str] = Counter()
        self._local = threading.local()

    def _charge(self) -> list[str]:
        local, now = self._local, time.thread_time()
        stack: list[str] = local.__dict__.setdefault("stack", [])
        if stack:
            self.seconds[stack[-1]] += now - local.at
        local.at = now
        return stack

    def _run(self, stage: str, step: Callable[..., Any], *arguments: Any) -> Any:
        self._charge().append(stage)
        try:
            return step(*arguments)
        finally:
            self._charge().pop()

    def watch(self, owner: Any, name: str, stage: str) -> None:
        """Charge a function, or each step of a coroutine, to a stage."""
        function = getattr(owner, name)
        static = isinstance(inspect.getattr_static(owner, name), staticmethod | classmethod)

        def plain(*arguments: Any, **named: Any) -> Any:
            return self._run(stage, lambda: function(*arguments, **named))

        @types.coroutine
        def stepwise(*arguments: Any, **named: Any) -> Generator[Any, Any, Any]:
            coroutine = function(*arguments, **named)
            step: Callable[..., Any] = coroutine.send
            given: Any = None
            while True:
                try:
                    waiting = self._run(stage, step, given)
                except StopIteration as end:
                    return end.value
                try:
                    step, given = coroutine.send, (yield waiting)
                except BaseException as error:
                    step, given = coroutine.throw, error

        watched: Any = stepwise if inspect.iscoroutinefunction(function) else plain
        setattr(owner, name, staticmethod(watched) if static else watched)


def watch_all(stages: Stages) -> None:
    """Put a stage around each part of the way of a call."""
    from jrh_mlflow.engine import budget, client, retries, runner, sessions
    from jrh_mlflow.engine.journal import _base, tables, writer
    from jrh_mlflow.judges import prompted
    from jrh_mlflow.models.transports import direct
    from jrh_mlflow.schema import requests

    for owner, name, stage in (
        (prompted.PromptedJudge, "request", "render"),
        (requests.Request, "key", "hash"),
        (_base.Journal, "serve", "look up"),
        (budget.Budget, "reserve", "reserve"),
        (_base.Journal, "mark_sent", "mark sent"),
        (direct.DirectTransport, "send", "send"),
        (direct, "read_http", "read"),
        (prompted.PromptedJudge, "read", "parse"),
        (budget.Budget, "answered", "journal"),
        (sessions.ModelSession, "_record", "record"),
        (client.ModelClient, "send", "client"),
        (retries, "_attempt", "client"),
        (client, "send_with_retries", "retries and limits"),
        (runner, "run_coroutine", "event loop and plan"),
        (tables.Database, "_kept", "writer: compress"),
        (tables.Database, "_attempt", "writer: database"),
        (writer.JournalWriter, "_run", "writer: batches"),
    ):
        stages.watch(owner, name, stage)


def main() -> None:
    """Ask with stages or without, and print the CPU seconds of the whole and of each stage."""
    url, replicates, folder, *watched = sys.argv[1:]
    os.environ.update(OPENAI_API_KEY="sk-benchmark", LITELLM_LOCAL_MODEL_COST_MAP="True", JRH_HOME=folder)
    import jrh_mlflow as jrh
    from jrh_mlflow.collector import calm_collector
    from jrh_mlflow.engine import client, runner
    from jrh_mlflow.engine.calls import plan_calls
    from jrh_mlflow.engine.journal import open_journal
    from jrh_mlflow.models.prices import price_of
    from jrh_mlflow.models.transports.direct import DirectTransport

    async def answer_here(*_: Any, **__: Any) -> tuple[int, dict[str, str], bytes]:
        await asyncio.sleep(0)
        return 200, {}, answer

    usage = {"prompt_tokens": 500, "completion_tokens": 30, "total_tokens": 530}
    message = {"role": "assistant", "content": json.dumps({"reason": REASON, "verdict": "A"})}
    answer = json.dumps({"model": "gpt-4o-mini", "choices": [{"message": message}], "usage": usage}).encode()
    if url == "-":
        DirectTransport._post = answer_here  # type: ignore[method-assign]
    client.pick_transport = lambda model, api_base: "direct"  # type: ignore[attr-defined]
    judge = jrh.PromptedJudge(MODEL, api_base="http://127.0.0.1:9/v1" if url == "-" else url, max_tokens=64)
    settings = client.ClientSettings(concurrency=IN_FLIGHT, budget="stages", price=price_of(MODEL))
    suite, stages = jrh.datasheet_suite(n_tasks=1, depth=1), Stages()

    def ask(replicates: int) -> tuple[int, float]:
        with open_journal(str(Path(folder, "journal.db"))) as journal, calm_collector():
            journal.open_budget("stages", 10**12)
            began = time.process_time()
            calls = plan_calls(suite, judge, replicates=replicates)
            asked = runner.ask_calls(judge, calls, concurrency=IN_FLIGHT, journal=journal, settings=settings)
        assert all(record.outcome == "verdict" for record in asked.records)
        return len(asked.records), time.process_time() - began

    # What is imported and made for the first call is start-up.
    ask(1)
    suite, judge.seed = jrh.load_suite("datasheet"), 1
    if watched:
        watch_all(stages)
    n_calls, cold = ask(int(replicates))
    seconds = dict(stages.seconds)
    _, warm = ask(int(replicates))
    print(json.dumps({"calls": n_calls, "cold": cold, "warm": warm, "stages": seconds}))


if __name__ == "__main__":
    main()
