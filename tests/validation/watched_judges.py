"""Judges that are watched: how often one is called changed that is not, and how soon one that is.

A judge has an answer to each call of the panel, and gives another at random as often as its noise
says. A change moves the chance of one axis by its size: by more preferences between equal answers,
or by fewer right choices on the ladder.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from itertools import product

import numpy as np

from jrh_mlflow.stats.drift import (
    PanelTests,
    WatchedAxis,
    alarm_threshold,
    detectable_change,
    moved_since,
)
from tests.validation.loop import ALPHA, Part, Simulation, check_share

N_REFERENCE = 6
_CALLS = 28
"""Of each of the two kinds."""
_EQUAL = np.arange(_CALLS)
_LADDER = np.arange(_CALLS, 2 * _CALLS)
_FIRST, _SECOND, _TIE = range(3)
"""Answers; on the ladder the first is the better one."""
_GAINS = np.tile([1, 1, 0], (_CALLS, 1))
_LEANS = np.tile([2, 0, 1], (_CALLS, 1))
AXES = (
    WatchedAxis(name="raw_false_preference", items=_EQUAL, levels=_GAINS),
    WatchedAxis(name="slot_lean", items=_EQUAL, levels=_LEANS),
    WatchedAxis(name="ability", items=_LADDER, levels=_LEANS),
    WatchedAxis(name="any_answer", items=np.arange(2 * _CALLS), levels=None),
)
_ON_EQUAL = (0.15, 0.15, 0.7)
_ON_LADDER = (0.6, 0.2, 0.2)
"""Shares of a judge's usual answers."""


@dataclass(frozen=True, kw_only=True)
class Drift:
    """A judge and what becomes of it."""

    noise: float
    n_looks: int
    at: int = 1
    """Look of the change."""
    jump: float = 0.0
    slow: float = 0.0
    """Change per look from there on."""
    on: str = "raw_false_preference"
    shared: float = 0.0
    """Standard deviation of a shift that all calls of a look share."""
    by_item: bool = True
    """Whether a change turns some calls for good, or every call sometimes."""
    within: int = 0
    """Looks after the change within which it must be found."""

    def shift(self, look, rng, n):
        """Return by how much the axis of each judge has moved at a look."""
        moved = np.zeros(n)
        if look >= self.at:
            moved += min(self.jump + self.slow * (look - self.at + 1), 0.6)
        if self.shared and look:
            moved += rng.normal(0, self.shared, n)
        return moved


class WatchedJudges:
    """A batch of judges, asked together."""

    def __init__(self, world, n, rng):
        self.world = world
        self.n = n
        self.rng = rng
        usual = [rng.choice(3, (n, _CALLS), p=shares) for shares in (_ON_EQUAL, _ON_LADDER)]
        self.usual = np.concatenate(usual, axis=1)
        self.turned = rng.random((n, _CALLS))
        # A right choice that turns into a wrong one costs ability 1, a tie that becomes a side adds
        # 1 to the axis.
        on_equal = world.on == "raw_false_preference"
        self.calls = _EQUAL if on_equal else _LADDER
        self.leaves = _TIE if on_equal else _FIRST
        self.becomes = _FIRST if on_equal else _SECOND
        shares = _ON_EQUAL if on_equal else _ON_LADDER
        self.movable = shares[self.leaves] * (1 - world.noise) + world.noise / 3

    def ask(self, look):
        """Answer every call; look 0 is the start."""
        shape = (self.n, 2 * _CALLS)
        noisy = self.rng.random(shape) < self.world.noise
        answers = np.where(noisy, self.rng.integers(0, 3, shape), self.usual)
        chance = (self.world.shift(look, self.rng, self.n) / self.movable)[:, None]
        turned = self.turned
        if self.world.shared or not self.world.by_item:
            turned = self.rng.random((self.n, _CALLS))
        part = answers[:, self.calls]
        forth = (part == self.leaves) & (turned < chance)
        back = (part == self.becomes) & (turned < -chance)
        part[forth] = self.becomes
        part[back] = self.leaves
        answers[:, self.calls] = part
        return answers


