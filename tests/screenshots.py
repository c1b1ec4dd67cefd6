"""Pictures of README and docs: `python -m tests.screenshots [STORE]` opens a store's pages in Chromium.

Writes `docs/leaderboard.png`, the list of judges at `/jrh/`, and `docs/mlflow_view.png`: MLflow's table of judges, and
beside it their curves.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from io import BytesIO
from pathlib import Path
from typing import Any

from jrh_mlflow.demo import EXPERIMENT
from jrh_mlflow.tracking.mlflow_server import folder_uri
from jrh_mlflow.tracking.runs.store import Store
from tests.example_store import packed_picture
from tests.once import shared
from tests.pages.test_runs import serving
from tests.review.browser import PATIENCE_MS, chromium
from tests.servers import free_port, running_server

PICTURE, BOARD = Path("docs/mlflow_view.png"), Path("docs/leaderboard.png")
_WIDTH, _HEIGHT, _GAP, _BOARD_HEIGHT = 1480, 790, 16, 420
_LAST_COLUMN = "jrh.target_sensitivity/delta_1"
"""More of them would make the letters of a picture as wide as the README too small to read."""

_IN_THE_WAY = ("Close", "Toggle sidebar", "Hide banner")
"""Buttons that make room: of MLflow's assistant, its menu, and the note that this view is a shared one."""


def open_view(page: Any, link: str, *, until: str) -> None:
    """Open a link of a saved view, and wait until a text of it is there."""
    page.goto(link)
    page.get_by_text(until, exact=True).first.wait_for(timeout=PATIENCE_MS)


def draw(url: str, *, judge: str) -> bytes:
    """Draw the table of a demo's judges, and beside it their curves; `judge` is one that must be seen."""
    links = Store(url, EXPERIMENT).view_links()
    with chromium() as browser:
        page = browser.new_page(viewport={"width": _WIDTH, "height": _HEIGHT})
        open_view(page, links.table, until=judge)
        for name in _IN_THE_WAY:
            page.get_by_role("button", name=name, exact=True).click()
        table = page.screenshot(clip=_table(page))
        open_view(page, links.charts, until="target_sensitivity/curve")
        card = page.get_by_test_id("experiment-view-compare-runs-card").first
        card.locator(".js-plotly-plot .lines").first.wait_for(timeout=PATIENCE_MS)
        chart = card.screenshot()
    return _side_by_side(table, chart)


def draw_board(store: str) -> bytes:
    """Draw the first judges of the leaderboard."""
    with serving(store) as client, chromium() as browser:
        page = browser.new_page(viewport={"width": _WIDTH, "height": 940}, color_scheme="light")
        page.goto(f"http://{client.address}/jrh/?state=finished")
        page.add_style_tag(content=".ask { display: none !important; }")
        top = page.locator("section h2").first.bounding_box()["y"]
        rows = [row.bounding_box() for row in page.locator("section table").first.locator("tbody tr").all()]
        # Whole rows, as many as a README has room for.
        bottom = max(row["y"] + row["height"] for row in rows if row["y"] + row["height"] <= top + _BOARD_HEIGHT)
        clip = {"x": 0, "y": top - _GAP, "width": _WIDTH, "height": bottom - top + _GAP + 2}
        return packed_picture(page.screenshot(clip=clip, full_page=True), n_colours=64)


def _table(page: Any) -> dict[str, float]:
    """Return where the table is: from the names to the last column that is shown here, and its whole rows."""
    grid = page.locator(".ag-root").first.bounding_box()
    first, last = (
        page.locator(".ag-header-cell", has_text=name).first.bounding_box() for name in ("Run Name", _LAST_COLUMN)
    )
    rows = (row.bounding_box() for row in page.locator(".ag-pinned-left-cols-container .ag-row").all())
    ends = [row["y"] + row["height"] for row in rows]
    bottom = max(end for end in ends if end <= grid["y"] + grid["height"])
    width = last["x"] + last["width"] - first["x"]
    return {"x": first["x"], "y": first["y"], "width": width, "height": bottom - first["y"]}


def _side_by_side(table: bytes, chart: bytes) -> bytes:
    """Put the chart to the right of the table."""
    from PIL import Image

    left, right = (Image.open(BytesIO(picture)).convert("RGB") for picture in (table, chart))
    size = (left.width + _GAP + right.width, max(left.height, right.height))
    whole = Image.new("RGB", size, "white")
    whole.paste(left, (0, 0))
    whole.paste(right, (left.width + _GAP, 0))
    drawn = BytesIO()
    whole.save(drawn, "PNG")
    return packed_picture(drawn.getvalue(), n_colours=160)


def main(store: str = "mlruns_example") -> None:
    """Draw the picture from a copy of a store, which stays as it is."""
    with tempfile.TemporaryDirectory(prefix="jrh-") as folder:
        copy = Path(shutil.copytree(store, Path(folder) / "store"))
        with shared():
            BOARD.write_bytes(draw_board(folder_uri(copy)))
            with running_server(copy, port=free_port()) as url:
                PICTURE.write_bytes(draw(url, judge="Qwen32B (simulated)"))
    for picture in (BOARD, PICTURE):
        print(f"{picture}: {picture.stat().st_size:,} bytes")


if __name__ == "__main__":
    main(*sys.argv[1:])
