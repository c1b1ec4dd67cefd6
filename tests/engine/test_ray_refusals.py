"""Ray without a cluster: what is refused before one is started, and what needs none."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import jrh_mlflow as jrh
from jrh_mlflow.engine import ask_calls, plan_calls
from jrh_mlflow.engine.client import ClientSettings
from jrh_mlflow.engine.journal import open_journal
from jrh_mlflow.engine.ray_fleet import journal_for_actors, shares
from jrh_mlflow.errors import RecipeError
from jrh_mlflow.judges import scripted
from jrh_mlflow.measuring.resolve import asking
from jrh_mlflow.recipe import load_recipe


@pytest.fixture(scope="module")
def small() -> jrh.Suite:
    return jrh.datasheet_suite(n_tasks=2, depth=2)


def test_a_scripted_judge_reads_the_same_with_either_backend_and_starts_no_cluster(small: jrh.Suite) -> None:
    judge = scripted.Noisy(seed=3)
    away = asking("ray", journal="unused.db", cap_micro=None)(judge, plan_calls(small, judge, replicates=2))
    home = ask_calls(judge, plan_calls(small, judge, replicates=2))
    assert [(one.outcome, one.answer) for one in away.records] == [(one.outcome, one.answer) for one in home.records]
    import ray

    assert not ray.is_initialized()


def test_without_the_extra_the_pip_line_is_shown(small: jrh.Suite, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(RecipeError, match=r'pip install "jrh-mlflow\[ray\]"'):
        jrh.evaluate(scripted.Oracle(), small, backend="ray")


def test_an_open_journal_is_refused_and_so_is_an_unknown_backend(tmp_path: Path) -> None:
    with open_journal(tmp_path / "j.db") as journal, pytest.raises(RecipeError, match="Give its path or URL"):
        asking("ray", journal=journal, cap_micro=None)
    with pytest.raises(RecipeError, match="Did you mean 'ray'"):
        asking("rays", journal="j.db", cap_micro=None)


def test_a_file_is_no_journal_for_several_machines(tmp_path: Path) -> None:
    class TwoMachines:
        def nodes(self) -> list[dict[str, object]]:
            return [{"NodeManagerHostname": "elsewhere.example", "Alive": True}]

    with pytest.raises(RecipeError, match=r"elsewhere.example.*postgresql://"):
        journal_for_actors(TwoMachines(), tmp_path / "j.db")
    assert journal_for_actors(TwoMachines(), "postgresql://host/db") == "postgresql://host/db"


def test_the_recipe_of_a_cluster_is_read() -> None:
    recipe = load_recipe(Path(__file__).parents[2] / "recipes" / "ray_cluster.yaml")
    assert (recipe.options["backend"], recipe.options["max_usd"]) == ("ray", 1.0)


def test_shares_add_up_to_the_whole() -> None:
    parts = shares(ClientSettings(concurrency=10, requests_per_minute=90, tokens_per_minute=None), 4)
    assert [part.concurrency for part in parts] == [3, 3, 2, 2]
    assert sum(part.requests_per_minute or 0 for part in parts) == pytest.approx(90)
    assert {part.tokens_per_minute for part in parts} == {None}
