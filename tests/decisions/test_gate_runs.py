"""A gate in a real store: its own run, and the tags, page and description of the run that was gated."""

from __future__ import annotations

from dataclasses import replace

import pytest
from mlflow import MlflowClient

import jrh_mlflow as jrh
from jrh_mlflow.decisions.gate_result import Gate, log_gate
from jrh_mlflow.errors import TrackingError
from jrh_mlflow.measures.rules import RuleCheck, State, parse_rule
from jrh_mlflow.tracking.runs.read import run_file
from jrh_mlflow.tracking.runs.store import Store
from tests.comparing.test_compare import pointwise_suite
from tests.logged_runs import json_of


@pytest.fixture(scope="module")
def gated(store_uri: str) -> str:
    options = {"experiment": "gates", "tracking_uri": store_uri, "progress": False}
    return jrh.evaluate(jrh.scripted.Oracle(), pointwise_suite(), **options).run_id


def check(rule: str, state: State) -> RuleCheck:
    reason = "the interval lies so"
    return RuleCheck(rule=parse_rule(rule), state=state, estimate=0.05, low=0.01, high=0.12, reason=reason, n=90)


def gate(gated: str | None, **rules: State) -> Gate:
    results = tuple(check(f"{axis} <= 0.1", state) for axis, state in rules.items())
    return Gate(results=results, subject="Oracle on few", gated_run=gated, simulated=True)


def test_a_gate_is_a_run_of_its_own_beside_the_run_that_was_gated(store_uri, gated):
    baseline = "b" * 32
    done = log_gate(replace(gate(gated, one="holds", two="fails"), baseline_run=baseline), tracking_uri=store_uri)
    client = MlflowClient(store_uri)
    run, judged = client.get_run(done.run_id), client.get_run(gated)
    assert (run.info.status, run.info.run_name) == ("FINISHED", "gate: Oracle on few")
    assert run.info.experiment_id == judged.info.experiment_id
    assert (run.data.tags["jrh.kind"], run.data.tags["jrh.simulated"]) == ("gate", "true")
    assert run.data.metrics == {"gate/holds": 1, "gate/fails": 1, "gate/undecided": 0, "gate/passed": 0}
    assert run.data.params["gate.rules"] == "one <= 0.1; two <= 0.1"
    assert (run.data.params["gate.run"], run.data.params["gate.baseline"]) == (gated, baseline)
    assert json_of(store_uri, done.run_id, "gate.json") == done.to_dict()
    untitled = done.to_markdown().partition("\n\n")[2]
    assert run.data.tags["mlflow.note.content"].endswith(
        f"(jrh/run/{done.run_id}), where `jrh ui` serves it.\n\n{untitled}"
    )
    assert run_file(store_uri, done.run_id, "gate.md").decode() == done.to_markdown()
    assert done.run_id in done.link
    assert done.link in done.to_markdown()
    assert done.link in done.to_junit()


def test_the_gated_run_says_and_shows_its_newest_gate_and_keeps_its_numbers(store_uri, gated):
    client = MlflowClient(store_uri)
    before = client.get_run(gated).data
    for state in ("fails", "holds"):
        done = log_gate(gate(gated, **{f"that_{state}": state}), tracking_uri=store_uri)
    after = client.get_run(gated).data
    assert (after.tags["jrh.gate"], after.tags["jrh.gate_run"]) == ("passed: 1 of 1 rules hold", done.run_id)
    assert (after.metrics, after.params) == (before.metrics, before.params)
    for name in ("datasheet.html", "datasheet.md"):
        shown = run_file(store_uri, gated, name).decode()
        assert "that_holds &lt;= 0.1" in shown or "that_holds <= 0.1" in shown
        assert "that_fails" not in shown


def test_the_name_of_a_run_moves_no_cursor(store_uri, gated):
    done = log_gate(replace(gate(gated, one="holds"), subject="red\x1b[31m\njudge  x"), tracking_uri=store_uri)
    assert MlflowClient(store_uri).get_run(done.run_id).info.run_name == "gate: red [31m judge x"


def test_an_undecided_gate_has_no_metric_that_says_it_passed(store_uri, gated):
    done = log_gate(gate(gated, one="undecided", two="holds"), tracking_uri=store_uri)
    assert MlflowClient(store_uri).get_run(done.run_id).data.metrics == {
        "gate/holds": 1,
        "gate/fails": 0,
        "gate/undecided": 1,
    }


def test_rules_that_no_param_could_hold_are_in_the_artifact(store_uri, gated):
    many = gate(gated, **{f"axis_{number}_{'x' * 90}": "holds" for number in range(60)})
    done = log_gate(many, tracking_uri=store_uri)
    assert MlflowClient(store_uri).get_run(done.run_id).data.params["gate.rules"] == "60 rules, in gate.json"
    assert len(json_of(store_uri, done.run_id, "gate.json")["checks"]) == 60


def test_a_run_that_cannot_be_marked_leaves_the_gate_logged_and_says_so(store_uri, gated, monkeypatch):
    write = Store.log_batch

    def log_batch(self, run_id, **content):
        if run_id == gated:
            raise OSError("read-only")
        write(self, run_id, **content)

    monkeypatch.setattr(Store, "log_batch", log_batch)
    with pytest.raises(TrackingError, match=r"The gate is logged as run [0-9a-f]{32}"):
        log_gate(gate(gated, one="holds"), tracking_uri=store_uri)
