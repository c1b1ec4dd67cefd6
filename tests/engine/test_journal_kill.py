"""kill -9 and a full disk, in real processes: what was acknowledged or spooled is there after reopening."""

from __future__ import annotations

import asyncio
import errno
import os
import random
import time
from pathlib import Path

import pytest

from jrh_mlflow.engine.journal import Recovery, open_journal
from jrh_mlflow.engine.journal.rows import CallRow
from jrh_mlflow.engine.journal.writer import read_spool, sent_by, spool_owners, spool_path
from jrh_mlflow.errors import JournalError
from tests.engine.journal_tools import BACKENDS, ask, backend_of, give_back, kill_before_commit, start_python

WRITER = """
import asyncio, itertools, os, sys
from jrh_mlflow.engine.journal import open_journal

async def write(journal, trial):
    calls = itertools.count()
    async def worker():
        for i in calls:
            key = f"{trial}-{i}"
            await journal.reserve(key, budget="b", worst_micro=100)
            os.write(1, f"sent {key}\\n".encode())
            await asyncio.sleep(0.001)
            if i % 10 == 9:
                await journal.failed(
                    key, request_json="{}", reason="r", response_json=None, cost_micro=5, budget="b")
            else:
                await journal.answered(
                    key, request_json="q" * 1500, response_json=f'"{key} {"x" * 1500}"', cost_micro=7, budget="b")
                os.write(1, f"kept {key}\\n".encode())
    await asyncio.gather(*[worker() for _ in range(32)])

journal = open_journal(sys.argv[1])
journal.open_budget("b", None)
asyncio.run(write(journal, sys.argv[2]))
"""


@pytest.fixture(params=BACKENDS)
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """What `open_journal` takes to open an empty journal, from any process."""
    return BACKENDS[request.param].make(tmp_path)


def spooled(path: Path) -> list[CallRow]:
    return [entry.row for owner in spool_owners(path) for entry in read_spool(path, owner)]


def run_and_kill(address: str, trial: int, chance: random.Random) -> tuple[set[str], set[str]]:
    """Let a writer run for a random while, kill it, and return the keys it had sent and those it had kept."""
    child = start_python(WRITER, address, str(trial))
    assert child.stdout
    lines = [child.stdout.readline() for _ in range(chance.randrange(1, 300))]
    time.sleep(chance.random() / 50)
    child.kill()
    rest, _ = child.communicate()
    lines += rest.splitlines()
    words = [line.split() for line in lines if line.strip()]
    return {word[1] for word in words if word[0] == "sent"}, {word[1] for word in words if word[0] == "kept"}


def test_whatever_was_kept_or_spooled_survives_kill_minus_9_at_random_moments(address: str) -> None:
    chance = random.Random(20)
    n_failed = n_sent = 0
    kept: set[str] = set()
    for trial in range(3):
        sent, acknowledged = run_and_kill(address, trial, chance)
        spools = backend_of(address).spools(address)
        rows = spooled(spools)
        n_sent += len(sent)
        kept |= acknowledged | {row.key for row in rows if row.state == "answered"}
        n_failed += sum(row.state == "failed" for row in rows)
        with open_journal(address) as journal:
            assert {key for key in kept if not (journal.get(key) or "").startswith(f'"{key} ')} == set()
            summary = journal.summary()
            assert (summary.answered, summary.failed, summary.in_flight) == (len(kept), n_failed, 0)
            assert summary.answered + summary.failed + summary.lost >= n_sent
            assert journal.spent_micro("b") == 7 * summary.answered + 5 * summary.failed + 100 * summary.lost
            assert journal.reserved_micro("b") == 0
            assert journal.recovery.lost_micro == 100 * journal.recovery.lost
        assert spool_owners(spools) == []
    assert kept


@pytest.fixture
def killed_before_commit(address: str) -> str:
    """A journal whose process was killed with one answer committed, two endings only spooled, one call in flight."""
    kill_before_commit(address)
    return address


