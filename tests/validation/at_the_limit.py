"""Gates exactly at the limit of a rule: how often is a judge decided wrongly?

At the limit itself `x <= limit` is true and `fails` is wrong; a hair above it `holds` is. Both
shares must stay at 5 %, however the calls of a task hang together. Rules about an axis are weighed
exactly where a design has few outcomes (`coverage.py`), else drawn; units are calls or pairs,
whichever the axis counts. Differences to a baseline are drawn with judges whose rates go together
over the tasks, apart, or against one another. Then judges that lose their hits, and gates that are
asked again.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np
import pandas as pd
from scipy.stats import norm

from jrh_mlflow.decisions.gate import look_level
from jrh_mlflow.measures.rules import parse_rule, share_ends
from jrh_mlflow.schema.estimates import Estimate
from jrh_mlflow.scoring.ledger import Units, deciding_ends, share, without_losses
from jrh_mlflow.stats.proportions import cluster_interval
from tests.validation.coverage import ICCS, cells, count_table, interval_ends, truths
from tests.validation.loop import ALPHA, Simulation, check_share, task_rates

LIMITS = (0.02, 0.05, 0.1, 0.2, 0.3, 0.5)
"""Of rules; those over ½ are their mirror."""
FINE_LIMITS = (*LIMITS, *np.round([*np.geomspace(0.021, 0.1, 24), *np.linspace(0.11, 0.49, 39)], 4))
"""Where nothing is drawn: counts come in steps, and the worst limits lie just beyond one."""
_DESIGNS = ((10, 2), (30, 2), (10, 4), (20, 4), (10, 12), (30, 12))
"""Tasks and units of a task."""
_HAIR = 1e-9
"""To the last digit, a reading that is the limit on paper may be over it."""


def _rules(text, limit):
    """Return the rule that is wrongly decided by `fails`, and the one by `holds`."""
    return parse_rule(f"{text} <= {limit + _HAIR!r}"), parse_rule(f"{text} <= {limit - _HAIR!r}")


def check_axis_rules(size, apply):
    """Return for each design and ICC the limit at which an axis is decided wrongly most often."""
    rows = []
    for n_tasks, n_units in _DESIGNS[:1] if size.quick else _DESIGNS:
        table = count_table(n_tasks, n_units, draws=max(1, size.n // 50), seed=size.seed)
        ends = interval_ends(table, apply=apply)
        # Where all histograms are known a further limit costs nothing; drawn ones have few.
        limits = LIMITS if table.n_draws else FINE_LIMITS
        judged = [cell for cell in cells(table, ends, under=truths(limits)) if cell.judged]
        how = f"{'drawn' if table.n_draws else 'exact'}, the worst of {len(limits)} limits"
        for icc in ICCS:
            worst = max((cell for cell in judged if cell.icc == icc), key=_wrong)
            at = f"limit {worst.rate:g}, ICC {icc:g}, {worst.shape} ({how})"
            shares = {"wrong": _wrong(worst), "holds": worst.too_low, "fails": worst.too_high}
            rows.append(
                check_share(
                    "axis decided wrongly at the limit",
                    f"{n_tasks} tasks × {n_units}, {at}",
                    pd.DataFrame([shares]),
                    "wrong",
                    error=worst.error,
                    at_most=ALPHA,
                    beside=("holds", "fails"),
                    n=table.n_draws or len(table.histograms),
                )
            )
    return rows


def _wrong(cell):
    return max(cell.too_low, cell.too_high)


def _wrongly_decided(name, world, runs, *, beside=()):
    """Check the likelier of the two mistakes."""
    worse = "holds" if runs["holds"].mean() > runs["fails"].mean() else "fails"
    return check_share(name, world, runs, worse, at_most=ALPHA, beside=("holds", "fails", *beside))


@dataclass(frozen=True, kw_only=True)
class AtTheLimit:
    """A judge and a baseline whose true difference is the limit."""

    rate: float
    baseline: float
    n_tasks: int
    iccs: tuple[float, float]
    """Of the judge and of the baseline."""
    together: int = 0
    """Whether the tasks that are hard for both are the same: 1 always, 0 by chance, -1 never."""
    n_units: int = 6

    def __str__(self):
        iccs = " and ".join(f"{icc:g}" for icc in dict.fromkeys(self.iccs))
        tasks = {-1: "opposite tasks", 0: "other tasks", 1: "the same tasks"}[self.together]
        rates = f"{self.rate:g} against {self.baseline:g}"
        return f"{rates}, {self.n_tasks} tasks × {self.n_units}, ICC {iccs}, hard on {tasks}"

    def drawn(self, rng, n):
        """Draw hits by run and task, of the judge and of the baseline."""
        normal = rng.standard_normal((n, self.n_tasks))
        other = self.together * normal
        if not self.together:
            other = rng.standard_normal((n, self.n_tasks))
        return (
            self._hits(rng, self.rate, self.iccs[0], normal),
            self._hits(rng, self.baseline, self.iccs[1], other),
        )

    def _hits(self, rng, rate, icc, hardness):
        rates = task_rates(norm.cdf(hardness), rate, icc)
        return rng.binomial(self.n_units, rates).astype(float)


_PAIRS = tuple(
    AtTheLimit(rate=rate, baseline=baseline, n_tasks=tasks, iccs=iccs, together=together)
    for (rate, baseline), tasks, (iccs, together) in product(
        ((0.1, 0.1), (0.5, 0.5), (0.6, 0.9)),
        (10, 28),
        (((0, 0), 0), ((0.3, 0.3), 1), ((0.6, 0.6), 0), ((0.6, 0.6), -1), ((0.6, 0), 0)),
    )
)


def _decide_differences(pair, batch):
    at_limit, above = _rules("x - baseline", pair.rate - pair.baseline)
    sizes = np.full(pair.n_tasks, float(pair.n_units))
    for judge, baseline in zip(*pair.drawn(batch.rng(pair), len(batch.runs)), strict=True):
        ends = share_ends([(judge, sizes), (baseline, sizes)])
        yield {
            "holds": above.decide(*ends) == "holds",
            "fails": at_limit.decide(*ends) == "fails",
        }


def _difference_checks(pair, runs):
    yield _wrongly_decided("difference to a baseline decided wrongly at the limit", pair, runs)


# --- lost calls, and gates that are asked again


@dataclass(frozen=True, kw_only=True)
class Losing:
    """A judge at its limit that loses its hits more often than other calls."""

    rate: float
    lost: tuple[float, float]
    """Share of the hits that are lost, and of the others."""
    n_tasks: int
    n_units: int = 4

    def __str__(self):
        lost = f"hits lost {self.lost[0]:g}, others {self.lost[1]:g}"
        return f"rate {self.rate:g}, {lost}, {self.n_tasks} tasks × {self.n_units}"

    def reading(self, rng):
        """Draw which calls are hits and which were lost, and return the share of hits."""
        hits = rng.random(self.n_tasks * self.n_units) < self.rate
        usable = rng.random(len(hits)) >= np.where(hits, *self.lost)
        units = Units(
            what="calls",
            unit="call",
            usable=usable,
            clusters=np.repeat(np.arange(self.n_tasks), self.n_units),
            n_codes=self.n_tasks,
            left_out={"error": int((~usable).sum())},
        )
        return share(units, hits)


LOSING = (
    Losing(rate=0.1, lost=(0.25, 0.02), n_tasks=200),
    # Just as many as may be lost before the number is withheld.
    Losing(rate=0.05, lost=(0.99, 0.0), n_tasks=100),
    Losing(rate=0.2, lost=(0.1, 0.02), n_tasks=100),
)


def _decide_with_losses(world, batch):
    rng = batch.rng(world)
    _, above = _rules("x", world.rate)
    for _ in batch.runs:
        run = {"holds": False, "by the answers that came": False}
        reading = world.reading(rng)
        # A reading that is withheld holds nothing.
        if isinstance(reading, Estimate):
            without = deciding_ends(without_losses(reading))
            run["holds"] = above.decide(*deciding_ends(reading)) == "holds"
            run["by the answers that came"] = above.decide(*without) == "holds"
        yield run


def _losses_checks(world, runs):
    name = "holds at the limit with lost calls"
    beside = ("by the answers that came",)
    yield check_share(name, world, runs, "holds", at_most=ALPHA, beside=beside)


@dataclass(frozen=True, kw_only=True)
class AskedAgain:
    """A judge at its limit that is gated on more and more tasks."""

    rate: float
    icc: float
    looks: tuple[int, ...] = (20, 40, 60, 80, 100)
    n_units: int = 4

    def __str__(self):
        tasks = ", ".join(map(str, self.looks))
        looks = f"{len(self.looks)} looks at {tasks} tasks × {self.n_units}"
        return f"rate {self.rate:g}, ICC {self.icc:g}, {looks}"


ASKED_AGAIN = tuple(
    AskedAgain(rate=rate, icc=icc) for rate, icc in product((0.1, 0.3, 0.5), (0.0, 0.3, 0.6))
)


def _decide_at_looks(world, batch):
    """Per run: whether any look says holds, and any fails, as decided and with 95 % each time."""
    rng = batch.rng(world)
    at_limit, above = _rules("x", world.rate)
    sizes = np.full(world.looks[-1], float(world.n_units))
    for _ in batch.runs:
        rates = task_rates(rng.random(world.looks[-1]), world.rate, world.icc)
        hits = rng.binomial(world.n_units, rates).astype(float)
        run = dict.fromkeys(("holds", "fails", *_PLAIN_LOOKS), False)
        for look, n in enumerate(world.looks, 1):
            ends = cluster_interval(hits[:n], sizes[:n], level=look_level(look))
            plain = cluster_interval(hits[:n], sizes[:n], level=0.95)
            run["holds"] |= above.decide(*ends) == "holds"
            run["fails"] |= at_limit.decide(*ends) == "fails"
            run["holds at 95 % each time"] |= above.decide(*plain) == "holds"
            run["fails at 95 % each time"] |= at_limit.decide(*plain) == "fails"
        yield run


_PLAIN_LOOKS = ("holds at 95 % each time", "fails at 95 % each time")


def _looks_checks(world, runs):
    name = "decided wrongly at any of several looks"
    yield _wrongly_decided(name, world, runs, beside=_PLAIN_LOOKS)


BASELINES = Simulation(
    worlds=_PAIRS,
    quick=_PAIRS[-1:],
    run=_decide_differences,
    checks=_difference_checks,
    part=10,
    batch=50,
)
LOSSES = Simulation(
    worlds=LOSING,
    quick=LOSING[2:],
    run=_decide_with_losses,
    checks=_losses_checks,
    part=10,
    batch=50,
)
LOOKS = Simulation(
    worlds=ASKED_AGAIN,
    quick=ASKED_AGAIN[:1],
    run=_decide_at_looks,
    checks=_looks_checks,
    part=10,
    batch=50,
)
SIMULATIONS = (check_axis_rules, BASELINES, LOSSES, LOOKS)
