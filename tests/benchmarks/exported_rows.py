"""Rows of `mlflow.genai.evaluate` judged by an exported judge and by the same judge made with `make_judge`.

Run: python -m tests.benchmarks.exported_rows [--rows 500]

MLflow's settings are its defaults, the store is a new SQLite file, the model a loopback server of its own process that
answers after 100 ms. Printed for each judge: verdicts that are stored, those of them that name the datasheet, seconds
and CPU seconds of this process; then the ratio.
"""

from __future__ import annotations

import argparse
import os
import resource
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("MLFLOW_MODEL_CATALOG_URI", "")
os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
os.environ["OPENAI_API_KEY"] = "sk-loopback"

import mlflow

import jrh_mlflow as jrh
from jrh_mlflow.tracking.runs import keys
from tests.loopback import LoopbackProcess

_ROW = "{:22} {:>7} {:>9} {:>9} {:>8} {:>8}"


def main() -> None:
    """Measure both judges in one run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=500)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, LoopbackProcess("--latency", "0.1") as server:
        os.environ["JRH_HOME"] = str(Path(folder) / ".jrh")
        mlflow.set_tracking_uri(f"sqlite:///{folder}/mlflow.db")
        mlflow.set_experiment("rows")
        judge = jrh.PromptedJudge("openai/gpt-4o-mini", api_base=server.url, name="judge")
        run = jrh.evaluate(judge, "datasheet-short", progress=False).run_id
        scorers = {
            "jrh.to_mlflow": jrh.to_mlflow(run, name="exported", orders="one"),
            "make_judge": jrh.to_mlflow(run, name="made", form="make_judge"),
        }
        print(_ROW.format("", "rows", "verdicts", "datasheet", "s", "CPU s"), flush=True)
        found = {name: _measured(name, scorer, run, options.rows) for name, scorer in scorers.items()}
    ours, theirs = found.values()
    print(f"ratio: {ours[1] / theirs[1]:.2f} of the time, {ours[2] / theirs[2]:.2f} of the CPU time")
    if ours[0] != options.rows:
        sys.exit(f"{options.rows - ours[0]} verdicts are lost.")


def _measured(name: str, scorer: Any, run: str, n_rows: int) -> tuple[int, float, float]:
    data = [
        {
            "inputs": {"instruction": f"Name a prime above {number}."},
            "outputs": {"A": f"{number} is one.", "B": f"{number + 1} is one."},
        }
        for number in range(n_rows)
    ]
    # The first row loads what MLflow and the judge load when they are first needed.
    mlflow.genai.evaluate(data=data[:1], scorers=[scorer])
    started, cpu = time.perf_counter(), _cpu()
    done = mlflow.genai.evaluate(data=data, scorers=[scorer])
    seconds, used = time.perf_counter() - started, _cpu() - cpu
    stored = stored_feedback(done.run_id, scorer.name)
    verdicts = [one for one in stored if one.value in ("A", "B", "tie")]
    named = [one for one in verdicts if (one.metadata or {}).get(keys.FEEDBACK_RUN) == run]
    print(_ROW.format(name, n_rows, len(verdicts), len(named), f"{seconds:.1f}", f"{used:.1f}"), flush=True)
    return len(verdicts), seconds, used


def stored_feedback(run_id: str, name: str) -> list[Any]:
    """Return the feedback of a scorer that the store holds of an evaluation."""
    traces: list[Any] = mlflow.search_traces(run_id=run_id, max_results=100_000, return_type="list")
    return [one for trace in traces for one in trace.info.assessments if one.name == name]


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()
