"""Progress bars where somebody sees them: on a terminal and in a notebook, never in a log or a pipe."""

from __future__ import annotations

import sys
import threading
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

_BEAT_S = 1.0


def is_watched() -> bool:
    """Whether somebody sees a bar: on a terminal, or in a notebook, whose kernel has none."""
    return _in_notebook() or sys.stderr.isatty()


def progress_bar(items: Iterable[Any] | None = None, *, total: int, name: str, unit: str, leave: bool = True) -> Any:
    """Return tqdm's bar for this place: a widget where a notebook has them, else a line of text; silent when unwatched.

    Args:
        items: What to go through; None where `update` is called.
        total: How many there are.
        name: In front of the bar.
        unit: What is counted.
        leave: Keep the full bar on the screen.
    """
    return _tqdm()(items, total=total, desc=name, unit=unit, leave=leave, dynamic_ncols=True, disable=not is_watched())


def load_in_notebook() -> None:
    """Load tqdm in a notebook before MLflow does, so that its advice to install ipywidgets is not shown."""
    if _in_notebook():
        _tqdm()


def _tqdm() -> Any:
    with warnings.catch_warnings():
        # Without ipywidgets a line of text is the bar, which is no reason to warn anybody.
        warnings.filterwarnings("ignore", message="IProgress not found")
        from tqdm.auto import tqdm
    return tqdm


@contextmanager
def ticking(bar: Any) -> Iterator[Any]:
    """Let the clock of a bar run for the time of a block, also while a model loads and until the first answer comes."""
    ended = threading.Event()

    def beat() -> None:
        while not ended.wait(_BEAT_S):
            bar.refresh()

    thread = threading.Thread(target=beat, name="jrh-bar", daemon=True)
    with bar:
        thread.start()
        try:
            yield bar
        finally:
            ended.set()
            thread.join()


def _in_notebook() -> bool:
    """Whether a kernel runs this process: IPython on a terminal has a shell and no kernel."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return getattr(shell, "kernel", None) is not None


@contextmanager
def counting_bar(name: str, *, total: int, show: bool = True, unit: str = "call") -> Iterator[Any]:
    """Give a function to be told about every record, which moves a bar; None where nobody watches."""
    if not show or not is_watched():
        yield None
        return
    with ticking(progress_bar(total=total, name=name, unit=unit)) as bar:
        yield lambda record: bar.update()
