"""The contract every journal backend passes; a new backend joins by one line in `journal_tools.BACKENDS`."""

from __future__ import annotations

import asyncio
import threading
import time
from pathlib import Path

import pytest

from jrh_mlflow.engine.journal import Journal, Recovery, Reservation, open_journal
from jrh_mlflow.engine.journal.rows import CallRow
from jrh_mlflow.errors import JournalError, JrhError
from jrh_mlflow.text import clean_text
from tests.engine.journal_tools import BACKENDS, ask, backend_of, fail, give_back, kill_before_commit, start_python


@pytest.fixture(params=BACKENDS)
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """What `open_journal` takes to open an empty journal, from any process."""
    return BACKENDS[request.param].make(tmp_path)


def test_an_answer_is_served_at_once_and_after_reopening(address: str) -> None:
    with open_journal(address) as journal:
        asyncio.run(ask(journal, "k"))
        assert journal.get("k") == '"k!"'
    with open_journal(address) as journal:
        assert journal.get("k") == '"k!"'
        assert journal.recovery == Recovery()


def test_another_replicate_is_another_key(address: str) -> None:
    with open_journal(address) as journal:
        asyncio.run(ask(journal, "replicate 0"))
        assert journal.get("replicate 1") is None


def test_failures_and_reservations_are_recorded_and_never_served(address: str) -> None:
    async def scenario(journal: Journal) -> None:
        await fail(journal, "failed")
        await journal.reserve("reserved", budget=None, worst_micro=10)
        assert journal.get("failed") is None
        assert journal.get("reserved") is None
        summary = journal.summary()
        assert (summary.answered, summary.failed, summary.in_flight, summary.lost) == (0, 1, 1, 0)
        await give_back(journal, "reserved", budget=None)

    with open_journal(address) as journal:
        asyncio.run(scenario(journal))


def test_a_call_that_failed_can_still_be_answered(address: str) -> None:
    async def scenario(journal: Journal) -> None:
        await fail(journal, "k", cost=2)
        await ask(journal, "k", cost=3)

    with open_journal(address) as journal:
        asyncio.run(scenario(journal))
        assert journal.get("k") == '"k!"'
        assert journal.summary().spent_micro == 5


def test_the_first_answer_stays_and_both_are_paid(address: str) -> None:
    async def answer_twice(first: Journal, second: Journal) -> None:
        for journal in (first, second):
            assert await journal.reserve("k", budget="b", worst_micro=10, even_if_taken=True)
        for journal, text in ((first, '"first"'), (second, '"second"')):
            stands = await journal.answered("k", request_json="{}", response_json=text, cost_micro=4, budget="b")
            assert stands == (journal is first)

    with open_journal(address) as first, open_journal(address) as second:
        first.open_budget("b", 100)
        second.open_budget("b", 100)
        asyncio.run(answer_twice(first, second))
        assert second.get("k") == '"first"'
        assert (first.spent_micro("b"), first.reserved_micro("b")) == (8, 0)
        assert (first.summary().answered, first.summary().failed) == (1, 1)


@pytest.mark.parametrize("by_another", [False, True], ids=["another caller", "another process"])
def test_a_call_is_reserved_once_until_it_is_settled(address: str, *, by_another: bool) -> None:
    async def scenario(first: Journal, second: Journal) -> None:
        async def again(key: str) -> Reservation:
            return await second.reserve(key, budget="b", worst_micro=10)

        for ending in ("answered", "failed"):
            assert await first.reserve(ending, budget="b", worst_micro=10) is Reservation.GRANTED
            assert await again(ending) is Reservation.IS_IN_FLIGHT
        assert first.reserved_micro("b") == 20
        await first.answered("answered", request_json="{}", response_json="{}", cost_micro=1, budget="b")
        await give_back(first, "failed", budget="b")
        assert await again("answered") is Reservation.IS_ANSWERED
        assert await again("failed") is Reservation.GRANTED
        assert (first.spent_micro("b"), first.reserved_micro("b")) == (1, 10)
        await give_back(second, "failed", budget="b")

    with open_journal(address) as first, open_journal(address) as second:
        for journal in (first, second):
            journal.open_budget("b", 100)
        asyncio.run(scenario(first, second if by_another else first))


