"""No test can hang: each has a limit, and those of signals pass where SIGINT is ignored."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
IGNORING = """
import pytest, signal, sys
for number in (signal.SIGINT, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
sys.exit(pytest.main(sys.argv[1:]))
"""
"""What `(nohup make test &)` does to the processes that it starts."""


def test_a_test_past_its_limit_fails_and_the_stacks_of_all_threads_are_printed(tmp_path: Path) -> None:
    (tmp_path / "test_waits.py").write_text(
        "import threading, time\n"
        "def sleeps_beside():\n    time.sleep(60)\n"
        "def test_waits():\n"
        "    threading.Thread(target=sleeps_beside, daemon=True).start()\n"
        "    time.sleep(60)\n"
        "def test_ends():\n    pass\n"
    )
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "pytest_timeout", "--timeout=1", "-q"]
    alone = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    ended = subprocess.run(command, cwd=tmp_path, env=alone, capture_output=True, text=True, timeout=170, check=False)
    assert ended.returncode == 1
    assert "1 failed, 1 passed" in ended.stdout
    assert "sleeps_beside" in ended.stdout + ended.stderr


def test_every_test_has_a_limit_of_three_minutes_unless_marked(request: pytest.FixtureRequest) -> None:
    assert request.config.getini("timeout") in ("180", 180)


def test_tests_of_signals_pass_where_ctrl_c_and_hang_up_are_ignored() -> None:
    name = "tests/engine/test_promises.py::test_a_second_signal_aborts_at_once_and_leaves_no_run_open"
    command = [sys.executable, "-c", IGNORING, "-p", "no:cacheprovider", "-n0", "-v", name]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=170, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "2 passed" in ended.stdout
