"""Suites of the size that `jrh.plan` says, drawn anew: how wide intervals are, how often limits and judges are told.

Each design is planned on a built-in suite for a stated rate and intraclass correlation, and then drawn with them.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from jrh_mlflow.decisions.planning import Plan, axis_layout, plan
from jrh_mlflow.measuring.resolve import load_suite
from jrh_mlflow.simulations.decision_checks import DecisionCheck, SimulationSize, number_check, share_check
from jrh_mlflow.simulations.validate import Map
from jrh_mlflow.stats import Array
from jrh_mlflow.stats.max_t import max_t, share_limit
from jrh_mlflow.stats.power import FEWEST_FOR_WIDTH, Layout, Spread
from jrh_mlflow.stats.proportions import cluster_interval

OFF = 0.1
"""Most by which a mean width may miss the one that was planned, as a part of it."""
FEWEST_FOUND = 0.75
"""Least share in which what was planned to be found with a chance of 80 % is found."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Wish:
    """What is planned."""

    suite: str
    axis: str
    rate: float
    icc: float
    width: float | None = None
    difference: float | None = None

    def __str__(self) -> str:
        """Name the design and the wish."""
        wanted = f"width {self.width:g}" if self.width is not None else f"difference {self.difference:g}"
        return f"{self.suite}, {self.axis}, rate {self.rate:g}, ICC {self.icc:g}, {wanted}"

    @property
    def plan(self) -> Plan:
        """Plan it."""
        return plan(
            self.suite,
            axis=self.axis,
            width=self.width,
            difference=self.difference,
            rate=self.rate,
            icc=self.icc,
        )

    @property
    def layout(self) -> Layout:
        """What the suite asks of each task on the axis."""
        return axis_layout(load_suite(self.suite), self.axis)


_DESIGNS = (
    ("datasheet", "dark_current", 0.15),
    ("datasheet", "positional_false_preference", 0.3),
    ("datasheet-paper", "dark_current", 0.2),
    ("pointwise-datasheet", "pointwise/dark_current", 0.2),
)
_WIDTHS = tuple(
    Wish(suite=suite, axis=axis, rate=rate, icc=icc, width=width)
    for (suite, axis, width), (rate, icc) in product(
        _DESIGNS, ((0.3, 0.3), (0.1, 0.0), (0.1, 0.6), (0.5, 0.0), (0.5, 0.6))
    )
)
_DIFFERENCES = tuple(
    Wish(suite=suite, axis=axis, rate=rate, icc=icc, difference=difference)
    for (suite, axis), (rate, difference), icc in product(
        (("datasheet", "target_sensitivity/delta_1"), ("datasheet-paper", "dark_current")),
        ((0.5, 0.4), (0.1, 0.3)),
        (0.3, 0.0, 0.6),
    )
)


_SHORT = Wish(suite="datasheet-short", axis="dark_current", rate=0.3, icc=0.3)
QUICK = (replace(_SHORT, width=0.4), replace(_SHORT, difference=0.6))


def check_plan(size: SimulationSize, apply: Map) -> Sequence[DecisionCheck]:
    """Plan every wish and draw it; widths are met within a tenth, limits and judges found in about 80 % of runs."""
    widths, differences = (QUICK[:1], QUICK[1:]) if size.quick else (_WIDTHS, _DIFFERENCES)
    checks = [check for checks in apply(_drawn_widths, [(wish, size) for wish in widths]) for check in checks]
    return [*checks, *apply(_drawn_difference, [(wish, size) for wish in differences])]


def _drawn_widths(job: tuple[Wish, SimulationSize]) -> list[DecisionCheck]:
    wish, size = job
    planned, layout, n = wish.plan, wish.layout, max(100, size.n // 50)
    weight, sizes = layout.collapsed(planned.tasks)
    hits = weight * planned.spread.draw(layout, planned.tasks, n=n, rng=_rng(wish, size))
    ends = np.array([cluster_interval(each, sizes) for each in hits])
    widths: Array = (ends[:, 1] - ends[:, 0]) / wish.width
    off, error = abs(float(widths.mean()) - 1), float(widths.std()) / n**0.5
    # The smallest design allowed may be narrower than anybody asked.
    narrower = len(sizes) <= FEWEST_FOR_WIDTH and widths.mean() < 1
    beside = {"tasks": float(planned.tasks), "width": float(widths.mean() * wish.width)}
    decided = int((ends[:, 1] <= wish.rate + planned.detectable).sum())
    return [
        number_check("width off by", str(wish), off, error, n, at_most=None if narrower else OFF, beside=beside),
        share_check("limit decided", str(wish), decided, n, at_least=FEWEST_FOUND, beside={"at": planned.detectable}),
    ]


def _drawn_difference(job: tuple[Wish, SimulationSize]) -> DecisionCheck:
    wish, size = job
    planned, layout, n, rng = wish.plan, wish.layout, max(100, size.n // 50), _rng(wish, size)
    weight, sizes = layout.collapsed(planned.tasks)
    assert wish.difference is not None
    spreads = [planned.spread, Spread(rate=wish.rate + wish.difference, icc=wish.icc, repeat=planned.spread.repeat)]
    first, second = (spread.draw(layout, planned.tasks, n=n, rng=rng) for spread in spreads)
    told = 0
    for a, b in zip(first, second, strict=True):
        limit = share_limit(weight * a, weight * b, sizes)
        found = max_t((b - a)[:, None], limits=np.array([limit]), n_resamples=999, seed=int(rng.integers(2**32)))
        told += bool(found.p_adjusted[0] <= 0.05 and b.sum() > a.sum())
    beside = {"tasks": float(planned.tasks)}
    return share_check("told apart as planned", str(wish), told, n, at_least=FEWEST_FOUND, beside=beside)


def _rng(wish: Wish, size: SimulationSize) -> np.random.Generator:
    return np.random.default_rng([size.seed, zlib.crc32(str(wish).encode())])
