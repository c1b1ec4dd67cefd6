"""Judges exactly at the limit of a rule: how often a gate says that the rule holds, and how often that it fails.

At the limit itself `x <= limit` is true and `fails` is wrong; a hair above it `holds` is. Both shares must stay at 5 %,
however the calls of a task hang together. Rules about an axis are weighed exactly where a design has few outcomes
(`stats.coverage`), else drawn; units are calls or pairs, whichever the axis counts. Differences to a baseline are drawn
with judges whose rates go together over the tasks, apart, or against one another.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from scipy import stats

from jrh_mlflow.decisions.axis_readings import share_ends
from jrh_mlflow.measures.rules import decide, parse_rule
from jrh_mlflow.simulations.coverage import ICCS, JUDGED, Cell, cells, count_table, interval_ends, truths
from jrh_mlflow.simulations.decision_checks import DecisionCheck, SimulationSize, number_check, share_check
from jrh_mlflow.simulations.validate import Map
from jrh_mlflow.stats import Array

ALPHA = 0.05
LIMITS = (0.02, 0.05, 0.1, 0.2, 0.3, 0.5)
"""Of rules; those over ½ are their mirror."""
FINE_LIMITS: tuple[float, ...] = (*LIMITS, *np.round([*np.geomspace(0.021, 0.1, 24), *np.linspace(0.11, 0.49, 39)], 4))
"""Where nothing is drawn: counts come in steps, and the worst limits lie just beyond one."""
_DESIGNS = ((10, 2), (30, 2), (10, 4), (20, 4), (10, 12), (30, 12))
"""Tasks and units of a task."""
_CHUNK = 50
"""Runs that one process draws one after the other."""


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

    def drawn(self, rng: np.random.Generator, n: int) -> tuple[Array, Array]:
        """Draw hits by run and task, of the judge and of the baseline."""
        normal = rng.standard_normal((n, self.n_tasks))
        other = self.together * normal if self.together else rng.standard_normal((n, self.n_tasks))
        pairs = zip((self.rate, self.baseline), self.iccs, (normal, other), strict=True)
        one, two = (rng.binomial(self.n_units, _task_rates(*each)).astype(float) for each in pairs)
        return one, two


def check_gate(size: SimulationSize, apply: Map) -> Sequence[DecisionCheck]:
    """Weigh rules about an axis, and draw rules about a difference."""
    designs, pairs = (_DESIGNS[:1], _PAIRS[-1:]) if size.quick else (_DESIGNS, _PAIRS)
    found = [check for design in designs for check in _axis_checks(*design, size, apply)]
    n = max(1, size.n // 10)
    sizes = [min(_CHUNK, n - start) for start in range(0, n, _CHUNK)]
    jobs = [(pair, [size.seed, at], length) for pair in pairs for at, length in enumerate(sizes)]
    states = list(apply(_decided, jobs))
    for pair, start in zip(pairs, range(0, len(states), len(sizes)), strict=True):
        found.append(_difference_check(pair, np.concatenate(states[start : start + len(sizes)])))
    return found


_PAIRS = tuple(
    AtTheLimit(rate=rate, baseline=baseline, n_tasks=tasks, iccs=iccs, together=together)
    for (rate, baseline), tasks, (iccs, together) in product(
        ((0.1, 0.1), (0.5, 0.5), (0.6, 0.9)),
        (10, 28),
        (((0, 0), 0), ((0.3, 0.3), 1), ((0.6, 0.6), 0), ((0.6, 0.6), -1), ((0.6, 0), 0)),
    )
)


def _axis_checks(n_tasks: int, n_units: int, size: SimulationSize, apply: Map) -> Iterable[DecisionCheck]:
    """Return for each ICC the limit and shape at which a rule about an axis is decided wrongly most often."""
    table = count_table(n_tasks, n_units, draws=max(1, size.n // 50), seed=size.seed)
    ends = interval_ends(table, apply=apply)
    limits = LIMITS if table.n_draws else FINE_LIMITS
    judged = [cell for cell in cells(table, ends, under=truths(limits)) if cell.truth.shape in JUDGED]
    how = f"{'drawn' if table.n_draws else 'exact'}, the worst of {len(limits)} limits"
    for icc in ICCS:
        worst = max((cell for cell in judged if cell.truth.icc == icc), key=_wrong)
        at = f"limit {worst.truth.rate:g}, ICC {icc:g}, {worst.truth.shape} ({how})"
        yield number_check(
            "axis decided wrongly at the limit",
            f"{n_tasks} tasks × {n_units}, {at}",
            _wrong(worst),
            worst.new.error,
            table.n_draws or len(table.histograms),
            at_most=ALPHA,
            beside={"holds": worst.new.too_low, "fails": worst.new.too_high},
        )


def _wrong(cell: Cell) -> float:
    return max(cell.new.too_low, cell.new.too_high)


def _task_rates(rate: float, icc: float, normal: Array) -> Array:
    """Return beta rates of tasks that rise with a normal variable."""
    if not icc:
        return np.full(normal.shape, rate)
    scale = (1 - icc) / icc
    return np.asarray(stats.beta.ppf(stats.norm.cdf(normal), rate * scale, (1 - rate) * scale))


def _decided(job: tuple[AtTheLimit, Sequence[int], int]) -> Array:
    """Per run: whether the rule is said to hold, and to fail."""
    pair, seed, length = job
    rng = np.random.default_rng([*seed, zlib.crc32(str(pair).encode())])
    # To the last digit, a difference that is the limit on paper may be over it.
    rules = [parse_rule(f"x - baseline <= {pair.rate - pair.baseline + hair!r}") for hair in (-1e-9, 1e-9)]
    sizes, found = np.full(pair.n_tasks, float(pair.n_units)), np.zeros((length, 2), dtype=bool)
    for run, (judge, baseline) in enumerate(zip(*pair.drawn(rng, length), strict=True)):
        ends = share_ends([(judge, sizes), (baseline, sizes)])
        assert ends is not None
        found[run] = decide(rules[0], *ends) == "holds", decide(rules[1], *ends) == "fails"
    return found


def _difference_check(pair: AtTheLimit, states: Array) -> DecisionCheck:
    holds, fails = (int(count) for count in states.sum(axis=0))
    n = len(states)
    beside = {"holds": holds / n, "fails": fails / n}
    name = "difference to a baseline decided wrongly at the limit"
    return share_check(name, str(pair), max(holds, fails), n, at_most=ALPHA, beside=beside)