def only_spool(address: str) -> Path:
    spools = backend_of(address).spools(address)
    (owner,) = spool_owners(spools)
    return spool_path(spools, owner)


def test_what_was_received_but_not_committed_is_replayed_and_the_rest_counts_as_lost(
    killed_before_commit: str, caplog: pytest.LogCaptureFixture
) -> None:
    query = "SELECT count(*) FROM {}calls WHERE state = 'answered'"
    assert backend_of(killed_before_commit).execute(killed_before_commit, query) == [(1,)]
    with open_journal(killed_before_commit) as journal:
        assert journal.recovery == Recovery(replayed=2, lost=1, lost_micro=100)
        assert [journal.get(key) for key in "abcd"] == ['"A"', '"B"', None, None]
        assert (journal.spent_micro("b"), journal.reserved_micro("b")) == (7 + 8 + 9 + 100, 0)
    assert "2 calls recovered, 1 lost in flight, at most 0.000100 USD" in caplog.text
    with open_journal(killed_before_commit) as journal:
        assert journal.recovery == Recovery()


def test_a_spool_is_not_replayed_twice_when_the_recovery_itself_was_killed(killed_before_commit: str) -> None:
    spool = only_spool(killed_before_commit)
    content = spool.read_bytes()
    with open_journal(killed_before_commit) as journal:
        summary = journal.summary()
    owner = spool.name.partition(".spool-")[2]
    backend_of(killed_before_commit).execute(killed_before_commit, f"INSERT INTO {{}}owners VALUES ('{owner}', 3)")
    spool.write_bytes(content)
    with open_journal(killed_before_commit) as journal:
        assert journal.recovery == Recovery()
        assert journal.summary().spent_micro == summary.spent_micro


def test_a_torn_or_damaged_line_of_a_spool_costs_only_itself(
    killed_before_commit: str, caplog: pytest.LogCaptureFixture
) -> None:
    spool = only_spool(killed_before_commit)
    first, second, third = spool.read_bytes().rstrip(b"\0").splitlines()
    spool.write_bytes(b"\n".join([first, second.replace(b"B", b"X"), third, third[:40]]))
    with open_journal(killed_before_commit) as journal:
        assert journal.recovery == Recovery(replayed=1, lost=2, lost_micro=200)
        assert journal.get("b") is None
    assert "2 lines that were cut off or damaged" in caplog.text


def test_the_reservations_of_a_living_process_are_left_alone(address: str) -> None:
    with open_journal(address) as living:
        living.open_budget("b", None)
        asyncio.run(living.reserve("k", budget="b", worst_micro=100))
        with open_journal(address) as other:
            assert other.recovery == Recovery()
            assert (other.spent_micro("b"), other.reserved_micro("b")) == (0, 100)
        asyncio.run(give_back(living, "k", budget="b"))
        assert living.reserved_micro("b") == 0


FULL_DISK = """
import asyncio, resource, sys
from jrh_mlflow.engine.journal import open_journal
from jrh_mlflow.errors import JournalError

async def write(journal):
    for i in range(10_000):
        await journal.answered(f"k{i}", request_json="q" * 2000, response_json=f'"{i}"', cost_micro=1, budget=None)
        print(i, flush=True)

with open_journal(sys.argv[1]) as journal:
    resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))
    try:
        asyncio.run(write(journal))
    except JournalError as error:
        print(error, flush=True)
    try:
        asyncio.run(journal.answered("late", request_json="{}", response_json='"late"', cost_micro=1, budget=None))
    except JournalError as error:
        print(error, flush=True)
"""


