"""Other tools' ways to put the same requests to the same server, for `python -m tests.benchmarks.throughput --peers`.

Each is run as its documentation says, with as much in flight as our own clients and no cache. Inspect, which wants a
newer OpenAI SDK than litellm takes, and promptfoo are installed into `build/peers` when they are first asked for.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests import environment

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "build" / "peers"
PROMPTFOO, INSPECT = FOLDER / "node_modules" / ".bin" / "promptfoo", FOLDER / "inspect" / "bin" / "python"
MODEL, IN_FLIGHT = "gpt-4o-mini", 64
Bodies = list[dict[str, Any]]


def install() -> None:
    """Install what the tests' environment does not hold."""
    if not INSPECT.exists():
        environment.make(FOLDER / "inspect", "inspect_ai", "openai>=3.4")
    if not PROMPTFOO.exists():
        FOLDER.mkdir(parents=True, exist_ok=True)
        quiet = ("--no-audit", "--no-fund", "--loglevel=error")
        subprocess.run(["npm", "install", *quiet, "--prefix", FOLDER, "promptfoo"], check=True)


def openai(url: str, bodies: Bodies) -> dict[str, float]:
    """The provider's own client."""
    from openai import AsyncOpenAI

    async def run() -> dict[str, float]:
        async with AsyncOpenAI(base_url=url, max_retries=0) as client:
            waiting = iter(bodies)

            async def work() -> None:
                for body in waiting:
                    await client.chat.completions.create(model=MODEL, **body)

            await client.chat.completions.create(model=MODEL, **bodies[0])
            begun = _Spent()
            await asyncio.gather(*(work() for _ in range(IN_FLIGHT)))
            return {**begun.so_far(), "warm_up": 1}

    return asyncio.run(run())


def inspect(url: str, bodies: Bodies) -> dict[str, float]:
    """One sample a request, with its log, in an environment of its own."""
    Path("requests.json").write_text(json.dumps([body["messages"] for body in bodies]), encoding="utf-8")
    command = [INSPECT, "-m", __name__, url, Path("requests.json").resolve()]
    done = subprocess.run(command, stdout=subprocess.PIPE, cwd=ROOT, check=True)
    spent: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return spent


def _inspected(url: str, requests: list[list[dict[str, str]]], logs: Path) -> dict[str, float]:
    from inspect_ai import Task, eval
    from inspect_ai.dataset import MemoryDataset, Sample
    from inspect_ai.model import ChatMessageSystem, ChatMessageUser, GenerateConfig, get_model
    from inspect_ai.solver import generate

    roles = {"system": ChatMessageSystem, "user": ChatMessageUser}
    samples = [Sample(input=[roles[one["role"]](content=one["content"]) for one in request]) for request in requests]
    settings = GenerateConfig(max_connections=IN_FLIGHT, max_tokens=64, temperature=0, max_retries=0)
    model = get_model(f"openai/{MODEL}", base_url=url, config=settings, responses_api=False)

    def run(some: list[Sample]) -> None:
        task = Task(dataset=MemoryDataset(some), solver=generate(cache=False))
        [log] = eval(task, model=model, max_samples=IN_FLIGHT, log_dir=str(logs), display="none", score=False)
        assert log.status == "success", log.error

    run(samples[:1])
    begun = _Spent()
    run(samples)
    return {**begun.so_far(), "warm_up": 1}


def promptfoo(url: str, bodies: Bodies) -> dict[str, float]:
    """One test a request, from a file, with the results in a file."""
    provider = {"apiBaseUrl": url, "apiKey": "sk-benchmark", "temperature": 0, "max_tokens": 64}
    texts = [body["messages"][-1]["content"] for body in bodies]
    config = {
        "prompts": ["{{ text }}"],
        "providers": [{"id": f"openai:chat:{MODEL}", "config": provider}],
        "tests": [{"vars": {"text": text}} for text in texts],
    }
    Path("promptfooconfig.json").write_text(json.dumps(config), encoding="utf-8")
    off = ("TELEMETRY", "UPDATE", "REMOTE_GENERATION", "SHARING")
    settings = {f"PROMPTFOO_DISABLE_{name}": "true" for name in off}
    place = {"PROMPTFOO_CONFIG_DIR": str(Path("promptfoo").resolve()), "PROMPTFOO_SELF_HOSTED": "true"}
    options = ("--no-cache", "--no-table", "--no-progress-bar", "-j", str(IN_FLIGHT), "-o", "results.json")
    begun = _Spent()
    subprocess.run(
        [PROMPTFOO, "eval", "-c", "promptfooconfig.json", *options],
        env={**os.environ, **settings, **place},
        stdout=subprocess.DEVNULL,
        check=True,
    )
    results = json.loads(Path("results.json").read_text(encoding="utf-8"))["results"]["stats"]
    assert results["errors"] == 0, results
    return begun.so_far()


def mlflow_evaluate(url: str, bodies: Bodies) -> dict[str, float]:
    """One row a request and a judge of `make_judge`, in a new SQLite store, with the workers that lose no verdict."""
    os.environ |= {"MLFLOW_GENAI_EVAL_MAX_WORKERS": "10", "MLFLOW_GENAI_EVAL_PREDICT_RATE_LIMIT": "0"}
    os.environ["MLFLOW_GENAI_EVAL_SCORER_RATE_LIMIT"] = "0"
    import mlflow
    from mlflow.genai.judges import make_judge

    mlflow.set_tracking_uri(f"sqlite:///{Path('peer.db').resolve()}")
    mlflow.set_experiment("peer")
    judge = make_judge(
        name="judge",
        instructions="Which is better? {{ inputs }} {{ outputs }}",
        model=f"openai:/{MODEL}",
        base_url=f"{url}/chat/completions",
        feedback_value_type=str,
    )
    rows = [{"inputs": {"text": body["messages"][-1]["content"]}, "outputs": {"answer": "A"}} for body in bodies]
    mlflow.genai.evaluate(data=rows[:1], scorers=[judge])
    begun = _Spent()
    mlflow.genai.evaluate(data=rows, scorers=[judge])
    return {**begun.so_far(), "warm_up": 1}


PEERS: dict[str, tuple[Callable[[str, Bodies], dict[str, float]], int]] = {
    "openai SDK": (openai, 2000),
    "Inspect": (inspect, 2000),
    "promptfoo": (promptfoo, 2000),
    "mlflow evaluate": (mlflow_evaluate, 200),
}
"""How each is run, and with how many calls: the ratio of the slowest is the same with fewer."""


class _Spent:
    """Wall and CPU time since it was made, of this process and of the children it waited for."""

    def __init__(self) -> None:
        self._wall, self._cpu = time.perf_counter(), _cpu()

    def so_far(self) -> dict[str, float]:
        return {"wall": time.perf_counter() - self._wall, "cpu": _cpu() - self._cpu}


def _cpu() -> float:
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


if __name__ == "__main__":
    address, file = sys.argv[1:]
    asked = json.loads(Path(file).read_text(encoding="utf-8"))
    print(json.dumps(_inspected(address, asked, Path(file).parent / "logs")))