def first_alarms(world, n, rng):
    """Watch `n` judges and return the look of the first alarm of each; 0 where there is none."""
    judges = WatchedJudges(world, n, rng)
    tests = PanelTests(AXES, 3, n_items=2 * _CALLS, n_judges=n, n_reference=N_REFERENCE)
    for _ in range(N_REFERENCE):
        tests.refer(judges.ask(0))
    alarms = np.zeros(n, dtype=np.intp)
    threshold = alarm_threshold(len(AXES))
    for look in range(1, world.n_looks + 1):
        wealth = tests.look(judges.ask(look), rng.random((len(AXES), n))).max(axis=0)
        alarms[(alarms == 0) & (wealth >= threshold)] = look
    return alarms


def _run_alarms(world, batch):
    fifth = world.n_looks // 5
    for look in first_alarms(world, len(batch.runs), batch.rng(world)).tolist():
        found = world.at <= look < world.at + world.within
        yield {
            "alarm": look > 0,
            f"in the first {fifth}": 0 < look <= fifth,
            "found": found,
            "looks": look - world.at + 1 if found else None,
            "alarms before": 0 < look < world.at,
        }


def _unchanged_checks(world, runs):
    design = f"noise {world.noise}, {world.n_looks} looks"
    beside = (f"in the first {world.n_looks // 5}",)
    facts = {"at_most": ALPHA, "beside": beside}
    yield check_share("alarms without a change", design, runs, "alarm", **facts)


def _shared_checks(world, runs):
    shared = f"{world.shared} of it shared within a look"
    design = f"noise {world.noise}, {shared}, {world.n_looks} looks"
    beside = (f"in the first {world.n_looks // 5}",)
    yield check_share("alarms by noise that a look shares", design, runs, "alarm", beside=beside)


def _changed_checks(world, runs):
    change = f"{world.slow} a look" if world.slow else f"{world.jump}"
    if not world.by_item:
        change += " spread over all"
    design = f"{world.on} by {change} from look {world.at}, noise {world.noise}"
    runs["median look"] = runs["looks"].astype(float).median()
    name = f"change found within {world.within} looks"
    beside = ("median look", "alarms before")
    yield check_share(name, design, runs, "found", at_least=0.8, beside=beside)


def _detectable(noise, n_looks):
    """Return a judge that changes by what is said to be seen after so many looks."""
    variance = 0.0
    for code, share in enumerate(_ON_EQUAL):
        side = (1 - noise) * (code != _TIE) + noise * 2 / 3
        variance += share * side * (1 - side)
    threshold = alarm_threshold(len(AXES))
    facts = {"n_reference": N_REFERENCE, "threshold": threshold}
    jump = round(detectable_change(_CALLS, variance, n_looks, **facts) or 1.0, 2)
    return Drift(noise=noise, n_looks=n_looks, jump=jump, within=n_looks)


_NOISES = (0.0, 0.1, 0.3)
_JUMPS = tuple(
    Drift(noise=noise, n_looks=at + 19, at=at, jump=0.2, within=20)
    for at, noise in product((1, 10, 50), _NOISES)
)
_SLOW = tuple(Drift(noise=noise, n_looks=40, slow=0.02, within=40) for noise in _NOISES)
UNCHANGED = tuple(Drift(noise=noise, n_looks=500) for noise in (0.0, 0.05, 0.1, 0.2, 0.3))
SHARED = (Drift(noise=0.1, n_looks=500, shared=0.02), Drift(noise=0.1, n_looks=500, shared=0.05))
CHANGED = (
    *_JUMPS,
    *(replace(world, on="ability") for world in _JUMPS),
    *(replace(world, by_item=False) for world in _JUMPS if world.noise and world.at != 10),
    *(_detectable(noise, n_looks) for n_looks in (3, 10, 40) for noise in _NOISES),
    *_SLOW,
    *(replace(world, on="ability") for world in _SLOW),
)


