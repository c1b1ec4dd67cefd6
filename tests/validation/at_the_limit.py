"""Decisions exactly at their limit: gates on a judge's rule, and `jrh.passed` on an application. How often wrongly?

At the limit itself `x <= limit` is true and `fails` is wrong; a hair above it `holds` is. Both shares must stay at 5 %,
however the calls of a task hang together. Rules about an axis are weighed exactly where a design has few outcomes
(`coverage.py`), else drawn; units are calls or pairs, whichever the axis counts. Differences to a baseline are drawn
with judges whose rates go together over the tasks, apart, or against one another.

Applications of a known failure rate are put before a judge that errs: one at the limit may neither pass nor fail in
more than 5 % of runs, and one without a failure should pass; beside it stands what MLflow's own rule (every row passed)
makes of the same runs. The same where the labels are of an earlier application with easier failures, or where rows and
labels are of conversations.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
from scipy.optimize import linprog
from scipy.stats import binom, norm

from jrh_mlflow.decisions.gate import look_level
from jrh_mlflow.measures.rules import parse_rule, share_ends
from jrh_mlflow.people.passed import Drawn, FailureTally
from jrh_mlflow.people.verdicts import Judged
from jrh_mlflow.schema.estimates import Estimate
from jrh_mlflow.scoring.ledger import Units, deciding_ends, share, without_losses
from jrh_mlflow.stats import Array, Mask
from jrh_mlflow.stats.corrected_rates import FailureCounts, too_few
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


# --- applications before a judge that errs

_ENOUGH_DETECTION = 0.85
"""Under it no rule that keeps its error passes a perfect application in 95 % of runs with every mix of labels: see
`best_power`, which is shown beside."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdicts:
    """What is drawn: rows of an application, and labelled items that calibrate its judge."""

    rows: int = 50
    limit: float = 0.2
    found: float
    """Share of true failures that the judge fails."""
    wrongly: float = 0.05
    """Share of true passes that it fails."""
    labels: int = 500
    failing: float = 0.2
    """Share of true failures among the labels."""
    drawn: str = "within labels"
    """`within labels`: just as many true failures; `at random`: as it happens."""
    theta: float | None = None
    """True failure rate of the application; None: the limit."""

    def __str__(self) -> str:
        """Name rows, limit, judge and labels."""
        judge = f"judge finds {self.found:g}, wrongly fails {self.wrongly:g}"
        return (
            f"{self.rows} rows, limit {self.limit:g}, {judge}, {self.labels} labels {self.drawn}, {self.failing:g} fail"
        )


_MIXES = ((0.1, "within labels"), (0.5, "within labels"), (0.2, "at random"))
_HEADLINE = (
    *(Verdicts(found=found, failing=mix[0], drawn=mix[1]) for found, mix in product((0.8, 0.85, 0.9, 1.0), _MIXES)),
    Verdicts(found=0.8, failing=0.05),
)
_JUDGES = ((0.7, 0.3), (0.7, 0.01), (0.99, 0.3), (0.9, 0.1), (0.99, 0.01))
"""Chances to fail a true failure, and a true pass."""
_APPLICATIONS = ((30, 0.1), (30, 0.3), (100, 0.02), (100, 0.1), (500, 0.05), (500, 0.3))
"""Rows and limit."""
_LABELS = ((50, 0.1), (150, 0.5), (500, 0.1))
_MORE = tuple(
    Verdicts(rows=rows, limit=limit, found=found, wrongly=wrongly, labels=labels, failing=failing)
    for at, ((rows, limit), (found, wrongly)) in enumerate(product(_APPLICATIONS, _JUDGES))
    for labels, failing in (_LABELS[at % 3],)
)
_QUICK_VERDICTS = (Verdicts(found=0.9),)


def _without_failure(designs: Sequence[Verdicts]) -> list[Verdicts]:
    return [replace(design, theta=0.0) for design in designs]