def test_of_many_that_reserve_one_call_at_once_one_may_send_it(address: str) -> None:
    async def scenario(journals: list[Journal]) -> None:
        for journal in journals:
            journal.open_budget("b", None)
        # In different budgets, which different transactions lock.
        wanted = [
            journal.reserve(str(key), budget=budget, worst_micro=1)
            for key in range(20)
            for journal, budget in zip(journals, ("b", None, None), strict=True)
        ]
        granted = await asyncio.gather(*wanted)
        assert [sum(map(bool, granted[start : start + 3])) for start in range(0, 60, 3)] == [1] * 20
        assert set(granted) == {Reservation.GRANTED, Reservation.IS_IN_FLIGHT}

    with open_journal(address) as one, open_journal(address) as two, open_journal(address) as three:
        asyncio.run(scenario([one, two, three]))


def test_a_full_budget_is_told_from_a_call_that_is_taken(address: str) -> None:
    async def scenario(journal: Journal) -> None:
        assert await journal.reserve("k", budget="b", worst_micro=10)
        assert await journal.reserve("other", budget="b", worst_micro=10) is Reservation.NO_ROOM
        assert await journal.reserve("k", budget="b", worst_micro=10) is Reservation.IS_IN_FLIGHT
        assert await journal.reserve("k", budget="b", worst_micro=10, even_if_taken=True) is Reservation.NO_ROOM
        await give_back(journal, "k", budget="b")

    with open_journal(address) as journal:
        journal.open_budget("b", 10)
        asyncio.run(scenario(journal))


def test_a_call_in_flight_of_a_process_that_died_can_be_reserved(address: str) -> None:
    with open_journal(address) as journal:
        kill_before_commit(address)
        assert asyncio.run(journal.reserve("d", budget=None, worst_micro=1)) is Reservation.IS_IN_FLIGHT
        journal.settle_dead()
        assert asyncio.run(journal.reserve("d", budget=None, worst_micro=1)) is Reservation.GRANTED
        assert asyncio.run(journal.reserve("b", budget=None, worst_micro=1)) is Reservation.IS_ANSWERED


def test_a_call_whose_caller_was_aborted_can_be_reserved_again_by_the_same_journal(address: str) -> None:
    async def again(journal: Journal) -> None:
        assert await journal.reserve("k", budget="b", worst_micro=10) is Reservation.IS_IN_FLIGHT
        assert await journal.reserve("k", budget="b", worst_micro=10) is Reservation.GRANTED
        await journal.answered("k", request_json="{}", response_json="{}", cost_micro=1, budget="b")

    with open_journal(address) as journal:
        journal.open_budget("b", 100)
        assert asyncio.run(journal.reserve("k", budget="b", worst_micro=10))
        asyncio.run(again(journal))
        assert (journal.summary().answered, journal.summary().lost, journal.spent_micro("b")) == (1, 1, 11)


def test_an_answer_older_than_wanted_makes_room_and_stays_on_record(address: str) -> None:
    async def scenario(journal: Journal) -> None:
        await ask(journal, "k", budget="b", cost=3)
        before, now = time.time() - 3600, time.time()

        async def reserve(moment: float) -> Reservation:
            return await journal.reserve("k", budget="b", worst_micro=10, replaces_before=moment)

        assert await reserve(before) is Reservation.IS_ANSWERED
        assert journal.get("k") == '"k!"'
        assert await reserve(now) is Reservation.GRANTED
        assert journal.get("k") is None
        await journal.answered("k", request_json="{}", response_json='"newer"', cost_micro=4, budget="b")
        assert await reserve(now) is Reservation.IS_ANSWERED

    with open_journal(address) as journal:
        journal.open_budget("b", 100)
        asyncio.run(scenario(journal))
    with open_journal(address) as journal:
        assert journal.get("k") == '"newer"'
        assert (journal.summary().answered, journal.summary().failed, journal.spent_micro("b")) == (1, 1, 7)
    columns = ", ".join(CallRow._fields)
    (values,) = backend_of(address).execute(address, f"SELECT {columns} FROM {{}}calls WHERE state = 'failed'")
    *texts, seal = (value.decode() if isinstance(value, bytes) and value[0] < 0xFF else value for value in values)
    row = CallRow(*texts, seal[1:].hex() if isinstance(seal, bytes) else seal)
    assert row.is_intact()
    assert (row.response, row.reason, row.cost_micro) == ('"k!"', "a fresher answer was asked for", 3)


