"""`jrh.watch` in a real store: one run for all looks, what it logs, what the judge's run says, and what is asked."""

from __future__ import annotations

import json
import os
import re
from typing import Any

import mlflow
import pytest
from mlflow import MlflowClient

import jrh_mlflow as jrh
from jrh_mlflow.errors import BudgetError, RecipeError
from jrh_mlflow.watching import watch
from jrh_mlflow.watching.watch import LookUnderWayError
from tests.cases import few
from tests.comparing.test_compare import pointwise_suite
from tests.loopback import LoopbackServer
from tests.people.command import jrh as command
from tests.tracking.traces.trace_tools import answered, logging_traces

SUITE = jrh.datasheet_suite(n_tasks=10, depth=2)


def evaluated(judge: object, store_uri: str, suite: jrh.Suite = SUITE, **more: Any) -> str:
    options = {"experiment": "watched", "tracking_uri": store_uri, "progress": False, "traces": "none"}
    return str(jrh.evaluate(judge, suite, **options, **more).run_id)


def looks(run_id: str, store_uri: str, n: int, **more: Any) -> jrh.Watch:
    for _ in range(n):
        done = jrh.watch(run_id, tracking_uri=store_uri, **more)
    return done


def test_a_judge_that_drifts_is_found_and_its_own_run_says_so(store_uri: str, capsys: Any) -> None:
    judge = jrh.scripted.Drifting(on="equal", jump=0.5, at=2)
    run_id = evaluated(judge, store_uri)
    start = jrh.watch(run_id, panel=40, tracking_uri=store_uri)
    assert (start.state, start.n_looks, len(start.axes), start.looks[0]["calls"]) == ("unchanged", 0, 4, 240)
    assert jrh.status(run_id, tracking_uri=store_uri).state == "measured"
    steady = jrh.watch(run_id, tracking_uri=store_uri)
    assert steady
    assert steady.run_id == start.run_id
    assert steady.looks[1]["calls"] == 40
    done = looks(run_id, store_uri, 4)
    assert (done.state, bool(done), done.simulated) == ("changed", False, True)
    found = {axis.axis for axis in done.axes if axis.alarm}
    assert "raw_false_preference" in found
    assert "ability" not in found
    assert {call.condition for call in done.changed_calls} == {"delta_0_same"}
    assert done.verdict.problems
    for shown in (done.page.to_html(), done._repr_html_()):
        assert re.search(r'<span class="[a-z -]+">simulated</span>', shown)
    assert len(done.verdict.sentences) <= 4
    client = MlflowClient(store_uri)
    tags = client.get_run(run_id).data.tags
    assert tags["jrh.drift"].startswith("changed since")
    assert tags["jrh.watch_run"] == done.run_id
    status = jrh.status(run_id, tracking_uri=store_uri)
    assert (status.state, bool(status)) == ("drifted", False)
    logged = client.get_run(str(done.run_id))
    assert logged.data.tags["jrh.kind"] == "watch"
    assert logged.info.status == "FINISHED"
    assert logged.data.tags["jrh.watched_run"] == run_id
    history = client.get_metric_history(str(done.run_id), "watch/raw_false_preference/log10_e")
    assert [point.step for point in history] == [1, 2, 3, 4, 5]
    limit = client.get_metric_history(str(done.run_id), "watch/raw_false_preference/log10_limit")
    assert len({point.value for point in limit}) == 1
    assert history[-1].value > limit[-1].value
    assert {"panel", "asks.parquet", "watch.json", "page.json"} <= {
        file.path for file in client.list_artifacts(str(done.run_id))
    }
    later = command("watch", run_id[:12], "--json", "--tracking-uri", store_uri, capsys=capsys)
    assert later.code == 1
    assert json.loads(later.out)["state"] == "changed"
    again = jrh.watch(run_id, tracking_uri=store_uri, restart=True)
    assert again.run_id != done.run_id
    assert again.n_looks == 0


@pytest.mark.slow
def test_a_noisy_judge_that_does_not_change_stays_unchanged(store_uri: str, capsys: Any) -> None:
    run_id = evaluated(jrh.scripted.Drifting(noise=0.3), store_uri)
    done = looks(run_id, store_uri, 4)
    assert done.state == "unchanged"
    assert done.n_looks == 3
    assert any(axis.detectable is not None for axis in done.axes)
    shown = command("watch", run_id, "--tracking-uri", store_uri, capsys=capsys)
    assert shown.code == 0
    assert jrh.status(run_id, tracking_uri=store_uri).state == "measured"


def test_every_look_asks_afresh_and_says_what_it_costs(store_uri: str, capsys: Any) -> None:
    with LoopbackServer() as server:
        judge = jrh.PromptedJudge("openai/judge", api_base=server.url)
        prices = {"openai/judge": (1.0, 2.0)}
        run_id = evaluated(judge, store_uri, prices=prices)
        asked = server.counts["requests"]
        before = command(
            *("watch", run_id, "--panel", 20, "--dry-run", "--price", "openai/judge=1,2", "--tracking-uri", store_uri),
            capsys=capsys,
        )
        assert before.code == 0
        assert server.counts["requests"] == asked
        assert "120 calls" in before.out
        sent = []
        for _ in range(3):
            at = server.counts["requests"]
            done = jrh.watch(run_id, panel=20, prices=prices, tracking_uri=store_uri)
            sent.append(server.counts["requests"] - at)
        assert sent == [120, 20, 20]
        assert done.cost_usd
        assert done.looks[0]["usd"] > 3 * done.cost_usd
        assert "20 calls" in capsys.readouterr().err
        with pytest.raises(BudgetError):
            jrh.watch(run_id, prices=prices, max_usd=0.000001, tracking_uri=store_uri)
        assert jrh.watch(run_id, prices=prices, tracking_uri=store_uri).n_looks == 3


