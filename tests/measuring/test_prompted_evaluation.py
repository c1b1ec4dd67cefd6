"""Prompted judges end to end: real HTTP, a real journal, a real MLflow store."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import time
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from mlflow import MlflowClient

import jrh_mlflow as jrh
from jrh_mlflow.engine.journal import open_journal
from jrh_mlflow.errors import JudgeError, RecipeError
from jrh_mlflow.measuring.evaluate import price_evaluation
from jrh_mlflow.measuring.resolve import default_journal
from tests.loopback import Faults, LoopbackServer
from tests.processes import Forked

ROOT = Path(__file__).parents[2]
MODEL = "openai/gpt-4o-mini"
KEY = "sk-planted-secret-0123456789abcdef"
PRICES = {MODEL: (1000.0, 2000.0)}


@pytest.fixture(autouse=True)
def _planted_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)


@pytest.fixture(scope="module")
def small() -> jrh.Suite:
    return jrh.datasheet_suite(n_tasks=2, depth=2, design="paper")


def first_or_tie(body: dict[str, Any]) -> str:
    """Prefers A, and says so by the length of the prompt alone: the same prompt always gets the same answer."""
    text = json.dumps(body["messages"])
    return json.dumps({"reason": "r", "verdict": "A" if len(text) % 3 else "tie"})


def evaluate(server: LoopbackServer, suite: jrh.Suite, store_uri: str, **options: Any) -> jrh.Evaluation:
    judge = options.pop("judge", None) or jrh.PromptedJudge(MODEL, api_base=server.url, max_tokens=64, seed=7)
    quiet = {"traces": "none", "progress": False, **options}
    return jrh.evaluate(judge, suite, tracking_uri=store_uri, experiment="tests", **quiet)


def comparable(metrics: dict[str, float]) -> dict[str, float]:
    return {
        key: value
        for key, value in metrics.items()
        if key not in ("time/seconds", "calls/cached", "calls/oldest_answer_days")
    }


def test_a_judge_is_asked_measured_priced_and_logged(small: jrh.Suite, store_uri: str) -> None:
    with LoopbackServer(reply=first_or_tie, record=True) as server:
        done = evaluate(server, small, store_uri)
    assert server.counts["requests"] == len(done.calls) == 2 * len(small)
    body = server.requests[0]["body"]
    assert (body["temperature"], body["seed"], body["max_tokens"]) == (0.0, 7, 64)
    assert body["response_format"]["json_schema"]["schema"]["required"] == ["reason", "verdict"]
    assert done.metrics["tokens/input"] == server.counts["input_tokens"]
    assert done.metrics["tokens/output"] == server.counts["output_tokens"]
    assert done.metrics["cost/usd"] == pytest.approx(done.calls["cost_usd"].sum())
    assert set(done.calls["outcome"]) == {"verdict", "tie"}
    params = MlflowClient(tracking_uri=store_uri).get_run(done.run_id).data.params
    assert params["judge.model"] == MODEL
    assert params["judge.temperature"] == "0.0"
    assert params["judge.seed"] == "7"
    assert params["judge.prompt"] == "pairwise"


def test_a_second_run_asks_nothing_and_reads_the_same(small: jrh.Suite, store_uri: str) -> None:
    with LoopbackServer(reply=first_or_tie) as server:
        first = evaluate(server, small, store_uri)
        asked = server.counts["requests"]
        second = evaluate(server, small, store_uri)
        assert server.counts["requests"] == asked
        assert second.metrics["calls/cached"] == len(second.calls)
        assert comparable(second.metrics) == comparable(first.metrics)
        third = evaluate(server, small, store_uri, replicates=2)
        assert server.counts["requests"] == 2 * asked
        assert third.metrics["calls/cached"] == asked


def test_the_two_orders_of_equal_texts_are_two_calls(store_uri: str) -> None:
    item = {"id": "v", "task": "t", "condition": "vacuum_empty", "instruction": "Say hello.", "u": "", "v": ""}
    from jrh_mlflow.schema.items import Item

    suite = jrh.Suite(name="one", items=[Item(**item)])
    answers = iter(["A", "tie", "A", "A"])
    with LoopbackServer(reply=lambda body: json.dumps({"reason": "", "verdict": next(answers)})) as server:
        done = evaluate(server, suite, store_uri, concurrency=1)
        assert server.counts["requests"] == 2
        assert list(done.calls["outcome"]) == ["verdict", "tie"]
        again = evaluate(server, suite, store_uri, concurrency=1)
        assert server.counts["requests"] == 2
        assert list(again.calls["outcome"]) == ["verdict", "tie"]


@pytest.mark.slow
def test_faults_cost_time_and_never_an_item(small: jrh.Suite, store_uri: str) -> None:
    faults = Faults(rate_limited=0.1, server=0.05, cut=0.05, malformed=0.05)
    with LoopbackServer(reply=first_or_tie, faults=faults, seed=3) as server:
        done = evaluate(server, small, store_uri)
    assert server.counts["requests"] > len(done.calls)
    assert done.metrics["calls/error"] == 0
    assert set(done.calls["outcome"]) <= {"verdict", "tie"}
    with LoopbackServer(reply=first_or_tie) as calm:
        quiet = evaluate(calm, small, store_uri, journal="calm.db")
    assert list(done.calls["answer"]) == list(quiet.calls["answer"])


def test_prose_refusals_and_filters_are_told_apart_and_refusals_are_asked_again(
    small: jrh.Suite, store_uri: str
) -> None:
    # Fewer calls than it takes to call a run hopeless.
    small = jrh.Suite(name="tiny", items=small.items[4:13])
    with LoopbackServer(reply="prose") as server:
        prose = evaluate(server, small, store_uri, journal="prose.db")
        again = evaluate(server, small, store_uri, journal="prose.db")
        assert server.counts["requests"] == len(prose.calls)
    assert set(prose.calls["outcome"]) == {"unparsed"}
    assert set(prose.withheld) >= {"dark_current", "raw_false_preference", "threshold_75"}
    assert again.metrics["calls/cached"] == len(again.calls)
    with LoopbackServer(reply="refusal") as server:
        refused = evaluate(server, small, store_uri, journal="refusal.db")
        evaluate(server, small, store_uri, journal="refusal.db")
        assert server.counts["requests"] == 2 * len(refused.calls)
    assert refused.calls["error"].str.startswith("refusal").all()


@pytest.mark.parametrize(
    ("server_options", "text"),
    [({"key": "another key"}, "API key"), ({"models": ("other-model",)}, "model name")],
)
def test_a_hopeless_run_stops_at_once(
    server_options: dict[str, Any], text: str, small: jrh.Suite, store_uri: str
) -> None:
    with LoopbackServer(**server_options) as server:
        with pytest.raises(JudgeError, match=text) as caught:
            evaluate(server, small, store_uri, concurrency=4, run_name=f"hopeless {text}")
        assert server.counts["requests"] <= 8
    assert KEY not in str(caught.value)
    client = MlflowClient(tracking_uri=store_uri)
    experiment = client.get_experiment_by_name("tests")
    (run,) = client.search_runs([experiment.experiment_id], f"attributes.run_name = 'hopeless {text}'")
    assert run.info.status == "FAILED"


def test_the_cap_ends_the_run_cleanly_and_a_higher_one_continues_it(small: jrh.Suite, store_uri: str) -> None:
    with LoopbackServer(reply=first_or_tie) as server:
        cap = 25.0
        capped = evaluate(server, small, store_uri, max_usd=cap, prices=PRICES)
        asked = server.counts["requests"]
        assert 0 < len(capped.calls) <= asked < 2 * len(small)
        assert capped.cost_usd is not None
        assert capped.cost_usd <= cap
        assert capped.truncated is not None
        assert capped.truncated.startswith("budget: ")
        data = MlflowClient(tracking_uri=store_uri).get_run(capped.run_id).data
        assert data.tags["jrh.truncated"] == capped.truncated
        assert len(capped.calls) % 2 == 0
        whole = evaluate(server, small, store_uri, max_usd=10_000, prices=PRICES)
        assert server.counts["requests"] == 2 * len(small)
        assert whole.truncated is None
        assert whole.metrics["calls/cached"] >= len(capped.calls)


def test_the_cap_is_never_exceeded_by_concurrent_calls(small: jrh.Suite, store_uri: str) -> None:
    """Random caps, faults and answer lengths, 64 in flight: what the provider bills stays under the cap."""
    from jrh_mlflow.engine import ask_calls, plan_calls
    from jrh_mlflow.engine.client import ClientSettings
    from jrh_mlflow.engine.retries import RetryPolicy
    from jrh_mlflow.models.prices import cost_micro, price_of

    price = price_of(MODEL, PRICES)
    assert price is not None
    rng = random.Random(5)
    truncated = 0
    # Caps that end every run and hardly any, each with every mix of faults.
    for trial, (low, high, rate_limited, cut) in enumerate(
        (*caps, *shares) for caps in ((5, 20), (60, 150)) for shares in product((0, 0.1), repeat=2)
    ):
        cap = rng.randrange(low * 1_000_000, high * 1_000_000)
        faults = Faults(rate_limited=rate_limited, cut=cut)
        words = "word " * rng.randrange(1, 40)
        reply = json.dumps({"reason": words, "verdict": "A"})
        with (
            LoopbackServer(reply=lambda body, reply=reply: reply, faults=faults, seed=trial) as server,
            open_journal(f"budget-{trial}.db") as journal,
        ):
            judge = jrh.PromptedJudge(MODEL, api_base=server.url, max_tokens=64)
            journal.open_budget("b", cap)
            came = ask_calls(
                judge,
                plan_calls(small, judge, replicates=1),
                concurrency=64,
                journal=journal,
                settings=ClientSettings(concurrency=64, budget="b", price=price, policy=RetryPolicy(base_s=0.01)),
            )
            billed = cost_micro(price, server.counts["input_tokens"], server.counts["output_tokens"])
            assert billed <= cap
            assert billed <= journal.spent_micro("b") <= cap
            assert journal.reserved_micro("b") == 0
            truncated += came.stopped == "budget"
    assert 2 <= truncated < 8


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"max_usd": 0}, RecipeError, "positive amount"),
        ({"max_usd": float("nan")}, RecipeError, "positive amount"),
        ({"max_usd": -1}, RecipeError, "positive amount"),
        (
            {"max_usd": 1, "judge": jrh.PromptedJudge("openai/my-own", api_base="http://127.0.0.1:9/v1")},
            RecipeError,
            "price",
        ),
        ({"max_usd": 1, "judge": jrh.scripted.Oracle()}, RecipeError, "priced beforehand"),
        ({"concurrency": -1}, ValueError, "concurrency"),
        ({"backend": "sparks"}, RecipeError, "Unknown backend"),
        ({"traces": "sometimes"}, RecipeError, "traces"),
    ],
)
def test_settings_that_make_no_sense_are_refused_before_anything_is_sent(
    options: dict[str, Any], error: type[Exception], text: str, small: jrh.Suite, store_uri: str
) -> None:
    with LoopbackServer() as server:
        with pytest.raises(error, match=text):
            evaluate(server, small, store_uri, **options)
        assert server.counts["requests"] == 0


def test_an_unknown_price_is_not_zero(small: jrh.Suite, store_uri: str) -> None:
    with LoopbackServer(reply=first_or_tie) as server:
        done = evaluate(server, small, store_uri, judge=jrh.PromptedJudge("openai/my-own", api_base=server.url))
    assert done.cost_usd is None
    assert "cost/usd" not in done.metrics
    assert done.metrics["tokens/input"] > 0


def test_a_quote_costs_nothing_and_covers_the_bill(small: jrh.Suite, store_uri: str) -> None:
    with LoopbackServer(reply=first_or_tie) as server:
        judge = jrh.PromptedJudge(MODEL, api_base=server.url, max_tokens=64, seed=7)
        before = price_evaluation(judge, small)
        assert server.counts["requests"] == 0
        done = evaluate(server, small, store_uri)
        after = price_evaluation(judge, small)
    assert before.calls == len(done.calls)
    assert before.worst_usd is not None
    assert done.cost_usd is not None
    assert done.cost_usd <= before.worst_usd
    assert (after.journalled, after.usd) == (after.calls, 0.0)


def test_no_key_is_in_anything_that_was_written(small: jrh.Suite, store_uri: str, tmp_path: Path) -> None:
    """The judge repeats the key it was sent, in its reason and in an error, and it still reaches no file."""

    def leaky(body: dict[str, Any]) -> str:
        return json.dumps({"reason": f"my key is {KEY}", "verdict": "A"})

    with LoopbackServer(reply=leaky, model_name=f"model {KEY}") as server:
        done = evaluate(server, jrh.Suite(name="few", items=small.items[::4]), store_uri, traces="all")
    folder = tmp_path / "downloaded"
    folder.mkdir()
    MlflowClient(tracking_uri=store_uri).download_artifacts(done.run_id, "", str(folder))
    database = Path(store_uri.removeprefix("sqlite:///"))
    for file in [*folder.rglob("*"), *(tmp_path / ".jrh").rglob("*"), *database.parent.rglob("*")]:
        if file.is_file():
            assert KEY.encode() not in file.read_bytes(), file


CHILD = """
import sys, jrh_mlflow as jrh
from jrh_mlflow.engine import ask_calls, plan_calls
from jrh_mlflow.engine.journal import open_journal
from jrh_mlflow.engine.client import ClientSettings
url, path = sys.argv[1:]
judge = jrh.PromptedJudge("openai/gpt-4o-mini", api_base=url, max_tokens=64, seed=7)
suite = jrh.datasheet_suite(n_tasks=2, depth=2, design="paper")
with open_journal(path) as journal:
    ask_calls(judge, plan_calls(suite, judge, replicates=2), concurrency=8, journal=journal,
              settings=ClientSettings(concurrency=8))
