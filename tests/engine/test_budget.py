"""One budget, several processes: none gives up while another may still give room, and none waits for the dead."""

from __future__ import annotations

import asyncio
import pickle
from pathlib import Path
from typing import Any

import pytest

from jrh_mlflow.engine import budget as budgets
from jrh_mlflow.engine.budget import AnsweredElsewhere, Budget, OutOfBudget, Overrun, Paid, paid_from
from jrh_mlflow.engine.journal import Journal, open_journal
from jrh_mlflow.schema.requests import Request, Response
from tests.engine.journal_tools import give_back, start_python

pytestmark = pytest.mark.quick

REQUEST = Request(model="m", messages=())
DYING = """
import asyncio, os, sys
from jrh_mlflow.engine.journal import open_journal
journal = open_journal(sys.argv[1])
journal.open_budget("b", 100)
asyncio.run(journal.reserve("k", budget="b", worst_micro=60))
print("reserved", flush=True)
sys.stdin.read()
"""


def shared(journal: Journal) -> Budget:
    journal.open_budget("b", 100)
    return Budget(journal, "b")


async def until_waiting(task: asyncio.Task[None]) -> None:
    await asyncio.wait([task], timeout=3 * budgets.POLL_S)
    assert not task.done()


def test_a_budget_waits_for_what_another_process_holds_and_takes_what_comes_back(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"

    async def run(one: Journal, other: Journal) -> None:
        mine, theirs = shared(one), shared(other)
        await theirs.reserve("theirs", 90)
        waiting = asyncio.create_task(mine.reserve("mine", 90))
        await until_waiting(waiting)
        await other.answered("theirs", request_json="{}", response_json="{}", cost_micro=10, budget="b")
        await waiting
        assert one.reserved_micro("b") == 90

    with open_journal(path) as one, open_journal(path) as other:
        asyncio.run(run(one, other))


def test_a_budget_gives_up_once_nobody_holds_anything(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"

    async def run(one: Journal, other: Journal) -> None:
        mine, theirs = shared(one), shared(other)
        await theirs.reserve("theirs", 90)
        waiting = asyncio.create_task(mine.reserve("mine", 90))
        await until_waiting(waiting)
        await other.answered("theirs", request_json="{}", response_json="{}", cost_micro=20, budget="b")
        with pytest.raises(OutOfBudget):
            await waiting

    with open_journal(path) as one, open_journal(path) as other:
        asyncio.run(run(one, other))


def test_a_budget_does_not_wait_for_a_process_that_was_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budgets, "SETTLE_DEAD_S", 0.2)
    path = tmp_path / "journal.db"

    async def run(journal: Journal) -> None:
        mine = shared(journal)
        waiting = asyncio.create_task(mine.reserve("mine", 60))
        await until_waiting(waiting)
        other.kill()
        other.wait()
        with pytest.raises(OutOfBudget):
            await asyncio.wait_for(waiting, 60)
        assert (journal.spent_micro("b"), journal.reserved_micro("b")) == (60, 0)

    with start_python(DYING, str(path)) as other:
        assert other.stdout
        assert other.stdout.readline().strip() == "reserved"
        with open_journal(path) as journal:
            asyncio.run(run(journal))


def test_a_budget_does_not_wait_for_ever_for_one_that_settles_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(budgets, "PATIENCE_S", 4 * budgets.POLL_S)

    async def run(one: Journal, other: Journal) -> None:
        mine, theirs = shared(one), shared(other)
        await theirs.reserve("theirs", 90)
        waiting = asyncio.create_task(mine.reserve("mine", 90))
        await until_waiting(waiting)
        with pytest.raises(OutOfBudget):
            await asyncio.wait_for(waiting, 60)
        await give_back(other, "theirs", budget="b")

    with open_journal(tmp_path / "journal.db") as one, open_journal(tmp_path / "journal.db") as other:
        asyncio.run(run(one, other))


def test_a_call_that_another_process_has_in_flight_is_waited_for_and_its_answer_served(tmp_path: Path) -> None:
    answer = Response(text="theirs", finish_reason="stop").to_json()

    async def run(one: Journal, other: Journal) -> None:
        mine, theirs = shared(one), shared(other)
        await theirs.reserve("k", 10)
        waiting = asyncio.create_task(mine.reserve("k", 10))
        await until_waiting(waiting)
        await other.answered("k", request_json="{}", response_json=answer, cost_micro=1, budget="b")
        with pytest.raises(AnsweredElsewhere) as answered:
            await waiting
        assert answered.value.response.text == "theirs"
        assert one.reserved_micro("b") == 0

    with open_journal(tmp_path / "journal.db") as one, open_journal(tmp_path / "journal.db") as other:
        asyncio.run(run(one, other))


def test_a_call_that_ended_without_an_answer_is_taken_over_by_one_that_waited(tmp_path: Path) -> None:
    async def run(one: Journal, other: Journal) -> None:
        mine, theirs = shared(one), shared(other)
        await theirs.reserve("k", 10)
        waiting = asyncio.create_task(mine.reserve("k", 10))
        await until_waiting(waiting)
        await give_back(other, "k", budget="b")
        await waiting
        assert one.reserved_micro("b") == 10

    with open_journal(tmp_path / "journal.db") as one, open_journal(tmp_path / "journal.db") as other:
        asyncio.run(run(one, other))


def test_a_call_of_a_process_that_was_killed_is_taken_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budgets, "SETTLE_DEAD_S", 0.2)
    path = tmp_path / "journal.db"

    async def run(journal: Journal) -> None:
        waiting = asyncio.create_task(shared(journal).reserve("k", 10))
        await until_waiting(waiting)
        other.kill()
        other.wait()
        await asyncio.wait_for(waiting, 60)
        assert (journal.spent_micro("b"), journal.reserved_micro("b")) == (60, 10)

    with start_python(DYING, str(path)) as other:
        assert other.stdout
        assert other.stdout.readline().strip() == "reserved"
        with open_journal(path) as journal:
            asyncio.run(run(journal))


