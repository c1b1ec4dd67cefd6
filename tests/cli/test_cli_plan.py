"""`jrh plan`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

import jrh_mlflow
from jrh_mlflow.cli.plan import plan
from jrh_mlflow.errors import RecipeError

SHORT = ("--suite", "datasheet-short", "--axis", "dark_current")


def jrh(*arguments: str) -> str:
    done = CliRunner().invoke(plan, list(arguments), catch_exceptions=False)
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
    done = CliRunner().invoke(plan, [*SHORT, "--width", "0.5", "--price", "1,2"])
    assert done.exit_code == 2
    assert "--price is of one --model" in done.output
    with pytest.raises(RecipeError, match="got neither"):
        CliRunner().invoke(plan, [*SHORT], catch_exceptions=False)


def test_labels_are_counted_as_python_counts_them(tmp_path: Path) -> None:
    verdicts = [n % 3 > 0 for n in range(900)]
    people = [str(n % 7 > 0) if n < 120 else "" for n in range(900)]
    lines = [f"i{n},{judge},{human}" for n, (judge, human) in enumerate(zip(verdicts, people, strict=True))]
    pilot = tmp_path / "graded.csv"
    pilot.write_text("\n".join(["item,judge,human", *lines]), encoding="utf-8")
    found = json.loads(jrh("--labels", "--pilot", str(pilot), "--width", "0.15", "--json"))
    assert found == jrh_mlflow.plan(pilot=str(pilot), width=0.15, labels=True).to_dict()
    assert found["pilot"] == 120
    for arguments, says in (
        (("--labels", "--width", "0.2"), "one --pilot"),
        (("--labels", "--pilot", str(pilot), "--width", "0.2", "--axis", "dark_current"), "does not take --axis"),
        (("--axis", "dark_current", "--width", "0.2", "--positive", "yes"), "go with --labels"),
        (("--width", "0.2"), "Give --axis"),
    ):
        refused = CliRunner().invoke(plan, arguments)
        assert refused.exit_code == 2
        assert says in refused.output


def test_mlflow_is_not_loaded_where_no_run_is_read() -> None:
    code = f"""
import sys
from jrh_mlflow.cli.plan import plan
plan.main([*{SHORT!r}, "--width", "0.9", "--rate", "0.5", "--json"], standalone_mode=False)
print([name for name in ("mlflow", "litellm", "matplotlib") if name in sys.modules], file=sys.stderr)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"
    assert json.loads(done.stdout)["tasks"] == 10
