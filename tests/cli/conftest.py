"""`jrh` for tests of the command line, in the process."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from tests.people import command

Jrh = Callable[..., command.Done]


@pytest.fixture
def jrh(capsys: pytest.CaptureFixture[str]) -> Jrh:
    """Run a command."""
    return partial(command.jrh, capsys=capsys)
