"""The money of a journal, for every backend: a cap is never passed, and every reservation is settled once."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jrh_mlflow.engine.journal import Journal, open_journal
from jrh_mlflow.engine.journal.writer import Change, ChangeKind
from tests.engine.journal_tools import BACKENDS, ask, give_back, start_python


@pytest.fixture(params=BACKENDS)
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """What `open_journal` takes to open an empty journal, from any process."""
    return BACKENDS[request.param].make(tmp_path)


def test_a_reservation_settles_at_the_cost_or_at_the_worst_case_when_the_cost_is_unknown(address: str) -> None:
    async def scenario(journal: Journal) -> None:
        assert await journal.reserve("k", budget="b", worst_micro=100)
        assert (journal.spent_micro("b"), journal.reserved_micro("b")) == (0, 100)
        await journal.answered("k", request_json="{}", response_json="{}", cost_micro=30, budget="b")
        assert (journal.spent_micro("b"), journal.reserved_micro("b")) == (30, 0)
        await ask(journal, "unknown", budget="b", worst=50, cost=None)
        assert (journal.spent_micro("b"), journal.reserved_micro("b")) == (80, 0)

    with open_journal(address) as journal:
        journal.open_budget("b", 1_000)
        asyncio.run(scenario(journal))


def test_a_cap_may_be_reached_and_not_passed_until_it_is_raised(address: str) -> None:
    async def scenario(journal: Journal) -> None:
        assert await ask(journal, "a", budget="b", worst=60, cost=60)
        assert not await ask(journal, "b", budget="b", worst=41)
        assert await ask(journal, "c", budget="b", worst=40, cost=40)
        assert not await ask(journal, "d", budget="b", worst=1)
        journal.open_budget("b", 101)
        assert await ask(journal, "d", budget="b", worst=1, cost=1)
        assert await ask(journal, "free", worst=10**9)

    with open_journal(address) as journal:
        journal.open_budget("b", 100)
        asyncio.run(scenario(journal))
        journal.open_budget("b", 101)
        assert journal.spent_micro("b") == 101


def test_reservations_made_at_once_are_granted_while_there_is_room(address: str) -> None:
    async def reserve_all(journal: Journal) -> list[bool]:
        wanted = [journal.reserve(str(i), budget="b", worst_micro=7) for i in range(200)]
        return await asyncio.gather(*wanted)

    with open_journal(address) as journal:
        journal.open_budget("b", 500)
        granted = asyncio.run(reserve_all(journal))
        assert sum(granted) == 500 // 7
        assert journal.reserved_micro("b") == 500 // 7 * 7


@pytest.fixture
def journal(address: str) -> Iterator[Journal]:
    """One journal for all examples of a property, each of which has a budget of its own."""
    with open_journal(address) as opened:
        yield opened


STEPS = st.tuples(
    st.sampled_from(["answered", "unknown", "failed", "release", "hold"]), st.integers(0, 60), st.integers(0, 60)
)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cap=st.integers(0, 300), steps=st.lists(STEPS, max_size=12))
def test_spent_and_reserved_follow_the_plain_sums(
    journal: Journal, cap: int, steps: list[tuple[str, int, int]]
) -> None:
    async def scenario(journal: Journal, budget: str) -> None:
        spent = reserved = 0
        for index, (ending, worst, cost) in enumerate(steps):
            key = f"{budget}-{index}"
            fits = spent + reserved + worst <= cap
            assert await journal.reserve(key, budget=budget, worst_micro=worst) == fits
            if fits and ending in {"answered", "unknown"}:
                price = cost if ending == "answered" else None
                await journal.answered(key, request_json="{}", response_json="{}", cost_micro=price, budget=budget)
                spent += worst if price is None else cost
            elif fits and ending == "failed":
                await journal.failed(
                    key, request_json="{}", reason="r", response_json="{}", cost_micro=cost, budget=budget
                )
                spent += cost
            elif fits and ending == "release":
                await give_back(journal, key, budget=budget)
            elif fits:
                reserved += worst
            assert (journal.spent_micro(budget), journal.reserved_micro(budget)) == (spent, reserved)

    budget = uuid.uuid4().hex
    journal.open_budget(budget, cap)
    asyncio.run(scenario(journal, budget))


RESERVERS = """
import asyncio, sys
from jrh_mlflow.engine.journal import open_journal

