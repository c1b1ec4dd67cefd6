"""docs/tutorial.md: whoever follows it reaches a datasheet, and reads what is printed there."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from jrh_mlflow.tracking.mlflow_server import folder_uri
from tests.docs.blocks import ROOT
from tests.docs.printed import Printed
from tests.docs.world import World, prepared

PAGE = "docs/tutorial.md"


@pytest.fixture
def tutorial(tmp_path_factory: pytest.TempPathFactory, store_uri: str) -> Iterator[World]:
    """A folder with nothing in it, whole suites and a store of its own; `store_uri` has made the tables."""
    folder = tmp_path_factory.mktemp("tutorial")
    with prepared(folder_uri(folder), folder, experiment="tutorial", small=False) as world:
        yield world


def test_the_tutorial_leads_to_a_datasheet_and_prints_what_it_shows(
    tutorial: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (ROOT / PAGE).read_text(encoding="utf-8")
    [(first, second)] = re.findall(r"^jrh compare (\w+) (\w+)$", text, re.MULTILINE)

    def run_of(judge: str) -> str:
        [experiment] = tutorial.client.search_experiments(filter_string="name = 'tutorial'")
        [run] = tutorial.client.search_runs([experiment.experiment_id], f"tags.mlflow.runName = 'judges:{judge}'")
        return str(run.info.run_id)[:8]

    words = {first: lambda _: run_of("longer"), second: lambda _: run_of("on_topic")}
    page = Printed(PAGE, tutorial, words=words, exits={"jrh gate": 1}, shown=True).run()
    assert "vacuum-active" in page.output, "the model on loopback says A to everything"
    monkeypatch.chdir(tutorial.folder)
    assert (tutorial.folder / "mlflow.db").is_file()
