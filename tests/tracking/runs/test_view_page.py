"""MLflow's own pages in a real browser: the saved view with a judge's readings and curve, a trace, a review queue."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from mlflow import MlflowClient

import jrh_mlflow as jrh
from jrh_mlflow.tracking.runs import keys
from jrh_mlflow.tracking.runs.view import view_links
from jrh_mlflow.tracking.traces.review_queues import queue_disagreements
from tests.mlflow_features import before
from tests.people.rated_store import rate_traces
from tests.review.browser import PATIENCE_MS, chromium
from tests.screenshots import open_view
from tests.servers import free_port, running_server
from tests.tracking.traces.trace_tools import rated_traces

if TYPE_CHECKING:
    from playwright.sync_api import Page


@pytest.fixture(scope="module")
def evaluated(store_uri: str) -> jrh.Evaluation:
    judge = jrh.scripted.profile("Llama8B")
    return jrh.evaluate(judge, "datasheet-paper", tracking_uri=store_uri, experiment="the saved view", traces="none")


@pytest.fixture(scope="module")
def traced(store_uri: str) -> jrh.Evaluation:
    suite = jrh.Suite(name="two pairs", items=jrh.load_suite("datasheet-short").items[:2])
    return jrh.evaluate(lambda shown: "1", suite, tracking_uri=store_uri, experiment="its traces", traces="all")


@pytest.fixture(scope="module")
def page(evaluated: jrh.Evaluation, traced: jrh.Evaluation) -> Iterator[Page]:
    """One for all: a step from one of MLflow's pages to another does not load its scripts again."""
    # After the evaluation: an open browser keeps an event loop running.
    with chromium() as browser:
        yield browser.new_page(viewport={"width": 1900, "height": 900})


@pytest.fixture(scope="module")
def url(store_uri: str) -> Iterator[str]:
    with running_server(Path(store_uri.removeprefix("sqlite:///")).parent, port=free_port()) as address:
        yield address


@pytest.mark.slow
def test_links_open_a_trace_that_was_rated_long_ago_and_the_queue_it_was_put_into(
    store_uri: str, url: str, page: Page
) -> None:
    made = rate_traces(store_uri, "links to traces", n=3)
    rated = rated_traces(made.source, tracking_uri=url)
    by_file = rated_traces(made.source, tracking_uri=store_uri)
    # Only where each can be looked at differs.
    assert rated.frame.drop(columns="link").equals(by_file.frame.drop(columns="link"))
    trace = made.traces.iloc[0]
    told = {"queue": "Look again", "name": rated.name, "labels": list(rated.frame["label"])}
    assert queue_disagreements(rated.experiments, tracking_uri=url, **told).added == 3
    again = queue_disagreements(rated.experiments, tracking_uri=url, **told)
    assert (again.added, again.already) == (0, 3)
    page.goto(rated.links[trace["item"]])
    # In MLflow 3.14 a heading of its own, later a page of the trace.
    page.get_by_text(re.compile("^Inputs( / Outputs)?$")).first.wait_for(timeout=PATIENCE_MS)
    # Once in the list behind it, and once in the trace itself.
    page.get_by_text(trace["question"]).nth(1).wait_for(timeout=PATIENCE_MS, state="attached")
    page.goto(again.links[0])
    page.get_by_text("Look again", exact=True).first.wait_for(timeout=PATIENCE_MS)


def test_a_judge_is_listed_under_evaluation_runs(evaluated: jrh.Evaluation, url: str, page: Page) -> None:
    experiment_id = evaluated.view.table.partition("/experiments/")[2].partition("/")[0]
    page.goto(f"{url}/#/experiments/{experiment_id}/evaluation-runs?workflowType=genai")
    page.locator("main").get_by_text("Llama8B (simulated)").first.wait_for(timeout=PATIENCE_MS)


def test_the_description_of_a_run_leads_to_its_traces_and_to_no_others(
    traced: jrh.Evaluation, store_uri: str, url: str, page: Page
) -> None:
    tags = MlflowClient(store_uri).get_run(traced.run_id).data.tags
    [link] = re.findall(r"\((#/experiments/\d+/traces[^)]*)\)", tags[keys.TAG_NOTE])
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.post_data or ""))
    page.goto(f"{url}/{link}")
    for item in dict.fromkeys(traced.calls["suite_item"]):
        page.get_by_text(item).first.wait_for(timeout=PATIENCE_MS)
    assert any(traced.run_id in body for body in asked), "the list is filtered"


def test_the_saved_view_shows_a_judge_s_readings_and_its_curve(evaluated: jrh.Evaluation, url: str, page: Page) -> None:
    experiment_id = evaluated.view.table.partition("/experiments/")[2].partition("/")[0]
    open_view(page, view_links(url, experiment_id).table, until="Llama8B (simulated)")
    for text in ("jrh.dark_current", "0.67 [0.50, 0.79]", "jrh.threshold_75", "4.00 [2.85, 4.00]"):
        page.get_by_text(text, exact=True).first.wait_for(timeout=PATIENCE_MS)
    if not before("3.17"):  # Older ones show a saved view without its name.
        page.get_by_role("button", name="Judges", exact=True).wait_for(timeout=PATIENCE_MS)
    # By the link in the experiment's description, which every page of it shows.
    link = page.get_by_role("link", name="their curves in one picture").get_attribute("href")
    if before("3.17"):  # Older ones draw a second saved view only on a page of its own.
        page = page.context.new_page()
    open_view(page, f"{url}/{link}", until="target_sensitivity/curve")
    page.locator(".js-plotly-plot .lines").first.wait_for(timeout=PATIENCE_MS)
