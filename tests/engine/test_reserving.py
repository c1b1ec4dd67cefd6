"""Money is set aside for a call when it gets its slot: none for calls in the queue or between two attempts."""

from __future__ import annotations

import asyncio
import itertools
import json
import threading
from pathlib import Path

import pytest

from jrh_mlflow.engine import ask_calls, plan_calls
from jrh_mlflow.engine.budget import Paid, bill
from jrh_mlflow.engine.client import ClientSettings
from jrh_mlflow.engine.journal import open_journal
from jrh_mlflow.engine.limits import Limits
from jrh_mlflow.engine.retries import RetryPolicy
from jrh_mlflow.models.prices import prompt_size, worst_case_micro
from tests.engine.journal_tools import run_at_once
from tests.engine.limits_tools import calls
from tests.engine.virtual_time import now, run
from tests.ledger import MODEL, PRICES, SUITE, VERDICT, judge_at
from tests.loopback import LoopbackServer, Reply, error_reply
from tests.loopback_replies import Body
from tests.waiting import wait_until


def test_only_calls_with_a_slot_have_money_set_aside(tmp_path: Path) -> None:
    held = threading.Event()

    async def hold() -> None:
        while not held.is_set():
            await asyncio.sleep(0.01)

    with LoopbackServer(hold=hold) as server, open_journal(tmp_path / "j.db") as journal:
        judge, seen = judge_at(server), list[int]()

        def look() -> None:
            wait_until(lambda: server.counts["requests"] == 3)
            with open_journal(tmp_path / "j.db") as other:
                seen.append(other.summary().in_flight)
            held.set()

        looking = threading.Thread(target=look)
        looking.start()
        settings = ClientSettings(concurrency=3, price=judge.price(PRICES))
        answers = ask_calls(judge, plan_calls(SUITE, judge, replicates=1), journal=journal, settings=settings)
        looking.join()
    assert seen == [3]
    assert {record.outcome for record in answers.records} == {"verdict"}


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


def test_a_slot_that_is_left_for_a_while_is_free_for_others_and_costs_no_request() -> None:
    async def scenario() -> tuple[list[float], float, int]:
        limits = Limits(1, requests_per_minute=60)
        async with limits.slot() as slot:
            async with slot.aside():
                began = await calls(limits, 1)
            returned = now()
        return began, returned, limits.in_flight

    # One request a second: the second one waits for that of the other call, not for its own.
    assert run(scenario()) == ([0.0], pytest.approx(1.0), 0)


def test_a_slot_that_is_left_when_the_waiting_fails_is_not_given_back_twice() -> None:
    async def scenario() -> int:
        limits = Limits(2)
        with pytest.raises(KeyError):
            async with limits.slot() as slot, slot.aside():
                raise KeyError
        return limits.in_flight

    assert run(scenario()) == 0


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
