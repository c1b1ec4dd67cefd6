"""The recipes of sweeps: they load, and the first runs with a loopback server in place of the models."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

import jrh_mlflow as jrh
from jrh_mlflow.cli.main import group
from jrh_mlflow.sweeps.space import load_space
from tests.loopback import LoopbackServer
from tests.sweeps.test_budget import reply

RECIPES = Path(__file__).parent.parent.parent / "recipes"


@pytest.mark.parametrize(("name", "n_configurations"), [("sweep", 24), ("sweep_postgres", 72)])
def test_a_recipe_loads_and_every_judge_of_it_can_be_made(name: str, n_configurations: int) -> None:
    space = load_space(RECIPES / f"{name}.yaml")
    found = space.configurations(pair=True)
    assert len(found) == n_configurations
    assert {jrh.PromptedJudge} == {type(space.make_judge(one)) for one in found}


def test_the_dry_run_of_the_recipe_needs_no_key(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    jrh.datasheet_suite(n_tasks=4, depth=1).save(tmp_path / "suite")
    command = ["sweep", str(RECIPES / "sweep.yaml"), "--suite", str(tmp_path / "suite"), "--dry-run"]
    told = CliRunner().invoke(group, command, catch_exceptions=False).stdout
    assert "24 of 12 judges" in told
    assert "about $" in told


@pytest.mark.slow
def test_the_recipe_runs_with_its_models_replaced(
    monkeypatch: pytest.MonkeyPatch, store_uri: str, tmp_path: Path
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-loopback-0123456789abcdef")
    data = yaml.safe_load((RECIPES / "sweep.yaml").read_text(encoding="utf-8"))
    with LoopbackServer(reply=reply) as server:
        data["models"] = [{"model": "openai/gpt-4o-mini", "api_base": server.url, "max_tokens": 64}]
        (tmp_path / "sweep.yaml").write_text(yaml.safe_dump(data), encoding="utf-8")
        suite = jrh.datasheet_suite(n_tasks=4, depth=1)
        where = {"experiment": "sweeps", "tracking_uri": store_uri, "traces": "none", "max_replicates": 1}
        done = jrh.sweep(tmp_path / "sweep.yaml", suite, n_trials=4, max_usd=1.0, **where)
        assert server.counts["requests"] > 0
    assert done.truncated is None
    assert len(done.trials) == 4
    assert done.constraints == ["dark_current/rate <= 0.1"]
