"""Evaluations that stop when it is decided: real parts, every kind of judge, and what is logged of it."""

from __future__ import annotations

import json
import os
import signal
from contextlib import AsyncExitStack
from html import unescape
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from click.testing import CliRunner
from mlflow import MlflowClient, artifacts

import jrh_mlflow as jrh
from jrh_mlflow.cli.main import group
from jrh_mlflow.engine import calls_frame
from jrh_mlflow.engine.calls import identity
from jrh_mlflow.engine.runner import run_pool
from jrh_mlflow.errors import RecipeError
from jrh_mlflow.measuring.evaluate import bound_until, price_evaluation
from jrh_mlflow.measuring.replay import replay_each
from jrh_mlflow.measuring.resolve import prepare
from jrh_mlflow.measuring.until import call_key
from jrh_mlflow.recipe import load_recipe
from jrh_mlflow.schema.items import Call, CallRecord
from tests.comparing.test_compare import pointwise_suite
from tests.loopback import LoopbackServer
from tests.readings import asked

MODEL = "openai/gpt-4o-mini"
PRICES = {MODEL: (1000.0, 2000.0)}
RULE = "dark_current <= 0.2"


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")


@pytest.fixture(scope="module")
def suite() -> jrh.Suite:
    """60 vacuum calls, 30 on equal pairs of the same requirements, and a ladder."""
    return jrh.datasheet_suite(n_tasks=5, depth=2, design="paper")


def verdict(body: dict[str, Any]) -> str:
    return json.dumps({"reason": "r", "verdict": "tie"})


def prompted(server: LoopbackServer) -> jrh.PromptedJudge:
    return jrh.PromptedJudge(MODEL, api_base=server.url, max_tokens=64)


def evaluate(judge: object, suite: jrh.Suite, store_uri: str, *rules: str, **options: Any) -> jrh.Evaluation:
    stop = options.pop("stop", None) or jrh.until(rules)
    where = {"tracking_uri": store_uri, "experiment": "tests", "traces": "none", "progress": False}
    return jrh.evaluate(judge, suite, stop=stop, **where, **options)


def test_a_run_asks_only_what_decides_and_says_so_wherever_it_is_looked_at(suite: jrh.Suite, store_uri: str) -> None:
    done = evaluate(jrh.scripted.AlwaysTie(), suite, store_uri, RULE)
    n, planned = len(done.calls), sum(len(item.orders) for item in suite.items)
    assert set(done.calls["condition"]) <= {"vacuum_empty", "vacuum_whitespace", "vacuum_identical"}
    assert n < 30
    assert done.truncated == f"until: {n} of {planned} calls"
    (rule,) = done.stopped.rules
    assert (rule.state, rule.asked, rule.needed) == ("holds", n, 60)
    assert (rule.estimate, rule.cluster_low) == (0.0, 0.0)
    assert done.stopped.planned == planned
    run = MlflowClient(tracking_uri=store_uri).get_run(done.run_id)
    assert run.data.tags["jrh.until"] == f"{RULE}: holds"
    assert run.data.tags["jrh.truncated"] == done.truncated
    assert run.info.status == "FINISHED"
    line, count = done.stopped.lines
    for text in map(unescape, (run.data.tags["mlflow.note.content"], done._repr_html_())):
        assert line in text
        assert count in text
        assert "Truncated" not in text
    folder = artifacts.download_artifacts(run_id=done.run_id, tracking_uri=store_uri)
    assert json.loads(Path(folder, "until.json").read_text(encoding="utf-8")) == done.stopped.to_dict()
    page = Path(folder, "datasheet.html").read_text(encoding="utf-8")
    assert page.count("not needed") == page.count("<h2>Until</h2>") == 1
    assert f"{rule.n} of 60 calls" in page
    kept = pd.read_parquet(Path(folder, "calls/calls.parquet"))
    assert jrh.measure(kept).estimates["dark_current"].value == 0.0


