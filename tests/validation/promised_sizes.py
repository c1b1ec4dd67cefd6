"""Sizes that are promised, drawn anew: suites as large as `jrh.plan` says, and reading gaps that would be found.

Each plan is made on a built-in suite for a stated rate and intraclass correlation, and then drawn with them: how wide
are intervals, how often are limits and judges told?

A reading gap is of the size that datasheets of judges without one say they would find, on average.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import Any

import numpy as np

from jrh_mlflow.decisions.planning import Plan, axis_layout, plan
from jrh_mlflow.measuring.resolve import load_suite
from jrh_mlflow.stats import Array, power
from jrh_mlflow.stats.max_t import max_t, share_limit
from jrh_mlflow.stats.proportions import cluster_interval, newcombe, share_correlation
from tests.validation.loop import ALPHA, Batch, DecisionCheck, Simulation, decision_check, listed, task_rates

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
        planned = plan(
            self.suite,
            axis=self.axis,
            width=self.width,
            difference=self.difference,
            rate=self.rate,
            icc=self.icc,
        )
        assert isinstance(planned, Plan)
        return planned

    @property
    def layout(self) -> power.Layout:
        """What the suite asks of each task on the axis."""
        return axis_layout(load_suite(self.suite), self.axis)


_PLANS = (
    ("datasheet", "dark_current", 0.15),
    ("datasheet", "positional_false_preference", 0.3),
    ("datasheet-paper", "dark_current", 0.2),
    ("pointwise-datasheet", "pointwise/dark_current", 0.2),
)
_WIDTHS = tuple(
    Wish(suite=suite, axis=axis, rate=rate, icc=icc, width=width)
    for (suite, axis, width), (rate, icc) in product(
        _PLANS, ((0.3, 0.3), (0.1, 0.0), (0.1, 0.6), (0.5, 0.0), (0.5, 0.6))
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


def _drawn_ends(wish: Wish, batch: Batch) -> Iterator[tuple[float, float]]:
    """Per run: the interval of a suite of the planned size."""
    planned, layout = wish.plan, wish.layout
    weight, sizes = layout.collapsed(planned.tasks)
    hits = weight * planned.spread.draw(layout, planned.tasks, n=len(batch.runs), rng=batch.rng(wish))
    return (_cluster_interval(run, sizes) for run in hits)


def _cluster_interval(hits: Array, sizes: Array) -> tuple[float, float]:
    interval = cluster_interval(hits, sizes)
    assert interval is not None
    return interval


def _width_checks(wish: Wish, runs: Sequence[tuple[float, float]]) -> Iterator[DecisionCheck]:
    """Widths are met within a tenth, limits decided in about 80 % of runs."""
    planned, ends, n = wish.plan, np.array(runs), len(runs)
    _, sizes = wish.layout.collapsed(planned.tasks)
    assert wish.width is not None
    widths: Array = (ends[:, 1] - ends[:, 0]) / wish.width
    off, error = abs(float(widths.mean()) - 1), float(widths.std()) / n**0.5
    # The smallest design allowed may be narrower than anybody asked.
    narrower = len(sizes) <= power.FEWEST_FOR_WIDTH and widths.mean() < 1
    limit, beside = planned.detectable, {"tasks": float(planned.tasks), "width": float(widths.mean() * wish.width)}
    # A limit above the rate is decided by the upper end alone.
    decided = float((ends[:, 1] <= wish.rate + limit).mean())
    yield decision_check("width off by", wish, off, n, error=error, at_most=None if narrower else OFF, beside=beside)
    yield decision_check("limit decided", wish, decided, n, at_least=FEWEST_FOUND, beside={"at": limit})


def _drawn_difference(wish: Wish, batch: Batch) -> Iterator[bool]:
    """Per run: whether two judges that differ by the planned difference are told apart."""
    planned, layout, rng = wish.plan, wish.layout, batch.rng(wish)
    weight, sizes = layout.collapsed(planned.tasks)
    assert wish.difference is not None
    spreads = [
        planned.spread,
        power.Spread(rate=wish.rate + wish.difference, icc=wish.icc, repeat=planned.spread.repeat),
    ]
    first, second = (spread.draw(layout, planned.tasks, n=len(batch.runs), rng=rng) for spread in spreads)
    for a, b in zip(first, second, strict=True):
        limits = np.array([share_limit(weight * a, weight * b, sizes)])
        test = max_t((b - a)[:, None], limits=limits, n_resamples=999, seed=int(rng.integers(2**32)))
        yield bool(test.p_adjusted[0] <= ALPHA and b.sum() > a.sum())


def _difference_check(wish: Wish, runs: Sequence[bool]) -> Iterator[DecisionCheck]:
    beside = {"tasks": float(wish.plan.tasks)}
    share = sum(runs) / len(runs)
    yield decision_check("told apart as planned", wish, share, len(runs), at_least=FEWEST_FOUND, beside=beside)


_plans = partial(Simulation[Wish, Any], part=50, least=100)
_BY_WIDTH = listed(_WIDTHS, quick=[replace(_SHORT, width=0.4)])
_BY_DIFFERENCE = listed(_DIFFERENCES, quick=[replace(_SHORT, difference=0.6)])
PLANS = (
    _plans(worlds=_BY_WIDTH, ask=_drawn_ends, checks=_width_checks),
    _plans(worlds=_BY_DIFFERENCE, ask=_drawn_difference, checks=_difference_check),
)


# --- reading gaps that a datasheet would find

_LADDER_RATE = 0.7
"""Share of right choices around which gaps are drawn."""


@dataclass(frozen=True, kw_only=True, slots=True)
class GapTasks:
    """What is drawn."""

    n_tasks: int
    n_calls: int
    """Of a task on each of its two ladders."""
    icc: float

    def __str__(self) -> str:
        """Name tasks, calls and how calls of a task hang together."""
        return f"{self.n_tasks} tasks × {self.n_calls}, ICC {self.icc:g}"

    def interval(self, hits: Array) -> tuple[float, float]:
        """By task."""
        return _cluster_interval(np.asarray(hits, float), np.full(self.n_tasks, float(self.n_calls)))


_GAPS = tuple(GapTasks(n_tasks=28, n_calls=4, icc=icc) for icc in (0.0, 0.1, 0.3, 0.6))


def _gaps_found(design: GapTasks, batch: Batch) -> list[tuple[bool, bool, float]]:
    """Per run: whether a gap is found without one, whether one of the size that would be found, and this size."""
    without = _drawn_gaps(design, 0.0, batch)
    # The size that datasheets of unbiased judges tell, on average.
    size = float(np.mean([detectable for _, detectable in without]))
    biased = _drawn_gaps(design, size, batch)
    return [(false, right, size) for (false, _), (right, _) in zip(without, biased, strict=True)]


def _drawn_gaps(design: GapTasks, gap: float, batch: Batch) -> list[tuple[bool, float]]:
    """Per run: whether the interval of the gap excludes 0, and the size that it says would be found."""
    rng = batch.rng(f"{design}, gap {gap:g}")
    # One draw of each task for both ladders: a task that is hard on one is hard on the other.
    task = rng.random((len(batch.runs), design.n_tasks))
    ladder, matched = (
        rng.binomial(design.n_calls, task_rates(task, rate, design.icc)).astype(float)
        for rate in (_LADDER_RATE + gap / 2, _LADDER_RATE - gap / 2)
    )
    return [_gap(a, b, design) for a, b in zip(ladder, matched, strict=True)]


def _gap(ladder: Array, matched: Array, design: GapTasks) -> tuple[bool, float]:
    sizes = np.full(design.n_tasks, float(design.n_calls))
    total = sizes.sum()
    together = share_correlation(matched, sizes, ladder, sizes)
    first, second = matched.sum() / total, ladder.sum() / total
    low, high = newcombe(first, design.interval(matched), second, design.interval(ladder), correlation=together)
    return not low <= 0 <= high, power.detectable_from_interval(second - first, low, high)


def _gap_checks(design: GapTasks, runs: Sequence[tuple[bool, bool, float]]) -> Iterator[DecisionCheck]:
    falsely, rightly, _ = (float(share) for share in np.mean(runs, axis=0))
    beside, n = {"size": runs[0][2]}, len(runs)
    yield decision_check("gap found where there is none", design, falsely, n, at_most=ALPHA)
    yield decision_check("gap found", design, rightly, n, at_least=power.POWER, beside=beside)


GAPS = Simulation(worlds=listed(_GAPS, quick=_GAPS[2:3]), ask=_gaps_found, checks=_gap_checks, part=10, least=60)
