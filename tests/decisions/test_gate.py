"""`jrh.gate` on evaluations in a real MLflow store: what is decided, on what, and what is refused."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from mlflow import MlflowClient

import jrh_mlflow as jrh
from jrh_mlflow.decisions import gate as gate_module
from jrh_mlflow.decisions.gate import JudgeCalls, RunEvidence, known_facts, tasks_needed
from jrh_mlflow.decisions.gate_result import gate_reason
from jrh_mlflow.errors import RecipeError
from jrh_mlflow.measures.rules import Rule, RuleCheck, lost_calls, parse_rules
from jrh_mlflow.show.results import measure
from jrh_mlflow.tracking.runs.read import load_runs
from tests.comparing.test_compare import always_no, pointwise_suite


def flaky(presentation: jrh.Presentation) -> jrh.Answer:
    """A judge that takes the longer, and whose answers to empty contents cannot be read."""
    if not (presentation.first or "").strip():
        return jrh.Answer(value="perhaps", cost_usd=0.001)
    longer = len(presentation.first or "") >= len(presentation.second or "")
    return jrh.Answer(value="1" if longer else "2", cost_usd=None if longer else 0.001)


@pytest.fixture(scope="module")
def runs(store_uri: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, jrh.Evaluation]]:
    pairs, points = jrh.datasheet_suite(n_tasks=10, depth=2), pointwise_suite()
    judged = {
        "oracle": (jrh.scripted.Oracle(), pairs),
        "first": (jrh.scripted.AlwaysFirst(), pairs),
        "flaky": (flaky, pairs),
        "no": (always_no, points),
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JRH_HOME", str(tmp_path_factory.mktemp("home")))
        options = {"experiment": "gates", "tracking_uri": store_uri, "progress": False, "traces": "none"}
        yield {name: jrh.evaluate(judge, suite, **options) for name, (judge, suite) in judged.items()}


_KEPT: dict[tuple[str, str, float, int], JudgeCalls] = {}
"""What a judge's calls, repeated or not, read is measured once for all tests that look at it."""


def kept(run: jrh.Evaluation, how: str, share: float = 0.0, seed: int = 0) -> JudgeCalls:
    """The calls of a judge of pairs: as they are, or some of them or all a tie."""
    key = (run.run_id, how, share, seed)
    if key not in _KEPT:
        calls = run.calls.copy()
        lost = np.random.default_rng(seed).random(len(calls)) < share
        calls.loc[lost, ["outcome", "answer"]] = ["tie", ""]
        _KEPT[key] = JudgeCalls(calls=calls)
    return _KEPT[key]


def plain(run: jrh.Evaluation) -> JudgeCalls:
    """The calls as they were answered."""
    return kept(run, "plain")


def ties(run: jrh.Evaluation) -> JudgeCalls:
    """The same calls, answered by a judge that always says tie."""
    return kept(run, "ties", share=2.0)


def right(run: jrh.Evaluation) -> JudgeCalls:
    """The same responses, judged by one that is always right."""
    return JudgeCalls(calls=run.calls.assign(answer=run.calls["expected"]), labels=run.suite.labels)


def check_rules(
    rules: Sequence[Rule], judge: JudgeCalls, *, baseline: JudgeCalls | None = None, look: int = 1
) -> tuple[RuleCheck, ...]:
    looks = {rule.text: look for rule in rules}
    return RunEvidence(judge=judge, baseline=baseline, looks=looks).check(rules)


def decided(judge: JudgeCalls, *rules: str, **kwargs: Any) -> list[str]:
    """Each rule by itself: several would share the error of a failure."""
    return [check_rules([rule], judge, **kwargs)[0].state for rule in parse_rules(rules)]


def refusal(*args: object, **kwargs: object) -> str:
    with pytest.raises(RecipeError) as found:
        jrh.gate(*args, **{"log": False, **kwargs})
    assert "\n" not in str(found.value)
    return str(found.value)


def states(run: jrh.Evaluation, *rules: str, **kwargs: object) -> list[str]:
    return jrh.gate(run, list(rules), **{"log": False, **kwargs}).checks["state"].tolist()


def test_a_good_judge_passes_and_a_bad_one_fails(runs):
    rules = ["dark_current <= 0.4", "target_sensitivity/delta_1 >= 0.6"]
    good, bad = (jrh.gate(runs[name], rules, log=False) for name in ("oracle", "first"))
    assert good.passed is True
    assert good.reason == "passed: 2 of 2 rules hold"
    assert bad.passed is False
    assert bad.reason.startswith("failed: 1 of 2 rules: dark_current <= 0.4 (1.00 [")
    assert bool(good)
    assert not bool(bad)


