"""A sweep as a process of its own; `main` takes ROLE STORAGE STORE_URI CALLS_FILE from the command line.

Every call is written down before it is answered, so that a test can see what was asked and by whom.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import jrh_mlflow as jrh
from jrh_mlflow.sweeps.sweep import join_sweep
from tests.sweeps.plain_runs import without_pages

MODELS = ("a", "b", "c", "d")


def space(file: str, *, slow: float) -> jrh.Space:
    """Return four judges of one's own; the file's name and the pace are no part of what is searched."""
    settings = {"file": file, "slow": slow}

    def judge(choice: dict[str, str]) -> object:
        def answer(shown: jrh.Presentation) -> jrh.Answer:
            with Path(settings["file"]).open("a", encoding="utf-8") as calls:
                calls.write(f"{os.getpid()} {choice['model']}\n")
            time.sleep(settings["slow"])
            return jrh.Answer(
                "1" if choice["model"] == "a" else "tie", cost_usd=1e-4 * (1 + MODELS.index(choice["model"]))
            )

        return answer

    return jrh.Space(choices={"model": list(MODELS)}, judge=judge)


def options(storage: str, store_uri: str) -> dict[str, object]:
    """Return the arguments that all processes of one sweep share."""
    return {
        "storage": storage,
        "experiment": "sweeps",
        "tracking_uri": store_uri,
        "traces": "none",
        "early_stop": False,
        "concurrency": 4,
    }


def suite() -> jrh.Suite:
    """Return a small suite."""
    return jrh.datasheet_suite(n_tasks=4, depth=1)


def main() -> None:
    """Run the sweep, or join it."""
    role, storage, store_uri, file = sys.argv[1:]
    with without_pages():
        if role == "worker":
            join_sweep(space(file, slow=0.4), suite(), **options(storage, store_uri))
        else:
            jrh.sweep(space(file, slow=0.4), suite(), max_replicates=1, **options(storage, store_uri))
