"""Calls in Ray actors: the same records as at home, on a real cluster of this machine, also when actors are killed."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import jrh_mlflow as jrh
from jrh_mlflow.engine import Asked, ask_calls, plan_calls, runner
from jrh_mlflow.engine.client import ClientSettings
from jrh_mlflow.engine.journal import open_journal
from jrh_mlflow.engine.ray_fleet import ask_calls_on_ray
from jrh_mlflow.errors import JudgeError, RecipeError
from jrh_mlflow.measuring.resolve import resolve_judge
from jrh_mlflow.models.prices import price_of, prompt_size, worst_case_micro
from jrh_mlflow.schema.items import CallRecord
from tests.engine.journal_tools import BACKENDS, backend_of
from tests.loopback import LoopbackServer, error_reply
from tests.waiting import wait_until

MODEL = "openai/gpt-4o-mini"
KEY = "sk-planted-secret-0123456789abcdef"
PRICES = {MODEL: (1000.0, 2000.0)}
SAME = ("suite_item", "order", "replicate", "outcome", "answer", "rationale", "cost_usd", "prompt_sha256", "error")


@pytest.fixture(scope="module", autouse=True)
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    import ray

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPENAI_API_KEY", KEY)
        # Workers have the environment of the moment the cluster starts.
        patch.setenv("JRH_HOME", str(tmp_path_factory.mktemp("workers")))
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        options = {"num_cpus": 2, "object_store_memory": 80 * 2**20, "include_dashboard": False}
        ray.init(address="local", log_to_driver=False, logging_level="ERROR", **options)
        yield
        ray.shutdown()


@pytest.fixture(scope="module")
def small() -> jrh.Suite:
    return jrh.datasheet_suite(n_tasks=2, depth=2, design="paper")


def first_or_tie(body: dict[str, Any]) -> str:
    text = json.dumps(body["messages"])
    return json.dumps({"reason": f"{len(text)}", "verdict": "A" if len(text) % 3 else "tie"})


def judge_at(server: LoopbackServer) -> jrh.PromptedJudge:
    return jrh.PromptedJudge(MODEL, api_base=server.url, max_tokens=64)


def ask(
    server: LoopbackServer,
    suite: jrh.Suite,
    address: str | Path,
    *,
    cap_micro: int | None = None,
    replicates: int = 1,
    concurrency: int = 16,
    **options: Any,
) -> Asked:
    judge = judge_at(server)
    budget = None if cap_micro is None else "b"
    settings = ClientSettings(concurrency=concurrency, budget=budget, price=price_of(MODEL, PRICES))
    with open_journal(address) as journal:
        if budget:
            journal.open_budget(budget, cap_micro)
        return ask_calls_on_ray(
            judge,
            plan_calls(suite, judge, replicates=replicates),
            concurrency=concurrency,
            journal=journal,
            journal_address=address,
            cap_micro=cap_micro,
            settings=settings,
            **options,
        )


def same(asked: Asked) -> list[tuple[object, ...]]:
    return [tuple(getattr(record, name) for name in SAME) for record in asked.records]


def after(n_records: int, act: Callable[[], object]) -> Callable[[CallRecord], None]:
    """Do something once, when so many records have come."""
    seen: Counter[str] = Counter()

    def on_record(_: CallRecord) -> None:
        seen["records"] += 1
        if seen["records"] == n_records:
            act()

    return on_record


def in_flight(address: str) -> list[int]:
    """The process of every call that waits for an answer right now."""
    owners = backend_of(address).execute(address, "SELECT owner FROM {}calls WHERE state = 'reserved'")
    return [int(owner.partition("-")[0]) for (owner,) in owners]


def test_an_evaluation_on_ray_reads_as_at_home_and_is_not_paid_again(small: jrh.Suite, store_uri: str) -> None:
    where = {"tracking_uri": store_uri, "experiment": "tests", "replicates": 2, "prices": PRICES, "traces": "none"}
    with LoopbackServer(reply=first_or_tie) as server:
        home = jrh.evaluate(judge_at(server), small, journal="home.db", max_usd=100, **where)
        n_calls = server.counts["requests"]
        # One actor, as starting one takes seconds.
        ray = {"backend": "ray", "concurrency": 1}
        away = jrh.evaluate(judge_at(server), small, journal="away.db", max_usd=100, **ray, **where)
        assert server.counts["requests"] == 2 * n_calls == 2 * len(away.calls)
        again = jrh.evaluate(judge_at(server), small, journal="away.db", backend="ray", **where)
        assert server.counts["requests"] == 2 * n_calls
    untimed = {key: value for key, value in away.metrics.items() if key != "time/seconds"}
    assert untimed == {key: value for key, value in home.metrics.items() if key != "time/seconds"}
    assert away.calls[list(SAME)].equals(home.calls[list(SAME)])
    assert again.metrics["calls/cached"] == n_calls


@pytest.mark.slow
@pytest.mark.parametrize(
    "database", [pytest.param(name, marks=pytest.mark.slow) if name != "sqlite" else name for name in sorted(BACKENDS)]
)
def test_actors_killed_in_the_middle_lose_nothing_and_pay_nothing_answered_twice(
    small: jrh.Suite, tmp_path: Path, database: str
) -> None:
    address = BACKENDS[database].make(tmp_path)
    held, killed, over = Counter[str](), set[int](), threading.Event()

    async def hold_in_the_middle() -> None:
        if server.counts["requests"] > 20 and not over.is_set():
            held["calls"] += 1
            while not over.is_set():
                await asyncio.sleep(0.01)

    def only_held_ones_are_open() -> bool:
        """Whether at least two actors have calls, and all that was answered is written: none is done before it dies."""
        if not held["calls"]:
            return False
        answered = backend_of(address).execute(address, "SELECT count(*) FROM {}calls WHERE state = 'answered'")
        is_all = server.counts["requests"] - held["calls"] == answered[0][0]
        return is_all and len(set(in_flight(address))) > 1

    def kill_two() -> None:
        try:
            wait_until(only_held_ones_are_open)
            killed.update(in_flight(address))
            for pid in killed:
                os.kill(pid, signal.SIGKILL)
        finally:
            over.set()

    with LoopbackServer(reply=first_or_tie, hold=hold_in_the_middle) as server, ThreadPoolExecutor(1) as beside:
        killing = beside.submit(kill_two)
        done = ask(server, small, address, replicates=2, n_actors=2)
        killing.result()
        judge = judge_at(server)
        with open_journal(tmp_path / "home.db") as journal:
            home = ask_calls(
                judge,
                plan_calls(small, judge, replicates=2),
                journal=journal,
                settings=ClientSettings(concurrency=16, price=price_of(MODEL, PRICES)),
            )
        n_paid = server.counts["billed"] - len(home.records)
    assert len(killed) == 2
    assert same(done) == same(home)
    with open_journal(address) as journal:
        found = journal.summary()
    assert (found.answered, found.failed, found.in_flight) == (len(done.records), 0, 0)
    # Only what was in flight when its actor died is asked again, and it is counted as lost.
    assert 0 < found.lost <= 2 * 16
    assert n_paid <= found.answered + found.lost


@pytest.mark.slow
def test_two_actors_never_pass_the_cap_and_none_gives_up_while_there_is_room(small: jrh.Suite, tmp_path: Path) -> None:
    path, price = tmp_path / "journal.db", price_of(MODEL, PRICES)
    assert price is not None
    with LoopbackServer(reply=first_or_tie, latency=0.01) as server:
        judge = judge_at(server)
        requests = [judge.request(call) for call in plan_calls(small, judge, replicates=2)]
        worst = max(worst_case_micro(price, prompt_size(one), 64) for one in requests)
        cap = 20 * worst
        done = ask(server, small, path, replicates=2, n_actors=2, cap_micro=cap)
    assert done.stopped == "budget"
    with open_journal(path) as journal:
        spent, reserved = journal.spent_micro("b"), journal.reserved_micro("b")
    assert reserved == 0
    assert cap - worst < spent <= cap
    assert server.counts["billed"] == len(done.records) < len(requests)


@pytest.mark.slow
def test_a_stop_rule_ends_the_asking_and_what_is_in_flight_is_settled(small: jrh.Suite, tmp_path: Path) -> None:
    path, seen = tmp_path / "journal.db", Counter[str]()

    def enough(record: CallRecord) -> str | None:
        seen[record.outcome] += 1
        return "decided" if seen.total() >= 20 else None

    with LoopbackServer(reply=first_or_tie, latency=0.02) as server:
        done = ask(server, small, path, replicates=4, concurrency=4, stop=enough)
    assert done.stopped == "decided"
    assert 20 <= len(done.records) == server.counts["billed"] <= 20 + 2 * 4
    with open_journal(path) as journal:
        assert (journal.summary().in_flight, journal.summary().lost) == (0, 0)


@pytest.mark.slow
def test_rules_end_the_asking_of_actors_and_decide_in_the_order_of_the_plan(
    tmp_path: Path, store_uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    suite = jrh.datasheet_suite(n_tasks=5, depth=2, design="paper")
    tie = json.dumps({"reason": "r", "verdict": "tie"})
    with LoopbackServer(reply=lambda _: tie) as server:
        done, local = (
            jrh.evaluate(
                judge_at(server),
                suite,
                stop=jrh.until("dark_current <= 0.2"),
                backend=backend,
                concurrency=4,
                journal=tmp_path / f"{backend}.db",
                tracking_uri=store_uri,
                experiment="tests",
            )
            for backend in ("ray", "local")
        )
    states = [[(rule.state, rule.low, rule.high, rule.n) for rule in one.stopped.rules] for one in (done, local)]
    assert states[0] == states[1]
    assert states[0][0][0] == "holds"
    assert len(done.calls) < 60


@pytest.mark.slow
def test_ctrl_c_settles_what_is_in_flight(small: jrh.Suite, tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    interrupt = after(10, lambda: os.kill(os.getpid(), signal.SIGINT))
    with LoopbackServer(reply=first_or_tie, latency=0.02) as server:
        with pytest.raises(KeyboardInterrupt):
            ask(server, small, path, replicates=4, concurrency=4, on_record=interrupt)
        with open_journal(path) as journal:
            assert (journal.summary().in_flight, journal.summary().lost) == (0, 0)
            assert 10 <= journal.summary().answered == server.counts["billed"] < 4 * 2 * len(small)


@pytest.mark.slow
def test_answers_that_cannot_be_read_end_the_run_wherever_they_were_asked(small: jrh.Suite, tmp_path: Path) -> None:
    with LoopbackServer(reply="prose", latency=0.02) as server:
        with pytest.raises(JudgeError, match="None of the first 20 answers"):
            ask(server, small, tmp_path / "journal.db", concurrency=4)
        # Two actors have at most twice their share of the calls in hand.
        assert 20 <= server.counts["requests"] <= 20 + 2 * 4


@pytest.mark.slow
def test_after_ctrl_c_actors_make_no_further_attempt(
    small: jrh.Suite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arrived, told, path = threading.Semaphore(0), threading.Event(), tmp_path / "journal.db"
    monkeypatch.setattr(runner, "say", lambda _: told.set())

    async def hold() -> None:
        arrived.release()
        while not told.is_set():
            await asyncio.sleep(0.005)

    def interrupt() -> None:
        for _ in range(4):
            assert arrived.acquire(timeout=120)
        os.kill(os.getpid(), signal.SIGINT)

    with LoopbackServer(reply=lambda _: error_reply(503, "Overloaded."), hold=hold) as server:
        threading.Thread(target=interrupt).start()
        with pytest.raises(KeyboardInterrupt):
            ask(server, small, path, concurrency=4, n_actors=2, cap_micro=10**9)
    # The word travels to the actors: an attempt whose back-off is over before it comes still goes out.
    assert server.counts["requests"] <= 2 * 4
    with open_journal(path) as journal:
        assert (journal.reserved_micro("b"), journal.summary().lost) == (0, 0)


@pytest.mark.slow
def test_a_service_that_refuses_the_key_ends_the_run(small: jrh.Suite, tmp_path: Path) -> None:
    with LoopbackServer(key="another") as server, pytest.raises(JudgeError, match="Check the API key") as raised:
        ask(server, small, tmp_path / "journal.db")
    assert KEY not in str(raised.value)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sync", "async"])
def test_a_callable_answers_on_ray_as_at_home(small: jrh.Suite, kind: str) -> None:
    def count(shown: jrh.Presentation) -> jrh.Answer:
        if not shown.first:
            raise ValueError("nothing there")
        return jrh.Answer("1" if len(shown.first) % 2 else "tie", rationale=str(len(shown.first)), cost_usd=0.5)

    async def count_later(shown: jrh.Presentation) -> jrh.Answer:
        return count(shown)

    judge = resolve_judge(count if kind == "sync" else count_later)
    away = ask_calls_on_ray(judge, plan_calls(small, judge, replicates=2), concurrency=8)
    assert same(away) == same(ask_calls(judge, plan_calls(small, judge, replicates=2), concurrency=8))
    assert {"verdict", "tie", "error"} == {record.outcome for record in away.records}


@pytest.mark.slow
def test_a_callable_that_kills_its_worker_once_is_asked_again_and_one_that_always_does_ends_the_run(
    small: jrh.Suite, tmp_path: Path
) -> None:
    mark = tmp_path / "killed"

    def deadly(shown: jrh.Presentation) -> str:
        if not mark.exists() or (tmp_path / "always").exists():
            mark.touch()
            os.kill(os.getpid(), 9)
        return "1"

    judge = resolve_judge(deadly)
    done = ask_calls_on_ray(judge, plan_calls(small, judge, replicates=1), concurrency=1)
    assert mark.exists()
    assert [record.answer for record in done.records] == ["1"] * 2 * len(small)
    (tmp_path / "always").touch()
    with pytest.raises(JudgeError, match="4 Ray workers died in a row"):
        ask_calls_on_ray(judge, plan_calls(small, judge, replicates=1), concurrency=1)


def test_a_judge_that_cannot_be_sent_is_refused(small: jrh.Suite) -> None:
    lock = threading.Lock()

    def locked(shown: jrh.Presentation) -> str:
        with lock:
            return "1"

    with pytest.raises(RecipeError, match="'locked' cannot be sent to Ray's workers"):
        ask_calls_on_ray(resolve_judge(locked), plan_calls(small, resolve_judge(locked), replicates=1))


@pytest.mark.slow
def test_a_judge_whose_module_no_worker_has_is_refused_with_what_to_do(small: jrh.Suite) -> None:
    module = type(sys)("only_here")
    exec("def judge(shown):\n    return '1'", module.__dict__)
    module.judge.__module__ = "only_here"
    sys.modules["only_here"] = module
    try:
        with pytest.raises(RecipeError, match=r"No module named 'only_here'.*Install its module on every node"):
            ask_calls_on_ray(resolve_judge(module.judge), plan_calls(small, resolve_judge(module.judge), replicates=1))
    finally:
        del sys.modules["only_here"]