def test_a_rule_is_decided_on_the_interval_by_task_that_the_run_logged(runs):
    reading = runs["oracle"].datasheet.estimates["dark_current"]
    assert isinstance(reading, jrh.Estimate)
    row = jrh.gate(runs["oracle"], "dark_current <= 0.9", log=False).checks.iloc[0]
    assert (row["estimate"], row["low"], row["high"]) == (reading.value, reading.cluster_low, reading.cluster_high)
    assert (row["n"], row["n_clusters"]) == (reading.n, reading.n_clusters)
    just = reading.cluster_high
    assert states(runs["oracle"], f"dark_current <= {just!r}", f"dark_current < {just!r}") == ["holds", "undecided"]


def test_a_run_is_named_by_id_address_prefix_or_in_hand(runs, store_uri):
    run = runs["first"]
    ways = (run, run.run_id, f"runs:/{run.run_id}", run.run_id[:12])
    found = [jrh.gate(way, "dark_current <= 0.4", tracking_uri=store_uri, log=False) for way in ways]
    assert len({gate.reason for gate in found}) == 1
    assert {gate.gated_run for gate in found} == {run.run_id}


def test_a_simulated_judge_is_shown_as_simulated(runs):
    gate = jrh.gate(runs["oracle"], "dark_current <= 0.4", log=False)
    assert gate.simulated
    assert "(simulated)" in gate.subject
    assert "Simulated judges" in gate.to_markdown()
    assert not jrh.gate(runs["no"], "baseline/accuracy <= 0.9", log=False).simulated


def test_a_threshold_beyond_the_steps_is_decided_by_the_steps_that_are_decided(runs):
    rules = ("threshold_75 <= 2", "threshold_75 <= 1", "threshold_75 > 2", "threshold_75 >= 2", "threshold_75 <= 3")
    assert decided(plain(runs["oracle"]), *rules[:3]) == ["holds", "holds", "fails"]
    assert decided(ties(runs["oracle"]), *rules) == ["fails", "fails", "holds", "holds", "undecided"]


def test_a_censored_threshold_is_no_estimate_and_is_shown_with_its_side(runs):
    never = jrh.gate(runs["first"], ["threshold_75 <= 1.5", "threshold_75 <= 6"], log=False)
    assert never.checks["estimate"].isna().all()
    assert set(never.checks["censored"]) == {"> 2"}
    (ties_check,) = check_rules(parse_rules("threshold_75 <= 6"), ties(runs["oracle"]))
    assert (ties_check.estimate, ties_check.censored, ties_check.low) == (None, "> 2", 2)
    at_once = jrh.gate(runs["oracle"], "threshold_75 <= 1", log=False)
    assert at_once.checks["censored"].tolist() == ["≤ 1"]
    assert "| ≤ 1 |" in at_once.to_markdown()
    assert at_once.results[0].to_dict()["estimate"] is None


def test_the_difference_of_censored_thresholds_has_no_number_but_ends(runs):
    oracle, tie = plain(runs["oracle"]), ties(runs["oracle"])
    (apart,) = check_rules(parse_rules("threshold_75 - baseline <= 0"), oracle, baseline=tie)
    assert (apart.state, apart.estimate, apart.low, apart.high, apart.censored) == ("holds", None, None, -1, "")
    (same,) = check_rules(parse_rules("threshold_75 - baseline <= 0"), tie, baseline=tie)
    assert (same.state, same.estimate) == ("undecided", None)
    assert "decide nothing of it" in same.reason


def test_a_threshold_below_the_first_step_is_decided_by_more_tasks(runs):
    judge = plain(runs["oracle"])
    few = replace(judge, calls=judge.calls[judge.calls["task"].isin(judge.tasks[:6])])
    (check,) = check_rules(parse_rules("threshold_75 <= 1"), few)
    assert (check.state, check.censored) == ("undecided", "≤ 1, not decided")
    assert 0 < check.further_tasks <= 8
    assert check.reason == "the intervals at the steps of the curve decide nothing of it"
    assert decided(judge, "threshold_75 <= 1") == ["holds"]


def test_an_open_end_decides_nothing_on_its_side(runs):
    row = jrh.gate(runs["oracle"], "d_prime/delta_1 <= 50", log=False).checks.iloc[0]
    assert pd.isna(row["high"])
    assert row["state"] == "undecided"
    assert states(runs["oracle"], "d_prime/delta_1 >= 0") == ["holds"]


def test_a_withheld_axis_is_undecided_with_its_reason_and_bounds(runs):
    row = jrh.gate(runs["flaky"], "dark_current <= 0.99", log=False).checks.iloc[0]
    assert row["state"] == "undecided"
    assert pd.isna(row["estimate"])
    assert 0 <= row["low"] < row["high"] <= 1
    assert row["reason"].startswith("withheld: ")
    assert pd.isna(row["further_tasks"])


