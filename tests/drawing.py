"""Figures of tests: to make and draw them takes a half of a run's time, so only tests that look at them do that."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator

from markupsafe import Markup

ONE_DOT = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
EMPTY_SVG = Markup('<svg class="fig" viewBox="0 0 1 1"></svg>')
UNDRAWN = "JRH_TESTS_UNDRAWN"
"""Set in the environment of a test's processes that draw nothing."""


class _Unseen(float):
    """A figure and all its parts: takes every call, and is as long as it is wide."""

    def __getattr__(self, name: str) -> _Unseen:
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __call__(self, *_: object, **__: object) -> _Unseen:
        return self

    def __getitem__(self, _: object) -> _Unseen:
        return self

    def __setattr__(self, name: str, value: object) -> None:
        """Keep nothing."""

    def __iter__(self) -> Iterator[_Unseen]:
        yield self

    def get_xlim(self) -> tuple[float, float]:
        """Return two ends."""
        return (1.0, 2.0)

    get_ylim = get_size_inches = get_xlim

    def get_children(self) -> list[_Unseen]:
        """Return none: whoever walks over the parts of a figure must come to an end."""
        return []


UNSEEN = _Unseen(1)


def _places() -> dict[tuple[object, str], object]:
    """What draws, and what stands in its place."""
    import matplotlib.figure

    from jrh_mlflow.show.figures import canvas, svg

    return {
        (matplotlib.figure, "Figure"): lambda **_: UNSEEN,
        (canvas, "png"): lambda figure: ONE_DOT,
        (svg, "inline_svg"): lambda figure, *, title: EMPTY_SVG,
    }


_drawing: dict[tuple[object, str], object] = {}


def draw_nothing(patch: Callable[[object, str, object], None] = setattr) -> None:
    """Draw no figure from now on."""
    for (module, name), instead in _places().items():
        _drawing.setdefault((module, name), getattr(module, name))
        patch(module, name, instead)


def draw_again(patch: Callable[[object, str, object], None]) -> None:
    """Draw figures, for one test of a file that draws none."""
    for (module, name), function in _drawing.items():
        patch(module, name, function)
