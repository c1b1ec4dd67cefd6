"""The loop of all simulations: worlds of known truth are drawn, put to what is tested, counted and checked.

A `Simulation` declares its worlds, what is asked of a world in each run, and the checks: what is counted over the runs
of a world and what was promised. The loop cuts the runs into batches, hands these to processes and brings them back in
order. A `Part` is what `--only` names: simulations, and the table their rows are printed as.
"""

from __future__ import annotations

import math
import multiprocessing
import os
import signal
import threading
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

import numpy as np
from scipy import stats

from jrh_mlflow.show.tables import Column, Table
from jrh_mlflow.stats import Array

LOW, HIGH = 0.93, 0.975
"""Accepted coverage of a nominal 95 % interval."""
ALPHA = 0.05
"""Most false decisions, as a share of runs."""
N_ERRORS = 3
"""Standard errors of the simulation by which a promise must be missed."""

Rng = np.random.Generator
Map = Callable[[Callable[[Any], Any], Sequence[Any]], Iterable[Any]]
"""`map`, or that of `worker_map`: the results are the same."""
World = TypeVar("World")
Run = TypeVar("Run")


@dataclass(frozen=True, kw_only=True, slots=True)
class SimulationSize:
    """How much is simulated."""

    n: int = 10_000
    """Runs per world, for what is quick to draw; slower simulations take a part of it."""
    seed: int = 0
    quick: bool = False
    """A few worlds only: seconds."""
    draws: int = 1000
    """Of the interval of a share, per truth, in designs too large to sum; 0 leaves those out."""
    iccs: tuple[float, ...] = ()
    """Intraclass correlations at which that interval is weighed; empty: the usual ones."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Batch:
    """Runs of one world that a process makes one after the other."""

    seed: int
    runs: range
    number: int | None
    """None: all runs of the world are in it."""

    def rng(self, world: object) -> Rng:
        """Return a generator that depends on seed, batch and world alone, never on what runs beside it."""
        number = [] if self.number is None else [self.number]
        return np.random.default_rng([self.seed, *number, zlib.crc32(str(world).encode())])

    @property
    def seeds(self) -> range:
        """A seed for each run; those of another `seed` are others."""
        start = self.seed * 1_000_000
        return range(start + self.runs.start, start + self.runs.stop)


@dataclass(frozen=True, kw_only=True)
class Simulation(Generic[World, Run]):
    """Worlds of known truth, what is asked of each, and what was promised."""

    worlds: Callable[[SimulationSize, Map], Sequence[World]]
    ask: Callable[[World, Batch], Iterable[Run]]
    """Returns what each run of a batch gave. A function of a module, so that it can be handed to processes."""
    checks: Callable[[World, Sequence[Run]], Iterable[Any]]
    """Counts the runs of a world and compares them with the promise: a row for each number."""
    part: int = 1
    """Only every so many of the runs of the size are made."""
    least: int = 1
    """But at least so many."""
    batch: int | None = None
    """Runs that one process makes one after the other; None: all of a world."""

    def __call__(self, size: SimulationSize, apply: Map = map) -> list[Any]:
        """Draw every world and return the rows of all."""
        worlds = self.worlds(size, apply)
        n = max(self.least, size.n // self.part)
        runs = simulate(self.ask, worlds, n=n, batch=self.batch, seed=size.seed, apply=apply)
        return [row for world, own in zip(worlds, runs, strict=True) for row in self.checks(world, own)]


def simulate(
    ask: Callable[[World, Batch], Iterable[Run]],
    worlds: Sequence[World],
    *,
    n: int,
    batch: int | None = None,
    seed: int = 0,
    apply: Map = map,
) -> list[list[Run]]:
    """Make `n` runs of each world, and return them world by world; how they are cut over processes changes nothing."""
    starts = range(0, n, batch or n)
    batches = [
        Batch(seed=seed, runs=range(start, min(start + (batch or n), n)), number=None if batch is None else number)
        for number, start in enumerate(starts)
    ]
    # One flat list of jobs for all worlds: a slow world at the end leaves no process idle before it.
    answers = iter(apply(_asked, [(ask, world, own) for world in worlds for own in batches]))
    return [[run for _ in batches for run in next(answers)] for _ in worlds]


def _asked(job: tuple[Callable[[World, Batch], Iterable[Run]], World, Batch]) -> list[Run]:
    ask, world, batch = job
    return list(ask(world, batch))


def listed(worlds: Sequence[World], *, quick: Sequence[World]) -> Callable[[SimulationSize, Map], Sequence[World]]:
    """Declare worlds, and the few of them that are drawn when it must be quick."""
    return lambda size, apply: quick if size.quick else worlds


@contextmanager
def worker_map(n_workers: int) -> Iterator[Map]:
    """Give a `map` over that many processes, results in order; over this one alone when it is 1."""
    if n_workers == 1:
        yield map
        return
    # Forked children would inherit the threads' locks, not the threads.
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(n_workers, mp_context=spawn, initializer=_follow_parent) as pool:
        try:
            yield pool.map
        # Ctrl-C too: what waits in the queue is not worth minutes.
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _follow_parent() -> None:
    """Leave Ctrl-C to the parent, and end when it does, however it ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()

    def wait() -> None:
        if parent is not None:
            parent.join()
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


