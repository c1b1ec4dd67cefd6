"""`jrh plan calls`."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from click.testing import CliRunner

import jrh_mlflow
from jrh_mlflow.cli.plan import plan
from jrh_mlflow.errors import RecipeError

SHORT = ("--suite", "datasheet-short", "--axis", "dark_current")


def jrh(*arguments: str) -> str:
    done = CliRunner().invoke(plan, ["calls", *arguments], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


def test_json_is_the_plan_that_python_gives() -> None:
    model = "openai/gpt-4o-mini"
    told = json.loads(jrh(*SHORT, "--width", "0.5", "--rate", "0.3", "--model", model, "--price", "1,2", "--json"))
    expected = jrh_mlflow.plan(
        "datasheet-short", axis="dark_current", width=0.5, rate=0.3, models=[model], prices={model: (1.0, 2.0)}
    )
    assert told == json.loads(json.dumps(expected.to_dict()))
    assert told["usd"] > 0


def test_people_read_size_dollars_and_what_was_assumed() -> None:
    told = jrh(*SHORT, "--difference", "0.7", "--model", "nobody/knows")
    assert "by each judge" in told
    assert "unknown" in told
    assert "Assumed" in told
    assert jrh(*SHORT, "--width", "0.6", "--markdown").startswith("# How many calls: dark current")


def test_a_price_without_its_model_and_a_wish_that_is_none_are_refused() -> None:
    done = CliRunner().invoke(plan, ["calls", *SHORT, "--width", "0.5", "--price", "1,2"])
    assert done.exit_code == 2
    assert "--price is of one --model" in done.output
    with pytest.raises(RecipeError, match="got neither"):
        CliRunner().invoke(plan, ["calls", *SHORT], catch_exceptions=False)


def test_mlflow_is_not_loaded_where_no_run_is_read() -> None:
    code = f"""
import sys
from jrh_mlflow.cli.plan import plan
plan.main(["calls", *{SHORT!r}, "--width", "0.9", "--icc", "0", "--json"], standalone_mode=False)
print([name for name in ("mlflow", "litellm", "matplotlib") if name in sys.modules], file=sys.stderr)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"
    assert json.loads(done.stdout)["tasks"] == 10
