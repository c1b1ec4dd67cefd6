"""Judges that are watched: how often one that did not change is called changed, and how soon one that did is.

A judge has an answer to each call of the panel, and gives another at random as often as its noise says. A change moves
the chance of one axis by its size: by more preferences between equal answers, or by fewer right choices on the ladder.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from jrh_mlflow.stats import Array, Codes, Mask
from jrh_mlflow.stats.drift import PanelTests, WatchedAxis, alarm_threshold, detectable_change, moved_since
from tests.validation import loop

N_REFERENCE = 6
_CALLS = 28
"""Of each of the two kinds."""
_EQUAL, _LADDER = np.arange(_CALLS), np.arange(_CALLS, 2 * _CALLS)
_SIDE_1, _SIDE_2, _TIE = range(3)
_BETTER, _WORSE = _SIDE_1, _SIDE_2
AXES = (
    WatchedAxis(name="raw_false_preference", items=_EQUAL, levels=np.tile([1, 1, 0], (_CALLS, 1))),
    WatchedAxis(name="slot_lean", items=_EQUAL, levels=np.tile([2, 0, 1], (_CALLS, 1))),
    WatchedAxis(name="ability", items=_LADDER, levels=np.tile([2, 0, 1], (_CALLS, 1))),
    WatchedAxis(name="any_answer", items=np.arange(2 * _CALLS), levels=None),
)
_USUAL = ((0.15, 0.15, 0.7), (0.6, 0.2, 0.2))
"""Shares of a judge's own answers to equal pairs and on the ladder."""


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

    def shift(self, look: int, rng: loop.Rng, n: int) -> Array:
        """Return by how much the axis of each judge has moved at a look."""
        moved = 0.0 if look < self.at else min(self.jump + self.slow * (look - self.at + 1), 0.6)
        return np.asarray(moved + (rng.normal(0, self.shared, n) if self.shared and look else 0.0))


class _Judges:
    """A batch of judges, asked together."""

    def __init__(self, world: Drift, n: int, rng: loop.Rng) -> None:
        self.world, self.n, self.rng = world, n, rng
        self.own = np.concatenate([rng.choice(3, (n, _CALLS), p=shares) for shares in _USUAL], axis=1)
        self.turned = rng.random((n, _CALLS))
        on_equal = world.on == "raw_false_preference"
        # Of a right choice that turns into a wrong one ability loses 1, of a tie that becomes a side the axis gains 1.
        self.place, self.leaves, self.becomes = (_EQUAL, _TIE, _SIDE_1) if on_equal else (_LADDER, _BETTER, _WORSE)
        share = _USUAL[0][_TIE] if on_equal else _USUAL[1][_BETTER]
        self.movable = share * (1 - world.noise) + world.noise / 3

    def ask(self, look: int) -> Codes:
        """Answer every call; look 0 is the start."""
        shape = (self.n, 2 * _CALLS)
        drawn = self.rng.random(shape) < self.world.noise
        answers = np.where(drawn, self.rng.integers(0, 3, shape), self.own)
        chance = np.broadcast_to(self.world.shift(look, self.rng, self.n) / self.movable, self.n)[:, None]
        turned = self.turned if self.world.by_item and not self.world.shared else self.rng.random((self.n, _CALLS))
        part = answers[:, self.place]
        forth = (part == self.leaves) & (turned < chance)
        back = (part == self.becomes) & (turned < -chance)
        answers[:, self.place] = np.where(forth, self.becomes, np.where(back, self.leaves, part))
        return np.asarray(answers)


def first_alarms(world: Drift, n: int, rng: loop.Rng) -> Codes:
    """Watch `n` judges and return the look of the first alarm of each; 0 where there is none."""
    judges = _Judges(world, n, rng)
    tests = PanelTests(AXES, 3, n_items=2 * _CALLS, n_judges=n, n_reference=N_REFERENCE)
    for _ in range(N_REFERENCE):
        tests.refer(judges.ask(0))
    alarms, threshold = np.zeros(n, dtype=np.intp), alarm_threshold(len(AXES))
    for look in range(1, world.n_looks + 1):
        wealth = tests.look(judges.ask(look), rng.random((len(AXES), n)))
        alarms = np.where((alarms == 0) & (wealth.max(axis=0) >= threshold), look, alarms)
    return alarms


def _watched(world: Drift, batch: loop.Batch) -> list[int]:
    return [int(look) for look in first_alarms(world, len(batch.runs), batch.rng(world))]


