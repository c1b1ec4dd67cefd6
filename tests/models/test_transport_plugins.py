"""Transports of other packages: found by entry point, picked by the model's prefix, and wrong names are said."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import jrh_mlflow as jrh
from jrh_mlflow.engine import ask_calls, plan_calls
from jrh_mlflow.engine.client import ClientSettings
from jrh_mlflow.engine.journal import open_journal
from jrh_mlflow.errors import RecipeError
from jrh_mlflow.models import catalog
from jrh_mlflow.models.transports import make_transport, pick_transport
from jrh_mlflow.plugins import plugins

ACME = """
from jrh_mlflow.models.transports import Transport
from jrh_mlflow.schema.requests import Response

class AcmeTransport(Transport):
    providers = frozenset({"acme_eu"})
    address_variables = ("ACME_PLACE",)

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_):
        pass

    async def send(self, request, *, timeout_s):
        text = '{"reason": "-", "verdict": "A"}'
        return Response(text=text, finish_reason="stop", model=request.model, input_tokens=1, output_tokens=1)

nothing = 7
"""
ENTRIES = "[jrh.transports]\nacme = acme_models:AcmeTransport\nbroken = acme_nowhere:X\nseven = acme_models:nothing\n"


@pytest.fixture
def acme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An installed package with a transport, and two entries that are none."""
    (tmp_path / "acme_models.py").write_text(ACME)
    facts = tmp_path / "acme_models-0.1.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-models\nVersion: 0.1\n")
    (facts / "entry_points.txt").write_text(ENTRIES)
    monkeypatch.syspath_prepend(tmp_path)
    for cached in (plugins, catalog.provider_names):
        cached.cache_clear()
    yield
    for cached in (plugins, catalog.provider_names):
        cached.cache_clear()
    sys.modules.pop("acme_models", None)


def test_a_model_is_asked_by_the_transport_whose_name_it_begins_with(acme: None, tmp_path: Path) -> None:
    judge = jrh.PromptedJudge("acme/large")
    suite = jrh.load_suite("datasheet-short")
    judge.begin(suite)
    calls = list(plan_calls(suite, judge, replicates=1))[:4]
    with open_journal(tmp_path / "journal.db") as journal:
        done = ask_calls(judge, calls, journal=journal, settings=ClientSettings())
    assert [(record.outcome, record.answer, record.model) for record in done.records] == [
        ("verdict", "1", "acme/large")
    ] * 4


def test_a_transport_may_claim_further_prefixes_and_no_others(acme: None) -> None:
    assert pick_transport("acme_eu/large", None) == "acme"
    assert pick_transport("acme_us/large", None) == "litellm"
    assert pick_transport("openai/gpt-4o-mini", None) == "direct"


def test_the_address_of_a_plugin_is_part_of_a_judges_identity(acme: None, monkeypatch: pytest.MonkeyPatch) -> None:
    usual = jrh.PromptedJudge("acme/large").fingerprint()
    monkeypatch.setenv("ACME_API_BASE", "http://nobody.example")
    assert jrh.PromptedJudge("acme/large").fingerprint() == usual
    monkeypatch.setenv("ACME_PLACE", "north")
    assert jrh.PromptedJudge("acme/large").fingerprint() != usual
    assert jrh.PromptedJudge("acme_eu/large").settings()["api_base"] == "ACME_PLACE=north"


def test_an_entry_that_is_no_transport_is_an_error_that_names_its_package(acme: None) -> None:
    with pytest.raises(RecipeError, match=r"'broken' of acme-models 0\.1 .*No module named 'acme_nowhere'"):
        make_transport("broken")
    with pytest.raises(RecipeError, match=r"'seven' of acme-models 0\.1 is no `Transport` class"):
        make_transport("seven")


def test_an_unknown_transport_is_an_error_with_a_suggestion() -> None:
    with pytest.raises(RecipeError, match=r"Unknown transport 'litelm'\. Did you mean 'litellm'"):
        make_transport("litelm")


def test_provider_names_are_those_of_the_installed_litellm() -> None:
    import litellm

    assert {provider.value for provider in litellm.LlmProviders} <= catalog.provider_names()
    assert len(catalog.provider_names()) < 20 + len(litellm.LlmProviders)