def test_half_asked_pairs_count_for_calls_not_for_pairs_and_are_refused_unless_they_say_so(
    suite: jrh.Suite, store_uri: str
) -> None:
    done = evaluate(jrh.scripted.AlwaysFirst(), suite, store_uri, "raw_false_preference <= 0.5")
    alone = int((done.calls["partner"] == "not asked").sum())
    estimates = done.datasheet.estimates
    assert alone > 0
    assert estimates["raw_false_preference"].n == len(done.calls)
    pairs = estimates["positional_false_preference"]
    assert getattr(pairs, "n", 0) == (len(done.calls) - alone) // 2
    note = MlflowClient(tracking_uri=store_uri).get_run(done.run_id).data.tags["mlflow.note.content"]
    assert f"{alone:,} calls have no partner" in note
    with pytest.raises(jrh.JrhError, match="needs both presentation orders"):
        jrh.measure(done.calls.drop(columns="partner"))
    with pytest.raises(jrh.JrhError, match="have both"):
        jrh.measure(calls_frame(asked(jrh.scripted.AlwaysTie(), suite)).assign(partner="not asked"))


def test_a_prompted_judge_is_asked_the_same_calls_once(suite: jrh.Suite, store_uri: str) -> None:
    with LoopbackServer(reply=verdict) as server:
        first = evaluate(prompted(server), suite, store_uri, RULE, concurrency=1)
        asked = server.counts["requests"]
        second = evaluate(prompted(server), suite, store_uri, RULE, concurrency=1)
        assert server.counts["requests"] == asked == len(first.calls) < 60
        whole = jrh.evaluate(prompted(server), suite, tracking_uri=store_uri, experiment="tests", traces="none")
        # With several in flight others may be asked while one is slow: they decide nothing.
        several = evaluate(prompted(server), suite, store_uri, RULE, concurrency=4)
        assert server.counts["requests"] == len(whole.calls), "what the rule had asked is not asked again"
    states = [
        [(rule.state, rule.low, rule.high, rule.n) for rule in done.stopped.rules] for done in (first, second, several)
    ]
    assert states[0] == states[1] == states[2]
    assert (whole.truncated, whole.stopped) == (None, None)
    assert len(second.calls) == len(first.calls)


def test_calls_that_fail_in_passing_do_not_hold_the_decision_up(suite: jrh.Suite) -> None:
    stop = bound_until(jrh.until(RULE), prepare(lambda _: "tie", suite), seed=0)
    failing = {call_key(call) for call in stop.calls[2:4]}
    asked: list[Call] = []

    def ask(call: Call) -> CallRecord:
        asked.append(call)
        fails = call_key(call) in failing
        return CallRecord(**identity(call), outcome="error" if fails else "tie", answer="")

    done = run_pool(
        stop.calls,
        ask,
        within=AsyncExitStack(),
        workers=1,
        on_record=None,
        stop=stop,
        may_pass=lambda record: record.outcome == "error",
        paid=lambda: None,
    )
    assert (done.stopped, len(asked)) == ("until", len(done.records))
    assert stop.report().rules[0].state == "holds"
    assert len(asked) < 60


def test_a_budget_that_ends_first_leaves_the_rules_undecided(suite: jrh.Suite, store_uri: str) -> None:
    with LoopbackServer(reply=verdict) as server:
        done = evaluate(prompted(server), suite, store_uri, RULE, max_usd=8, prices=PRICES, concurrency=1)
    assert done.truncated.startswith("budget: ")
    (rule,) = done.stopped.rules
    assert (rule.state, rule.reason, done.stopped.passed) == ("undecided", "the asking ended before", None)
    assert 0 < rule.asked == len(done.calls) < 20


def test_ctrl_c_leaves_the_rules_undecided_and_the_calls_logged(suite: jrh.Suite, store_uri: str) -> None:
    seen: list[object] = []

    def judge(shown: jrh.Presentation) -> str:
        seen.append(shown)
        if len(seen) == 5:
            os.kill(os.getpid(), signal.SIGINT)
        return "tie"

    with pytest.raises(KeyboardInterrupt) as stopped:
        evaluate(judge, suite, store_uri, RULE, concurrency=1)
    done = stopped.value.evaluation
    assert done.truncated.startswith("interrupted: ")
    assert done.stopped.rules[0].state == "undecided"
    assert 5 <= len(done.calls) < 10