def test_an_answer_that_was_never_reserved_is_kept_and_paid(address: str) -> None:
    with open_journal(address) as journal:
        journal.open_budget("b", None)
        asyncio.run(journal.answered("k", request_json="{}", response_json="{}", cost_micro=7, budget="b"))
        assert journal.get("k") == "{}"
        assert (journal.spent_micro("b"), journal.reserved_micro("b")) == (7, 0)


ANSWERERS = """
import asyncio, sys
from jrh_mlflow.engine.journal import open_journal

async def answer_all(journal, name):
    calls = iter(range(100))
    async def worker():
        for i in calls:
            await journal.reserve(f"{name}-{i}", budget="b", worst_micro=9)
            await journal.answered(
                f"{name}-{i}", request_json="{}", response_json=f'"{name}{i}"', cost_micro=2, budget="b")
    await asyncio.gather(*[worker() for _ in range(16)])

with open_journal(sys.argv[1]) as journal:
    journal.open_budget("b", None)
    asyncio.run(answer_all(journal, sys.argv[2]))
"""


def test_two_processes_write_one_journal_at_once(address: str) -> None:
    children = [start_python(ANSWERERS, address, name) for name in ("x", "y")]
    for child in children:
        child.communicate()
        assert child.returncode == 0
    with open_journal(address) as journal:
        answers = [journal.get(f"{name}-{i}") for name in ("x", "y") for i in range(100)]
        assert answers == [f'"{name}{i}"' for name in ("x", "y") for i in range(100)]
        assert (journal.spent_micro("b"), journal.reserved_micro("b")) == (400, 0)


