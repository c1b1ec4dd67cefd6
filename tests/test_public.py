"""The public surface: what `__all__` says, and nothing heavy behind the front door."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

import jrh_mlflow as jrh

HEAVY = (
    "importlib.metadata",
    "mlflow",
    "litellm",
    "optuna",
    "matplotlib",
    "pandas",
    "numpy",
    "scipy",
    "aiohttp",
    "yaml",
)
PROMISED = (
    "Answer",
    "Corrected",
    "CriterionShift",
    "Datasheet",
    "Estimate",
    "Evaluation",
    "JrhError",
    "Message",
    "NotEstimable",
    "Presentation",
    "Suite",
    "correct",
    "criterion_shift",
    "datasheet_suite",
    "evaluate",
    "load_suite",
    "measure",
    "natural_suite",
    "scripted",
)
"""Names users rely on: more may come, none may go."""


@pytest.mark.parametrize("name", jrh.__all__)
def test_every_public_name_resolves_to_what_it_says(name):
    found = getattr(jrh, name)
    assert getattr(found, "__name__", "").rpartition(".")[2] == name


def test_the_public_surface_is_sorted_without_repeats_and_keeps_its_promises():
    assert jrh.__all__ == sorted(set(jrh.__all__))
    assert set(PROMISED) <= set(jrh.__all__)


def test_dir_shows_the_public_surface_and_nothing_else():
    assert dir(jrh) == sorted(jrh.__all__)


def test_type_checkers_see_exactly_the_names_that_can_be_used():
    """The block under TYPE_CHECKING, the table of homes and `__all__` name the same things in the same places."""
    tree = ast.parse(Path(jrh.__file__).read_text(encoding="utf-8"))
    block = next(node for node in tree.body if isinstance(node, ast.If))
    homes = {
        alias.name: str(node.module).removeprefix("jrh_mlflow.")
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert homes == vars(jrh)["_HOMES"]
    assert sorted(homes) == jrh.__all__


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'jrh_mlflow' has no attribute 'evaluat'"):
        _ = jrh.evaluat


@pytest.fixture(scope="module")
def loaded():
    """Modules of a new process after the package was imported, and those of it after a judge was measured."""
    code = """
import sys, json
import jrh_mlflow as jrh
print(json.dumps(list(sys.modules)))
from jrh_mlflow.engine import plan_calls, ask_calls
judge, suite = jrh.scripted.AlwaysTie(), jrh.datasheet_suite(n_tasks=2)
sheet = jrh.measure(ask_calls(judge, plan_calls(suite, judge, replicates=1)).records)
assert sheet.estimates["dark_current"].value == 0
print(json.dumps(list(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return [set(json.loads(line)) for line in done.stdout.splitlines()]


def test_importing_the_package_loads_nothing_heavy(loaded):
    assert "jrh_mlflow" in loaded[0]
    assert loaded[0] & set(HEAVY) == set()


def test_measuring_loads_neither_mlflow_nor_a_model_library(loaded):
    assert loaded[1] & {"mlflow", "litellm", "optuna", "matplotlib"} == set()


def test_star_import_brings_the_public_names():
    names = {}
    exec("from jrh_mlflow import *", names)
    assert set(jrh.__all__) <= set(names)


def test_the_version_is_that_of_the_installed_package():
    assert jrh.__version__ == version("jrh-mlflow")


def test_the_package_is_typed():
    assert (Path(jrh.__file__).parent / "py.typed").is_file()
