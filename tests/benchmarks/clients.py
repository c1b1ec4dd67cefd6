"""One benchmark client per process: `python -m tests.benchmarks.clients NAME URL N_CALLS FOLDER` prints JSON."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from tests.benchmarks.peers import IN_FLIGHT, PEERS

MODEL = "openai/gpt-4o-mini"


def main() -> None:
    """Run one client and print what it took; imports and a first call are not counted."""
    name, url, n_calls, folder = sys.argv[1:]
    os.environ.update(OPENAI_API_KEY="sk-benchmark", LITELLM_LOCAL_MODEL_COST_MAP="True", JRH_HOME=folder)
    os.chdir(folder)
    found = _found(name, url, int(n_calls))
    kilobytes = [resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    found["peak_mb"] = max(kilobytes) / 1024
    print(json.dumps(found))


def _found(name: str, url: str, n_calls: int) -> dict[str, float]:
    if name in PEERS:
        return PEERS[name][0](url, _bodies(n_calls))
    run = {"aiohttp": _aiohttp, "litellm": _litellm, "direct": _ours, "litellm transport": _ours}[name]
    return run(url, n_calls, **({"transport": name.split()[0]} if run is _ours else {}))


def _bodies(n_calls: int) -> list[dict[str, Any]]:
    """The very requests our transports send, schema included, so that every client carries the same load."""
    import jrh_mlflow as jrh
    from jrh_mlflow.engine import plan_calls
    from jrh_mlflow.models.transports.dialect import request_fields

    suite, judge = jrh.datasheet_suite(), jrh.PromptedJudge(MODEL, max_tokens=64)
    requests = [judge.request(call) for call in plan_calls(suite, judge, replicates=1)]
    bodies = [{"messages": [dict(one) for one in each.messages], **request_fields(each)} for each in requests]
    return [bodies[index % len(bodies)] for index in range(n_calls)]


async def _crew(send: Callable[[dict[str, Any]], Awaitable[object]], bodies: list[dict[str, Any]]) -> None:
    queue = iter(bodies)

    async def work() -> None:
        for body in queue:
            await send(body)

    await asyncio.gather(*(work() for _ in range(IN_FLIGHT)))


def _timed(run: Callable[[], object]) -> dict[str, float]:
    wall, cpu = time.perf_counter(), time.process_time()
    run()
    return {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}


def _aiohttp(url: str, n_calls: int) -> dict[str, float]:
    import aiohttp

    bodies = [json.dumps({"model": "gpt-4o-mini", **body}).encode() for body in _bodies(n_calls)]

    async def run() -> None:
        connector = aiohttp.TCPConnector(limit=IN_FLIGHT)
        async with aiohttp.ClientSession(connector=connector, headers={"Content-Type": "application/json"}) as session:

            async def send(body: Any) -> None:
                async with session.post(f"{url}/chat/completions", data=body) as response:
                    json.loads(await response.read())

            await _crew(send, bodies)  # type: ignore[arg-type]

    return _timed(lambda: asyncio.run(run()))


def _litellm(url: str, n_calls: int) -> dict[str, float]:
    import litellm

    bodies = _bodies(n_calls)

    async def send(body: dict[str, Any]) -> None:
        await litellm.acompletion(model=MODEL, api_base=url, max_retries=0, num_retries=0, **body)

    async def run() -> dict[str, float]:
        await send(bodies[0])
        wall, cpu = time.perf_counter(), time.process_time()
        await _crew(send, bodies)
        return {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu, "warm_up": 1}

    return asyncio.run(run())


def _ours(url: str, n_calls: int, *, transport: str) -> dict[str, float]:
    import jrh_mlflow as jrh
    from jrh_mlflow.engine import client as model_client
    from jrh_mlflow.suites.suite import Suite

    # 250 items x 2 orders x replicates.
    replicates = n_calls // 500
    suite = Suite(name="benchmark", items=jrh.datasheet_suite().items[:250])
    model_client.pick_transport = lambda model, api_base: transport  # type: ignore[assignment, return-value]
    store = f"sqlite:///{Path('mlflow.db').resolve()}"
    small = jrh.datasheet_suite(n_tasks=1, depth=1)
    # Imports, database tables and first uses are start-up: a small run of another seed pays for them.
    first = jrh.PromptedJudge(MODEL, api_base=url, max_tokens=64, seed=1)
    warm_up = len(jrh.evaluate(first, small, tracking_uri=store, experiment="benchmark", progress=False).calls)
    judge = jrh.PromptedJudge(MODEL, api_base=url, max_tokens=64)

    def run() -> jrh.Evaluation:
        return jrh.evaluate(
            judge,
            suite,
            replicates=replicates,
            concurrency=IN_FLIGHT,
            tracking_uri=store,
            experiment="benchmark",
            max_usd=1000,
            progress=False,
        )

    results: list[jrh.Evaluation] = []
    found = _timed(lambda: results.append(run()))
    results.append(run())
    cold, again = results
    assert len(cold.calls) == n_calls, len(cold.calls)
    assert cold.metrics["calls/error"] == 0
    assert again.metrics["calls/cached"] == n_calls
    logging = found["wall"] - cold.metrics["time/seconds"]
    return {**found, "logging": logging, "warm": again.metrics["time/seconds"], "warm_up": warm_up}


if __name__ == "__main__":
    main()
