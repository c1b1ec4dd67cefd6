"""A decision made after a run was logged, on the run's page, datasheet and description in a real store."""

from __future__ import annotations

import dataclasses

import pytest
from mlflow import MlflowClient

import jrh_mlflow as jrh
from jrh_mlflow.decisions.gate_result import show_decision
from jrh_mlflow.show.decided_rules import with_markdown_section
from jrh_mlflow.tracking.runs.read import run_file
from jrh_mlflow.tracking.runs.store import Store, first_tags
from tests.comparing.test_compare import pointwise_suite
from tests.show.test_decided_rules import gate

NOTE = "mlflow.note.content"


@pytest.fixture(scope="module")
def run_id(store_uri: str) -> str:
    options = {"experiment": "shown decisions", "tracking_uri": store_uri, "progress": False}
    return jrh.evaluate(jrh.scripted.Oracle(), pointwise_suite(), **options).run_id


def file_of(store_uri: str, run_id: str, name: str) -> str:
    found = run_file(store_uri, run_id, name)
    assert found is not None
    return found.decode()


def show(store_uri: str, run_id: str, reason: str) -> None:
    show_decision(Store(store_uri, "shown decisions"), run_id, gate(reason=reason), what_now="")


def test_the_page_the_datasheet_and_the_description_show_the_newest_gate(store_uri, run_id):
    before = {name: file_of(store_uri, run_id, name) for name in ("datasheet.html", "datasheet.md", "datasheet.json")}
    show(store_uri, run_id, "the first gate")
    show(store_uri, run_id, "the second gate")
    note = MlflowClient(store_uri).get_run(run_id).data.tags[NOTE]
    page, markdown = (file_of(store_uri, run_id, name) for name in ("datasheet.html", "datasheet.md"))
    for shown in (page, markdown, note):
        assert shown.count("the second gate") == 1
        assert "the first gate" not in shown
    assert markdown == with_markdown_section(before["datasheet.md"], gate(reason="the second gate"))
    assert note.startswith(f"[Page of this run](jrh/run/{run_id}) and [its calls](jrh/calls/{run_id}), where ")
    assert len(page) > len(before["datasheet.html"])
    assert file_of(store_uri, run_id, "datasheet.json") == before["datasheet.json"]


def test_what_somebody_wrote_into_the_description_stays(store_uri, run_id):
    client = MlflowClient(store_uri)
    client.set_tag(run_id, NOTE, "Our judge of the week.\n\n### Why\n\nBecause.")
    show(store_uri, run_id, "the third gate")
    note = client.get_run(run_id).data.tags[NOTE]
    assert note.startswith("Our judge of the week.\n\n### Gate")
    assert note.endswith("### Why\n\nBecause.")
    full = f"{'x' * 7800}\n"
    client.set_tag(run_id, NOTE, full)
    show(store_uri, run_id, "the fourth gate")
    assert client.get_run(run_id).data.tags[NOTE] == full


def test_a_run_without_a_page_stays_without_one(store_uri):
    store = Store(store_uri, "shown decisions")
    bare = store.create_run("bare", tags=first_tags("evaluate", simulated=False))
    show_decision(store, bare, gate(), what_now="")
    assert not store.client.list_artifacts(bare)
    assert NOTE not in store.client.get_run(bare).data.tags


def test_a_page_that_is_no_text_stays_as_it_is(store_uri, tmp_path):
    store, page = Store(store_uri, "shown decisions"), tmp_path / "datasheet.html"
    page.write_bytes(b"\xff\xfe</header>\n")
    odd = store.create_run("odd", tags=first_tags("evaluate", simulated=False))
    store.client.log_artifact(odd, str(page))
    show_decision(store, odd, dataclasses.replace(gate(), link=""), what_now="")
    assert run_file(store_uri, odd, "datasheet.html") == b"\xff\xfe</header>\n"