def task_rates(uniform: Array, rate: float, icc: float) -> Array:
    """Rates of single tasks, beta with this mean and intraclass correlation, that rise with a uniform variable."""
    if icc == 0 or rate in (0.0, 1.0):
        return np.full(uniform.shape, rate)
    # Parameters with this sum give the intraclass correlation; by quantiles two judges can share their draws.
    size = (1 - icc) / icc
    return np.asarray(stats.beta.ppf(uniform, rate * size, (1 - rate) * size))


# --- Rows: what was counted, and whether the promise was kept.


class Checked:
    """A row with a verdict."""

    verdict: str
    """`ok`, `missed: …`, `conservative…`, `not judged: …`, `shown` or `FAILS: …`."""

    @property
    def fails(self) -> bool:
        """Whether the promise is missed by more than chance."""
        return self.verdict.startswith("FAILS")


@dataclass(frozen=True, kw_only=True)
class CoverageCheck(Checked):
    """One interval of one estimator in one design."""

    axis: str
    design: str
    truth: float
    bias: float
    interval: str
    coverage: float
    n_seeds: int
    verdict: str

    def __str__(self) -> str:
        """Name it with its verdict."""
        return f"{self.axis} ({self.design}, {self.interval}): {self.verdict}"


def coverage_slack(n: int) -> float:
    """Coverage from `n` runs is itself a share: it must miss the band by more than three of its standard errors."""
    return N_ERRORS * math.sqrt(0.95 * 0.05 / max(1, n))


def coverage_verdict(coverage: float, n: int, *, too_wide: str) -> str:
    """Judge the coverage of a nominal 95 % interval in `n` runs; what is said over 97.5 % is `too_wide`."""
    if coverage < LOW - coverage_slack(n):
        return f"FAILS: under {LOW:.0%}"
    if coverage > HIGH:
        return too_wide
    return "ok" if coverage >= LOW else missed_by(LOW - coverage, coverage_slack(n) / N_ERRORS)


def missed_by(excess: float, error: float) -> str:
    """Say by how many standard errors of the simulation a promise is missed that chance may have missed."""
    return f"missed: by {excess / error:.1f} s.e., fails over {N_ERRORS}"


@dataclass(frozen=True, kw_only=True)
class DecisionCheck(Checked):
    """One kind of decision in one design."""

    name: str
    """What is counted: `told apart falsely`."""
    design: str
    measured: float
    promise: str
    """`at most 0.05`; empty where it is shown and not judged."""
    n: int
    """Simulated runs."""
    error: float
    """Standard error of the measured number."""
    verdict: str
    beside: Mapping[str, float] = field(default_factory=dict)
    """Further numbers on the same draws, such as those of another method."""

    def __str__(self) -> str:
        """Say it in one line."""
        return f"{self.name}, {self.design}: {self.measured:.3f}, promised {self.promise}, {self.n:,} runs"


