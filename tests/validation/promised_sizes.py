"""Sizes that are promised, drawn anew: suites as large as `jrh.plan` says, and reading gaps.

Each plan is made on a built-in suite for a stated rate and intraclass correlation, and then drawn
with them: how wide are intervals, how often are limits decided and judges told apart? A reading
gap is of the size that datasheets of judges without one say they would find, on average.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import product

import numpy as np

from jrh_mlflow.decisions.planning import axis_layout, plan
from jrh_mlflow.measuring.resolve import load_suite
from jrh_mlflow.stats import power
from jrh_mlflow.stats.max_t import max_t, share_limit
from jrh_mlflow.stats.proportions import cluster_interval, newcombe, share_correlation
from tests.validation.loop import ALPHA, Simulation, check_share, task_rates

OFF = 0.1
"""Most by which a mean width may miss the one that was planned, as a part of it."""
FEWEST_FOUND = 0.75
"""Least share in which what was planned to be found with a chance of 80 % is found."""


@dataclass(frozen=True, kw_only=True)
class Wish:
    """What is planned."""

    suite: str
    axis: str
    rate: float
    icc: float
    width: float | None = None
    difference: float | None = None

    def __str__(self):
        wish = f"difference {self.difference:g}" if self.width is None else f"width {self.width:g}"
        return f"{self.suite}, {self.axis}, rate {self.rate:g}, ICC {self.icc:g}, {wish}"

    @cached_property
    def plan(self):
        """The plan for it."""
        size = {"width": self.width, "difference": self.difference}
        return plan(self.suite, axis=self.axis, rate=self.rate, icc=self.icc, **size)

    @cached_property
    def layout(self):
        """What the suite asks of each task on the axis."""
        return axis_layout(load_suite(self.suite), self.axis)

    def drawn(self, spread, *, n, rng):
        """Draw hits by run and task on a suite of the planned size."""
        return spread.draw(self.layout, self.plan.tasks, n=n, rng=rng)

    @cached_property
    def units(self):
        """Weight of a hit, and the units of each task."""
        return self.layout.collapsed(self.plan.tasks)


_WIDTHS = tuple(
    Wish(suite=suite, axis=axis, rate=rate, icc=icc, width=width)
    for (suite, axis, width), (rate, icc) in product(
        (
            ("datasheet", "dark_current", 0.15),
            ("datasheet", "positional_false_preference", 0.3),
            ("datasheet-paper", "dark_current", 0.2),
            ("pointwise-datasheet", "pointwise/dark_current", 0.2),
        ),
        ((0.3, 0.3), (0.1, 0.0), (0.1, 0.6), (0.5, 0.0), (0.5, 0.6)),
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


def _run_widths(wish, batch):
    """Per run: the interval of a suite of the planned size."""
    limit = wish.rate + wish.plan.detectable
    weight, sizes = wish.units
    for hits in wish.drawn(wish.plan.spread, n=len(batch.runs), rng=batch.rng(wish)):
        low, high = cluster_interval(weight * hits, sizes)
        # A limit above the rate is decided by the upper end alone.
        yield {"width": high - low, "decided": high <= limit}


def _width_checks(wish, runs):
    """Widths are met within a tenth, limits decided in about 80 % of runs."""
    runs["tasks"] = wish.plan.tasks
    runs["at"] = wish.plan.detectable
    widths = runs["width"] / wish.width
    runs["off"] = abs(widths.mean() - 1)
    # The smallest design allowed may be narrower than anybody asked.
    narrower = len(wish.units[1]) <= power.FEWEST_FOR_WIDTH and widths.mean() < 1
    yield check_share(
        "width off by",
        wish,
        runs,
        "off",
        error=float(widths.std(ddof=0)) / len(runs) ** 0.5,
        at_most=None if narrower else OFF,
        beside=("tasks", "width"),
    )
    yield check_share("limit decided", wish, runs, "decided", at_least=FEWEST_FOUND, beside=("at",))


def _run_differences(wish, batch):
    """Per run: whether two judges that differ by the planned difference are told apart."""
    rng = batch.rng(wish)
    weight, sizes = wish.units
    other = replace(wish.plan.spread, rate=wish.rate + wish.difference)
    n = len(batch.runs)
    first = wish.drawn(wish.plan.spread, n=n, rng=rng)
    second = wish.drawn(other, n=n, rng=rng)
    for a, b in zip(first, second, strict=True):
        limits = np.array([share_limit(weight * a, weight * b, sizes)])
        seed = int(rng.integers(2**32))
        test = max_t((b - a)[:, None], limits=limits, n_resamples=999, seed=seed)
        yield {"told apart": test.p_adjusted[0] <= ALPHA and b.sum() > a.sum()}


def _difference_checks(wish, runs):
    runs["tasks"] = wish.plan.tasks
    name = "told apart as planned"
    yield check_share(name, wish, runs, "told apart", at_least=FEWEST_FOUND, beside=("tasks",))


_plans = partial(Simulation, part=50, least=100)
WIDTHS = _plans(
    worlds=_WIDTHS, quick=[replace(_SHORT, width=0.4)], run=_run_widths, checks=_width_checks
)
DIFFERENCES = _plans(
    worlds=_DIFFERENCES,
    quick=[replace(_SHORT, difference=0.6)],
    run=_run_differences,
    checks=_difference_checks,
)


# --- reading gaps that a datasheet would find

_LADDER_RATE = 0.7
"""Share of right choices around which gaps are drawn."""


@dataclass(frozen=True, kw_only=True)
class GapTasks:
    """What is drawn."""

    n_tasks: int
    n_calls: int
    """Of a task on each of its two ladders."""
    icc: float

    def __str__(self):
        return f"{self.n_tasks} tasks × {self.n_calls}, ICC {self.icc:g}"

    def readings(self, gap, batch):
        """Per run: whether a gap is found, and the size that would be."""
        rng = batch.rng(f"{self}, gap {gap:g}")
        # One draw of each task for both ladders: a task that is hard on one is hard on the other.
        task = rng.random((len(batch.runs), self.n_tasks))
        ladder, matched = (
            rng.binomial(self.n_calls, task_rates(task, rate, self.icc)).astype(float)
            for rate in (_LADDER_RATE + gap / 2, _LADDER_RATE - gap / 2)
        )
        return [self._reading(*hits) for hits in zip(ladder, matched, strict=True)]

    def _reading(self, ladder, matched):
        sizes = np.full(self.n_tasks, float(self.n_calls))
        first = matched.sum() / sizes.sum()
        second = ladder.sum() / sizes.sum()
        low, high = newcombe(
            first,
            cluster_interval(matched, sizes),
            second,
            cluster_interval(ladder, sizes),
            correlation=share_correlation(matched, sizes, ladder, sizes),
        )
        found = not low <= 0 <= high
        return found, power.detectable_from_interval(second - first, low, high)


_GAPS = tuple(GapTasks(n_tasks=28, n_calls=4, icc=icc) for icc in (0.0, 0.1, 0.3, 0.6))


def _run_gaps(design, batch):
    """Per run: whether a gap is found without one, and one of the size that would be found."""
    without = design.readings(0.0, batch)
    # The size that datasheets of unbiased judges state, on average.
    size = float(np.mean([detectable for _, detectable in without]))
    biased = design.readings(size, batch)
    for (falsely, _), (rightly, _) in zip(without, biased, strict=True):
        yield {"falsely": falsely, "rightly": rightly, "size": size}


def _gap_checks(design, runs):
    yield check_share("gap found where there is none", design, runs, "falsely", at_most=ALPHA)
    found = {"at_least": power.POWER, "beside": ("size",)}
    yield check_share("gap found", design, runs, "rightly", **found)


GAPS = Simulation(
    worlds=_GAPS, quick=_GAPS[2:3], run=_run_gaps, checks=_gap_checks, part=10, least=60
)
SIMULATIONS = (WIDTHS, DIFFERENCES, GAPS)
