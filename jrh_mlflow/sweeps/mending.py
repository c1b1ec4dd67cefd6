"""Whether a change mends a judge: the searched half says what is worth deciding, the held-out half decides.

Per axis and arm the difference to the unchanged judge is paired by task, and decided by step-down max-T over all axes
and arms (`comparing.comparison`). A lean has two bad ends: |arm| < |base| holds where base − arm and base + arm have
one sign, so both are tests of the family and both must be told from 0. An arm is recommended where a problem is better,
nothing is worse, and the loss of ability over all ladder steps together is under 0.10 (one-sided 95 %).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property, partial
from itertools import combinations, islice
from typing import Any, Literal

import numpy as np
import pandas as pd

from jrh_mlflow.comparing import comparison
from jrh_mlflow.measures.axes import AXES, lower_is_better
from jrh_mlflow.measures.records import choices, has_steps, is_pointwise
from jrh_mlflow.measures.unit_scores import COLUMNS, AxisUnits, ScoreTable, every_axis_units, score_rows, score_table
from jrh_mlflow.measures.verdict import DROP, NOISE_EXCESS
from jrh_mlflow.schema.estimates import Reading
from jrh_mlflow.schema.items import BASELINE, USABLE
from jrh_mlflow.scoring.ledger import MAX_EXCLUDED, Resampling
from jrh_mlflow.show.names import axis_name
from jrh_mlflow.show.numbers import number_text
from jrh_mlflow.show.results import measure
from jrh_mlflow.sweeps.front import pareto
from jrh_mlflow.sweeps.interventions import RepairArm

ABILITY, AGREEMENT = "ability/all_steps", "agreement/accuracy"
LEANS = tuple(axis.name for axis in AXES if axis.signed)
"""Axes with two bad ends; their pairs have values from -1 to 1."""
_mirror = "{} (mirrored)".format
_VALUES = (*LEANS, ABILITY, "matched_ability")
"""Axes whose units count by halves: they are paired by value, others as the shares that they are."""
_OF_PAIRS = ("dark_current", "raw_false_preference", "miss_by_tie/delta_1", "matched_ability", "natural/accuracy")
ABLE = (ABILITY, "natural/accuracy", BASELINE, "pointwise/separation/delta_5", AGREEMENT)
"""What may not be lost: the first of these that a suite has."""
HALVES = ("searched", "held out")
"""By whether they decide."""
MOST_LOST = 0.10
"""Of ability: more must be excluded."""
MOST_DECIDED, MOST_PAIRS, MOST_ASKS = 2, 4, 3
"""Arms that are decided, pairs of changes that are tried, and asks of each presentation on the held-out half."""
_PROMISING, _HARMFUL = 1.5, 3.0
"""Standard errors by which an arm must mend a problem on the searched half, and by which it may harm nothing there."""
_NEARLY, _ON_EACH = 0.85, 0.5
"""An arm that mends this part of what the best one mends, and this part on each problem, is as good: price decides."""


@dataclass(frozen=True, kw_only=True)
class AskedArm:
    """An arm with its answers on one half of the tasks."""

    arm: RepairArm
    records: pd.DataFrame
    """As a user of the arm gets them: votes are counted, orders joined."""
    labels: Sequence[str] | None = None
    """What a pointwise judge may answer."""
    usd_per_1k: float | None = None
    """Dollars of 1,000 judgments; None where a price is unknown."""
    calls_per_judgment: int = 1
    run_id: str = ""
    """Empty where it was not logged."""

    @property
    def cost(self) -> float:
        """What arms are compared by: dollars, or calls where nobody knows the price."""
        return float(self.calls_per_judgment) if self.usd_per_1k is None else self.usd_per_1k

    @cached_property
    def readings(self) -> Mapping[str, Reading]:
        """Every axis that was measured."""
        return measure(self.records, labels=self.labels).estimates

    @cached_property
    def units(self) -> Mapping[str, AxisUnits]:
        """What every axis counts that is a mean over units."""
        return every_axis_units(self.records, labels=self.labels, any_mean=True)

    def scores(self, people: Mapping[str, str] | None) -> pd.DataFrame:
        """Return its scores by axis and unit, as `score_table` takes them; `people` have a label for some items."""
        units = every_axis_units(self.records, labels=self.labels, any_mean=True, leans=True)
        named = list(units.items())
        if not is_pointwise(self.records) or has_steps(self.records):
            named = [row for row in named if row[0] in (*LEANS, *_OF_PAIRS) or row[0].startswith("pointwise/")]
            named += [(ABILITY, own) for key, own in units.items() if key.startswith("ability/delta_")]
        scores = score_rows(named, np.unique(self.records["task"].to_numpy(object)))
        return pd.concat([scores, _agreement(self.records, people)], ignore_index=True) if people else scores


def _agreement(frame: pd.DataFrame, people: Mapping[str, str]) -> pd.DataFrame:
    own = frame[frame["suite_item"].isin(people.keys())]
    usable, shown = own["outcome"].isin(USABLE).to_numpy(), own["suite_item"] + "#" + own["order"]
    same = (choices(own) == own["suite_item"].map(people).to_numpy(object)).astype(float)
    scores = [np.where(usable, same, lost) for lost in (np.nan, 0.0, 1.0)]
    columns = (AGREEMENT, shown + "#" + own["replicate"].astype(str), shown, own["task"], *scores)
    rows: pd.DataFrame = pd.DataFrame(dict(zip(COLUMNS, columns, strict=True)))
    return rows


@dataclass(frozen=True, kw_only=True)
class AxisChange(comparison.Difference):
    """One axis of an arm (a) beside the unchanged judge (b): its value is what is gained, of a lean in its size."""

    before: float
    after: float
    error: float
    """Standard error over tasks."""
    bound: float | None
    """One-sided 95 %: the loss is under it, whatever lost calls would have been."""

    @property
    def state(self) -> Literal["better", "worse", "no difference shown"]:
        """What is decided."""
        return "no difference shown" if not self.told_apart else "better" if self.value > 0 else "worse"

    @property
    def largest_loss(self) -> float | None:
        """The largest loss that the interval allows; None where there is no interval."""
        return None if self.low is None else max(0.0, -self.low)


def problem_axes(findings: Iterable[str]) -> list[str]:
    """Return the axes on which these findings are decided: an effect of a test is the score of the test itself."""
    axes = [axis.removeprefix(NOISE_EXCESS).removeprefix(DROP) for axis in findings]
    return list(dict.fromkeys(ABILITY if axis == "ability" else axis for axis in axes))


# --- what a change does


@dataclass(frozen=True, kw_only=True)
class Mending:
    """Arms beside the unchanged judge on the same half of the tasks."""

    unchanged: AskedArm
    arms: Sequence[AskedArm]
    problems: Sequence[str]
    """Axes that are to be mended."""
    people: Mapping[str, str] | None = None
    """Item to the label that people gave it, as a judge of the suite would."""
    seed: int = 0
    decides: bool = True
    """False on the searched half, which only chooses."""

    @cached_property
    def table(self) -> ScoreTable:
        """Scores of all arms; of leans the mirror image of each arm beside it."""
        scores = {asked.arm.name: asked.scores(self.people) for asked in (self.unchanged, *self.arms)}
        for asked in self.arms:
            own = scores[asked.arm.name].loc[lambda rows: rows["axis"].isin(LEANS)]
            turned = {"score": 1 - own["score"], "least": 1 - own["most"], "most": 1 - own["least"]}
            scores[_mirror(asked.arm.name)] = own.assign(**turned)
        return score_table(scores, np.unique(self.unchanged.records["task"].to_numpy(object)))

    @cached_property
    def axes(self) -> dict[str, ScoreTable]:
        """What is decided, with its scores: the problems first, and only what the unchanged judge has a number of."""
        names = sorted(dict.fromkeys(self.table.axis), key=lambda axis: axis not in self.problems)
        return {axis: own for axis in names if not _is_withheld(own := self.table.of([axis]), self.unchanged)}

    def changes(self) -> list[AxisChange]:
        """Decide every axis of every arm, whatever lost calls would have been; while searching nothing is decided."""
        pair_up = partial(self._paired, n_resamples=2000 if self.decides else 1)
        tests = {
            (asked.arm.name, axis): [pair_up(own, axis, a, b) for a, b in self._contrasts(axis, asked.arm.name)]
            for asked in self.arms
            for axis, own in self.axes.items()
            if not _is_withheld(own, asked)
        }
        paired = [pair for pairs in tests.values() for pair in pairs if pair]
        decided, sides = [pair.difference for pair in paired], list[list[comparison.Paired]]()
        if self.decides:
            decide = partial(comparison.decided, n_clusters=self.table.n_codes, primary=self.axes, seed=self.seed)
            sides = comparison.completed_pairs(self.table, paired, self._paired)
            decided = comparison.whatever_was_lost(decide(paired), sides, decide)
        rows = zip(decided, paired, *sides, strict=True)
        told = {place: list(islice(rows, sum(map(bool, pairs)))) for place, pairs in tests.items()}
        return [self._change(*place, own) for place, own in told.items() if own]

    def _contrasts(self, axis: str, arm: str) -> list[tuple[str, str]]:
        """Return whose scores are subtracted, so that more is better; of a lean the two tests of its size."""
        base, scores = self.unchanged.arm.name, self.axes[axis].scores
        if axis not in LEANS:
            return [(base, arm) if lower_is_better(axis) else (arm, base)]
        # Turned so that the two leans together point to the first slot: then |base| − |arm| is the smaller one.
        is_turned = np.nansum(scores[base] - scores[_mirror(arm)]) < 0
        return [(own, base) if is_turned else (base, own) for own in (arm, _mirror(arm))]

    def _paired(self, table: ScoreTable, axis: str, a: str, b: str, n_resamples: int = 1) -> comparison.Paired | None:
        own = table.of([axis])
        if axis in _VALUES:
            return comparison.paired_values(own, axis, a, b)
        return comparison.paired_shares(own, axis, a, b, Resampling(seed=self.seed, n_resamples=n_resamples))

    def _change(self, arm: str, axis: str, tests: Sequence[tuple[Any, ...]]) -> AxisChange:
        """Read the tests of an axis: each its difference, the pair behind it, and the pairs with lost calls answered.

        Scores of leans are half of their values, which differ by up to 2, and their sizes by no more than 1.
        """
        times, rows = 2 if axis in LEANS else 1, [row for row, *_ in tests]
        first, pair, *_ = min(tests, key=lambda test: test[0].value)
        # Of values no share limits what sign flips claim: their interval must agree.
        told = all(row.told_apart and not (row.low is not None and row.low <= 0 <= row.high) for row in rows)
        ends = np.clip(times * np.array([(row.low, row.high) for row in rows], float).min(axis=0), -1, 1)
        low, high = (None if np.isnan(end) else float(end) for end in ends)
        known = [own.equivalence for row, _, *again in tests for own in (row, *(pair.difference for pair in again))]
        floor = min((ends[0] for ends in known if ends), default=None)
        own = {"a": arm, "b": self.unchanged.arm.name, "value": times * first.value, "low": low, "high": high}
        own |= {"told_apart": told, "p_adjusted": max(row.p_adjusted for row in rows)}
        means = (float(np.nanmean(self.axes[axis].scores[name])) for name in (self.unchanged.arm.name, arm))
        before, after = (2 * mean - 1 if axis in LEANS else mean for mean in means)
        return AxisChange(
            **{**asdict(first), **own},
            before=before,
            after=after,
            error=times * pair.standard_error,
            bound=None if floor is None else max(0.0, -times * floor),
        )


def _is_withheld(scores: ScoreTable, asked: AskedArm) -> bool:
    """Whether too many calls of an axis gave no usable answer for it to have a number."""
    return bool(np.isnan(scores.scores[asked.arm.name]).mean() > MAX_EXCLUDED)


@dataclass(frozen=True, kw_only=True)
class ReadArm:
    """What one half of the tasks says of an arm: the searched one chooses and proves nothing, the other decides."""

    asked: AskedArm
    changes: Sequence[AxisChange]
    half: Mending
    on_front: bool = False
    """Whether nothing on this half that costs no more mends more."""

    @property
    def on_problems(self) -> list[AxisChange]:
        """What it does to the problems."""
        return [change for change in self.changes if change.axis in self.half.problems]

    @property
    def withheld(self) -> list[str]:
        """Axes that have a number with the unchanged judge, and none with it."""
        return [axis for axis, own in self.half.axes.items() if _is_withheld(own, self.asked)]

    @property
    def better(self) -> list[AxisChange]:
        """The problems that it mends, the largest gain first."""
        return sorted((row for row in self.on_problems if row.state == "better"), key=lambda row: -row.value)

    @property
    def worse(self) -> list[AxisChange]:
        """What it does worse."""
        return [change for change in self.changes if change.state == "worse"]

    @property
    def ability(self) -> AxisChange | None:
        """The change of what may not be lost; None where this suite does not tell it."""
        able = next((axis for axis in ABLE if axis in self.half.table.axis), "")
        return next((change for change in self.changes if change.axis == able), None)

    @property
    def mended(self) -> float:
        """Sum of the gains on the problems; on the held-out half of what is shown to be better."""
        return sum(change.value for change in (self.better if self.half.decides else self.on_problems))

    @property
    def score(self) -> float:
        """What is mended less what is harmed elsewhere beyond its own error, a little less for a second change."""
        harms = sum(min(0.0, row.value + row.error) for row in self.changes if row.axis not in self.half.problems)
        return self.mended + harms - 0.03 * (len(self.asked.arm.changes) - 1)

    @property
    def is_promising(self) -> bool:
        """Whether it mends a problem by more than noise, and does no plain harm."""
        clear = any(change.value > max(_PROMISING * change.error, 0.02) for change in self.on_problems)
        harms = any(change.value < -max(_HARMFUL * change.error, 0.02) for change in self.changes)
        lost = self.ability is not None and self.ability.value < -MOST_LOST
        return clear and not harms and not lost and self.score > 0

    @property
    def refusal(self) -> str:
        """Why it is not recommended; empty where it is."""
        loss = self.ability.bound if self.ability else None
        reasons = {
            f"it is worse on {', '.join(axis_name(change.axis) for change in self.worse)}": self.worse,
            "too many of its calls gave no usable answer": self.withheld,
            "no problem is shown to be better": not self.better,
            "this suite does not tell what ability it costs": loss is None,
            f"it may lose {number_text(loss)} of ability": (loss or 0.0) >= MOST_LOST,
        }
        return next((reason for reason, holds in reasons.items() if holds), "")

    @property
    def outcome(self) -> str:
        """What came of it, in words."""
        if self.half.decides:
            return self.refusal or "mends, and no loss was seen"
        return "promising" if self.is_promising else "not promising"


def decide_arms(mending: Mending) -> list[ReadArm]:
    """Read every arm on a half of the tasks."""
    changes = mending.changes()
    rows = {asked.arm.name: [change for change in changes if change.a == asked.arm.name] for asked in mending.arms}
    return marked_front([ReadArm(asked=asked, changes=rows[asked.arm.name], half=mending) for asked in mending.arms])


def marked_front(rows: Sequence[ReadArm]) -> list[ReadArm]:
    """Mark who is on the front of cost and problems of a half, on which the unchanged judge may be."""
    points = [[row.half.unchanged.cost, 0.0] for row in rows[:1]] + [[row.asked.cost, row.mended] for row in rows]
    marks = pareto(np.array(points), (-1, 1))[1:].tolist() if rows else []
    return [replace(row, on_front=is_on) for row, is_on in zip(rows, marks, strict=True)]


# --- the searched half

Ask = Callable[[RepairArm], AskedArm | None]
"""Asks an arm on a half of the tasks; None where there is no money left for it, or its calls failed."""


def search_arms(
    unchanged: AskedArm, arms: Sequence[RepairArm], problems: Sequence[str], ask: Ask, **reading: Any
) -> list[ReadArm]:
    """Try every arm, then pairs of them, the most promising first, while there is money; the best comes first."""

    def tried(some: Iterable[RepairArm]) -> list[ReadArm]:
        asked = [*filter(None, map(ask, some))]
        return decide_arms(Mending(unchanged=unchanged, arms=asked, problems=problems, decides=False, **reading))

    single = sorted(tried(arms), key=lambda row: -row.score)
    pairs = [(a, b) for a, b in combinations(single, 2) if a.asked.arm.goes_with(b.asked.arm)]
    pairs.sort(key=lambda pair: -_expected(*pair))
    joint = tried(RepairArm(changes=(*a.asked.arm.changes, *b.asked.arm.changes)) for a, b in pairs[:MOST_PAIRS])
    return marked_front(sorted([*single, *joint], key=lambda row: -row.score))


def _expected(a: ReadArm, b: ReadArm) -> float:
    """Return what two arms may mend together: on each problem as much as both, and no more than there is."""
    both = [(one, two) for one in a.on_problems for two in b.on_problems if one.axis == two.axis]
    mended = sum(min(abs(one.before), max(0.0, one.value) + max(0.0, two.value)) for one, two in both)
    return mended + min(0.0, a.score - a.mended) + min(0.0, b.score - b.mended)


def finalists(tried: Sequence[ReadArm]) -> list[RepairArm]:
    """Return at most two arms that are worth deciding: the best, and a part of it or another. Each more costs power."""
    promising = [row.asked.arm for row in tried if row.is_promising]
    parts = [arm for arm in promising if arm.names < promising[0].names]
    others = [arm for arm in promising if not arm.names & promising[0].names]
    return [*promising[:1], *parts, *others][:MOST_DECIDED]


def asks_afforded(left: float, price: float) -> int:
    """Return how often the held-out half can be asked for what is left, at this price of all arms once."""
    return max(1, min(MOST_ASKS, int(left / price) if price else MOST_ASKS))


# --- the held-out half


def recommended(decisions: Sequence[ReadArm]) -> ReadArm | None:
    """Return the cheapest and simplest of the arms that pass and mend nearly as much as the best of them."""
    passing = [decision for decision in decisions if not decision.refusal]
    if not passing:
        return None
    best = max(passing, key=lambda decision: decision.mended)
    needed = {change.axis: _ON_EACH * change.value for change in best.better}

    def is_enough(decision: ReadArm) -> bool:
        gains = {change.axis: change.value for change in decision.changes}
        return decision.mended >= _NEARLY * best.mended and all(gains[axis] >= least for axis, least in needed.items())

    return min(filter(is_enough, passing), key=lambda row: (row.asked.cost, len(row.asked.arm.changes), -row.mended))
