"""`jrh gate`: exit codes, refusals, and files, in a real shell where the shell matters."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from junitparser import Failure, JUnitXml, Skipped
from mlflow import MlflowClient

import jrh_mlflow
from jrh_mlflow.tracking.runs.store import Store, first_tags
from tests.people.command import jrh
from tests.shell import Shell

HOLDS = "dark_current <= 0.3"
UNDECIDED = "dark_current <= 0.1"
FAILS = "target_sensitivity/delta_1 <= 0.5"
HOSTILE = "</testsuite>\x1b[31m| <b>x</b> `y` ::set-output\nname=z"


@pytest.fixture(scope="module")
def run_id(store_uri: str) -> str:
    """A judge without a fault on few tasks: dark current 0.00 [0.00, 0.29], sensitivity 1.00 [0.81, 1.00]."""
    options = {"tracking_uri": store_uri, "experiment": "cli gate", "run_name": HOSTILE, "progress": False}
    return jrh_mlflow.evaluate(jrh_mlflow.scripted.Oracle(), "datasheet-short", **options).run_id


@pytest.fixture(scope="module")
def shell() -> Iterator[Shell]:
    with Shell() as shell:
        yield shell


def of(*rules: str) -> list[str]:
    return [part for rule in rules for part in ("--require", rule)]


def runs_of_kind(store_uri: str, kind: str) -> int:
    client = MlflowClient(store_uri)
    ids = [one.experiment_id for one in client.search_experiments()]
    return len(client.search_runs(ids, f"tags.`jrh.kind` = '{kind}'"))


def test_a_shell_gets_0_1_or_2_and_the_table_on_standard_output(shell, store_uri, run_id, tmp_path):
    env = {"RUN": run_id, "MLFLOW_TRACKING_URI": store_uri}
    for options, code in (
        (f"--require '{HOLDS}'", 0),
        (f"--require '{HOLDS}' --require '{UNDECIDED}'", 1),
        (f"--require '{FAILS}' --undecided pass", 1),
    ):
        done = shell.run(f'jrh gate "$RUN" --no-log {options}', cwd=tmp_path, env=env)
        assert (done.returncode, done.stderr) == (code, ""), options
        assert "gate: passed: 1 of 1 rules hold" in done.stdout or code == 1
        assert ("further tasks" in done.stdout) == (UNDECIDED in options)


def test_a_shell_gets_2_and_one_line_for_what_is_no_gate(shell, store_uri, run_id, tmp_path):
    env = {"RUN": run_id, "MLFLOW_TRACKING_URI": store_uri}
    script = 'jrh gate "$RUN" --require "dark_curent <= 0.1" --junit gate.xml --summary gate.md'
    done = shell.run(script, cwd=tmp_path, env=env)
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert "Did you mean 'dark_current'?" in line
    assert not list(tmp_path.glob("gate.*"))


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--require", "dark_current = 0.1"], "Write <=, <, >= or >"),
        (["--require", "dark_current <= 10 %"], "dark_current <= 0.1"),
        ([], "Nothing is required"),
        (["--require", "dark_current - baseline <= 0.1"], "--baseline"),
        (["--policy", "no such.yaml"], "no such.yaml"),
        (["--require", "dark_current - baseline <= 0.1", "--baseline", "12345678"], "12345678"),
        (["--require", HOLDS, "--junit", "no/such/gate.xml"], "no/such/gate.xml"),
        (["--require", HOLDS, "--summary", ""], "no file"),
        (["--require", HOLDS, "--undecided", "maybe"], "'fail', 'pass'"),
        (["--require", HOLDS, "--requires", HOLDS], "--require"),
    ],
)
def test_bad_input_ends_with_2_before_anything_is_logged(arguments, told, store_uri, run_id, capsys):
    before = runs_of_kind(store_uri, "gate")
    done = jrh("gate", run_id, *arguments, "--tracking-uri", store_uri, capsys=capsys)
    assert (done.code, done.out) == (2, "")
    assert told in done.err
    assert runs_of_kind(store_uri, "gate") == before


def test_a_policy_is_refused_where_a_key_or_value_is_not_known(store_uri, run_id, capsys):
    for written, told in (("requires: [a <= 1]", "'require'"), (f"require: {HOLDS}\nundecided: fails", "'fail'")):
        Path("gate.yaml").write_text(written, encoding="utf-8")
        done = jrh("gate", run_id, "--policy", "gate.yaml", "--tracking-uri", store_uri, capsys=capsys)
        assert done.code == 2
        assert f"Did you mean {told}?" in done.err


def test_what_a_policy_says_of_the_undecided_counts_until_the_option_says_otherwise(store_uri, run_id, capsys):
    Path("gate.yaml").write_text(f"require: ['{UNDECIDED}']\nundecided: pass\n", encoding="utf-8")
    gate = ("gate", run_id, "--policy", "gate.yaml", "--no-log", "--tracking-uri", store_uri)
    assert jrh(*gate, capsys=capsys).code == 0
    assert jrh(*gate, "--undecided", "fail", capsys=capsys).code == 1
    assert jrh(*gate, "--require", FAILS, "--undecided", "pass", capsys=capsys).code == 1


def test_a_baseline_that_no_rule_compares_with_is_said_to_be_idle(store_uri, run_id, capsys):
    gate = ("gate", run_id, *of(HOLDS), "--baseline", run_id, "--no-log", "--tracking-uri", store_uri)
    done = jrh(*gate, capsys=capsys)
    assert done.code == 0
    assert "note: No rule compares with the baseline" in done.out


@pytest.mark.parametrize("kind", ["compare", "sweep", "gate", "agree"])
def test_a_run_of_another_kind_is_refused_with_its_kind(kind, store_uri, capsys):
    store = Store(store_uri, "cli gate")
    other = store.create_run("other", tags=first_tags(kind, simulated=False))
    done = jrh("gate", other, *of(HOLDS), "--tracking-uri", store_uri, capsys=capsys)
    assert (done.code, done.out) == (2, "")
    assert f"is of kind {kind}" in done.err


def test_a_gate_is_logged_and_no_log_leaves_everything_as_it_is(store_uri, run_id, capsys):
    client, before = MlflowClient(store_uri), runs_of_kind(store_uri, "gate")
    tags = client.get_run(run_id).data.tags
    gate = ("gate", run_id, *of(HOLDS), "--tracking-uri", store_uri)
    assert "logged:" not in jrh(*gate, "--no-log", capsys=capsys).out
    assert (runs_of_kind(store_uri, "gate"), client.get_run(run_id).data.tags) == (before, tags)
    done = jrh(*gate, capsys=capsys)
    logged = client.get_run(run_id).data.tags["jrh.gate_run"]
    assert f"logged: run {logged}" in done.out
    assert client.get_run(logged).data.tags["jrh.kind"] == "gate"
    assert client.get_run(run_id).data.tags["jrh.gate"] == "passed: 1 of 1 rules hold"


def test_json_is_what_python_returns(store_uri, run_id, capsys):
    options = of(HOLDS, UNDECIDED)
    done = jrh("gate", run_id, *options, "--json", "--no-log", "--tracking-uri", store_uri, capsys=capsys)
    same = jrh_mlflow.gate(run_id, [HOLDS, UNDECIDED], tracking_uri=store_uri, log=False)
    assert done.code == 1
    assert json.loads(done.out) == same.to_dict()


def test_with_json_only_json_is_on_standard_output(store_uri, run_id, capsys):
    done = jrh("gate", run_id, *of(HOLDS), "--json", "--junit", "g.xml", "--tracking-uri", store_uri, capsys=capsys)
    told = json.loads(done.out)
    assert told["passed"] is True
    assert told["run_id"] in done.err


@pytest.mark.parametrize(("undecided", "found"), [("fail", Failure), ("pass", Skipped)])
def test_junit_follows_what_becomes_of_the_undecided(undecided, found, store_uri, run_id, capsys):
    files = ("--junit", "gate.xml", "--summary", "gate.md")
    options = (*of(HOLDS, UNDECIDED, FAILS), "--undecided", undecided, "--no-log", *files)
    assert jrh("gate", run_id, *options, "--tracking-uri", store_uri, capsys=capsys).code == 1
    (suite,) = JUnitXml.fromfile("gate.xml")
    holds, open_one, fails = suite
    assert [case.name for case in suite] == [HOLDS, UNDECIDED, FAILS]
    assert holds.is_passed
    assert [type(case.result[0]) for case in (open_one, fails)] == [found, Failure]
    summary = Path("gate.md").read_text(encoding="utf-8")
    assert summary.startswith("# Gate: ")
    for rule in (HOLDS, UNDECIDED, FAILS):
        assert f"`{rule}`" in summary
    assert not any(text in summary for text in ("<b>", "\x1b", "\n::set-output"))


def test_files_of_an_earlier_gate_are_replaced_and_others_are_not(store_uri, run_id, capsys):
    files = {name: Path(name) for name in ("gate.xml", "gate.md")}
    gate = ("gate", run_id, "--junit", "gate.xml", "--summary", "gate.md", "--no-log", "--tracking-uri", store_uri)
    files["gate.md"].touch()  # nothing to lose
    assert jrh(*gate, *of(HOLDS), capsys=capsys).code == 0
    assert jrh(*gate, *of(FAILS), capsys=capsys).code == 1
    assert all(FAILS in path.read_text().replace("&lt;", "<") for path in files.values())
    for path in files.values():
        path.write_text("a year of notes\n")
        done = jrh(*gate, *of(HOLDS), capsys=capsys)
        assert (done.code, done.out) == (2, "")
        assert f"{path} exists already" in done.err
        assert path.read_text() == "a year of notes\n"
        assert jrh(*gate, *of(HOLDS), "--force", capsys=capsys).code == 0
        assert "notes" not in path.read_text()


def test_one_file_is_not_both_junit_and_summary(store_uri, run_id, capsys):
    files = ("--junit", "gate.xml", "--summary", "gate.md", "--summary", "./gate.xml")
    done = jrh("gate", run_id, "--require", HOLDS, *files, "--tracking-uri", store_uri, capsys=capsys)
    assert done.code == 2
    assert "--junit and --summary are the same file, 'gate.xml'" in done.err
    assert not Path("gate.xml").exists()


def test_the_summary_of_a_github_job_is_appended_to(store_uri, run_id, capsys, monkeypatch, tmp_path):
    summary = tmp_path / uuid4().hex
    summary.write_text("### Of another step")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    gate = ("gate", run_id, *of(HOLDS), "--no-log", "--tracking-uri", store_uri)
    for _ in range(2):
        assert jrh(*gate, "--summary", str(summary), "--summary", "own.md", capsys=capsys).code == 0
    lines = summary.read_text(encoding="utf-8").splitlines()
    assert lines[0] == "### Of another step"
    assert sum(line.startswith("# Gate: ") for line in lines) == 2
    assert Path("own.md").read_text(encoding="utf-8").count("# Gate: ") == 1
