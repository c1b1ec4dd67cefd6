"""Single responses of known level: answers as grades on one scale, and what is counted of them.

A judge of one response answers yes or no, or gives a score. Records of the conditions `SINGLE_CONDITIONS` carry the
level of the content, the number of requirements that it meets, in the column `delta`. Most axes need no more of the
answers than their order:

| axis | unit | what is averaged over the units |
|---|---|---|
| separation, δ | two levels of a task, δ apart | 1 where the higher has the better answer, 1/2 for the same answer |
| monotonicity | two levels with different answers | 1 where the higher level has the better answer |
| padding, padding penalty | padded and plain content | 1 where the padded one has the better (the worse) answer |
| repeat agreement | one content, asked again | share of its pairs of answers that are the same |
| dark current | call with nothing to judge | 1 where it is passed |
| mean answer, level | call | the answer, from 0 (lowest of the scale) to 1 (highest) |

A comparison of two contents is the mean over all pairs of their calls, so a content that was asked twice is compared by
each of its answers and still is one unit. An abstention has no place on a scale: it is passed by no vacuum, the same as
another abstention, and no answer anywhere else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, groupby
from typing import Any, Literal

import numpy as np
import pandas as pd

from jrh_mlflow.schema.estimates import NotEstimable, Reading
from jrh_mlflow.schema.items import SINGLE_LADDERS, SINGLE_PADDED, SINGLE_VACUUM
from jrh_mlflow.schema.presentation import LABEL_WORDS
from jrh_mlflow.scoring.ledger import MAX_EXCLUDED, ParallelArrays, Units, estimate_share, refuse, with_bounds
from jrh_mlflow.scoring.pointwise import in_order, is_number, left_out_counts, told_labels
from jrh_mlflow.stats import Array, Codes, Mask, Texts

PASSED = 0.1
"""How far up the scale an answer to nothing may stand before it counts as passed: a tenth of the way.

