"""The demo: the paper's four judges and a criterion shift, with no key and no network."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from jrh_mlflow.criterion import CriterionShift, criterion_shift
from jrh_mlflow.evaluation import Evaluation, evaluate
from jrh_mlflow.judges import scripted
from jrh_mlflow.tracking.server import artifacts_uri, folder_uri
from jrh_mlflow.tracking.store import Store

EXPERIMENT = "judge-datasheet-demo"
JUDGES = ("Llama8B", "Qwen14B", "Qwen32B", "Qwen32B_strict")


def run_demo(
    folder: str | Path, *, on_start: Callable[[str], None] | None = None
) -> tuple[str, str, list[Evaluation], CriterionShift]:
    """Measure every judge of the paper in a store of its own; return URI, experiment id, evaluations, shift."""
    say = on_start or str
    tracking_uri = folder_uri(folder)
    store = Store(tracking_uri, EXPERIMENT, artifacts=artifacts_uri(folder))
    done = []
    for name in JUDGES:
        judge = scripted.profile(name)
        say(f"{name} (simulated)")
        done.append(evaluate(judge, experiment=EXPERIMENT, tracking_uri=tracking_uri))
    say("Qwen32B (simulated) under two tie criteria")
    shift = criterion_shift(scripted.profile("Qwen32B"), experiment=EXPERIMENT, tracking_uri=tracking_uri)
    return store.uri, store.experiment_id, done, shift
