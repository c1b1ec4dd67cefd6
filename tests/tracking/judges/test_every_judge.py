"""Every judge of MLflow's is the same judge in every process: definition, fingerprint, state, export."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

import jrh_mlflow as jrh
from jrh_mlflow.schema.items import Item
from jrh_mlflow.tracking.judges.identity import differences
from jrh_mlflow.tracking.judges.scorers import MlflowJudge
from tests.tracking.judges.every_judge import MEASURED, every_judge, told_by_a_process
from tests.tracking.judges.mlflow_chat import chatting, verdict

SEEDS = (1, 2)
SUITE = jrh.Suite(
    name="two responses",
    items=[
        Item(id=name, task=name, condition="baseline", kind="response", instruction="Name a prime.", response=name,
             expected="yes", answers=("no", "yes"))
        for name in ("seven", "nine")
    ],
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_every_judge_is_the_measured_one_in_new_processes_with_other_hash_seeds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri, judges = f"sqlite:///{tmp_path}/judges.db", every_judge()
    with chatting(monkeypatch) as server:
        server.reply = lambda _: verdict("yes")
        for name in MEASURED:
            done = jrh.evaluate(judges[name], SUITE, tracking_uri=uri, traces="none")
            assert len(done.calls) == 2
    # One new process beside this one, whose hash seed is another.
    definitions, states = json.loads(told_by_a_process(SEEDS[0], uri))
    assert states == {name: ["measured"] * 3 for name in MEASURED}
    for name, (definition, fingerprint, *again) in definitions.items():
        assert definition, name
        assert fingerprint, name
        assert [definition, fingerprint] == again, name
    here = {name: MlflowJudge.unchecked(judge) for name, judge in judges.items()}
    for name, judge in here.items():
        assert json.dumps(judge.definition()) == json.dumps(definitions[name][0])
        assert judge.fingerprint() == definitions[name][1]
    # What says something of a judge, and nothing to it, is no part of what it is.
    assert differences(here["Safety"].definition() or {}, here["described"].definition() or {}) == ()


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("library", ["deepeval", "ragas"])
def test_metrics_of_other_libraries_are_the_same_judges_in_new_processes(library: str, tmp_path: Path) -> None:
    """`make test-all` installs the libraries into an environment of their own, and names its Python."""
    python, store = os.environ.get("JRH_TESTS_WRAPPED", sys.executable), f"sqlite:///{tmp_path}/none.db"
    told = [told_by_a_process(seed, store, library, python=python) for seed in SEEDS]
    assert len(set(told)) == 1
    definitions, _ = json.loads(told[0])
    for name, (definition, fingerprint, *again) in definitions.items():
        assert [definition, fingerprint] == again, name
        (scorer,) = definition["scorers"]
        assert scorer["third_party_scorer_data"]["library_version"], name
    asked = definitions.get("AnswerRelevancy")
    if asked:
        assert asked[0]["models"] == ["openai:/gpt-4o-mini"]
        assert asked[0]["scorers"][0]["third_party_scorer_data"]["kwargs"]["model_kwargs"] == {"temperature": 0.3}
