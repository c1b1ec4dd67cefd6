"""README's five lines on MLflow's judges, and all Python and `jrh` commands of docs/howto/mlflow.md, run as printed.

The built-in suites are cut to one task here: what the lines do is the same, and each call takes its time.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

import mlflow
import pytest
from click.testing import CliRunner
from mlflow.genai import make_judge
from mlflow.genai.scorers import scorer

import jrh_mlflow as jrh
from jrh_mlflow import resolve
from jrh_mlflow.cli.main import group
from tests.loopback import LoopbackServer, verdict
from tests.tracking.mlflow_chat import MODEL, compare
from tests.tracking.mlflow_chat import verdict as said

ROOT = Path(__file__).parents[1]
PAIR = {"inputs": {"instruction": "Which?"}, "outputs": {"A": "this", "B": "that"}}
SUITES: dict[str, Any] = {"datasheet": "spread", "datasheet-short": "short", "pointwise-datasheet": "pointwise"}
RUN = "3f2a9c01"
"""Stands for a run in the text."""
# Of MLflow's own imports, and of judges that are not measured.
pytestmark = [pytest.mark.usefixtures("undrawn"), pytest.mark.filterwarnings("ignore")]


def blocks(text: str) -> list[tuple[str, str]]:
    """Language and lines of every piece of code."""
    return re.findall(r"^```(\w+)\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def commands(lines: str) -> list[list[str]]:
    """Arguments of every `jrh` command."""
    split = [shlex.split(line, comments=True) for line in lines.splitlines()]
    return [words[1:] for words in split if words[:1] == ["jrh"]]


def reply(body: dict[str, Any]) -> str:
    """Say `A`, or what else is asked for; a rewrite is asked for without any form."""
    if "response_format" in body:
        return verdict()(body)
    return said("yes") if "rationale" in str(body["messages"]) else "It is quite another answer, and a longer one."


@pytest.fixture(scope="module")
def here(store_uri: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SimpleNamespace]:
    """An experiment `support` in the active store, a model that answers, and small suites under the usual names."""
    with pytest.MonkeyPatch.context() as patch, LoopbackServer(reply=reply) as server:
        patch.chdir(folder := tmp_path_factory.mktemp("work"))
        for name, value in {
            "OPENAI_API_BASE": server.url,
            "OPENAI_API_KEY": "sk-loopback",
            "MLFLOW_TRACKING_URI": store_uri,
            "MLFLOW_EXPERIMENT_NAME": "support",
            "MLFLOW_GENAI_EVAL_MAX_WORKERS": "1",
            "MLFLOW_GENAI_EVAL_SKIP_TRACE_VALIDATION": "true",
        }.items():
            patch.setenv(name, value)
        for name, design in SUITES.items():
            small = partial(jrh.datasheet_suite, n_tasks=1, depth=2, design=design, name=name)
            patch.setitem(resolve.BUILT_IN, name, small)
        resolve._built_in.cache_clear()
        mlflow.set_tracking_uri(store_uri)
        mlflow.set_experiment("support")
        yield SimpleNamespace(server=server, client=mlflow.MlflowClient(), folder=folder)
        jrh.autolog(disable=True)
        resolve._built_in.cache_clear()


def test_five_lines_lead_from_a_registered_judge_to_its_datasheet_and_back(
    here: SimpleNamespace, capsys: pytest.CaptureFixture[str]
) -> None:
    section = (ROOT / "README.md").read_text(encoding="utf-8").partition("\n### MLflow judges and scorers\n")[2]
    lines = blocks(section)[0][1]
    assert len([line for line in lines.splitlines() if line.strip()]) == 5
    compare(name="closer").register()
    names: dict[str, Any] = {}
    before = here.server.counts["requests"]
    exec(lines, names)
    done: jrh.Evaluation = names["done"]
    assert here.server.counts["requests"] - before == len(done.calls)
    assert here.client.get_run(done.run_id).data.params["judge.registered_name"] == "closer"
    assert done.metrics["dark_current/rate"] == 1.0, "the server always says A"
    shown = capsys.readouterr().out
    assert "dark current | 1.0000" in shown
    assert done.link in shown
    feedback = names["closer"](**PAIR)
    assert feedback.metadata["jrh.datasheet_run_id"] == done.run_id
    assert feedback.metadata["jrh.status"] == "measured"
    [status] = re.findall(r"`jrh (status [^`]+)`", section.partition("\n## ")[0])
    assert CliRunner().invoke(group, [*status.split(), "--check"]).exit_code == 0


@scorer
def polite(outputs: Any) -> bool:
    return "please" in str(outputs)


def helpful(words: str) -> Any:
    text = f"Is the answer in {{{{ outputs }}}} to {{{{ inputs }}}} {words}?"
    return make_judge(name="helpful", instructions=text, model=MODEL, feedback_value_type=Literal["yes", "no"])


@pytest.fixture(scope="module")
def named(here: SimpleNamespace) -> dict[str, Any]:
    """What the lines of docs/howto/mlflow.md take for granted: rows, runs, a sweep, a registered judge, files."""
    for words in ("helpful", "of any help"):
        helpful(words).register()
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
    judged = partial(jrh.evaluate, progress=False, traces="none")
    runs = [judged(jrh.PromptedJudge("openai/gpt-4o-mini", seed=n), pairs).run_id for n in range(3)]
    runs.append(judged("openai/gpt-4o-mini", "my_suite").run_id)
    space = {"models": ["openai/gpt-4o-mini"], "replicates": [1], "orders": ["one"]}
    sweep = jrh.sweep(space, pairs, n_trials=1, progress=False)
    names = dict(zip(("run_a", "run_b", "run_c", "run"), runs, strict=True))
    return {**names, "data": [PAIR], "sweep": sweep, "polite": polite}


def test_every_line_of_the_page_on_mlflow_runs_in_its_order(
    here: SimpleNamespace, named: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(here.folder)
    n = 0
    for language, lines in blocks((ROOT / "docs" / "howto" / "mlflow.md").read_text(encoding="utf-8")):
        if language == "python":
            exec(lines, named)
        for arguments in commands(lines.replace(RUN, named["run"][:8])) if language == "sh" else ():
            done = CliRunner().invoke(group, arguments)
            assert done.exit_code == 0, (arguments, done.output, done.exception)
        n += language in ("python", "sh")
    assert n > 8
