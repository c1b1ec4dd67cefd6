"""A form of rules that nobody wrote yet, as ONE class: everything that knows rules follows it without being told."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from junitparser import JUnitXml

import jrh_mlflow as jrh
from jrh_mlflow.decisions.gate import JudgeCalls, RunEvidence
from jrh_mlflow.errors import RecipeError
from jrh_mlflow.measures import rules
from jrh_mlflow.measures.rules import BaselineRule, Judges, paired_readings, parse_rule, rule_form
from jrh_mlflow.measuring.until import bound_axes
from jrh_mlflow.schema.estimates import NotEstimable, Reading, intervals
from jrh_mlflow.show.names import rule_name

AXIS = "target_sensitivity/delta_1"
RATIO = f"{AXIS} / baseline"


@pytest.fixture(autouse=True)
def ratio_form(monkeypatch: pytest.MonkeyPatch) -> None:
    """Define the form as a contributor would, and forget it afterwards."""
    monkeypatch.setattr(rules, "FORMS", list(rules.FORMS))

    @rule_form
    class RatioToBaseline(BaselineRule):
        """`AXIS / baseline OP NUMBER`: the judge's reading as a multiple of the baseline's."""

        form = "AXIS / baseline"
        pattern = re.compile(r"(.*?) / baseline")

        def reading(self, judges: Judges) -> Reading:
            """Return the ratio, its interval by the arms of both logarithms, squared and added."""
            pair = paired_readings(judges, self.axis)
            if isinstance(pair, NotEstimable):
                return pair
            after, before = pair
            if not before.cluster_low or not after.cluster_low:
                return NotEstimable(reason="a ratio needs two intervals above 0", n=after.n)
            assert after.cluster_high
            assert before.cluster_high
            value = after.value / before.value
            low = math.hypot(math.log(after.value / after.cluster_low), math.log(before.cluster_high / before.value))
            high = math.hypot(math.log(after.cluster_high / after.value), math.log(before.value / before.cluster_low))
            ends = (value * math.exp(-low), value * math.exp(high))
            return replace(after, value=value, statistic="value", n=min(after.n, before.n), **intervals(None, ends))


@pytest.fixture(scope="module")
def runs(store_uri: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, jrh.Evaluation]]:
    suite = jrh.datasheet_suite(n_tasks=10, depth=2)
    judges = {"good": jrh.scripted.Oracle(), "noisy": jrh.scripted.Noisy(seed=3)}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JRH_HOME", str(tmp_path_factory.mktemp("home")))
        options = {"experiment": "ratios", "tracking_uri": store_uri, "progress": False, "traces": "none"}
        yield {name: jrh.evaluate(judge, suite, **options) for name, judge in judges.items()}


def test_it_is_read_and_written() -> None:
    rule = parse_rule(f"{AXIS}  /  baseline>=.9")
    assert (type(rule).__name__, rule.axis, rule.text) == ("RatioToBaseline", AXIS, f"{RATIO} >= 0.9")
    assert parse_rule(rule.text) == rule
    assert rule_name(rule.text) == "chooses the better (δ = 1) / baseline ≥ 0.9"
    assert parse_rule("typos/baseline <= 1").axis == "typos/baseline", "another axis, as before"
    for wrong in ("/ baseline <= 1", "cost/usd / baseline <= 1", " / baseline <= 1"):
        with pytest.raises(RecipeError):
            parse_rule(wrong).check_known(["dark_current"], ["cost/usd"])
    with pytest.raises(RecipeError, match="AXIS / baseline OP NUMBER"):
        parse_rule("excluded/dark_current / baseline <= 1")


def test_a_gate_asks_for_its_baseline_and_decides_it_on_real_runs(runs: dict[str, jrh.Evaluation]) -> None:
    with pytest.raises(RecipeError, match="needs a baseline"):
        jrh.gate(runs["good"], f"{RATIO} >= 1", log=False)
    with pytest.raises(RecipeError, match="Did you mean 'target_sensitivity/delta_1'"):
        jrh.gate(runs["good"], "target_sensitivity/delta1 / baseline >= 1", baseline=runs["noisy"], log=False)
    required = [f"{RATIO} >= 0.5", f"{RATIO} <= 0.5", f"{RATIO} >= 1.6"]
    gate = jrh.gate(runs["good"], required, baseline=runs["noisy"], log=False)
    values = [run.datasheet.estimates[AXIS].value for run in (runs["good"], runs["noisy"])]
    assert gate.checks["estimate"].tolist() == pytest.approx([values[0] / values[1]] * 3)
    assert gate.checks["state"].tolist()[:2] == ["holds", "fails"]
    assert gate.passed is False
    assert jrh.gate(runs["good"], required[0], baseline=runs["noisy"], log=False).passed is True


def with_ties(run: jrh.Evaluation, share: float, *, seed: int) -> JudgeCalls:
    calls = run.calls.copy()
    calls.loc[np.random.default_rng(seed).random(len(calls)) < share, ["outcome", "answer"]] = ["tie", ""]
    return JudgeCalls(calls=calls)


def test_it_says_how_many_further_tasks_would_decide_it(runs: dict[str, jrh.Evaluation]) -> None:
    judge, baseline = with_ties(runs["good"], 0.35, seed=1), with_ties(runs["good"], 0.1, seed=2)
    rule = parse_rule(f"{RATIO} >= 0.9")
    (check,) = RunEvidence(judge=judge, baseline=baseline).check([rule])
    assert check.state == "undecided"
    assert check.further_tasks
    times = 1 + -(-check.further_tasks // len(judge.tasks))
    (later,) = RunEvidence(judge=judge.repeated(2 * times), baseline=baseline.repeated(2 * times)).check([rule])
    assert later.state == "fails"


def test_every_medium_shows_it(runs: dict[str, jrh.Evaluation], store_uri: str) -> None:
    gate = jrh.gate(runs["good"], [f"{RATIO} <= 0.5", f"{RATIO} >= 0.5"], baseline=runs["noisy"])
    name = "chooses the better (δ = 1) / baseline ≤ 0.5"
    assert f"`{RATIO} <= 0.5`" in gate.to_markdown()
    assert name in gate.to_markdown()
    assert name in "\n".join(gate.to_lines())
    assert name in gate._repr_html_()
    assert gate.checks["rule"].tolist()[0] == gate.to_dict()["checks"][0]["rule"] == f"{RATIO} <= 0.5"
    (suite,) = JUnitXml.fromstring(gate.to_junit().encode())
    assert [case.name for case in suite] == [f"{RATIO} <= 0.5", f"{RATIO} >= 0.5"]
    assert suite.failures == 1


def test_until_refuses_it_and_says_why() -> None:
    items = jrh.datasheet_suite(n_tasks=2, depth=1).items
    with pytest.raises(RecipeError, match="cannot be decided while asking: it is about two runs"):
        bound_axes(jrh.until("dark_current / baseline <= 1.2"), items)
