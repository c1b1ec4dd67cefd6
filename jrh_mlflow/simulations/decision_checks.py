"""One line of `jrh validate --only decisions`: how often simulated decisions come out so, and what was promised."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from jrh_mlflow.simulations.validate import Map

N_ERRORS = 3
"""Standard errors of the simulation by which a promise must be missed."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DecisionCheck:
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
    """`ok`, `ok within the error of the draws`, `shown` or `FAILS: …`."""
    beside: Mapping[str, float] = field(default_factory=dict)
    """Further numbers on the same draws, such as those of another method."""

    @property
    def fails(self) -> bool:
        """Whether the promise is missed by more than chance."""
        return self.verdict.startswith("FAILS")

    def __str__(self) -> str:
        """Say it in one line."""
        return f"{self.name}, {self.design}: {self.measured:.3f}, promised {self.promise}, {self.n:,} runs"


@dataclass(frozen=True, kw_only=True, slots=True)
class SimulationSize:
    """How much is simulated."""

    n: int = 10_000
    """Runs per design, for what is quick to draw; slower simulations take a part of it."""
    seed: int = 0
    quick: bool = False
    """A few designs only: seconds."""


Simulation = Callable[[SimulationSize, Map], Sequence[DecisionCheck]]
"""Draws its designs, over processes where the map is that of `worker_map`; the result is the same."""


def share_check(
    name: str,
    design: str,
    hits: int,
    n: int,
    *,
    at_most: float | None = None,
    at_least: float | None = None,
    beside: Mapping[str, float] | None = None,
) -> DecisionCheck:
    """Judge a share of runs against its promise, by the standard error that the promised share itself has.

    Example:
        >>> share_check("told apart falsely", "ten tasks", 58, 1000, at_most=0.05).verdict
        'ok within the error of the draws'
        >>> share_check("told apart falsely", "ten tasks", 90, 1000, at_most=0.05).verdict
        'FAILS: over 0.05'
    """
    limit = at_most if at_most is not None else at_least
    share = hits / n
    spread = share if limit is None else limit
    error = math.sqrt(spread * (1 - spread) / n)
    return number_check(name, design, share, error, n, at_most=at_most, at_least=at_least, beside=beside)


def number_check(
    name: str,
    design: str,
    measured: float,
    error: float,
    n: int,
    *,
    at_most: float | None = None,
    at_least: float | None = None,
    beside: Mapping[str, float] | None = None,
) -> DecisionCheck:
    """Judge a number with a known standard error against its promise; without one it is shown only."""
    if at_most is not None and at_least is not None:
        raise ValueError(f"One promise per check, but got {at_most=}, {at_least=}.")
    promise, verdict = "", "shown"
    if at_most is not None:
        promise, verdict = f"at most {at_most:g}", _verdict(measured - at_most, error, f"over {at_most:g}")
    if at_least is not None:
        promise, verdict = f"at least {at_least:g}", _verdict(at_least - measured, error, f"under {at_least:g}")
    return DecisionCheck(
        name=name,
        design=design,
        measured=measured,
        promise=promise,
        n=n,
        error=error,
        verdict=verdict,
        beside=beside or {},
    )


def _verdict(excess: float, error: float, missed: str) -> str:
    # Equal on paper is equal, whatever the last bit says.
    if excess <= 1e-9:
        return "ok"
    return "ok within the error of the draws" if excess <= N_ERRORS * error else f"FAILS: {missed}"