def test_an_axis_without_calls_is_undecided_with_its_reason(runs):
    row = jrh.gate(runs["no"], "reliability/mean >= 0.1", log=False).checks.iloc[0]
    assert row["state"] in ("holds", "undecided")
    frame = runs["oracle"].calls
    some = JudgeCalls(calls=frame[frame["condition"] != "filler"])
    (check,) = check_rules(parse_rules("filler_preference <= 0.5"), some)
    assert (check.state, check.estimate, check.further_tasks) == ("undecided", None, None)
    assert "no filler calls" in check.reason


def test_excluded_calls_are_a_fact_also_of_a_withheld_axis(runs):
    calls = runs["flaky"].calls
    vacuum = calls[calls["condition"].str.startswith("vacuum")]
    share = float(vacuum["outcome"].isin(["unparsed", "error"]).mean())
    gate = jrh.gate(runs["flaky"], [f"excluded/dark_current <= {share!r}", "excluded/dark_current <= 0.05"], log=False)
    assert gate.checks["estimate"].tolist() == [share, share]
    assert gate.checks["state"].tolist() == ["holds", "fails"]
    assert gate.checks["n"].tolist() == [len(vacuum)] * 2


def test_every_axis_of_pairs_counts_the_calls_that_it_lost(runs):
    calls = runs["oracle"].calls.copy()
    lost = np.random.default_rng(0).random(len(calls)) < 0.04
    calls.loc[lost, ["outcome", "answer"]] = ["error", ""]
    readings = JudgeCalls(calls=calls).readings
    own = {
        "dark_current": "vacuum",
        "no_preference": "delta_0_same",
        "threshold_75": "ladder",
        "filler_preference": "filler",
    }
    for axis, condition in own.items():
        asked = calls["condition"].str.startswith(condition) & (calls["condition"] != "ladder_matched")
        assert lost_calls(axis, readings) == (int((asked & lost).sum()), int(asked.sum())), axis
    for axis, conditions in {
        "conditional_accuracy": ["ladder"],
        "target_sensitivity": ["ladder"],
        "d_prime": ["ladder"],
        "reading_gap": ["ladder", "ladder_matched"],
    }.items():
        asked = calls["condition"].isin(conditions) & (calls["delta"] == 1)
        assert lost_calls(f"{axis}/delta_1", readings) == (int((asked & lost).sum()), int(asked.sum())), axis


def test_costs_counts_and_time_are_facts_of_the_run(runs):
    gate = jrh.gate(
        runs["no"], ["cost/usd <= 1", "cost/usd_per_1k_calls >= 2", "calls/total > 5", "time/seconds >= 0"], log=False
    )
    assert gate.checks["state"].tolist() == ["holds", "fails", "holds", "holds"]
    assert (gate.checks["low"] == gate.checks["high"]).all()
    assert gate.checks["estimate"][0] == pytest.approx(runs["no"].cost_usd)
    assert gate.checks["further_tasks"].tolist() == [0] * 4


def test_a_cost_that_is_not_known_is_undecided_and_a_partial_one_a_lower_end(runs):
    (run,) = load_runs([runs["flaky"].run_id], tracking_uri=runs["flaky"].tracking_uri)
    unknown = known_facts(replace(run, calls=run.calls.assign(cost_usd=None), metrics={}), {})
    assert (unknown["cost/usd"], unknown["cost/usd_per_1k_calls"], unknown["tokens/input"]) == (None, None, None)
    partial = jrh.gate(
        runs["flaky"],
        ["cost/usd <= 1000", "cost/usd <= 0.001", "cost/usd_per_1k_calls <= 9", "cost/unknown_calls <= 0"],
        log=False,
    ).checks
    assert partial["state"].tolist() == ["undecided", "fails", "undecided", "fails"]
    assert "some calls" in partial["reason"][0]


def test_what_asked_no_model_cost_nothing(runs):
    rules = ["cost/usd <= 0", "tokens/input <= 0", "cost/usd_per_1k_calls <= 0", "cost/unknown_calls <= 0"]
    assert states(runs["oracle"], *rules) == ["holds"] * 4
    (run,) = load_runs([runs["flaky"].run_id], tracking_uri=runs["flaky"].tracking_uri)
    recorded = replace(run, recorded=True, metrics={})
    assert known_facts(replace(recorded, calls=run.calls.assign(cost_usd=None)), {})["cost/usd"] == (0, 0)
    # What the recorded answers once cost is known of some of them: no less than that.
    assert known_facts(recorded, {})["cost/usd"] == (runs["flaky"].cost_usd, None)
    assert known_facts(replace(run, calls=run.calls[:0], metrics={}), {})["cost/usd"] == (0, 0)


