"""The ground gives way in mid-run: a disk that is full or read-only, a database server that restarts. Paid once."""

from __future__ import annotations

import itertools
import shutil
import subprocess
from pathlib import Path

import pytest

from jrh_mlflow.engine import ask_calls
from jrh_mlflow.engine.budget import Paid, bill
from jrh_mlflow.engine.calls import plan_calls
from jrh_mlflow.engine.client import ClientSettings
from jrh_mlflow.engine.journal import open_journal
from tests import postgres, processes
from tests.cases import few
from tests.engine.journal_tools import start_python
from tests.ledger import MODEL, PRICES, SUITE, VERDICT, judge_at
from tests.loopback import LoopbackServer
from tests.loopback_replies import Body

N_CALLS = 2 * len(SUITE)
READ_ONLY = """
import ctypes, os, subprocess, sys

disk, uid, gid = sys.argv.pop(1), os.getuid(), os.getgid()
new_user, new_mounts = 0x10000000, 0x00020000
assert ctypes.CDLL(None).unshare(new_user | new_mounts) == 0
for name, text in (("setgroups", "deny"), ("uid_map", f"0 {uid} 1"), ("gid_map", f"0 {gid} 1")):
    with open(f"/proc/self/{name}", "w") as file:
        file.write(text)
subprocess.run(["mount", "--bind", disk, disk], check=True)
subprocess.run(["mount", "-o", "remount,bind,ro", disk], check=True)
"""
"""A process to which a folder is a disk that is read-only."""
ASKING = """
import resource, sys
from jrh_mlflow.engine import ask_calls
from jrh_mlflow.engine.calls import plan_calls
from jrh_mlflow.engine.client import ClientSettings
from jrh_mlflow.engine.journal import open_journal
from jrh_mlflow.errors import JournalError
from tests.ledger import PRICES, SUITE, judge_of

url, path, limit = sys.argv[1], sys.argv[2], int(sys.argv[3])
judge = judge_of(url)
settings = ClientSettings(concurrency=4, price=judge.price(PRICES))
try:
    with open_journal(path) as journal:
        if limit:
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        ask_calls(judge, plan_calls(SUITE, judge, replicates=1), journal=journal, settings=settings)
except JournalError as error:
    print("ended:", error)
"""


def continue_with(server: LoopbackServer, address: str | Path) -> None:
    """Ask the rest, and compare what the server billed with the books."""
    judge = judge_at(server)
    settings = ClientSettings(concurrency=2, price=judge.price(PRICES))
    with open_journal(address) as journal:
        asked = ask_calls(judge, plan_calls(SUITE, judge, replicates=1), journal=journal, settings=settings)
        paid = sum(bill(journal).values(), Paid())
    assert [record.outcome for record in asked.records] == ["verdict"] * N_CALLS
    assert server.counts["requests"] == N_CALLS
    assert (paid.calls, paid.unknown, paid.micro) == (N_CALLS, 0, server.bill_micro(*PRICES[MODEL]))


@pytest.mark.parametrize("room", few([60_000, 1_000, 100_000]))
def test_a_run_on_a_disk_that_fills_up_pays_nothing_twice(room: int, tmp_path: Path) -> None:
    with LoopbackServer(reply=lambda _: VERDICT) as server:
        said, _ = start_python(ASKING, server.url, str(tmp_path / "j.db"), str(room)).communicate()
        assert said.startswith("ended:"), said
        assert server.counts["requests"] < N_CALLS
        continue_with(server, tmp_path / "j.db")


def test_on_a_disk_that_is_read_only_nothing_is_sent(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = f"mount --bind {disk} {disk} && mount -o remount,bind,ro {disk}"
    if shutil.which("unshare") is None or subprocess.call(["unshare", "-rm", "sh", "-c", mounted]):
        pytest.skip("needs a file system of its own, so user namespaces")
    with LoopbackServer(reply=lambda _: VERDICT) as server:
        ended = processes.run(READ_ONLY + ASKING, disk, server.url, disk / "j.db", 0)
        assert ended.stdout.startswith("ended:"), ended.stderr
        assert server.counts["requests"] == 0


def test_a_run_goes_on_when_the_database_server_restarts_and_nothing_is_paid_twice() -> None:
    answered = itertools.count(1)
    with postgres.own_server() as database:
        address = database.make_database()

        def reply(_: Body) -> str:
            if next(answered) == 5:
                database.restart()
            return VERDICT

        with LoopbackServer(reply=reply) as server:
            judge = judge_at(server)
            settings = ClientSettings(concurrency=2, price=judge.price(PRICES))
            with open_journal(address) as journal:
                asked = ask_calls(judge, plan_calls(SUITE, judge, replicates=1), journal=journal, settings=settings)
            assert (len(asked.records), server.counts["requests"]) == (N_CALLS, N_CALLS)
            continue_with(server, address)
