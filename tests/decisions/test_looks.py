"""Asking again: a further look at the same judge, suite and rule decides at less, and the same answers are no look."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import jrh_mlflow as jrh
from jrh_mlflow.decisions.gate import JudgeCalls, RunEvidence, look_level
from jrh_mlflow.measures.rules import parse_rules
from tests.decisions.test_lost_calls import calls

RULE = "target_sensitivity/delta_1 >= 0.5"


@pytest.fixture
def options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, object]:
    monkeypatch.setenv("JRH_HOME", str(tmp_path / "home"))
    uri = f"sqlite:///{tmp_path / 'mlflow.db'}"
    return {"experiment": "looks", "tracking_uri": uri, "progress": False, "traces": "none"}


def looks(gate: jrh.Gate) -> list[int]:
    return [check.look for check in gate.results]


@pytest.mark.slow
def test_more_tasks_are_a_further_look_and_the_same_answers_are_none(options):
    judge = jrh.scripted.Noisy(seed=3)
    runs = [jrh.evaluate(judge, jrh.datasheet_suite(n_tasks=n, depth=1), **options) for n in (4, 6)]
    again = jrh.evaluate(judge, jrh.datasheet_suite(n_tasks=4, depth=1), **options)
    other = jrh.evaluate(jrh.scripted.Noisy(seed=4), jrh.datasheet_suite(n_tasks=4, depth=1), **options)
    assert looks(jrh.gate(runs[0], RULE, log=False)) == [1]
    assert looks(jrh.gate(runs[1], RULE, log=False)) == [1], "what was not logged is not known"
    first = jrh.gate(runs[0], RULE)
    assert (looks(first), first.notes[1:]) == ([1], ())
    assert looks(jrh.gate(runs[0], RULE)) == [1]
    assert looks(jrh.gate(again, RULE)) == [1], "the same answers"
    second = jrh.gate(runs[1], [RULE, "dark_current <= 0.5"])
    assert looks(second) == [2, 1], "another rule is looked at for the first time"
    assert any("0.0083" in note for note in second.notes)
    assert "0.0083" in second.results[0].reason
    assert looks(jrh.gate(runs[0], RULE)) == [1]
    assert looks(jrh.gate(other, RULE)) == [1], "another judge"
    third = jrh.gate(jrh.evaluate(judge, jrh.datasheet_suite(n_tasks=5, depth=1), **options), RULE)
    assert looks(third) == [3]
    assert "0.0042" in third.to_markdown()


def test_a_later_look_decides_at_less():
    judge = JudgeCalls(calls=calls(np.random.default_rng(0), rate=0.2, lost=(0.0, 0.0), n_tasks=20))
    reading = judge.readings["dark_current"]
    assert isinstance(reading, jrh.Estimate)
    (rule,) = parse_rules(f"dark_current <= {(reading.cluster_high or 0) + 0.001!r}")
    states = [RunEvidence(judge=judge, looks={rule.text: look}).check([rule])[0].state for look in (1, 4)]
    assert states == ["holds", "undecided"]


def test_all_looks_together_err_in_one_of_twenty():
    errors = [(1 - look_level(look)) / 2 for look in range(1, 2000)]
    assert errors[0] == pytest.approx(0.025)
    assert sum(errors) == pytest.approx(0.05, abs=1e-4)


def test_a_failure_by_itself_is_not_one_of_several():
    judge = JudgeCalls(calls=calls(np.random.default_rng(0), rate=0.2, lost=(0.0, 0.0), n_tasks=20))
    reading = judge.readings["dark_current"]
    assert isinstance(reading, jrh.Estimate)
    rule = f"dark_current <= {(reading.cluster_low or 0) - 0.001!r}"
    others = ["slot_lean/vacuum <= 0.9", "slot_lean/vacuum <= 0.8", "dark_current <= 0.9"]
    alone, beside = (RunEvidence(judge=judge).check(parse_rules(rules))[0] for rules in ([rule], [rule, *others]))
    assert (alone.state, beside.state) == ("fails", "undecided")
    assert beside.further_tasks
