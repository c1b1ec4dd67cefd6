"""The tables of parity with the two papers name tests that exist and options that the commands have."""

from __future__ import annotations

import re
from pathlib import Path

import click

from jrh_mlflow.cli.main import group

ROOT = Path(__file__).parent.parent
ROWS = [
    line.strip("| ").split(" | ")
    for line in (ROOT / "docs" / "parity.md").read_text("utf-8").splitlines()
    if line.startswith("| ") and not line.endswith(" | test |")
]


def options() -> set[str]:
    """Every flag of every command."""
    found: set[str] = set()
    commands: list[click.Command | None] = [group]
    while commands:
        if (command := commands.pop()) is None:
            continue
        found |= {flag for parameter in command.params for flag in (*parameter.opts, *parameter.secondary_opts)}
        if isinstance(command, click.Group):
            context = click.Context(command)
            commands += [command.get_command(context, name) for name in command.list_commands(context)]
    return found


def test_every_row_names_a_test_that_exists():
    assert len(ROWS) > 90
    missing = []
    for feature, _, test in ROWS:
        file, _, name = test.strip("`").partition("::")
        text = (ROOT / file).read_text("utf-8") if (ROOT / file).is_file() else ""
        found = f"def {name}(" in text if name else "def test_" in text
        missing += [] if found else [f"{feature}: {test}"]
    assert missing == []


def test_every_option_of_a_row_is_one_of_a_command():
    named = {flag for _, here, _ in ROWS for flag in re.findall(r"(?<![\w-])--[a-z][a-z-]+", here)}
    assert len(named) > 20
    assert named - options() == set()