def test_of_two_looks_at_one_moment_the_second_asks_nothing(store_uri: str) -> None:
    asked, refused, run = [], list[LookUnderWayError](), list[str]()

    def judge(shown: jrh.Presentation) -> str:
        asked.append(shown)
        if run and not refused:
            with pytest.raises(LookUnderWayError) as caught:
                jrh.watch(run[0], judge=judge, tracking_uri=store_uri)
            refused.append(caught.value)
        return "tie"

    run.append(evaluated(judge, store_uri, concurrency=1))
    asked.clear()
    done = jrh.watch(run[0], judge=judge, panel=20, concurrency=1, tracking_uri=store_uri)
    assert (len(asked), done.n_looks) == (20 * 6, 0)
    assert refused[0].exit_code == 0


@pytest.mark.slow
def test_a_look_that_one_elsewhere_has_overtaken_is_not_counted(store_uri: str, monkeypatch: Any) -> None:
    elsewhere: list[str] = []

    def judge(shown: jrh.Presentation) -> str:
        if elsewhere:
            monkeypatch.setenv("JRH_HOME", f"{os.environ['JRH_HOME']}/elsewhere")
            jrh.watch(elsewhere.pop(), judge=lambda shown: "tie", tracking_uri=store_uri)
        return "tie"

    run_id = evaluated(judge, store_uri)
    looks(run_id, store_uri, 1, judge=judge, panel=8)
    elsewhere.append(run_id)
    with pytest.raises(LookUnderWayError):
        jrh.watch(run_id, judge=judge, concurrency=1, tracking_uri=store_uri)
    assert looks(run_id, store_uri, 1, judge=judge).n_looks == 2


def test_what_cannot_be_watched_is_refused(store_uri: str) -> None:
    code = evaluated(lambda shown: "tie", store_uri)
    with pytest.raises(RecipeError, match="code"):
        jrh.watch(code, tracking_uri=store_uri)
    done = jrh.watch(code, judge=lambda shown: "tie", panel=8, tracking_uri=store_uri)
    assert done.state == "unchanged"
    with pytest.raises(RecipeError):
        jrh.watch(code, judge=lambda shown: "tie", traces="an-application", tracking_uri=store_uri)
    with pytest.raises(RecipeError):
        jrh.watch(str(done.run_id), tracking_uri=store_uri)
    hidden = evaluated(jrh.scripted.Oracle(), store_uri, texts=False)
    with pytest.raises(RecipeError):
        jrh.watch(hidden, tracking_uri=store_uri)


class Grades:
    """Says yes to answers with the word good; strict, to none."""

    strict = False

    def __call__(self, shown: jrh.Presentation) -> str:
        return "yes" if "good" in (shown.response or "") and not self.strict else "no"


def sessions(n: int, answer: str, name: str) -> None:
    for number in range(n):
        with mlflow.start_span(name="app") as span:
            span.set_inputs("Is it late?")
            span.set_outputs(f"{answer} {name} {number}")
            mlflow.update_current_trace(metadata={"mlflow.trace.session": f"{name}-{number}"})


@pytest.mark.slow
@pytest.mark.parametrize(("judge_moves", "application_moves"), few([(True, True), (False, True), (True, False)]))
def test_with_traces_the_judge_is_told_from_the_application(
    store_uri: str, monkeypatch: pytest.MonkeyPatch, judge_moves: bool, application_moves: bool
) -> None:
    monkeypatch.setattr(watch, "_OLD_TRACES", 24)  # each trace takes its time
    judge, experiment = Grades(), f"app-{judge_moves}-{application_moves}"
    run_id = evaluated(judge, store_uri, pointwise_suite(name=experiment, suffix=" good"))
    options = {"judge": judge, "tracking_uri": store_uri}
    with logging_traces(store_uri, experiment):
        sessions(20, "A good answer", "old")
        sessions(4, "A poor answer", "older")
        start = jrh.watch(run_id, traces=f"traces:/{experiment}", panel=12, **options)
        assert start.looks[0]["calls"] == 6 * (12 + 24)
        states = []
        for look in range(3):
            judge.strict = judge_moves and look > 1
            poor = (application_moves and look == 1) or (application_moves and not judge_moves and look > 1)
            sessions(10, "A poor answer" if poor else "A good answer", f"new-{look}")
            sessions(2, "A poor answer", f"newer-{look}")
            states.append(jrh.watch(run_id, **options).state)
    expected = "both" if judge_moves and application_moves else "changed" if judge_moves else "application changed"
    assert (states[0], states[-1]) == ("unchanged", expected)
    with pytest.raises(RecipeError):
        jrh.watch(run_id, traces="another", **options)


def test_traces_of_too_few_sessions_are_refused(store_uri: str) -> None:
    run_id = evaluated(Grades(), store_uri, pointwise_suite(name="few"))
    with logging_traces(store_uri, "few-sessions"):
        answered()
        with pytest.raises(RecipeError):
            jrh.watch(run_id, judge=Grades(), traces="few-sessions", tracking_uri=store_uri)
