"""Entry points of other packages: found, loaded once, and a broken one named."""

from __future__ import annotations

import sys

import pytest

from jrh_mlflow.plugins import plugins

pytestmark = pytest.mark.quick


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Make a package that declares two entries, one of which cannot be imported."""
    (tmp_path / "acme_judging.py").write_text("value = 7\n")
    facts = tmp_path / "acme_judging-1.2.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-judging\nVersion: 1.2\n")
    (facts / "entry_points.txt").write_text("[jrh.example]\nworks = acme_judging:value\nfails = acme_nowhere:value\n")
    monkeypatch.syspath_prepend(tmp_path)
    plugins.cache_clear()
    yield
    plugins.cache_clear()
    sys.modules.pop("acme_judging", None)


def test_entries_come_by_name_with_the_package_that_declares_them(installed):
    fails, works = plugins("jrh.example")
    assert (works.name, works.distribution, works.value, works.error) == ("works", "acme-judging 1.2", 7, None)
    assert fails.value is None


def test_a_broken_entry_is_one_line_that_names_its_package_and_stops_no_other(installed):
    fails, _ = plugins("jrh.example")
    assert fails.error == (
        "jrh.example entry 'fails' of acme-judging 1.2 (acme_nowhere:value) cannot be loaded: "
        "ModuleNotFoundError: No module named 'acme_nowhere'"
    )


def test_a_group_that_nobody_adds_to_is_empty():
    assert plugins("jrh.nobody") == ()
