"""The README's picture of MLflow: `python -m tests.screenshots [STORE]` opens a store's saved view in Chromium.

Writes `docs/mlflow_view.png`: the table of judges above their curves.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from io import BytesIO
from pathlib import Path
from typing import Any

from jrh_mlflow.demo import EXPERIMENT
from jrh_mlflow.example import packed_picture
from jrh_mlflow.tracking.mlflow_server import free_port, running_server
from jrh_mlflow.tracking.store import Store
from tests.review.browser import chromium

PICTURE = Path("docs/mlflow_view.png")
PATIENCE_MS = 120_000
_WIDTH, _TABLE, _CHARTS = 1480, 790, 720

_IN_THE_WAY = ("Close", "Toggle sidebar", "Hide banner")
"""Buttons that make room: of MLflow's assistant, its menu, and the note that this view is a shared one."""


def open_view(page: Any, link: str, *, until: str) -> None:
    """Open a link of a saved view, and wait until a text of it is there."""
    page.goto(link)
    page.get_by_text(until, exact=True).first.wait_for(timeout=PATIENCE_MS)


def draw(url: str, *, judge: str) -> bytes:
    """Draw the table of a demo's judges, and under it their curves; `judge` is one that must be seen."""
    links = Store(url, EXPERIMENT).view_links()
    with chromium() as browser:
        page = browser.new_page(viewport={"width": _WIDTH, "height": _TABLE})
        open_view(page, links.table, until=judge)
        for name in _IN_THE_WAY:
            page.get_by_role("button", name=name, exact=True).click()
        table = page.screenshot()
        page.set_viewport_size({"width": _WIDTH, "height": _CHARTS})
        open_view(page, links.charts, until="target_sensitivity/curve")
        page.locator(".js-plotly-plot .lines").first.wait_for(timeout=PATIENCE_MS)
        charts = page.screenshot()
        top = page.get_by_placeholder("Search metric charts").bounding_box()["y"]
    return _stacked(table, charts, head=int(top) - 25)


def _stacked(table: bytes, charts: bytes, *, head: int) -> bytes:
    """Put the charts under the table, without the part above them that the table has shown already."""
    from PIL import Image

    upper, lower = (Image.open(BytesIO(picture)).convert("RGB") for picture in (table, charts))
    whole = Image.new("RGB", (_WIDTH, _TABLE + _CHARTS - head))
    whole.paste(upper, (0, 0))
    whole.paste(lower.crop((0, head, _WIDTH, _CHARTS)), (0, _TABLE))
    small = BytesIO()
    whole.save(small, "PNG")
    return packed_picture(small.getvalue(), n_colours=160)


def main(store: str = "mlruns_example") -> None:
    """Draw the picture from a copy of a store, which stays as it is."""
    with tempfile.TemporaryDirectory(prefix="jrh-") as folder:
        copy = Path(shutil.copytree(store, Path(folder) / "store"))
        with running_server(copy, port=free_port()) as url:
            PICTURE.write_bytes(draw(url, judge="Qwen32B (simulated)"))
    print(f"{PICTURE}: {PICTURE.stat().st_size:,} bytes")


if __name__ == "__main__":
    main(*sys.argv[1:])
