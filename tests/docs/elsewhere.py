"""Commands of the pages that cannot be run in place, and who runs them.

Servers run until somebody ends them, installations need an index, and `make test` is what runs this.
"""

from __future__ import annotations

import re
from typing import NamedTuple


class Where(NamedTuple):
    """Who runs a command that a page prints."""

    command: str
    """A regular expression that the whole command matches."""
    file: str
    """What runs it: a test, a workflow, or the Makefile."""
    text: str
    """A piece of that file: there it is run."""


ELSEWHERE = (
    Where(r"(DEMO=\w+ )?make demo", "Makefile", "$(BIN)/jrh demo"),
    Where(r"make test", "Makefile", "test: lint types unit"),
    Where(r"python3 -m venv \.venv|\. \.venv/bin/activate", "tests/bare_installation.py", "venv"),
    Where(r"pip install (-e )?\.", "tests/bare_installation.py", "pip"),
    Where(r"make test-mlflow( MLFLOW=\S+)?", "Makefile", "-m tests.mlflow_versions"),
    Where(r"(\.venv/bin/)?jrh ui\b.*", "tests/tracking/test_server.py", "running_server"),
    Where(r"mlflow server .*--app-name jrh", "tests/pages/test_server.py", '"--app-name", "jrh"'),
    Where(r"jrh review (?!.*--(finish|withdraw)).*", "tests/review/making.py", '[JRH, "review", *folders'),
)


def elsewhere(command: str) -> Where | None:
    """Who runs a command, if it is not run in place."""
    return next((where for where in ELSEWHERE if re.fullmatch(where.command, command)), None)
