"""What commands print: judges by the names of their runs, no line wider than a screen, and what to do next."""

from __future__ import annotations

import re
from pathlib import Path

import pandas as pd
import pytest
from click.testing import CliRunner

import jrh_mlflow as jrh
from jrh_mlflow.cli.main import group
from jrh_mlflow.suites.more_tasks import more_tasks_text

WIDE = 100
LONG = "a name that somebody gave to a run, which goes on and on and on until it is far wider than any screen is {}"


@pytest.fixture(scope="module")
def runs(store_uri: str) -> dict[str, str]:
    """Names of runs to their ids."""
    suite = jrh.datasheet_suite(n_tasks=6, depth=1, name="a suite with a name of its own " + 4 * "that is long ")
    judges = {
        "mine": jrh.scripted.Oracle(),
        LONG.format("one"): jrh.scripted.AlwaysTie(),
        LONG.format("two"): jrh.scripted.AlwaysFirst(),
    }
    where = {"experiment": "screens", "tracking_uri": store_uri, "traces": "none"}
    return {name: jrh.evaluate(judge, suite, run_name=name, **where).run_id for name, judge in judges.items()}


def screen(*arguments: str) -> str:
    done = CliRunner().invoke(group, list(arguments), catch_exceptions=False)
    assert done.exit_code in (0, 1), done.output
    # An address is copied as it is.
    assert [line for line in done.output.splitlines() if len(line) > WIDE and "://" not in line] == []
    return done.stdout


def test_a_comparison_calls_judges_as_their_runs_were_named(runs: dict[str, str], store_uri: str) -> None:
    text = screen("compare", *runs.values(), "--no-log", "--tracking-uri", store_uri)
    assert "mine (simulated)" in text
    compared = jrh.compare(list(runs.values()), tracking_uri=store_uri, log=False)
    shown = {f"{name} (simulated)" for name in runs}
    assert set(compared.contrasts.judges) == shown
    assert set(compared.differences["a"]) | set(compared.differences["b"]) == shown
    assert all(name in compared.to_html() for name in shown)
    assert {run["judge"] for run in compared.to_dict()["runs"]} == shown


def test_runs_of_one_name_are_told_by_what_differs(store_uri: str) -> None:
    suite = jrh.datasheet_suite(n_tasks=4, depth=1)
    where = {"experiment": "same", "tracking_uri": store_uri, "traces": "none", "run_name": "mine"}
    judges = (jrh.scripted.Oracle(), jrh.scripted.AlwaysTie())
    first, second = (jrh.evaluate(judge, suite, **where).run_id for judge in judges)
    names = jrh.compare([first, second], tracking_uri=store_uri, log=False).contrasts.judges
    assert len(set(names)) == 2
    assert all(name.startswith("mine (simulated) (") for name in names)
    third = jrh.evaluate(jrh.scripted.Oracle(), suite, **where).run_id
    names = jrh.compare([first, third], tracking_uri=store_uri, log=False).contrasts.judges
    assert [name.split()[-1] for name in names] == [first[:8], third[:8]]


def test_no_line_of_a_gate_or_a_jury_is_wider_than_a_screen(runs: dict[str, str], store_uri: str) -> None:
    mine, one, two = runs.values()
    rules = ["--require", "dark_current <= 0.2", "--require", "target_sensitivity/delta_1 - baseline >= -0.05"]
    screen("gate", one, "--baseline", two, *rules, "--no-log", "--tracking-uri", store_uri)
    text = screen("compare", mine, one, two, "--jury", "--no-log", "--tracking-uri", store_uri)
    assert "mine (simulated)" in text


def test_more_tasks_than_there_are_come_with_what_to_do() -> None:
    suite = jrh.datasheet_suite(n_tasks=6, depth=1)
    rows = {"instruction": ["a?", "d?", "g?"], "first": ["b", "e", "h"], "second": ["c", "f", "i"], "better": "1"}
    own = jrh.natural_suite(pd.DataFrame(rows))
    left = more_tasks_text(20, suite)
    assert re.search(r"\b22\b.*`jrh suite build --n-tasks 26 -o more`", left)
    beyond = more_tasks_text(673, suite, reached="take a limit of 0.30 or more")
    assert re.search(r"\b28\b.*\b22\b.*own_tasks\.md.*0\.30", beyond)
    assert re.search(r"\b3\b.*own_tasks\.md", more_tasks_text(5, own))
    ends = {"ci_low": 0.2, "ci_high": 0.28, "cluster_low": 0.2, "cluster_high": 0.28, "n_clusters": 9}
    again = jrh.Estimate(value=0.25, n=9, excluded=0, method="", **ends)
    assert "--replicates 2" in more_tasks_text(5, own, again=again)
    assert (Path(__file__).parents[2] / "docs/howto/own_tasks.md").is_file()


def test_a_gate_that_needs_more_tasks_than_there_are_says_what_to_do(runs: dict[str, str], store_uri: str) -> None:
    rule = "target_sensitivity/delta_1 >= 0.9"
    done = jrh.gate(runs["mine"], rule, tracking_uri=store_uri, log=False)
    (check,) = done.to_dict()["checks"]
    assert check["state"] == "undecided"
    assert "own_tasks.md" in check["what_helps"] or "jrh suite build" in check["what_helps"]
    assert check["what_helps"].split(",")[0].casefold() in done.verdict.sentences[-1].casefold()
