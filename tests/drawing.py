"""Figures of tests: drawing takes a third of a run's time, so each file of tests draws the first of every kind only.

A kind is told by its axes. A folder holds an empty file for each kind that was drawn, so that the processes of a test
(`tests/processes.py`) know it, too.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from markupsafe import Markup

ONE_DOT = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
EMPTY_SVG = Markup('<svg class="fig" viewBox="0 0 1 1"></svg>')
FOLDER = "JRH_TESTS_DRAWN"
"""In the environment of a test's processes."""


def draw_once(folder: Path, patch: Callable[[object, str, object], None] = setattr) -> None:
    """Draw from now on the first figure of every kind only."""
    from jrh_mlflow.show.figures import canvas, svg

    png, inline_svg = canvas.png, svg.inline_svg

    def is_new(figure: Any, form: str) -> bool:
        kind = form, *((axes.get_xlabel(), axes.get_ylabel()) for axes in figure.axes)
        try:
            (folder / hashlib.sha256(repr(kind).encode()).hexdigest()).touch(exist_ok=False)
        except FileExistsError:
            return False
        return True

    patch(canvas, "png", lambda figure: png(figure) if is_new(figure, "png") else ONE_DOT)
    patch(
        svg,
        "inline_svg",
        lambda figure, *, title: inline_svg(figure, title=title) if is_new(figure, "svg") else EMPTY_SVG,
    )


def draw_nothing(patch: Callable[[object, str, object], None]) -> None:
    """Draw no figure from now on."""
    from jrh_mlflow.show.figures import canvas, svg

    patch(canvas, "png", lambda figure: ONE_DOT)
    patch(svg, "inline_svg", lambda figure, *, title: EMPTY_SVG)