def test_event_loops_of_several_threads_share_one_journal(address: str) -> None:
    async def many(journal: Journal, name: str) -> None:
        await asyncio.gather(*[ask(journal, f"{name}-{i}", budget="b") for i in range(50)])

    with open_journal(address) as journal:
        journal.open_budget("b", None)
        threads = [threading.Thread(target=asyncio.run, args=(many(journal, str(n)),)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert journal.summary().answered == 200
        assert journal.spent_micro("b") == 600


def test_an_answer_is_kept_when_the_caller_is_cancelled_while_it_waits(address: str) -> None:
    async def scenario(journal: Journal) -> None:
        assert await journal.reserve("k", budget=None, worst_micro=10)
        answer = journal.answered("k", request_json="{}", response_json='"k!"', cost_micro=3, budget=None)
        task = asyncio.ensure_future(answer)
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    with open_journal(address) as journal:
        asyncio.run(scenario(journal))
    with open_journal(address) as journal:
        assert journal.get("k") == '"k!"'
        assert (journal.summary().lost, journal.summary().spent_micro) == (0, 3)


def test_pruning_removes_what_was_asked_and_keeps_the_money(address: str) -> None:
    async def fill(journal: Journal) -> None:
        await ask(journal, "a")
        await ask(journal, "b")
        await fail(journal, "c")
        await journal.reserve("d", budget=None, worst_micro=10)

    with open_journal(address) as journal:
        asyncio.run(fill(journal))
        assert journal.prune(older_than_days=1, failed=False) == 0
        assert journal.prune(older_than_days=1, failed=True) == 0
        assert journal.prune(older_than_days=None, failed=True) == 1
        assert journal.get("a") == '"a!"'
        assert journal.prune(older_than_days=0, failed=False) == 2
        assert journal.get("a") is None
        summary = journal.summary()
        assert (summary.answered, summary.failed, summary.in_flight) == (0, 0, 1)
        assert summary.spent_micro == 8
        asyncio.run(give_back(journal, "d", budget=None))


def test_the_summary_counts_entries_hits_and_money(address: str) -> None:
    with open_journal(address) as journal:
        journal.open_budget("b", None)
        asyncio.run(ask(journal, "a", budget="b", cost=3))
        asyncio.run(ask(journal, "b", cost=4))
        asyncio.run(fail(journal, "c", cost=2))
        for key in ("a", "a", "missing"):
            journal.get(key)
        summary = journal.summary()
        assert (summary.answered, summary.failed, summary.in_flight, summary.lost) == (2, 1, 0, 0)
        assert (summary.hits, summary.damaged, summary.spent_micro) == (2, 0, 9)
        assert summary.size_bytes > 0


def test_answers_older_than_a_moment_are_passed_over(address: str) -> None:
    with open_journal(address) as journal:
        asyncio.run(ask(journal, "old"))
        moment = time.time()
        asyncio.run(ask(journal, "new"))
        assert set(journal.peek(["old", "new"], newer_than=moment)) == {"new"}
        assert set(journal.get_many(["old", "new"], newer_than=moment)) == {"new"}
        assert journal.get("old", newer_than=moment) is None
        assert journal.get("old") == '"old!"'
        assert journal.summary().hits == 2


def test_hits_are_kept_over_processes_and_a_look_is_not_a_hit(address: str) -> None:
    with open_journal(address) as journal:
        asyncio.run(ask(journal, "a"))
        assert set(journal.peek(["a", "b"])) == {"a"}
        assert journal.summary().hits == 0
        assert journal.get_many(["a", "b", "a"]) == {"a": '"a!"'}
    with open_journal(address) as journal:
        assert journal.get("a") == '"a!"'
        assert journal.summary().hits == 2


def test_many_answers_are_found_at_once_and_failures_are_not(address: str) -> None:
    keys = [f"k{number}" for number in range(600)]

    async def fill(journal: Journal) -> None:
        await asyncio.gather(*(ask(journal, key) for key in keys[::2]), fail(journal, "k1"))

    with open_journal(address) as journal:
        asyncio.run(fill(journal))
        assert journal.get_many([]) == {}
        assert journal.get_many(keys) == {key: f'"{key}!"' for key in keys[::2]}


@pytest.mark.parametrize("text", ["\ud800 alone", "nul \x00 inside", "😀", "\x1f", '{"line":"\u2028"}', ""])
def test_hostile_text_is_kept_or_cleaned_and_never_crashes(address: str, text: str) -> None:
    async def scenario(journal: Journal) -> None:
        await journal.reserve(text, budget=None, worst_micro=0)
        await journal.answered(text, request_json=text, response_json=text, cost_micro=0, budget=None)
        await journal.failed(text, request_json=text, reason=text, response_json=text, cost_micro=0, budget=text)

    with open_journal(address) as journal:
        asyncio.run(scenario(journal))
    with open_journal(address) as journal:
        assert journal.get(text) == clean_text(text)
        assert (journal.summary().answered, journal.summary().failed) == (1, 1)


def test_mistakes_of_the_caller_are_refused(address: str) -> None:
    journal = open_journal(address)
    with pytest.raises(ValueError, match="micro-dollars"):
        journal.open_budget("b", -1)
    with pytest.raises(ValueError, match="must have a name"):
        journal.open_budget("", 1)
    with pytest.raises(ValueError, match="micro-dollars"):
        asyncio.run(journal.reserve("k", budget=None, worst_micro=0.5))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="open_budget"):
        asyncio.run(journal.reserve("k", budget="never opened", worst_micro=1))
    with pytest.raises(ValueError, match="must be limited"):
        journal.prune(older_than_days=None, failed=False)
    with pytest.raises(ValueError, match="older_than_days"):
        journal.prune(older_than_days=float("nan"), failed=False)
    journal.close()
    journal.close()
    with pytest.raises(JournalError, match="is closed"):
        journal.get("k")
    with pytest.raises(JournalError, match="is closed"):
        asyncio.run(ask(journal, "k"))


def test_the_url_of_an_unknown_server_is_refused_without_repeating_its_password() -> None:
    with pytest.raises(JrhError, match="'redis'") as refused:
        open_journal("redis://:hunter2@db")
    assert "hunter2" not in str(refused.value)


def test_the_settled_calls_of_a_budget_tell_what_it_paid_and_those_of_others_do_not(address: str) -> None:
    async def scenario(journal: Journal) -> None:
        await ask(journal, "answered", cost=3, budget="own")
        await fail(journal, "failed", cost=2, budget="own")
        await ask(journal, "other", cost=5)
        await journal.reserve("in flight", budget="own", worst_micro=10)
        assert [(call.state, call.cost_micro) for call in journal.settled("own")] == [("answered", 3), ("failed", 2)]
        await give_back(journal, "in flight", budget="own")

    with open_journal(address) as journal:
        journal.open_budget("own", None)
        assert not journal.is_capped("own")
        asyncio.run(scenario(journal))
        assert list(journal.settled("nobody's")) == []