async def reserve_all(journal, name):
    calls = iter(range(200))
    async def reserver():
        return sum([await journal.reserve(f"{name}-{i}", budget="b", worst_micro=7) for i in calls])
    return sum(await asyncio.gather(*[reserver() for _ in range(64)]))

with open_journal(sys.argv[1]) as journal:
    journal.open_budget("b", 1_750)
    print("ready", flush=True)
    sys.stdin.readline()
    print(asyncio.run(reserve_all(journal, sys.argv[2])), flush=True)
    sys.stdin.readline()
"""


def test_two_processes_with_64_reservers_each_share_one_cap_exactly(address: str) -> None:
    children = [start_python(RESERVERS, address, name) for name in ("x", "y")]
    for child in children:
        assert child.stdout
        assert child.stdout.readline() == "ready\n"
    for child in children:
        assert child.stdin
        child.stdin.write("go\n")
        child.stdin.flush()
    granted = sum(int(child.stdout.readline()) for child in children if child.stdout)
    assert granted == 1_750 // 7
    for child in children:
        child.communicate("done\n")
        assert child.returncode == 0
    with open_journal(address) as journal:
        # They closed with everything in flight, which is settled at the worst case.
        assert (journal.spent_micro("b"), journal.reserved_micro("b")) == (1_750, 0)
        assert journal.summary().lost == granted


def test_a_reservation_that_is_cancelled_while_it_waits_is_given_back(address: str) -> None:
    async def scenario(journal: Journal) -> None:
        tasks = [asyncio.ensure_future(journal.reserve(str(i), budget="b", worst_micro=10)) for i in range(20)]
        await asyncio.sleep(0)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert await journal.reserve("last", budget="b", worst_micro=10)
        assert journal.reserved_micro("b") == 10
        await give_back(journal, "last", budget="b")

    with open_journal(address) as journal:
        journal.open_budget("b", None)
        asyncio.run(scenario(journal))
        assert journal.summary().in_flight == 0


def test_who_is_cancelled_while_reserving_ends_only_when_it_is_given_back(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that was stopped holds nothing once it has ended, however slowly the disk writes."""

    async def scenario(journal: Journal) -> None:
        commit = journal._writer._commit

        def slowly(changes: list[Change]) -> None:
            if any(change.kind is ChangeKind.WITHDRAW for change in changes):
                time.sleep(0.3)
            commit(changes)

        monkeypatch.setattr(journal._writer, "_commit", slowly)
        task = asyncio.ensure_future(journal.reserve("k", budget="b", worst_micro=10))
        await asyncio.sleep(0)
        while not journal.reserved_micro("b"):
            time.sleep(0.001)  # without a turn of the loop: granted, but the task does not know yet
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert task.cancelled()
        assert journal.reserved_micro("b") == 0

    with open_journal(address) as journal:
        journal.open_budget("b", None)
        asyncio.run(scenario(journal))


def test_calls_in_flight_when_the_journal_is_closed_count_as_lost(
    address: str, caplog: pytest.LogCaptureFixture
) -> None:
    with open_journal(address) as journal:
        journal.open_budget("b", 100)
        asyncio.run(journal.reserve("k", budget="b", worst_micro=40))
    assert "closed with 1 calls in flight" in caplog.text
    with open_journal(address) as journal:
        assert (journal.spent_micro("b"), journal.reserved_micro("b")) == (40, 0)
        assert (journal.summary().lost, journal.summary().in_flight) == (1, 0)


def test_a_failed_attempt_may_be_booked_at_less_when_more_is_known(address: str) -> None:
    async def scenario(journal: Journal) -> None:
        assert await journal.reserve("k", budget="b", worst_micro=100)
        failed: dict[str, Any] = {"request_json": "{}", "reason": "cut", "response_json": None, "budget": "b"}
        held = await journal.failed("k", **failed, cost_micro=100)
        assert journal.spent_micro("b") == 100
        await journal.failed("k", **failed, cost_micro=30, revises=held)
        assert (journal.spent_micro("b"), journal.reserved_micro("b")) == (30, 0)

    with open_journal(address) as journal:
        journal.open_budget("b", 1_000)
        asyncio.run(scenario(journal))
        assert [call.cost_micro for call in journal.settled("b")] == [30]
        assert journal.summary().spent_micro == 30
