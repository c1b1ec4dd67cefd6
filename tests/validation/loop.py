"""The loop of all simulations: worlds of known truth are drawn, put to what is tested, and checked.

A `Simulation` has worlds, a function that makes runs of a world, and one that checks what came of
them. A run is a dictionary of numbers; the checks get a data frame with a row per run. The loop
cuts the runs into batches and hands these to processes. A `Part` is what `--only` names.
"""

from __future__ import annotations

import math
import multiprocessing
import os
import signal
import threading
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

LOW = 0.93
"""Least coverage of a nominal 95 % interval,"""
HIGH = 0.975
"""and the most that is not called conservative."""
ALPHA = 0.05
"""Most false decisions, as a share of runs."""
N_ERRORS = 3
"""Standard errors of the simulation by which a promise must be missed."""


@dataclass(frozen=True, kw_only=True)
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


@dataclass(frozen=True, kw_only=True)
class Batch:
    """Runs of one world that a process makes one after the other."""

    seed: int
    runs: range
    number: int | None = None
    """None: all runs of the world are in it."""

    def rng(self, world):
        """Return a generator that depends on seed, batch and world alone."""
        number = [] if self.number is None else [self.number]
        return np.random.default_rng([self.seed, *number, zlib.crc32(str(world).encode())])

    @property
    def seeds(self):
        """A seed for each run; those of another `seed` are others."""
        start = self.seed * 1_000_000
        return range(start + self.runs.start, start + self.runs.stop)


