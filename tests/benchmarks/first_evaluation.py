"""CPU seconds of a process's first `jrh.evaluate`. Run: python -m tests.benchmarks.first_evaluation [--times 3]

Set beside what no user of MLflow can save: importing mlflow, and MLflow making the tables of an empty SQLite store.
Both run by turns, each time in a new process and a new folder; a scripted judge answers the default suite.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile

STORE = "sqlite:///mlflow.db"
CODE = {
    "mlflow and an empty store": f"import mlflow; mlflow.MlflowClient({STORE!r}).search_experiments()",
    "first evaluation": (
        f"import jrh_mlflow as jrh; jrh.evaluate(jrh.scripted.Oracle(), tracking_uri={STORE!r}, progress=False)"
    ),
}
_TIMED = "import time\n{}\nprint(time.process_time())"


def main() -> None:
    """Measure both and print their medians and the ratio."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=3)
    options = parser.parse_args()
    turns = [{name: _cpu_seconds(code) for name, code in CODE.items()} for _ in range(options.times)]
    medians = {name: statistics.median(turn[name] for turn in turns) for name in CODE}
    for name, seconds in medians.items():
        print(f"{name:26} {seconds:6.2f} CPU s")
    base, ours = medians.values()
    print(f"{'ratio':26} {ours / base:6.2f}")


def _cpu_seconds(code: str) -> float:
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-c", _TIMED.format(code)]
        variables = {**os.environ, "JRH_HOME": folder, "PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path))}
        done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=folder, env=variables)
    return float(done.stdout.splitlines()[-1])


if __name__ == "__main__":
    main()