def decision_check(
    name: str,
    design: object,
    measured: float,
    n: int,
    *,
    error: float | None = None,
    at_most: float | None = None,
    at_least: float | None = None,
    beside: Mapping[str, float] | None = None,
) -> DecisionCheck:
    """Judge a number against its promise; without one it is shown only.

    Args:
        name: What is counted.
        design: The world it was counted in.
        measured: A share of the runs, or a number with an `error`.
        n: Runs.
        error: Standard error; of a share, where None, the one that the promised share itself has.
        at_most: What was promised,
        at_least: or this.
        beside: Further numbers on the same draws.

    Example:
        >>> decision_check("told apart falsely", "ten tasks", 0.058, 1000, at_most=0.05).verdict
        'missed: by 1.2 s.e., fails over 3'
        >>> decision_check("told apart falsely", "ten tasks", 0.09, 1000, at_most=0.05).verdict
        'FAILS: over 0.05'
    """
    if at_most is not None and at_least is not None:
        raise ValueError(f"One promise per check, but got {at_most=}, {at_least=}.")
    promised = at_most if at_least is None else at_least
    if error is None:
        # Under the promise itself: a share that came out 0 would else have no error at all.
        share = measured if promised is None else promised
        error = math.sqrt(share * (1 - share) / n)
    promise, verdict = "", "shown"
    if promised is not None:
        promise = f"at {'most' if at_least is None else 'least'} {promised:g}"
        excess = measured - promised if at_least is None else promised - measured
        verdict = f"FAILS: {'over' if at_least is None else 'under'} {promised:g}"
        # Equal on paper is equal, whatever the last bit says.
        if excess <= N_ERRORS * error + 1e-9:
            verdict = "ok" if excess <= 1e-9 else missed_by(excess, error)
    return DecisionCheck(
        name=name,
        design=str(design),
        measured=measured,
        promise=promise,
        n=n,
        error=error,
        verdict=verdict,
        beside=beside or {},
    )


# --- Parts: what `--only` names, and how rows are printed.


@dataclass(frozen=True, kw_only=True)
class Part:
    """Questions that are printed as one table, or one kind of table."""

    word: str
    """Of `--only`."""
    key: str
    """In JSON."""
    simulations: tuple[Callable[[SimulationSize, Map], Sequence[Any]], ...]
    text: Callable[[Sequence[Any]], str]
    """The rows, as they are printed."""
    runs_per_seed: tuple[int, int] = (1, 1)
    """What is quick to draw is drawn so often for each simulated judge; the second when it must be quick."""
    by_seeds: bool = True
    """Whether nothing is simulated without seeds."""
    severity: Callable[[Any], float] = lambda row: 0.0
    """Failures are named by it, the largest first."""
    facts: Callable[[Sequence[Any]], object] = list
    """The rows as JSON writes them."""

    def rows(self, size: SimulationSize, apply: Map = map) -> list[Any]:
        """Run every simulation; the size counts seeds."""
        size = replace(size, n=size.n * self.runs_per_seed[size.quick])
        return [row for simulation in self.simulations for row in simulation(size, apply)]

    def failures(self, rows: Sequence[Any]) -> list[str]:
        """Name the rows that miss their promise."""
        return [str(row) for row in sorted(rows, key=self.severity, reverse=True) if row.fails]


def filled(field: str, how: str = "") -> Callable[[Any], str]:
    """Show a field of a row in this format; empty where there is none."""

    def text(row: Any) -> str:
        value = getattr(row, field)
        return "" if value is None else format(value, how)

    return text


COVERAGE: Table[CoverageCheck] = Table.of(
    Column("estimator", filled("axis")),
    Column("design", filled("design")),
    Column("interval", filled("interval")),
    Column("truth", filled("truth", ".3f")),
    Column("bias", filled("bias", "+.4f")),
    Column("coverage", filled("coverage", ".3f")),
    Column("verdict", filled("verdict")),
)


def coverage_text(checks: Sequence[CoverageCheck], *, of: str) -> str:
    """Return the table of intervals, and how many have which verdict."""
    counts = dict(Counter(check.verdict.split(":")[0] for check in checks))
    return f"{COVERAGE(checks).to_text()}\n\n{checks[0].n_seeds} simulated {of} per design: {counts}\n"


def decisions_text(checks: Sequence[DecisionCheck]) -> str:
    """Return a table per kind of decision, with a column for every number beside."""
    kinds: dict[str, list[DecisionCheck]] = {}
    for check in checks:
        kinds.setdefault(check.name, []).append(check)
    return "\n".join(f"{_decisions(name, own)(own).to_text()}\n" for name, own in kinds.items())


def _decisions(name: str, checks: Sequence[DecisionCheck]) -> Table[DecisionCheck]:
    beside = dict.fromkeys(key for check in checks for key in check.beside)
    return Table.of(
        Column(name, filled("design")),
        Column("measured", filled("measured", ".3f")),
        Column("± s.e.", filled("error", ".3f")),
        *(Column(key, _beside(key)) for key in beside),
        Column("promise", filled("promise")),
        Column("runs", filled("n", ",")),
        Column("verdict", filled("verdict")),
    )


def _beside(key: str) -> Callable[[DecisionCheck], str]:
    return lambda check: f"{check.beside[key]:.3f}" if key in check.beside else ""
