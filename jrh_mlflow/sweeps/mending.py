"""Whether a change mends a judge: the searched half says what is worth deciding, the held-out half decides.

Per axis and arm the difference to the unchanged judge is paired by task, and decided by step-down max-T over all axes
and arms (`comparing.comparison`). A lean has two bad ends: |arm| < |base| holds where base − arm and base + arm have
one sign, so both are tests of the family and both must be told from 0. An arm is recommended where a problem is better,
nothing is worse, and the loss of ability over all ladder steps together is under 0.10 (one-sided 95 %).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import combinations
from typing import Any, Literal

import numpy as np
import pandas as pd

from jrh_mlflow.comparing.comparison import ALPHA, MARGIN, Difference, Paired, decided, paired_shares, whatever_was_lost
from jrh_mlflow.comparing.recommendation import tasks_for
from jrh_mlflow.measures.axes import AXES, lower_is_better
from jrh_mlflow.measures.records import call_table, choices, has_steps, is_pointwise, pair_table
from jrh_mlflow.measures.unit_scores import COLUMNS, AxisUnits, ScoreTable, every_axis_units, score_rows, score_table
from jrh_mlflow.measures.verdict import DROP, NOISE_EXCESS
from jrh_mlflow.schema.items import BASELINE, USABLE, VACUUM
from jrh_mlflow.scoring.ledger import MAX_EXCLUDED, Resampling
from jrh_mlflow.stats import Interval
from jrh_mlflow.stats.paired import value_interval
from jrh_mlflow.sweeps.interventions import RepairArm

ABILITY, AGREEMENT = "ability/all_steps", "agreement/accuracy"
LEANS = ("slot_lean", "slot_lean/vacuum", "positional_excess", "padding_lean")
"""Axes with two bad ends; their pairs have values from -1 to 1."""
_VALUES = (*LEANS, ABILITY, "matched_ability")
"""Axes whose units count by halves: they are paired by value, others as the shares that they are."""
_SHARES = ("dark_current", "raw_false_preference", "miss_by_tie/delta_1", "matched_ability", "natural/accuracy")
ABLE = (ABILITY, "natural/accuracy", BASELINE, "pointwise/separation/delta_5", AGREEMENT)
"""What may not be lost: the first of these that a suite has."""
MOST_LOST = 0.10
"""Of ability: more must be excluded."""
MOST_DECIDED, MOST_PAIRS, MOST_ASKS = 2, 4, 3
"""Arms that are decided, pairs of changes that are tried, and asks of each presentation on the held-out half."""
_PROMISING, _HARMFUL = 1.5, 3.0
"""Standard errors by which an arm must mend a problem on the searched half, and by which it may harm nothing there."""
_NEARLY, _ON_EACH = 0.85, 0.5
"""An arm that mends this part of what the best one mends, and this part on each problem, is as good: price decides."""
ChangeState = Literal["better", "worse", "no difference shown"]


@dataclass(frozen=True, kw_only=True)
class AskedArm:
    """An arm with its answers on one half of the tasks."""

    arm: RepairArm
    records: pd.DataFrame
    """As a user of the arm gets them: votes are counted, orders joined."""
    usd_per_1k: float | None = None
    """Dollars of 1,000 judgments; None where a price is unknown."""
    calls_per_judgment: int = 1
    run_id: str | None = None
    _scores: list[pd.DataFrame] = field(default_factory=list, repr=False, compare=False)

    def scores(self, **reading: Any) -> pd.DataFrame:
        """Return its scores by axis and unit: see `arm_scores`. They are made once."""
        if not self._scores:
            self._scores.append(arm_scores(self.records, **reading))
        return self._scores[0]

    @property
    def cost(self) -> float:
        """What arms are compared by: dollars, or calls where nobody knows the price."""
        return float(self.calls_per_judgment) if self.usd_per_1k is None else self.usd_per_1k


@dataclass(frozen=True, kw_only=True)
class AxisChange:
    """One axis of an arm beside the unchanged judge."""

    arm: str
    axis: str
    before: float
    after: float
    gain: float
    """Positive is better; of a lean the change of its size."""
    low: float | None
    """95 % by task."""
    high: float | None
    state: ChangeState
    p_adjusted: float
    n: int
    n_clusters: int
    error: float
    """Standard error over tasks."""
    bound: float | None
    """One-sided 95 %: the loss is under it, whatever lost calls would have been."""
    n_tests: int = 1
    """That share the error."""

    @property
    def tasks_to_tell(self) -> int | None:
        """About how many tasks would show a change of this size."""
        return tasks_for(abs(self.gain) or MARGIN, self.low, self.high, self.n_clusters, n_tests=self.n_tests)

    @property
    def largest_loss(self) -> float | None:
        """The largest loss that the interval allows; None where there is no interval."""
        return None if self.low is None else max(0.0, -self.low)


def problem_axes(findings: Iterable[str]) -> list[str]:
    """Return the axes on which these findings are decided: an effect of a test is the score of the test itself."""
    axes = [axis.removeprefix(NOISE_EXCESS).removeprefix(DROP) for axis in findings]
    return list(dict.fromkeys(ABILITY if axis == "ability" else axis for axis in axes))


# --- scores of units


def arm_scores(
    frame: pd.DataFrame, *, labels: Sequence[str] | None = None, people: Mapping[str, str] | None = None
) -> pd.DataFrame:
    """Return the scores of one arm by axis and unit, as `score_table` takes them; values of leans stand at (1 + x) / 2.

    Args:
        frame: Normalised records.
        labels: What a pointwise judge may answer.
        people: Item to the label that people gave it, as a judge of the suite would.
    """
    tasks = np.unique(frame["task"].to_numpy(object))
    every = every_axis_units(frame, labels=labels, any_mean=True)
    units = list(every.items())
    if not is_pointwise(frame) or has_steps(frame):
        units = [(key, own) for key, own in every.items() if key in _SHARES or key.startswith("pointwise/")]
        units += [(ABILITY, own) for key, own in every.items() if key.startswith("ability/delta_")]
        units += [] if has_steps(frame) else _leans(frame)
    scores: pd.DataFrame = score_rows(units, tasks)
    return pd.concat([scores, _agreement(frame, people)], ignore_index=True) if people else scores


def _leans(frame: pd.DataFrame) -> Iterator[tuple[str, AxisUnits]]:
    calls, items = call_table(frame), frame["suite_item"].to_numpy(object)
    shown = np.where(frame["condition"].isin(VACUUM), items, items + "#" + frame["order"].to_numpy(object))
    names = (frame["suite_item"] + "#" + frame["order"] + "#" + frame["replicate"].astype(str)).to_numpy(object)
    for axis in AXES:
        if axis.name not in LEANS or axis.signed is None:
            continue
        for key, own in axis.where(calls.condition, calls.delta).items():
            if not own.any():
                continue
            table = pair_table(calls.where(own))
            units, row = table.units(key), table.calls.row[table.rows[:, 0]]
            least, most = axis.extremes(table)
            assert units.presentations is not None
            yield (
                key,
                AxisUnits(
                    task=units.clusters,
                    presentation=units.presentations,
                    score=np.where(units.usable, (1 + axis.signed(*table.seen)) / 2, np.nan),
                    items=frozenset(),
                    n_tasks=calls.n_tasks,
                    names=names[row],
                    shown=shown[row],
                    extremes=((1 + least) / 2, (1 + most) / 2),
                ),
            )


def _agreement(frame: pd.DataFrame, people: Mapping[str, str]) -> pd.DataFrame:
    own = frame[frame["suite_item"].isin(people.keys())]
    usable, shown = own["outcome"].isin(USABLE).to_numpy(), own["suite_item"] + "#" + own["order"]
    same = (choices(own) == own["suite_item"].map(people).to_numpy(object)).astype(float)
    score = np.where(usable, same, np.nan)
    columns = (AGREEMENT, shown + "#" + own["replicate"].astype(str), shown, own["task"], score)
    extremes = np.where(usable, same, 0.0), np.where(usable, same, 1.0)
    rows: pd.DataFrame = pd.DataFrame(dict(zip(COLUMNS, (*columns, *extremes), strict=True)))
    return rows


# --- what a change does


@dataclass(frozen=True, kw_only=True)
class Mending:
    """Arms beside the unchanged judge on the same half of the tasks."""

    unchanged: AskedArm
    arms: Sequence[AskedArm]
    problems: Sequence[str]
    """Axes that are to be mended."""
    labels: Sequence[str] | None = None
    people: Mapping[str, str] | None = None
    seed: int = 0
    decides: bool = True
    """False on the searched half, which only chooses."""

    @cached_property
    def table(self) -> ScoreTable:
        """Scores of all arms; of leans the mirror image of each arm beside it."""
        asked_arms = (self.unchanged, *self.arms)
        scores = {asked.arm.name: asked.scores(labels=self.labels, people=self.people) for asked in asked_arms}
        tasks = np.unique(self.unchanged.records["task"].to_numpy(object))
        table = score_table(scores, tasks)
        assert table.extremes is not None
        mirrored = {_mirror(name): 1 - values for name, values in table.scores.items()}
        ends = {_mirror(name): (1 - most, 1 - least) for name, (least, most) in table.extremes.items()}
        return replace(table, scores={**table.scores, **mirrored}, extremes={**table.extremes, **ends})

    @cached_property
    def axes(self) -> list[str]:
        """What is decided: the problems first."""
        every = list(dict.fromkeys(self.table.axis))
        return sorted(every, key=lambda axis: (axis not in self.problems, every.index(axis)))

    @property
    def able(self) -> str | None:
        """The axis of which no more than a little may be lost."""
        return next((axis for axis in ABLE if axis in self.axes), None)

    def changes(self) -> list[AxisChange]:
        """Decide every axis of every arm, whatever lost calls would have been."""
        once = Resampling(seed=self.seed, n_resamples=1)
        resampling = Resampling(seed=self.seed, n_resamples=2000) if self.decides else once
        plan = [(axis, asked.arm.name) for asked in self.arms for axis in self.axes if self._is_known(axis, asked)]
        contrasts = [(axis, *judges) for axis, arm in plan for judges in self._judges(axis, arm)]
        by_axis = {axis: self.table.of([axis]) for axis in self.axes}
        paired = [_paired(by_axis[axis], axis, a, b, resampling) for axis, a, b in contrasts]
        rows = [pair for pair in paired if pair is not None]
        lost = self.decides and self.table.has_lost(*(asked.arm.name for asked in (self.unchanged, *self.arms)))
        sides = [
            [_completed(by_axis[pair.difference.axis], pair, first=first, once=once) for pair in rows]
            for first in ((True, False) if lost else ())
        ]
        # While searching nothing is decided.
        differences = (
            whatever_was_lost(self._decided(rows), sides, self._decided)
            if self.decides
            else [pair.difference for pair in rows]
        )
        kept = {
            (row.axis, row.a, row.b): (row, pair, [side[at].difference.equivalence for side in sides])
            for at, (row, pair) in enumerate(zip(differences, rows, strict=True))
        }
        found = [(axis, arm, [kept.get((axis, *judges)) for judges in self._judges(axis, arm)]) for axis, arm in plan]
        return [self._change(axis, arm, own) for axis, arm, rows in found if (own := [row for row in rows if row])]

    def _decided(self, rows: Sequence[Paired]) -> list[Difference]:
        return decided(
            rows, n_clusters=self.table.n_codes, primary=self.axes, alpha=ALPHA, margin=MARGIN, seed=self.seed
        )

    def _is_known(self, axis: str, asked: AskedArm) -> bool:
        return not self.withheld(asked, axis) and not self.withheld(self.unchanged, axis)

    def withheld(self, asked: AskedArm, axis: str) -> bool:
        """Whether too many calls of an axis gave no usable answer for it to have a number."""
        scores = self.table.of([axis]).scores[asked.arm.name]
        return bool(np.isnan(scores).mean() > MAX_EXCLUDED)

    def _judges(self, axis: str, arm: str) -> list[tuple[str, str]]:
        """Return whose scores are subtracted, so that more is better; of a lean the two tests of its size."""
        base = self.unchanged.arm.name
        if axis in LEANS:
            return [(base, arm), (base, _mirror(arm))]
        return [(base, arm) if lower_is_better(axis) else (arm, base)]

    def _mean(self, axis: str, name: str) -> float:
        mean = float(np.nanmean(self.table.of([axis]).scores[name]))
        return 2 * mean - 1 if axis in LEANS else mean

    def _change(
        self, axis: str, arm: str, rows: Sequence[tuple[Difference, Paired, list[Interval | None]]]
    ) -> AxisChange:
        own = [_Side.of(row, pair, completed, times=2 if axis in LEANS else 1) for row, pair, completed in rows]
        if axis in LEANS:
            # Turned so that the two leans together point to the first slot: then |base| − |arm| is the smaller one.
            own = [side.turned() if own[1].gain < 0 else side for side in own]
        first = min(own, key=lambda side: side.gain)
        told, signs = all(side.told for side in own), {side.gain > 0 for side in own}
        state: ChangeState = "no difference shown"
        if told:
            state = "better" if signs == {True} else "worse"
        row = rows[0][0]
        low, high, bound = (_least(getattr(side, end) for side in own) for end in ("low", "high", "floor"))
        # Values of leans differ by up to 2, their sizes by no more than 1.
        low, high = (None if end is None else min(1.0, max(-1.0, end)) for end in (low, high))
        return AxisChange(
            arm=arm,
            axis=axis,
            before=self._mean(axis, self.unchanged.arm.name),
            after=self._mean(axis, arm),
            gain=first.gain,
            low=low,
            high=high,
            state=state,
            p_adjusted=max(side.p for side in own),
            n=row.n,
            n_clusters=row.n_clusters,
            error=first.error,
            bound=None if bound is None else max(0.0, -bound),
            n_tests=max(1, len(self.axes) * len(self.arms)),
        )


@dataclass(frozen=True, kw_only=True)
class _Side:
    """One test of a change, on the scale of its axis."""

    gain: float
    low: float | None
    high: float | None
    floor: float | None
    """One-sided 95 % end below."""
    ceiling: float | None
    p: float
    told: bool
    error: float

    @classmethod
    def of(cls, row: Difference, pair: Paired, completed: Sequence[Interval | None], *, times: int) -> _Side:
        ends = [end for end in (row.equivalence, *completed) if end is not None]

        def scaled(value: float | None) -> float | None:
            return None if value is None else times * value

        return cls(
            gain=times * row.value,
            low=scaled(row.low),
            high=scaled(row.high),
            floor=scaled(min((low for low, _ in ends), default=None)),
            ceiling=scaled(max((high for _, high in ends), default=None)),
            p=row.p_adjusted,
            # Of values no share limits what sign flips claim: their interval must agree.
            told=row.told_apart and not (row.low is not None and row.high is not None and row.low <= 0 <= row.high),
            error=times * pair.standard_error,
        )

    def turned(self) -> _Side:
        """Return the same with the other sign."""
        low, high, floor, ceiling = (
            None if end is None else -end for end in (self.high, self.low, self.ceiling, self.floor)
        )
        return replace(self, gain=-self.gain, low=low, high=high, floor=floor, ceiling=ceiling)


def _least(ends: Iterable[float | None]) -> float | None:
    known = list(ends)
    return None if None in known else min(end for end in known if end is not None)


def _mirror(name: str) -> str:
    return f"{name} (mirrored)"


def _paired(table: ScoreTable, axis: str, a: str, b: str, resampling: Resampling) -> Paired | None:
    """Compare two judges on one axis; None when no unit has both."""
    if axis not in _VALUES:
        return paired_shares(table, axis, a, b, resampling)
    gap = table.scores[a] - table.scores[b]
    both = ~np.isnan(gap)
    if not both.any():
        return None
    # Asks of one presentation are one unit.
    n = len(np.unique(table.presentation[both])) if table.presentation is not None else int(both.sum())
    gains, losses, sizes = (
        n / both.sum() * np.bincount(table.cluster[both], values[both], table.n_codes).astype(float)
        for values in (np.maximum(gap, 0.0), np.maximum(-gap, 0.0), np.ones(len(gap)))
    )
    sums, k = gains - losses, int((sizes > 0).sum())
    low, high = value_interval(gains, losses, sizes, 0.95) or (None, None)
    used = sizes > 0
    spread = sums[used] - sums.sum() / n * sizes[used]
    return Paired(
        difference=Difference(
            axis=axis,
            a=a,
            b=b,
            value=float(sums.sum()) / n,
            low=low,
            high=high,
            n=n,
            n_clusters=k,
            method="t of the values by cluster",
            equivalence=value_interval(gains, losses, sizes, 1 - 2 * ALPHA),
        ),
        standard_error=math.sqrt(k / max(1, k - 1) * float(np.square(spread).sum())) / n,
        n_units=n,
        sums=sums,
        flipped=lambda signs: signs @ sums,
    )


def _completed(table: ScoreTable, pair: Paired, *, first: bool, once: Resampling) -> Paired:
    """Pair two judges again with every lost call answered: the first at its least and the other at its most, or not."""
    a, b = pair.difference.a, pair.difference.b
    whole = table.completed(*((a, b) if first else (b, a)))
    return _paired(whole, pair.difference.axis, a, b, once) or pair


# --- the searched half

Ask = Callable[[RepairArm], AskedArm | None]
"""Asks an arm on a half of the tasks; None where there is no money left for it, or its calls failed."""


@dataclass(frozen=True, kw_only=True)
class TriedArm:
    """What an arm did on the searched half: it chooses what is decided, and proves nothing."""

    asked: AskedArm
    changes: tuple[AxisChange, ...]
    problems: tuple[str, ...]
    able: str | None

    @property
    def mended(self) -> float:
        """Sum of the gains on the problems."""
        return sum(change.gain for change in self.changes if change.axis in self.problems)

    @property
    def score(self) -> float:
        """What is mended less what is harmed elsewhere beyond its own error, a little less for a second change."""
        harms = [change.gain + change.error for change in self.changes if change.axis not in self.problems]
        second = 0.03 * (len(self.asked.arm.changes) - 1)
        return self.mended + sum(min(0.0, harm) for harm in harms) - second

    @property
    def is_promising(self) -> bool:
        """Whether it mends a problem by more than noise, and does no plain harm."""
        mends = [change for change in self.changes if change.axis in self.problems]
        clear = any(change.gain > max(_PROMISING * change.error, 0.02) for change in mends)
        harms = any(change.gain < -max(_HARMFUL * change.error, 0.02) for change in self.changes)
        lost = any(change.gain < -MOST_LOST for change in self.changes if change.axis == self.able)
        return clear and not harms and not lost and self.score > 0


def search_arms(
    unchanged: AskedArm, arms: Sequence[RepairArm], problems: Sequence[str], ask: Ask, **reading: Any
) -> list[TriedArm]:
    """Try every arm, then pairs of them, the most promising first, while there is money; the best comes first."""

    def tried(some: Iterable[RepairArm]) -> list[TriedArm]:
        asked = [own for own in map(ask, some) if own is not None]
        if not asked:
            return []
        mending = Mending(unchanged=unchanged, arms=asked, problems=problems, decides=False, **reading)
        changes: dict[str, list[AxisChange]] = {own.arm.name: [] for own in asked}
        for change in mending.changes():
            changes[change.arm].append(change)
        made = partial(TriedArm, problems=tuple(problems), able=mending.able)
        return [made(asked=own, changes=tuple(changes[own.arm.name])) for own in asked]

    single = sorted(tried(arms), key=lambda row: -row.score)
    pairs = [(a, b) for a, b in combinations(single, 2) if a.asked.arm.goes_with(b.asked.arm)]
    pairs.sort(key=lambda pair: -_expected(*pair))
    joint = tried(a.asked.arm.with_changes(b.asked.arm) for a, b in pairs[:MOST_PAIRS])
    return sorted([*single, *joint], key=lambda row: -row.score)


def _expected(a: TriedArm, b: TriedArm) -> float:
    """Return what two arms may mend together: on each problem as much as both, and no more than there is."""
    gains = {change.axis: change for change in a.changes}
    both = [(gains[change.axis], change) for change in b.changes if change.axis in gains and change.axis in b.problems]
    mended = sum(min(abs(one.before), max(0.0, one.gain) + max(0.0, two.gain)) for one, two in both)
    return mended + min(0.0, a.score - a.mended) + min(0.0, b.score - b.mended)


def finalists(tried: Sequence[TriedArm]) -> list[RepairArm]:
    """Return at most two arms that are worth deciding: the best, and a part of it or another. Each more costs power."""
    promising = [row.asked.arm for row in tried if row.is_promising]
    parts = [arm for arm in promising if arm.names < promising[0].names]
    others = [arm for arm in promising if not arm.names & promising[0].names]
    return [*promising[:1], *parts, *others][:MOST_DECIDED]


def asks_afforded(left: float, price: float) -> int:
    """Return how often the held-out half can be asked for what is left, at this price of all arms once."""
    return max(1, min(MOST_ASKS, int(left / price) if price else MOST_ASKS))


# --- the held-out half


@dataclass(frozen=True, kw_only=True)
class DecidedArm:
    """What the held-out half says of an arm."""

    asked: AskedArm
    changes: tuple[AxisChange, ...]
    problems: tuple[str, ...]
    able: str | None
    withheld: tuple[str, ...] = ()
    """Axes that have no number, because too many calls gave no usable answer."""

    @property
    def better(self) -> list[AxisChange]:
        """The problems that it mends, the largest gain first."""
        rows = [change for change in self.changes if change.state == "better" and change.axis in self.problems]
        return sorted(rows, key=lambda change: -change.gain)

    @property
    def worse(self) -> list[AxisChange]:
        """What it does worse."""
        return [change for change in self.changes if change.state == "worse"]

    @property
    def ability(self) -> AxisChange | None:
        """The change of what may not be lost."""
        return next((change for change in self.changes if change.axis == self.able), None)

    @property
    def refusal(self) -> str:
        """Why it is not recommended; empty where it is."""
        if self.worse:
            return f"worse: {', '.join(change.axis for change in self.worse)}"
        if self.withheld:
            return "too many of its calls gave no usable answer"
        if not self.better:
            return "no problem is shown to be better"
        if self.ability is None or self.ability.bound is None:
            return "this suite does not tell what ability it costs"
        return f"it may lose {self.ability.bound:.2f} of ability" if self.ability.bound >= MOST_LOST else ""

    @property
    def mended(self) -> float:
        """Sum of what is shown to be better among the problems."""
        return sum(change.gain for change in self.better)


def decide_arms(mending: Mending) -> list[DecidedArm]:
    """Decide every arm on the held-out half."""
    changes = mending.changes()
    return [
        DecidedArm(
            asked=asked,
            changes=tuple(change for change in changes if change.arm == asked.arm.name),
            problems=tuple(mending.problems),
            able=mending.able,
            withheld=tuple(
                axis
                for axis in mending.axes
                if mending.withheld(asked, axis) and not mending.withheld(mending.unchanged, axis)
            ),
        )
        for asked in mending.arms
    ]


def recommended(decisions: Sequence[DecidedArm]) -> DecidedArm | None:
    """Return the cheapest and simplest of the arms that pass and mend nearly as much as the best of them."""
    passing = [decision for decision in decisions if not decision.refusal]
    if not passing:
        return None
    best = max(passing, key=lambda decision: decision.mended)
    needed = {change.axis: _ON_EACH * change.gain for change in best.better}

    def is_enough(decision: DecidedArm) -> bool:
        gains = {change.axis: change.gain for change in decision.changes}
        return decision.mended >= _NEARLY * best.mended and all(gains[axis] >= least for axis, least in needed.items())

    enough = [decision for decision in passing if is_enough(decision)]
    return min(enough, key=lambda row: (row.asked.cost, len(row.asked.arm.changes), -row.mended))