def test_undecided_is_taken_as_asked_also_without_a_policy(runs):
    gate = jrh.gate(runs["oracle"], "dark_current <= 0.01", undecided="pass", log=False)
    assert "Undecided is taken as passed, as asked." in gate.shown_notes


def test_reliability_runs_are_gated_by_test_and_by_the_mean_over_tests(runs):
    rules = ("typos/accuracy >= 0.5", "reliability/mean >= 0.5", "baseline/accuracy < 0.5")
    assert decided(right(runs["no"]), *rules) == ["holds", "holds", "fails"]
    assert states(runs["no"], "typos/accuracy >= 0.9") == ["fails"]
    summary = runs["no"].report.summary
    row = jrh.gate(runs["no"], "reliability/mean <= 1", log=False).checks.iloc[0]
    assert (row["low"], row["high"]) == (summary["mean_ci_low"], summary["mean_ci_high"])


def test_the_mean_over_tests_of_a_judge_without_a_mistake_has_an_interval_all_the_same(runs):
    judge = right(runs["no"])
    (check,) = check_rules(parse_rules("reliability/mean >= 0.5"), judge)
    tests = [judge.readings[f"{test}/accuracy"].cluster_low for test in ("typos", "markdown")]
    assert check.low == pytest.approx(np.mean(tests))
    assert (check.estimate, check.high) == (1, 1)


def test_the_mean_over_tests_is_undecided_where_a_test_is_withheld(runs):
    calls = right(runs["no"]).calls
    typos = calls.index[calls["condition"] == "typos"][:6]
    calls.loc[typos, ["outcome", "answer"]] = ["error", ""]
    (check,) = check_rules(parse_rules("reliability/mean >= 0.1"), JudgeCalls(calls=calls, labels=("no", "yes")))
    assert check.state == "undecided"
    assert "typos" in check.reason


def test_values_that_are_no_shares_are_decided_by_their_interval(runs):
    calls = runs["no"].calls
    some = JudgeCalls(
        calls=calls.assign(answer=calls["expected"].where(calls.index % 5 > 0, "no")), labels=("no", "yes")
    )
    reading = some.readings["baseline/matthews"]
    assert isinstance(reading, jrh.Estimate)
    ends = (reading.cluster_low, reading.cluster_high)
    rules = [f"baseline/matthews {op} {end!r}" for op, end in zip((">=", "<="), ends, strict=True)]
    assert decided(some, *rules, f"baseline/matthews >= {reading.value + 1e-6!r}") == ["holds", "holds", "undecided"]


def test_the_arms_of_a_criterion_shift_can_be_gated(store_uri, tmp_path):
    suite = jrh.datasheet_suite(n_tasks=2, depth=1)
    shift = jrh.criterion_shift(
        jrh.scripted.Noisy(seed=1), suite, tracking_uri=store_uri, experiment="gates", progress=False
    )
    arm = next(iter(shift.arms.values()))
    assert jrh.gate(arm, "dark_current <= 1", log=False).passed is True
    told = refusal(shift.run_id, "dark_current <= 1", tracking_uri=store_uri)
    assert "criterion_shift" in told
    assert "arms" in told


# Differences to a baseline.


def with_wrong(run: jrh.Evaluation, share: float, *, seed: int = 0) -> JudgeCalls:
    """The calls of a judge of pairs, some of which became a tie."""
    return kept(run, "wrong", share, seed)


def test_a_difference_is_the_judge_minus_the_baseline(runs):
    found = jrh.gate(runs["first"], "dark_current - baseline <= 0.1", baseline=runs["oracle"], log=False)
    row = found.checks.iloc[0]
    assert row["estimate"] == 1
    assert 0.1 < row["low"] < 1
    assert row["state"] == "fails"
    assert found.baseline_run == runs["oracle"].run_id
    back = jrh.gate(runs["oracle"], "dark_current - baseline <= 0.1", baseline=runs["first"], log=False).checks.iloc[0]
    assert (back["estimate"], back["state"]) == (-1, "holds")


def test_a_judge_does_not_differ_from_itself_and_the_interval_has_a_width(runs):
    judge = with_wrong(runs["oracle"], 0.3)
    axes = ("dark_current", "target_sensitivity/delta_1", "no_preference", "conditional_accuracy/delta_1")
    rules = parse_rules(f"{axis} - baseline <= 0" for axis in (*axes, "d_prime/delta_1"))
    for check in check_rules(rules, judge, baseline=judge):
        assert (check.estimate, check.state) == (0, "undecided"), check.rule.text
        assert check.low is None or check.low < 0, check.rule.text
        assert check.high is None or check.high > 0, check.rule.text
        assert check.further_tasks is None, check.rule.text


