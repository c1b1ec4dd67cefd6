"""The list of commands: what `jrh --help`, `jrh help all`, the README and the docs say there is."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from jrh_mlflow.cli.main import COMMANDS, GROUPS, MOST_USED, group
from jrh_mlflow.cli.options import NETWORK_AND_STORAGE, NETWORK_TITLE
from tests.cli.conftest import Jrh

ROOT = Path(__file__).parents[2]
LEAVES = {
    *("demo", "evaluate", "shift", "compare", "sweep", "repair", "gate", "plan", "watch", "attack", "agree"),
    *("correct", "align", "self-preference", "generate", "respond", "review", "replay", "ui"),
    *(f"suite {name}" for name in ("build", "from-pairs", "show", "audit", "tasks", "tests", "dataset")),
    *("suite export-inspect", "batch export", "batch import", "journal show", "journal bill", "journal prune"),
    *("prompt show", "prompt check"),
}


def leaves(command: click.Command, context: click.Context, name: str = "") -> Iterator[tuple[str, click.Command]]:
    """Find every command that runs something."""
    if not isinstance(command, click.Group):
        yield name, command
        return
    for part in command.list_commands(context):
        child = command.get_command(context, part)
        assert child is not None
        yield from leaves(child, context, f"{name} {part}".strip())


ALL = dict(leaves(group, click.Context(group)))


def table_of_the_readme() -> dict[str, str]:
    rows = re.findall(r"^\| \[?`jrh ([\w-]+)`.*? \| (.+?) \|$", (ROOT / "README.md").read_text("utf-8"), re.MULTILINE)
    return dict(rows)


def test_there_are_these_commands_and_no_others() -> None:
    assert set(ALL) == LEAVES
    assert len(LEAVES) <= 34


def test_help_lists_the_ten_that_are_used_most_and_help_all_lists_all(jrh: Jrh) -> None:
    shown = jrh("--help").out
    listed = re.findall(r"^  ([a-z][\w-]*)  ", shown.partition("Commands:")[2], re.MULTILINE)
    assert tuple(listed) == MOST_USED
    assert len(MOST_USED) == 10
    assert "`jrh help all`" in shown
    everything = jrh("help", "all").out
    assert re.findall(r"^(\S.*):$", everything, re.MULTILINE) == list(GROUPS)
    assert set(re.findall(r"^  ([a-z][\w-]*)  ", everything, re.MULTILINE)) == set(COMMANDS)


def test_help_of_a_command_is_what_its_option_prints(jrh: Jrh) -> None:
    assert jrh("help").out == jrh("--help").out
    assert jrh("help", "suite", "build").out == jrh("suite", "build", "--help").out
    unknown = jrh("help", "evaluat")
    assert unknown.code == 2
    assert "Did you mean 'evaluate'" in unknown.err


@pytest.mark.parametrize("name", sorted(LEAVES))
def test_every_help_has_an_example_and_ends_with_network_and_storage(jrh: Jrh, name: str) -> None:
    shown = jrh(*name.split(), "--help")
    assert shown.code == 0
    assert f"Example: jrh {name}" in shown.out
    own, _, network = shown.out.partition(f"\n{NETWORK_TITLE}:\n")
    flags = re.findall(r"^  (--[\w-]+)", network, re.MULTILINE)
    assert flags == [flag for flag in NETWORK_AND_STORAGE if flag in flags]
    assert not set(NETWORK_AND_STORAGE) & set(re.findall(r"^  (?:-\w, )?(--[\w-]+)", own, re.MULTILINE))


def test_the_table_of_the_readme_is_what_help_lists() -> None:
    assert table_of_the_readme() == {name: COMMANDS[name][1].rstrip(".") for name in MOST_USED}


def test_every_command_stands_on_a_page_and_pages_name_no_other() -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    text = "\n".join(page.read_text(encoding="utf-8") for page in pages)
    assert [name for name in LEAVES if not re.search(rf"\bjrh {name}\b", text)] == []
    named = set(re.findall(r"(?:^|`)jrh ([a-z][a-z-]*)", text, re.MULTILINE))
    assert named <= {*COMMANDS, "help"}


def flags() -> dict[str, tuple[str, ...]]:
    """Return every option of every command, by its main name, with all of its spellings."""
    found = {}
    for command in ALL.values():
        for parameter in command.params:
            if isinstance(parameter, click.Option):
                spellings = (*parameter.opts, *parameter.secondary_opts)
                found[max(parameter.opts, key=len)] = tuple(each for each in spellings if each.startswith("--"))
    return found


def test_every_option_is_named_on_a_page() -> None:
    """No page has to be written for one that nobody needs; `docs/reference/cli.md` is made of them."""
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "recipes").rglob("*.*")]
    text = "\n".join(page.read_text(encoding="utf-8", errors="ignore") for page in pages if page.is_file())
    unnamed = [
        flag
        for flag, spellings in flags().items()
        if not any(re.search(rf"{re.escape(each)}(?![\w-])", text) for each in spellings)
    ]
    assert unnamed == []
