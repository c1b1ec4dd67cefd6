"""The saved view in a real browser, on MLflow's own server: a judge's readings in a table, its curve in a chart."""

from __future__ import annotations

from pathlib import Path

import jrh_mlflow as jrh
from jrh_mlflow.tracking.mlflow_server import free_port, running_server
from jrh_mlflow.tracking.view import view_links
from tests.review.browser import chromium
from tests.screenshots import PATIENCE_MS, open_view


def test_the_saved_view_shows_a_judge_s_readings_and_its_curve(store_uri: str) -> None:
    judge, folder = jrh.scripted.profile("Llama8B"), Path(store_uri.removeprefix("sqlite:///")).parent
    done = jrh.evaluate(judge, "datasheet-paper", tracking_uri=store_uri, experiment="the saved view", traces="none")
    experiment_id = done.view.table.partition("/experiments/")[2].partition("/")[0]
    with running_server(folder, port=free_port()) as url, chromium() as browser:
        page = browser.new_page(viewport={"width": 1900, "height": 900})
        open_view(page, view_links(url, experiment_id).table, until="Llama8B (simulated)")
        for text in ("jrh.dark_current", "0.67 [0.50, 0.79]", "jrh.threshold_75", "4.00 [2.85, 4.00]"):
            page.get_by_text(text, exact=True).first.wait_for(timeout=PATIENCE_MS)
        page.get_by_role("button", name="Judges", exact=True).wait_for(timeout=PATIENCE_MS)
        # By the link in the experiment's description, which every page of it shows.
        link = page.get_by_role("link", name="their curves in one picture").get_attribute("href")
        open_view(page, f"{url}/{link}", until="target_sensitivity/curve")
        page.locator(".js-plotly-plot .lines").first.wait_for(timeout=PATIENCE_MS)