def _passed(design: Verdicts, batch: Batch) -> Mask:
    """Per run: passed, failed, and every row passed by the judge."""
    theta = design.limit if design.theta is None else design.theta
    rng, n = batch.rng(f"{design}, {theta}"), len(batch.runs)
    kinds = np.full(n, round(design.labels * design.failing))
    if design.drawn == "at random":
        kinds = rng.binomial(design.labels, design.failing, n)
    # A kind without a label is refused by `passed`; nothing is drawn for it here.
    kinds = np.clip(kinds, 1, design.labels - 1)
    failed = rng.binomial(design.rows, theta * design.found + (1 - theta) * design.wrongly, n)
    found, wrongly = rng.binomial(kinds, design.found), rng.binomial(design.labels - kinds, design.wrongly)
    decided = np.zeros((n, 3), dtype=bool)
    for kind in np.unique(kinds):
        here = kinds == kind
        drawn = np.stack([failed[here], found[here], wrongly[here]], axis=1)
        decided[here, :2] = _by_counts(design, int(kind), drawn)
    decided[:, 2] = failed == 0
    return decided


def _by_counts(design: Verdicts, failures: int, drawn: Array) -> Mask:
    """Whether the upper bound lies under the limit, and the lower one over it, for each run."""
    # Runs with the same counts are decided once.
    cases, place = np.unique(drawn, axis=0, return_inverse=True)
    failed, found, wrongly = cases.T.astype(float)
    counts = FailureCounts(
        rows=design.rows,
        failed=failed,
        failures=failures,
        found=found,
        passes=design.labels - failures,
        wrongly=wrongly,
    )
    passed, over = too_few(design.limit, counts), too_few(1 - design.limit, counts.mirrored)
    return np.stack([passed, over], axis=1)[place.ravel()]


def _limit_checks(design: Verdicts, runs: Sequence[Mask]) -> Iterator[DecisionCheck]:
    passed, failed, every = (float(share) for share in np.mean(runs, axis=0))
    beside = {"every row passed": every}
    yield decision_check("passed at the limit", design, passed, len(runs), at_most=ALPHA, beside=beside)
    yield decision_check("failed at the limit", design, failed, len(runs), at_most=ALPHA)


def _perfect_check(design: Verdicts, runs: Sequence[Mask]) -> Iterator[DecisionCheck]:
    passed, failed, every = (float(share) for share in np.mean(runs, axis=0))
    beside, least = {"every row passed": every, "failed": failed}, 1 - ALPHA
    if design.found < _ENOUGH_DETECTION:
        beside["any rule, at most"] = best_power(design)
        yield decision_check("perfect application passed", design, passed, len(runs), beside=beside)
    else:
        yield decision_check("perfect application passed", design, passed, len(runs), at_least=least, beside=beside)


def best_power(design: Verdicts) -> float:
    """Chance to pass a perfect application that no rule exceeds which errs in 5 % of runs at the limit, or less.

    The rule is told how often the judge fails true passes, and must keep its error for every share of failures that
    the judge may find (here 60 of them): a linear program over what rows and labelled failures may read.
    """
    failures = round(design.labels * design.failing)
    rows, found = np.arange(design.rows + 1), np.arange(failures + 1)

    def chances(theta: float, detects: float) -> Array:
        q = theta * detects + (1 - theta) * design.wrongly
        table: Array = np.outer(binom.pmf(rows, design.rows, q), binom.pmf(found, failures, detects)).ravel()
        return table

    gain = chances(0.0, design.found)
    seen = gain > 1e-9
    limits = np.array(
        [chances(design.limit, detects)[seen] for detects in (*np.linspace(0.3, 0.999, 59), design.found)]
    )
    solved = linprog(-gain[seen], A_ub=limits, b_ub=np.full(len(limits), ALPHA), bounds=(0, 1), method="highs")
    # What is left out is given to the rule for nothing.
    return float(-solved.fun + gain[~seen].sum())