def test_a_full_disk_stops_the_writing_and_loses_nothing_that_was_paid(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    output, _ = start_python(FULL_DISK, str(path)).communicate()
    *kept, first, second = output.splitlines()
    assert "keeps what was paid" in first
    assert "keeps what was paid" in second
    with open_journal(path) as journal:
        assert [i for i in kept if journal.get(f"k{i}") != f'"{i}"'] == []
        # The one that could not be committed, and the one that came after it, were in the spool.
        assert journal.get(f"k{len(kept)}") == f'"{len(kept)}"'
        assert journal.get("late") == '"late"'
        assert journal.summary().spent_micro == len(kept) + 2


FORK = """
import asyncio, os, sys, time, warnings
from jrh_mlflow.engine.journal import open_journal
from jrh_mlflow.errors import JournalError

warnings.simplefilter("ignore", DeprecationWarning)
journal = open_journal(sys.argv[1])
asyncio.run(journal.reserve("in flight", budget=None, worst_micro=5))
child = os.fork()
if child == 0:
    try:
        journal.get("k")
    except JournalError as error:
        os.write(1, f"{error}\\n".encode())
    journal.close()
    time.sleep(600)
os.write(1, f"{child}\\n".encode())
sys.stdin.readline()
os.kill(os.getpid(), 9)
"""


def test_a_forked_child_is_refused_and_does_not_pass_for_its_dead_parent(address: str) -> None:
    parent = start_python(FORK, address)
    assert parent.stdout
    assert parent.stdin
    lines = sorted(parent.stdout.readline() for _ in range(2))
    child = int(lines[0])
    try:
        assert "over a fork" in lines[1]
        parent.stdin.write("die\n")
        parent.stdin.flush()
        parent.wait()
        spools = backend_of(address).spools(address)
        assert len(spool_owners(spools)) == 1
        with open_journal(address) as journal:
            assert journal.recovery == Recovery(lost=1, lost_micro=5)
            assert len(spool_owners(spools)) == 1
            asyncio.run(ask(journal, "k"))
        assert spool_owners(spools) == []
    finally:
        os.kill(child, 9)
        parent.stdin.close()
        parent.stdout.close()


MARKER = """
import asyncio, os, sys
from jrh_mlflow.engine.journal import open_journal

async def send_one_of_three(journal):
    for key in "abc":
        await journal.reserve(key, budget="b", worst_micro=100, model="openai/m")
    journal.mark_sent("b")
    os.kill(os.getpid(), 9)

journal = open_journal(sys.argv[1])
journal.open_budget("b", 1_000)
asyncio.run(send_one_of_three(journal))
"""


def test_a_killed_process_books_only_what_it_had_sent(address: str) -> None:
    start_python(MARKER, address).communicate()
    with open_journal(address) as journal:
        assert journal.recovery == Recovery(lost=1, lost_micro=100)
        assert (journal.spent_micro("b"), journal.reserved_micro("b")) == (100, 0)


def test_marks_of_what_is_in_flight_outlive_the_trimming_of_the_spool(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jrh_mlflow.engine.journal.writer._TRIM_BYTES", 10)
    path = tmp_path / "journal.db"
    with open_journal(path) as journal:
        asyncio.run(journal.reserve("in flight", budget=None, worst_micro=5, model="m"))
        journal.mark_sent("in flight")
        for key in "abc":
            asyncio.run(ask(journal, key))
        (owner,) = spool_owners(path)
        assert len(sent_by(path, owner) or ()) == 1
        asyncio.run(give_back(journal, "in flight", budget=None))


def test_the_disk_has_promised_room_for_what_is_in_flight_before_it_is_sent(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    with open_journal(path) as journal:
        asyncio.run(journal.reserve("k", budget=None, worst_micro=5, model="m"))
        (owner,) = spool_owners(path)
        assert spool_path(path, owner).stat().st_blocks * 512 >= 2**20
        asyncio.run(give_back(journal, "k", budget=None))


def test_what_could_not_be_kept_is_said_and_nothing_is_promised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    journal = open_journal(tmp_path / "journal.db")
    monkeypatch.setattr(journal._writer, "_transact", full)
    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(JournalError) as refused:
        asyncio.run(journal.answered("k", request_json="{}", response_json="{}", cost_micro=1, budget=None))
    assert "1 paid" in str(refused.value)
    assert "keeps" not in str(refused.value)
    with pytest.raises(JournalError):
        journal.mark_sent("k")
    journal.close()
