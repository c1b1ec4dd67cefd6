"""Applications of a known failure rate put before a judge that errs: how often `jrh.passed` passes or fails them.

An application at the limit may neither pass nor fail in more than 5 % of runs, and one without a failure should pass;
beside it stands what MLflow's own rule (every row passed) makes of the same runs.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from scipy.optimize import linprog
from scipy.stats import binom

from jrh_mlflow.simulations.decision_checks import DecisionCheck, SimulationSize, share_check
from jrh_mlflow.simulations.validate import Map
from jrh_mlflow.stats import Array, Mask
from jrh_mlflow.stats.failure_rates import FailureCounts, too_few

ALPHA = 0.05
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
_DESIGNS = ((30, 0.1), (30, 0.3), (100, 0.02), (100, 0.1), (500, 0.05), (500, 0.3))
"""Rows and limit."""
_LABELS = ((50, 0.1), (150, 0.5), (500, 0.1))
_MORE = tuple(
    Verdicts(rows=rows, limit=limit, found=found, wrongly=wrongly, labels=labels, failing=failing)
    for at, ((rows, limit), (found, wrongly)) in enumerate(product(_DESIGNS, _JUDGES))
    for labels, failing in (_LABELS[at % 3],)
)
_QUICK = (Verdicts(found=0.9),)


def check_passed(size: SimulationSize, apply: Map) -> Sequence[DecisionCheck]:
    """Draw every design at its limit, and those of the headline without a failure as well."""
    designs = _QUICK if size.quick else (*_HEADLINE, *_MORE)
    perfect = _QUICK if size.quick else _HEADLINE
    jobs = [(design, design.limit, size) for design in designs] + [(design, 0.0, size) for design in perfect]
    found = list(apply(_decisions, jobs))
    at_limit, without = found[: len(designs)], found[len(designs) :]
    checks = [check for design, runs in zip(designs, at_limit, strict=True) for check in _limit_checks(design, runs)]
    return [*checks, *(_perfect_check(design, runs) for design, runs in zip(perfect, without, strict=True))]


def _decisions(job: tuple[Verdicts, float, SimulationSize]) -> Mask:
    """Per run: passed, failed, and every row passed by the judge."""
    design, theta, size = job
    rng = np.random.default_rng([size.seed, zlib.crc32(f"{design}, {theta}".encode())])
    n, at_random = size.n, design.drawn == "at random"
    failures = rng.binomial(design.labels, design.failing, n) if at_random else None
    kinds = np.full(n, round(design.labels * design.failing)) if failures is None else failures
    # A kind without a label is refused by `passed`; nothing is drawn for it here.
    kinds = np.clip(kinds, 1, design.labels - 1)
    failed = rng.binomial(design.rows, theta * design.found + (1 - theta) * design.wrongly, n)
    found, wrongly = rng.binomial(kinds, design.found), rng.binomial(design.labels - kinds, design.wrongly)
    decided = np.zeros((n, 3), dtype=bool)
    for kind in np.unique(kinds):
        here = kinds == kind
        decided[here, :2] = _decided(design, int(kind), np.stack([failed[here], found[here], wrongly[here]], axis=1))
    decided[:, 2] = failed == 0
    return decided


def _decided(design: Verdicts, failures: int, drawn: Array) -> Mask:
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


def _limit_checks(design: Verdicts, runs: Mask) -> list[DecisionCheck]:
    passed, failed, every = (int(count) for count in runs.sum(axis=0))
    n, beside = len(runs), {"every row passed": every / len(runs)}
    return [
        share_check("passed at the limit", str(design), passed, n, at_most=ALPHA, beside=beside),
        share_check("failed at the limit", str(design), failed, n, at_most=ALPHA),
    ]


def _perfect_check(design: Verdicts, runs: Mask) -> DecisionCheck:
    passed, failed, every = (int(count) for count in runs.sum(axis=0))
    beside = {"every row passed": every / len(runs), "failed": failed / len(runs)}
    least: float | None = 1 - ALPHA
    if design.found < _ENOUGH_DETECTION:
        least, beside["any rule, at most"] = None, best_power(design)
    return share_check("perfect application passed", str(design), passed, len(runs), at_least=least, beside=beside)


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