APPLICATIONS = Simulation(worlds=listed((*_HEADLINE, *_MORE), quick=_QUICK_VERDICTS), ask=_passed, checks=_limit_checks)
PERFECT = Simulation(
    worlds=listed(_without_failure(_HEADLINE), quick=_without_failure(_QUICK_VERDICTS)),
    ask=_passed,
    checks=_perfect_check,
)
# --- the same by `passed` itself: labels of an earlier application, and conversations


@dataclass(frozen=True, kw_only=True, slots=True)
class EarlierLabels:
    """Rows at the limit of `passed`, and labels by which it knows the judge."""

    limit: float
    there: float
    """Share of true failures among the labels."""
    found: tuple[float, float] = (0.9, 0.75)
    """Share of true failures that the judge fails, there and here: on harder ones it finds fewer."""
    cluster: int = 1
    """Rows, and labelled items, of a conversation."""
    icc: float = 0.0
    """How alike they are, and the judge's errors on them."""
    rows: int = 500
    labels: int = 300
    wrongly: float = 0.05

    def __str__(self) -> str:
        """Name limit, labels and conversations."""
        labels = f"{self.labels} labels {'at random' if self.at_random else 'of elsewhere'}, {self.there:g} fail"
        clusters = f", clusters of {self.cluster}, ICC {self.icc:g}" if self.cluster > 1 else ""
        return f"{self.rows} rows, limit {self.limit:g}, {labels}, finds {self.found[0]:g}/{self.found[1]:g}{clusters}"

    @property
    def at_random(self) -> bool:
        """Whether the labels are known to be of the same application; else nothing is said of them."""
        return self.found[0] == self.found[1]

    def drawn(self, rng: Rng) -> FailureTally:
        """Draw rows and labels."""
        rows, labelled = (
            self._judged(rng, n, rate, found)
            for n, rate, found in zip((self.rows, self.labels), (self.limit, self.there), self.found[::-1], strict=True)
        )
        sampling: Drawn | None = "random" if self.at_random else None
        return FailureTally.of(rows, labelled, sampling=sampling, level=1 - ALPHA, cluster=None)

    def _judged(self, rng: Rng, n: int, rate: float, found: float) -> Judged:
        k = n // self.cluster
        failing, finds, wrongly = (
            np.repeat(task_rates(rng.random(k), mean, self.icc), self.cluster) for mean in (rate, found, self.wrongly)
        )
        fails = rng.random(n) < failing
        failed = rng.random(n) < np.where(fails, finds, wrongly)
        names = tuple(f"{n} {at // self.cluster}" for at in range(n)) if self.cluster > 1 else None
        return Judged(judge=(~failed).astype(float), human=(~fails).astype(float), scale="booleans", clusters=names)


_CONVERSATIONS = ((1, 0.0), (5, 0.1), (5, 0.3), (5, 0.6))
EARLIER = tuple(
    EarlierLabels(limit=0.2, there=there, found=found, cluster=cluster, icc=icc)
    for (there, found), (cluster, icc) in product(
        ((0.2, (0.9, 0.9)), (0.2, (0.9, 0.75)), (0.1, (0.9, 0.75))), _CONVERSATIONS
    )
)


def _by_tally(world: EarlierLabels, batch: Batch) -> Iterator[bool]:
    """Per run: whether the application passes."""
    rng = batch.rng(world)
    tallies = (world.drawn(rng) for _ in batch.runs)
    return (not tally.useless and tally.is_under(world.limit, 1 - ALPHA) for tally in tallies)


def _earlier_check(world: EarlierLabels, runs: Sequence[bool]) -> Iterator[DecisionCheck]:
    yield decision_check("passed at the limit by these labels", world, float(np.mean(runs)), len(runs), at_most=ALPHA)


ELSEWHERE = Simulation(
    worlds=listed(EARLIER, quick=EARLIER[:1]), ask=_by_tally, checks=_earlier_check, part=20, batch=25
)
GATES = (check_axis_rules, BASELINES, LOSSES, LOOKS)
PASSES = (APPLICATIONS, PERFECT, ELSEWHERE)
