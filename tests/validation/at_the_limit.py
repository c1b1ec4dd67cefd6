"""Gates on a judge's rule exactly at its limit: how often are they decided wrongly?

At the limit itself `x <= limit` is true and `fails` is wrong; a hair above it `holds` is. Both shares must stay at 5 %,
however the calls of a task hang together. Rules about an axis are weighed exactly where a design has few outcomes
(`coverage.py`), else drawn; units are calls or pairs, whichever the axis counts. Differences to a baseline are drawn
with judges whose rates go together over the tasks, apart, or against one another.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from scipy.stats import norm

from jrh_mlflow.decisions.gate import look_level
from jrh_mlflow.measures.rules import parse_rule, share_ends
from jrh_mlflow.schema.estimates import Estimate
from jrh_mlflow.scoring.ledger import Units, deciding_ends, share, without_losses
from jrh_mlflow.stats import Array, Mask
from jrh_mlflow.stats.proportions import cluster_interval
from tests.validation.coverage import ICCS, JUDGED, IntervalCell, cells, count_table, interval_ends, truths
from tests.validation.loop import (
    ALPHA,
    Batch,
    DecisionCheck,
    Map,
    Rng,
    Simulation,
    SimulationSize,
    decision_check,
    listed,
    task_rates,
)

LIMITS = (0.02, 0.05, 0.1, 0.2, 0.3, 0.5)
"""Of rules; those over ½ are their mirror."""
FINE_LIMITS: tuple[float, ...] = (*LIMITS, *np.round([*np.geomspace(0.021, 0.1, 24), *np.linspace(0.11, 0.49, 39)], 4))
"""Where nothing is drawn: counts come in steps, and the worst limits lie just beyond one."""
_DESIGNS = ((10, 2), (30, 2), (10, 4), (20, 4), (10, 12), (30, 12))
"""Tasks and units of a task."""


def check_axis_rules(size: SimulationSize, apply: Map) -> list[DecisionCheck]:
    """Weigh rules about an axis in every design."""
    designs = _DESIGNS[:1] if size.quick else _DESIGNS
    return [check for design in designs for check in _axis_checks(*design, size, apply)]


def _axis_checks(n_tasks: int, n_units: int, size: SimulationSize, apply: Map) -> Iterator[DecisionCheck]:
    """Return for each ICC the limit and shape at which a rule about an axis is decided wrongly most often."""
    table = count_table(n_tasks, n_units, draws=max(1, size.n // 50), seed=size.seed)
    ends = interval_ends(table, apply=apply)
    # Where all histograms are known a further limit costs nothing; drawn ones are scored at few.
    limits = LIMITS if table.n_draws else FINE_LIMITS
    judged = [cell for cell in cells(table, ends, under=truths(limits)) if cell.truth.shape in JUDGED]
    how = f"{'drawn' if table.n_draws else 'exact'}, the worst of {len(limits)} limits"
    for icc in ICCS:
        worst = max((cell for cell in judged if cell.truth.icc == icc), key=_wrong)
        at = f"limit {worst.truth.rate:g}, ICC {icc:g}, {worst.truth.shape} ({how})"
        yield decision_check(
            "axis decided wrongly at the limit",
            f"{n_tasks} tasks × {n_units}, {at}",
            _wrong(worst),
            table.n_draws or len(table.histograms),
            error=worst.new.error,
            at_most=ALPHA,
            beside={"holds": worst.new.too_low, "fails": worst.new.too_high},
        )


def _wrong(cell: IntervalCell) -> float:
    return max(cell.new.too_low, cell.new.too_high)


@dataclass(frozen=True, kw_only=True, slots=True)
class AtTheLimit:
    """A judge and a baseline whose true difference is the limit."""

    rate: float
    baseline: float
    n_tasks: int
    iccs: tuple[float, float]
    """Of the judge and of the baseline."""
    together: int = 0
    """Whether the tasks that are hard for one are hard for the other: 1 always, 0 as it happens, -1 never."""
    n_units: int = 6

    def __str__(self) -> str:
        """Name rates, tasks and how they hang together."""
        iccs = " and ".join(f"{icc:g}" for icc in dict.fromkeys(self.iccs))
        tasks = {-1: "opposite tasks", 0: "other tasks", 1: "the same tasks"}[self.together]
        rates = f"{self.rate:g} against {self.baseline:g}"
        return f"{rates}, {self.n_tasks} tasks × {self.n_units}, ICC {iccs}, hard on {tasks}"

    def drawn(self, rng: Rng, n: int) -> tuple[Array, Array]:
        """Draw hits by run and task, of the judge and of the baseline."""
        normal = rng.standard_normal((n, self.n_tasks))
        other = self.together * normal if self.together else rng.standard_normal((n, self.n_tasks))
        worlds = zip((self.rate, self.baseline), self.iccs, (normal, other), strict=True)
        judge, baseline = (
            rng.binomial(self.n_units, task_rates(norm.cdf(hardness), rate, icc)).astype(float)
            for rate, icc, hardness in worlds
        )
        return judge, baseline


_PAIRS = tuple(
    AtTheLimit(rate=rate, baseline=baseline, n_tasks=tasks, iccs=iccs, together=together)
    for (rate, baseline), tasks, (iccs, together) in product(
        ((0.1, 0.1), (0.5, 0.5), (0.6, 0.9)),
        (10, 28),
        (((0, 0), 0), ((0.3, 0.3), 1), ((0.6, 0.6), 0), ((0.6, 0.6), -1), ((0.6, 0), 0)),
    )
)


def _decided(pair: AtTheLimit, batch: Batch) -> Iterator[list[bool]]:
    """Per run: whether the rule is said to hold, and to fail."""
    # To the last digit, a difference that is the limit on paper may be over it.
    rules = [parse_rule(f"x - baseline <= {pair.rate - pair.baseline + hair!r}") for hair in (-1e-9, 1e-9)]
    sizes = np.full(pair.n_tasks, float(pair.n_units))
    for judge, baseline in zip(*pair.drawn(batch.rng(pair), len(batch.runs)), strict=True):
        ends = share_ends([(judge, sizes), (baseline, sizes)])
        assert ends is not None
        yield [rules[0].decide(*ends) == "holds", rules[1].decide(*ends) == "fails"]


def _difference_check(pair: AtTheLimit, states: Sequence[list[bool]]) -> Iterator[DecisionCheck]:
    holds, fails = (float(share) for share in np.mean(states, axis=0))
    name = "difference to a baseline decided wrongly at the limit"
    beside = {"holds": holds, "fails": fails}
    yield decision_check(name, pair, max(holds, fails), len(states), at_most=ALPHA, beside=beside)


BASELINES = Simulation(
    worlds=listed(_PAIRS, quick=_PAIRS[-1:]), ask=_decided, checks=_difference_check, part=10, batch=50
)


# --- lost calls, and gates that are asked again


@dataclass(frozen=True, kw_only=True, slots=True)
class Losing:
    """A judge at its limit that loses its hits more often than other calls."""

    rate: float
    lost: tuple[float, float]
    """Share of the hits that are lost, and of the others."""
    n_tasks: int
    n_units: int = 4

    def __str__(self) -> str:
        """Name rate, losses and tasks."""
        lost = f"hits lost {self.lost[0]:g}, others {self.lost[1]:g}"
        return f"rate {self.rate:g}, {lost}, {self.n_tasks} tasks × {self.n_units}"

    def drawn(self, rng: Rng) -> tuple[Mask, Mask]:
        """Draw which calls are hits, and which gave a usable answer."""
        hits = rng.random(self.n_tasks * self.n_units) < self.rate
        return hits, rng.random(len(hits)) >= np.where(hits, *self.lost)


LOSING = (
    Losing(rate=0.1, lost=(0.25, 0.02), n_tasks=200),
    # Just as many as may be lost before the number is withheld.
    Losing(rate=0.05, lost=(0.99, 0.0), n_tasks=100),
    Losing(rate=0.2, lost=(0.1, 0.02), n_tasks=100),
)


def _with_losses(world: Losing, batch: Batch) -> Iterator[list[bool]]:
    """Per run: whether the rule is said to hold, and whether it would by the answers that came; withheld, neither."""
    rng, rule = batch.rng(world), parse_rule(f"x <= {world.rate - 1e-9!r}")
    for _ in batch.runs:
        hits, usable = world.drawn(rng)
        units = Units(
            what="calls",
            unit="call",
            usable=usable,
            clusters=np.repeat(np.arange(world.n_tasks), world.n_units),
            n_codes=world.n_tasks,
            left_out={"error": int((~usable).sum())},
        )
        reading = share(units, hits)
        read = [reading, without_losses(reading)] if isinstance(reading, Estimate) else []
        yield [rule.decide(*deciding_ends(one)) == "holds" for one in read] or [False, False]


def _losses_check(world: Losing, runs: Sequence[list[bool]]) -> Iterator[DecisionCheck]:
    holds, alone = (float(part) for part in np.mean(runs, axis=0))
    beside = {"by the answers that came": alone}
    yield decision_check("holds at the limit with lost calls", world, holds, len(runs), at_most=ALPHA, beside=beside)


@dataclass(frozen=True, kw_only=True, slots=True)
class AskedAgain:
    """A judge at its limit that is gated on more and more tasks."""

    rate: float
    icc: float
    looks: tuple[int, ...] = (20, 40, 60, 80, 100)
    n_units: int = 4

    def __str__(self) -> str:
        """Name rate and looks."""
        tasks = ", ".join(map(str, self.looks))
        return f"rate {self.rate:g}, ICC {self.icc:g}, {len(self.looks)} looks at {tasks} tasks × {self.n_units}"


ASKED_AGAIN = tuple(AskedAgain(rate=rate, icc=icc) for rate, icc in product((0.1, 0.3, 0.5), (0.0, 0.3, 0.6)))


def _asked_again(world: AskedAgain, batch: Batch) -> Iterator[list[bool]]:
    """Per run: whether any look says holds, any fails; then the same with every look at 95 %."""
    rng, rules = batch.rng(world), [parse_rule(f"x <= {world.rate + hair!r}") for hair in (-1e-9, 1e-9)]
    for _ in batch.runs:
        rates = task_rates(rng.random(world.looks[-1]), world.rate, world.icc)
        hits, sizes = rng.binomial(world.n_units, rates).astype(float), np.full(world.looks[-1], float(world.n_units))
        said = [
            [
                rule.decide(*(cluster_interval(hits[:n], sizes[:n], level=level) or (None, None))) == state
                for rule, state in zip(rules, ("holds", "fails"), strict=True)
                for level in (look_level(look), 0.95)
            ]
            for look, n in enumerate(world.looks, 1)
        ]
        yield np.any(said, axis=0).tolist()


def _again_check(world: AskedAgain, runs: Sequence[list[bool]]) -> Iterator[DecisionCheck]:
    holds, plain_holds, fails, plain_fails = (float(part) for part in np.mean(runs, axis=0))
    beside = {"holds": holds, "fails": fails, "at 95 % each time": max(plain_holds, plain_fails)}
    name = "decided wrongly at any of several looks"
    yield decision_check(name, world, max(holds, fails), len(runs), at_most=ALPHA, beside=beside)


LOSSES = Simulation(worlds=listed(LOSING, quick=LOSING[2:]), ask=_with_losses, checks=_losses_check, part=10, batch=50)
LOOKS = Simulation(
    worlds=listed(ASKED_AGAIN, quick=ASKED_AGAIN[:1]), ask=_asked_again, checks=_again_check, part=10, batch=50
)

GATES = (check_axis_rules, BASELINES, LOSSES, LOOKS)
