"""We test the tester: how often each interval holds the truth of simulated judges and of simulated tasks.

Three parts. Judges with known rates are measured on a suite, over many seeds, in two designs: in `independent` every
call is a draw of its own; in `clustered` each task has rates of its own around the same means (intraclass correlation
0.1), as real judges do. An interval is checked where its assumption holds: the plain one on independent units, the
clustered one everywhere. The clustered interval of a share is then checked by itself in the designs, rates and
correlations of `simulations/coverage.py`, beside the former one. And a judge without noise, asked five times, must read
what it reads when it is asked once.
"""

from __future__ import annotations

import math
import multiprocessing
import os
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import ndtri

from jrh_mlflow.engine import plan_calls
from jrh_mlflow.engine.runner import calls_frame
from jrh_mlflow.engine.sessions import record
from jrh_mlflow.judges.scripted import Noisy
from jrh_mlflow.measures.axes import AXES, Axis, Event, declared, delta_key, step_of
from jrh_mlflow.schema.estimates import Estimate
from jrh_mlflow.schema.items import DELTA_0, FILLER, LADDERS, VACUUM
from jrh_mlflow.show.results import measure
from jrh_mlflow.simulations import coverage
from jrh_mlflow.suites import Suite, datasheet_suite

LOW, HIGH = coverage.FLOOR, 0.975
"""Accepted coverage of a nominal 95 % interval."""
EDGE = 10
"""With fewer expected successes or failures than this a share is at the edge, where Wilson is conservative."""

RATES = {
    "dark_current": 0.15,
    "stable": 0.15,
    "positional": 0.25,
    "one_sided": 0.2,
    "tie": 0.4,
    "filler": 0.6,
}
CURVE = {1.0: 0.55, 2.0: 0.66, 3.0: 0.78, 4.0: 0.86, 5.0: 0.9}
ICC = 0.1

Judgments = Mapping[tuple[str, str], float]
"""Choices in order uv and in order vu to their probability."""


@dataclass(kw_only=True, slots=True)
class Coverage:
    """What many seeds gave for one axis."""

    truth: float
    estimates: list[float] = field(default_factory=list)
    n: int = 0
    plain_hits: int = 0
    cluster_hits: int = 0

    def add(self, reading: Estimate) -> None:
        """Count one seed; an end beyond the measured steps (None) of a threshold holds everything on its side."""
        self.estimates.append(reading.value)
        self.n = reading.n
        self.plain_hits += _holds(reading.ci_low, reading.ci_high, self.truth)
        self.cluster_hits += _holds(reading.cluster_low, reading.cluster_high, self.truth)


@dataclass(frozen=True, kw_only=True, slots=True)
class Check:
    """One estimator in one design."""

    axis: str
    design: str
    truth: float
    bias: float
    interval: str
    coverage: float
    n_seeds: int
    verdict: str
    """`ok`, `conservative: …`, `not judged: …` or `FAILS: …`."""

    @property
    def fails(self) -> bool:
        """Whether the interval misses its promise by more than chance."""
        return self.verdict.startswith("FAILS")


Map = Callable[[Callable[[Any], Any], Sequence[Any]], Iterable[Any]]


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


def validate(
    *,
    n_seeds: int = 500,
    suite: Suite | None = None,
    n_resamples: int = 200,
    seed: int = 0,
    apply: Map = map,
) -> list[Check]:
    """Measure simulated judges over many seeds and compare every interval with the truth.

    Args:
        n_seeds: Simulated judges per design.
        suite: Where they are measured; the default datasheet suite when None.
        n_resamples: Of the threshold's bootstrap, per judge.
        seed: Another one takes other judges.
        apply: `map`, or that of `worker_map`; the result is the same.
    """
    suite = suite or datasheet_suite()
    checks: list[Check] = []
    for design, icc in (("independent", 0.0), ("clustered", ICC)):
        found = {axis: Coverage(truth=truth) for axis, truth in truths().items()}
        measured = partial(_measured, suite=suite, icc=icc, n_resamples=n_resamples)
        seeds = range(seed * 1_000_000, seed * 1_000_000 + n_seeds)
        chunks = [seeds[start : start + _CHUNK] for start in range(0, n_seeds, _CHUNK)]
        for sheets in apply(measured, chunks):
            for axis, reading in ((axis, reading) for sheet in sheets for axis, reading in sheet.items()):
                found[axis].add(reading)
        checks += [check for axis, seen in found.items() if seen.n for check in _checks(axis, design, seen)]
    return checks


_CHUNK = 20
"""Judges that are measured one after the other: each process prepares the suite's calls once for them."""


