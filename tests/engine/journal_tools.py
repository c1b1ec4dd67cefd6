"""What the journal tests share: short calls, and a second process that uses the same journal."""

from __future__ import annotations

import sqlite3
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from typing import Any

import psycopg

from jrh_mlflow.engine.journal import Journal
from jrh_mlflow.engine.journal.postgres import spool_folder
from tests import postgres
from tests.processes import Forked


class Backend(ABC):
    """What the tests need of a database besides the journal's own methods."""

    @abstractmethod
    def make(self, folder: Path) -> str:
        """Return what `open_journal` takes to open an empty journal that belongs to a folder, from any process."""

    @abstractmethod
    def spools(self, address: str) -> Path:
        """Return the path that the functions of `spool` take; the journal must have been opened before."""

    @abstractmethod
    def blocked(self, address: str) -> AbstractContextManager[object]:
        """Let no process commit for a while."""

    @abstractmethod
    def execute(self, address: str, statement: str) -> list[tuple[Any, ...]]:
        """Run a statement behind the journal's back; `{}` stands before the names of its tables."""


class SqliteBackend(Backend):
    """A file."""

    def make(self, folder: Path) -> str:
        return str(folder / "journal.db")

    def spools(self, address: str) -> Path:
        return Path(address)

    @contextmanager
    def blocked(self, address: str) -> Iterator[None]:
        with closing(sqlite3.connect(address)) as blocker:
            blocker.execute("BEGIN IMMEDIATE")
            yield
            blocker.rollback()

    def execute(self, address: str, statement: str) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(address)) as connection:
            rows = connection.execute(statement.format("")).fetchall()
            connection.commit()
            return rows


class PostgresBackend(Backend):
    """A database on the tests' own server."""

    def make(self, folder: Path) -> str:
        return postgres.server().make_database()

    def spools(self, address: str) -> Path:
        ((journal_id,),) = postgres.execute(address, "SELECT id FROM jrh_journal.about")
        return spool_folder(journal_id) / "journal"

    @contextmanager
    def blocked(self, address: str) -> Iterator[None]:
        with psycopg.connect(address) as blocker:
            blocker.execute("LOCK TABLE jrh_journal.budgets IN EXCLUSIVE MODE")
            yield
            blocker.rollback()

    def execute(self, address: str, statement: str) -> list[tuple[Any, ...]]:
        return postgres.execute(address, statement.format("jrh_journal."))


BACKENDS: dict[str, Backend] = {"sqlite": SqliteBackend(), "postgres": PostgresBackend()}


def backend_of(address: str) -> Backend:
    """Return the backend that an address is of."""
    return BACKENDS["postgres" if "://" in address else "sqlite"]


async def ask(journal: Journal, key: str, *, budget: str | None = None, worst: int = 10, cost: int | None = 3) -> bool:
    """Reserve and answer one call; False when the budget has no room for it."""
    if not await journal.reserve(key, budget=budget, worst_micro=worst):
        return False
    await journal.answered(key, request_json=f'"{key}?"', response_json=f'"{key}!"', cost_micro=cost, budget=budget)
    return True


async def fail(journal: Journal, key: str, *, budget: str | None = None, cost: int = 2) -> None:
    """Reserve one call and let it end without an answer."""
    assert await journal.reserve(key, budget=budget, worst_micro=10)
    await journal.failed(key, request_json="{}", reason="HTTP 500", response_json=None, cost_micro=cost, budget=budget)


async def give_back(journal: Journal, key: str, *, budget: str | None) -> None:
    """Settle a reservation whose call was never sent."""
    await journal.failed(key, request_json="{}", reason="r", response_json=None, cost_micro=0, budget=budget)


def start_python(script: str, *arguments: str) -> subprocess.Popen[str]:
    """Run a script in a process of its own, with pipes to talk to it."""
    return Forked(script, *arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def run_at_once(script: str, *arguments: str, n: int) -> list[str]:
    """Run a script that prints `ready` and then waits for a line in several processes; return what they print."""
    children = [start_python(script, *arguments) for _ in range(n)]
    for child in children:
        assert child.stdout
        assert child.stdout.readline() == "ready\n"
    for child in children:
        assert child.stdin
        child.stdin.write("go\n")
        child.stdin.flush()
    outputs = [child.communicate()[0] for child in children]
    assert [child.returncode for child in children] == [0] * n
    return outputs


RECEIVER = """
import asyncio, os, sys
from jrh_mlflow.engine.journal import open_journal

async def receive(journal):
    await asyncio.gather(*[journal.reserve(key, budget="b", worst_micro=100) for key in "abcd"])
    await journal.answered("a", request_json="{}", response_json='"A"', cost_micro=7, budget="b")
    os.write(1, b"locked?\\n")
    sys.stdin.readline()
    asyncio.ensure_future(journal.answered("b", request_json="{}", response_json='"B"', cost_micro=8, budget="b"))
    asyncio.ensure_future(journal.failed(
        "c", request_json="{}", reason="refused", response_json="{}", cost_micro=9, budget="b"))
    await asyncio.sleep(0)
    os.write(1, b"received\\n")
    await asyncio.sleep(600)

journal = open_journal(sys.argv[1])
journal.open_budget("b", 1_000)
asyncio.run(receive(journal))
"""


def kill_before_commit(address: str) -> None:
    """Kill a process that has `a` answered, an answer for `b` and a failure of `c` only spooled, and `d` in flight."""
    child = start_python(RECEIVER, address)
    assert child.stdout
    assert child.stdin
    assert child.stdout.readline() == "locked?\n"
    with backend_of(address).blocked(address):
        child.stdin.write("yes\n")
        child.stdin.flush()
        assert child.stdout.readline() == "received\n"
        child.kill()
        child.communicate()
