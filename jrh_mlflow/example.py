"""The store `mlruns_example`: all that the demo measures, opened anywhere, and small; with the pictures of the README.

Run as a module, it writes the store anew: `python -m jrh_mlflow.example mlruns_example`.
"""

from __future__ import annotations

import base64
import hashlib
import io
import os
import re
import shutil
import socket
import sqlite3
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from jrh_mlflow.demo import Demo
from jrh_mlflow.engine.journal import open_journal
from jrh_mlflow.evaluation.compare import Comparison
from jrh_mlflow.evaluation.evaluate import Evaluation
from jrh_mlflow.reports.figures.canvas import png
from jrh_mlflow.reports.figures.datasheet import Sheets, datasheet_figures, psychometric
from jrh_mlflow.tracking.mlflow_server import ARTIFACTS, DATABASE, running_server

PICTURES = "pictures"
_WORTH_A_LINK = 1_000
"""Bytes; a link takes a file of its own."""
_DRAWN_INSIDE = re.compile(rb"data:image/png;base64,([A-Za-z0-9+/=]+)")


@dataclass(frozen=True, kw_only=True)
class Pictured:
    """What the README's pictures are drawn from."""

    paper: list[Evaluation]
    recorded: list[Evaluation]
    reading: Evaluation
    comparison: Comparison


def build_example(folder: str | Path) -> None:
    """Write a fresh store with all that the demo measures, and with no path of this machine in it."""
    target = Path(folder)
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    with running_server(target, port=_free_port()) as url:
        measured = _measure(url)
    _draw(measured, target / PICTURES)
    with sqlite3.connect(target / DATABASE) as connection:
        connection.execute("PRAGMA journal_mode=DELETE")
        connection.execute("VACUUM")
    connection.close()
    pack_pictures(target)
    link_equal_files(target / ARTIFACTS)


def _measure(url: str) -> Pictured:
    with tempfile.TemporaryDirectory(prefix="jrh-") as aside, open_journal(Path(aside, "journal.db")) as journal:
        demo = Demo(url, journal, say=lambda name: print(f"measuring {name}", flush=True))
        paper, _ = demo.paper_judges(), demo.shift()
        recorded, reading = demo.recorded_judge(), demo.recorded_reading()
        return Pictured(paper=paper, recorded=recorded, reading=reading, comparison=demo.graders())


def _draw(measured: Pictured, folder: Path) -> None:
    """Draw what the README shows, under names that stay."""
    folder.mkdir(parents=True, exist_ok=True)
    letters = [one for one in measured.recorded if one.judge.settings["answer_style"] == "letters"]
    figures = {
        **datasheet_figures(_sheets(measured.paper)),
        "recorded_criteria.png": psychometric(_sheets(letters)),
        "recorded_reading.png": psychometric(_sheets([measured.reading])),
    }
    drawn = {name: png(figure) for name, figure in figures.items() if figure is not None}
    for name, content in {**drawn, **measured.comparison.figures}.items():
        (folder / name).write_bytes(content)


def _sheets(evaluations: list[Evaluation]) -> Sheets:
    return {one.judge.label: one.datasheet.estimates for one in evaluations}


def pack_pictures(folder: Path) -> None:
    """Give every picture, in files and inside pages, a palette: 40 % of the size, and no eye sees it."""
    for file in (*folder.rglob("*.png"), *folder.rglob("*.html")):
        content = file.read_bytes()
        packed = _packed(content) if file.suffix == ".png" else _DRAWN_INSIDE.sub(_packed_inside, content)
        file.write_bytes(packed)


def _packed(drawn: bytes) -> bytes:
    from PIL import Image

    out = io.BytesIO()
    Image.open(io.BytesIO(drawn)).convert("RGB").quantize(256, dither=Image.Dither.NONE).save(out, "PNG", optimize=True)
    return min(out.getvalue(), drawn, key=len)


def _packed_inside(found: re.Match[bytes]) -> bytes:
    return b"data:image/png;base64," + base64.b64encode(_packed(base64.b64decode(found[1])))


def link_equal_files(folder: Path) -> None:
    """Keep one of several equal files and let the others be relative links to it: runs on one suite each hold it."""
    first: dict[bytes, Path] = {}
    for file in sorted(path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()):
        content = file.read_bytes()
        kept = first.setdefault(hashlib.sha256(content).digest(), file)
        if kept is not file and len(content) > _WORTH_A_LINK:
            file.unlink()
            file.symlink_to(os.path.relpath(kept, file.parent))


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


if __name__ == "__main__":
    build_example(sys.argv[1] if len(sys.argv) > 1 else "mlruns_example")