def test_differences_mirror_when_judge_and_baseline_change_places(runs):
    a, b = with_wrong(runs["oracle"], 0.1), with_wrong(runs["first"], 0.5)
    axes = ("target_sensitivity/delta_1", "one_sided_commit", "d_prime/delta_1", "threshold_75", "tie_rate/vacuum")
    rules = parse_rules(f"{axis} - baseline <= 99" for axis in axes)
    for one, other in zip(check_rules(rules, a, baseline=b), check_rules(rules, b, baseline=a), strict=True):
        mirrored = [None if end is None else -end for end in (other.high, other.low)]
        assert [one.low, one.high] == pytest.approx(mirrored), one.rule.text
        if one.rule.axis != "threshold_75":
            assert one.estimate == pytest.approx(-other.estimate)


def test_a_difference_is_read_on_the_calls_that_both_were_asked(runs):
    judge = with_wrong(runs["oracle"], 0.3)
    some = replace(judge, calls=judge.calls[judge.calls["task"].isin(judge.tasks[:6])])
    (check,) = check_rules(parse_rules("dark_current - baseline <= 1"), judge, baseline=some)
    assert check.n_clusters == 6
    assert check.estimate == 0


def test_the_interval_of_a_difference_is_narrower_where_both_err_on_the_same_tasks(runs):
    calls = runs["oracle"].calls
    bad = {f"half {part}": calls["task"].isin(JudgeCalls(calls=calls).tasks[part::2]) for part in (0, 1)}
    first, second = (
        JudgeCalls(
            calls=calls.assign(outcome=calls["outcome"].where(~mask, "tie"), answer=calls["answer"].where(~mask, ""))
        )
        for mask in bad.values()
    )
    (same,) = check_rules(parse_rules("target_sensitivity/delta_1 - baseline <= 0"), first, baseline=first)
    (other,) = check_rules(parse_rules("target_sensitivity/delta_1 - baseline <= 0"), first, baseline=second)
    assert same.high is not None
    assert other.high is not None
    assert same.high < other.high


def test_a_difference_of_which_one_side_is_withheld_is_undecided(runs):
    found = jrh.gate(runs["first"], "dark_current - baseline <= 2", baseline=runs["flaky"], log=False).checks.iloc[0]
    assert found["state"] == "undecided"
    assert found["reason"].startswith("withheld: the baseline: ")
    assert found["low"] < found["high"]


# How many further tasks.


def test_decided_rules_need_no_further_tasks(runs):
    found = jrh.gate(runs["oracle"], ["dark_current <= 0.5", "dark_current >= 0.5"], log=False)
    assert found.checks["further_tasks"].tolist() == [0, 0]


