"""What only the SQLite journal has: a file that may be damaged, foreign, of another version, or on the wrong disk."""

from __future__ import annotations

import asyncio
import functools
import logging
import os
import random
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from jrh_mlflow.engine.journal import Journal, open_journal
from jrh_mlflow.engine.journal.writer import spool_owners
from jrh_mlflow.errors import JournalError
from tests.engine.journal_tools import ask

N_ANSWERS = 200


@functools.cache
def noise(number: int) -> str:
    """Return text that is long enough for overflow pages, also when it is compressed."""
    return random.Random(number).randbytes(4_000).hex()


def text_of(number: int) -> str:
    """Return the answer to a call; every third is long."""
    return f'"{number} {noise(number) if number % 3 == 0 else ""}"'


async def fill(journal: Journal) -> None:
    async def answer(i: int) -> None:
        assert await journal.reserve(f"k{i}", budget="b", worst_micro=10)
        await journal.answered(
            f"k{i}", request_json=f'"{noise(-i - 1)}"', response_json=text_of(i), cost_micro=3, budget="b"
        )

    await asyncio.gather(*[answer(i) for i in range(N_ANSWERS)])


@pytest.fixture(scope="module")
def filled_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("filled") / "journal.db"
    with open_journal(path) as journal:
        journal.open_budget("b", 10_000)
        asyncio.run(fill(journal))
    return path


@pytest.fixture
def filled(filled_once: Path, tmp_path: Path) -> Path:
    """A closed journal of 200 answers, 600 micro-dollars, in a folder of its own."""
    return Path(shutil.copy(filled_once, tmp_path))


def smash(path: Path, start: int, length: int) -> None:
    """Overwrite a part of a file with noise."""
    with path.open("r+b") as file:
        file.seek(start)
        file.write(random.Random(start).randbytes(length))


def aside(path: Path) -> list[Path]:
    found = path.parent.glob(f"{path.name}.damaged-*")
    return [each for each in found if not each.name.endswith(("-wal", "-shm"))]


def served(journal: Journal) -> int:
    """Count the answers that are served, each of them being the right one."""
    found = {i: journal.get(f"k{i}") for i in range(N_ANSWERS)}
    for i, text in found.items():
        assert text in {None, text_of(i)}
    return sum(text is not None for text in found.values())


def test_a_clean_close_leaves_the_database_and_nothing_else(filled_once: Path) -> None:
    assert [path.name for path in filled_once.parent.iterdir()] == ["journal.db"]


