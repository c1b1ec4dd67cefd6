"""What a judge's line on the Models page costs an evaluation. Run: python -m tests.benchmarks.models_page

A scripted judge answers at once, so that an evaluation is what it is logged in; evaluations with and without the line
take turns. `new` judges get an entry, `again` is a judge that reads as before, `otherwise` one whose entry is replaced.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from unittest.mock import patch

import jrh_mlflow as jrh
from jrh_mlflow.judges.scripted import Noisy
from jrh_mlflow.tracking.mlflow_server import artifacts_uri, folder_uri, free_port, running_server
from jrh_mlflow.tracking.models_page import JudgeEntry
from jrh_mlflow.tracking.store import Store

ROUNDS = 5


class Drifting:
    """A judge that reads otherwise each time, known by its name."""

    name = "drifting"

    def __init__(self, turn: int) -> None:
        self.turn = turn

    def __call__(self, presentation: jrh.Presentation) -> str:
        """Answer by the turn."""
        return ("1", "2", "tie")[self.turn % 3]


JUDGES: dict[str, Callable[[int], object]] = {
    "new": lambda turn: Noisy(seed=turn),
    "again": lambda turn: Noisy(),
    "otherwise": Drifting,
}


def main() -> None:
    """Print medians of the seconds per evaluation, with the line and without it, on both kinds of store."""
    row = "{:8} {:10} {:>10} {:>10} {:>12}"
    print(row.format("store", "judge", "without s", "with s", "line takes ms"))
    with tempfile.TemporaryDirectory() as folder:
        for name, uri in _stores(Path(folder)):
            for kind, judge in JUDGES.items():
                _evaluated(judge(0), uri)
                pairs = [(_without(judge(turn), uri), _evaluated(judge(turn), uri)) for turn in range(1, ROUNDS + 1)]
                without, with_line = (median(column) for column in zip(*pairs, strict=True))
                line = median(1000 * (more - less) for less, more in pairs)
                print(row.format(name, kind, f"{without:.3f}", f"{with_line:.3f}", f"{line:.0f}"))


def _stores(folder: Path) -> Iterator[tuple[str, str]]:
    direct = folder / "direct"
    direct.mkdir()
    assert Store(folder_uri(direct), "page", artifacts=artifacts_uri(direct)).experiment_id
    yield "SQLite", folder_uri(direct)
    (folder / "served").mkdir()
    with running_server(folder / "served", port=free_port()) as url:
        yield "server", url


def _evaluated(judge: object, uri: str) -> float:
    began = time.perf_counter()
    jrh.evaluate(judge, "datasheet-short", experiment="page", tracking_uri=uri, traces="none", progress=False)
    return time.perf_counter() - began


def _without(judge: object, uri: str) -> float:
    with patch.object(JudgeEntry, "__call__", lambda *_: None):
        return _evaluated(judge, uri)


if __name__ == "__main__":
    main()