@pytest.mark.parametrize(
    "rule",
    [
        "dark_current <= 0.1",
        "target_sensitivity/delta_1 >= 0.6",
        "no_preference >= 0.9",
        "d_prime/delta_1 >= 0.5",
        "threshold_75 <= 1",
    ],
)
def test_so_many_further_tasks_like_these_decide_and_fewer_whole_rounds_do_not(runs, rule):
    judge = with_wrong(runs["oracle"], 0.25, seed=3)
    (check,) = check_rules(parse_rules(rule), judge)
    assert check.state == "undecided"
    assert check.further_tasks
    rounds = -(-check.further_tasks // len(judge.tasks))
    assert decided(judge.repeated(1 + rounds), rule, look=2)[0] != "undecided"
    assert decided(judge.repeated(rounds), rule, look=2) == ["undecided"]


def test_further_tasks_of_a_difference_decide_it(runs):
    judge, baseline = with_wrong(runs["oracle"], 0.3, seed=1), with_wrong(runs["oracle"], 0.1, seed=2)
    rule = "target_sensitivity/delta_1 - baseline >= 0"
    (check,) = check_rules(parse_rules(rule), judge, baseline=baseline)
    assert (check.state, bool(check.further_tasks)) == ("undecided", True)
    more = 1 + -(-check.further_tasks // 10)
    assert decided(judge.repeated(more), rule, baseline=baseline.repeated(more)) == ["fails"]


def test_repeated_tasks_are_new_tasks_of_new_items(runs):
    judge = plain(runs["oracle"])
    more = judge.repeated(3)
    assert len(more.tasks) == 3 * len(judge.tasks)
    assert more is judge.repeated(3)
    assert not more.calls.duplicated(["suite_item", "order", "replicate"]).any()


def test_no_number_of_tasks_helps_an_estimate_on_the_limit(runs):
    judge = with_wrong(runs["oracle"], 0.25)
    value = judge.readings["target_sensitivity/delta_1"].value
    (check,) = check_rules(parse_rules(f"target_sensitivity/delta_1 >= {value!r}"), judge)
    assert (check.state, check.further_tasks) == ("undecided", None)
    assert "on the limit" in check.reason
    (near,) = check_rules(parse_rules(f"target_sensitivity/delta_1 >= {value + 1e-9!r}"), judge)
    assert near.further_tasks is None
    assert "would not decide it" in near.reason


def test_one_task_has_no_interval_and_decides_nothing(runs):
    judge = plain(runs["oracle"])
    one = replace(judge, calls=judge.calls[judge.calls["task"] == judge.tasks[0]])
    (check,) = check_rules(parse_rules("dark_current <= 0.9"), one)
    assert (check.state, check.further_tasks, check.low, check.high) == ("undecided", None, None, None)
    assert "no interval" in check.reason


@pytest.mark.parametrize("wanted", [11, 12, 20, 37, 100, 639, 640])
@pytest.mark.parametrize("guess", [1, 2, 7, 64, 1000])
def test_the_search_finds_the_fewest_tasks_from_any_guess(wanted, guess):
    assert tasks_needed(lambda n: n >= wanted, 10, most=64, guess=guess) == wanted
    assert tasks_needed(lambda n: n >= 641, 10, most=64, guess=guess) is None


# Policies.


def policy(folder: Path, text: str) -> Path:
    path = folder / "gate.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_policy_and_the_arguments_are_required_together_and_each_rule_once(runs, tmp_path):
    path = policy(tmp_path, "require:\n  - dark_current <= 0.5\n  - threshold_75<=9\nundecided: pass\n")
    found = jrh.gate(runs["oracle"], ["threshold_75 <= 9", "calls/total > 1"], policy=path, log=False)
    assert found.checks["rule"].tolist() == ["threshold_75 <= 9", "calls/total > 1", "dark_current <= 0.5"]
    assert found.undecided == "pass"
    assert jrh.gate(runs["oracle"], policy=path, undecided="fail", log=False).undecided == "fail"


def test_a_policy_names_its_baseline_and_an_argument_comes_before_it(runs, tmp_path, store_uri):
    path = policy(tmp_path, f"require: dark_current - baseline <= 0.1\nbaseline: '{runs['first'].run_id}'\n")
    assert jrh.gate(runs["oracle"], policy=path, log=False, tracking_uri=store_uri).baseline_run == runs["first"].run_id
    other = jrh.gate(runs["oracle"], policy=path, baseline=runs["flaky"], log=False)
    assert other.baseline_run == runs["flaky"].run_id


def test_a_policy_may_be_a_mapping(runs):
    assert jrh.gate(runs["oracle"], policy={"require": ["dark_current <= 0.5"]}, log=False).passed is True


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("requires: [dark_current <= 0.1]", "Did you mean 'require'?"),
        ("require: [dark_current = 0.1]", "'dark_current <= 0.1'"),
        ("require: {dark_current: 0.1}", "list of rules"),
        ("require: 3", "list of rules"),
        ("require: [3]", "text"),
        ("require: []", "Nothing is required"),
        ("", "mapping was expected"),
        ("- dark_current <= 0.1", "mapping was expected"),
        ("require: [", "cannot be read"),
        ("require: [dark_current <= 0.1]\nundecided: passed", "Did you mean 'pass'?"),
        ("require: [dark_current <= 0.1]\nundecided: true", "Known: fail, pass"),
        ("require: [dark_current - baseline <= 0.1]", "needs a baseline"),
        ("require: [dark_current - baseline <= 0.1]\nbaseline: 01234567", "quotes"),
        ("require: [dark_current - baseline <= 0.1]\nbaseline: [a]", "quotes"),
    ],
)
def test_a_bad_policy_is_refused_before_anything_is_read(tmp_path, text, told):
    assert told in refusal("0" * 32, policy=policy(tmp_path, text))


def test_a_policy_that_is_not_there_is_refused_by_its_name(tmp_path):
    assert "nowhere.yaml" in refusal("0" * 32, policy=tmp_path / "nowhere.yaml")


# Refusals.


def test_nothing_required_is_refused(runs):
    assert "Nothing is required" in refusal(runs["oracle"])
    assert "Nothing is required" in refusal(runs["oracle"], [])


def test_an_unknown_axis_is_refused_with_the_nearest(runs):
    assert "Did you mean 'dark_current'?" in refusal(runs["oracle"], "dark_curent <= 0.1")
    assert "Did you mean 'typos/accuracy'?" in refusal(runs["no"], "typo/accuracy >= 0.1")
    assert "Did you mean 'cost/usd'?" in refusal(runs["no"], "cost/usdd <= 0.1")


