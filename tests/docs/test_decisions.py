"""Pages of how to on decisions: comparisons, gates, `until` and plans, as printed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

import jrh_mlflow as jrh
from jrh_mlflow.stats import power
from jrh_mlflow.tracking.mlflow_server import folder_uri
from tests.docs.printed import Printed
from tests.docs.world import World, prepared

# Of MLflow's own imports, and of judges that are not measured.
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Whole suites, since the pages show numbers; the same plan is computed once."""
    folder = tmp_path_factory.mktemp("decisions")
    with prepared(folder_uri(folder), folder, small=False) as world, pytest.MonkeyPatch.context() as patch:
        for name in ("expected_interval", "simulated_power"):
            patch.setattr(power, name, cache(getattr(power, name)))
        yield world


@pytest.fixture(scope="module")
def runs(world: World) -> list[str]:
    """The two judges of which the pages show outputs."""
    judges = [jrh.scripted.profile(name) for name in ("Qwen14B", "Qwen32B")]
    return [jrh.evaluate(judge, progress=False, traces="none").run_id for judge in judges]


@pytest.fixture
def here(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    here = replace(world, folder=tmp_path)
    here.enter(monkeypatch)
    return here


def test_comparisons_on_one_suite_and_on_several_and_a_jury(here: World, runs: list[str]) -> None:
    names = dict(zip("ab", runs, strict=True))
    short = jrh.datasheet_suite(depth=1, name="short")
    for letter, judge in zip("cd", ("Qwen14B", "Qwen32B"), strict=True):
        names[letter] = jrh.evaluate(jrh.scripted.profile(judge), short, progress=False, traces="none").run_id
    names["e"] = jrh.evaluate(jrh.scripted.profile("Llama8B"), progress=False, traces="none").run_id
    words = {f"RUN_{letter.upper()}": run for letter, run in names.items()}
    page = Printed("docs/howto/compare.md", here, names=names, words=words, shown=True).run()
    assert not page.names["found"].differences["told_apart"].any()
    assert len(page.names["across"].across.suites) == 2
    assert len(page.names["jury"].report.seats) == 3


def test_a_gate(here: World, runs: list[str]) -> None:
    run, main = runs

    def gated(policy: Path) -> None:
        text = policy.read_text(encoding="utf-8")
        policy.write_text(text.replace("3f2a9c01b71d4e22", main), encoding="utf-8")
        assert len(jrh.gate(run, policy=policy, log=False).checks) == 2

    words = {"RUN": run, "MAIN_RUN": main}
    readers = [("gate.yaml", gated)]
    Printed("docs/howto/gate.md", here, names={"run": run}, words=words, readers=readers, shown=True).run()
    assert Path("gate.xml").is_file()


def test_plans_and_stopping_early(here: World, runs: list[str]) -> None:
    page = Printed("docs/howto/plan.md", here, words={"RUN": runs[0]}, shown=True).run()
    assert page.names["done"].stopped.passed
