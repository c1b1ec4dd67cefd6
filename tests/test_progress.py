"""Progress bars: seen on a terminal and in a notebook, silent in logs and pipes."""

from __future__ import annotations

import io
import sys
import threading
from importlib import import_module

import pytest

from jrh_mlflow import progress
from tests.kernels import outputs_of

pytestmark = pytest.mark.quick


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


def test_the_clock_of_a_bar_runs_while_nothing_comes_and_stops_with_it(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setattr(progress, "_BEAT_S", 0.001)
    bar, beats = progress.progress_bar(total=128, name="my judge", unit="call"), threading.Semaphore(0)
    monkeypatch.setattr(bar, "refresh", lambda **_: beats.release())
    with progress.ticking(bar):
        assert all(beats.acquire(timeout=60) for _ in range(3))
    assert not [thread for thread in threading.enumerate() if thread.name == "jrh-bar"]


def test_a_bar_tells_seconds_per_call_and_the_time_left_after_the_first_call(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    with progress.ticking(progress.progress_bar(total=128, name="my judge", unit="call")) as bar:
        monkeypatch.setattr(bar, "_time", lambda: bar.start_t + 13)
        bar.update()
        bar.refresh()
    shown = sys.stderr.getvalue()
    assert "1/128 [00:13<27:31" in shown
    assert "s/call" in shown