@pytest.mark.parametrize("kind", ["callable", "async", "mlflow", "pointwise"])
def test_every_kind_of_judge_can_be_stopped(kind: str, suite: jrh.Suite, store_uri: str) -> None:
    from mlflow.genai.scorers import scorer

    async def awaited(_: jrh.Presentation) -> str:
        return "tie"

    @scorer
    def indifferent(inputs: Any, outputs: Any) -> str:
        return "tie"

    judges: dict[str, Any] = {
        "callable": lambda _: "tie",
        "async": awaited,
        "mlflow": indifferent,
        "pointwise": jrh.pointwise(lambda _: "yes"),
    }
    done = evaluate(judges[kind], suite, store_uri, RULE, concurrency=1)
    (rule,) = done.stopped.rules
    assert (rule.state, len(done.calls) == rule.asked < 60) == ("holds", True)


def test_replicates_are_calls_of_the_whole(suite: jrh.Suite, store_uri: str) -> None:
    done = evaluate(jrh.scripted.AlwaysTie(), suite, store_uri, RULE, replicates=3)
    assert (done.stopped.rules[0].size, done.stopped.rules[0].state) == (180, "holds")


def test_reliability_tests_stop_too(store_uri: str) -> None:
    suite = pointwise_suite()
    axis = next(f"{item.condition}/accuracy" for item in suite.items if item.condition != "baseline" and item.expected)
    done = evaluate(jrh.scripted.Oracle(), suite, store_uri, f"{axis} >= 0.3")
    assert done.stopped.rules[0].state == "holds"
    assert len(done.calls) < sum(item.replicates for item in suite.items)


def test_a_rule_that_nothing_decides_has_had_all_its_calls_and_no_more(suite: jrh.Suite, store_uri: str) -> None:
    seen: list[int] = []

    def judge(_: jrh.Presentation) -> str:
        seen.append(1)
        if len(seen) == 7:
            raise RuntimeError("no answer")
        return "tie"

    done = evaluate(judge, suite, store_uri, "dark_current <= 0.01", concurrency=1)
    (rule,) = done.stopped.rules
    assert (rule.state, rule.n, rule.size, rule.high) == ("undecided", 60, 60, 1 / 60)
    assert done.truncated == f"until: 60 of {done.stopped.planned} calls"


def test_refused_before_any_call_and_before_any_run(suite: jrh.Suite, store_uri: str) -> None:
    def judge(_: jrh.Presentation) -> str:
        raise AssertionError("asked")

    where = {"tracking_uri": store_uri, "experiment": "of refusals"}
    for verb in (jrh.evaluate, jrh.criterion_shift):
        with pytest.raises(RecipeError, match="'threshold_75' cannot be decided"):
            verb(judge, suite, stop=jrh.until("threshold_75 <= 2"), **where)
    assert MlflowClient(tracking_uri=store_uri).get_experiment_by_name("of refusals") is None
    with pytest.raises(RecipeError, match="stop"):
        jrh.sweep({"model": [MODEL]}, suite, n_trials=1, stop=jrh.until(RULE), tracking_uri=store_uri)


def test_a_stop_of_the_users_own_is_told_every_record_in_the_order_of_the_suite(
    suite: jrh.Suite, store_uri: str
) -> None:
    told: list[str] = []

    def enough(record: CallRecord) -> str | None:
        told.append(record.suite_item)
        return "enough" if len(told) == 9 else None

    done = evaluate(jrh.scripted.AlwaysTie(), suite, store_uri, stop=enough)
    assert told == [item.id for item in suite.items for _ in item.orders][:9]
    assert (done.truncated.startswith("enough: 9 of "), len(done.calls), done.stopped) == (True, 8, None)


def test_arms_of_a_shift_stop_each_by_itself(suite: jrh.Suite, store_uri: str) -> None:
    shift = jrh.criterion_shift(
        lambda shown: "tie" if "wording" in shown.rubric else "1",
        suite,
        stop=jrh.until("raw_false_preference <= 0.4"),
        traces="none",
        tracking_uri=store_uri,
        experiment="tests",
    )
    assert {name: one.stopped.rules[0].state for name, one in shift.arms.items()} == {
        "allowed": "fails",
        "strict": "holds",
    }
    assert any("raw_false_preference" in key for key in shift.metrics)