def _measured(seeds: Sequence[int], *, suite: Suite, icc: float, n_resamples: int) -> list[dict[str, Estimate]]:
    """Return what simulated judges read on the axes whose truth is known."""
    simulation, known, sheets = Simulation(suite), truths(), []
    for seed in seeds:
        judge = Noisy(sensitivity=CURVE, matched=None, icc=icc, seed=seed, **RATES)
        readings = measure(simulation.calls(judge), seed=seed, n_resamples=n_resamples).estimates
        sheets.append({axis: each for axis, each in readings.items() if axis in known and isinstance(each, Estimate)})
    return sheets


class Simulation:
    """The calls of a suite, with the records of every answer prepared."""

    _ANSWERS = ("1", "2", "tie")

    def __init__(self, suite: Suite) -> None:
        judge = Noisy()
        self._calls = list(plan_calls(suite, judge, replicates=1))
        self._records = calls_frame(
            [
                record(judge, call, answer, failure=None, latency_s=0.0)
                for answer in self._ANSWERS
                for call in self._calls
            ]
        )

    def calls(self, judge: Noisy) -> pd.DataFrame:
        """Return the records of one judge."""
        answers = [self._ANSWERS.index(judge.answer(call)) for call in self._calls]
        rows = np.array(answers) * len(answers) + np.arange(len(answers))
        chosen: pd.DataFrame = self._records.iloc[rows].reset_index(drop=True)
        return chosen


def check_intervals(
    *,
    n_tasks: Sequence[int] = coverage.N_TASKS,
    n_calls: Sequence[int] = coverage.N_CALLS,
    iccs: Sequence[float] = coverage.ICCS,
    draws: int = 1000,
    seed: int = 0,
    apply: Map = map,
) -> list[coverage.Cell]:
    """Score the clustered intervals, old and new, in every design of `n_tasks` tasks with `n_calls` calls each.

    Args:
        n_tasks: Numbers of tasks.
        n_calls: Numbers of calls per task.
        iccs: Intraclass correlations of the tasks.
        draws: Simulations per truth in designs too large to sum; 0 leaves those out.
        seed: Of the draws, which are made here and not where intervals are computed.
        apply: `map`, or that of `worker_map`; the result is the same.
    """
    cells: list[coverage.Cell] = []
    for m, k in product(n_calls, n_tasks):
        if draws or coverage.is_exact(k, m):
            table = coverage.count_table(k, m, draws=draws, seed=seed, iccs=iccs)
            ends = coverage.interval_ends(table, apply=apply)
            cells += [*coverage.cells(table, ends), *coverage.between_rates(table, ends)]
    return cells


def moved_by_replicates(suite: Suite, *, n_replicates: int = 5, n_resamples: int = 200) -> dict[str, bool]:
    """Repeat every answer of a judge, and say of each axis whether its clustered interval moved."""
    once = Simulation(suite).calls(Noisy(sensitivity=CURVE, matched=None, icc=ICC, seed=0, **RATES))
    often = pd.concat([once.assign(replicate=number) for number in range(n_replicates)], ignore_index=True)
    sheets = [measure(calls, seed=0, n_resamples=n_resamples).estimates for calls in (once, often)]
    ends: list[dict[str, tuple[float, float]]] = [
        {
            axis: each.cluster_interval
            for axis, each in sheet.items()
            if isinstance(each, Estimate) and each.cluster_interval
        }
        for sheet in sheets
    ]
    return {
        axis: axis not in ends[1] or not np.allclose(interval, ends[1][axis], rtol=0, atol=1e-9)
        for axis, interval in ends[0].items()
    }


def truths() -> dict[str, float]:
    """Return what each axis would read with infinitely many calls, from what the judge does and the axis counts."""
    step_keys = {delta_key(step): right for step, right in CURVE.items()}
    known: dict[str, float] = {}
    pairs = _simulated_pairs()
    for axis in AXES:
        if axis.hits and axis.by_step and axis.stimuli.conditions[0] in LADDERS:
            known |= {f"{axis.name}/{key}": _truth(axis, _ladder_pairs(right)) for key, right in step_keys.items()}
        elif axis.hits and axis.stimuli.conditions[0] in pairs:
            known[axis.name] = _truth(axis, pairs[axis.stimuli.conditions[0]])
    known |= {f"d_prime/{key}": 2 * float(ndtri(right)) for key, right in step_keys.items()}
    # The judge is the same on both ladders.
    known |= {f"reading_gap/{key}": 0.0 for key in step_keys}
    crossing = float(np.interp(0.75, list(CURVE.values()), list(CURVE)))
    return known | {"threshold_75": crossing, "matched_threshold_75": crossing}


