"""Every configuration of a sweep has a short name, and a number or the reason why it has none."""

from __future__ import annotations

import re
import shlex
import signal
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner
from mlflow import MlflowClient

import jrh_mlflow as jrh
from jrh_mlflow.cli.main import group
from tests.processes import JRH, Forked
from tests.waiting import wait_until

WIDE = 100
LONG = ["hosted_vllm/organisation/model-with-a-very-long-name-and-a-date-2024-07-18", "hosted_vllm/organisation/other"]


def numbers(labels: list[str]) -> list[int]:
    return [int(re.match(r"#(\d+) ", label)[1]) for label in labels]


def test_names_are_numbered_and_have_only_what_differs() -> None:
    space = jrh.Space(
        models=LONG, temperatures=[0.0, 1.0], tie_criteria=["allowed", "strict"], orders=["one", "both"], replicates=[3]
    )
    labels = [point.label for point in space.configurations(pair=True)]
    assert sorted(numbers(labels)) == list(range(1, 17))
    assert "#16 other, strict, temp 1.0, both orders" in labels
    assert not any("replicate" in label or "rubric" in label for label in labels)
    assert max(map(len, labels)) < 75


def test_a_word_that_two_axes_have_is_said_with_its_axis() -> None:
    space = jrh.Space(choices={"prompt": ["strict", "mild"], "tone": ["strict", "kind"]}, judge=lambda _: None)
    labels = {point.label for point in space.configurations(pair=True)}
    assert labels == {
        "#1 prompt strict, tone strict",
        "#2 prompt strict, kind",
        "#3 mild, tone strict",
        "#4 mild, kind",
    }


JUDGES = """
import os, time
from pathlib import Path
import jrh_mlflow as jrh

def make(choice):
    if choice["model"] == "unpriced":
        return jrh.scripted.AlwaysTie()
    def judge(shown):
        with Path(os.environ["CALLS_FILE"]).open("a") as calls:
            calls.write(choice["model"] + "\\n")
        time.sleep(float(os.environ.get("PACE", "0")))
        right = choice["model"].startswith("good")
        return jrh.Answer("tie" if right else "1", cost_usd=choice["usd"])
    return judge
"""
SPACE = """
choices:
  model: [good-model-of-a-provider-with-a-long-name-2024-07-18, bad-model-of-a-provider-with-a-long-name, unpriced]
  usd: [0.001, 0.002]
judge: judges.py:make
orders: [one]
"""


@pytest.fixture
def command(tmp_path: Path, store_uri: str, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    (tmp_path / "judges.py").write_text(JUDGES, encoding="utf-8")
    (tmp_path / "space.yaml").write_text(SPACE, encoding="utf-8")
    jrh.datasheet_suite(n_tasks=4, depth=1).save(tmp_path / "suite")
    monkeypatch.setenv("CALLS_FILE", str(tmp_path / "calls.txt"))
    where = ["--suite", str(tmp_path / "suite"), "--tracking-uri", store_uri, "--experiment", tmp_path.name]
    return ["sweep", str(tmp_path / "space.yaml"), *where, "--max-replicates", "1", "--allow-code"]


def counted(text: str) -> tuple[int, int]:
    """Configurations, and the sum of what became of them."""
    found = re.search(r"(\d+) configurations: (.*?)\.", text, re.DOTALL)
    assert found
    return int(found[1]), sum(map(int, re.findall(r"\d+", found[2])))


def check_screen(text: str) -> None:
    """No line is too wide but those that are copied, and every configuration is on it."""
    wide = [line for line in text.splitlines() if len(line) > WIDE and not line.startswith("logged: ")]
    assert wide == []
    assert {int(number) for number in re.findall(r"#(\d+) ", text)} == {1, 2, 3, 4, 5, 6}
    assert counted(text) == (6, 6)


@pytest.mark.slow
def test_a_screen_names_every_configuration_with_its_number_or_the_reason_of_none(
    command: list[str], store_uri: str
) -> None:
    done = CliRunner().invoke(group, [*command, "--n-trials", "4"], catch_exceptions=False)
    assert done.exit_code == 0
    check_screen(done.stdout)
    markdown = CliRunner().invoke(group, [*command, "--n-trials", "4", "--markdown"], catch_exceptions=False).stdout
    assert counted(markdown) == (6, 6)
    assert re.search(r"\| #\d .* \| not tried \| .*n_trials", markdown)
    unpriced = re.findall(r"\| #[56] unpriced, .* \| (failed|not tried) \|", markdown)
    assert "failed" in unpriced
    assert len(unpriced) == 2


@pytest.mark.slow
@pytest.mark.parametrize("number", [pytest.param(signal.SIGINT, marks=pytest.mark.slow), signal.SIGTERM])
def test_a_signal_prints_what_was_measured_what_is_missing_and_how_to_go_on(
    command: list[str], tmp_path: Path, store_uri: str, number: signal.Signals, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PACE", "0.02")
    calls = tmp_path / "calls.txt"
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with Forked(JRH, *command, "--no-early-stop", **streams) as process:
        # A first configuration is measured when a second one is asked.
        wait_until(lambda: calls.exists() and len(set(calls.read_text().splitlines())) > 1)
        process.send_signal(number)
        stdout, stderr = process.communicate()
    assert process.returncode == (130 if number == signal.SIGINT else 143), stderr
    check_screen(stdout)
    assert re.search(r"#\d .*0\.\d\d \[", stdout), "a configuration has its number"
    assert {"interrupted", "not tried"} <= set(re.findall("interrupted|not tried", stdout))
    assert max(map(len, stderr.splitlines())) <= WIDE
    goes_on = shlex.split(stderr[stderr.index("jrh sweep") :].replace("\\\n", " "))
    assert goes_on == ["jrh", *command, "--no-early-stop"]
    client = MlflowClient(store_uri)
    where = [client.get_experiment_by_name(tmp_path.name).experiment_id]
    (parent,) = client.search_runs(where, "tags.`jrh.kind` = 'sweep'")
    assert parent.info.status == "KILLED"
