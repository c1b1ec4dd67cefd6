"""The demo: the paper's four judges, a criterion shift, a reliability suite and a real small model; no key.

`jrh demo` measures them in a store of the user's. Run as a module it writes them into a store that opens anywhere: the
one in `mlruns_example`, with the pictures of the README.
"""

from __future__ import annotations

import os
import shutil
import socket
import sqlite3
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from jrh_mlflow.evaluation.compare import Comparison, compare
from jrh_mlflow.evaluation.criterion_shift import CriterionShift, criterion_shift
from jrh_mlflow.evaluation.evaluate import Evaluation, evaluate
from jrh_mlflow.generation.generate import generate
from jrh_mlflow.judges import scripted
from jrh_mlflow.judges.prompted import PromptedJudge
from jrh_mlflow.reports.figures.canvas import png
from jrh_mlflow.reports.figures.datasheet import datasheet_figures
from jrh_mlflow.resolve import default_journal
from jrh_mlflow.tracking.mlflow_server import DATABASE, artifacts_uri, folder_uri, running_server
from jrh_mlflow.tracking.store import Store

EXPERIMENT = "judge-datasheet-demo"
REAL_MODEL, REAL_SUITE = "local/smollm2", "datasheet-short"
REAL_NAME = "SmolLM2-135M (real)"
PICTURES = "pictures"
JUDGES = ("Llama8B", "Qwen14B", "Qwen32B", "Qwen32B_strict")
PAPER_SUITE = "datasheet-paper"
"""The design behind the published counts that these judges give."""


@dataclass(frozen=True, kw_only=True)
class Demo:
    """What the demo measured; all of it is simulated but what `measure_real_model` adds."""

    datasheets: list[Evaluation]
    shift: CriterionShift
    reports: list[Evaluation]
    comparison: Comparison


def graders() -> list[scripted.Grader]:
    """Return three simulated graders: a careful one, one swayed by length, one that obeys what an answer tells it."""
    swayed = {"verbosity_bias_long": 0.55, "verbosity_bias_short": 0.6, "padding": 0.6, "markdown": 0.75}
    obedient = {"prompt_injection": 0.25, "authority": 0.6, "label_flip": 0.8}
    return [
        scripted.Grader(name="careful", accuracy=0.95, flip=0.02, seed=1),
        scripted.Grader(name="length-swayed", accuracy=0.93, tests=swayed, flip=0.05, seed=2),
        scripted.Grader(name="obedient", accuracy=0.92, tests=obedient, flip=0.15, seed=3),
    ]


@contextmanager
def demo_replies() -> Iterator[tuple[Path, str]]:
    """Lend the package's 24 labelled replies as a file, with the question a judge answers about them."""
    stimuli = resources.files("jrh_mlflow.suites")
    rubric = stimuli.joinpath("demo_rubric.txt").read_text(encoding="utf-8")
    with resources.as_file(stimuli.joinpath("demo_replies.csv")) as path:
        yield path, rubric


def run_demo(tracking_uri: str, *, on_start: Callable[[str], None] | None = None) -> Demo:
    """Measure every simulated judge in a store."""
    say = on_start or str
    where: dict[str, Any] = {"experiment": EXPERIMENT, "tracking_uri": tracking_uri}
    datasheets = []
    for name in JUDGES:
        say(f"{name} (simulated)")
        datasheets.append(evaluate(scripted.profile(name), PAPER_SUITE, **where))
    say("Qwen32B (simulated) under two tie criteria")
    shift = criterion_shift(scripted.profile("Qwen32B"), PAPER_SUITE, **where)
    say("three graders (simulated) on a reliability suite written by rules")
    with demo_replies() as (path, rubric):
        suite = generate(
            path,
            tests="all",
            rubric=rubric,
            generator="offline",
            scale=(1, 5),
            columns={"label": "score", "group": "category"},
            name="demo-replies",
            **where,
        )
    reports = [evaluate(judge, suite, **where) for judge in graders()]
    comparison = compare([one.run_id for one in reports], **where)
    return Demo(datasheets=datasheets, shift=shift, reports=reports, comparison=comparison)


def measure_real_model(tracking_uri: str, journal: str | Path) -> Evaluation:
    """Measure a real language model on the short suite, on all of this machine's cores.

    Answers are kept in the journal: killed and started again, no call is repeated.

    Raises:
        JrhError: when the extra is missing, or the model cannot be fetched or loaded.
    """
    os.environ.setdefault("JRH_LOCAL_THREADS", str(os.cpu_count() or 1))
    judge = PromptedJudge(REAL_MODEL, name=REAL_NAME)
    return evaluate(judge, REAL_SUITE, journal=journal, experiment=EXPERIMENT, tracking_uri=tracking_uri)


def demo_store(folder: str | Path) -> Store:
    """Open the demo's own store."""
    store = Store(folder_uri(folder), EXPERIMENT, artifacts=artifacts_uri(folder))
    # Made now: what is measured finds it by its name, and would not know where its artifacts go.
    assert store.experiment_id
    return store


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
    folder.mkdir(parents=True, exist_ok=True)
    figures = datasheet_figures({one.judge.label: one.datasheet.estimates for one in demo.datasheets})
    for name, drawn in {**{name: png(one) for name, one in figures.items()}, **demo.comparison.figures}.items():
        (folder / name).write_bytes(drawn)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


if __name__ == "__main__":
    build_example(sys.argv[1] if len(sys.argv) > 1 else "mlruns_example")
