"""Pages of how to on MLflow: judges of MLflow, exported scorers, states of judges, registries; each as printed."""

from __future__ import annotations

import json
import re
from functools import partial
from pathlib import Path
from typing import Any, Literal

import pytest
from click.testing import CliRunner
from mlflow.genai import make_judge
from mlflow.genai.scorers import scorer

import jrh_mlflow as jrh
from jrh_mlflow.cli.main import group
from jrh_mlflow.measuring import resolve
from tests.docs.blocks import ROOT, blocks
from tests.docs.printed import Printed
from tests.docs.world import World
from tests.tracking.judges.mlflow_chat import MODEL, compare

PAGE = "docs/howto/mlflow.md"
PAIR = {"inputs": {"instruction": "Which?"}, "outputs": {"A": "this", "B": "that"}}
RUN = "3f2a9c01"
"""Stands for a run in the text."""
# Of MLflow's own imports, and of judges that are not measured.
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


@pytest.fixture(scope="module")
def closer(world: World) -> None:
    """Register the judge of the first lines."""
    compare(name="closer").register()


def test_five_lines_lead_from_a_registered_judge_to_its_datasheet_and_back(
    world: World, closer: None, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = blocks(PAGE)[0].text
    assert len([line for line in lines.splitlines() if line.strip()]) == 5
    names: dict[str, Any] = {}
    before = world.server.counts["requests"]
    exec(lines, names)
    done: jrh.Evaluation = names["done"]
    assert world.server.counts["requests"] - before == len(done.calls)
    assert world.client.get_run(done.run_id).data.params["judge.registered_name"] == "closer"
    assert done.metrics["dark_current/rate"] == 1.0, "the server always says A"
    shown = capsys.readouterr().out
    assert "dark current | 1.00" in shown
    assert done.link in shown
    feedback = names["closer"](**PAIR)
    assert feedback.metadata["jrh.datasheet_run_id"] == done.run_id
    assert feedback.metadata["jrh.status"] == "measured"
    beginning = (ROOT / PAGE).read_text(encoding="utf-8").partition("\n## ")[0]
    status = re.findall(r"`jrh (status [^`]+)`", beginning)[0]
    assert CliRunner().invoke(group, [*status.split(), "--check"]).exit_code == 0


@scorer
def polite(outputs: Any) -> bool:
    return "please" in str(outputs)


def helpful(words: str) -> Any:
    text = f"Is the answer in {{{{ outputs }}}} to {{{{ inputs }}}} {words}?"
    return make_judge(name="helpful", instructions=text, model=MODEL, feedback_value_type=Literal["yes", "no"])


@pytest.fixture(scope="module")
def named(world: World, closer: None) -> dict[str, Any]:
    """What the pages take for granted: rows, runs, a sweep, a judge that was changed since it was measured, files."""
    judged = partial(jrh.evaluate, progress=False, traces="none")
    helpful("helpful").register()
    judged("scorers:/helpful", "pointwise-datasheet")
    helpful("of any help").register()
    Path("mine.txt").write_text("Which is better by {rubric}?\n{candidates}\n{format}\n", encoding="utf-8")
    responses = resolve.load_suite("pointwise-datasheet")
    jrh.Suite(name="my_suite", items=responses.items[:4]).save("my_suite")
    rows = [
        {"instruction": f"Explain {what}.", "response": f"So is {what}.", "label": label, "context": f"All of {what}."}
        for what, label in (("tides", "yes"), ("wind", "no"), ("rain", "yes"))
    ]
    Path("answers.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    ladder = [item for item in jrh.datasheet_suite(n_tasks=4, depth=2).items if item.condition == "ladder"]
    pairs = jrh.Suite(name="pairs", items=list({item.task: item for item in ladder}.values()))
    runs = [judged(jrh.PromptedJudge("openai/gpt-4o-mini", seed=n), pairs).run_id for n in range(3)]
    runs.append(judged("openai/gpt-4o-mini", "my_suite").run_id)
    space = {"models": ["openai/gpt-4o-mini"], "replicates": [1], "orders": ["one"]}
    sweep = jrh.sweep(space, pairs, n_trials=1, progress=False)
    names = dict(zip(("run_a", "run_b", "run_c", "run"), runs, strict=True))
    return {**names, "data": [PAIR], "sweep": sweep, "polite": polite, "scorer": jrh.to_mlflow(names["run_a"])}


def test_whether_it_is_still_the_judge_that_was_measured(world: World, named: dict[str, Any]) -> None:
    page = Printed("docs/howto/status.md", world, names=named, words={RUN: named["run"][:8]}, shown=True).run()
    assert page.names["status"].state == "stale"


def test_judges_of_mlflow(world: World, named: dict[str, Any]) -> None:
    page = Printed(PAGE, world, names=named).run()
    assert page.names["done"].metrics["calls/error"] == 0


def test_the_use_of_a_measured_judge(world: World, named: dict[str, Any]) -> None:
    Printed("docs/howto/use_in_mlflow.md", world, names=named, shown=True).run()


def test_prompts_and_datasets_in_registries(world: World, named: dict[str, Any]) -> None:
    page = Printed("docs/howto/registries.md", world, names=named).run()
    assert page.names["uri"].startswith("prompts:/judge/")