def test_the_smallest_of_the_tests_has_no_interval_and_is_refused(runs):
    told = refusal(runs["no"], "reliability/min >= 0.1")
    assert "no interval" in told
    assert "Require 'markdown/accuracy >= 0.1' and 'typos/accuracy >= 0.1'" in told
    assert "Did you mean" not in told


def test_a_baseline_rule_without_a_baseline_is_refused(runs):
    assert "needs a baseline" in refusal(runs["oracle"], "dark_current - baseline <= 0.1")


def test_a_baseline_on_another_suite_is_refused_with_what_differs(runs):
    told = refusal(runs["oracle"], "dark_current - baseline <= 0.1", baseline=runs["no"])
    assert "different suites" in told
    assert "sha256" in told


def test_a_run_is_not_its_own_baseline(runs):
    told = refusal(runs["oracle"], "dark_current - baseline <= 0.1", baseline=runs["oracle"])
    assert "own baseline" in told


@pytest.mark.parametrize(
    "kind",
    ["compare", "sweep", "generate", "review", "jury", "agree", "align", "correct", "gate", "criterion_shift", None],
)
def test_a_run_of_another_kind_is_refused_by_its_kind_with_what_to_name(runs, store_uri, kind):
    client = MlflowClient(tracking_uri=store_uri)
    run = client.create_run(
        client.get_experiment_by_name("gates").experiment_id, tags={"jrh.kind": kind} if kind else {}
    )
    client.set_terminated(run.info.run_id)
    told = refusal(run.info.run_id, "dark_current <= 0.1", tracking_uri=store_uri)
    assert (f"of kind {kind}" if kind else "not logged by jrh") in told
    assert "can be gated" in told
    assert told.count(". ") >= 1
    if kind == "compare":
        assert refusal(run.info.run_id[:12], "dark_current <= 0.1", tracking_uri=store_uri) == told


@pytest.mark.parametrize("status", ["RUNNING", "FAILED", "KILLED"])
def test_a_run_that_did_not_finish_is_refused(runs, store_uri, status):
    client = MlflowClient(tracking_uri=store_uri)
    run = client.create_run(client.get_experiment_by_name("gates").experiment_id, tags={"jrh.kind": "evaluate"})
    client.update_run(run.info.run_id, status=status)
    assert f"is {status}, not FINISHED" in refusal(run.info.run_id, "dark_current <= 0.1", tracking_uri=store_uri)


def test_a_run_of_another_schema_version_is_refused(runs, store_uri):
    client = MlflowClient(tracking_uri=store_uri)
    tags = {"jrh.kind": "evaluate", "jrh.schema_version": "2"}
    run = client.create_run(client.get_experiment_by_name("gates").experiment_id, tags=tags)
    client.update_run(run.info.run_id, status="FINISHED")
    told = refusal(run.info.run_id, "dark_current <= 0.1", tracking_uri=store_uri)
    assert "schema version 2, but this jrh-mlflow reads 1. Install" in told


@pytest.mark.parametrize("run", ["no such run", "0" * 32, 7, None])
def test_what_is_no_run_is_refused(store_uri, run):
    refusal(run, "dark_current <= 0.1", tracking_uri=store_uri)


def test_an_unknown_way_to_take_the_undecided_is_refused(runs):
    assert "Did you mean 'pass'?" in refusal(runs["oracle"], "dark_current <= 0.1", undecided="passes")


# Truncated runs.


def test_a_truncated_run_is_gated_on_what_it_has_and_says_so(store_uri, tmp_path):
    seen: list[object] = []

    def stop(record: object) -> str | None:
        seen.append(record)
        return "enough" if len(seen) > 60 else None

    suite = jrh.datasheet_suite(n_tasks=4, depth=1)
    options = {"experiment": "gates", "tracking_uri": store_uri, "progress": False, "traces": "none"}
    run = jrh.evaluate(jrh.scripted.Oracle(), suite, stop=stop, **options)
    assert run.truncated
    gate = jrh.gate(run, "calls/total <= 70", log=False)
    assert gate.passed is True
    assert f"is truncated ({run.truncated})" in gate.to_markdown()


def test_a_run_that_until_stopped_is_gated_and_says_that_its_interval_does_not_know(store_uri):
    run = jrh.evaluate(
        jrh.scripted.AlwaysFirst(),
        jrh.datasheet_suite(n_tasks=6, depth=1),
        stop=jrh.until("dark_current <= 0.2"),
        tracking_uri=store_uri,
        experiment="gates",
        progress=False,
        traces="none",
    )
    gate = jrh.gate(run, "dark_current <= 0.2", log=False)
    assert gate.checks["estimate"][0] == 1
    assert gate.checks["n"][0] == len(run.calls)
    assert "until" in gate.to_markdown()
    assert "do not heed that" in gate.to_markdown()
    whole = jrh.gate(run, "excluded/raw_false_preference <= 0.5", log=False).checks.iloc[0]
    assert whole["state"] == "undecided"


