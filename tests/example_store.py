"""The store `mlruns_example`: all that the demo measures, opened anywhere, and small; with the pictures of the README.

Run as a module, it writes the store anew: `python -m tests.example_store mlruns_example`.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import shutil
import sqlite3
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from jrh_mlflow.demo import READING_SUITE, Demo
from jrh_mlflow.engine import ask_calls, plan_calls
from jrh_mlflow.engine.client import ClientSettings
from jrh_mlflow.engine.journal import Journal, open_journal
from jrh_mlflow.measuring.evaluation import Evaluation
from jrh_mlflow.measuring.recorded.answers import RecordedJudge, import_recorded
from jrh_mlflow.measuring.resolve import load_suite
from jrh_mlflow.schema.estimates import Reading
from jrh_mlflow.show.figures.canvas import png
from jrh_mlflow.show.figures.datasheet import Sheets, datasheet_figures, psychometric
from jrh_mlflow.show.results import measure
from jrh_mlflow.tracking.mlflow_server import ARTIFACTS, DATABASE
from tests.servers import free_port, running_server

PICTURES = "pictures"
_READER = RecordedJudge("forced")
_DRAWING = re.compile(r'<svg class="fig".*?</svg>', re.DOTALL)
_ELSEWHERE = "<p>In the folder <code>figures</code> of this run.</p>"


def build_example(folder: str | Path) -> None:
    """Write a fresh store with the runs of the demo, and with no path of this machine in it.

    The recorded judge on `datasheet` is a picture only: that suite alone would take a third of the room.
    """
    target = Path(folder)
    shutil.rmtree(target, ignore_errors=True)
    (target / PICTURES).mkdir(parents=True)
    # The journal stays outside: the store is kept in the repository, and holds runs only.
    with tempfile.TemporaryDirectory(prefix="jrh-") as aside, open_journal(Path(aside, "journal.db")) as journal:
        # Through a server artifacts have addresses that hold on every machine, and no path of this one.
        with running_server(target, port=free_port()) as url:
            drawn = _measure(Demo(url, journal, say=_say, traces="none"))
        drawn["recorded_reading.png"] = _picture({_READER.name + " (recorded)": _reading(journal)})
    for name, picture in drawn.items():
        (target / PICTURES / name).write_bytes(picture)
    _forget_the_machine(target / DATABASE)
    pack(target)


def _forget_the_machine(file: Path) -> None:
    with sqlite3.connect(file) as connection:
        connection.execute("DELETE FROM tags WHERE key LIKE 'mlflow.source.git%'")
        connection.execute(f"UPDATE tags SET value = 'python -m {__spec__.name}' WHERE key = 'mlflow.source.name'")
    connection.close()


def _say(name: str) -> None:
    print(name, flush=True)


def _measure(demo: Demo) -> dict[str, bytes]:
    """Measure every part and draw what the README shows, under names that stay."""
    paper = demo.paper_judges()
    demo.shift()
    letters = [judged for judged in demo.recorded_judge() if judged.judge.settings["answer_style"] == "letters"]
    comparison = demo.graders()
    return {
        **{name: png(figure) for name, figure in datasheet_figures(_sheets(paper)).items()},
        "recorded_criteria.png": _picture(_sheets(letters)),
        "heatmap.png": comparison.figures["heatmap.png"],
    }


def _reading(journal: Journal) -> Mapping[str, Reading]:
    """Measure the recorded judge, forced to choose, on both ladders."""
    import_recorded(_READER, READING_SUITE, journal)
    calls = plan_calls(load_suite(READING_SUITE), _READER, replicates=1)
    return measure(ask_calls(_READER, calls, journal=journal, settings=ClientSettings()).records).estimates


def _picture(sheets: Sheets) -> bytes:
    figure = psychometric(sheets)
    assert figure is not None
    return png(figure)


def _sheets(evaluations: list[Evaluation]) -> Sheets:
    return {judged.judge.label: judged.datasheet.estimates for judged in evaluations}


def pack(folder: Path) -> None:
    """Make a store small without a change in what it says: pictures, tables, texts, database, equal folders."""
    for file in (path for path in folder.rglob("*") if path.is_file()):
        if file.suffix == ".png":
            file.write_bytes(packed_picture(file.read_bytes(), n_colours=256 if file.parent.name == PICTURES else 16))
        elif file.suffix == ".html":
            # Served pages are made fresh, with their drawings; the files are in the run as well.
            page = file.read_text(encoding="utf-8")
            file.write_text(_DRAWING.sub(_ELSEWHERE, page), encoding="utf-8")
        elif file.suffix == ".json":
            data = json.loads(file.read_text(encoding="utf-8"))
            file.write_text(json.dumps(data, ensure_ascii=False, separators=(",", ":")), encoding="utf-8")
        elif file.suffix == ".parquet":
            _pack_table(file)
    _pack_database(folder / DATABASE)
    link_equal_folders(folder / ARTIFACTS)


def packed_picture(drawn: bytes, *, n_colours: int) -> bytes:
    """Give a picture a palette: a third of the size, and an eye hardly sees it."""
    from PIL import Image

    out, picture = io.BytesIO(), Image.open(io.BytesIO(drawn)).convert("RGB")
    picture.quantize(n_colours, dither=Image.Dither.NONE).save(out, "PNG", optimize=True)
    return min(out.getvalue(), drawn, key=len)


def _pack_table(file: Path) -> None:
    from pyarrow import parquet

    parquet.write_table(parquet.read_table(file), file, compression="zstd", compression_level=19)


def _pack_database(file: Path) -> None:
    with sqlite3.connect(file) as connection:
        # Hundreds of small tables and indexes: each takes a page at least.
        for statement in ("PRAGMA journal_mode=DELETE", "PRAGMA page_size=512", "VACUUM"):
            connection.execute(statement)
    connection.close()


def link_equal_folders(folder: Path) -> None:
    """Keep one of several equal folders and let the others be relative links to it: runs on one suite each hold it."""
    first: dict[str, Path] = {}
    for inner in sorted(path for path in folder.rglob("*") if path.is_dir()):
        files = sorted(path for path in inner.iterdir())
        if all(path.is_file() for path in files):
            content = [(path.name, hashlib.sha256(path.read_bytes()).hexdigest()) for path in files]
            kept = first.setdefault(str(content), inner)
            if kept is not inner:
                shutil.rmtree(inner)
                inner.symlink_to(os.path.relpath(kept, inner.parent))


if __name__ == "__main__":
    build_example(sys.argv[1] if len(sys.argv) > 1 else "mlruns_example")
