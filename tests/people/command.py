"""`jrh` as a user types it, in this process: exit code, standard output and standard error."""

from __future__ import annotations

import sys
import warnings
from dataclasses import dataclass

import pytest

from jrh_mlflow.cli.main import _note_of_warning, _run


@dataclass(frozen=True)
class Done:
    """How a command ended."""

    code: int
    out: str
    err: str


def jrh(*arguments: object, capsys: pytest.CaptureFixture[str]) -> Done:
    """Run a command."""
    capsys.readouterr()
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("default")
        patch.setattr(sys, "argv", ["jrh", *map(str, arguments)])
        patch.setattr(warnings, "showwarning", _note_of_warning)
        with pytest.raises(SystemExit) as stopped:
            _run()
    out, err = capsys.readouterr()
    return Done(int(str(stopped.value.code)), out, err)