def _simulated_pairs() -> dict[str, Judgments]:
    """Return what the judge does with the two orders of a pair, by condition."""
    stable, positional, one_sided = (RATES[name] for name in ("stable", "positional", "one_sided"))
    ties = 1 - stable - positional - one_sided
    equal = {("u", "u"): stable, ("u", "v"): positional, ("u", "tie"): one_sided, ("tie", "tie"): ties}
    dark, padded = RATES["dark_current"], RATES["filler"]
    return {
        **{condition: {("u", "u"): dark, ("tie", "tie"): 1 - dark} for condition in VACUUM},
        **dict.fromkeys(DELTA_0, equal),
        FILLER: {("v", "v"): padded, ("u", "u"): 1 - padded},
    }


def _ladder_pairs(right: float) -> Judgments:
    ties = (1 - right) * RATES["tie"]
    return {("u", "u"): right, ("tie", "tie"): ties, ("v", "v"): 1 - right - ties}


def _truth(axis: Axis, judgments: Judgments) -> float:
    """Share of hits where u is the better content."""

    def share(event: Event) -> float:
        if axis.unit == "pair":
            return sum(chance * bool(event(*both, "u")) for both, chance in judgments.items())
        return sum(chance * bool(event(choice, "u")) / 2 for both, chance in judgments.items() for choice in both)

    assert axis.hits is not None
    return share(axis.hits) / (share(axis.among) if axis.among else 1.0)


def _holds(low: float | None, high: float | None, truth: float) -> bool:
    return (low is None or low <= truth) and (high is None or truth <= high)


def _checks(axis: str, design: str, seen: Coverage) -> list[Check]:
    rows = {"by task": seen.cluster_hits}
    if design == "independent" and declared(axis).unit != "curve":
        rows = {"plain": seen.plain_hits, **rows}
    total = len(seen.estimates)
    return [
        Check(
            axis=axis,
            design=design,
            truth=seen.truth,
            bias=float(np.mean(seen.estimates)) - seen.truth,
            interval=interval,
            coverage=hits / total,
            n_seeds=total,
            verdict=_verdict(axis, interval, hits / total, total, seen),
        )
        for interval, hits in rows.items()
    ]


def _verdict(axis: str, interval: str, coverage: float, total: int, seen: Coverage) -> str:
    # Coverage from finitely many seeds is itself a share: it must miss the band by more than three standard errors.
    slack = 3 * math.sqrt(0.95 * 0.05 / total)
    measured = declared(axis)
    # Calls of equal pairs hang together by definition: what one order prefers, the other may not.
    if interval == "plain" and measured.unit == "call" and set(measured.stimuli.conditions) <= set(DELTA_0):
        return "not judged: the two orders of a pair are not independent"
    if coverage < LOW - slack:
        return f"FAILS: under {LOW:.0%}"
    if coverage <= HIGH:
        return "ok" if coverage >= LOW else "ok within the error of the seeds"
    # Too wide is said whenever it is seen, with its cause; without one it fails only beyond the error of the seeds.
    verdict = _conservative(axis, interval, seen)
    if verdict.startswith("FAILS") and coverage <= HIGH + slack:
        return f"conservative: over {HIGH:.1%}, within the error of the seeds"
    return verdict


def _conservative(axis: str, interval: str, seen: Coverage) -> str:
    measured = declared(axis)
    share = seen.truth
    if measured.statistic == "value":
        share = CURVE[step_of(axis)] if measured.by_step else 0.5
    if min(share, 1 - share) * seen.n < EDGE:
        return f"conservative: fewer than {EDGE} expected on one side"
    if interval == "by task":
        return "conservative: made to hold where tasks differ far more than here"
    return f"FAILS: over {HIGH:.1%}"


def summary(checks: Sequence[Check]) -> dict[str, int]:
    """Count verdicts by their first word."""
    return dict(Counter(check.verdict.split(":")[0] for check in checks))


def failures(checks: Sequence[Check], cells: Sequence[coverage.Cell], moved: Mapping[str, bool]) -> list[str]:
    """Say what misses its promise; nothing when all is well."""
    low = sorted((cell for cell in cells if cell.fails), key=lambda cell: cell.new.coverage)
    return [
        *(f"{check.axis} ({check.design}, {check.interval}): {check.verdict}" for check in checks if check.fails),
        *(f"{cell}: {cell.new.coverage:.3f} ± {cell.new.error:.3f}" for cell in low),
        *(f"{axis}: its clustered interval moves with replicates of the same answers" for axis in moved if moved[axis]),
    ]