def of_conditions(run: jrh.Evaluation, *conditions: str) -> JudgeCalls:
    """The run as if it had been stopped after the calls of some conditions."""
    calls = run.calls[run.calls["condition"].str.startswith(conditions)]
    return JudgeCalls(calls=calls, labels=run.suite.labels, suite=run.suite)


def test_an_axis_of_the_suite_that_was_not_asked_is_undecided_and_a_typing_mistake_is_refused(runs):
    stopped = of_conditions(runs["oracle"], "vacuum")
    names = ("target_sensitivity/delta_1", "excluded/target_sensitivity/delta_1", "dark_current")
    one, lost, asked = check_rules(parse_rules(f"{name} <= 0.9" for name in names), stopped)
    assert (one.state, one.reason, one.estimate) == ("undecided", "not asked in this run", None)
    assert (lost.state, lost.reason) == ("undecided", "not asked in this run")
    assert asked.estimate == 0
    with pytest.raises(RecipeError, match="Did you mean 'target_sensitivity/delta_2'"):
        check_rules(parse_rules("target_sensitivity/delta_3 <= 0.9"), stopped)
    tests = of_conditions(runs["no"], "baseline")
    assert decided(tests, "typos/accuracy >= 0.1", "baseline/accuracy >= 0") == ["undecided", "holds"]


def test_runs_without_a_call_in_common_leave_only_the_rules_about_their_difference_open(runs):
    judge, baseline = of_conditions(runs["first"], "vacuum"), of_conditions(runs["oracle"], "delta_0")
    rules = parse_rules(["dark_current <= 0.4", "dark_current - baseline <= 0.1"])
    own, difference = check_rules(rules, judge, baseline=baseline)
    assert own.state == "fails"
    assert (difference.state, difference.further_tasks) == ("undecided", None)
    assert difference.reason == "there is no call that both the judge and the baseline were asked"


def test_a_rule_without_a_number_says_so_once(runs):
    checks = check_rules(parse_rules("typos/accuracy >= 0.1"), of_conditions(runs["no"], "baseline"))
    assert gate_reason(checks).endswith("typos/accuracy >= 0.1 (no number: not asked in this run)")


def test_many_rules_measure_the_repeated_tasks_once(runs, monkeypatch):
    calls = runs["no"].calls
    answers = calls["expected"].where(calls.index % 3 > 0, "no")
    judge, measured = JudgeCalls(calls=calls.assign(answer=answers), labels=("no", "yes")), []
    monkeypatch.setattr(
        gate_module, "measure", lambda calls, **how: measured.append(len(calls)) or measure(calls, **how)
    )
    monkeypatch.setattr(gate_module, "MOST_ROWS", 8 * len(calls))
    numbers = {axis: reading.value for axis, reading in judge.readings.items() if isinstance(reading, jrh.Estimate)}
    rules = [f"{axis} <= {value + 0.1!r}" for axis, value in numbers.items()]
    assert len(check_rules(parse_rules(rules), judge)) > 15
    assert measured == [times * len(calls) for times in (1, 2, 4, 8)]


# Single responses of known level, and reliability tests.


def answered(suite: jrh.Suite, *, seed: int) -> JudgeCalls:
    """Calls of a judge of single responses that guesses."""
    rng = np.random.default_rng(seed)
    fixed = {"order": "", "better": "", "replicate": 0, "outcome": "verdict"}
    rows = [
        {**{name: getattr(item, name) for name in ("task", "condition", "delta")}, "suite_item": item.id, **fixed}
        | {"answer": str(rng.choice(item.answers)), "expected": item.expected or ""}
        for item in suite.items
    ]
    return JudgeCalls(calls=pd.DataFrame(rows), labels=suite.labels)


def test_axes_of_single_responses_are_gated_and_compared_with_a_baseline():
    whole = jrh.load_suite("pointwise-datasheet")
    tasks = sorted({item.task for item in whole.items})[:12]
    suite = jrh.Suite(name="some", items=[item for item in whole.items if item.task in tasks])
    judge, baseline = answered(suite, seed=0), answered(suite, seed=1)
    axis = "pointwise/mean_answer/level_2"
    value = judge.readings[axis].value
    found = check_rules(
        parse_rules([f"{axis} >= {value - 0.05!r}", f"{axis} <= 1", f"{axis} - baseline <= 0.9"]),
        judge,
        baseline=baseline,
    )
    assert [check.state for check in found] == ["undecided", "holds", "holds"]
    assert found[0].further_tasks > 0
    assert found[2].estimate == pytest.approx(value - baseline.readings[axis].value)
