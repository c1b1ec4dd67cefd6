"""Money is set aside for a call that gets its slot next: none for the queue behind it or between two attempts."""

from __future__ import annotations

import asyncio
import itertools
import json
import sqlite3
import threading
import time
from contextlib import closing, suppress
from functools import partial
from pathlib import Path

import pytest

from jrh_mlflow.engine import ask_calls, plan_calls
from jrh_mlflow.engine.budget import Paid, bill
from jrh_mlflow.engine.client import ClientSettings, ModelClient
from jrh_mlflow.engine.journal import open_journal
from jrh_mlflow.engine.limits import Limits
from jrh_mlflow.engine.retries import RetryPolicy
from jrh_mlflow.models.prices import prompt_size, worst_case_micro
from tests.engine.journal_tools import run_at_once
from tests.engine.virtual_time import run
from tests.ledger import MODEL, PRICES, SUITE, VERDICT, judge_at
from tests.loopback import LoopbackServer, Reply, error_reply
from tests.loopback_replies import Body
from tests.waiting import wait_until


def test_only_calls_with_a_slot_and_the_next_of_them_have_money_set_aside(tmp_path: Path) -> None:
    held = threading.Event()

    async def hold() -> None:
        while not held.is_set():
            await asyncio.sleep(0.01)

    with LoopbackServer(hold=hold) as server, open_journal(tmp_path / "j.db") as journal:
        judge, seen = judge_at(server), list[int]()

        def look() -> None:
            wait_until(lambda: server.counts["requests"] == 3)
            with open_journal(tmp_path / "j.db") as other:
                wait_until(lambda: other.summary().in_flight == 4)
                for _ in range(20):
                    time.sleep(0.01)
                    seen.append(other.summary().in_flight)
            held.set()

        looking = threading.Thread(target=look)
        looking.start()
        settings = ClientSettings(concurrency=3, price=judge.price(PRICES))
        answers = ask_calls(judge, plan_calls(SUITE, judge, replicates=1), journal=journal, settings=settings)
        looking.join()
    assert set(seen) == {4}
    assert {record.outcome for record in answers.records} == {"verdict"}


def test_no_slot_waits_for_a_commit(tmp_path: Path) -> None:
    first, rest, numbers = threading.Event(), threading.Event(), itertools.count()

    async def hold() -> None:
        free = first if next(numbers) == 0 else rest
        while not free.is_set():
            await asyncio.sleep(0.01)

    with LoopbackServer(hold=hold) as server, open_journal(tmp_path / "j.db") as journal:
        judge, sent = judge_at(server), list[int]()

        def watch() -> None:
            with open_journal(tmp_path / "j.db") as other:
                wait_until(lambda: other.summary().in_flight == 5)
            wait_until(lambda: server.counts["requests"] == 4)
            with closing(sqlite3.connect(tmp_path / "j.db", isolation_level=None)) as busy:
                # As another process that writes: nothing is committed until it ends.
                busy.execute("BEGIN IMMEDIATE")
                first.set()
                with suppress(AssertionError):
                    wait_until(lambda: server.counts["requests"] == 5, seconds=10)
                sent.append(server.counts["requests"])
                busy.execute("ROLLBACK")
            rest.set()

        watching = threading.Thread(target=watch)
        watching.start()
        settings = ClientSettings(concurrency=4, price=judge.price(PRICES))
        answers = ask_calls(judge, plan_calls(SUITE, judge, replicates=1), journal=journal, settings=settings)
        watching.join()
    assert sent == [5]
    assert {record.outcome for record in answers.records} == {"verdict"}


def test_a_call_that_is_cancelled_before_it_is_sent_gives_its_money_back(tmp_path: Path) -> None:
    async def hold() -> None:
        await asyncio.sleep(3600)

    async def scenario() -> tuple[int, int]:
        requests = [judge.request(call) for call in planned]
        settings = ClientSettings(concurrency=2, price=judge.price(PRICES))
        async with ModelClient(judge.model, judge.api_base, journal, settings) as client:
            send = partial(client.send, unusable=lambda response: None)
            *sent, waiting = [asyncio.ensure_future(send(request, request.key(0))) for request in requests]
            while journal.summary().in_flight < 3 or server.counts["requests"] < 2:
                await asyncio.sleep(0.01)
            ends = []
            for cancelled in ([waiting], sent):
                for call in cancelled:
                    call.cancel()
                await asyncio.gather(*cancelled, return_exceptions=True)
                ends.append(journal.summary().in_flight)
        return ends[0], ends[1]

    with LoopbackServer(hold=hold) as server, open_journal(tmp_path / "j.db") as journal:
        judge = judge_at(server)
        different = {judge.request(call).key(0): call for call in plan_calls(SUITE, judge, replicates=1)}
        planned = list(itertools.islice(different.values(), 3))
        # What was sent may be billed: that stays.
        assert asyncio.run(scenario()) == (2, 2)