# --- with traces: a judge, an application, or both


@dataclass(frozen=True, kw_only=True)
class Moved:
    """What has moved by how much, from the sixth look on."""

    judge: float = 0.0
    application: float = 0.0
    noise: float = 0.1
    n_looks: int = 40
    n_new: int = 30
    """New sessions at each look."""


_OLD = 50
_START = 6
_TRACES = (
    WatchedAxis(name="traces", items=np.arange(_OLD), levels=np.tile([0, 1], (_OLD, 1))),
    WatchedAxis(name="any_answer", items=np.arange(_OLD), levels=None),
)


def _run_traces(world, batch):
    """Whether the judge, and whether the application, is said to have moved."""
    n = len(batch.runs)
    rng = batch.rng(world)
    passes = rng.beta(2, 1, (n, _OLD))
    tests = PanelTests(_TRACES, 2, n_items=_OLD, n_judges=n, n_reference=N_REFERENCE)
    old = rng.random((n, _OLD)) < passes
    turned_old = rng.random((n, _OLD))

    def ask(good, turned, look):
        moved = good & ~(turned < (world.judge if look >= _START else 0.0))
        noisy = rng.random(good.shape) < world.noise
        return np.where(noisy, rng.random(good.shape) < 0.5, moved).astype(np.intp)

    for _ in range(N_REFERENCE):
        tests.refer(ask(old, turned_old, 0))
    # With the two axes of the panel of traces the error is shared by six.
    threshold = alarm_threshold(len(AXES) + len(_TRACES))
    judge = np.zeros(n, dtype=bool)
    old_scores = []
    new_scores = []
    for look in range(1, world.n_looks + 1):
        today = ask(old, turned_old, look)
        judge |= tests.look(today, rng.random((2, n))).max(axis=0) >= threshold
        shape = (n, world.n_new)
        kept = rng.random(shape) >= (world.application if look >= _START else 0.0)
        good = (rng.random(shape) < rng.beta(2, 1, shape)) & kept
        old_scores.append(today.astype(float))
        new_scores.append(ask(good, rng.random(shape), look).astype(float))
    for row in range(n):
        old_looks = [look[row] for look in old_scores]
        new_looks = [look[row] for look in new_scores]
        application = moved_since(old_looks, new_looks) is not None
        both = bool(judge[row] and application)
        yield {"judge": bool(judge[row]), "application": application, "both": both}


def _traces_checks(world, runs):
    moved = f"judge by {world.judge}, application by {world.application}"
    design = f"{moved}, noise {world.noise}"
    beside = ("judge", "application")
    for what in ("application", "judge"):
        if not getattr(world, what):
            name = "of what did not move, said to have moved"
            facts = {"at_most": ALPHA, "beside": beside}
            yield check_share(name, f"{what}; {design}", runs, what, **facts)
    if world.judge and world.application:
        yield check_share("both moved and both found", design, runs, "both", beside=beside)


MOVED = (
    Moved(),
    Moved(noise=0.3),
    Moved(judge=0.3),
    Moved(application=0.5),
    Moved(judge=0.3, application=0.5),
)
_alarms = partial(Simulation, run=_run_alarms, batch=100)
SIMULATIONS = (
    _alarms(worlds=UNCHANGED, quick=(Drift(noise=0.3, n_looks=60),), checks=_unchanged_checks),
    _alarms(worlds=SHARED, checks=_shared_checks),
    _alarms(worlds=CHANGED, quick=(CHANGED[2], CHANGED[-1]), checks=_changed_checks),
    Simulation(
        worlds=MOVED,
        quick=(Moved(judge=0.3, n_looks=10),),
        run=_run_traces,
        checks=_traces_checks,
        batch=50,
        part=2,
    ),
)
PART = Part(word="watch", simulations=SIMULATIONS, runs_per_seed=(2, 1))
