"""What a judge's line on the Models page costs a run. Run: python -m tests.benchmarks.models_page

Runs with the numbers of a datasheet are logged to SQLite, with the line and without it in turns; processor time, so
that a busy machine matters little. `new` judges get an entry, `again` is a judge that reads as before, `otherwise` one
whose entry is replaced.
"""

from __future__ import annotations

import tempfile
import time
from dataclasses import replace
from pathlib import Path
from statistics import median

import jrh_mlflow as jrh
from jrh_mlflow.engine import calls_frame
from jrh_mlflow.judges.scripted import Noisy
from jrh_mlflow.measuring.evaluation import evaluation_content, evaluation_points
from jrh_mlflow.measuring.measured import JudgeFacts, Measured
from jrh_mlflow.tracking.mlflow_server import artifacts_uri, folder_uri
from jrh_mlflow.tracking.runs import keys
from jrh_mlflow.tracking.runs.store import JudgeEntry, RunContent, Store, open_run, publish
from tests.readings import asked

ROUNDS = 20


def main() -> None:
    """Print medians of the milliseconds per run, with the line and without it."""
    row = "{:10} {:>12} {:>12} {:>10}"
    print(row.format("judge", "without ms", "with ms", "line ms"))
    with tempfile.TemporaryDirectory() as folder:
        store = Store(folder_uri(Path(folder)), "page", artifacts=artifacts_uri(Path(folder)))
        content = _content()
        for kind in ("new", "again", "otherwise"):
            turns = [_of_turn(content, kind, turn) for turn in range(ROUNDS + 1)]
            pairs = [(_milliseconds(store, replace(one, entry=None)), _milliseconds(store, one)) for one in turns][1:]
            without, with_line = (median(column) for column in zip(*pairs, strict=True))
            line = median(more - less for less, more in pairs)
            print(row.format(kind, f"{without:.0f}", f"{with_line:.0f}", f"{line:.0f}"))


def _content() -> RunContent:
    """What an evaluation logs, without the pictures: drawing them is most of its time."""
    suite, judge = jrh.load_suite("datasheet-short"), Noisy()
    calls = calls_frame(asked(judge, suite))
    measured = Measured(judge=JudgeFacts.of(judge), suite=suite, calls=calls, run={"seed": 0}, seconds=1.0)
    sheet = jrh.measure(calls, n_resamples=2)
    content = evaluation_content(measured, sheet, evaluation_points(measured, sheet))
    files = {name: data for name, data in content.artifacts.items() if not isinstance(data, bytes)}
    return replace(content, artifacts=files)


def _of_turn(content: RunContent, kind: str, turn: int) -> RunContent:
    entry = content.entry
    assert isinstance(entry, JudgeEntry)
    known_by = f"{kind} {turn if kind == 'new' else ''}"
    entry = replace(entry, fingerprint=known_by, tags={**entry.tags, keys.TAG_FINGERPRINT: known_by})
    if kind == "otherwise":
        points = [replace(point, value=point.value + turn) for point in entry.points]
        return replace(content, points=points, entry=replace(entry, points=points))
    return replace(content, entry=entry)


def _milliseconds(store: Store, content: RunContent) -> float:
    began = time.process_time()
    with open_run(store, "evaluate", "judge") as run_id:
        publish(store, run_id, content, what_now="", is_new=True)
    return 1000 * (time.process_time() - began)


if __name__ == "__main__":
    main()
