"""`make example`: the store in `mlruns_example`, written through a server so that it opens anywhere."""

from __future__ import annotations

import shutil
import socket
import sqlite3
import sys
from pathlib import Path

from jrh_mlflow.demo import Demo, measure_real_model, run_demo
from jrh_mlflow.preparing import default_journal
from jrh_mlflow.tracking.figures.canvas import save_figures
from jrh_mlflow.tracking.figures.datasheet import datasheet_figures
from jrh_mlflow.tracking.server import DATABASE, running_server

PICTURES = "pictures"


def build_example(folder: str | Path) -> None:
    """Write a fresh store with all that the demo measures, and with no path of this machine in it."""
    target = Path(folder)
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    with running_server(target, port=_free_port()) as url:
        demo = run_demo(url)
        measure_real_model(url, default_journal())
    _draw(demo, target / PICTURES)
    with sqlite3.connect(target / DATABASE) as connection:
        connection.execute("PRAGMA journal_mode=DELETE")
        connection.execute("VACUUM")
    connection.close()


def _draw(demo: Demo, folder: Path) -> None:
    """Draw what the README shows, under names that stay: the paper's judges side by side, and the graders."""
    save_figures(datasheet_figures({one.judge.label: one.datasheet for one in demo.datasheets}), folder)
    for name, png in demo.comparison.figures.items():
        (folder / name).write_bytes(png)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


if __name__ == "__main__":
    build_example(sys.argv[1] if len(sys.argv) > 1 else "mlruns_example")
