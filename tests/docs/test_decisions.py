"""docs/howto/decisions.md: comparisons, gates, `passed`, `until` and plans, as printed."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import mlflow
import pandas as pd
import pytest

import jrh_mlflow as jrh
from jrh_mlflow.decisions import planning
from jrh_mlflow.stats import power
from tests.docs.blocks import ROOT
from tests.docs.printed import Printed
from tests.docs.world import World
from tests.people.test_passed_mlflow import SAID, TRUE, polite, ratings
from tests.tracking.judges.mlflow_chat import compare
from tests.tracking.traces.trace_tools import logging_traces

# Of MLflow's own imports, and of judges that are not measured.
pytestmark = pytest.mark.filterwarnings("ignore")


def answer(question: str) -> str:
    return "please" if int(question) % 3 == 0 else "no"


def test_every_line_of_the_page_on_decisions_runs_in_its_order(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = replace(world, folder=tmp_path)
    here.enter(monkeypatch)
    # The page plans the same more than once.
    for name in ("expected_interval", "simulated_power"):
        known = cache(getattr(power, name))
        monkeypatch.setattr(power, name, known)
        monkeypatch.setattr(planning, name, known)
    compare(name="closer").register()
    ratings().to_csv("ratings.csv", index=False)
    # Rules that hold need all tasks.
    done = jrh.evaluate(jrh.scripted.Oracle(), jrh.datasheet_suite(depth=1), progress=False, traces="none")
    profiles = [jrh.scripted.profile(name) for name in ("Llama8B", "Qwen14B", "Qwen32B", "Qwen32B_strict")]
    runs = [jrh.evaluate(judge, "datasheet", progress=False, traces="none").run_id for judge in profiles]
    names: dict[str, Any] = {"jrh": jrh, "mlflow": mlflow, "done": done, "judge": jrh.scripted.Oracle()}
    names |= dict(zip("abcd", runs, strict=True))
    rows = [{"inputs": {"question": str(place)}} for place in range(20)]
    names |= {"rows": rows, "answer": mlflow.trace(answer), "polite": polite}
    names |= {"result": [True] * 100, "judge_run": pd.DataFrame({"judge": SAID, "human": TRUE})}

    def gated(policy: Path) -> None:
        text = policy.read_text(encoding="utf-8")
        policy.write_text(text.replace("3f2a9c01b71d4e22", runs[3]), encoding="utf-8")
        assert len(jrh.gate(runs[1], policy=policy, log=False).checks) == 2

    page = Printed(
        "docs/howto/decisions.md",
        here,
        names=names,
        words={"RUN": runs, "MAIN_RUN": runs[3], "SCORER": "scorers:/closer", "NAME": "openai/gpt-4o-mini"},
        exits={"jrh gate": 1},
        readers=[("gate.yaml", gated)],
    ).run()
    assert Path("gate.xml").is_file()
    with logging_traces(here.uri, "answers"):
        # What is compiled here is not rewritten by pytest: the message it would show is made below.
        with pytest.raises(AssertionError):
            page.names["test_answers_are_polite"]()
        (run,) = here.client.search_runs([here.client.get_experiment_by_name("answers").experiment_id])
        gate = jrh.passed(run.info.run_id, page.names["agreement"].run_id, max_failure=0.2, sampling="stratified")
    assert f"AssertionError: assert {gate!r}" in (ROOT / page.page).read_text(encoding="utf-8")