On a scale of up to ten levels (yes/no, 1 to 5, 1 to 10) that is every answer above the lowest, which is the only right
one for an empty response. On a finer scale (0 to 1, 0 to 100) it forgives what is nearly the lowest.
"""
STRAYS = 0.05
"""Most numbers, as a share, that may lie off the scale that all others are on."""
_TOPS = (1.0, 5.0, 10.0, 100.0)
"""Where scales usually end, for scores whose scale nobody states."""


@dataclass(frozen=True, kw_only=True, slots=True)
class GradeScale:
    """What the answers of a run are."""

    kind: Literal["yes/no", "scores", "labels", "no"]
    """`no`: there is not one answer that could be read."""
    low: float
    high: float
    stated: bool
    """False where the ends of a scale of scores were inferred from the answers."""

    def __str__(self) -> str:
        if self.kind != "scores":
            return f"{self.kind} answers"
        return f"scores from {self.low:g} to {self.high:g}{'' if self.stated else ' (inferred)'}"


def grades(answers: Sequence[str], labels: Sequence[str] | None) -> tuple[Array, GradeScale]:
    """Return each answer as a number from 0 (lowest) to 1 (highest), and the scale that this takes them to be on.

    Yes, pass and true are 1, no, fail and false are 0, whatever the case. Numbers are scores: on the scale of `labels`
    where that is one of numbers and holds them, else on one that is inferred: 0 to 1 if they lie there, otherwise up to
    5, 10 or 100 from 1 (from 0 where answers are lower or the top is 100), else from the lowest to the highest given. A
    scale holds them if at most 5 % lie outside; those are no answers. Other labels are taken from low to high as given.
    A run has one form of answers, the more frequent one: an answer of another form is NaN, as is one off the scale, one
    that is none of these and one that is empty.

    Example:
        >>> grades(["yes", "No", "4"], None)[0]
        array([ 1.,  0., nan])
        >>> values, scale = grades(["1", "4", "2"], None)
        >>> values, str(scale)
        (array([0.  , 0.75, 0.25]), 'scores from 1 to 5 (inferred)')
    """
    named = {label.casefold(): place for place, label in enumerate(labels or ())}
    words = {word: 1.0 - place for place, alike in enumerate(LABEL_WORDS) for word in alike}
    own = bool(named) and not any(name in words or is_number(name) for name in named)
    numbers = np.array([float(text) if is_number(text) else np.nan for text in answers], dtype=float)
    spoken = np.array([words.get(text.casefold(), np.nan) for text in answers], dtype=float)
    if own:
        spoken = np.array([named.get(text.casefold(), np.nan) for text in answers], dtype=float) / max(
            1, len(named) - 1
        )
    # The reading that explains more of the answers is taken; the rest is left out as unparsed.
    if np.isfinite(numbers).sum() <= np.isfinite(spoken).sum():
        kind: Literal["labels", "yes/no", "no"] = "labels" if own else "yes/no"
        return spoken, GradeScale(kind=kind if np.isfinite(spoken).any() else "no", low=0.0, high=1.0, stated=True)
    ends = [float(label) for label in labels or () if is_number(label)]
    scale = _scale_of_scores(numbers[np.isfinite(numbers)], ends if len(ends) == len(labels or ()) else [])
    values = (numbers - scale.low) / (scale.high - scale.low)
    return np.where((values < 0) | (values > 1), np.nan, values), scale


def _scale_of_scores(numbers: Array, labels: Sequence[float]) -> GradeScale:
    if labels and _holds(numbers, min(labels), max(labels)):
        return GradeScale(kind="scores", low=min(labels), high=max(labels), stated=True)
    top = next((top for top in _TOPS if _holds(numbers, 0.0, top)), None)
    if top is None:
        least, most = float(numbers.min()), float(numbers.max())
        return GradeScale(kind="scores", low=min(0.0, least), high=max(most, least + 1), stated=False)
    bottom = 1.0 if 1 < top <= 10 and _holds(numbers, 1.0, top) else 0.0
    return GradeScale(kind="scores", low=bottom, high=top, stated=False)


def _holds(numbers: Array, low: float, high: float) -> bool:
    """Whether a scale holds the answers but for strays: one -1 for "could not grade" must not move all the others."""
    return bool(np.mean((numbers >= low) & (numbers <= high)) >= 1 - STRAYS)


@dataclass(frozen=True, kw_only=True, slots=True)
class ResponseTable(ParallelArrays):
    """Calls on single responses of known level, as parallel arrays."""

    condition: Texts
    step: Array
    """Requirements met; NaN where there is nothing to judge."""
    item: Codes
    name: Texts
    """Of the item."""
    replicate: Codes
    task: Codes
    outcome: Texts
    """An answer in another form than the others of its run stands here as `unparsed`."""
    grade: Array
    """The answer from 0 to 1; NaN where there is none."""
    row: Codes
    """Place of the call among the records."""
    n_tasks: int
    scale: GradeScale
    max_excluded: float

    @property
    def answered(self) -> Mask:
        """Calls with an answer or an abstention."""
        return np.asarray(np.isfinite(self.grade) | (self.outcome == "abstain"))

    def of(self, *conditions: str) -> ResponseTable:
        """Return the calls of some conditions."""
        return self.where(np.isin(self.condition, conditions))


def response_table(
    frame: pd.DataFrame, *, labels: Sequence[str] | None = None, max_excluded: float = MAX_EXCLUDED
) -> ResponseTable:
    """Read normalised records of single responses of known level, in an order that the rows do not decide."""
    frame, row = in_order(frame, ["suite_item", "replicate"])
    grade, scale = grades(list(frame["answer"]), told_labels(frame, labels))
    outcome = frame["outcome"].to_numpy(object)
    tasks = pd.factorize(frame["task"], sort=True)
    return ResponseTable(
        condition=frame["condition"].to_numpy(object),
        step=frame["delta"].to_numpy(float),
        item=pd.factorize(frame["suite_item"], sort=True)[0],
        name=frame["suite_item"].to_numpy(object),
        replicate=frame["replicate"].to_numpy(np.intp),
        task=tasks[0],
        outcome=np.where((outcome == "verdict") & np.isnan(grade), "unparsed", outcome).astype(object),
        grade=grade,
        row=row,
        n_tasks=len(tasks[1]),
        scale=scale,
        max_excluded=max_excluded,
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class UnitScores:
    """What one number is the mean of."""

    unit: Literal["call", "pair", "item"]
    names: Sequence[str]
    """Of the units, the same for every judge on the suite."""
    task: Codes
    score: Array
    """From 0 to 1; NaN where the unit has no usable answer, or is none of those that count."""
    least: Array
    """The score if every lost call had gone against it; NaN where the unit does not count."""
    most: Array
    lost: Mask
    """Units without a score for want of usable answers."""
    calls: Mask
    """Which calls of the whole table stand behind the units."""
    answered: Mask
    """Which calls of the whole table count as an answer here."""
    presentation: Codes | None = None
    """Item of each unit, where a unit is one of its calls."""
    unit_of: Codes | None = None
    """Unit of each call of the whole table, -1 for those behind none. None: a call is behind several."""


Counting = Callable[[ResponseTable], Mapping[str, UnitScores]]
"""From calls to the units of each number of an axis, by the end of its key; empty for an axis of one number."""


def score_reading(table: ResponseTable, scores: UnitScores, *, what: str, none: str) -> Reading:
    """Average the scores, with both intervals and bounds; withheld by the share of its *calls* that were lost.

    Args:
        table: All calls.
        scores: The units.
        what: The calls in words, for reasons.
        none: Why there is no number where no unit counts.
    """
    lost = scores.calls & ~scores.answered
    calls = Units(
        what=what,
        unit="call",
        usable=scores.answered[scores.calls],
        clusters=table.task[scores.calls],
        n_codes=table.n_tasks,
        left_out=left_out_counts(table.outcome[lost]),
        max_excluded=table.max_excluded,
    )
    known = np.isfinite(scores.least)
    ends = (float(scores.least[known].mean()), float(scores.most[known].mean())) if known.any() else None
    reason = refuse(calls)
    if reason is not None:
        return with_bounds(reason, calls, ends)
    # Units without different answers have no score, and were not lost either: they leave the denominator.
    counted = np.isfinite(scores.score)
    if not counted.any() or ends is None:
        return NotEstimable(reason=none, n=0)
    among = counted | scores.lost
    units = replace(
        calls,
        unit=scores.unit,
        n_calls=None if scores.unit == "call" else int(scores.calls.sum()),
        usable=counted[among],
        clusters=scores.task[among],
        presentations=None if scores.presentation is None else scores.presentation[among],
    )
    extremes = scores.least[among], scores.most[among]
    base = estimate_share(units, scores.score[among], among=units.usable, extremes=extremes)
    return replace(base, bound_low=min(ends[0], base.value), bound_high=max(ends[1], base.value))


def _compared(first: ResponseTable, second: ResponseTable, name: str, distance: float) -> dict[str, Any]:
    """Compare the calls on one content with those on another: won where the second has the better answer."""
    # All pairs of calls, not of replicates with one number: replicates of two contents have no common order.
    gap = second.grade[None, :] - first.grade[:, None]
    # Equal on paper is equal whatever the last bit says.
    tied = np.abs(gap) < 1e-9
    counts = {"won": (gap > 0) & ~tied, "tied": tied, "fell": (gap < 0) & ~tied, "lost": np.isnan(gap)}
    return _pair(first, name, counts, distance=distance)


def _pair(content: ResponseTable, name: str, counts: Mapping[str, Mask], *, distance: float = 0.0) -> dict[str, Any]:
    """Return two contents of a task, or one asked twice, with their pairs of calls by how these compare."""
    where = {"name": name, "task": int(content.task[0]), "step": float(content.step[0]), "distance": distance}
    return {**where, **{field: int(which.sum()) for field, which in counts.items()}}


def _contents(calls: ResponseTable) -> dict[tuple[int, float], ResponseTable]:
    """Return the calls on each content: task and level to its calls."""
    contents: dict[tuple[int, float], ResponseTable] = {}
    for task in np.unique(calls.task):
        own = calls.where(calls.task == task)
        contents |= {(int(task), float(step)): own.where(own.step == step) for step in np.unique(own.step)}
    return contents


def _step_pairs(calls: ResponseTable) -> Iterator[dict[str, Any]]:
    contents = _contents(calls)
    for task, own in groupby(sorted(contents), key=lambda content: content[0]):
        for (_, low), (_, high) in combinations(own, 2):
            first, second = contents[task, low], contents[task, high]
            yield _compared(first, second, f"{first.name[0]} < {second.name[0]}", high - low)


def _padded_pairs(calls: ResponseTable) -> Iterator[dict[str, Any]]:
    plain, padded = (_contents(calls.of(condition)) for condition in (SINGLE_LADDERS[0], SINGLE_PADDED))
    for key in sorted(set(plain) & set(padded)):
        yield _compared(plain[key], padded[key], str(padded[key].name[0]), 0.0)


def _repeats(calls: ResponseTable) -> Iterator[dict[str, Any]]:
    for item in np.unique(calls.item):
        own = calls.where(calls.item == item)
        # An abstention is the same as another one, and as nothing else.
        answers = np.where(own.outcome == "abstain", -1.0, own.grade)
        gaps = np.array([abs(first - second) for first, second in combinations(answers, 2)])
        lost, same = np.isnan(gaps), gaps < 1e-9
        counts = {"won": same, "tied": np.zeros(0, dtype=bool), "fell": ~lost & ~same, "lost": lost}
        yield _pair(own, str(own.name[0]), counts)


def _scores(
    comparisons: Sequence[Mapping[str, Any]],
    calls: Mask,
    answered: Mask,
    *,
    halves: float,
    among: Sequence[str],
    unit: str,
    unit_of: Codes | None = None,
) -> UnitScores:
    """Score comparisons: the share that was won of those in `among`, a tie counting `halves`."""
    counts = {
        field: np.array([comparison[field] for comparison in comparisons], dtype=float)
        for field in ("won", "tied", "fell", "lost")
    }
    hits = counts["won"] + halves * counts["tied"]
    n = np.sum([counts[field] for field in among], axis=0) if comparisons else np.zeros(0)
    n_pairs = n + counts["lost"]
    with np.errstate(invalid="ignore", divide="ignore"):
        score, least, most = hits / n, hits / n_pairs, (hits + counts["lost"]) / n_pairs
    return UnitScores(
        unit=unit,  # type: ignore[arg-type]
        names=[comparison["name"] for comparison in comparisons],
        task=np.array([comparison["task"] for comparison in comparisons], dtype=np.intp),
        score=score,
        least=least,
        most=most,
        lost=np.asarray((n == 0) & (counts["lost"] > 0)),
        calls=calls,
        answered=answered,
        unit_of=unit_of,
    )


_EVERY = ("won", "tied", "fell")


def separation_scores(table: ResponseTable, *, condition: str) -> dict[str, UnitScores]:
    """Return for each distance of levels the chance that the higher one has the better answer, ties half (AUC)."""
    own = table.condition == condition
    pairs = list(_step_pairs(table.where(own)))
    scores = {}
    for distance in sorted({pair["distance"] for pair in pairs}):
        at = [pair for pair in pairs if pair["distance"] == distance]
        scores[f"delta_{distance:g}"] = _scores(
            at, _behind(table, own, distance), np.isfinite(table.grade), halves=0.5, among=_EVERY, unit="pair"
        )
    return scores


def _behind(table: ResponseTable, own: Mask, distance: float) -> Mask:
    """Return the calls of a ladder that are compared at a distance: those on a level that has a partner."""
    steps = np.unique(table.step[own])
    # A level in the middle of a short ladder may have no other at this distance.
    partner = [step for step in steps if np.isin([step - distance, step + distance], steps).any()]
    return np.asarray(own & np.isin(table.step, partner))


def monotonicity(table: ResponseTable, *, condition: str) -> dict[str, UnitScores]:
    """Return how often the higher of two levels that are answered differently has the better answer."""
    own = np.asarray(table.condition == condition)
    pairs = list(_step_pairs(table.where(own)))
    return {"": _scores(pairs, own, np.isfinite(table.grade), halves=0.0, among=("won", "fell"), unit="pair")}


def padding(table: ResponseTable, *, better: bool) -> dict[str, UnitScores]:
    """Return how often a padded content has a better answer than the plain one, or a worse one."""
    pairs = list(_padded_pairs(table))
    # Won and lost change places, so that the same mean reads as the penalty.
    if not better:
        pairs = [{**pair, "won": pair["fell"], "fell": pair["won"]} for pair in pairs]
    compared = {(pair["task"], pair["step"]): number for number, pair in enumerate(pairs)}
    places = zip(table.task.tolist(), table.step.tolist(), strict=True)
    unit_of = np.array([compared.get(place, -1) for place in places], dtype=np.intp)
    unit_of = np.where(np.isin(table.condition, (SINGLE_LADDERS[0], SINGLE_PADDED)), unit_of, -1)
    answered = np.isfinite(table.grade)
    scores = _scores(pairs, unit_of >= 0, answered, halves=0.0, among=_EVERY, unit="pair", unit_of=unit_of)
    return {"": scores}


def repeat_agreement(table: ResponseTable) -> dict[str, UnitScores]:
    """Return how many of the pairs of answers to one content of a ladder that was shown again are the same."""
    # Not of the vacuum, which is asked again only with further replicates and would raise the share.
    calls = np.asarray((np.bincount(table.item)[table.item] > 1) & np.isin(table.condition, SINGLE_LADDERS))
    unit_of = np.full(len(calls), -1, dtype=np.intp)
    # As `_repeats` goes through them: in order of the items.
    unit_of[calls] = np.unique(table.item[calls], return_inverse=True)[1]
    units = list(_repeats(table.where(calls)))
    return {"": _scores(units, calls, table.answered, halves=0.0, among=_EVERY, unit="item", unit_of=unit_of)}


def dark_current(table: ResponseTable) -> dict[str, UnitScores]:
    """Return which calls with nothing to judge are passed; an abstention is not."""
    calls = np.isin(table.condition, SINGLE_VACUUM)
    return {"": _of_calls(table, calls, (table.grade > PASSED).astype(float), table.answered)}


def mean_answer(table: ResponseTable, *, condition: str) -> dict[str, UnitScores]:
    """Return the answers at each level."""
    own = table.condition == condition
    return {
        f"level_{step:g}": _of_calls(
            table, np.asarray(own & (table.step == step)), table.grade, np.isfinite(table.grade)
        )
        for step in np.unique(table.step[own])
    }


def _of_calls(table: ResponseTable, calls: Mask, score: Array, answered: Mask) -> UnitScores:
    known = answered[calls]
    unit_of = np.where(calls, np.cumsum(calls) - 1, -1)
    names = [f"{name}#{nth}" for name, nth in zip(table.name[calls], table.replicate[calls], strict=True)]
    return UnitScores(
        unit="call",
        names=names,
        task=table.task[calls],
        score=np.where(known, score[calls], np.nan),
        # The bounds: every lost call gone against the score, and every one for it.
        least=np.where(known, score[calls], 0.0),
        most=np.where(known, score[calls], 1.0),
        lost=~known,
        calls=calls,
        answered=answered,
        presentation=table.item[calls],
        unit_of=unit_of,
    )
