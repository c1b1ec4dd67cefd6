"""CPU seconds of a warm `jrh.evaluate`. Run: python -m tests.benchmarks.warm_evaluate [--times 5]

A scripted judge answers at once, so what is left is ours: measuring, drawing, pages, and writing to an MLflow store on
SQLite. The first evaluation of a suite warms everything up and is not counted; of the others the median is printed.
To compare with another tree: `PYTHONPATH=/path/to/it python tests/benchmarks/warm_evaluate.py`.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from pathlib import Path

SUITES = ("datasheet-short", "datasheet")


def main() -> None:
    """Measure each suite and print one line for it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["JRH_HOME"] = folder
        os.environ["MLFLOW_TRACKING_URI"] = f"sqlite:///{folder}/mlflow.db"
        import jrh_mlflow as jrh

        print(f"{Path(jrh.__file__).parent}\n{'suite':16} {'CPU s':>7} {'least':>7}")
        for suite in SUITES:
            seconds = [_cpu_seconds(jrh, suite, folder) for _ in range(options.times + 1)][1:]
            print(f"{suite:16} {statistics.median(seconds):7.3f} {min(seconds):7.3f}", flush=True)


def _cpu_seconds(jrh: object, suite: str, folder: str) -> float:
    # A store writes its artifacts beside the place that a process was started in.
    os.chdir(folder)
    started = time.process_time()
    jrh.evaluate(jrh.scripted.Noisy(seed=2), suite, progress=False)  # type: ignore[attr-defined]
    return time.process_time() - started


if __name__ == "__main__":
    main()
