"""Differences of simulated judges as `jrh.compare` reads them: coverage, false equivalence, what is detectable.

Two judges answer tasks of some calls; on the same calls, so that they agree where their rates allow, or each by itself.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from jrh_mlflow.comparing.contrasts import ALPHA, MARGIN, Paired, decided, is_equivalent, mean_over_tests, paired_shares
from jrh_mlflow.measures.unit_scores import ScoreTable
from jrh_mlflow.scoring.ledger import Resampling
from jrh_mlflow.simulations.decision_checks import DecisionCheck, SimulationSize, share_check
from jrh_mlflow.simulations.validate import Map
from jrh_mlflow.stats import Array

_AXIS = "axis"
_CHUNK = 40
"""Runs that one process draws one after the other."""
_RESAMPLING = Resampling(n_resamples=400)


OneRun = Callable[["Duel", ScoreTable], list[float]]
"""What is read from the calls of one run."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Duel:
    """What is drawn: two judges on one axis."""

    rates: tuple[float, float]
    icc: float
    together: bool
    """Whether both err on the same calls; otherwise independently."""
    n_tasks: int = 10
    n_calls: int = 12

    def __str__(self) -> str:
        """Name rates and sizes."""
        how = "on the same calls" if self.together else "independently"
        sizes = f"{self.n_tasks} tasks × {self.n_calls}"
        return f"rates {self.rates[0]:g} and {self.rates[1]:g} {how}, {sizes}, ICC {self.icc:g}"


_PAIRS = ((0.1, 0.02), (0.2, 0.1), (0.5, 0.4), (0.9, 0.4))
DUELS = tuple(
    Duel(rates=rates, icc=icc, together=together)
    for rates, icc, together in product(_PAIRS, (0.0, 0.3, 0.6), (True, False))
)
QUICK = (Duel(rates=(0.1, 0.02), icc=0.6, together=False),)
AT_THE_MARGIN = tuple(
    Duel(rates=(0.2, 0.2 - MARGIN), icc=icc, together=together, n_tasks=60, n_calls=4)
    for icc, together in product((0.0, 0.3), (True, False))
)
EQUAL = tuple(
    Duel(rates=(rate, rate), icc=icc, together=False, n_tasks=tasks, n_calls=calls)
    for (rate, icc), (tasks, calls) in product(((0.1, 0.2), (0.3, 0.2), (0.3, 0.5)), ((10, 12), (28, 4)))
)


def check_compare(size: SimulationSize, apply: Map) -> Sequence[DecisionCheck]:
    """Draw every duel: intervals must cover 93 %, and judges that differ by the margin be called equivalent in 5 %."""
    n = _CHUNK if size.quick else max(_CHUNK, size.n // 25)
    covering, margins, equals = (QUICK, AT_THE_MARGIN[:1], ()) if size.quick else (DUELS, AT_THE_MARGIN, EQUAL)
    found = _runs(_intervals, (*covering, *margins), n, size.seed, apply)
    checks = [_coverage(duel, found[duel]) for duel in covering]
    checks += [
        share_check("equivalent falsely", str(duel), int(found[duel][:, 2].sum()), n, at_most=ALPHA) for duel in margins
    ]
    return [*checks, *_power(equals, n, size.seed, apply)]


def _coverage(duel: Duel, runs: Array) -> DecisionCheck:
    covered, alone, _ = runs.T
    beside = {"bootstrap alone": float(np.nanmean(alone))}
    name = "difference in its interval"
    return share_check(name, str(duel), int(covered.sum()), len(runs), at_least=0.93, beside=beside)


def _power(duels: Sequence[Duel], n: int, seed: int, apply: Map) -> list[DecisionCheck]:
    """Draw judges that differ by what equal ones, in the median, say is detectable."""
    apart = []
    for duel, runs in _runs(_decisions, duels, _CHUNK, seed, apply).items():
        better = min(1.0, duel.rates[0] + float(np.median(runs[:, 0])))
        apart.append(replace(duel, rates=(round(better, 2), duel.rates[1])))
    found = _runs(_decisions, apart, n, seed, apply)
    name = "told apart at what is detectable"
    return [share_check(name, str(duel), int(found[duel][:, 1].sum()), n) for duel in apart]


def _runs(one_run: OneRun, duels: Sequence[Duel], n: int, seed: int, apply: Map) -> dict[Duel, Array]:
    """Return what `one_run` says of each run, by duel."""
    lengths = [min(_CHUNK, n - start) for start in range(0, n, _CHUNK)]
    jobs = [(one_run, duel, [seed, at], length) for duel in duels for at, length in enumerate(lengths)]
    found = list(apply(_drawn, jobs))
    return {duel: np.concatenate(found[at * len(lengths) :][: len(lengths)]) for at, duel in enumerate(duels)}


def _drawn(job: tuple[OneRun, Duel, Sequence[int], int]) -> Array:
    one_run, duel, seed, length = job
    rng = np.random.default_rng([*seed, zlib.crc32(str(duel).encode())])
    return np.array([one_run(duel, draw_duel(duel, rng)) for _ in range(length)])


def _intervals(duel: Duel, table: ScoreTable) -> list[float]:
    """Say whether the interval holds the truth, whether the bootstrap alone does, and whether they are equivalent."""
    one, truth = _paired(table).difference, duel.rates[0] - duel.rates[1]
    _, alone = mean_over_tests(table, table.scores["a"] - table.scores["b"], _RESAMPLING)
    by_bootstrap = math.nan if alone is None else float(_holds(*alone, truth))
    assert one.low is not None
    assert one.high is not None
    return [_holds(one.low, one.high, truth), by_bootstrap, is_equivalent(one.equivalence, MARGIN)]


def _decisions(duel: Duel, table: ScoreTable) -> list[float]:
    """Say what is detectable, 1 where nothing is, and whether the two are told apart."""
    found = [_paired(table)]
    (one,) = decided(found, n_clusters=duel.n_tasks, primary={_AXIS}, alpha=ALPHA, margin=MARGIN, seed=0)
    return [1.0 if one.detectable is None else one.detectable, one.told_apart]


def _paired(table: ScoreTable) -> Paired:
    found = paired_shares(table, _AXIS, "a", "b", _RESAMPLING)
    assert found is not None
    return found


def _holds(low: float, high: float, truth: float) -> bool:
    return low - 1e-9 <= truth <= high + 1e-9


def draw_duel(duel: Duel, rng: np.random.Generator) -> ScoreTable:
    """Draw the calls of both judges."""
    shape = (duel.n_tasks, duel.n_calls)
    task, call = rng.random((2, duel.n_tasks)), rng.random((2, *shape))
    if duel.together:
        task[1], call[1] = task[0], call[0]
    scores = {
        name: (call[at] < _task_rates(rate, duel.icc, task[at])[:, None]).astype(float).ravel()
        for at, (name, rate) in enumerate(zip("ab", duel.rates, strict=True))
    }
    n = duel.n_tasks * duel.n_calls
    clusters = np.repeat(np.arange(duel.n_tasks), duel.n_calls)
    return ScoreTable(axis=np.full(n, _AXIS, dtype=object), cluster=clusters, n_codes=duel.n_tasks, scores=scores)


def _task_rates(rate: float, icc: float, uniform: Array) -> Array:
    """Rates of single tasks, beta with this mean and intraclass correlation."""
    from scipy import stats

    if icc == 0 or rate in (0.0, 1.0):
        return np.full(len(uniform), rate)
    size = (1 - icc) / icc
    return np.asarray(stats.beta.ppf(uniform, rate * size, (1 - rate) * size))
