"""The map of reliability against cost as one page: drawn as SVG, no script, no request, every text escaped."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jrh_mlflow.reports.html import render

_WIDTH, _HEIGHT = 900, 460
_LEFT, _RIGHT, _TOP, _BOTTOM = 62, 24, 40, 54


@dataclass(frozen=True, kw_only=True, slots=True)
class Dot:
    """One configuration on the map."""

    label: str
    value: float
    low: float | None
    high: float | None
    usd: float
    """Dollars of 1,000 judgments."""
    on_front: bool
    tied: bool
    """Not told from the best."""
    held_out: bool
    """Measured on the held-out half; otherwise the value is the search's."""
    search: float
    run_id: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Scales:
    """Where values stand on the page."""

    low_usd: float
    high_usd: float
    low: float
    high: float
    logarithmic: bool

    def x(self, usd: float) -> float:
        """Return the place of an amount."""
        place = _share(*(self._across(amount) for amount in (usd, self.low_usd, self.high_usd)))
        return round(_LEFT + place * (_WIDTH - _LEFT - _RIGHT), 1)

    def y(self, value: float) -> float:
        """Return the place of a reliability."""
        return round(_HEIGHT - _BOTTOM - _share(value, self.low, self.high) * (_HEIGHT - _TOP - _BOTTOM), 1)

    def _across(self, usd: float) -> float:
        return math.log10(usd) if self.logarithmic else usd


def sweep_page(sweep: Mapping[str, Any], dots: Sequence[Dot]) -> str:
    """Render the map, the front and all that was measured.

    Args:
        sweep: As `Sweep.to_dict` gives it.
        dots: What can be placed on the map.
    """
    scales = scales_of(dots)
    front = sorted((dot for dot in dots if dot.on_front), key=lambda dot: dot.usd)
    return render(
        "sweep.html",
        sweep=sweep,
        dots=sorted(dots, key=lambda dot: dot.on_front),
        ranked=sorted(dots, key=lambda dot: (not dot.on_front, dot.usd)),
        scales=scales,
        stairs=stairs(front, scales) if front and scales else "",
        ticks=_ticks(scales) if scales else {"x": [], "y": []},
        size={"width": _WIDTH, "height": _HEIGHT, "left": _LEFT, "right": _WIDTH - _RIGHT, "bottom": _HEIGHT - _BOTTOM},
    )


def scales_of(dots: Sequence[Dot]) -> Scales | None:
    """Choose scales that hold every dot and its interval; dollars by powers of ten where they spread that much."""
    if not dots:
        return None
    prices = [dot.usd for dot in dots]
    ends = [end for dot in dots for end in (dot.value, dot.low, dot.high) if end is not None]
    logarithmic = min(prices) > 0 and max(prices) / min(prices) > 5
    low, high = min(prices), max(prices)
    low_usd, high_usd = (low / 1.3, high * 1.3) if logarithmic else (max(0.0, low - 0.1 * (high - low)), high * 1.08)
    if not low_usd < high_usd:
        low_usd, high_usd = low_usd - 1.0, low_usd + 1.0
    return Scales(
        low_usd=low_usd,
        high_usd=high_usd,
        low=max(0.0, math.floor(20 * min(ends) - 0.2) / 20),
        high=min(1.0, math.ceil(20 * max(ends) + 0.2) / 20),
        logarithmic=logarithmic,
    )


def stairs(front: Sequence[Dot], scales: Scales) -> str:
    """Return the steps of the front as an SVG path: nothing measured lies above it at that price."""
    path = [f"M {scales.x(front[0].usd)} {scales.y(front[0].value)}"]
    for dot in front[1:]:
        path += [f"H {scales.x(dot.usd)}", f"V {scales.y(dot.value)}"]
    return " ".join([*path, f"H {_WIDTH - _RIGHT}"])


def _ticks(scales: Scales) -> dict[str, list[tuple[float, str]]]:
    step = 0.05 if scales.high - scales.low <= 0.5 else 0.1
    first, last = math.ceil(scales.low / step - 1e-9), math.floor(scales.high / step + 1e-9)
    values = [step * index for index in range(first, last + 1)]
    if scales.logarithmic:
        powers = range(math.floor(math.log10(scales.low_usd)), math.ceil(math.log10(scales.high_usd)) + 1)
        prices = [times * 10.0**power for power in powers for times in (1, 2, 5)]
    else:
        prices = [scales.low_usd + (scales.high_usd - scales.low_usd) * index / 5 for index in range(6)]
    return {
        "x": [(scales.x(usd), f"${usd:.3g}") for usd in prices if scales.low_usd <= usd <= scales.high_usd],
        "y": [(scales.y(value), f"{value:.2f}") for value in values],
    }


def _share(value: float, low: float, high: float) -> float:
    return 0.5 if high == low else (value - low) / (high - low)