def _alarm_checks(world: Drift, alarms: Sequence[int]) -> Iterator[loop.DecisionCheck]:
    looks, n = np.array(alarms), len(alarms)
    if world.jump or world.slow:
        found = (looks >= world.at) & (looks < world.at + world.within)
        how = f"{world.slow} a look" if world.slow else f"{world.jump}{'' if world.by_item else ' spread over all'}"
        design = f"{world.on} by {how} from look {world.at}, noise {world.noise}"
        delay = looks[found] - world.at + 1
        beside = {"median look": float(np.median(delay)) if len(delay) else float("nan")}
        early = {"alarms before": float(((looks > 0) & (looks < world.at)).mean())}
        name = f"change found within {world.within} looks"
        yield loop.decision_check(name, design, float(found.mean()), n, at_least=0.8, beside=beside | early)
        return
    share, halfway = float((looks > 0).mean()), float(((looks > 0) & (looks <= world.n_looks // 5)).mean())
    beside = {f"in the first {world.n_looks // 5}": halfway}
    if world.shared:
        design = f"noise {world.noise}, {world.shared} of it shared within a look, {world.n_looks} looks"
        yield loop.decision_check("alarms by noise that a look shares", design, share, n, beside=beside)
        return
    design = f"noise {world.noise}, {world.n_looks} looks"
    yield loop.decision_check("alarms without a change", design, share, n, at_most=loop.ALPHA, beside=beside)


def _jumps(noises: Sequence[float], looks: Sequence[int], **more: object) -> list[Drift]:
    return [
        Drift(noise=noise, n_looks=at + 19, at=at, jump=0.2, within=20, **more)  # type: ignore[arg-type]
        for at in looks
        for noise in noises
    ]


def _detectable(noise: float, n_looks: int) -> Drift:
    """Return a judge that changes by what is said to be seen after so many looks."""
    sides = [(share, (1 - noise) * (code != _TIE) + noise * 2 / 3) for code, share in enumerate(_USUAL[0])]
    variance = sum(share * side * (1 - side) for share, side in sides)
    threshold = alarm_threshold(len(AXES))
    seen = detectable_change(_CALLS, variance, n_looks, n_reference=N_REFERENCE, threshold=threshold)
    return Drift(noise=noise, n_looks=n_looks, jump=round(seen or 1.0, 2), within=n_looks)


_NOISES = (0.0, 0.1, 0.3)
UNCHANGED = tuple(Drift(noise=noise, n_looks=500) for noise in (0.0, 0.05, 0.1, 0.2, 0.3))
SHARED = (Drift(noise=0.1, n_looks=500, shared=0.02), Drift(noise=0.1, n_looks=500, shared=0.05))
CHANGED = (
    *_jumps(_NOISES, (1, 10, 50)),
    *_jumps(_NOISES, (1, 10, 50), on="ability"),
    *_jumps((0.1, 0.3), (1, 50), by_item=False),
    *(_detectable(noise, n_looks) for n_looks in (3, 10, 40) for noise in _NOISES),
    *(Drift(noise=noise, n_looks=40, slow=0.02, within=40) for noise in _NOISES),
    *(Drift(noise=noise, n_looks=40, slow=0.02, within=40, on="ability") for noise in _NOISES),
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


_OLD, _START = 50, 6
_TRACES = (
    WatchedAxis(name="traces", items=np.arange(_OLD), levels=np.tile([0, 1], (_OLD, 1))),
    WatchedAxis(name="any_answer", items=np.arange(_OLD), levels=None),
)


def _told(world: Moved, batch: loop.Batch) -> list[tuple[bool, bool]]:
    """Whether the judge, and whether the application, is said to have moved."""
    n, rng = len(batch.runs), batch.rng(world)
    passes = rng.beta(2, 1, (n, _OLD))
    tests = PanelTests(_TRACES, 2, n_items=_OLD, n_judges=n, n_reference=N_REFERENCE)
    old, turned_old = rng.random((n, _OLD)) < passes, rng.random((n, _OLD))

    def asked(good: Mask, turned: Array, look: int) -> Codes:
        moved = good & ~(turned < (world.judge if look >= _START else 0.0))
        return np.where(rng.random(good.shape) < world.noise, rng.random(good.shape) < 0.5, moved).astype(np.intp)

    for _ in range(N_REFERENCE):
        tests.refer(asked(old, turned_old, 0))
    judge, old_scores, new_scores = np.zeros(n, dtype=bool), [], []
    for look in range(1, world.n_looks + 1):
        today = asked(old, turned_old, look)
        # With the two axes of the panel of traces the error is shared by six.
        judge |= tests.look(today, rng.random((2, n))).max(axis=0) >= alarm_threshold(len(AXES) + len(_TRACES))
        shape = (n, world.n_new)
        kept = rng.random(shape) >= (world.application if look >= _START else 0.0)
        good = (rng.random(shape) < rng.beta(2, 1, shape)) & kept
        old_scores.append(today.astype(float))
        new_scores.append(asked(good, rng.random(shape), look).astype(float))
    application = [
        moved_since([look[row] for look in old_scores], [look[row] for look in new_scores]) is not None
        for row in range(n)
    ]
    return list(zip(judge.tolist(), application, strict=True))


def _told_checks(world: Moved, runs: Sequence[tuple[bool, bool]]) -> Iterator[loop.DecisionCheck]:
    judge, application = (float(np.mean(side)) for side in zip(*runs, strict=True))
    design = f"judge by {world.judge}, application by {world.application}, noise {world.noise}"
    n = len(runs)
    name = "of what did not move, said to have moved"
    both = {"judge": judge, "application": application}
    if not world.application:
        yield loop.decision_check(name, f"application; {design}", application, n, at_most=loop.ALPHA, beside=both)
    if not world.judge:
        yield loop.decision_check(name, f"judge; {design}", judge, n, at_most=loop.ALPHA, beside=both)
    if world.judge and world.application:
        each = float(np.mean([all(run) for run in runs]))
        yield loop.decision_check("both moved and both found", design, each, n, beside=both)


MOVED = (Moved(), Moved(noise=0.3), Moved(judge=0.3), Moved(application=0.5), Moved(judge=0.3, application=0.5))

_alarms = partial(loop.Simulation[Drift, int], ask=_watched, checks=_alarm_checks, batch=100)
SIMULATIONS = (
    _alarms(worlds=loop.listed(UNCHANGED, quick=(Drift(noise=0.3, n_looks=60),))),
    _alarms(worlds=loop.listed(SHARED, quick=())),
    _alarms(worlds=loop.listed(CHANGED, quick=(CHANGED[2], CHANGED[-1]))),
    loop.Simulation(
        worlds=loop.listed(MOVED, quick=(Moved(judge=0.3, n_looks=10),)),
        ask=_told,
        checks=_told_checks,
        batch=50,
        part=2,
    ),
)
PART = loop.Part(word="watch", key="watch", simulations=SIMULATIONS, text=loop.decisions_text, runs_per_seed=(2, 1))
