"""What only the journal on PostgreSQL has: several machines, connections that break, a password, foreign tables."""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from jrh_mlflow.engine.journal import Journal, Recovery, Reservation, open_journal
from jrh_mlflow.engine.journal.postgres import read_address
from jrh_mlflow.engine.journal.writer import spool_owners
from jrh_mlflow.errors import JournalError
from jrh_mlflow.measuring.resolve import journal_place
from tests import postgres
from tests.engine.journal_tools import BACKENDS, ask, give_back, kill_before_commit

BACKEND = BACKENDS["postgres"]


@pytest.fixture
def address(tmp_path: Path) -> str:
    """An empty database."""
    return BACKEND.make(tmp_path)


def move_to(machine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Go on as on another machine: with a disk of its own."""
    monkeypatch.setenv("JRH_HOME", str(tmp_path / machine))


def wait_for_locks(address: str) -> None:
    """Wait until the server has noticed that every other process is gone."""
    query = """SELECT count(*) FROM pg_locks JOIN pg_database ON pg_database.oid = database
        WHERE locktype = 'advisory' AND datname = current_database()"""
    while postgres.execute(address, query) != [(0,)]:
        time.sleep(0.01)


@pytest.fixture
def dead_on_a(address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A process of machine a was killed: one answer committed, an answer and a failure only spooled, one in flight."""
    move_to("a", tmp_path, monkeypatch)
    kill_before_commit(address)
    wait_for_locks(address)
    move_to("b", tmp_path, monkeypatch)
    return address


def test_another_machine_counts_as_lost_what_the_spool_of_the_dead_one_sets_right_later(
    dead_on_a: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_journal(dead_on_a) as journal:
        assert journal.recovery == Recovery(lost=3, lost_micro=300)
        assert (journal.spent_micro("b"), journal.reserved_micro("b")) == (7 + 300, 0)
        assert journal.get("b") is None
    with open_journal(dead_on_a) as journal:
        assert journal.recovery == Recovery()
    move_to("a", tmp_path, monkeypatch)
    for recovery in (Recovery(replayed=2), Recovery()):
        with open_journal(dead_on_a) as journal:
            assert journal.recovery == recovery
            assert [journal.get(key) for key in "abcd"] == ['"A"', '"B"', None, None]
            assert (journal.spent_micro("b"), journal.reserved_micro("b")) == (7 + 8 + 9 + 100, 0)
            summary = journal.summary()
            assert (summary.answered, summary.failed, summary.lost, summary.in_flight) == (2, 1, 1, 0)
    assert spool_owners(BACKEND.spools(dead_on_a)) == []
    assert postgres.execute(dead_on_a, "SELECT * FROM jrh_journal.owners") == []


def test_an_answer_asked_again_in_the_meantime_stays_and_both_are_paid(
    dead_on_a: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_journal(dead_on_a) as journal:
        journal.open_budget("b", None)
        asyncio.run(ask(journal, "b", budget="b", cost=20))
    move_to("a", tmp_path, monkeypatch)
    with open_journal(dead_on_a) as journal:
        assert journal.get("b") == '"b!"'
        assert journal.spent_micro("b") == 7 + 20 + 8 + 9 + 100
        assert (journal.summary().answered, journal.summary().failed, journal.summary().lost) == (2, 2, 1)


def test_a_spool_whose_lost_calls_were_pruned_is_replayed_all_the_same(
    dead_on_a: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_journal(dead_on_a) as journal:
        assert journal.prune(older_than_days=None, failed=True) == 3
    move_to("a", tmp_path, monkeypatch)
    with open_journal(dead_on_a) as journal:
        assert journal.get("b") == '"B"'
        # Nothing says any more which of the 300 was whose: they stay counted.
        assert journal.spent_micro("b") == 7 + 300 + 8 + 9


def test_a_living_process_of_another_machine_keeps_its_reservations(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    move_to("a", tmp_path, monkeypatch)
    with open_journal(address) as living:
        living.open_budget("b", 100)
        asyncio.run(living.reserve("k", budget="b", worst_micro=60))
        move_to("b", tmp_path, monkeypatch)
        with open_journal(address) as other:
            assert other.recovery == Recovery()
            other.open_budget("b", 100)
            assert not asyncio.run(other.reserve("k2", budget="b", worst_micro=41))
        asyncio.run(give_back(living, "k", budget="b"))
        assert living.reserved_micro("b") == 0


def cut_off(address: str) -> None:
    """End every connection to a database, as a restart of the server does."""
    query = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> %s"
    postgres.execute(address, query.replace("%s", "pg_backend_pid()"))


@contextmanager
def unreachable(address: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """End every connection to a database and let nobody in."""
    monkeypatch.setattr("jrh_mlflow.engine.journal.postgres._RETURN_SECONDS", 0.0)
    name = address.partition("@/")[2].partition("?")[0]
    others = postgres.server().address("postgres")
    postgres.execute(others, f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
    postgres.execute(others, f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'")
    try:
        yield
    finally:
        postgres.execute(others, f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")


def test_a_lost_connection_is_made_again_with_every_reservation_in_one_line(
    address: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(journal: Journal) -> None:
        await ask(journal, "before", budget="b")
        await journal.reserve("after", budget="b", worst_micro=50)
        cut_off(address)
        await asyncio.gather(
            journal.answered("after", request_json="long" * 99, response_json="1", cost_micro=4, budget="b"),
            journal.reserve("more", budget="b", worst_micro=7),
        )
        assert await journal.reserve("more", budget="b", worst_micro=7) is Reservation.IS_IN_FLIGHT

    with open_journal(address) as journal:
        journal.open_budget("b", 100)
        asyncio.run(scenario(journal))
        assert journal.get_many(["before", "after"]) == {"before": '"before!"', "after": "1"}
        assert [request for _, request, _ in journal.settled_since(0)] == ['"before?"', "long" * 99]
        assert (journal.spent_micro("b"), journal.reserved_micro("b")) == (3 + 4, 7)
        with open_journal(address) as other:
            assert other.recovery == Recovery()
        cut_off(address)
    assert [record.levelname for record in caplog.records] == ["WARNING"] * 3, caplog.text
    assert postgres.execute(address, "SELECT * FROM jrh_journal.owners") == []


@pytest.mark.parametrize("committed", [True, False])
def test_a_batch_whose_end_was_not_heard_is_made_once(committed: bool, address: str) -> None:
    whole = psycopg.Connection.execute

    def cut(connection: psycopg.Connection[Any], query: Any, *values: Any, **more: Any) -> Any:
        result = whole(connection, query, *values, **more)
        if "INSERT INTO calls" in str(query):
            cutting.undo()
            if committed:
                whole(connection, "COMMIT")
            cut_off(address)
        return result

    async def scenario(journal: Journal) -> None:
        assert await journal.reserve("k", budget="b", worst_micro=7)
        await journal.answered("k", request_json="{}", response_json="1", cost_micro=4, budget="b")

    with open_journal(address) as journal, pytest.MonkeyPatch.context() as cutting:
        journal.open_budget("b", 100)
        cutting.setattr(psycopg.Connection, "execute", cut)
        asyncio.run(scenario(journal))
        assert (journal.spent_micro("b"), journal.reserved_micro("b")) == (4, 0)


def test_a_server_that_stays_away_ends_writing_and_what_arrived_is_kept(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = open_journal(address)
    journal.open_budget("b", None)
    asyncio.run(ask(journal, "before", budget="b"))
    asyncio.run(journal.reserve("after", budget="b", worst_micro=50))
    with unreachable(address, monkeypatch):
        keep_on_asking(journal)
    assert journal.get_many(["before", "after"]) == {"before": '"before!"'}
    assert journal.reserved_micro("b") == 50
    journal.close()
    with open_journal(address) as journal:
        assert journal.recovery == Recovery(replayed=2)
        assert journal.get("after") == '"after!"'
        assert (journal.spent_micro("b"), journal.reserved_micro("b")) == (3 + 4 + 4, 0)


def keep_on_asking(journal: Journal) -> None:
    for key in ("after", "later"):
        with pytest.raises(JournalError, match="keeps what was paid"):
            asyncio.run(journal.answered(key, request_json="{}", response_json=f'"{key}!"', cost_micro=4, budget="b"))
    with pytest.raises(JournalError, match="keeps what was paid"):
        asyncio.run(journal.reserve("more", budget="b", worst_micro=1))
    with pytest.raises(JournalError, match=r"No connection to .*Check that the server runs"):
        journal.get("k")


async def answer_all(journal: Journal, order: list[int], budgets: tuple[str, str]) -> None:
    async def answer(number: int) -> None:
        budget = budgets[number % 2]
        assert await journal.reserve(f"k{number}", budget=budget, worst_micro=10, even_if_taken=True)
        await journal.answered(f"k{number}", request_json="{}", response_json="{}", cost_micro=3, budget=budget)

    for start in range(0, len(order), 25):
        await asyncio.gather(*map(answer, order[start : start + 25]))


def test_two_writers_that_meet_on_the_same_calls_and_budgets_finish_and_pay_for_both(address: str) -> None:
    orders = list(range(100)), list(range(100))[::-1]
    with open_journal(address) as first, open_journal(address) as second:
        threads = []
        for journal, order, budgets in ((first, orders[0], ("x", "y")), (second, orders[1], ("y", "x"))):
            for budget in budgets:
                journal.open_budget(budget, None)
            threads.append(threading.Thread(target=asyncio.run, args=(answer_all(journal, order, budgets),)))
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        summary = first.summary()
        assert (summary.answered, summary.failed, summary.in_flight) == (100, 100, 0)
        assert (first.spent_micro("x"), first.spent_micro("y")) == (300, 300)
        assert (first.reserved_micro("x"), first.reserved_micro("y")) == (0, 0)


def test_a_row_whose_content_changed_is_absent_counted_and_can_be_answered_again(
    address: str, caplog: pytest.LogCaptureFixture
) -> None:
    with open_journal(address) as journal:
        for key in ("changed", "not UTF-8"):
            asyncio.run(ask(journal, key))
        postgres.execute(address, "UPDATE jrh_journal.calls SET response = '\"x!\"' WHERE key = 'changed'")
        postgres.execute(address, "UPDATE jrh_journal.calls SET response = '\\xff22' WHERE key = 'not UTF-8'")
        assert journal.get_many(["changed", "not UTF-8"]) == {}
        assert journal.summary().damaged == 2
        assert caplog.text.count("damaged row") == 1
        asyncio.run(ask(journal, "changed"))
        assert journal.get("changed") == '"changed!"'


def test_foreign_tables_of_the_same_schema_are_refused_and_others_do_not_matter(address: str) -> None:
    postgres.execute(address, "CREATE TABLE public.calls (id int)")
    with open_journal(address) as journal:
        assert journal.summary().answered == 0
    foreign = BACKEND.make(Path())
    postgres.execute(foreign, "CREATE SCHEMA jrh_journal")
    for table in ("calls (id int)", "about (text text)"):
        postgres.execute(foreign, f"CREATE TABLE jrh_journal.{table}")
        with pytest.raises(JournalError, match="no journal"):
            open_journal(foreign)
    tables = "SELECT count(*) FROM pg_class WHERE relnamespace = 'jrh_journal'::regnamespace"
    assert postgres.execute(foreign, tables) == [(2,)]


@pytest.mark.parametrize("version", [0, 2])
def test_another_schema_version_is_refused(address: str, version: int) -> None:
    open_journal(address).close()
    postgres.execute(address, f"UPDATE jrh_journal.about SET version = {version}")
    with pytest.raises(JournalError, match=rf"schema version {version}, but this jrh-mlflow reads 1\. Install"):
        open_journal(address)


def test_keys_that_are_hashes_are_kept_as_bytes_and_damage_to_their_rows_is_seen(address: str) -> None:
    hashes = ["ab" * 32, "cd" * 32]
    with open_journal(address) as journal:
        for key in hashes:
            asyncio.run(ask(journal, key))
        assert asyncio.run(journal.reserve(hashes[0], budget=None, worst_micro=1)) is Reservation.IS_ANSWERED
        asyncio.run(journal.reserve("ef" * 32, budget=None, worst_micro=1))
        taken = asyncio.run(journal.reserve("ef" * 32, budget=None, worst_micro=1))
        assert taken is Reservation.IS_IN_FLIGHT
        sizes = postgres.execute(address, "SELECT DISTINCT length(key), length(sha256) FROM jrh_journal.calls")
        assert sizes == [(33, 17)]
        damage = "UPDATE jrh_journal.calls SET sha256 = substr(sha256, 1, 9) WHERE key = %s"
        postgres.execute(address, damage, b"\xff" + b"\xab" * 32)
        assert journal.peek(hashes) == {hashes[1]: f'"{hashes[1]}!"'}


def test_the_address_may_be_written_as_sqlalchemy_does(address: str) -> None:
    with open_journal(address) as journal:
        asyncio.run(ask(journal, "k"))
    with open_journal(address.replace("postgresql://", "postgresql+psycopg://")) as journal:
        assert journal.get("k") == '"k!"'


def test_without_the_driver_the_line_that_installs_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(JournalError, match=r'pip install "jrh-mlflow\[postgres\]"') as refused:
        open_journal("postgresql://me:hunter2@db/journal")
    assert "hunter2" not in str(refused.value)


def everything_said(error: BaseException | None) -> str:
    """An error and all that a traceback would print of its causes."""
    said = ""
    while error is not None:
        said += f"{error} {error!r}"
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return said


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://me:hunter2@127.0.0.1:1/journal",
        "postgresql://127.0.0.1:1/journal?user=me&password=hunter2",
        "postgresql://me:hunter2/x@127.0.0.1:1/journal",
        "postgresql://me:1/hunter2@127.0.0.1:1/journal",
        "postgresql://me:x@hunter2@127.0.0.1:1/journal",
        "postgresql://me:hunter2?x@127.0.0.1:1/journal",
        "postgresql://me:hunter2%@127.0.0.1:1/journal",
        "postgresql://me:hunter2#x:@127.0.0.1:1/journal",
    ],
)
def test_an_address_that_does_not_work_is_said_without_its_password(address: str) -> None:
    with pytest.raises(JournalError, match=r"No connection to|cannot be read") as refused:
        open_journal(address)
    assert "hunter2" not in everything_said(refused.value)


def test_the_password_is_in_no_log_file_error_or_representation(
    address: str, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.DEBUG)
    journal = open_journal(address)
    asyncio.run(journal.reserve("k", budget=None, worst_micro=5))
    cut_off(address)
    asyncio.run(ask(journal, "k2"))
    with pytest.raises(JournalError) as failed, unreachable(address, monkeypatch):
        asyncio.run(journal.answered("k", request_json="{}", response_json="{}", cost_micro=1, budget=None))
    journal.close()
    wrong = address.replace(postgres.ESCAPED, f"{postgres.ESCAPED}x")
    with pytest.raises(JournalError, match="password authentication failed") as refused:
        open_journal(wrong)
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert any(".spool-" in path.name for path in files)
    said = [everything_said(failed.value), everything_said(refused.value), caplog.text, repr(journal)]
    said += [repr(read_address(address)), *(f"{path} {path.read_text()}" for path in files)]
    said += [str(value) for value in vars(journal).values()]
    assert not [text for text in said if postgres.PASSWORD in text or postgres.ESCAPED in text]


def test_a_role_that_may_not_make_a_schema_uses_the_one_made_for_it(address: str) -> None:
    role = f"r{abs(hash(address))}"
    postgres.execute(address, f"CREATE ROLE {role} LOGIN PASSWORD 'worker'")
    as_role = address.replace(f"jrh:{postgres.ESCAPED}", f"{role}:worker")
    with pytest.raises(JournalError, match="permission denied"):
        open_journal(as_role)
    postgres.execute(address, f"CREATE SCHEMA jrh_journal AUTHORIZATION {role}")
    with open_journal(as_role) as journal:
        asyncio.run(ask(journal, "k"))
        assert journal.get("k") == '"k!"'


def test_what_a_run_logs_of_its_journal_holds_no_password(address: str) -> None:
    with open_journal(address) as journal:
        assert journal_place(address) == journal_place(journal) == journal.place
    assert "word" in address
    assert "word" not in journal.place