@pytest.mark.slow
def test_stopped_runs_are_compared_voted_on_and_replayed_on_what_they_share(suite: jrh.Suite, store_uri: str) -> None:
    rules = ["raw_false_preference <= 0.5", "target_sensitivity/delta_1 >= 0.6"]
    first, second = (
        evaluate(judge, suite, store_uri, *rules) for judge in (jrh.scripted.AlwaysFirst(), jrh.scripted.LongerWins())
    )
    ids = [first.run_id, second.run_id]
    shared = set(zip(first.calls["suite_item"], first.calls["order"], strict=True))
    shared &= set(zip(second.calls["suite_item"], second.calls["order"], strict=True))
    compared = jrh.compare(ids, tracking_uri=store_uri, log=False)
    assert any("until" in note for note in compared.notes)
    assert compared.contrasts.n_calls == len(shared) > 0
    assert jrh.jury(ids, tracking_uri=store_uri, log=False).run_id is None
    (again,) = replay_each(f"runs:/{first.run_id}", tracking_uri=store_uri, experiment="tests")
    assert again.datasheet.to_dict() == first.datasheet.to_dict()
    assert again.truncated == first.truncated


def test_an_outbox_entry_of_a_stopped_run_is_logged_as_such(
    suite: jrh.Suite, store_uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from jrh_mlflow.errors import TrackingError
    from jrh_mlflow.measuring import evaluation as module

    def down(*_: object, **__: object) -> None:
        raise TrackingError("MLflow is down")

    with monkeypatch.context() as patch:
        patch.setattr(module, "publish", down)
        with pytest.raises(TrackingError):
            evaluate(jrh.scripted.AlwaysTie(), suite, store_uri, RULE)
    plain = jrh.evaluate(jrh.scripted.AlwaysTie(), suite, tracking_uri=store_uri, experiment="tests", traces="none")
    assert (plain.truncated, plain.stopped) == (None, None), "without the rule it is another evaluation"
    kept = evaluate(jrh.scripted.AlwaysTie(), suite, store_uri, RULE)
    assert kept.stopped.rules[0].state == "holds"
    tags = MlflowClient(tracking_uri=store_uri).get_run(kept.run_id).data.tags
    assert tags["jrh.until"] == f"{RULE}: holds"


def test_the_quote_counts_what_the_rules_could_need(suite: jrh.Suite) -> None:
    assert price_evaluation(jrh.PromptedJudge(MODEL), suite, stop=jrh.until(RULE)).calls == 60


def jrh_command(*arguments: str) -> Any:
    return CliRunner().invoke(group, list(arguments))


def test_the_command_says_what_was_decided_and_ends_with_0(suite: jrh.Suite, store_uri: str, tmp_path: Path) -> None:
    suite.save(tmp_path / "suite")
    where = ("--suite", str(tmp_path / "suite"), "--tracking-uri", store_uri)
    ran = jrh_command(
        "evaluate", "--judge", "scripted:AlwaysTie", "--until", RULE, "--until", "filler_preference<=.9", *where
    )
    assert ran.exit_code == 0, ran.output
    text = " ".join(ran.output.split())
    assert "Until dark_current <= 0.2: holds" in text
    assert "Until filler_preference <= 0.9: holds" in text
    assert "were not needed" in text
    dry = jrh_command("evaluate", "--model", MODEL, "--until", RULE, "--dry-run", *where)
    assert "at most 60 (0 in the journal already" in dry.output
    wrong = jrh_command("evaluate", "--judge", "scripted:AlwaysTie", "--until", "dark_curent <= 0.1", *where)
    assert isinstance(wrong.exception, RecipeError)
    assert "Did you mean 'dark_current'" in str(wrong.exception)


def test_a_recipe_holds_rules(tmp_path: Path, store_uri: str, suite: jrh.Suite) -> None:
    suite.save(tmp_path / "suite")
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(f"judge: scripted:AlwaysTie\nsuite: suite\nuntil:\n  - {RULE}\n", encoding="utf-8")
    assert load_recipe(recipe).options["stop"] == jrh.until([RULE])
    ran = jrh_command("evaluate", str(recipe), "--tracking-uri", store_uri, "--json")
    assert ran.exit_code == 0, ran.output
    assert json.loads(ran.stdout)[0]["until"]["rules"][0]["state"] == "holds"
    recipe.write_text("judge: scripted:AlwaysTie\nuntil: 0.1\n", encoding="utf-8")
    with pytest.raises(RecipeError, match="`until` must be a rule"):
        load_recipe(recipe)