@dataclass(frozen=True, kw_only=True)
class Simulation:
    """Worlds of known truth, how each is run, and what was promised."""

    worlds: Sequence | Callable
    """All of them; or a function of size and map that returns them."""
    quick: Sequence = ()
    """The few that are drawn when it must be quick."""
    run: Callable[[Any, Batch], Iterable[dict]]
    """Makes the runs of a batch. A function of a module, so that processes can be given it."""
    checks: Callable[[Any, pd.DataFrame], Iterable[Any]]
    """Compares the runs of a world with the promise: a row for each number."""
    part: int = 1
    """Only every so many of the runs of the size are made,"""
    least: int = 1
    """but at least so many."""
    batch: int | None = None
    """Runs that one process makes one after the other; None: all of a world."""

    def __call__(self, size, apply=map):
        """Run every world and return the rows of all."""
        worlds = self.quick if size.quick else self.worlds
        if callable(self.worlds):
            worlds = self.worlds(size, apply)
        n = max(self.least, size.n // self.part)
        runs = simulate(self.run, worlds, n=n, batch=self.batch, seed=size.seed, apply=apply)
        rows = []
        for world, runs_of_world in zip(worlds, runs, strict=True):
            rows += self.checks(world, pd.DataFrame(runs_of_world))
        return rows


def simulate(run, worlds, *, n, batch=None, seed=0, apply=map):
    """Make `n` runs of each world, and return them world by world.

    How they are cut over processes changes nothing: `apply` is `map`, or that of `worker_map`.
    """
    step = batch or n
    batches = []
    for number, start in enumerate(range(0, n, step)):
        runs = range(start, min(start + step, n))
        batches.append(Batch(seed=seed, runs=runs, number=None if batch is None else number))
    # One flat list of jobs for all worlds: a slow world at the end leaves no process idle.
    jobs = [(run, world, each) for world in worlds for each in batches]
    results = iter(apply(_run_job, jobs))
    return [[row for _ in batches for row in next(results)] for _ in worlds]


def _run_job(job):
    run, world, batch = job
    return list(run(world, batch))


@contextmanager
def worker_map(n_workers):
    """Give a `map` over so many processes, results in order; over this one alone when it is 1."""
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


def _follow_parent():
    """Leave Ctrl-C to the parent, and end when it does, however it ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()

    def wait():
        parent.join()
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


def task_rates(uniform, rate, icc):
    """Rates of single tasks, beta with this mean and ICC, that rise with a uniform variable."""
    if icc == 0 or rate in (0.0, 1.0):
        return np.full(uniform.shape, rate)
    # Parameters with this sum give the ICC; by quantiles two judges can share their draws.
    size = (1 - icc) / icc
    return stats.beta.ppf(uniform, rate * size, (1 - rate) * size)


def holds(ends, truth):
    """Whether an interval holds the truth; an end that is the truth on paper does."""
    return ends[0] - 1e-9 <= truth <= ends[1] + 1e-9


# --- Rows: what was counted, and whether the promise was kept.


@dataclass(frozen=True, kw_only=True)
class Check:
    """A number of one world, and what was promised of it."""

    name: str
    """What is counted: `told apart falsely`."""
    design: str
    measured: float
    """A share of the runs, or a mean over them."""
    promise: str
    """`at most 0.05`; empty where it is shown and not judged."""
    n: int
    """Simulated runs."""
    error: float
    """Standard error of the measured number."""
    verdict: str
    """`ok`, `missed: …`, `conservative…`, `not judged: …`, `shown` or `FAILS: …`."""
    beside: Mapping[str, float] = field(default_factory=dict)
    """Further numbers on the same draws, such as those of another method."""

    @property
    def fails(self):
        """Whether the promise is missed by more than chance."""
        return self.verdict.startswith("FAILS")

    def __str__(self):
        return f"{self.name}, {self.design}: {self.measured:.3f}, {self.n:,} runs, {self.verdict}"


def check_share(
    name, world, runs, column, *, at_most=None, at_least=None, error=None, beside=(), **more
):
    """Compare the mean of a column with its promise; without one it is shown only.

    Args:
        name: What is counted.
        world: The world it was counted in.
        runs: A row per run.
        column: Of shares: true or 1 where it happened; runs without a number are left out.
        at_most: What was promised,
        at_least: or this.
        error: Standard error; where None, the one that the promised share itself has.
        beside: Columns whose means are shown, too.
        **more: Further fields of the row.

    Example:
        >>> runs = pd.DataFrame({"apart": [True] * 58 + [False] * 942})
        >>> check_share("told apart falsely", "ten tasks", runs, "apart", at_most=0.05).verdict
        'missed: by 1.2 s.e., fails over 3'
        >>> check_share("told apart falsely", "ten tasks", runs, "apart", at_most=0.03).verdict
        'FAILS: over 0.03'
    """
    if at_most is not None and at_least is not None:
        raise ValueError(f"One promise per check, but got {at_most=}, {at_least=}.")
    values = runs[column].dropna().astype(float)
    measured = float(values.mean())
    promised = at_least if at_most is None else at_most
    if error is None:
        # Under the promise itself: a share that came out 0 would else have no error at all.
        share = measured if promised is None else promised
        error = math.sqrt(share * (1 - share) / max(1, len(values)))
    promise = ""
    verdict = "shown"
    if promised is not None:
        kind = "at most" if at_least is None else "at least"
        promise = f"{kind} {promised:g}"
        excess = measured - promised if at_least is None else promised - measured
        beyond = "over" if at_least is None else "under"
        verdict = _verdict(excess, error, f"{beyond} {promised:g}")
    if values.empty:
        verdict = "not judged: no run gave a number"
    means = {key: float(runs[key].astype(float).mean()) for key in beside}
    facts = {"measured": measured, "promise": promise, "n": len(values), "error": error}
    facts |= {"verdict": verdict, "beside": means}
    return Check(name=name, design=str(world), **facts | more)


def _verdict(excess, error, what):
    # Equal on paper is equal, whatever the last bit says.
    if excess > N_ERRORS * error + 1e-9:
        return f"FAILS: {what}"
    if excess > 1e-9:
        return f"missed: by {excess / error:.1f} s.e., fails over {N_ERRORS}"
    return "ok"


def coverage_error(n):
    """Standard error of a coverage of 95 % in `n` runs."""
    return math.sqrt(0.95 * 0.05 / max(1, n))


def coverage_verdict(coverage, n, *, too_wide):
    """Judge the coverage of a nominal 95 % interval; what is said over 97.5 % is `too_wide`."""
    if coverage > HIGH:
        return too_wide
    return _verdict(LOW - coverage, coverage_error(n), f"under {LOW:.0%}")


# --- Parts: what `--only` names, and how rows are printed.


def checks_text(checks):
    """Return a table per name, and how many checks have which verdict."""
    tables = {}
    for check in checks:
        cells = {
            check.name: check.design,
            "measured": f"{check.measured:.3f}",
            "± s.e.": f"{check.error:.3f}",
            **{key: f"{value:.3f}" for key, value in check.beside.items()},
            "promise": check.promise,
            "runs": f"{check.n:,}",
            "verdict": check.verdict,
        }
        tables.setdefault(check.name, []).append(cells)
    verdicts = Counter(check.verdict.split(":")[0] for check in checks)
    return "\n".join(
        [*map(table_text, tables.values()), f"{len(checks)} checks: {dict(verdicts)}\n"]
    )


def table_text(rows):
    """Align rows of cells by their heads; the first column to the left."""
    heads = list(dict.fromkeys(head for row in rows for head in row))
    lines = [heads, *([row.get(head, "") for head in heads] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    text = ""
    for first, *rest in lines:
        aligned = [cell.rjust(width) for cell, width in zip(rest, widths[1:], strict=True)]
        text += "  ".join([first.ljust(widths[0]), *aligned]) + "\n"
    return text


@dataclass(frozen=True, kw_only=True)
class Part:
    """Questions that are run and printed together."""

    word: str
    """Of `--only`."""
    simulations: tuple[Callable, ...]
    runs_per_seed: tuple[int, int] = (1, 1)
    """Runs for each simulated judge of the size; the second when it must be quick."""
    by_seeds: bool = True
    """Whether nothing is simulated without seeds."""
    text: Callable[[Sequence[Any]], str] = checks_text
    """The rows, as they are printed."""

    def rows(self, size, apply=map):
        """Run every simulation; the size counts seeds."""
        size = replace(size, n=size.n * self.runs_per_seed[size.quick])
        return [row for simulation in self.simulations for row in simulation(size, apply)]
