"""The example store, walked through as a user would: MLflow's own pages, and every page of ours."""

from __future__ import annotations

import re
import shutil
import tempfile
import urllib.request
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urldefrag, urljoin, urlsplit

import pytest
from mlflow import MlflowClient
from mlflow.entities import Run
from playwright.sync_api import expect

from jrh_mlflow.show.run_overview import KINDS
from jrh_mlflow.tracking import mlflow_server
from tests.review.browser import PATIENCE_MS, chromium, looks
from tests.servers import free_port

EXAMPLE = Path(__file__).parents[2] / "mlruns_example"
RAW = re.compile(r"\|\s*-{3,}|\\_|&#\d+;|^\s*#{1,4} |\*\*\S")
"""Markdown that was written and not read: a rule of a table, escapes, a heading, bold letters."""
PARENT = "mlflow.parentRunId"

_WIDE = """() => [...document.querySelectorAll("table.cards")].map(table => table.parentElement)
    .filter(box => innerWidth < 700 && box.scrollWidth > box.clientWidth).map(box => box.ariaLabel)"""
_OUTSIDE = """() => [...document.querySelectorAll(".bar i")].filter(i => i.offsetLeft >= i.parentElement.clientWidth
    && i.parentElement.clientWidth > 0).length"""

pytestmark = pytest.mark.timeout(900)


