"""The workers that run tests: every test is run once, and one that ends its process fails alone."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
FILES = {
    "test_one.py": "import pytest\n@pytest.mark.parametrize('n', range(9))\ndef test_passes(n):\n    assert n < 9\n",
    "test_two.py": "import os\ndef test_ends():\n    os._exit(7)\ndef test_goes_on():\n    pass\n",
    "test_three.py": "def test_fails():\n    assert 1 == 2\n",
}


def run_pytest(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    for name, text in FILES.items():
        (folder / name).write_text(text, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-p", "tests.workers", "-p", "no:cacheprovider", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120, check=False
    )


def test_a_test_that_ends_its_process_fails_and_all_others_are_run(tmp_path: Path) -> None:
    ended = run_pytest(tmp_path, "-n", "3")
    assert ended.returncode == 1
    assert "2 failed, 10 passed" in ended.stdout, ended.stdout + ended.stderr
    assert "ended with 7" in ended.stdout


def test_the_first_failure_ends_the_run_where_that_is_wanted(tmp_path: Path) -> None:
    ended = run_pytest(tmp_path, "-n", "2", "-x", "test_three.py", "test_one.py")
    assert ended.returncode == 1
    assert "1 failed" in ended.stdout