def test_a_call_that_another_holds_for_ever_is_asked_here_in_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(budgets, "PATIENCE_S", 4 * budgets.POLL_S)
    monkeypatch.setattr(budgets, "TELL_S", budgets.POLL_S)

    async def run(one: Journal, other: Journal) -> None:
        mine, theirs = shared(one), shared(other)
        await theirs.reserve("k", 10)
        waiting = asyncio.create_task(mine.reserve("k", 10))
        await until_waiting(waiting)
        await asyncio.wait_for(waiting, 60)
        assert one.reserved_micro("b") == 20
        assert caplog.text.count("Waiting for calls that another process has in flight") == 1

    with open_journal(tmp_path / "journal.db") as one, open_journal(tmp_path / "journal.db") as other:
        asyncio.run(run(one, other))


def test_before_a_first_answer_no_more_than_a_tenth_of_the_cap_is_set_aside(tmp_path: Path) -> None:
    async def run(journal: Journal) -> None:
        mine = shared(journal)
        await mine.reserve("first", 6)
        waiting = asyncio.create_task(mine.reserve("second", 6))
        await until_waiting(waiting)
        await mine.answered(REQUEST, "first", Response(text="A", finish_reason="stop"), cost_micro=6)
        await waiting
        await mine.reserve("third", 6)
        assert journal.reserved_micro("b") == 12

    with open_journal(tmp_path / "journal.db") as journal:
        asyncio.run(run(journal))


def test_a_failure_that_cost_nothing_does_not_show_what_answers_cost(tmp_path: Path) -> None:
    async def run(journal: Journal) -> None:
        mine = shared(journal)
        await mine.reserve("first", 20)
        waiting = [asyncio.create_task(mine.reserve(key, 20)) for key in ("second", "third")]
        await until_waiting(waiting[0])
        await mine.failed(REQUEST, "first", "rate_limited", cost_micro=0)
        await waiting[0]
        await until_waiting(waiting[1])
        await mine.answered(REQUEST, "second", Response(text="A", finish_reason="stop"), cost_micro=1)
        await waiting[1]

    with open_journal(tmp_path / "journal.db") as journal:
        asyncio.run(run(journal))


def test_after_a_call_above_its_worst_case_nothing_is_set_aside_and_those_who_wait_are_told(tmp_path: Path) -> None:
    async def run(journal: Journal) -> None:
        mine = shared(journal)
        await mine.reserve("first", 20)
        waiting = asyncio.create_task(mine.reserve("second", 20))
        await until_waiting(waiting)
        await mine.answered(REQUEST, "first", Response(text="A", finish_reason="stop"), cost_micro=21)
        for attempt in (waiting, mine.reserve("third", 1)):
            with pytest.raises(Overrun, match=r"a call cost \$0\.000021, but \$0\.000020 was set aside"):
                await attempt
        assert (journal.spent_micro("b"), journal.reserved_micro("b")) == (21, 0)

    with open_journal(tmp_path / "journal.db") as journal:
        asyncio.run(run(journal))


def test_why_a_run_was_stopped_survives_the_way_between_processes() -> None:
    for reason in (OutOfBudget(1, 2, 3), Overrun(5, 4)):
        again = pickle.loads(pickle.dumps(reason))
        assert (type(again), str(again), vars(again)) == (type(reason), str(reason), vars(reason))


@pytest.mark.parametrize(
    ("usage", "paid"),
    [
        ({"input_tokens": 5, "output_tokens": 2}, Paid(calls=1, micro=10, input_tokens=5, output_tokens=2)),
        ({"input_tokens": 5}, Paid(calls=1, unknown=1, worst_micro=10, input_tokens=5)),
        ({"output_tokens": 2}, Paid(calls=1, unknown=1, worst_micro=10, output_tokens=2)),
        ({"cost_usd": 1e-5}, Paid(calls=1, micro=10)),
    ],
    ids=["both counts", "no output", "no input", "a bill"],
)
def test_an_answer_that_tells_half_of_its_tokens_has_no_known_cost(
    usage: dict[str, Any], paid: Paid, tmp_path: Path
) -> None:
    async def answered(journal: Journal) -> None:
        await shared(journal).reserve("k", 90)
        told = Response(text="1", finish_reason="stop", **usage).to_json()
        await journal.answered("k", request_json="{}", response_json=told, cost_micro=10, budget="b")

    with open_journal(tmp_path / "journal.db") as journal:
        asyncio.run(answered(journal))
        assert paid_from(journal, "b", is_priced=True) == paid