class Links(HTMLParser):
    """Collects where a page leads, its anchors and its text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.to: list[str] = []
        self.anchors: set[str] = set()
        self.texts: list[str] = []
        self._inside: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.to += [str(given["href"])] if tag == "a" and given.get("href") else []
        self.anchors |= {str(given[name]) for name in ("id", "name") if given.get(name)}
        # What models were sent and said is shown as it is, and may be Markdown.
        self._inside.append("pre" if "words" in str(given.get("class", "")).split() else tag)

    def handle_endtag(self, tag: str) -> None:
        while self._inside and self._inside.pop() not in (tag, "pre"):
            pass

    def handle_data(self, data: str) -> None:
        if not {"style", "pre"} & set(self._inside):
            self.texts.append(data)


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """Serve a copy, as `jrh ui mlruns_example --copy` does."""
    with tempfile.TemporaryDirectory(prefix="jrh-") as folder, tempfile.TemporaryFile() as log:
        copy, port = Path(folder, "store"), free_port()
        shutil.copytree(EXAMPLE, copy, symlinks=True)
        command = [*mlflow_server.server_command(str(copy), port=port), "--app-name", "jrh"]
        with mlflow_server.started(command, {mlflow_server.LINKS_ARE_SAID: "true"}, log) as process:
            mlflow_server.wait_until_up(f"http://127.0.0.1:{port}/health", process)
            yield f"http://127.0.0.1:{port}"


@pytest.fixture(scope="module")
def runs(url: str) -> list[Run]:
    client = MlflowClient(tracking_uri=url)
    experiment = client.get_experiment_by_name("judge-datasheet-demo")
    return list(client.search_runs([experiment.experiment_id], max_results=1000))


def fetched(address: str) -> tuple[str, str]:
    """Return where an address leads, and what stands there."""
    try:
        with urllib.request.urlopen(address) as answer:
            return str(answer.url), str(answer.read().decode())
    except HTTPError as error:
        pytest.fail(f"{address} answers {error.code}")


def test_every_kind_is_there(runs: list[Run]) -> None:
    kinds = {run.data.tags["jrh.kind"] for run in runs}
    assert {"evaluate", "criterion_shift", "compare", "generate", "sweep", "jury", "agree", "gate"} <= kinds
    tests = {test for run in runs for test in run.data.params.get("run.tests", "").split(",")}
    assert {"label_flip", "agent_perturbation"} <= tests


@pytest.mark.slow
def test_no_link_and_no_anchor_of_our_pages_is_broken_and_no_markdown_is_raw(url: str, runs: list[Run]) -> None:
    start = f"{url}/jrh/"
    # Runs of one kind on one suite have the same pages: those of the last are read.
    read = {
        (run.data.tags["jrh.kind"], run.data.tags["jrh.simulated"], run.data.params.get("suite.name")): run.info.run_id
        for run in runs
    }
    others = {run.info.run_id for run in runs} - set(read.values())
    # Filters of calls are without number: of each run the list, and one of its numbers.
    seen: set[str] = set()
    waiting = [start, *(f"{start}run/{run_id}" for run_id in read.values())]
    filtered: set[str] = set()
    while waiting:
        address = waiting.pop()
        path = urlsplit(address).path
        if (
            address in seen
            or "/review/" in path
            or path.rpartition("/")[2] in others
            or (urlsplit(address).query and path in filtered)
        ):
            continue
        seen.add(address)
        filtered |= {path} if urlsplit(address).query else set()
        address, text = fetched(address)
        seen.add(address)  # where a run's address led
        page = Links(text)
        raw = [text for text in page.texts if RAW.search(text)]
        assert not raw or "/calls/" in path, (address, raw[:3])
        for link in page.to:
            whole, anchor = urldefrag(urljoin(address, link))
            if anchor and whole == address:
                assert anchor in page.anchors, (address, anchor)
            elif whole.startswith(start):
                waiting.append(whole)
    assert len(seen) > 2 * len(read)


def test_pages_of_every_kind_are_clean_in_light_dark_and_on_a_phone(url: str, runs: list[Run]) -> None:
    first = {run.data.tags["jrh.kind"]: run for run in runs}
    assert set(first) <= set(KINDS)
    with chromium() as browser:
        page = browser.new_page()
        errors: list[str] = []
        page.on("console", lambda line: errors.append(line.text) if line.type == "error" else None)
        page.on("pageerror", lambda error: errors.append(str(error)))
        for kind, run in first.items():
            page.goto(f"{url}/jrh/run/{run.info.run_id}", timeout=PATIENCE_MS)
            assert page.locator("h1").first.is_visible()
            broken = "[...document.images].filter(image => !image.complete || !image.naturalWidth).length"
            assert page.evaluate(broken) == 0, kind
            for width in looks(page):
                assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), (kind, width)
                # On a phone rows are cards, so that no table scrolls sideways; what a bar shows lies inside it.
                assert page.evaluate(_WIDE) == [], (kind, width)
                assert page.evaluate(_OUTSIDE) == 0, (kind, width)
        assert not errors


@pytest.mark.slow
def test_mlflows_own_pages_list_every_judge_evaluation_and_that_of_a_run_leads_to_ours_and_back(
    url: str, runs: list[Run]
) -> None:
    # Those inside another run, such as a sweep, are folded into it.
    own = [run for run in runs if run.data.tags["jrh.kind"] == "evaluate" and PARENT not in run.data.tags]
    run = next(run for run in own if run.info.run_name == "Llama8B (simulated)")
    listed = f"{url}/#/experiments/{run.info.experiment_id}"
    with chromium() as browser:
        # One page: MLflow's scripts take seconds to load, and a step from here to there loads none of them again.
        page: Any = browser.new_page(viewport={"width": 1600, "height": 3000})
        page.context.set_default_timeout(PATIENCE_MS)
        for tab in ("runs?workflowType=machine_learning", "evaluation-runs?workflowType=genai"):
            page.goto(f"{listed}/{tab}")
            for name in sorted({str(run.info.run_name) for run in own}):
                page.locator("main").get_by_text(name, exact=True).first.wait_for()
        page.goto(f"{listed}/runs/{run.info.run_id}")
        page.get_by_text("dark_current/rate", exact=True).first.wait_for()
        with page.expect_popup() as opened:
            page.get_by_role("link", name="Page of this run").first.click()
        ours = opened.value
        expect(ours).to_have_url(f"{url}/jrh/datasheet/{run.info.run_id}")
        expect(ours.get_by_role("heading", level=1)).to_contain_text("Llama8B")
        ours.get_by_role("link", name="Run in MLflow").click()
        expect(ours).to_have_url(re.compile(f"/#/experiments/{run.info.experiment_id}/runs/{run.info.run_id}"))
