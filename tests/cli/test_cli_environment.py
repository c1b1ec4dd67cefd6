"""`.env` files, and what the command line prints beside its results: run as a user runs it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from jrh_mlflow.cli.main import group, load_environment
from jrh_mlflow.errors import RecipeError
from tests import processes
from tests.loopback import LoopbackServer

KEY = "sk-planted-in-a-file-0123456789"
ECHO = json.dumps({"reason": f"The key was {KEY}.", "verdict": "tie"})


@pytest.fixture(autouse=True)
def _own_environment() -> Iterator[None]:
    """What a file adds to the environment goes with the test."""
    before = dict(os.environ)
    for name in ("JRH_NO_DOTENV", "OPENAI_API_KEY", "OPENAI_BASE_URL"):
        os.environ.pop(name, None)
    yield
    os.environ.clear()
    os.environ.update(before)


def without_switch() -> dict[str, str]:
    """The environment of a user who does not ask for the warnings of libraries."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONWARNINGS"}


def jrh(*arguments: object) -> subprocess.CompletedProcess[str]:
    """Run a command from its start: libraries write while they are imported, too."""
    command = [sys.executable, "-c", processes.JRH, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, env=without_switch(), check=False)


def cli(*arguments: object) -> Result:
    return CliRunner().invoke(group, [str(argument) for argument in arguments])


def test_env_of_the_working_folder_is_read_and_never_overrides_what_is_set(tmp_path: Path) -> None:
    lines = ("\ufeff# keys", "", "export JRH_A=file", "JRH_B='two words'  # why", "JRH_C=${JRH_B}!", "JRH_D", "JRH_E=")
    (tmp_path / ".env").write_text("\n".join(lines), encoding="utf-8")
    os.environ |= {"JRH_A": "shell", "JRH_E": ""}
    load_environment(None)
    found = {name: value for name, value in os.environ.items() if name in ("JRH_A", "JRH_B", "JRH_C", "JRH_D", "JRH_E")}
    assert found == {"JRH_A": "shell", "JRH_B": "two words", "JRH_C": "two words!", "JRH_E": ""}


def test_a_named_file_stands_in_for_env_and_both_can_be_left_unread(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("JRH_ONE=1\n", encoding="utf-8")
    (tmp_path / "other.env").write_text("A_TWO=2\n", encoding="utf-8")
    os.environ["JRH_NO_DOTENV"] = "1"
    load_environment(None)
    assert "JRH_ONE" not in os.environ
    load_environment("other.env")
    assert (os.environ.get("JRH_ONE"), os.environ["A_TWO"]) == (None, "2")
    os.environ["JRH_NO_DOTENV"] = "0"
    load_environment(None)
    assert os.environ["JRH_ONE"] == "1"


def test_a_folder_called_env_is_nobodys_file(tmp_path: Path) -> None:
    (tmp_path / ".env").mkdir()
    load_environment(None)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (f"A=1\n\n\nthis is {KEY} and no line\n".encode(), ".env, line 4 is not NAME=VALUE"),
        (f"A='{KEY}\n".encode(), ".env, line 1 is not NAME=VALUE"),
        (f"A=1\nB={KEY}\0\n".encode(), ".env, line 2 is not NAME=VALUE"),
        (b"A=1\nB=\xff" + KEY.encode(), ".env is not UTF-8 at byte 6"),
    ],
)
def test_a_broken_file_is_one_clear_line_without_what_it_holds(content: bytes, said: str, tmp_path: Path) -> None:
    (tmp_path / ".env").write_bytes(content)
    with pytest.raises(RecipeError) as refused:
        load_environment(None)
    assert said in str(refused.value)
    assert "JRH_NO_DOTENV=1" in str(refused.value)
    assert KEY not in str(refused.value)
    assert "A" not in os.environ


def test_a_missing_file_that_was_named_is_code_two(tmp_path: Path) -> None:
    done = processes.run(processes.JRH, "--env-file", "nowhere.env", "suite", "tests", env=without_switch())
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "jrh: The environment file nowhere.env cannot be read: No such file or directory.\n"


def test_a_key_of_the_file_is_used_and_reaches_no_artifact(tmp_path: Path, store_uri: str) -> None:
    assert cli("suite", "build", "-o", "small", "--n-tasks", 1, "--depth", 1).exit_code == 0
    # A service that echoes the key it was sent.
    with LoopbackServer(reply=lambda _: ECHO, record=True) as server:
        (tmp_path / ".env").write_text(f"OPENAI_API_KEY={KEY}\nOPENAI_BASE_URL={server.url}\n", encoding="utf-8")
        store = ("--tracking-uri", store_uri, "--experiment", "tests")
        done = cli(
            "evaluate", "--model", "openai/x", "--suite", "small", *store, "--json", "--allow-key-to", "127.0.0.1"
        )
        seen = [str(request["headers"]) for request in server.requests]
    assert done.exit_code == 0, (done.output, done.exception)
    assert all(KEY in headers for headers in seen)
    assert KEY not in done.output
    run_id = json.loads(done.stdout)[0]["run_id"]
    folders = (tmp_path, Path(store_uri.removeprefix("sqlite:///")).parent)
    written = [file for folder in folders for file in folder.rglob("*") if file.is_file()]
    assert [file for file in written if run_id in file.parts]
    assert [file.name for file in written if KEY.encode() in file.read_bytes()] == [".env"]


LOUD = """
import logging, warnings
warnings.warn("a library's warning", UserWarning)
warnings.warn("a library's future", FutureWarning)
logging.getLogger("some.library").warning("a library's log")

def write(brief, temperature):
    warnings.warn("a writer's own warning")
    logging.getLogger("another").error("chatter")
    return "It is said."
"""

RECIPE = """
dataset: rows.csv
rubric: Is it right?
tests: [filler]
generator: {callable: "loud.py:write"}
output: suite
"""


@pytest.mark.slow
def test_libraries_print_nothing_and_our_own_notes_are_one_line_each(tmp_path: Path, store_uri: str) -> None:
    rows = "instruction,response,label\nSay it.,It is said here.,fail\nSay it.,It is well said there.,pass\n"
    for name, text in (("loud.py", LOUD), ("rows.csv", rows), ("recipe.yaml", RECIPE)):
        (tmp_path / name).write_text(text, encoding="utf-8")
    made = jrh("generate", "recipe.yaml", "--allow-code", "--tracking-uri", store_uri)
    assert made.returncode == 0, made.stderr
    assert made.stderr == "note: The test 'filler' is now called 'padding'.\n"
    assert "padding" in made.stdout


def test_a_warning_of_ours_is_a_note_without_its_source(tmp_path: Path) -> None:
    code = (
        "import warnings, logging\nfrom jrh_mlflow.cli import main\nfrom jrh_mlflow.cli.main import _only_notes\n"
        "from jrh_mlflow.errors import JrhWarning\n_only_notes()\n"
        "warnings.warn('2 traces\\nhold \\x1b[31m no chat.', JrhWarning, stacklevel=1)\n"
        "logging.getLogger('jrh_mlflow').warning('Asked %r\\nbut', 'x')\n"
        "logging.getLogger('jrh_mlflow').warning('The key is %s', 'sk-planted-0123456789')\n"
    )
    done = processes.run(code, check=True, env={**os.environ, "A_KEY": "sk-planted-0123456789"})
    assert done.stderr.splitlines() == [
        "note: 2 traces hold \ufffd[31m no chat.",
        "note: Asked 'x' but",
        "note: The key is [key]",
    ]
    assert done.stdout == ""