@pytest.mark.parametrize(
    ("damage", "at_least"),
    [
        pytest.param(lambda path: smash(path, 0, 16), N_ANSWERS, id="magic"),
        pytest.param(lambda path: smash(path, 16, 84), N_ANSWERS - 5, id="rest of the header"),
        pytest.param(lambda path: smash(path, 0, 4096), N_ANSWERS - 5, id="whole first page"),
        pytest.param(lambda path: smash(path, 409_600, 65_536), N_ANSWERS - 40, id="pages in the middle"),
        pytest.param(lambda path: os.truncate(path, path.stat().st_size // 2), N_ANSWERS // 6, id="cut in half"),
        pytest.param(lambda path: os.truncate(path, path.stat().st_size - 5_000), N_ANSWERS - 5, id="torn end"),
    ],
)
def test_a_damaged_file_is_kept_aside_and_what_can_be_read_is_salvaged(
    filled: Path, damage: Callable[[Path], None], at_least: int, caplog: pytest.LogCaptureFixture
) -> None:
    damage(filled)
    damaged = filled.read_bytes()
    with caplog.at_level(logging.WARNING, logger="jrh_mlflow"), open_journal(filled) as journal:
        n_served = served(journal)
        assert n_served >= at_least
        assert f"{n_served} calls were salvaged" in caplog.text
        assert journal.summary().answered == n_served
        assert 3 * n_served <= journal.spent_micro("b") <= 3 * N_ANSWERS
        # Of a call whose text was damaged the answer is served all the same.
        requests = [request for _, request, _ in journal.settled_since(0) if request]
        assert set(requests) <= {f'"{noise(-i - 1)}"' for i in range(N_ANSWERS)}
        assert len(requests) >= at_least // 4
    (kept,) = aside(filled)
    assert kept.name in caplog.text
    assert kept.read_bytes() == damaged
    with open_journal(filled) as journal:
        assert served(journal) == n_served
    assert aside(filled) == [kept]


@pytest.mark.parametrize("booked", [5, 5_000])
def test_of_what_was_booked_and_what_the_salvaged_calls_cost_the_larger_counts(filled: Path, booked: int) -> None:
    with closing(sqlite3.connect(filled)) as connection:
        connection.execute("UPDATE budgets SET spent = ? WHERE name = 'b'", (booked,))
        connection.commit()
    smash(filled, 409_600, 65_536)
    with open_journal(filled) as journal:
        assert journal.spent_micro("b") == max(booked, 3 * served(journal))


def test_answers_still_in_the_write_ahead_log_are_salvaged_too(filled: Path) -> None:
    copy = filled.with_name("copy.db")
    with open_journal(filled) as journal:
        for key in "xyz":
            asyncio.run(ask(journal, key))
        # As a power cut leaves them: the last answers are in the log only, and so small that no page was added.
        copy.write_bytes(filled.read_bytes())
        copy.with_name("copy.db-wal").write_bytes(filled.with_name("journal.db-wal").read_bytes())
    smash(copy, 0, 4096)
    with open_journal(copy) as journal:
        assert served(journal) == N_ANSWERS
        assert [journal.get(key) for key in "xyz"] == ['"x!"', '"y!"', '"z!"']


def test_a_repair_that_was_killed_between_its_renames_is_finished(
    filled: Path, caplog: pytest.LogCaptureFixture
) -> None:
    filled.rename(filled.with_name("journal.db.salvaged"))
    with open_journal(filled) as journal:
        assert served(journal) == N_ANSWERS
    assert f"{N_ANSWERS} calls were salvaged" in caplog.text


def test_a_damaged_file_that_another_process_has_open_is_left_alone(filled: Path) -> None:
    with open_journal(filled) as journal:
        asyncio.run(ask(journal, "another"))
        with closing(sqlite3.connect(filled)) as connection:
            connection.execute("PRAGMA writable_schema = ON")
            connection.execute("UPDATE sqlite_master SET rootpage = 2 WHERE name = 'budgets'")
            connection.execute("UPDATE sqlite_master SET rootpage = 2 WHERE name = 'owners'")
            connection.commit()
        with pytest.raises(JournalError, match="Stop that process first"):
            open_journal(filled)
        assert aside(filled) == []
        with closing(sqlite3.connect(filled)) as connection:
            assert connection.execute("PRAGMA quick_check(1)").fetchone() != ("ok",)


def test_a_row_whose_content_changed_is_absent_counted_and_can_be_answered_again(
    filled: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with closing(sqlite3.connect(filled)) as connection:
        connection.execute("UPDATE calls SET response = replace(response, '1', '2') WHERE key IN ('k1', 'k11')")
        connection.execute("UPDATE calls SET response = CAST(x'ff22' AS TEXT) WHERE key = 'k111'")
        connection.commit()
    with open_journal(filled) as journal:
        assert served(journal) == N_ANSWERS - 3
        assert journal.summary().damaged == 3
        assert caplog.text.count("damaged row") == 1
        asyncio.run(ask(journal, "k1", budget=None))
        assert journal.get("k1") == '"k1!"'


OPENER = """
import sys
from jrh_mlflow.engine.journal import open_journal
print("ready", flush=True)
sys.stdin.readline()
with open_journal(sys.argv[1]) as journal:
    print(journal.summary().answered, journal.get("k1"), flush=True)
"""


@pytest.mark.parametrize("version", [0, 2])
def test_another_schema_version_is_refused_and_untouched(filled: Path, version: int) -> None:
    with closing(sqlite3.connect(filled)) as connection:
        connection.execute(f"PRAGMA user_version = {version}")
    before = filled.read_bytes()
    with pytest.raises(JournalError, match=rf"schema version {version}, but this jrh-mlflow reads 1\. Install"):
        open_journal(filled)
    assert filled.read_bytes() == before


def test_another_database_is_refused_and_untouched(tmp_path: Path) -> None:
    path = tmp_path / "mlflow.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE runs (id)")
    before = path.read_bytes()
    with pytest.raises(JournalError, match="not a journal"):
        open_journal(path)
    assert path.read_bytes() == before


def test_a_file_that_never_was_a_journal_is_refused_and_untouched(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("my notes\n" * 1_000)
    with pytest.raises(JournalError, match="left as it is"):
        open_journal(path)
    assert path.read_text() == "my notes\n" * 1_000
    assert [entry.name for entry in tmp_path.iterdir()] == ["notes.txt"]


def test_an_empty_file_becomes_a_journal_and_says_so(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "journal.db"
    path.touch()
    with open_journal(path) as journal:
        assert journal.summary().answered == 0
    assert "was an empty file" in caplog.text


def test_a_disk_that_grants_no_write_ahead_log_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    connect = sqlite3.connect

    def without_shared_memory(path: Path, **options: object) -> sqlite3.Connection:
        # SQLite's own file layer for disks without shared memory, as network file systems are.
        return connect(f"file:{path}?vfs=unix-dotfile", uri=True, **options)  # type: ignore[call-overload,no-any-return]

    monkeypatch.setattr(sqlite3, "connect", without_shared_memory)
    with pytest.raises(JournalError, match="Use a local disk"):
        open_journal(tmp_path / "journal.db")


def test_a_path_that_cannot_be_a_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(JournalError, match="cannot be used"):
        open_journal(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(JournalError, match="cannot be used"):
        open_journal(tmp_path / "file" / "journal.db")


def test_the_spool_does_not_grow_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jrh_mlflow.engine.journal.writer._TRIM_BYTES", 10_000)

    async def one_by_one(journal: Journal) -> None:
        for i in range(100):
            await journal.answered(str(i), request_json="r" * 500, response_json="s", cost_micro=0, budget=None)

    path = tmp_path / "journal.db"
    with open_journal(path) as journal:
        asyncio.run(one_by_one(journal))
        (owner,) = spool_owners(path)
        assert len(path.with_name(f"journal.db.spool-{owner}").read_bytes().rstrip(b"\0")) < 12_000
        assert journal.summary().answered == 100


def test_pruning_leaves_the_file_where_it_is_and_nothing_of_what_was_pruned_in_it(filled: Path) -> None:
    secret = "a secret that was pruned, " * 20

    async def fail(journal: Journal) -> None:
        await journal.failed("f", request_json='"short"', reason=secret, response_json=None, cost_micro=0, budget=None)

    with open_journal(filled) as journal:
        asyncio.run(fail(journal))
    before, inode = filled.stat().st_size, filled.stat().st_ino
    assert secret.encode() in filled.read_bytes()
    with open_journal(filled) as journal:
        assert journal.prune(older_than_days=None, failed=True) == 1
    assert (filled.stat().st_size, filled.stat().st_ino) == (before, inode)
    assert secret[:40].encode() not in filled.read_bytes()
    with open_journal(filled) as journal:
        assert served(journal) == N_ANSWERS
        assert journal.prune(older_than_days=0, failed=False) == N_ANSWERS
    # With nearly all of it free, the little that is left is written anew.
    assert filled.stat().st_size < before / 5
