"""Progress bars: seen on a terminal and in a notebook, silent in logs and pipes."""

from __future__ import annotations

import io
import sys
from importlib import import_module

from jrh_mlflow import progress
from tests.kernels import outputs_of


class Terminal(io.StringIO):
    def isatty(self):
        return True


def through(n: int) -> list[int]:
    return list(progress.progress_bar(range(n), total=n, name="my judge", unit="call"))


def test_a_log_or_a_pipe_gets_no_bar(capsys):
    assert through(3) == [0, 1, 2]
    assert capsys.readouterr().err == ""


def test_a_terminal_gets_a_bar(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    assert through(3) == [0, 1, 2]
    assert "my judge: 100%" in sys.stderr.getvalue()


def test_ipython_without_a_kernel_is_no_notebook():
    """A script may import IPython, and its shell on a terminal has no kernel either."""
    assert import_module("IPython").get_ipython() is None
    assert not progress.is_watched()


def test_a_notebook_shows_a_bar_though_it_has_no_terminal_and_warns_of_nothing():
    """A plain kernel has no ipywidgets: the bar is a line of text, without tqdm's advice to install them."""
    code = """
    import sys
    from jrh_mlflow.progress import progress_bar
    sys.modules["ipywidgets"] = None
    assert not sys.stderr.isatty()
    for _ in progress_bar(range(3), total=3, name="my judge", unit="call"):
        pass
    """
    shown = "".join(output["text"] for output in outputs_of(code))
    assert "my judge: 100%" in shown
    assert "Warning" not in shown
    assert "IProgress" not in shown