"""


def test_killed_at_any_moment_and_started_again_repeats_no_answered_call(small: jrh.Suite, store_uri: str) -> None:
    """kill -9 at random moments: every answer is in the journal, and the result is the undisturbed one."""
    total = 2 * 2 * len(small)
    rng = random.Random(11)
    with LoopbackServer(reply=first_or_tie, latency=0.05) as server:
        undisturbed = evaluate(server, small, store_uri, journal="undisturbed.db", replicates=2)
        start = server.counts["answered"]
        kills = 0
        for _ in range(4):
            child = Forked(CHILD, server.url, Path("killed.db").resolve())
            before, enough = server.counts["answered"], rng.randrange(1, 10)
            while child.poll() is None and server.counts["answered"] < before + enough:
                time.sleep(0.005)
            if child.poll() is not None:
                break
            os.kill(child.pid, signal.SIGKILL)
            child.wait()
            kills += 1
        resumed = evaluate(server, small, store_uri, journal="killed.db", replicates=2)
        answered = server.counts["answered"] - start
    assert kills >= 3
    # An answer on its way when the process died can only be asked again: at most those in flight at each kill.
    assert total <= answered <= total + 8 * kills
    assert comparable(resumed.metrics) == comparable(undisturbed.metrics)
    with open_journal("killed.db") as journal:
        assert journal.summary().answered == total


@pytest.mark.slow
def test_ctrl_c_settles_what_is_in_flight_and_says_how_to_continue(small: jrh.Suite, store_uri: str) -> None:
    with LoopbackServer(reply=first_or_tie, latency=0.1) as server:
        child = Forked(CHILD, server.url, Path("stopped.db").resolve(), stderr=subprocess.PIPE, text=True)
        while server.counts["answered"] < 10:
            time.sleep(0.01)
        child.send_signal(signal.SIGINT)
        _, said = child.communicate(timeout=60)
        assert child.returncode != 0
        assert "Stopping: calls in flight are settled first" in said
        with open_journal("stopped.db") as journal:
            summary = journal.summary()
        assert (summary.answered, summary.lost) == (server.counts["answered"], 0)


def test_the_default_journal_is_in_the_home_of_this_package(tmp_path: Path) -> None:
    assert default_journal() == tmp_path / ".jrh" / "journal.db"
