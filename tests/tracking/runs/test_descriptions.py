"""Descriptions of runs: they begin with links to our pages, and MLflow cuts nothing of them."""

from __future__ import annotations

import pytest

from jrh_mlflow.show.plain_text import MAX_DESCRIPTION
from jrh_mlflow.tracking.runs.store import own_text, run_description

pytestmark = pytest.mark.quick

RUN = "0" * 32


@pytest.mark.parametrize("has_calls", [True, False])
@pytest.mark.parametrize("length", [0, 7600, 7850, MAX_DESCRIPTION, 20_000])
def test_links_stand_first_and_the_whole_keeps_the_limit(has_calls, length):
    markdown = "# Title\n\n" + "line of text\n" * (length // 13)
    text = run_description(markdown, RUN, has_calls=has_calls, artifact="datasheet.md")
    assert text.startswith(f"[Page of this run](jrh/run/{RUN})")
    assert (f"(jrh/calls/{RUN})" in text) == has_calls
    assert len(text) <= MAX_DESCRIPTION
    assert ("the artifact `datasheet.md`." in text) == (markdown not in text)


def test_the_verdict_follows_on_the_links_so_that_a_folded_description_shows_it():
    markdown = "# Judge datasheet: a name that stands above it already\n\n**It reads.**\n\n> A note.\n"
    text = run_description(markdown, RUN, has_calls=True, artifact="datasheet.md")
    assert text.split("\n\n")[1:] == ["**It reads.**", "> A note.\n"]
    assert run_description("# Title\n\nText", RUN, has_calls=True, artifact="x.md").endswith("\n\n# Title\n\nText")


@pytest.mark.parametrize("has_calls", [True, False])
def test_the_page_of_a_run_shows_its_description_without_the_link_to_itself(has_calls):
    text = run_description("# Title\n\nText", RUN, has_calls=has_calls, artifact="x.md")
    assert own_text(text, RUN) == "# Title\n\nText"
    assert own_text("what somebody wrote", RUN) == "what somebody wrote"
