"""What the README's section on judges and people shows runs as it is printed, on the rated traces."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import mlflow
import pytest

import jrh_mlflow as jrh
from jrh_mlflow.schema.estimates import Estimate
from tests.people import command
from tests.people.loopback_judge import AddsGuideline, judging, lenient_judge
from tests.people.rated_store import RatedStore

SECTION = re.search(
    r"^## Judges and people\n(.*?)^## ",
    (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8"),
    re.MULTILINE | re.DOTALL,
)


def blocks(language: str) -> str:
    """The code of one language in the section."""
    assert SECTION is not None
    return "\n".join(re.findall(rf"```{language}\n(.*?)```", SECTION[1], re.DOTALL))


@pytest.fixture
def active(rated: RatedStore, monkeypatch: pytest.MonkeyPatch) -> RatedStore:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", rated.uri)
    return rated


def test_every_command_of_the_section_runs(active: RatedStore, capsys: pytest.CaptureFixture[str]) -> None:
    lines = [shlex.split(line, comments=True) for line in blocks("sh").splitlines()]
    assert {words[1] for words in lines} == {"agree", "correct", "align"}
    for words in lines:
        done = command.jrh(*words[1:], capsys=capsys)
        assert (done.code, words[0]) == (0, "jrh"), done


def test_the_lines_of_python_run_in_turn(active: RatedStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_GENAI_EVAL_MAX_WORKERS", "2")
    answers = [
        {"inputs": {"question": row.question}, "outputs": row.answer} for row in active.traces.head(20).itertuples()
    ]
    with judging(active, monkeypatch):
        names: dict[str, Any] = {"mlflow": mlflow, "jrh": jrh, "answers": answers, "judge": lenient_judge()}
        names |= {"traces": [], "optimizer": AddsGuideline()}
        exec(blocks("python"), names)
    assert isinstance(names["agreement"].estimates["agreement/accuracy"], Estimate)
