"""The workflow that gates a judge in CI: its form by GitHub's own schema, its steps in a real shell."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import yaml
from check_jsonschema.cli.main_command import main as check_jsonschema
from click.testing import CliRunner
from junitparser import JUnitXml

import jrh_mlflow as jrh
from jrh_mlflow.decisions.gate import read_policy
from jrh_mlflow.measures.rules import FactRule
from tests.loopback import LoopbackServer, verdict
from tests.readings import asked
from tests.shell import Shell

ROOT = Path(__file__).parent.parent
WORKFLOW = ROOT / "recipes" / "github_gate.yaml"
PROMPT = (Path(jrh.__file__).parent / "judges" / "prompts" / "pairwise.txt").read_text(encoding="utf-8")
POLICY = "require: [dark_current <= 0.3, raw_false_preference <= 0.3]\n"
LEANS = "When in doubt, take the first."


def workflow() -> dict[str, Any]:
    # YAML 1.1 reads a bare `on` as true, and GitHub does not.
    read = yaml.safe_load(WORKFLOW.read_text(encoding="utf-8"))
    return {"on" if key is True else key: value for key, value in read.items()}


STEPS: list[dict[str, Any]] = workflow()["jobs"]["gate"]["steps"]


def by_githubs_schema(path: Path) -> int:
    return CliRunner().invoke(check_jsonschema, ["--builtin-schema", "vendor.github-workflows", str(path)]).exit_code


def test_the_workflow_passes_githubs_own_schema(tmp_path: Path) -> None:
    assert by_githubs_schema(WORKFLOW) == 0
    broken = tmp_path / "broken.yaml"
    broken.write_text(WORKFLOW.read_text(encoding="utf-8").replace("runs-on:", "run-on:"), encoding="utf-8")
    assert by_githubs_schema(broken) == 1


def test_it_runs_when_the_judge_changes_and_may_only_read() -> None:
    written = workflow()
    for event in ("pull_request", "push"):
        assert "judge/**" in written["on"][event]["paths"]
    assert "pull_request_target" not in written["on"]
    assert written["permissions"] == {"contents": "read"}


def test_actions_and_the_package_are_pinned() -> None:
    lines = [line for line in WORKFLOW.read_text(encoding="utf-8").splitlines() if "uses:" in line]
    assert len(lines) == 6
    for line in lines:
        assert re.search(r"uses: actions/[a-z/-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$", line), line
    assert f'pip install "jrh-mlflow=={version("jrh-mlflow")}"' in [step.get("run") for step in STEPS]


def test_no_text_of_a_pull_request_becomes_a_part_of_a_script_and_keys_are_where_a_judge_is_asked() -> None:
    for step in STEPS:
        assert "${{" not in step.get("run", "")
        assert ("secrets." in str(step.get("env"))) == ("jrh evaluate" in step.get("run", ""))


def test_answers_are_kept_under_the_key_they_are_looked_for_whatever_the_gate_says() -> None:
    restored, kept = (step for step in STEPS if "actions/cache" in step.get("uses", ""))
    assert kept["if"] == "always()"
    assert restored["with"]["path"] == kept["with"]["path"] == workflow()["env"]["JRH_HOME"]
    assert restored["with"]["key"] == kept["with"]["key"]
    assert kept["with"]["key"].startswith(restored["with"]["restore-keys"])
    (results,) = (step for step in STEPS if "upload-artifact" in step.get("uses", ""))
    assert results["if"] == "always()"
    assert {"gate.xml", "gate.md"} <= set(results["with"]["path"].split())


@dataclass
class Runner:
    """What GitHub does with the steps that run commands, in the folder of a checkout."""

    shell: Shell
    folder: Path
    store: str
    summary: str = ""
    printed: str = ""

    def run(self) -> int:
        """Run the steps in turn; return the exit code of the first that fails, or 0."""
        summary = self.folder / "summary"
        summary.write_text("Of an earlier step.\n")
        env = {
            **{name: str(value) for name, value in workflow()["env"].items() if "${{" not in str(value)},
            "MLFLOW_TRACKING_URI": self.store,
            "OPENAI_API_KEY": "sk-of-this-test",
            "GITHUB_STEP_SUMMARY": str(summary),
            "GITHUB_HEAD_REF": "topic/$(touch stolen)",
            "GITHUB_REF_NAME": "7/merge",
        }
        for step in STEPS:
            if "jrh " not in step.get("run", "") or not self._is_wanted(step.get("if")):
                continue
            done = self.shell.run(step["run"], cwd=self.folder, env=env)
            self.printed, self.summary = done.stdout + done.stderr, summary.read_text()
            if done.returncode:
                return done.returncode
        return 0

    def _is_wanted(self, condition: str | None) -> bool:
        if condition is None:
            return True
        found = re.fullmatch(r"hashFiles\('(.+)'\) != ''", condition)
        assert found, condition
        return (self.folder / found[1]).is_file()

    def write(self, where: str, *, server: LoopbackServer, prompt: str) -> None:
        folder = self.folder / where
        folder.mkdir(parents=True, exist_ok=True)
        judge = {"model": "openai/of-this-test", "prompt": "prompt.txt", "api_base": server.url}
        written = {"judge": judge, "suite": "datasheet-short", "traces": "none"}
        (folder / "judge.yaml").write_text(yaml.safe_dump(written), encoding="utf-8")
        (folder / "prompt.txt").write_text(prompt, encoding="utf-8")
        (folder / "gate.yaml").write_text(POLICY, encoding="utf-8")


@pytest.fixture(scope="module")
def shell() -> Iterator[Shell]:
    with Shell() as shell:
        yield shell


@pytest.fixture
def server() -> Iterator[LoopbackServer]:
    def answer(body: dict[str, Any]) -> Any:
        return verdict("1" if LEANS in json.dumps(body["messages"]) else "tie")(body)

    with LoopbackServer(reply=answer, key="sk-of-this-test") as server:
        yield server


def test_a_pull_request_is_compared_with_main_and_nothing_is_paid_twice(
    shell: Shell, server: LoopbackServer, store_uri: str, tmp_path: Path
) -> None:
    runner = Runner(shell, tmp_path, store_uri)
    for where in ("judge", "main/judge"):
        runner.write(where, server=server, prompt=PROMPT)
    assert runner.run() == 0, runner.printed
    assert server.counts["requests"] == 128, "the judge of main is the same, and its answers are in the journal"
    assert "`target_sensitivity/delta_1 - baseline >= -0.2` | holds" in runner.summary
    assert runner.summary.startswith("Of an earlier step.\n")
    assert not (tmp_path / "stolen").exists(), "the name of a branch is no command"


@pytest.mark.slow
def test_a_worse_prompt_fails_the_job_where_main_has_no_judge_to_compare_with(
    shell: Shell, server: LoopbackServer, store_uri: str, tmp_path: Path
) -> None:
    runner = Runner(shell, tmp_path, store_uri)
    runner.write("judge", server=server, prompt=f"{PROMPT}\n{LEANS}\n")
    assert runner.run() == 1, runner.printed
    assert "`dark_current <= 0.3` | fails" in runner.summary
    assert "baseline" not in runner.summary
    (suite,) = JUnitXml.fromfile(str(tmp_path / "gate.xml"))
    assert (suite.tests, suite.failures) == (2, 2)
    assert (tmp_path / "gate.md").read_text(encoding="utf-8") in runner.summary


def test_a_faultless_judge_passes_the_policy_of_the_recipes(store_uri: str) -> None:
    options = {"tracking_uri": store_uri, "experiment": "policy", "progress": False}
    faultless = jrh.evaluate(jrh.scripted.Oracle(), "datasheet", **options)
    gate = jrh.gate(faultless, policy=ROOT / "recipes" / "gate.yaml", log=False)
    assert gate.passed is True, gate.reason
    assert round(float(gate.checks["high"][0]), 2) == 0.08, "as the comment says of the least limit that can hold"


@pytest.mark.parametrize("suite", ["datasheet-paper", "datasheet-short"])
def test_the_policy_of_the_recipes_fits_every_datasheet_suite(suite: str) -> None:
    rules = read_policy(ROOT / "recipes" / "gate.yaml").require
    readings = jrh.measure(asked(jrh.scripted.Oracle(), jrh.load_suite(suite))).estimates
    for rule in rules:
        rule.check_known(readings, [rule.axis] if isinstance(rule, FactRule) else ())
