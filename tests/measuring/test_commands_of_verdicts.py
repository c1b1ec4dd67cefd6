"""Commands of a verdict: they ask the same model with one change, and the command line takes them as they are."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import jrh_mlflow as jrh
from jrh_mlflow.cli.main import group
from jrh_mlflow.measures.verdict import LIMITS, JudgeContext
from jrh_mlflow.measuring.evaluation import judged_by
from jrh_mlflow.measuring.measured import JudgeFacts
from jrh_mlflow.measuring.recorded.answers import RecordedJudge

MODEL = "openai/gpt-4o-mini"
SUITE = jrh.load_suite("datasheet")


def context(judge: jrh.Judge, suite: jrh.Suite = SUITE) -> JudgeContext:
    return judged_by(JudgeFacts.of(judge), suite.name, "f00")


def prompted(**settings: Any) -> JudgeContext:
    return context(jrh.PromptedJudge(MODEL, **settings))


@pytest.mark.parametrize("change", [*sorted({limit.change for limit in LIMITS.values()} - {""}), "--replicates 2"])
def test_every_command_is_one_that_the_command_line_takes(
    change: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    command = prompted(tie_criterion="forced", temperature=0.7, answer_style="digits").changed(change)
    program, *arguments = shlex.split(command)
    done = CliRunner().invoke(group, [*arguments, "--dry-run"])
    assert (program, done.exit_code) == ("jrh", 0), done.output


def test_a_command_keeps_what_else_makes_the_judge() -> None:
    assert prompted().changed("--replicates 2") == f"jrh evaluate --model {MODEL} --replicates 2"
    kept = prompted(tie_criterion="strict", temperature=0.7).changed("--replicates 2")
    assert kept == f"jrh evaluate --model {MODEL} --criterion strict --temperature 0.7 --replicates 2"
    assert prompted(tie_criterion="forced").changed("--criterion allowed").count("--criterion") == 1
    own = context(jrh.PromptedJudge(MODEL), jrh.load_suite("datasheet-short"))
    assert own.changed("--replicates 2") == f"jrh evaluate --model {MODEL} --suite runs:/f00/suite --replicates 2"


def test_no_command_is_given_where_it_would_change_nothing_or_lose_a_text() -> None:
    assert prompted().changed("--criterion allowed") == prompted().changed("--temperature 0") == ""
    assert prompted(tie_criterion="strict").changed("--criterion strict") == ""
    assert prompted(rubric="Be kind.").changed('--rubric "Only substance."') == ""


@pytest.mark.parametrize("rubric", ["Look for `SELECT`.", "First.\nSecond.", "Two  blanks.", r"A \ in it."])
def test_no_command_is_given_that_a_line_of_code_would_garble(rubric: str) -> None:
    assert prompted(rubric=rubric).changed("--replicates 2") == ""
    assert shlex.split(prompted(rubric="Be kind.").changed("--replicates 2"))[-4:-2] == ["--rubric", "Be kind."]


@pytest.mark.parametrize(
    "judge", [jrh.scripted.LongerWins(), RecordedJudge("forced"), jrh.PromptedJudge(MODEL, tie_criterion="Own words.")]
)
def test_a_judge_that_no_option_changes_has_no_command(judge: jrh.Judge) -> None:
    assert context(judge).changed("--replicates 2") == ""
