"""Figures of tests: drawing takes a third of a run's time, so only tests that look at figures draw them."""

from __future__ import annotations

import base64
from collections.abc import Callable

from markupsafe import Markup

ONE_DOT = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
EMPTY_SVG = Markup('<svg class="fig" viewBox="0 0 1 1"></svg>')
UNDRAWN = "JRH_TESTS_UNDRAWN"
"""Set in the environment of a test's processes that draw nothing."""


def draw_nothing(patch: Callable[[object, str, object], None] = setattr) -> None:
    """Draw no figure from now on."""
    from jrh_mlflow.show.figures import canvas, svg

    patch(canvas, "png", lambda figure: ONE_DOT)
    patch(svg, "inline_svg", lambda figure, *, title: EMPTY_SVG)