@pytest.mark.parametrize("bad", [error_reply(500, "Oops."), error_reply(429, "Slow down.")], ids=["500", "429"])
def test_a_call_between_two_attempts_leaves_its_money_to_others(tmp_path: Path, bad: Reply) -> None:
    prompts: list[str] = []

    def reply(body: Body) -> str | Reply:
        prompts.append(json.dumps(body["messages"]))
        # The first call gets no answer before another one was sent.
        return VERDICT if len(set(prompts)) > 1 else bad

    with LoopbackServer(reply=reply) as server, open_journal(tmp_path / "j.db") as journal:
        judge = judge_at(server)
        price = judge.price(PRICES)
        different = {judge.request(call).key(0): call for call in plan_calls(SUITE, judge, replicates=1)}
        planned = list(itertools.islice(different.values(), 2))
        worst = max(worst_case_micro(price, prompt_size(judge.request(call)), 64) for call in planned)
        journal.open_budget("b", worst + worst // 2)
        policy = RetryPolicy(base_s=0.01, max_rejections=20)
        settings = ClientSettings(concurrency=2, price=price, budget="b", policy=policy)
        answers = ask_calls(judge, planned, journal=journal, settings=settings)
    assert [record.outcome for record in answers.records] == ["verdict"] * 2
    assert len(set(prompts[:6])) == 2, "before the first call has used up its attempts"


def test_a_place_that_is_left_for_a_while_is_free_for_others() -> None:
    async def scenario() -> list[str]:
        limits, said = Limits(2), list[str]()

        async def third() -> None:
            async with limits.place():
                said.append("third")

        async with limits.place(), limits.slot(), limits.place(), limits.slot(), limits.place() as place:
            waiting = asyncio.create_task(third())
            await asyncio.sleep(1)
            said.append("full")
            async with place.aside():
                await waiting
            said.append("back")
        async with limits.place(), limits.slot(), limits.place(), limits.slot(), limits.place():
            return said

    assert run(scenario()) == ["full", "third", "back"]


def test_a_place_that_is_left_when_the_waiting_fails_is_not_given_back_twice() -> None:
    async def scenario() -> bool:
        limits = Limits(2)
        with pytest.raises(KeyError):
            async with limits.place() as place, place.aside():
                raise KeyError
        async with limits.place(), limits.slot(), limits.place(), limits.slot(), limits.place():
            third = asyncio.create_task(limits.place().__aenter__())
            await asyncio.sleep(1)
            return third.done() or not third.cancel()

    assert run(scenario()) is False


def test_a_place_that_comes_as_its_caller_is_cancelled_goes_to_the_next() -> None:
    async def scenario() -> bool:
        limits = Limits(1)
        async with limits.place():
            first, second = (asyncio.create_task(limits.place().__aenter__()) for _ in range(2))
            await asyncio.sleep(1)
        first.cancel()
        await asyncio.wait_for(second, 1)
        return first.cancelled()

    assert run(scenario())


def test_who_has_given_up_waiting_for_a_place_keeps_nobody_out() -> None:
    async def scenario() -> None:
        limits = Limits(1)
        async with limits.place():
            gone = asyncio.create_task(limits.place().__aenter__())
            await asyncio.sleep(1)
            gone.cancel()
        await asyncio.wait_for(limits.place().__aenter__(), 1)

    run(scenario())


UNDER_ONE_CAP = """
import sys
from jrh_mlflow.engine import ask_calls
from jrh_mlflow.engine.calls import plan_calls
from jrh_mlflow.engine.budget import Paid, bill
from jrh_mlflow.engine.client import ClientSettings
from jrh_mlflow.engine.journal import open_journal
from jrh_mlflow.engine.retries import RetryPolicy
from tests.ledger import MODEL, PRICES, SUITE, judge_of

url, path, cap = sys.argv[1], sys.argv[2], int(sys.argv[3])
judge = judge_of(url)
print("ready", flush=True)
sys.stdin.readline()
with open_journal(path) as journal:
    journal.open_budget("b", cap)
    policy = RetryPolicy(base_s=0.01)
    settings = ClientSettings(concurrency=4, price=judge.price(PRICES), budget="b", policy=policy)
    answers = ask_calls(judge, plan_calls(SUITE, judge, replicates=3), journal=journal, settings=settings)
    print(answers.stopped, answers.paid.micro, answers.paid.worst_micro)
"""


def test_three_processes_under_one_cap_stay_below_it_and_leave_nothing_set_aside(tmp_path: Path) -> None:
    turns, bad = itertools.count(), {1: error_reply(500, "Oops."), 3: Reply(text=VERDICT, cut=True)}
    cap = 20_000
    with LoopbackServer(reply=lambda _: bad.get(next(turns) % 5, VERDICT)) as server:
        said = run_at_once(UNDER_ONE_CAP, server.url, str(tmp_path / "j.db"), str(cap), n=3)
        billed = server.bill_micro(*PRICES[MODEL])
    with open_journal(tmp_path / "j.db") as journal:
        spent, reserved = journal.spent_micro("b"), journal.reserved_micro("b")
        paid = sum(bill(journal).values(), Paid())
    assert all("budget" in line for line in said), said
    assert reserved == 0
    assert spent == paid.micro + paid.worst_micro
    assert paid.micro <= billed <= spent <= cap
